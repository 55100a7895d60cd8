"""``SortedKeys``: integers that are added one by one and asked for by ranges, in any order of both."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


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
