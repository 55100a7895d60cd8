"""What becomes of what windows hold that are declared otherwise now: it is dropped, or moves into the new windows."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from headrace.common.errors import ConfigurationError, StateMigrationError
from headrace.common.typeinfo import Types
from headrace.datastream import AggregateFunction, ProcessWindowFunction
from headrace.datastream.aggregates import count, first, last, max, sum
from headrace.datastream.state import ValueStateDescriptor
from headrace.testing import Checkpoint, JobHarness
from headrace.windowing.assigners import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from headrace.windowing.triggers import CountTrigger
from tests.first_epochs import first_epoch
from tests.operators.window.test_stored_windows import (
    ASSIGNERS,
    DECLARATIONS,
    EVENT,
    FOR_EACH_RECORD,
    KINDS,
    larger,
    over,
)

OPTION = "execution.state-recovery.changed-windows"
BACKENDS = ["hashmap", "rocksdb"]
Build = Callable[[JobHarness], None]


def told(what: str, backend: str = "hashmap") -> dict[str, str]:
    return {OPTION: f"windows={what}", "state.backend.type": backend}


def left(build: Build, records: list[tuple[Any, int]], backend: str = "hashmap", parallelism: int = 1) -> Checkpoint:
    """What a job leaves, record by record in an epoch of its own."""
    with JobHarness(build, parallelism=parallelism, configuration={"state.backend.type": backend}) as harness:
        for record, timestamp in records:
            harness.push("events", record, timestamp)
            harness.run_epoch()
        return harness.checkpoint()


def made(name: str, declarations: dict[str, Callable[[Any], Any]], keyed: bool) -> Build:
    def build(harness: JobHarness) -> None:
        events = harness.add_source("events", EVENT)
        windows = declarations[name](events.key_by("f0") if keyed else events)
        if are_windows(windows):
            windows = windows.reduce(larger) if declarations is FOR_EACH_RECORD else windows.aggregate(sum("f1"))
        harness.add_sink("out", windows.uid("windows"))

    return build


def are_windows(stream: Any) -> bool:
    return not hasattr(stream, "uid")


EVERYTHING: dict[str, Build] = {
    **{f"declared {name}": made(name, DECLARATIONS, keyed=False) for name in DECLARATIONS if name != "another key"},
    **{f"of kind {name}": made(name, KINDS, keyed=True) for name in KINDS},
    **{f"for each record {name}": made(name, FOR_EACH_RECORD, keyed=True) for name in FOR_EACH_RECORD},
}


ALWAYS = {"declared sum": "rocksdb"}
"""What is tried whenever tests run, and on which backend; it has all the others go on from it."""


def refuses(build: Build, checkpoint: Checkpoint, backend: str) -> bool:
    try:
        first_epoch(build, checkpoint, configuration={"state.backend.type": backend})
    except StateMigrationError:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "backend"),
    [
        pytest.param(name, backend, marks=() if ALWAYS.get(name) == backend else pytest.mark.slow)
        for name in EVERYTHING
        for backend in BACKENDS
    ],
)
def test_what_is_refused_otherwise_is_dropped_where_that_is_asked_for(before: str, backend: str) -> None:
    checkpoint = left(EVERYTHING[before], [(("victim", 7), 1)], backend)
    refusing = [name for name, build in EVERYTHING.items() if refuses(build, checkpoint, backend)]
    assert before not in refusing
    assert refusing
    for after in refusing:
        with JobHarness(EVERYTHING[after], restore=checkpoint, configuration=told("drop", backend)) as harness:
            harness.push_all("events", [("b", number) for number in range(9)], [2 + number % 5 for number in range(9)])
            harness.run_epoch()
            dropped = harness.counters()["numRowsOfChangedWindowsDropped"]
            assert dropped > 0
            again = harness.checkpoint()
            harness.finish()
            assert "victim" not in str(harness.results("out")), after
        with JobHarness(EVERYTHING[after], restore=again, configuration=told("drop", backend)) as harness:
            harness.push("events", ("b", 1), 3)
            harness.run_epoch()
            assert harness.counters()["numRowsOfChangedWindowsDropped"] == dropped, "when the same command is run again"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("before", "contents"),
    [(name, ("summed", "reduced")[number % 2]) for number, name in enumerate(ASSIGNERS)],
)
def test_windows_of_another_size_slide_or_offset_begin_empty(before: str, contents: str) -> None:
    checkpoint = left(over(ASSIGNERS[before], contents), [(("a", 7), 4)])
    for after, assigner in ASSIGNERS.items():
        with JobHarness(over(assigner, contents), restore=checkpoint, configuration=told("drop")) as harness:
            harness.push("events", ("a", 1), 4)
            harness.finish()
            assert 1 in {row[-1] for row in harness.results("out")} or before == after
            assert ("numRowsOfChangedWindowsDropped" in harness.counters()) is (before != after)


def test_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = left(over(TumblingEventTimeWindows.of(10), "summed"), [(("a", 7), 4), (("b", 7), 4)])
    build = over(TumblingEventTimeWindows.of(20), "summed")
    with (
        caplog.at_level(logging.WARNING),
        JobHarness(build, restore=checkpoint, configuration=told("drop")) as harness,
    ):
        harness.run_epoch()
    assert "(uid windows): what windows held is dropped for good, as was asked for: 2 rows" in caplog.text
    assert "another size in milliseconds: stored 10, declared 20" in caplog.text


class Numbered(ProcessWindowFunction):
    """How many windows of the key there have been."""

    def process(self, key: str, context: Any, elements: Any) -> Any:
        number = context.global_state().get_state(ValueStateDescriptor("number", Types.LONG()))
        number.update((number.value() or 0) + 1)
        yield f"{key} {sorted(row[1] for row in elements)} number {number.value()}"


def numbered(assigner: WindowAssigner[Any, Any], trigger: Any = None) -> Build:
    def build(harness: JobHarness) -> None:
        windows = harness.add_source("events", EVENT).key_by("f0").window(assigner)
        if trigger is not None:
            windows = windows.trigger(trigger)
        harness.add_sink("out", windows.process(Numbered(), Types.STRING()).uid("windows"))

    return build


@pytest.mark.parametrize("trigger", [None, CountTrigger.of(2)])
def test_state_that_a_function_keeps_by_key_stays(trigger: Any) -> None:
    records = [(("a", 1), 1), (("a", 2), 2), (("a", 3), 13)]
    with JobHarness(numbered(TumblingEventTimeWindows.of(10), trigger)) as harness:
        harness.push_all("events", *zip(*records, strict=True))
        harness.advance_watermark("events", 10)
        checkpoint = harness.checkpoint()
    build = numbered(TumblingEventTimeWindows.of(20, 5), trigger)
    with JobHarness(build, restore=checkpoint, configuration=told("drop")) as harness:
        harness.push_all("events", [("a", 4), ("a", 5)], [14, 15])
        harness.finish()
        assert harness.results("out") == ["a [4, 5] number 2"]
        assert harness.counters()["numRowsOfChangedWindowsDropped"] > 0


# --- moving ----------------------------------------------------------------------------------------------------------


class Mean(AggregateFunction):
    """Count and sum."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]


