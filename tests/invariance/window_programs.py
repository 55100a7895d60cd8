"""Programs with windows of any kind, for jobs and for the model alike."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.common import Row, Types, WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from headrace.datastream import (
    AggregateFunction,
    DataStream,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from headrace.datastream.aggregates import collect_list, count, first, last, max, min, sum
from headrace.datastream.window import AccumulationMode, WindowAssigner
from headrace.operators.aggregates.aggregate import Aggregate
from tests.invariance.driver import Cut, History, Job, run_recorded
from tests.invariance.models import MIN
from tests.invariance.window_jobs import ShowingModel, Split, Stamp, Times, play
from tests.windowing.model import Fired
from tests.windowing.scenarios import Windows

ELEMENT = Types.ROW_NAMED(["key", "value", "time"], [Types.LONG(), Types.LONG(), Types.LONG()])
RESULT = Types.ROW_NAMED(["key", "window", "contents"], [Types.LONG(), Types.STRING(), Types.STRING()])
LATE = OutputTag("late", ELEMENT)
SUMS = {"size": count(), "total": sum("value"), "low": min("value"), "high": max("value")}
"""Aggregates that do not depend on the order of records: senders add them up."""
AGGREGATES = {
    **SUMS,
    "oldest": first("value"),
    "newest": last("value"),
    "everything": collect_list("value"),
}


class AtEven(WatermarkGenerator):
    """A watermark 3 ms before each record whose value is even."""

    def on_event(self, event: Row, event_timestamp: int, output: WatermarkOutput) -> None:
        if event["value"] % 2 == 0:
            output.emit_watermark(event_timestamp - 3)


@dataclass(frozen=True)
class EventTime:
    """How event time is told.

    Attributes:
        strategy: the strategy.
        stamp: the same, record by record.
        idle_timeout: that of splits that are silent, in milliseconds of the clock; None for none.
        max_drift: how far a split may be ahead of the slowest one, in milliseconds; None for any distance.
    """

    strategy: WatermarkStrategy[Any]
    stamp: Stamp
    idle_timeout: int | None = None
    max_drift: int | None = None

    def with_idleness(self, timeout: int | None) -> EventTime:
        """The same with a timeout for splits that are silent, if there is one."""
        if timeout is None:
            return self
        return replace(self, strategy=self.strategy.with_idleness(timeout), idle_timeout=timeout)

    def with_alignment(self, drift: int | None) -> EventTime:
        """The same with splits that wait for others, if there is a drift that they may have."""
        if drift is None:
            return self
        return replace(self, strategy=self.strategy.with_watermark_alignment("splits", drift), max_drift=drift)


def bounded(bound: int) -> EventTime:
    """Watermarks behind the newest record."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(bound)
    return EventTime(strategy, lambda record: record["time"] - bound - 1)


def without_watermarks() -> EventTime:
    """No watermarks before the end."""
    return EventTime(WatermarkStrategy.no_watermarks(), lambda record: MIN)


def at_even() -> EventTime:
    """Watermarks by a generator of the program."""
    strategy = WatermarkStrategy.for_generator(AtEven)
    return EventTime(strategy, lambda record: record["time"] - 3 if record["value"] % 2 == 0 else MIN)


# --- what windows show -----------------------------------------------------------------------------------------------


def shown(key: int | None, window: Any, contents: Iterable[Any]) -> Row:
    return Row(key=key, window=repr(window), contents=",".join(map(str, contents)))


class Show(ProcessWindowFunction):
    """As :func:`listed` says."""

    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Iterator[Row]:
        yield from listed(key, context.window(), [row["value"] for row in elements])


class ShowAll(ProcessAllWindowFunction):
    """The same of the windows of all records."""

    def process(self, context: Any, elements: Iterable[Any]) -> Iterator[Row]:
        yield from listed(None, context.window(), [row["value"] for row in elements])


class ShowFolded(ProcessWindowFunction):
    """Key, window and what the elements were folded into."""

    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Iterator[Row]:
        yield shown(key, context.window(), [e["value"] if isinstance(e, Row) else e for e in elements])


