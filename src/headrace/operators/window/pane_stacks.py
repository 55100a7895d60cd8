"""The merge of the panes of a window that moves on, without merging all of them for every window.

Two stacks, as for the minimum of a queue: the *older* panes are merged from the newest to the oldest, and each step
notes what it has changed, so that taking the oldest pane away is putting that back. The *newer* panes, which come
after, are merged as they come. A window is the merge of both. So each pane is merged twice, however many windows it
belongs to, no aggregate has to be taken back, and memory is that of the panes.

When the older panes are used up the newer ones, which nothing can be taken from, take their place: a new object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.operators.arrays import concat, gather
from headrace.operators.window.accumulators import Accumulators
from headrace.state.runs.grouping import group_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.operators.aggregates.aggregator_list import AggregatorList

    Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Step:
    """What merging a pane into newer ones has changed.

    Attributes:
        pane: the end of the pane.
        places: where rows of the merge have taken the place of others.
        before: these others.
        added: where the rows are whose keys the newer panes do not have.
    """

    pane: int
    places: Longs
    before: Accumulators
    added: Longs


class PaneStacks:
    """The merge of consecutive panes, of which the oldest leave and newer ones come.

    Args:
        aggregators: what the panes hold.
        panes: those of the first window, oldest first, with their ends: each one row a key, by hash and key.
        boundary: the end of that window; what comes later may only leave with all panes up to here gone.
    """

    def __init__(self, aggregators: AggregatorList, panes: Sequence[tuple[int, Accumulators]], boundary: int) -> None:
        self.boundary = boundary
        self._aggregators = aggregators
        self._steps: list[_Step] = []
        self._older: Accumulators | None = None
        self._newer: Accumulators | None = None
        for end, rows in reversed(panes):
            self._older = self._merge_older(end, rows.at(0))

    def add(self, rows: Accumulators) -> None:
        """Adds a pane that is newer than all others."""
        rows = rows.at(0)
        self._newer = rows if self._newer is None else _union(self._aggregators, self._newer, rows).merged

    def remove_up_to(self, time: int) -> None:
        """Takes away the panes whose ends are not above a time, which is not above the boundary."""
        while self._steps and self._steps[-1].pane <= time:
            step = self._steps.pop()
            assert self._older is not None
            self._older = _undone(self._older, step) if self._steps else None

    def merged(self) -> Accumulators | None:
        """One row for every key of the panes, by hash and key; None when there are none."""
        if self._older is None or self._newer is None:
            return self._newer if self._older is None else self._older
        return _union(self._aggregators, self._older, self._newer).merged

    def _merge_older(self, pane: int, rows: Accumulators) -> Accumulators:
        newer = self._older
        if newer is None:
            nothing = rows.slice(0, 0)
            self._steps.append(_Step(pane, np.empty(0, np.int64), nothing, np.arange(len(rows))))
            return rows
        union = _union(self._aggregators, rows, newer)
        row_before = np.full(len(union.merged), -1)
        row_before[union.right] = np.arange(len(newer))
        before = row_before[union.left]
        was_there = before >= 0
        replaced = newer if len(newer) == len(rows) and was_there.all() else newer.take(before[was_there])
        self._steps.append(_Step(pane, union.left[was_there], replaced, union.left[~was_there]))
        return union.merged


@dataclass(frozen=True)
class _Union:
    """Two tables as one.

    Attributes:
        merged: one row a key.
        left: where each row of the left table is in it.
        right: where each row of the right table is in it.
    """

    merged: Accumulators
    left: Longs
    right: Longs


def _union(aggregators: AggregatorList, left: Accumulators, right: Accumulators) -> _Union:
    """The rows of two tables, those of one key merged; ``left`` is the older one."""
    if len(left) == len(right) and np.array_equal(left.hashes, right.hashes) and left.keys.equals(right.keys):
        rows = np.arange(len(left))
        columns = aggregators.combine(left.columns, right.columns)
        return _Union(Accumulators(left.ends, left.hashes, left.keys, columns), rows, rows)
    large, small = (left, right) if len(left) >= len(right) else (right, left)
    places = _places(large, small)
    if places is None:
        return _union_by_sorting(aggregators, left, right)
    met = large.take(places)
    pairs = (met, small) if large is left else (small, met)
    combined = aggregators.combine(pairs[0].columns, pairs[1].columns)
    sources = np.arange(len(large))
    sources[places] = len(large) + np.arange(len(small))
    columns = [gather(concat([a, b]), sources) for a, b in zip(large.columns, combined, strict=True)]
    merged, everything = Accumulators(large.ends, large.hashes, large.keys, columns), np.arange(len(large))
    return _Union(merged, everything, places) if large is left else _Union(merged, places, everything)


def _places(large: Accumulators, small: Accumulators) -> Longs | None:
    """Where the keys of one table are in another one, with all of its own: keys come again from pane to pane."""
    places = np.searchsorted(large.hashes, small.hashes)
    if not len(large) or (len(places) and places[-1] == len(large)):
        return None
    if not np.array_equal(large.hashes[places], small.hashes) or not gather(large.keys, places).equals(small.keys):
        return None
    return places


def _union_by_sorting(aggregators: AggregatorList, left: Accumulators, right: Accumulators) -> _Union:
    both = Accumulators.concat([left, right])
    groups = group_rows(both.ends, both.hashes, both.keys)
    order, segments = groups.order, groups.segments
    first = order[segments.starts]
    is_pair = segments.counts == 2
    pairs = segments.starts[is_pair]
    older, newer = order[pairs], order[pairs + 1] - len(left)
    combined = aggregators.combine(
        [gather(column, older) for column in left.columns], [gather(column, newer) for column in right.columns]
    )
    sources = first.copy()
    sources[is_pair] = len(both) + np.arange(len(pairs))
    columns = [gather(concat([a, b]), sources) for a, b in zip(both.columns, combined, strict=True)]
    places = np.empty(len(both), np.int64)
    places[order] = segments.ids
    merged = Accumulators(both.ends[first], both.hashes[first], gather(both.keys, first), columns)
    return _Union(merged, places[: len(left)], places[len(left) :])


def _undone(merged: Accumulators, step: _Step) -> Accumulators:
    """What the newer panes were before a pane was merged into them."""
    if len(step.before) == len(merged):
        return step.before
    sources = np.arange(len(merged))
    sources[step.places] = len(merged) + np.arange(len(step.before))
    return Accumulators.concat([merged, step.before]).take(np.delete(sources, step.added))
