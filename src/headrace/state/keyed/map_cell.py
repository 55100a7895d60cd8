"""What is in memory for the map of one key during an epoch."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

from headrace.state.runs.layout import PUT, REINSERTED, REMOVED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.state.keyed.map_entries import EntryRange

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
        sorted_keys: once a range of entries has been asked for, the keys of those that need not be in ``ranges``, which
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
        """Whether all entries have been read."""
        return self.missing is GONE

    @property
    def is_changed(self) -> bool:
        """Whether there is something to be written."""
        return self.cleared or bool(self.actions)

    @property
    def is_empty(self) -> bool:
        """Whether what is to be written only takes away."""
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

    def remove(self, key: Any) -> None:
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

    def keys_not_stored(self) -> SortedKeys:
        """The keys of the entries that need not be in :attr:`ranges`; some may have been removed."""
        if self.sorted_keys is None:
            self.sorted_keys = SortedKeys(self.actions if self.ranges else self.entries)
        return self.sorted_keys


def apply(entries: dict[Any, Any], key: Any, action: int, element: Any) -> None:
    """Repeats an action on entries."""
    if action != PUT:
        entries.pop(key, None)
    if action != REMOVED:
        entries[key] = element


class SortedKeys:
    """A growing set of integers.

    They lie in sorted lists, each of them at least twice as long as the next one: adding ``n`` of them, with a range
    asked for after each, takes ``n log n`` steps, where one sorted list would take ``n * n``.
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
        """Those from ``low`` up to ``high``, which is not among them; in no particular order."""
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