class Values(AggregateFunction):
    """The values as a text."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Row, accumulator: list[int]) -> list[int]:
        accumulator.append(value["value"])
        return accumulator

    def get_result(self, accumulator: list[int]) -> str:
        return str(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


def listed(key: int | None, window: Any, values: Sequence[int]) -> list[Row]:
    """What a window holds, as no result, one or two: so what is taken back may be more or less than what is new."""
    return [shown(key, window, values)] * (len(values) % 3)


def followed(a: int, b: int) -> int:
    """Associative, as functions of ``reduce`` are, but the order shows: numbers stand for maps ``x -> m * x + c``."""
    (m, c), (n, d) = ((number // 97 + 2, number % 97) for number in (a, b))
    return (n * m - 2) % 97 * 97 + (n * c + d) % 97


def reduced(a: Row, b: Row) -> Row:
    return Row(key=b["key"], value=followed(a["value"], b["value"]), time=b["time"])


def values_of(fired: Fired) -> list[int]:
    return [row["value"] for row in fired.values]


def built_in(fired: Fired, names: Iterable[str] = tuple(AGGREGATES)) -> list[Row]:
    values = values_of(fired)
    if not values:
        return []
    key = {} if fired.key is None else {"key": fired.key}
    found = [len(values), _sum(values), sorted(values)[0], sorted(values)[-1], values[0], values[-1], values]
    return [Row(**key, **bounds(fired.window), **dict(zip(names, found, strict=False)))]


def bounds(window: Any) -> dict[str, int]:
    if hasattr(window, "end"):
        return {"window_start": window.start, "window_end": window.end}
    return {"window_id": window.id} if hasattr(window, "id") else {}


def _sum(values: Sequence[int]) -> int:
    total = 0
    for value in values:
        total += value
    return total


@dataclass(frozen=True)
class Function:
    """What is made of windows.

    Attributes:
        of: makes a stream of them.
        shows: the same for the model.
        is_of_keys: whether windows are those of keys.
        sees_arrival: whether what windows hold is in the order of arrival also where they have merged.
        tells_late: whether late records are a side output; senders add up only where they are not.
    """

    of: Callable[[Any], DataStream]
    shows: Callable[[Fired], list[Row]]
    is_of_keys: bool = True
    sees_arrival: bool = False
    tells_late: bool = True

    def key_of(self, record: Row) -> Any:
        """The key of a record."""
        return record["key"] if self.is_of_keys else None

    def windowed(self, stream: DataStream, assigner: WindowAssigner[Any, Any]) -> Any:
        return stream.key_by("key").window(assigner) if self.is_of_keys else stream.window_all(assigner)


def aggregated(windows: Any, aggregates: Mapping[str, Aggregate] = AGGREGATES) -> DataStream:
    return windows.aggregate(*(aggregate.alias(name) for name, aggregate in aggregates.items()))


FUNCTIONS = {
    "built-in": Function(aggregated, built_in, sees_arrival=True),
    "sums": Function(lambda windows: aggregated(windows, SUMS), lambda fired: built_in(fired, SUMS), tells_late=False),
    "built-in of all": Function(aggregated, built_in, is_of_keys=False, sees_arrival=True),
    "listed": Function(
        lambda windows: windows.process(Show(), RESULT), lambda fired: listed(fired.key, fired.window, values_of(fired))
    ),
    "listed of all": Function(
        lambda windows: windows.process(ShowAll(), RESULT),
        lambda fired: listed(None, fired.window, values_of(fired)),
        is_of_keys=False,
    ),
    "aggregated": Function(
        lambda windows: windows.aggregate(Values(), ShowFolded(), None, RESULT),
        lambda fired: [shown(fired.key, fired.window, [values_of(fired)])],
    ),
    "reduced": Function(
        lambda windows: windows.reduce(reduced, ShowFolded(), RESULT),
        # The function is not called where nothing is left to reduce.
        lambda fired: (
            [shown(fired.key, fired.window, [functools.reduce(followed, values_of(fired))])] if fired.values else []
        ),
    ),
}


@dataclass(frozen=True)
class Program:
    """A program with windows, and what it reads.

    Attributes:
        windows: assigner, trigger, evictor and lateness.
        mode: what windows show that fire again.
        function: what is made of windows.
        splits: the records of each split.
        times: how event time is told.
        is_batch: whether it runs in batch mode.
    """

    windows: Windows
    mode: AccumulationMode
    function: Function
    splits: Sequence[Sequence[Row]]
    times: EventTime
    is_batch: bool = False

    def check(self, cut: Cut) -> History:
        """Run it, and compare what it shows, key by key, and what is late with the model.

        Returns:
            What happened meanwhile.
        """
        if self.windows.are_of_subtasks:
            cut = replace(cut, parallelism=(1,))
        outputs, history = run_recorded(self._build, cut, is_batch=self.is_batch)
        model = self.model(history)
        of_keys = self.function.is_of_keys
        found = [(row["key"] if of_keys else None, row, timestamp) for row, timestamp in outputs["out"]]
        assert _by_key(found) == _by_key(model.changes)
        late = model.late if self.function.tells_late else []
        assert sorted(map(repr, (row for row, _ in outputs["late"]))) == sorted(map(repr, late))
        return history

    def results(self, stream: DataStream) -> DataStream:
        """What the windows show; what is late is the side output :data:`LATE`, where the function tells it."""
        parts = self.windows
        windowed = self.function.windowed(stream, parts.assigner).accumulation_mode(self.mode)
        if self.function.tells_late:
            windowed.side_output_late_data(LATE)
        if parts.trigger is not None:
            windowed.trigger(parts.trigger)
        if parts.evictor is not None:
            windowed.evictor(parts.evictor)
        if parts.lateness:
            windowed.allowed_lateness(parts.lateness)
        return self.function.of(windowed)

    def _build(self, job: Job) -> None:
        results = self.results(job.source_of("events", self.splits, ELEMENT, self.times.strategy)).uid("windows")
        results.set_parallelism(job.parallelism() if self.function.is_of_keys else 1)
        job.sink("out", results)
        if self.function.tells_late:
            job.sink("late", results.get_side_output(LATE))

    def model(self, history: History) -> ShowingModel:
        """What the windows do, after all that has happened."""
        parts, times = self.windows, self.times
        trigger = parts.trigger or parts.assigner.get_default_trigger(None)
        if self.is_batch:
            parts, trigger, times = replace(parts, lateness=0), trigger.in_batch_mode(), without_watermarks()
        model = ShowingModel(
            parts.assigner,
            trigger,
            parts.evictor,
            parts.lateness,
            mode=self.mode,
            function=self.function.shows,
            sees_arrival=self.function.sees_arrival and parts.evictor is None,
        )
        splits = [Split(number, records) for number, records in enumerate(self.splits)]
        event_time = Times(splits, times.stamp, times.idle_timeout, times.max_drift, times.strategy.has_memory)
        play(model, event_time, "events", history, self.function.key_of, is_batch=self.is_batch)
        return model


def _by_key(changes: Iterable[tuple[Any, Row, int]]) -> dict[Any, list[tuple[str, Row, int]]]:
    grouped = defaultdict(list)
    for key, row, timestamp in changes:
        grouped[key].append((str(row.get_row_kind()), row, timestamp))
    return dict(grouped)
