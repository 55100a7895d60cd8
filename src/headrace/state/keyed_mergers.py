"""How runs of keyed state are merged: the newest value wins, lists are joined, maps are merged entry by entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.merge_input import MergeInput, by_key, lasts_of
from headrace.state.run_layout import ACTION, CLEAR, ENTRY_KEY, EXPIRY, KEY, PUT, REINSERTED, REMOVED, VALUE
from headrace.state.runs import HASH

if TYPE_CHECKING:
    import numpy.typing as npt

    Indices = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


def merge_values(given: MergeInput) -> pa.RecordBatch:
    """One row per key: the newest. A tombstone (null) goes when nothing older is left that it could hide."""
    table = given.table()
    order, firsts = by_key(table)
    newest = table.take(pa.array(order[lasts_of(firsts)]))
    gone = _expired(newest, given)
    if gone is not None:
        newest = _with_column(newest, VALUE, pc.if_else(pa.array(gone), None, newest.column(VALUE)))
    return newest.filter(newest.column(VALUE).is_valid()) if given.is_oldest else newest


def merge_lists(given: MergeInput) -> pa.RecordBatch:
    """One row per key: the elements since the last row that made everything older void."""
    nested = _Nested.of(given.table())
    expired = _expired(nested.elements, given)
    if expired is not None:
        nested = nested.keep(np.flatnonzero(~expired))
    return nested.to_rows(given.is_oldest)


def merge_maps(given: MergeInput) -> pa.RecordBatch:
    """One row per key: for every entry what all its actions together do."""
    nested = _Nested.of(given.table())
    chosen, actions = _final_actions(nested)
    expired = _expired(nested.elements, given)
    if expired is not None:
        actions[expired[chosen]] = REMOVED
    nested = nested.keep(chosen)
    # Where nothing older counts, there is nothing to remove, and every entry is a new one.
    alone = np.ones(len(nested.group), dtype=bool) if given.is_oldest else nested.cleared[nested.group]
    actions = np.where(alone & (actions == REINSERTED), PUT, actions).astype(np.int8)
    nested.elements = _with_column(nested.elements, ACTION, pa.array(actions))
    return nested.keep(np.flatnonzero(~(alone & (actions == REMOVED)))).to_rows(given.is_oldest)


@dataclass(slots=True)
class _Nested:
    """Rows with several elements per key, taken apart.

    Attributes:
        heads: hash and key of each group (one group per key).
        cleared: whether what is older than the group is void.
        group: the group of each element, never falling.
        elements: the elements that count, in the order in which they were added.
    """

    heads: pa.RecordBatch
    cleared: Mask
    group: Indices
    elements: pa.RecordBatch

    @staticmethod
    def of(table: pa.RecordBatch) -> _Nested:
        """Takes the rows of several runs apart, oldest first; rows that a newer one makes void are left out."""
        order, firsts = by_key(table)
        number = np.arange(len(order))
        clears = np.where(np.asarray(table.column(CLEAR)).astype(bool)[order], number, -1)
        last_clear = np.maximum.reduceat(clears, np.flatnonzero(firsts))
        groups = np.cumsum(firsts) - 1
        counts = number >= last_clear[groups]
        rows, groups = order[counts], groups[counts]
        names = [field.name for field in table.schema if pa.types.is_list(field.type)]
        starts, lengths = _extents(table.column(names[0]), rows)
        place = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        indices = pa.array(place)
        arrays = [table.column(name).values.take(indices) for name in names]
        return _Nested(
            heads=table.select([HASH, KEY]).take(pa.array(order[firsts])),
            cleared=last_clear >= 0,
            group=np.repeat(groups, lengths),
            elements=pa.RecordBatch.from_arrays(arrays, names=names),
        )

    def keep(self, chosen: Indices) -> _Nested:
        """The same with only these elements, in this order."""
        return _Nested(self.heads, self.cleared, self.group[chosen], self.elements.take(pa.array(chosen)))

    def to_rows(self, is_oldest: bool) -> pa.RecordBatch:
        """One row per group; groups that say nothing are left out."""
        lengths = np.bincount(self.group, minlength=len(self.cleared))
        cleared = np.zeros_like(self.cleared) if is_oldest else self.cleared
        kept = np.flatnonzero((lengths > 0) | cleared)
        offsets = np.zeros(len(kept) + 1, dtype=np.int32)
        np.cumsum(lengths[kept], out=offsets[1:])  # the others have no elements
        place = pa.array(offsets)
        heads = self.heads.take(pa.array(kept))
        lists = [pa.ListArray.from_arrays(place, column) for column in self.elements.columns]
        return pa.RecordBatch.from_arrays(
            [*heads.columns, pa.array(cleared[kept]), *lists], names=[HASH, KEY, CLEAR, *self.elements.schema.names]
        )


def _extents(lists: pa.ListArray, rows: Indices) -> tuple[Indices, Indices]:
    """Where the elements of the rows begin in ``lists.values``, and how many there are."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets[rows], offsets[rows + 1] - offsets[rows]


def _final_actions(nested: _Nested) -> tuple[Indices, npt.NDArray[np.int8]]:
    """For each entry of each group the element that decides its value, in the order of insertion, and its action."""
    actions = nested.elements.column(ACTION).to_numpy().astype(np.int8)
    codes = nested.elements.column(ENTRY_KEY).dictionary_encode().indices.to_numpy()
    order = np.lexsort((codes, nested.group))  # stable: the actions of an entry stay in their order
    if not len(order):
        return order, actions
    code, group = codes[order], nested.group[order]
    firsts = np.ones(len(order), dtype=bool)
    firsts[1:] = (code[1:] != code[:-1]) | (group[1:] != group[:-1])
    starts, lasts = np.flatnonzero(firsts), np.flatnonzero(lasts_of(firsts))
    number = np.arange(len(order))
    # The last action that took the entry from its place, and the one that put it into its present place.
    broken = np.maximum.reduceat(np.where(actions[order] != PUT, number, -1), starts)
    after = np.minimum(broken + (actions[order][broken] == REMOVED), lasts)
    placed = np.where(broken < 0, starts, after)
    final = np.where(broken < 0, PUT, REINSERTED).astype(np.int8)
    final[actions[order[lasts]] == REMOVED] = REMOVED
    in_order = np.lexsort((order[placed], group[starts]))
    return order[lasts][in_order], final[in_order]


def _expired(table: pa.RecordBatch, given: MergeInput) -> Mask | None:
    """Which rows have expired; None when none can."""
    if not given.drops_expired or EXPIRY not in table.schema.names:
        return None
    expiries = table.column(EXPIRY)
    return np.asarray(pc.fill_null(pc.less_equal(expiries, given.now), False)).astype(bool)


def _with_column(batch: pa.RecordBatch, name: str, array: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), name, array)
