"""The events that a pattern is matched with at once: as columns, and as Python objects where somebody looks at one.

The automaton knows an event by its place: a number from 0 on for one that has arrived, a negative one for one that
partial matches had taken before. So events that are in no match never become Python objects, and are stored as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat
from headrace.common.batch import Batch
from headrace.common.columns import array_to_values

Longs = npt.NDArray[np.int64]

_BLOCK: Final = 1 << 8
"""The number of events that become Python objects together when one of them is looked at."""


class Events:
    """Events by their places.

    Attributes:
        taken: those that partial matches had taken, as one column.

    Args:
        arrived: those that have arrived.
        taken: see above; whoever does not know them yet sets them before one is asked for.
    """

    def __init__(self, arrived: Batch, taken: pa.Array) -> None:
        self._arrived = arrived
        self.taken = taken
        self._blocks: dict[int, list[Any]] = {}

    @property
    def arrived(self) -> Batch:
        """Those that have arrived."""
        return self._arrived

    def value(self, place: int) -> Any:
        """An event as a Python object, the same one whenever it is asked for."""
        block, row = place >> 8, place & (_BLOCK - 1)
        values = self._blocks.get(block)
        if values is None:
            values = self._blocks[block] = self._values_of(block)
        return values[row]

    def _values_of(self, block: int) -> list[Any]:
        if block >= 0:
            return self._arrived.slice(block * _BLOCK, min((block + 1) * _BLOCK, len(self._arrived))).rows
        # Block -1 has the places -256 to -1, where -1 is the first event that was taken.
        first = (-block - 1) * _BLOCK
        values = array_to_values(self._arrived.type, self.taken.slice(first, _BLOCK))
        return [*[None] * (_BLOCK - len(values)), *reversed(values)]

    def reader(self, *, is_for_all: bool) -> Callable[[int], Any]:
        """Return what gives an event as a Python object, to a caller that looks at nearly all of them, or at few."""
        if not is_for_all:
            return self.value
        taken = array_to_values(self._arrived.type, self.taken)
        return [*self._arrived.rows, *reversed(taken)].__getitem__

    def values(self, places: Iterable[int]) -> dict[int, Any]:
        """Events as Python objects, by their places; those that are not yet are made together."""
        wanted = dict.fromkeys(places)
        missing = [place for place in wanted if place >> 8 not in self._blocks]
        if missing:
            made = self.column(np.array(missing, np.int64))
            wanted.update(zip(missing, array_to_values(self._arrived.type, made), strict=True))
        for place in wanted.keys() - set(missing):
            wanted[place] = self.value(place)
        return wanted

    def all(self) -> pa.Array:
        """All events as one column, in which a place is the index of an element as in Python's lists."""
        return self.column(np.concatenate([np.arange(len(self._arrived)), np.arange(-len(self.taken), 0)]))

    def column(self, places: Longs) -> pa.Array:
        """Events as one column."""
        is_taken = places < 0
        taken = self.taken.take(pa.array(-1 - places[is_taken]))
        if is_taken.all():
            return taken
        arrived = self._arrived.take(places[~is_taken]).as_array()
        if not is_taken.any():
            return arrived
        order = np.empty(len(places), np.int64)
        order[np.flatnonzero(is_taken)] = np.arange(len(taken))
        order[np.flatnonzero(~is_taken)] = len(taken) + np.arange(len(arrived))
        return concat([taken, arrived]).take(pa.array(order))
