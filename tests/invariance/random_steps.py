"""Steps of random programs that keep no state of their own, and windows: what each gives is told beside it.

Records are (key, value, time).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from headrace.common import Time
from headrace.common.output_tag import OutputTag
from headrace.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoGroupFunction,
    FlatJoinFunction,
    ProcessFunction,
    ProcessWindowFunction,
    aggregates,
)
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.window import (
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from headrace.expressions import left, right
from tests.invariance.driver import EVENT, Event, Job

SIDE: Final = OutputTag("side", EVENT)
LATE: Final = OutputTag("late", EVENT)
HOW: Final = ("inner", "left", "right", "outer")
GAPS: Final = (5, 10)
MOST_RECORDS: Final = 150
"""A stream has no more: joins of joins make many of few."""


def folded(*numbers: int) -> int:
    """A number of several, in which their order shows."""
    found = 0
    for number in numbers:
        found = (found * 31 + number) % 97
    return found


def by_key(events: Iterable[Event]) -> Iterator[tuple[str, list[Event]]]:
    for key, of_key in groupby(sorted(events), itemgetter(0)):
        yield key, list(of_key)


def of_keys(*streams: Sequence[Event]) -> Iterator[tuple[str, list[list[Event]]]]:
    """Each key, with what every stream has of it."""
    for key in sorted({event[0] for stream in streams for event in stream}):
        yield key, [[event for event in stream if event[0] == key] for stream in streams]


@dataclass(frozen=True)
class Step(ABC):
    """An operator of a program.

    Attributes:
        inputs: which streams it reads, by their numbers.
        chance: what the rest is drawn from: two numbers.
    """

    inputs: tuple[int, ...]
    chance: tuple[int, int]

    reads = 1

    @abstractmethod
    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        """Its results, as the job has them."""

    @abstractmethod
    def model(self, *streams: list[Event]) -> list[Event]:
        """Its results, in any order."""


class Stamped(ProcessFunction):
    """Sets the time of a record to its timestamp, which event time has not reached yet: no result is late."""

    def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[Event]:
        assert ctx.timestamp() > ctx.timer_service().current_watermark(), f"{value} is late"
        yield value[0], value[1], ctx.timestamp()


def stamped(stream: Any) -> DataStream:
    return stream.process(Stamped(), EVENT)


# --- operators without keys ------------------------------------------------------------------------------------------


class Map(Step):
    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        return streams[0].map(self.mapped, EVENT)

    def model(self, *streams: list[Event]) -> list[Event]:
        return [self.mapped(event) for event in streams[0]]

    def mapped(self, event: Event) -> Event:
        key = "abc"[event[1] % 3] if self.chance[0] % 2 else event[0]
        return key, folded(event[1], self.chance[1]), event[2]


class Copies(Step):
    """None, one or two of each record."""

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        return streams[0].flat_map(self.copies, EVENT)

    def model(self, *streams: list[Event]) -> list[Event]:
        return [copy for event in streams[0] for copy in self.copies(event)]

    def copies(self, event: Event) -> list[Event]:
        return [event] * ((event[1] + self.chance[0]) % 3)


class Split(ProcessFunction):
    """Some records by the main output, some by the side output, some by both."""

    def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value[1] % 2:
            yield SIDE, value
        if value[1] % 3:
            yield value


class SideOutput(Step):
    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        split = streams[0].process(Split(), EVENT)
        return split.get_side_output(SIDE) if self.chance[0] % 2 else split

    def model(self, *streams: list[Event]) -> list[Event]:
        divisor = 2 if self.chance[0] % 2 else 3
        return [event for event in streams[0] if event[1] % divisor]


class Union(Step):
    reads = 2

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        return streams[0].union(streams[1])

    def model(self, *streams: list[Event]) -> list[Event]:
        return [*streams[0], *streams[1]]


class Ask(AsyncFunction):
    async def async_invoke(self, value: Event) -> list[Event]:
        return [(value[0], folded(value[1], 5), value[2])] if value[1] % 5 else []


class Asked(Step):
    """A service is asked, in order or not."""

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        wait = AsyncDataStream.ordered_wait if self.chance[0] % 2 else AsyncDataStream.unordered_wait
        return wait(streams[0], Ask(), Time.minutes(1), 3, EVENT)

    def model(self, *streams: list[Event]) -> list[Event]:
        return [(key, folded(value, 5), time) for key, value, time in streams[0] if value % 5]


# --- windows ---------------------------------------------------------------------------------------------------------


class OwnSessions(EventTimeSessionWindows):
    """Merges as its base does, by a method of its own."""

    def merge_windows(self, windows: Iterable[Any], callback: Any) -> None:
        super().merge_windows(list(windows), callback)


def own_gap(event: Event) -> int:
    return GAPS[event[1] % 2]


Spans = Callable[[list[Event]], list[tuple[int, int]]]


def regular(size: int, slide: int) -> Spans:
    def spans(events: list[Event]) -> list[tuple[int, int]]:
        starts = {time - time % slide - back for _, _, time in events for back in range(0, size, slide)}
        return [(start, start + size) for start in sorted(starts)]

    return spans


def cumulating(size: int, step: int) -> Spans:
    return lambda events: sorted(
        {(time - time % size, time - time % size + end) for _, _, time in events for end in range(step, size + 1, step)}
    )


def sessions(gap: Callable[[Event], int]) -> Spans:
    def spans(events: list[Event]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for event in sorted(events, key=itemgetter(2)):
            start, end = event[2], event[2] + gap(event)
            if found and start <= found[-1][1]:
                start, end = found[-1][0], max(end, found.pop()[1])
            found.append((start, end))
        return found

    return spans


WINDOWS: Final[list[tuple[Any, Spans]]] = [
    (TumblingEventTimeWindows.of(10), regular(10, 10)),
    (SlidingEventTimeWindows.of(10, 5), regular(10, 5)),
    (CumulatingEventTimeWindows.of(10, 5), cumulating(10, 5)),
    *((EventTimeSessionWindows.with_gap(gap), sessions(lambda _, gap=gap: gap)) for gap in GAPS),  # type: ignore[misc]
    (OwnSessions(10), sessions(lambda _: 10)),
]
OF_ONE_STREAM: Final = [*WINDOWS, (EventTimeSessionWindows.with_dynamic_gap(own_gap), sessions(own_gap))]


def in_windows(spans: Spans, *streams: Sequence[Event]) -> Iterator[tuple[str, int, list[list[Event]]]]:
    """Each key and window that has records: the key, the last timestamp, and what every stream has."""
    for key, of_key in of_keys(*streams):
        for start, end in spans([event for events in of_key for event in events]):
            held = [[event for event in events if start <= event[2] < end] for events in of_key]
            if any(held):
                yield key, end - 1, held


class Values(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Event]) -> Iterator[Event]:
        yield key, folded(*sorted(element[1] for element in elements)), 0


class Windows(Step):
    """Built-in aggregates or a function; late records are allowed or not, and asked for or not."""

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        windowed = streams[0].key_by("f0").window(self._windows[0])
        if self.chance[1] % 4 == 1:
            windowed = windowed.allowed_lateness(5)
        if self.chance[1] % 3 == 1:
            windowed = windowed.side_output_late_data(LATE)
        results = self._results(windowed)
        results = job.keyed(uid, results)
        if self.chance[1] % 3 == 1:
            job.sink(f"{uid}-late", results.get_side_output(LATE))
        if self._is_columnar:
            results = results.map(lambda row: (row["f0"], folded(row["number"], row["total"]), 0), EVENT)
        return stamped(results)

    def _results(self, windowed: Any) -> Any:
        if self._is_columnar:
            return windowed.aggregate(aggregates.count().alias("number"), aggregates.sum("f1").alias("total"))
        return windowed.process(Values(), EVENT)

    def model(self, *streams: list[Event]) -> list[Event]:
        return [
            (key, self._value([event[1] for event in events]), last)
            for key, last, (events,) in in_windows(self._windows[1], streams[0])
        ]

    def _value(self, values: list[int]) -> int:
        return folded(len(values), sum(values)) if self._is_columnar else folded(*sorted(values))

    @property
    def _windows(self) -> tuple[Any, Spans]:
        return OF_ONE_STREAM[self.chance[0] % len(OF_ONE_STREAM)]

    @property
    def _is_columnar(self) -> bool:
        return self.chance[1] % 2 == 0


def paired(one: Event | None, other: Event | None) -> Event:
    shown = one or other
    assert shown is not None
    return shown[0], folded(-1 if one is None else one[1], -1 if other is None else other[1]), 0


class EachTwice(FlatJoinFunction):
    def join(self, first: Event, second: Event) -> Iterator[Event]:
        yield from [paired(first, second)] * 2


SELECTED: Final = tuple(side(field).alias(f"{side.__name__}{field}") for side in (left, right) for field in (0, 1))
"""Keys and values of both sides."""


def of_selected(row: Any) -> Event:
    """The same as :func:`paired` of the records that expressions show."""
    one, other = (None if row[at] is None else (row[at], row[at + 1], 0) for at in (0, 2))
    return paired(one, other)


class WindowJoin(Step):
    """By a function of pairs, by one that gives two records of each, or by expressions."""

    reads = 2

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        joined = streams[0].join(streams[1], self._how).where("f0").equal_to("f0").window(self._windows[0])
        if self._way == "columns":
            selected = joined.select(*SELECTED)
            if isinstance(self._windows[0], MergingWindowAssigner):  # it is the result of a function
                return stamped(selected.map(of_selected, EVENT))
            return stamped(job.keyed(uid, selected).map(of_selected, EVENT))
        function: Any = paired if self._way == "pairs" else EachTwice()
        return stamped(job.keyed(uid, joined.apply(function, output_type=EVENT)))

    def model(self, *streams: list[Event]) -> list[Event]:
        return [
            (*paired(one, other)[:2], last)
            for _, last, (ones, others) in in_windows(self._windows[1], *streams)
            for one, other in self._pairs(ones, others)
            for _ in range(2 if self._way == "twice" else 1)
        ]

    def _pairs(self, ones: list[Event], others: list[Event]) -> Iterator[tuple[Event | None, Event | None]]:
        yield from ((one, other) for one in ones for other in others)
        if not others and self._how in ("left", "outer"):
            yield from ((one, None) for one in ones)
        if not ones and self._how in ("right", "outer"):
            yield from ((None, other) for other in others)

    @property
    def _windows(self) -> tuple[Any, Spans]:
        return WINDOWS[self.chance[0] % len(WINDOWS)]

    @property
    def _how(self) -> str:
        return "inner" if self._way == "twice" else HOW[self.chance[1] % 4]

    @property
    def _way(self) -> str:
        return ("pairs", "columns", "twice")[self.chance[1] // 4 % 3]


class Group(CoGroupFunction):
    def co_group(self, first: Sequence[Event], second: Sequence[Event]) -> Iterator[Event]:
        yield grouped(first, second)


def grouped(first: Sequence[Event], second: Sequence[Event]) -> Event:
    values = [sorted(event[1] for event in events) for events in (first, second)]
    return [*first, *second][0][0], folded(*values[0], len(values[0]), *values[1]), 0


class CoGroup(Step):
    reads = 2

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        both = streams[0].co_group(streams[1]).where("f0").equal_to("f0").window(self._windows[0])
        return stamped(job.keyed(uid, both.apply(Group(), output_type=EVENT)))

    def model(self, *streams: list[Event]) -> list[Event]:
        return [
            (*grouped(first, second)[:2], last) for _, last, (first, second) in in_windows(self._windows[1], *streams)
        ]

    @property
    def _windows(self) -> tuple[Any, Spans]:
        return WINDOWS[self.chance[0] % len(WINDOWS)]
