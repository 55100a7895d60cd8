"""The order in which windows of different keys that end together fire: that of Flink's timers.

Flink's windows fire in the order of their timers, and timers of one time leave their heap in an order that depends on
the heap alone: neither that of arrival nor that of keys. To give Flink's results in Flink's order, the same heap is
kept as long as there are few timers. With many timers it would take more time than the windows, and no user reads so
many results one by one: they are then emitted by hash and key, until all open windows have ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch, concat
from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.changelog.rows_of_keys import RowsOfKeys, StoredRows
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_keys, group_rows
from headrace.windowing.intervals import AlignedWindows, GrowingWindows, RegularWindows

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec


K = TypeVar("K", bound=Hashable)


class TimerHeap(Generic[K]):
    """A binary heap of timers by time, each of them once.

    Timers of one time leave a heap in an order that depends on its layout, so this is Flink's heap step by step
    (``HeapPriorityQueue``).

    Args:
        timers: times and keys, as :attr:`timers` has given them.
    """

    def __init__(self, timers: list[tuple[int, K]] | None = None) -> None:
        self.timers = list(timers or ())
        self._known = set(self.timers)

    def __len__(self) -> int:
        return len(self.timers)

    @property
    def first(self) -> int:
        """The time of the first timer; the queue is not empty."""
        return self.timers[0][0]

    def add(self, time: int, key: K) -> None:
        """Adds a timer, unless it is there already."""
        timer = time, key
        if timer in self._known:
            return
        self._known.add(timer)
        self.timers.append(timer)
        self._up(len(self.timers) - 1)

    def poll(self) -> tuple[int, K]:
        """Removes and returns the first timer; the queue is not empty."""
        first, last = self.timers[0], self.timers.pop()
        self._known.remove(first)
        if self.timers:
            self.timers[0] = last
            self._down(0)
        return first

    def _up(self, place: int) -> None:
        timers, moved = self.timers, self.timers[place]
        while place and moved[0] < timers[(place - 1) >> 1][0]:
            above = (place - 1) >> 1
            timers[place] = timers[above]
            place = above
        timers[place] = moved

    def _down(self, place: int) -> None:
        timers, size, moved = self.timers, len(self.timers), self.timers[place]
        while (below := 2 * place + 1) < size:
            if below + 1 < size and timers[below + 1][0] < timers[below][0]:
                below += 1
            if timers[below][0] >= moved[0]:
                break
            timers[place] = timers[below]
            place = below
        timers[place] = moved


Longs = npt.NDArray[np.int64]

STORE: Final = "firing-order"
MOST_TIMERS: Final = 4096
"""With more timers the order of windows that end together is that of hashes and keys."""
_TOGETHER: Final = 1 << 13
_TIMER, _WAITING, _QUIET, _EARLY, _CLEANUP = range(5)
_SCHEMA: Final = pa.schema([("place", pa.int64()), ("end", pa.int64()), ("kind", pa.int8())])

Pane = tuple[int, Any]
"""The end of a window, or of a slice of windows, and a key."""


@dataclass(frozen=True, slots=True)
class TimersOfWindows:
    """The timers that Flink registers for the windows of an operator.

    Attributes:
        windows: the windows.
        step: the distance of their ends.
        offset: the offset of their ends.
        waits: whether records are buffered until a slice of windows has ended, and timers are registered only then: for
            one end at a time, since firing a window registers the next. Else each record has a timer in each window.
            Before 1970 nothing has ended for Flink's buffers.
        are_cleaned_up: whether each record has a timer that drops the window as well, which is never before 1970.
    """

    windows: RegularWindows
    step: int
    offset: int
    waits: bool
    are_cleaned_up: bool = False

    def slices(self, times: Longs) -> Longs:
        """The ends of the first windows of times, or of the slices that they are in."""
        return self.windows.first_ends(times)

    def open_ends(self, times: Longs, watermarks: Longs) -> Longs:
        """The ends of the first windows of times that have not ended at a watermark, or any end that has."""
        ends = self.slices(times)
        missing = -(-(np.maximum(watermarks, ends - 2) + 2 - ends) // self.step)
        found: Longs = np.minimum(ends + missing * self.step, self.windows.last_ends(times))
        return found

    def following(self, end: int, *, is_empty: bool) -> int | None:
        """The end of the next window that has a timer now that one has fired; None when there is none."""
        if not self.waits:
            return None
        if isinstance(self.windows, GrowingWindows):
            return end + self.step if end < self.windows.last_ends(end - 1) else None
        return end + self.step if self.windows.per_timestamp > 1 and not is_empty else None


@dataclass(frozen=True, slots=True)
class _ArrivedSlices:
    """The distinct slices and keys of records between two watermarks at which a window may end.

    Attributes:
        watermark: the watermark at the records.
        ends: the ends of the slices.
        keys: the keys.
        is_late: the slices that had ended already, and whose records have their timers at once.
    """

    watermark: int
    ends: Longs
    keys: pa.Array
    is_late: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fed:
    """Records that register timers of their own.

    Attributes:
        keys: their keys.
        times: the times of their timers.
        watermarks: the watermark at each record.
    """

    keys: KeyColumn
    times: Longs
    watermarks: Longs


def known_ranks(panes: Sequence[Pane], places: dict[Pane, int], watermarks: Longs, otherwise: Longs) -> Longs:
    """The positions of panes in firing order; ``otherwise`` where not all panes of a watermark are known."""
    if not places:
        return otherwise
    ranks = np.array([places.get(pane, -1) for pane in panes], np.int64)
    unknown = np.unique(watermarks[ranks < 0])
    found: Longs = np.where(np.isin(watermarks, unknown), otherwise, ranks)
    return found


TIMERS_OF_RECORDS: Final = TimersOfWindows(AlignedWindows(1, 1), 1, 0, waits=False)
"""Each record has a timer at its time."""
TIMERS_OF_ENDED_WINDOWS: Final = TimersOfWindows(AlignedWindows(1, 1), 1, 0, waits=True)
"""Each record has a timer at the end of its window, registered when the first window ends."""


class TimerFiringOrder:
    """Tracks the timers of windows, and sorts fired results by them.

    Args:
        timers: the timers of windows.
        codec: the codec of the keys.
        keys: the number of key columns, with which results begin.
    """

    def __init__(self, timers: TimersOfWindows, codec: KeyCodec, keys: int = 0) -> None:
        self._timers, self._codec, self._keys = timers, codec, keys

    def open(self, context: OperatorContext) -> None:
        """Restores the state."""
        self._rows = RowsOfKeys(context, STORE, "the timers of windows", self._codec, _SCHEMA)

    def begin_epoch(self, scope: EpochScope) -> None:
        """Start of an epoch."""
        self._rows.begin_epoch(scope.processing_time)
        self._watermark = scope.watermark
        keys, rows = self._rows.before()
        self._stored, self._is_changed = keys, False
        self._any_key: Any = keys.values[0].as_py() if len(keys) else None
        found = sorted(zip(*(column.to_pylist() for column in rows.columns), keys.values.to_pylist(), strict=True))
        timers = (_TIMER, _CLEANUP)
        self._queue = TimerHeap[Pane](
            [(end - 1 if kind == _TIMER else 0, (end, key)) for _, end, kind, key in found if kind in timers]
        )
        self._waiting: dict[Pane, None] = {(end, key): None for _, end, kind, key in found if kind == _WAITING}
        self._early = {(end, key) for _, end, kind, key in found if kind == _EARLY}
        self._quiet_until = max((end for _, end, kind, _ in found if kind == _QUIET), default=MIN_WATERMARK)

    def sorted(self, batch: KeyedBatch | None, watermark: int, fired: list[Batch]) -> list[Batch]:
        """The batches that records and then a watermark have fired, in Flink's order."""
        if self._is_quiet and watermark + 1 < self._quiet_until:
            self._pass(batch, watermark)
            return fired
        if batch is None and not len(self._queue) and not self._waiting:
            list(self._advance(watermark, set()))
            return fired
        shown = concat(fired) if fired else None
        panes = [] if shown is None else self._panes_of(shown)
        self._remember_early(pane for pane in panes if self._timers.waits and pane[0] <= 0)
        order = list(self._followed(batch, watermark, set(panes)))
        if shown is None:
            return fired
        if len(set(panes)) < len(panes):
            return fired  # late records fire some windows again
        places = {pane: place for place, pane in reversed([*enumerate(order)])}
        ranks = known_ranks(panes, places, shown.watermarks, np.arange(len(panes)))
        return [shown.take(np.lexsort((ranks, shown.watermarks)))]

    def lose(self, accumulators: Batch) -> None:
        """Stops tracking timers: accumulators do not show the order in which their records arrived."""
        self._any_key = accumulators.columns.column(1)[0].as_py()
        self._stay_quiet(int(accumulators.timestamps.max()) + 1)

    def followed(self, fed: Sequence[Fed], watermark: int) -> dict[Pane, int]:
        """The positions in firing order of the panes due until a watermark, for records with timers of their own.

        A pane is identified by its key and the millisecond after its timer.
        """
        order: list[Pane] = []
        for each in fed:
            if len(each.times):
                self._any_key = each.keys.values[0].as_py()
                everyone = np.arange(len(each.times))
                for arrived in self._stretches(each.keys, everyone, each.times + 1, each.watermarks):
                    order += self._advance(arrived.watermark, set())
                    self._add(arrived)
        order += self._advance(watermark, set())
        return {pane: place for place, pane in enumerate(order)}

    def looked_at(
        self, fed: Sequence[Fed], watermarks: Sequence[int], set_timers: Mapping[int, Mapping[Any, Sequence[int]]]
    ) -> dict[tuple[int, Any], int]:
        """The positions in which each watermark has keys looked at, for records with timers of their own.

        The first timer of a key at a watermark has all that is due of it done, which may set timers that come later.
        Left out are watermarks at which timers are not tracked.

        Args:
            fed: the records.
            watermarks: the watermarks that come, ascending.
            set_timers: the times of the timers that are set when a watermark has a key looked at, by both.
        """
        places: dict[tuple[int, Any], int] = {}
        coming = deque(watermarks)
        for each in fed:
            if len(each.times):
                self._any_key = each.keys.values[0].as_py()
                everyone = np.arange(len(each.times))
                for arrived in self._stretches(each.keys, everyone, each.times + 1, each.watermarks):
                    while coming and coming[0] <= arrived.watermark:
                        places |= self._look(coming.popleft(), set_timers)
                    self._add(arrived)
        while coming:
            places |= self._look(coming.popleft(), set_timers)
        return places

    def _look(
        self, watermark: int, set_timers: Mapping[int, Mapping[Any, Sequence[int]]]
    ) -> dict[tuple[int, Any], int]:
        places: dict[tuple[int, Any], int] = {}
        set_now = set_timers.get(watermark, {})
        is_tracked = not self._is_quiet
        for _, key in self._advance(watermark, set()):
            if (watermark, key) not in places:
                places[watermark, key] = len(places)
                for time in set_now.get(key, ()):
                    self._queue.add(time, (time + 1, key))
                if len(self._queue) > MOST_TIMERS:
                    self._become_quiet(0)
        if is_tracked and not self._is_quiet:
            return places
        if set_now:
            self._stay_quiet(1 + max(time for times in set_now.values() for time in times))
        return {}

    def end_epoch(self) -> None:
        """Writes the timers to state."""
        if self._is_changed:
            self._write()
        self._rows.end_epoch()

    @property
    def is_followed(self) -> bool:
        """Return whether timers are tracked now."""
        return not self._is_quiet

    @property
    def _is_quiet(self) -> bool:
        return self._quiet_until != MIN_WATERMARK

    def _panes_of(self, shown: Batch) -> list[Pane]:
        columns = shown.columns.columns
        ends = columns[self._keys + 1].to_pylist()
        return list(zip(ends, self._canonical(columns[: self._keys], len(shown)), strict=True))

    def _canonical(self, columns: list[pa.Array], count: int) -> list[Any]:
        if not columns:
            return [0] * count
        keys = columns[0]
        if not self._codec.takes_nulls:
            keys = pa.StructArray.from_arrays(columns, fields=list(self._codec.type.storage_type))
        found: list[Any] = self._codec.from_array(keys).values.to_pylist()
        return found

    def _followed(self, batch: KeyedBatch | None, watermark: int, shown: set[Pane]) -> Iterator[Pane]:
        """The windows whose timers become due, in firing order."""
        if batch is not None and len(batch):
            self._any_key = batch.keys.values[0].as_py()  # a mark of no key has to be with some key
            for arrived in self._arrivals(batch):
                yield from self._advance(arrived.watermark, shown)
                self._add(arrived)
        yield from self._advance(watermark, shown)

    def _arrivals(self, batch: KeyedBatch) -> Iterator[_ArrivedSlices]:
        """The records between each two watermarks at which a window may end."""
        stamps = batch.watermarks
        records, ends = self._assigned(batch)
        is_late = np.zeros(len(ends), bool)
        if self._timers.waits:  # a record of a slice that has ended is still in later windows
            is_late = ends - 1 <= stamps
            ends = np.where(is_late, self._timers.open_ends(batch.timestamps, stamps), ends)
        on_time = ends - 1 > stamps[records]
        return self._stretches(batch.keys, records[on_time], ends[on_time], stamps, is_late[on_time])

    def _stretches(
        self,
        keys: KeyColumn,
        records: Longs,
        ends: Longs,
        stamps: Longs,
        is_late: npt.NDArray[np.bool_] | None = None,
    ) -> Iterator[_ArrivedSlices]:
        """Pairs of a record and an end, a few thousands at a time: after that there may be too many timers to track."""
        stamps, start = stamps[records], 0
        late = np.zeros(len(ends), bool) if is_late is None else is_late
        while start < len(ends):
            if self._is_quiet:
                start = self._pass_quietly(ends, stamps, start)
            stop = start + _TOGETHER
            if start < len(ends):
                some = slice(start, stop)
                yield from self._some_stretches(keys.take(records[some]), ends[some], stamps[some], late[some])
            start = stop

    def _pass_quietly(self, ends: Longs, stamps: Longs, start: int) -> int:
        """Passes over pairs for as long as no timers are tracked, and returns the position of the next pair."""
        steps = self._steps(stamps[start:])
        starts = start + np.flatnonzero(np.append(True, steps[1:] != steps[:-1]))
        furthest = np.maximum.accumulate(np.maximum.reduceat(ends, starts))
        until = np.maximum(np.append(self._quiet_until, furthest[:-1]), self._quiet_until)
        advances = stamps[starts] > np.maximum(np.append(self._watermark, stamps[starts][:-1]), self._watermark)
        over = np.flatnonzero(advances & (stamps[starts] + 1 >= until))
        passed = int(over[0]) if len(over) else len(starts)
        if passed:
            self._quiet_until, self._is_changed = max(self._quiet_until, int(furthest[passed - 1])), True
            self._watermark = max(self._watermark, int(stamps[starts[passed - 1]]))
        return int(starts[passed]) if passed < len(starts) else len(ends)

    def _steps(self, stamps: Longs) -> Longs:
        """Numbers of the intervals between watermarks at which a window may end, or the year 1970 begins."""
        numbers: Longs = (stamps + 1 - self._timers.offset) // self._timers.step + (stamps >= 0)
        return numbers

    def _some_stretches(
        self, keys: KeyColumn, ends: Longs, stamps: Longs, is_late: npt.NDArray[np.bool_]
    ) -> Iterator[_ArrivedSlices]:
        steps = self._steps(stamps)
        is_new = np.append(True, steps[1:] != steps[:-1])
        stretches = np.cumsum(is_new) - 1
        groups = group_rows(2 * ends + is_late, keys.hashes, keys.values)
        numbers = groups.numbers
        firsts = np.sort(np.unique(stretches * (len(groups.segments) + 1) + numbers, return_index=True)[1])
        starts = np.flatnonzero(is_new)
        bounds = np.searchsorted(firsts, np.append(starts, len(ends)))
        for place, start in enumerate(starts.tolist()):
            mine = firsts[bounds[place] : bounds[place + 1]]
            yield _ArrivedSlices(int(stamps[start]), ends[mine], keys.values.take(pa.array(mine)), is_late[mine])

    def _assigned(self, batch: KeyedBatch) -> tuple[Longs, Longs]:
        if self._timers.waits:
            return np.arange(len(batch)), self._timers.slices(batch.timestamps)
        pairs = self._timers.windows.assign(batch.timestamps)
        return pairs.records, pairs.ends

    def _add(self, arrived: _ArrivedSlices) -> None:
        if not len(arrived.ends):
            return
        self._is_changed = True
        if self._is_quiet or len(arrived.ends) > MOST_TIMERS:
            self._become_quiet(int(arrived.ends.max()))
            return
        panes = zip(arrived.ends.tolist(), arrived.keys.to_pylist(), strict=True)
        for (end, key), late in zip(panes, arrived.is_late.tolist(), strict=True):
            if self._timers.waits and not late:
                self._waiting[end, key] = None
            else:
                self._queue.add(end - 1, (end, key))
                if self._timers.are_cleaned_up and end <= 0:
                    self._queue.add(0, (end, key))
        if len(self._queue) + len(self._waiting) > MOST_TIMERS:
            self._become_quiet(0)

    def _advance(self, watermark: int, shown: set[Pane]) -> Iterator[Pane]:
        if watermark <= self._watermark:
            return  # a timer in the past fires at the next watermark
        self._watermark = watermark
        if self._is_quiet:
            if self._watermark + 1 >= self._quiet_until:
                self._quiet_until, self._is_changed = MIN_WATERMARK, True
            return
        if self._waiting and watermark >= 0 and min(end for end, _ in self._waiting) - 1 <= watermark:
            for end, key in self._waiting:
                self._queue.add(end - 1, (end, key))
            self._waiting, self._is_changed = {}, True
        while len(self._queue) and self._queue.first <= watermark:
            _, (end, key) = self._queue.poll()
            self._is_changed = True
            is_empty = (end, key) not in shown and (end, key) not in self._early
            following = self._timers.following(end, is_empty=is_empty)
            if following is not None:
                self._queue.add(following - 1, (following, key))
            yield end, key
        if self._early and watermark >= 0:
            self._early, self._is_changed = set(), True

    def _remember_early(self, panes: Iterable[Pane]) -> None:
        """Remembers windows that are emitted before their timers fire, because they ended before 1970."""
        early = set(panes)
        if early:
            self._early, self._is_changed = self._early | early, True

    def _pass(self, batch: KeyedBatch | None, watermark: int) -> None:
        """Only updates the time until which timers are not tracked, for records that cannot change that."""
        self._watermark = max(self._watermark, watermark)
        if batch is None or not len(batch):
            return
        records, ends = self._assigned(batch)
        if int(ends.max()) > self._quiet_until:
            if self._timers.waits:
                ends = self._timers.open_ends(batch.timestamps, batch.watermarks)
            ends = ends[ends - 1 > batch.watermarks[records]]
            self._stay_quiet(int(ends.max(initial=MIN_WATERMARK)))

    def _stay_quiet(self, until: int) -> None:
        if until > self._quiet_until or not self._is_quiet:
            self._is_changed = True
            self._become_quiet(until)

    def _become_quiet(self, until: int) -> None:
        """Stops tracking timers until all windows have ended that are open, or are opened before that."""
        ends = [end for end, _ in self._waiting] + [time + 1 for time, _ in self._queue.timers]
        self._quiet_until, self._is_changed = max([until, self._quiet_until, *ends]), True
        self._queue, self._waiting, self._early = TimerHeap(), {}, set()

    def _write(self) -> None:
        rows = [
            (place, end, _TIMER if time == end - 1 else _CLEANUP, key)
            for place, (time, (end, key)) in enumerate(self._queue.timers)
        ]
        rows += [(place, end, _WAITING, key) for place, (end, key) in enumerate(self._waiting)]
        rows += [(place, end, _EARLY, key) for place, (end, key) in enumerate(sorted(self._early))]
        if self._is_quiet:
            rows.append((0, self._quiet_until, _QUIET, self._any_key))
        canonical = self._codec.arrow_type
        keys = KeyColumn(pa.concat_arrays([pa.array([row[3] for row in rows], canonical), self._stored.values]))
        groups = group_keys(keys.hashes, keys.values)
        numbers = groups.numbers
        mine = numbers[: len(rows)]
        order = np.argsort(mine, kind="stable")
        columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(_SCHEMA)]
        batch = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA).take(pa.array(order))
        gone = np.setdiff1d(np.arange(len(groups.segments)), mine)
        self._rows.write(keys.take(groups.first_rows), StoredRows(mine[order], batch), gone)
