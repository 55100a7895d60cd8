"""Timers of keys: registered and deleted without reading state, fired in the order of their times.

A timer is one of (key, namespace, time) in its time domain: registering it twice is registering it once, deleting one
that does not exist is nothing. What is registered or deleted in an epoch is only noted, and becomes one run at its end,
unless it is due before; what earlier epochs left stays in its columns until it is due.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import repeat
from operator import index
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidTypeError
from headrace.common.garbage import gc_paused
from headrace.state.keyed.namespaces import KeyScope, Namespace, namespace_of, ordered_bytes
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.codecs import KeyEntry
from headrace.state.runs import HASH, RunStore
from headrace.state.runs.layout import KEY, LIVE, TIMERS
from headrace.state.runs.merge_input import NO_TIME, newest
from headrace.state.sorted_table import TableLayout, TimeSortedTable


class TimerLog:
    """Timers that were registered or deleted, one after the other, the same one any number of times.

    Attributes:
        first: the earliest time in it; ``NO_TIME`` when it is empty.
    """

    __slots__ = ("_live", "_namespaces", "_ordinals", "_times", "first")

    def __init__(self) -> None:
        self.first = NO_TIME
        self._times = array("q")
        self._ordinals = array("q")
        self._namespaces: list[Namespace] = []
        self._live = bytearray()

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[tuple[int, int, Namespace, bool]]:
        """Time, ordinal of the key, namespace, and whether it was registered."""
        return zip(self._times, self._ordinals, self._namespaces, map(bool, self._live), strict=True)

    def add(self, time: int, ordinal: int, namespace: Namespace, live: bool) -> None:
        """Notes that a timer of the key with that ordinal was registered, or else deleted."""
        self._times.append(time)
        self._ordinals.append(ordinal)
        self._namespaces.append(namespace)
        self._live.append(live)
        self.first = min(self.first, time)

    def rows(self, scope: KeyScope, schema: pa.Schema) -> pa.RecordBatch:
        """All that was noted, as it came: time, hash, key, namespace, and whether it was registered."""
        keys = scope.entries.take(np.frombuffer(self._ordinals, dtype=np.int64))
        if self._namespaces.count(None) == len(self):
            namespaces = pa.repeat(pa.scalar(b"", pa.binary()), len(self))
        else:
            namespaces = pa.array(list(map(bytes_of, self._namespaces)), pa.binary())
        live = pa.array(np.frombuffer(self._live, dtype=np.bool_))
        columns = [pa.array(np.frombuffer(self._times, dtype=np.int64)), pa.array(keys.hashes), keys.values]
        return pa.RecordBatch.from_arrays([*columns, namespaces, live], schema=schema)


def bytes_of(namespace: Namespace) -> bytes:
    """A namespace as it is stored and ordered; none is no bytes."""
    return b"" if namespace is None else ordered_bytes(namespace)


NO_TIMER: Final = NO_TIME
"""The time of the next timer when there is none: later than every time."""

EVENT: Final = "event"
PROCESSING: Final = "processing"

_TIME: Final = "time"
_NAMESPACE: Final = "namespace"
_ORDER: Final = [_TIME, HASH, KEY, _NAMESPACE]

_Identity = tuple[int, "Namespace"]
"""The identity of a timer among those of one time: the ordinal of the key, and the namespace."""

MOST_READ: Final = 1 << 16
"""Of so many timers in each run objects are made together: at the end of the input all that there are fall due."""

_NOTHING: Final[dict[_Identity, bool]] = {}


class Timer(NamedTuple):
    """A timer that fires.

    Attributes:
        time: for when it was registered, in milliseconds.
        entry: its key.
        namespace: its namespace, such as a window; None when it has none.
    """

    time: int
    entry: KeyEntry
    namespace: Namespace


class TimerQueue:
    """The timers of one operator in one time domain.

    Attributes:
        next_due: the time of the earliest timer, or earlier (when that one was deleted): an operator fires timers when
            its time advances to this or beyond. ``NO_TIMER`` when there is none.
    """

    def __init__(self, domain: str, scope: KeyScope, store: RunStore) -> None:
        self.next_due = NO_TIMER
        self._scope = scope
        self._layout = timer_layout(domain, scope.codec)
        self._table = TimeSortedTable(store, self._layout, newest)
        self._log = TimerLog()
        # What the log said when a timer in it was due. By time: registered (True) or deleted (False) in this epoch, and
        # not fired since; and these times as a heap.
        self._new: dict[int, dict[_Identity, bool]] = {}
        self._times: list[int] = []
        self._advanced_to: int | None = None
        self._stored = _StoredTimers()
        # How far stored timers have been read, and given out.
        self._read_to = self._taken_to = MIN_WATERMARK - 1
        # The time whose timers fire, and which of them were deleted meanwhile.
        self._firing = NO_TIMER
        self._cancelled: set[_Identity] = set()

    def register(self, time: int, namespace: Namespace = None) -> None:
        """Registers a timer of the current key. One whose time has been passed fires with the next advance."""
        if type(time) is not int or not MIN_WATERMARK <= time <= MAX_WATERMARK:
            time = _time(time)
        self._log.add(time, self._scope.current.ordinal, namespace, True)
        self.next_due = min(self.next_due, time)

    def delete(self, time: int, namespace: Namespace = None) -> None:
        """Deletes a timer of the current key, if there is such a one."""
        if type(time) is not int or not MIN_WATERMARK <= time <= MAX_WATERMARK:
            time = _time(time)
        identity = self._scope.current.ordinal, namespace
        if time > self._taken_to:
            self._log.add(time, *identity, False)
        elif identity in self._new_at(time):
            self._new[time][identity] = False
        elif time == self._firing:
            self._cancelled.add(identity)

    def foresee(self, up_to: int) -> Sequence[tuple[KeyEntry, Namespace]]:
        """Reads together the stored timers that are due when time has come to ``up_to``, for advances until then.

        Returns:
            The key and the namespace of each, of those that an earlier call has read not again.
        """
        return [(timer.entry, timer.namespace) for timer in self._read(up_to)] if self.next_due <= up_to else ()

    def _read(self, up_to: int) -> Sequence[Timer]:
        if up_to <= self._read_to:
            return ()
        batches = self._table.between(self._read_to, up_to)
        self._read_to = up_to
        if not batches:
            return ()
        due = newest(self._layout.meta, batches)
        due = due.filter(due.column(LIVE))
        if not due.num_rows:
            return ()
        times = due.column(_TIME).to_numpy().tolist()
        entries = self._scope.bind(KeyColumn(due.column(KEY), due.column(HASH).to_numpy()))
        with gc_paused():
            namespaces = _namespaces_of(due.column(_NAMESPACE))
            timers = list(map(Timer, times, entries, namespaces))
        self._stored.extend(times, timers)
        # The owner of a timer for a namespace will read what it holds.
        self._scope.expect((timer.entry, timer.namespace) for timer in timers if timer.namespace is not None)
        return timers

    def pop_due(self, up_to: int) -> Iterator[Timer]:
        """Time advances to ``up_to``: the timers that are due, by time, then hash and key.

        Each timer is gone before it is given out. Timers that are registered meanwhile with a time that is not above
        ``up_to`` are among them; those that are deleted meanwhile are not. Nothing happens unless time does advance.
        The iterator must be used up.
        """
        if self._advanced_to is not None and up_to <= self._advanced_to:
            return
        self._advanced_to = up_to
        while (time := min(self._first_stored(up_to), self._first_new(up_to))) <= up_to:
            due = self._stored.take_group() if self._stored.time == time else []
            if self._times and self._times[0] == time:
                due = self._overlaid(time, due)
            self._taken_to = max(self._taken_to, time)
            yield from self._fire(time, due)
        self._table.forget(up_to)
        self._taken_to, self._firing = up_to, NO_TIMER
        self.next_due = min(self._table.first, self._log.first, *self._times[:1])

    def begin_epoch(self, advanced_to: int | None) -> None:
        """Takes up the stored timers; ``advanced_to`` is how far time has come, None when that is not known."""
        self._forget()
        self._advanced_to = advanced_to
        self._table.begin_epoch()
        self.next_due = self._table.first

    def end_epoch(self) -> None:
        """Writes what was registered and deleted, and how far the stored timers have been passed."""
        batch = self._new_rows()
        if batch is not None:
            self._table.append(batch)
        self._forget()
        self._table.end_epoch()

    def _forget(self) -> None:
        self._log, self._new, self._times = TimerLog(), {}, []
        self._stored = _StoredTimers()
        self._read_to = self._taken_to = MIN_WATERMARK - 1

    def _first_stored(self, up_to: int) -> int:
        """The time of the stored timers that come next, if it is not above ``up_to``; some are read together."""
        while self._stored.time == NO_TIMER and self._read_to < up_to:
            self._read(min(up_to, self._table.time_after(self._read_to, MOST_READ)))
        return self._stored.time

    def _first_new(self, up_to: int) -> int:
        """The time of the first that is new, if it is not above ``up_to``."""
        if self._log.first <= up_to:
            self._restore_log()
        return self._times[0] if self._times else NO_TIMER

    def _new_at(self, time: int) -> dict[_Identity, bool]:
        """Return what was registered or deleted for a time."""
        if self._log.first <= time:
            self._restore_log()
        return self._new.get(time, _NOTHING)

    def _restore_log(self) -> None:
        for time, ordinal, namespace, live in self._log:
            found = self._new.get(time)
            if found is None:
                found = self._new[time] = {}
                heappush(self._times, time)
            found[ordinal, namespace] = live
        self._log = TimerLog()

    def _overlaid(self, time: int, due: list[Timer]) -> list[Timer]:
        """The timers of one time, given the stored ones: with what was registered and deleted since."""
        entries = self._scope.entries.all
        found = {(timer.entry.ordinal, timer.namespace): timer for timer in due}
        heappop(self._times)
        for identity, live in self._new.pop(time).items():
            if live:
                found[identity] = Timer(time, entries[identity[0]], identity[1])
            else:
                found.pop(identity, None)
        return sorted(found.values(), key=_firing_order) if len(found) > 1 else [*found.values()]

    def _fire(self, time: int, due: list[Timer]) -> Iterator[Timer]:
        self._firing = time
        self._cancelled.clear()
        for timer in due:
            if (again := self._new_at(time)) or self._cancelled:
                # Deleted or registered once more by a timer of the same time that has just fired.
                identity = timer.entry.ordinal, timer.namespace
                if not again.pop(identity, identity not in self._cancelled):
                    continue
            yield timer

    def _new_rows(self) -> pa.RecordBatch | None:
        """The new timers, in the order of the table; deleted ones only where there may be one to hide."""
        older = TimerLog()
        for time, identities in self._new.items():
            for (ordinal, namespace), live in identities.items():
                older.add(time, ordinal, namespace, live)
        logs = [log for log in (older, self._log) if log]
        if not logs:
            return None
        batch = newest(self._layout.meta, [log.rows(self._scope, self._layout.schema) for log in logs])
        return batch if self._table.first != NO_TIME else batch.filter(batch.column(LIVE))


class _StoredTimers:
    """Stored timers that were read, in order, given out time by time.

    Attributes:
        time: the time of those that come next; ``NO_TIMER`` at the end.
    """

    def __init__(self) -> None:
        self._times: list[int] = []
        self._timers: list[Timer] = []
        self._position = 0
        self.time = NO_TIMER

    def extend(self, times: list[int], timers: list[Timer]) -> None:
        """Adds timers that come after all others."""
        self._times = self._times[self._position :] + times
        self._timers = self._timers[self._position :] + timers
        self._position = 0
        self.time = self._times[0]

    def take_group(self) -> list[Timer]:
        """The timers of the time that comes next, in order."""
        start = self._position
        stop = self._position = bisect_right(self._times, self.time, start)
        self.time = self._times[stop] if stop < len(self._times) else NO_TIMER
        return self._timers[start:stop]


class HashMapTimers:
    """The timers of one operator.

    Attributes:
        event: timers in event time, which advances with the watermark.
        processing: timers in processing time, which advances with the epochs' clock.
    """

    def __init__(self, scope: KeyScope, store: Callable[[str], RunStore]) -> None:
        self.event = TimerQueue(EVENT, scope, store(store_of_timers(EVENT)))
        self.processing = TimerQueue(PROCESSING, scope, store(store_of_timers(PROCESSING)))

    def earliest_processing_time(self) -> int | None:
        """Return when the job has to look for due processing-time timers next; None when there are none."""
        earliest = self.processing.next_due
        return None if earliest == NO_TIMER else earliest

    def begin_epoch(self, watermark: int) -> None:
        """Takes up the stored timers; event time has come to ``watermark``."""
        self.event.begin_epoch(None if watermark == MIN_WATERMARK else watermark)
        self.processing.begin_epoch(None)

    def end_epoch(self) -> None:
        """Writes what has changed."""
        self.event.end_epoch()
        self.processing.end_epoch()


def store_of_timers(domain: str) -> str:
    """The name of the store that holds the timers of a time domain."""
    return f"{TIMERS}/{domain}"


def timer_layout(domain: str, codec: KeyCodec) -> TableLayout:
    """Return how the timers of a time domain are stored."""
    types = [pa.int64(), pa.uint64(), codec.arrow_type, pa.binary(), pa.bool_()]
    schema = pa.schema(list(zip([*_ORDER, LIVE], types, strict=True)))
    about = {"keys": codec.to_json(), "domain": domain}
    return TableLayout("timers", TIMERS, schema, len(_ORDER), about, {"keys": "key type"})


def _time(value: Any) -> int:
    """The time of a timer that was given as some other kind of integer."""
    try:
        time = index(value)
    except TypeError:
        time = NO_TIMER
    if not MIN_WATERMARK <= time <= MAX_WATERMARK:
        raise InvalidTypeError(f"the time of a timer must be an integer of 64 bits, not {value!r}")
    return time


def _firing_order(timer: Timer) -> tuple[int, Any, bytes]:
    return timer.entry.hash, timer.entry.raw, bytes_of(timer.namespace)


def _namespaces_of(column: pa.Array) -> Iterable[Namespace]:
    """The namespaces in a column, of which many are equal as a rule."""
    encoded = column.dictionary_encode()
    different = list(map(namespace_of, encoded.dictionary.to_pylist()))
    if len(different) == 1:
        return repeat(different[0])
    return map(different.__getitem__, encoded.indices.to_numpy().tolist())
