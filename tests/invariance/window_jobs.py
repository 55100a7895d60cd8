"""A whole job with windows as a plain program: splits, watermarks, idleness, epochs, then Flink's rules of windows.

What a split's watermark is follows from its records alone; which watermark the windows have reached follows from what
each epoch has read of which split, and from the clock: both are told by the history of the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from headrace.common import Row, RowKind
from headrace.windowing.definition import AccumulationMode
from headrace.windowing.triggers import PurgingTrigger
from tests.invariance.driver import Began, History, Ran
from tests.invariance.models import MAX, MIN
from tests.windowing.model import Fired, WindowModel

Stamp = Callable[[Row], int]
"""The watermark that a record brings its split to, if that is not further already."""


class Arrival(NamedTuple):
    """A record that windows get.

    Attributes:
        piece: the piece of the split's share that it is in.
        stamp: the watermark of the split before it, as far as its piece knows.
        split: its split.
        record: the record.
    """

    piece: int
    stamp: int
    split: int
    record: Row


@dataclass
class Split:
    """A split, and how far it has come.

    Attributes:
        number: its number.
        records: its records.
        watermark: its event time.
        active_since: when it was active last; None before it is known.
        is_idle: whether it has been silent for too long.
        is_finished: whether nothing follows.
        before: its event time before each piece of the last epoch, and after it.
    """

    number: int
    records: Sequence[Row]
    watermark: int = MIN
    active_since: int | None = None
    is_idle: bool = False
    is_finished: bool = False
    before: list[int] = field(default_factory=list)

    def read(self, bounds: Sequence[int], stamp: Stamp) -> Iterator[Arrival]:
        """What an epoch reads of it; a piece does not know what the pieces before it have come to."""
        self.before = [self.watermark]
        for piece, (start, end) in enumerate(pairwise(bounds)):
            watermark = self.watermark if piece == 0 else MIN
            for record in self.records[start:end]:
                yield Arrival(piece, watermark, self.number, record)
                watermark = max(watermark, stamp(record))
            self.watermark = max(self.watermark, watermark)
            self.before.append(self.watermark)

    def at(self, piece: int) -> int:
        """Its event time before a piece."""
        return self.before[min(piece, len(self.before) - 1)]


@dataclass
class Times:
    """Event time of one source with several splits.

    Attributes:
        splits: the splits.
        stamp: makes watermarks.
        idle_timeout: after so many milliseconds a split that is silent does not count; None for never.
        max_drift: so many milliseconds a split may be ahead of the slowest one; None for any number.
        is_read_whole: whether one task reads all pieces of a split's share.
        watermark: what all have reached.
    """

    splits: list[Split]
    stamp: Stamp
    idle_timeout: int | None = None
    max_drift: int | None = None
    is_read_whole: bool = False
    watermark: int = MIN

    def begin(self, clock: int) -> None:
        """The job goes on: how long splits were silent before is forgotten."""
        for split in self.splits:
            split.active_since = clock
            split.is_idle = False

    def run(self, source: str, epoch: Ran) -> Iterator[tuple[int, Row]]:
        """What an epoch reads, in order, each record with the watermark that it meets; then it has come further."""
        live = [split for split in self.splits if not split.is_finished]
        held_back = self._held_back(live)
        arrivals: list[Arrival] = []
        for split in live:
            bounds = epoch.reads.get((source, split.number), (0,))
            if self.is_read_whole:
                bounds = (bounds[0], bounds[-1])
            found = list(split.read(bounds, self.stamp))
            arrivals += found
            assert not (found and split in held_back), f"split {split.number} was to wait for others"
            if split in held_back:
                split.active_since = epoch.clock  # it is not silent, and what it was it stays
            else:
                self._judge(split, epoch, is_silent=not found)
            if (source, split.number) in epoch.finished:
                split.is_finished = True
                split.watermark = split.before[-1] = MAX
        final = max(self.watermark, self._final(live))
        pieces = max((len(split.before) - 1 for split in live), default=0)
        counting = [split for split in live if split.is_finished or not split.is_idle]
        reached = [
            max(self.watermark, min(min((split.at(piece) for split in counting), default=final), final))
            for piece in range(pieces)
        ]
        reached.append(final)
        for arrival in sorted(arrivals, key=lambda each: each[:3]):
            yield min(max(arrival.stamp, reached[arrival.piece]), reached[arrival.piece + 1]), arrival.record
        self.watermark = final

    def _held_back(self, live: Sequence[Split]) -> list[Split]:
        """The splits that are too far ahead of the slowest one to be read."""
        counting = [split.watermark for split in live if not split.is_idle]
        if self.max_drift is None or not counting:
            return []
        return [split for split in live if split.watermark > min(counting) + self.max_drift]

    def _judge(self, split: Split, epoch: Ran, *, is_silent: bool) -> None:
        """Whether a split is idle in an epoch."""
        if split.active_since is None:
            split.active_since = epoch.clock
        timeout = self.idle_timeout
        split.is_idle = is_silent and timeout is not None and epoch.clock - split.active_since >= timeout
        if not is_silent:
            split.active_since = epoch.clock

    def _final(self, live: Sequence[Split]) -> int:
        active = [split.watermark for split in live if not split.is_idle and not split.is_finished]
        if active:
            return min(active)
        idle = [split.watermark for split in live if not split.is_finished]
        return max(idle) if idle else MAX


@dataclass
class ShowingModel(WindowModel):
    """Windows with a function, whose results may be taken back.

    Attributes:
        mode: what windows show that fire again.
        function: what a window shows; nothing where there is nothing to show.
        sees_arrival: whether the function sees elements in the order of arrival also where windows have merged.
        changes: what windows have told: key, result with its kind, timestamp.
    """

    mode: AccumulationMode = AccumulationMode.ACCUMULATING
    function: Callable[[Fired], list[Row]] = lambda fired: []
    sees_arrival: bool = False
    changes: list[tuple[Any, Row, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode is AccumulationMode.DISCARDING:
            self.trigger = PurgingTrigger.of(self.trigger)
        self._shown: dict[Any, list[Row]] = {}
        self._arrived: list[Row] = []

    def behind(self, watermark: int) -> int:
        """The event time of the windows: those that merge where they touch fire when no record at their end is left."""
        lags = self._merges and self.assigner.is_event_time() and watermark not in (MIN, MAX)
        return watermark - 1 if lags else watermark

    def arrive(self, key: Any, record: Row) -> None:
        """A record comes."""
        self._arrived.append(Row(**record.as_dict()))  # a row that is no other one
        self.element(key, self._arrived[-1], record["time"])

    def _fire(self, key: Any, window: Any, place: Any) -> None:
        before = len(self.fired)
        super()._fire(key, window, place)
        for fired in self.fired[before:]:
            values = tuple(sorted(fired.values, key=self._place_of)) if self.sees_arrival else fired.values
            self._show(key, window, place, self.function(replace(fired, values=values)))

    def _place_of(self, record: Row) -> int:
        return next(place for place, arrived in enumerate(self._arrived) if arrived is record)

    def _show(self, key: Any, window: Any, place: Any, results: list[Row]) -> None:
        former = self._shown.get(place, []) if self.mode.retracts else []
        self._shown[place] = results
        updated = min(len(former), len(results))
        told = [
            *((RowKind.UPDATE_BEFORE if at < updated else RowKind.DELETE, row) for at, row in enumerate(former)),
            *((RowKind.UPDATE_AFTER if at < updated else RowKind.INSERT, row) for at, row in enumerate(results)),
        ]
        self.changes += [(key, of_kind(kind, row), window.max_timestamp()) for kind, row in told]

    def _on_merge(self, result: Any, windows: list[Any], kept: Any, others: list[Any]) -> None:
        super()._on_merge(result, windows, kept, others)
        key = self.context.key
        for other in others:
            self._shown.setdefault((key, kept), []).extend(self._shown.pop((key, other), []))

    def _clear_all(self, key: Any, window: Any) -> None:
        self._shown.pop(self._place(key, window), None)
        super()._clear_all(key, window)


def of_kind(kind: RowKind, row: Row) -> Row:
    """The same row with a kind."""
    changed = Row(**row.as_dict())
    changed.set_row_kind(kind)
    return changed


def play(
    model: ShowingModel,
    times: Times,
    source: str,
    history: History,
    key: Callable[[Row], Any],
    *,
    is_batch: bool = False,
) -> None:
    """Have a model go through what has happened to a job."""
    for event in history.events:
        if isinstance(event, Began):
            times.begin(event.clock)
            continue
        if not is_batch:
            model.advance_processing_time(event.clock)
        model.context.now = event.clock
        for watermark, record in times.run(source, event):
            model.advance_watermark(model.behind(watermark))
            model.arrive(key(record), record)
        model.advance_watermark(model.behind(times.watermark))
    if is_batch:
        _end_clock(model)


def _end_clock(model: WindowModel) -> None:
    """What is due by the clock at last, behind event time: in batch mode, where nothing waits for the clock before."""
    timers = model.context.processing
    due = sorted(timers.pending, key=lambda timer: (timer[0], repr(timer[1]), timer[2]))
    for timer in due:
        if timer in timers.pending:
            timers.pending.discard(timer)
            model._on_timer(timer, model.trigger.on_processing_time, of_event_time=False)