class Listed(ProcessWindowFunction):
    """Key, window, and what comes of it."""

    def process(self, key: str, context: Any, elements: Any) -> Any:
        window = context.window()
        yield key, window.start, window.end, str(sorted(map(tuple, elements)))


PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
LISTED = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING()])


def added(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1]


def totals(rows: list[tuple[str, int]]) -> int:
    return builtins.sum(number for _, number in rows)


CONTENTS: dict[str, tuple[Callable[[Any], Any], Callable[[list[tuple[str, int]]], Any]]] = {
    "aggregates": (
        lambda windows: windows.aggregate(count(), sum("f1"), max("f1"), first("f1"), last("f1")),
        lambda rows: (len(rows), totals(rows), *_bounds(rows)),
    ),
    "reduced": (
        lambda windows: windows.reduce(added, Listed(), LISTED),
        lambda rows: (str([(rows[0][0], totals(rows))]),),
    ),
    "folded": (
        lambda windows: windows.aggregate(Mean(), Listed(), PAIR, LISTED),
        lambda rows: (str([(len(rows), totals(rows))]),),
    ),
    "elements": (
        lambda windows: windows.process(Listed(), LISTED),
        lambda rows: (str(sorted(rows)),),
    ),
}


def _bounds(rows: list[tuple[str, int]]) -> tuple[int, int, int]:
    numbers = [number for _, number in rows]
    return builtins.max(numbers), numbers[0], numbers[-1]


def moving(assigner: WindowAssigner[Any, Any], contents: str, lateness: int = 0) -> Build:
    def build(harness: JobHarness) -> None:
        windows = harness.add_source("events", EVENT).key_by("f0").window(assigner).allowed_lateness(lateness)
        harness.add_sink("out", CONTENTS[contents][0](windows).uid("windows"))

    return build


