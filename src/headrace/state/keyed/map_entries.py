"""The entries of a map state, from Python objects to columns and back: many at once, or one that is searched for."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.columns import array_to_values, values_to_array
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.keyed.table import Elements
from headrace.state.keys import KeyCodec
from headrace.state.keys.typed import nan_replacer
from headrace.state.runs import Run
from headrace.state.runs.layout import (
    ACTION,
    ENTRY,
    ENTRY_HASH,
    ENTRY_KEY,
    EXPIRY,
    PLACE,
    PUT,
    REINSERTED,
    REMOVED,
    VALUE,
    hash_column,
    rows_as_they_happened,
)
from headrace.state.runs.merge_input import expires
from headrace.state.runs.sections import ELEMENTS, FEW

Indices = npt.NDArray[np.int64]


GONE: Final[Any] = object()
"""Stands for the element of an entry that is known not to be there."""

UNKNOWN: Final[Any] = object()
"""Stands for the element of an entry that has not been looked up."""

_TAKES_AWAY: Final = frozenset({REMOVED})


class MapCell:
    """The map of one key.

    Attributes:
        entries: what is known of its entries at present; all of them, in order, when :attr:`is_loaded`.
        actions: what happened to entries in this epoch, in this order.
        cleared: whether everything that is stored is void.
        is_read: whether it is known where its entries are stored.
        missing: what stands for the element of an entry that is not among ``entries``.
        ranges: where its entries are stored, oldest first; empty for a small map, and when all that is stored is void.
        sorted_keys: once a range of entries has been read, the keys of those that need not be in ``ranges``, which
            are integers; some of these may have been removed since.
        size: how many rows these have.
        look_ups: how many entries have been looked up there.
    """

    __slots__ = ("actions", "cleared", "entries", "is_read", "look_ups", "missing", "ranges", "size", "sorted_keys")

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}
        self.actions: dict[Any, int] = {}
        self.cleared = self.is_read = False
        self.missing: Any = UNKNOWN
        self.ranges: tuple[EntryRange, ...] = ()
        self.sorted_keys: SortedKeys | None = None
        self.size = self.look_ups = 0

    @property
    def is_loaded(self) -> bool:
        """Return whether all entries have been read."""
        return self.missing is GONE

    @property
    def is_changed(self) -> bool:
        """Return whether there is something to be written."""
        return self.cleared or bool(self.actions)

    @property
    def is_empty(self) -> bool:
        """Return whether what is to be written only takes away."""
        return _TAKES_AWAY.issuperset(self.actions.values())

    def put(self, key: Any, element: Any) -> None:
        """Sets an entry."""
        if self.actions.setdefault(key, PUT) == REMOVED:
            # At the end of the actions, as a new entry is at the end of the map.
            del self.actions[key]
            self.actions[key] = REINSERTED
        self.entries[key] = element
        if self.sorted_keys is not None:
            self.sorted_keys.add(key)

    def remove(self, key: object) -> None:
        """Removes an entry."""
        self.actions.pop(key, None)
        self.actions[key] = REMOVED
        if self.is_loaded:
            self.entries.pop(key, None)
        else:
            self.entries[key] = GONE

    def clear(self) -> None:
        """Removes all entries."""
        # Also where it is known that nothing is stored: subtasks that have a map in common write the same, whatever
        # they have read of it.
        self.entries, self.actions, self.ranges = {}, {}, ()
        self.cleared = self.is_read = True
        self.missing = GONE
        self.sorted_keys = None

    def stored(self) -> dict[Any, Any]:
        """A dict to read the stored entries into."""
        return {} if self.entries or self.is_loaded else self.entries

    def load(self, stored: dict[Any, Any]) -> None:
        """Takes the stored entries; what was put or removed before they were read comes on top."""
        known, self.entries = self.entries, stored
        for key, action in self.actions.items():
            apply(stored, key, action, known[key])
        self.missing = GONE

    def keys_not_stored(self) -> "SortedKeys":
        """The keys of the entries that need not be in :attr:`ranges`; some may have been removed."""
        if self.sorted_keys is None:
            self.sorted_keys = SortedKeys(self.actions if self.ranges else self.entries)
        return self.sorted_keys


def apply(entries: dict[Any, Any], key: object, action: int, element: object) -> None:
    """Repeats an action on entries."""
    if action != PUT:
        entries.pop(key, None)
    if action != REMOVED:
        entries[key] = element


class SortedKeys:
    """A growing set of integers.

    They lie in sorted lists, each of them at least twice as long as the next one: adding ``n`` of them, with a range
    read after each, takes ``n log n`` steps, where one sorted list would take ``n * n``.
    """

    __slots__ = ("_known", "_lists", "_new")

    def __init__(self, keys: Iterable[int] = ()) -> None:
        self._known = set(keys)
        self._new = list(self._known)
        self._lists: list[list[int]] = []

    def add(self, key: int) -> None:
        """Adds an integer, unless it is there."""
        if key not in self._known:
            self._known.add(key)
            self._new.append(key)

    def between(self, low: int, high: int) -> list[int]:
        """The entries from ``low`` up to ``high``, which is not among them; in no particular order."""
        if self._new:
            self._sort_new()
        found: list[int] = []
        for keys in self._lists:
            found += keys[bisect_left(keys, low) : bisect_left(keys, high)]
        return found

    def _sort_new(self) -> None:
        keys, self._new = self._new, []
        keys.sort()
        while self._lists and len(self._lists[-1]) < 2 * len(keys):
            keys = self._lists.pop() + keys
            keys.sort()  # two sorted lists, one behind the other, are merged, which is fast
        self._lists.append(keys)


MIN_INT64: Final = -(1 << 63)
MAX_INT64: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class EntryRange:
    """The entries of one key in one run.

    Attributes:
        run: the run.
        start: where the entries begin among the elements of its lists.
        stop: where they end.
    """

    run: Run
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class EntryChanges:
    """The changes of entries, in this order.

    Attributes:
        keys: the keys of the entries.
        actions: what happened to each.
        elements: what it was set to; None for one that was removed.
    """

    keys: list[Any]
    actions: npt.NDArray[np.int8]
    elements: list[Any]

    def repeat(self, maps: list[dict[Any, Any]], lengths: Indices) -> None:
        """Repeats it on maps: on each of them the next so many."""
        ends = np.cumsum(lengths)
        places = zip(maps, (ends - lengths).tolist(), ends.tolist(), strict=True)
        keys, elements = self.keys, self.elements
        if (self.actions == PUT).all():
            for entries, start, stop in places:
                entries.update(zip(keys[start:stop], elements[start:stop], strict=True))
            return
        actions = self.actions.tolist()
        for entries, start, stop in places:
            for index in range(start, stop):
                apply(entries, keys[index], actions[index], elements[index])


class MapEntries:
    """The layout in which the entries of one map state are stored; elements are those of :class:`Elements`."""

    def __init__(self, descriptor: MapStateDescriptor, *, expires: bool) -> None:
        self._key_type = descriptor.key_type
        self._codec = KeyCodec.for_type(descriptor.key_type)
        self._same_nan = nan_replacer(descriptor.key_type)
        self._elements = Elements(descriptor.value_type, expires)

    def to_columns(self, happened: EntryChanges) -> dict[str, pa.Array]:
        """The columns of entries."""
        encoded = self._codec.encode(happened.keys)
        columns = {ENTRY_KEY: encoded.values, **hash_column(encoded.values, encoded.hashes)}
        if not self._codec.is_plain:
            columns[ENTRY] = values_to_array(self._key_type, happened.keys)
        columns[ACTION] = pa.array(happened.actions)
        return {**columns, **self._elements.to_columns(happened.elements)}

    def read(self, run: Run, starts: Indices, stops: Indices) -> EntryChanges:
        """The actions of a run on ranges of entries, one range after the other."""
        section = run.section
        places = section.ranges_of(PLACE + ELEMENTS, starts, stops)
        rows = pa.array(rows_as_they_happened(starts, stops - starts, places))

        def column(name: str) -> pa.Array:
            return section.ranges_of(name + ELEMENTS, starts, stops).take(rows)

        return self._happened(run, column)

    def read_between(self, place: EntryRange, low: int, high: int) -> EntryChanges:
        """The actions of a run on the entries with keys from ``low`` up to ``high``, in ascending order of these.

        The keys are integers, and ``low`` is one that fits 64 bits; ``high`` may exceed them.
        """
        section, name = place.run.section, ENTRY_KEY + ELEMENTS
        start, stop = place.start, place.stop
        if low > MIN_INT64:
            start = section.lower_bound(name, np.int64(low), start, stop)
        if high <= MAX_INT64:
            stop = section.lower_bound(name, np.int64(high), start, stop)
        return self._happened(place.run, lambda column: section.rows_of(column + ELEMENTS, start, stop))

    def _happened(self, run: Run, column: Callable[[str], pa.Array]) -> EntryChanges:
        """The actions of a run on some entries; ``column`` gives the values of a column for these."""
        has_expiries = self._elements.expires and expires(run)
        elements = self._elements.from_columns(column(VALUE), column(EXPIRY) if has_expiries else None)
        return EntryChanges(self._keys(column(self._key_column)), column(ACTION).to_numpy(), elements)

    def some_keys(self, place: EntryRange) -> list[Any]:
        """The keys of the first few of some entries; there may be others, in newer runs, that say something of them."""
        stop = min(place.start + FEW, place.stop)
        return self._keys(place.run.section.rows_of(self._key_column + ELEMENTS, place.start, stop))

    @property
    def _key_column(self) -> str:
        return ENTRY_KEY if self._codec.is_plain else ENTRY

    def _keys(self, column: pa.Array) -> list[Any]:
        if self._codec.is_plain:
            return self._codec.decode(column)
        keys = array_to_values(self._key_type, column)
        return keys if self._same_nan is None else list(map(self._same_nan, keys))

    def probe(self, key: object) -> "Probe":
        """The search key of an entry; the key itself is as it comes back from storage."""
        encoded = self._codec.encode([key])
        if pa.types.is_int64(encoded.values.type):
            return Probe(ENTRY_KEY + ELEMENTS, encoded.values.to_numpy()[0], None)
        return Probe(ENTRY_HASH + ELEMENTS, encoded.hashes[0], encoded.values[0].as_py())

    def action(self, run: Run, row: int) -> int:
        """The action on an entry that was found."""
        action: int = run.section.rows_of(ACTION + ELEMENTS, row, row + 1)[0].as_py()
        return action

    def element(self, run: Run, row: int) -> Any:
        """The element of an entry that was found."""
        expiries = None
        if self._elements.expires and expires(run):
            expiries = run.section.rows_of(EXPIRY + ELEMENTS, row, row + 1)
        return self._elements.from_columns(run.section.rows_of(VALUE + ELEMENTS, row, row + 1), expiries)[0]


@dataclass(frozen=True, slots=True)
class Probe:
    """The key of one entry, as runs are searched for it.

    Attributes:
        column: the column that ranges of entries are sorted by.
        value: what it holds for the entry.
        raw: the key in canonical form, where others may have the same ``value``; else None.
    """

    column: str
    value: np.integer[Any]
    raw: str | bytes | None

    def find(self, place: EntryRange) -> int | None:
        """The row of the entry; None when the run does not say anything about it."""
        section, stop = place.run.section, place.stop
        row = section.lower_bound(self.column, self.value, place.start, stop)
        while row < stop and section.rows_of(self.column, row, row + 1).to_numpy()[0] == self.value:
            if self.raw is None or section.rows_of(ENTRY_KEY + ELEMENTS, row, row + 1)[0].as_py() == self.raw:
                return row
            row += 1
        return None
