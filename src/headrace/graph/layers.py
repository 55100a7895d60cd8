"""A layered layout: items in rows, joined from row to row, get places at which lines cross little and run straight.

The method of Sugiyama, as most programs that draw directed graphs have it: rows are ordered by the mean place of what
their items are joined to, up and down by turns (the barycentre heuristic); then every item moves as near to these as
its neighbours in the row let it, which is an isotonic regression for each row (by pooling adjacent violators).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_ORDERINGS: Final = 8
_MOVES: Final = 60
_STRAIGHT: Final = (1.0, 2.0, 8.0)
"""How much it matters that a link runs straight of whose ends none, one or both are only passed through."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something that takes place in a row.

    Attributes:
        row: which row, from 0 at the top.
        width: how wide it is.
        gap: the least distance to the next item in the row.
        is_passed: whether a line only passes through it: a dummy vertex.
    """

    row: int
    width: float
    gap: float
    is_passed: bool = False


class Layers:
    """Where items stand.

    Args:
        items: all of them; those of a row in the order that they keep where nothing speaks against it.
        links: pairs of indices into ``items``, each from a row to the next one below.

    Attributes:
        rows: indices into ``items``, row by row, from left to right.
        centres: the middle of each item; the leftmost edge of all is at 0.
    """

    def __init__(self, items: Sequence[Item], links: Iterable[tuple[int, int]]) -> None:
        self._items = items
        self._above: list[list[int]] = [[] for _ in items]
        self._below: list[list[int]] = [[] for _ in items]
        for upper, lower in links:
            self._above[lower].append(upper)
            self._below[upper].append(lower)
        self.rows: list[list[int]] = [[] for _ in range(1 + max((item.row for item in items), default=-1))]
        for index, item in enumerate(items):
            self.rows[item.row].append(index)
        self._order()
        self.centres = self._packed()
        self._move()
        left = min((x - items[i].width / 2 for i, x in enumerate(self.centres)), default=0.0)
        self.centres = [x - left for x in self.centres]

    def _order(self) -> None:
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for number in range(_ORDERINGS):
            if fewest == 0:
                break
            joined = self._above if number % 2 == 0 else self._below
            place = {index: float(at) for row in self.rows for at, index in enumerate(row)}
            for row in self.rows if number % 2 == 0 else reversed(self.rows):
                wanted = {index: _mean(joined[index], place.__getitem__, place[index]) for index in row}
                row.sort(key=wanted.__getitem__)
                place.update((index, float(at)) for at, index in enumerate(row))
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def _crossings(self) -> int:
        """How many pairs of links cross."""
        place = {index: at for row in self.rows for at, index in enumerate(row)}
        found = 0
        for row in self.rows:
            passed: list[int] = []
            for index in row:
                ends = sorted(place[lower] for lower in self._below[index])
                found += sum(len(passed) - bisect_right(passed, end) for end in ends)
                for end in ends:
                    insort(passed, end)
        return found

    def _packed(self) -> list[float]:
        """Each row as narrow as it can be, from the left."""
        centres = [0.0] * len(self._items)
        for row in self.rows:
            for index, offset in zip(row, self._offsets(row), strict=True):
                centres[index] = offset
        return centres

    def _offsets(self, row: Sequence[int]) -> list[float]:
        """The least distances of a row's items from its first one."""
        offsets = [0.0] * min(1, len(row))
        for left, right in pairwise(self._items[index] for index in row):
            offsets.append(offsets[-1] + (left.width + right.width) / 2 + max(left.gap, right.gap))
        return offsets

    def _move(self) -> None:
        sides = [self._above, self._below]
        both = [above + below for above, below in zip(self._above, self._below, strict=True)]
        for number in range(_MOVES):
            joined = sides[number % 2] if number < _MOVES // 2 else both
            for row in self.rows if number % 2 == 0 else reversed(self.rows):
                wanted = [self._wanted(index, joined[index]) for index in row]
                for index, x in zip(row, self._nearest(row, wanted), strict=True):
                    self.centres[index] = x

    def _wanted(self, index: int, joined: Sequence[int]) -> tuple[float, float]:
        """Where an item would best be, and how much that matters."""
        if not joined:
            return self.centres[index], 1.0
        is_passed = self._items[index].is_passed
        weights = [_STRAIGHT[is_passed + self._items[other].is_passed] for other in joined]
        together = sum(weights)
        return sum(self.centres[other] * w for other, w in zip(joined, weights, strict=True)) / together, together

    def _nearest(self, row: Sequence[int], wanted: Sequence[tuple[float, float]]) -> list[float]:
        """The places of a row's items nearest to those that are wanted, by least squares, with none too close."""
        offsets = self._offsets(row)
        blocks: list[tuple[float, float, int]] = []  # of items that touch: their mean, their weight, how many
        for (target, weight), offset in zip(wanted, offsets, strict=True):
            blocks.append((target - offset, weight, 1))
            while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
                right, left = blocks.pop(), blocks.pop()
                together = left[1] + right[1]
                mean = (left[0] * left[1] + right[0] * right[1]) / together
                blocks.append((mean, together, left[2] + right[2]))
        starts = [mean for mean, _, count in blocks for _ in range(count)]
        return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def _mean(indices: Sequence[int], place: Callable[[int], float], otherwise: float) -> float:
    return fmean(map(place, indices)) if indices else otherwise