def tumbling(size: int, offset: int = 0) -> TumblingEventTimeWindows:
    return TumblingEventTimeWindows.of(size, offset)


def sliding(size: int, slide: int, offset: int = 0) -> SlidingEventTimeWindows:
    return SlidingEventTimeWindows.of(size, slide, offset)


UNIONS = [
    (tumbling(10), tumbling(20)),
    (tumbling(10), tumbling(50)),
    (tumbling(10, 3), tumbling(30, 13)),
    (tumbling(10), sliding(20, 10)),
    (tumbling(10), sliding(40, 20, 10)),
    (tumbling(10), sliding(10, 20)),
]

BEFORE = [
    (("a", 1), 21),
    (("b", 2), 22),
    (("a", 9), 24),
    (("a", 3), 35),
    (("b", 4), 47),
    (("a", 5), 33),
    (("a", 6), 48),
]
AFTER: list[tuple[Any, int]] = [(("a", 7), 36), (("b", 8), 51), (("c", 10), 59)]
SHOWN = 30
"""The watermark before the change: what old windows had that end up to there is shown."""


def wanted(after: Any, contents: str, moved: list[tuple[Any, int]]) -> list[tuple[Any, ...]]:
    """What new windows show of records: those that old windows have not shown, and those that came after."""
    windows = after.aligned
    held: dict[tuple[str, int, int], list[tuple[str, int]]] = {}
    for record, timestamp in moved:
        for window in windows.windows_of(timestamp):
            held.setdefault((record[0], window.start, window.end), []).append(record)
    return sorted((*window, *CONTENTS[contents][1](rows)) for window, rows in held.items())


def moves() -> Iterator[Any]:
    """Unions by contents; all but every other pair, on one backend and with one change of parallelism, are slow."""
    for (row, (before, after)), (column, contents) in product(enumerate(UNIONS), enumerate(CONTENTS)):
        always = (row // 2 + column // 2) % 2, row % 2
        for (one, backend), (other, parallelism) in product(enumerate(BACKENDS), enumerate([(1, 1), (3, 2)])):
            is_fast = (row + column) % 2 == 0 and (one, other) == always
            marks = () if is_fast else pytest.mark.slow
            yield pytest.param(before, after, contents, backend, parallelism, marks=marks)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("before", "after", "contents", "backend", "parallelism"), list(moves()), ids=str)
def test_what_was_not_shown_moves(before: Any, after: Any, contents: str, backend: str, parallelism: Any) -> None:
    with JobHarness(
        moving(before, contents), parallelism=parallelism[0], configuration={"state.backend.type": backend}
    ) as harness:
        for record, timestamp in BEFORE:
            harness.push("events", record, timestamp)
            harness.run_epoch()
        harness.advance_watermark("events", SHOWN)
        checkpoint = harness.checkpoint()
    shown = [pair for pair in BEFORE if before.aligned.windows_of(pair[1])[0].end - 1 <= SHOWN]
    assert shown
    settings = told("reaggregate", backend)
    with JobHarness(
        moving(after, contents), parallelism=parallelism[1], restore=checkpoint, configuration=settings
    ) as harness:
        for record, timestamp in AFTER[:1]:
            harness.push("events", record, timestamp)
        harness.run_epoch()
        assert harness.counters()["numRowsOfChangedWindowsMoved"] > 0
        again = harness.checkpoint()
    with JobHarness(moving(after, contents), restore=again, configuration=settings) as harness:
        for record, timestamp in AFTER[1:]:
            harness.push("events", record, timestamp)
        harness.finish()
        moved = [pair for pair in [*BEFORE, *AFTER] if pair not in shown]
        assert sorted(map(tuple, harness.results("out"))) == wanted(after, contents, moved)


OVERLAPPING = [
    (sliding(20, 10), tumbling(20)),
    (sliding(20, 10), tumbling(10)),
    (sliding(20, 10), sliding(40, 10)),
    (sliding(20, 10), sliding(30, 20)),
    (sliding(30, 20), tumbling(10)),
    (tumbling(10), sliding(30, 10)),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("before", "after"), OVERLAPPING, ids=str)
def test_panes_of_built_in_aggregates_move_where_they_are_still_held(before: Any, after: Any) -> None:
    """Whole windows of them show what they would have shown; no window has begun yet that a shown one has left."""
    records = [(("a", number), 40 + number) for number in range(0, 40, 3)]
    checkpoint = left(moving(before, "aggregates"), records)
    with JobHarness(moving(after, "aggregates"), restore=checkpoint, configuration=told("reaggregate")) as harness:
        harness.push("events", ("b", 1), 85)
        harness.finish()
        expected = wanted(after, "aggregates", [*records, (("b", 1), 85)])
        assert sorted(map(tuple, harness.results("out"))) == expected


