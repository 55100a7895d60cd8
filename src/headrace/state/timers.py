"""Timers of keys: registered and deleted without reading state, fired in the order of their times.

A timer is one of (key, namespace, time) in its time domain: registering it twice is registering it once, deleting one
that does not exist is nothing. What is registered or deleted in an epoch is kept in memory and becomes one run at its
end; what earlier epochs left stays in its columns until it is due.
"""

from __future__ import annotations

from heapq import heappop, heappush
from operator import index
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidTypeError
from headrace.common.garbage import gc_paused
from headrace.state.keyed.namespaces import namespace_of, ordered_bytes
from headrace.state.keys import KeyColumn
from headrace.state.ordered_table import OrderedLayout, OrderedTable
from headrace.state.runs import HASH
from headrace.state.runs.layout import KEY, TIMERS
from headrace.state.runs.ordered import LIVE, NO_TIME, all_rows, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.state.keyed.namespaces import Namespace
    from headrace.state.keyed.scope import KeyScope
    from headrace.state.keys import KeyCodec
    from headrace.state.keys.entries import AnyKeyEntry
    from headrace.state.runs import RunStore

NO_TIMER: Final = NO_TIME
"""The time of the next timer when there is none: later than every time."""

EVENT: Final = "event"
PROCESSING: Final = "processing"

_TIME: Final = "time"
_NAMESPACE: Final = "namespace"
_ORDER: Final = [_TIME, HASH, KEY, _NAMESPACE]

_Identity = tuple[int, bytes]
"""What tells apart the timers of one time: the ordinal of the key, and the namespace as bytes."""

_Timer = tuple[int, int, bytes]
"""The time of a timer and its identity."""


class Timer(NamedTuple):
    """A timer that fires.

    Attributes:
        time: for when it was registered, in milliseconds.
        entry: its key.
        namespace: its namespace, such as a window; None when it has none.
    """

    time: int
    entry: AnyKeyEntry
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
        self._layout = _layout(domain, scope.codec)
        self._table = OrderedTable(store, self._layout, newest)
        # Registered (True) or deleted (False) in this epoch, and not fired since; the heap may hold more.
        self._new: dict[_Timer, bool] = {}
        self._heap: list[_Timer] = []
        self._advanced_to: int | None = None

    def register(self, time: int, namespace: Namespace = None) -> None:
        """Registers a timer of the current key. One whose time has been passed fires with the next advance."""
        self._put(time, namespace, True)
        self.next_due = min(self.next_due, time)

    def delete(self, time: int, namespace: Namespace = None) -> None:
        """Deletes a timer of the current key, if there is such a one."""
        self._put(time, namespace, False)

    def _put(self, time: int, namespace: Namespace, live: bool) -> None:
        if type(time) is not int or not MIN_WATERMARK <= time <= MAX_WATERMARK:
            time = _time(time)
        timer = (time, self._scope.current.ordinal, b"" if namespace is None else ordered_bytes(namespace))
        if timer not in self._new:
            heappush(self._heap, timer)
        self._new[timer] = live

    def pop_due(self, up_to: int) -> Iterator[Timer]:
        """Time advances to ``up_to``: the timers that are due, by time, then hash and key.

        Each timer is gone before it is given out. Timers that are registered meanwhile with a time that is not above
        ``up_to`` are among them; those that are deleted meanwhile are not. Nothing happens unless time does advance.
        The iterator must be used up.
        """
        if self._advanced_to is not None and up_to <= self._advanced_to:
            return
        self._advanced_to = up_to
        stored = self._take_stored(up_to)
        while True:
            new_time = self._heap[0][0] if self._heap else NO_TIMER
            time = min(stored.time, new_time)
            if time > up_to:
                break
            due = stored.take_group() if stored.time == time else {}
            if new_time == time:
                due = self._overlaid(time, due)
            yield from self._fire(time, due)
        self.next_due = min(self._table.first, *(timer[0] for timer in self._heap[:1]), NO_TIMER)

    def begin_epoch(self, advanced_to: int | None) -> None:
        """Takes up the stored timers; ``advanced_to`` is how far time has come, None when that is not known."""
        self._new, self._heap = {}, []
        self._advanced_to = advanced_to
        self._table.begin_epoch()
        self.next_due = self._table.first

    def end_epoch(self) -> None:
        """Writes what was registered and deleted, and how far the stored timers have been passed."""
        batch = self._new_rows()
        if batch is not None:
            self._table.append(batch)
        self._new, self._heap = {}, []
        self._table.end_epoch()

    def _overlaid(self, time: int, due: dict[_Identity, AnyKeyEntry]) -> dict[_Identity, AnyKeyEntry]:
        """The timers of one time, given the stored ones: with what was registered and deleted since."""
        entries = self._scope.entries.all
        while self._heap and self._heap[0][0] == time:
            timer = heappop(self._heap)
            live = self._new.pop(timer, None)
            if live:
                due[timer[1:]] = entries[timer[1]]
            elif live is False:
                due.pop(timer[1:], None)
        return dict(sorted(due.items(), key=_firing_order))

    def _fire(self, time: int, due: dict[_Identity, AnyKeyEntry]) -> Iterator[Timer]:
        for identity, entry in due.items():
            # Deleted (False) or registered once more (True) by a timer of the same time that has just fired.
            if self._new.pop((time, *identity), True):
                yield Timer(time, entry, namespace_of(identity[1]))

    def _take_stored(self, up_to: int) -> _Stored:
        batches = self._table.up_to(up_to)
        self._table.forget(up_to)
        if not batches:
            return _Stored([], [], [])
        due = newest(self._layout.meta, batches)
        due = due.filter(due.column(LIVE))
        keys = KeyColumn(due.column(KEY), due.column(HASH).to_numpy())
        entries = self._scope.bind(keys) if len(keys) else []
        namespaces = due.column(_NAMESPACE).to_pylist()
        # Whoever set a timer for a namespace will want what it holds.
        self._scope.expect((entry, namespace_of(data)) for entry, data in zip(entries, namespaces, strict=True) if data)
        return _Stored(due.column(_TIME).to_pylist(), entries, namespaces)

    def _new_rows(self) -> pa.RecordBatch | None:
        keep_deleted = self._table.first != NO_TIME
        with gc_paused():
            rows = [(*timer, live) for timer, live in self._new.items() if live or keep_deleted]
            if not rows:
                return None
            times, ordinals, namespaces, live = zip(*rows, strict=True)
        keys = self._scope.entries.take(np.array(ordinals, dtype=np.int64))
        columns = [pa.array(times, pa.int64()), pa.array(keys.hashes), keys.values, pa.array(namespaces, pa.binary())]
        rows = pa.RecordBatch.from_arrays([*columns, pa.array(live)], schema=self._layout.schema)
        return all_rows(self._layout.meta, [rows])


