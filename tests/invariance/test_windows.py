"""Windows with late records: what fires, how often and with which contents does not depend on how the job is cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import count, max, min, sum
from headrace.datastream.functions import ProcessWindowFunction
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.windowed_stream import WindowedStream
from headrace.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from headrace.windowing.session_assigners import EventTimeSessionWindows
from tests.invariance.driver import EVENT, WHOLE, Cut, Event, Job, cuts, examples, multiset, run
from tests.invariance.models import WindowModel, with_watermarks

LATE = OutputTag("late", EVENT)
CONTENTS = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING()])

events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 9), st.integers(-10, 40)), max_size=40)
shapes = st.tuples(st.sampled_from([(10, 10), (10, 5), (7, 3), (4, 6)]), st.sampled_from([0, 0, 3, 12]))


class Contents(ProcessWindowFunction):
    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Event]
    ) -> Iterator[tuple[str, int, int, str]]:
        window = context.window()
        yield key, window.start, window.end, ",".join(str(element[1]) for element in elements)


def windows(stream: DataStream, shape: Any, *, keeps_late: bool) -> WindowedStream:
    (size, slide), lateness = shape
    windowed = stream.key_by(lambda event: event[0]).window(SlidingEventTimeWindows.of(size, slide))
    if lateness:
        windowed.allowed_lateness(lateness)
    return windowed.side_output_late_data(LATE) if keeps_late else windowed


def model(split: list[Event], bound: int, shape: Any) -> WindowModel:
    (size, slide), lateness = shape
    return WindowModel(size, slide, lateness).run(with_watermarks(split, bound))


def late_records(found: WindowModel) -> list[Any]:
    return multiset([(event, event[2]) for event in found.late])


@examples(15, 500, split=events, bound=st.integers(0, 8), shape=shapes, cut=cuts, keeps_late=st.booleans())
def test_built_in_aggregates(split: list[Event], bound: int, shape: Any, cut: Cut, keeps_late: bool) -> None:
    def build(job: Job) -> None:
        windowed = windows(job.source("events", [split], bound), shape, keeps_late=keeps_late)
        results = windowed.aggregate(count(), sum("f1").alias("total"), min("f1").alias("low"), max("f1").alias("high"))
        job.sink("out", job.keyed("windows", results))
        if keeps_late:
            job.sink("late", results.get_side_output(LATE))

    outputs, found = run(build, cut), model(split, bound, shape)
    everything = [
        ((key, start, end, len(values), _sum(values), _min(values), _max(values)), end - 1)
        for key, start, end, values in found.on_time
    ]
    assert multiset(outputs["out"]) == multiset(everything)
    if keeps_late:
        assert multiset(outputs["late"]) == late_records(found)


@examples(15, 500, split=events, bound=st.integers(0, 8), shape=shapes, cut=cuts)
def test_contents(split: list[Event], bound: int, shape: Any, cut: Cut) -> None:
    def build(job: Job) -> None:
        results = windows(job.source("events", [split], bound), shape, keeps_late=True).process(Contents(), CONTENTS)
        job.sink("out", job.keyed("windows", results))
        job.sink("late", results.get_side_output(LATE))

    outputs, found = run(build, cut), model(split, bound, shape)
    fired = [((key, start, end, ",".join(map(str, values))), end - 1) for key, start, end, values in found.on_time]
    assert multiset(outputs["out"]) == multiset(fired)
    assert multiset(outputs["late"]) == late_records(found)


@examples(15, 400, split=events, bound=st.integers(0, 8), shape=shapes, cut=cuts)
def test_reduced(split: list[Event], bound: int, shape: Any, cut: Cut) -> None:
    """The function is not commutative: it shows the order in which records were combined."""

    def build(job: Job) -> None:
        windowed = windows(job.source("events", [split], bound), shape, keeps_late=True)
        results = windowed.reduce(lambda one, other: (one[0], 10 * one[1] + other[1], other[2]), Contents(), CONTENTS)
        job.sink("out", job.keyed("windows", results))
        job.sink("late", results.get_side_output(LATE))

    outputs, found = run(build, cut), model(split, bound, shape)
    fired = [((key, start, end, str(_digits(values))), end - 1) for key, start, end, values in found.on_time]
    assert multiset(outputs["out"]) == multiset(fired)
    assert multiset(outputs["late"]) == late_records(found)


def _digits(values: Iterable[int]) -> int:
    number, *rest = values
    for value in rest:
        number = 10 * number + value
    return number


def _sum(values: tuple[int, ...]) -> int:
    total = 0
    for value in values:
        total += value
    return total


def _min(values: tuple[int, ...]) -> int:
    return sorted(values)[0]


def _max(values: tuple[int, ...]) -> int:
    return sorted(values)[-1]


# --- sessions of records exactly a gap apart -------------------------------------------------------------------------

AHEAD = [("x", 0, -5), ("a", 1, 0), ("x", 0, 10)]
BEHIND = [("x", 0, 10), ("a", 2, 10)]
"""The last record is on time when both splits have come to 9, the last timestamp of the session that it continues."""

GAP = EventTimeSessionWindows.with_gap(10)


class OwnSessions(EventTimeSessionWindows):
    """Merges as its base does, by a method of its own."""

    def merge_windows(self, windows: Iterable[Any], callback: Any) -> None:
        super().merge_windows(list(windows), callback)


def values(stream: Any, assigner: WindowAssigner[Any, Any], lateness: int = 0) -> DataStream:
    """Of each key and session: start, end, values."""
    windowed = stream.key_by("f0").window(assigner).allowed_lateness(lateness).side_output_late_data(LATE)
    return windowed.process(Contents(), CONTENTS)


def counts(stream: Any, lateness: int) -> DataStream:
    """The same with the number of values in their place."""
    windowed = stream.key_by("f0").window(GAP).allowed_lateness(lateness).side_output_late_data(LATE)
    return windowed.aggregate(count())


def of_both(stream: Any, how: str) -> DataStream:
    """The values of both records of each pair, or of all records; of a stream with itself."""
    if how == "join":
        windows = stream.join(stream).where("f0").equal_to("f0").window(GAP)
        return windows.apply(lambda one, other: (one[0], 10 * one[1] + other[1]), output_type=PAIR)
    windows = stream.co_group(stream).where("f0").equal_to("f0").window(GAP)
    return windows.apply(lambda ones, others: [(ones[0][0], 10 * len(ones) + len(others))], output_type=PAIR)


PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
CONTENTS_OF_ONE = [("a", 0, 20, "1,2")]
SESSIONS: dict[str, tuple[Any, list[Any]]] = {
    "columns": (lambda stream: counts(stream, 0), [("a", 0, 20, 2)]),
    "columns, kept for late records": (lambda stream: counts(stream, 5), [("a", 0, 20, 2)]),
    "contents": (lambda stream: values(stream, GAP), CONTENTS_OF_ONE),
    "contents, kept for late records": (lambda stream: values(stream, GAP, 5), CONTENTS_OF_ONE),
    "gaps of records": (
        lambda stream: values(stream, EventTimeSessionWindows.with_dynamic_gap(lambda event: 10)),
        CONTENTS_OF_ONE,
    ),
    "an own class": (lambda stream: values(stream, OwnSessions(10)), CONTENTS_OF_ONE),
    "join": (lambda stream: of_both(stream, "join"), [("a", value) for value in (11, 12, 21, 22)]),
    "co-group": (lambda stream: of_both(stream, "co-group"), [("a", 22)]),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", SESSIONS)
@pytest.mark.parametrize(
    "cut", [WHOLE, Cut((2,), parallelism=(2, 1), restarts=frozenset({1, 2}))], ids=["whole", "in epochs"]
)
def test_sessions_of_records_exactly_a_gap_apart(kind: str, cut: Cut) -> None:
    """However far one split is ahead, a record on time at the end of a session continues it; no result is late."""
    define, expected = SESSIONS[kind]

    def build(job: Job) -> None:
        sessions = job.keyed("sessions", define(job.source("events", [AHEAD, BEHIND], 0)))
        job.sink("out", sessions.filter(lambda row: row[0] == "a"))
        again = sessions.filter(lambda row: row[0] == "a").key_by(lambda row: row[0], Types.STRING())
        windowed = again.window(TumblingEventTimeWindows.of(20)).side_output_late_data(OutputTag("too late"))
        rows = job.keyed("again", windowed.aggregate(count()))
        job.sink("again", rows)

    found = run(build, cut)
    assert multiset(found["out"]) == multiset([(row, 19) for row in expected])
    assert [(tuple(row), time) for row, time in found["again"]] == [(("a", 0, 20, len(expected)), 19)]