REFUSED = {
    "shorter": (tumbling(20), tumbling(10), "pieces of 20 ms"),
    "shifted": (tumbling(10), tumbling(10, 5), "shifted by 5 ms, would begin or end within"),
    "no multiple": (tumbling(10), tumbling(15), "new ones of 15 ms"),
    "another slide": (tumbling(10), sliding(20, 5), "every 5 ms"),
    "gaps": (sliding(10, 15), tumbling(30), "the old windows leave gaps"),
    "no panes": (sliding(10, 7), tumbling(70), "overlap, so a record is in several of them"),
    "growing": (
        CumulatingEventTimeWindows.of(20, 10),
        tumbling(20),
        "not of windows of one size|have a trigger, assigner",
    ),
    "into growing": (
        tumbling(10),
        CumulatingEventTimeWindows.of(20, 10),
        "new windows are not of one size|now they have another",
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("contents", ["aggregates", "elements"])
@pytest.mark.parametrize("name", REFUSED)
def test_where_that_cannot_be_right_it_is_refused_with_the_reason(name: str, contents: str) -> None:
    before, after, reason = REFUSED[name]
    checkpoint = left(moving(before, contents), [(("a", 7), 4)])
    with pytest.raises(StateMigrationError, match=reason) as error:
        first_epoch(moving(after, contents), checkpoint, configuration=told("reaggregate"))
    assert "execution.state-recovery.changed-windows" in str(error.value)


def test_other_aggregates_or_keys_do_not_move() -> None:
    checkpoint = left(over(tumbling(10), "summed"), [(("a", 7), 4)])
    build = moving(tumbling(20), "aggregates")
    with pytest.raises(StateMigrationError, match="another set of aggregates"):
        first_epoch(build, checkpoint, configuration=told("reaggregate"))


class NotMerging(Mean):
    """Forgets to merge."""

    def merge(self, a: Any, b: Any) -> Any:
        return None


def test_a_function_that_does_not_merge_is_told() -> None:
    def build(assigner: Any, function: Any) -> Build:
        def job(harness: JobHarness) -> None:
            windows = harness.add_source("events", EVENT).key_by("f0").window(assigner)
            harness.add_sink("out", windows.aggregate(function, None, PAIR, PAIR).uid("windows"))

        return job

    checkpoint = left(build(tumbling(10), Mean()), [(("a", 7), 4), (("a", 8), 14)])
    with (
        JobHarness(build(tumbling(20), NotMerging()), restore=checkpoint, configuration=told("reaggregate")) as harness,
        pytest.raises(Exception, match="merge returned None: return the accumulator"),
    ):
        harness.run_epoch()


def test_windows_with_a_trigger_of_their_own_do_not_move() -> None:
    checkpoint = left(numbered(tumbling(10), CountTrigger.of(9)), [(("a", 7), 4)])
    build = numbered(tumbling(20), CountTrigger.of(9))
    with pytest.raises(StateMigrationError, match="they have a trigger, evictor or clock of their own"):
        first_epoch(build, checkpoint, configuration=told("reaggregate"))


@pytest.mark.parametrize("contents", CONTENTS)
def test_what_was_shown_and_kept_for_late_records_does_not_move(contents: str) -> None:
    with JobHarness(moving(tumbling(10), contents, 100)) as harness:
        harness.push_all("events", [("a", 1), ("a", 2)], [5, 15])
        harness.advance_watermark("events", 10)
        checkpoint = harness.checkpoint()
    build = moving(tumbling(20), contents, 100)
    with JobHarness(build, restore=checkpoint, configuration=told("reaggregate")) as harness:
        harness.push("events", ("a", 3), 6)
        harness.finish()
        assert sorted(map(tuple, harness.results("out"))) == wanted(
            tumbling(20), contents, [(("a", 2), 15), (("a", 3), 6)]
        )


def test_what_is_told_of_no_windows_is_refused() -> None:
    build = over(tumbling(10), "summed")
    with pytest.raises(ConfigurationError, match="uid windwos, which are no windows or joins"):
        JobHarness(build, configuration={OPTION: "windwos=drop"})
    with pytest.raises(ConfigurationError, match="windows=merge: the choices are fail, drop, reaggregate"):
        JobHarness(build, configuration={OPTION: "windows=merge"})