class _Stored:
    """Stored timers that are due, in order, given out time by time.

    Attributes:
        time: the time of those that come next; ``NO_TIMER`` at the end.
    """

    def __init__(self, times: list[int], entries: list[AnyKeyEntry], namespaces: list[bytes]) -> None:
        self._times = times
        self._entries = entries
        self._namespaces = namespaces
        self._position = 0
        self.time = times[0] if times else NO_TIMER

    def take_group(self) -> dict[_Identity, AnyKeyEntry]:
        """The timers of the time that comes next, in order."""
        times, start = self._times, self._position
        stop, time = start, self.time
        while stop < len(times) and times[stop] == time:
            stop += 1
        self._position = stop
        self.time = times[stop] if stop < len(times) else NO_TIMER
        entries = self._entries[start:stop]
        pairs = zip(entries, self._namespaces[start:stop], strict=True)
        return {(entry.ordinal, namespace): entry for entry, namespace in pairs}


class HashMapTimers:
    """The timers of one operator.

    Attributes:
        event: timers in event time, which advances with the watermark.
        processing: timers in processing time, which advances with the epochs' clock.
    """

    def __init__(self, scope: KeyScope, store: Callable[[str], RunStore]) -> None:
        self.event = TimerQueue(EVENT, scope, store(f"timers/{EVENT}"))
        self.processing = TimerQueue(PROCESSING, scope, store(f"timers/{PROCESSING}"))

    def earliest_processing_time(self) -> int | None:
        """When the job has to look for due processing-time timers next; None when there are none."""
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


def _layout(domain: str, codec: KeyCodec) -> OrderedLayout:
    types = [pa.int64(), pa.uint64(), codec.arrow_type, pa.binary(), pa.bool_()]
    schema = pa.schema(list(zip([*_ORDER, LIVE], types, strict=True)))
    about = {"keys": codec.to_json(), "domain": domain}
    return OrderedLayout("timers", TIMERS, schema, len(_ORDER), about, {"keys": "key type"})


def _time(value: Any) -> int:
    """The time of a timer that was given as some other kind of integer."""
    try:
        time = index(value)
    except TypeError:
        time = NO_TIMER
    if not MIN_WATERMARK <= time <= MAX_WATERMARK:
        raise InvalidTypeError(f"the time of a timer must be an integer of 64 bits, not {value!r}")
    return time


def _firing_order(item: tuple[_Identity, AnyKeyEntry]) -> tuple[int, Any, bytes]:
    identity, entry = item
    return entry.hash, entry.raw, identity[1]
