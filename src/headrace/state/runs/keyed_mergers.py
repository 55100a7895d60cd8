"""How runs of keyed state are merged: the newest value wins, lists are joined, maps are merged entry by entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.runs.layout import (
    ACTION,
    CLEAR,
    ENTRY,
    ENTRY_KEY,
    EXPIRY,
    HASH,
    KEY,
    PLACE,
    PUT,
    REINSERTED,
    REMOVED,
    VALUE,
)
from headrace.state.runs.list_columns import (
    list_columns,
    rows_as_they_happened,
    rows_of_ranges,
    sorted_lists,
    with_sorted_entries,
)
from headrace.state.runs.merge_input import MergeInput, by_key, lasts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    _ToLists = Callable[[npt.NDArray[np.int64], dict[str, pa.Array]], dict[str, pa.Array]]
    Indices = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


def merge_values(given: MergeInput) -> pa.RecordBatch:
    """One row per key: the newest. A tombstone (null) goes when nothing older is left that it could hide."""
    table = given.table()
    order, firsts = by_key(table)
    newest = table.take(pa.array(order[lasts_of(firsts)]))
    gone = _expired(newest, given)
    if gone is not None:
        newest = _without_values(newest, gone)
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
    nested = _Nested.of(given.table(with_sorted_entries))
    chosen, placed, actions = _final_actions(nested)
    expired = _expired(nested.elements, given)
    names = nested.elements.column(ENTRY).take(pa.array(placed)) if ENTRY in nested.elements.schema.names else None
    nested = nested.keep(chosen)
    if expired is not None:
        gone = expired[chosen]
        actions[gone] = REMOVED
        nested.elements = _without_values(nested.elements, gone)
    if names is not None:  # as in a dict, the object that was put first stays
        nested.elements = _with_column(nested.elements, ENTRY, names)
    # Where nothing older counts, there is nothing to remove, and every entry is a new one.
    alone = np.ones(len(nested.group), dtype=bool) if given.is_oldest else nested.cleared[nested.group]
    actions = np.where(alone & (actions == REINSERTED), PUT, actions).astype(np.int8)
    nested.elements = _with_column(nested.elements, ACTION, pa.array(actions))
    return nested.keep(np.flatnonzero(~(alone & (actions == REMOVED)))).to_rows(given.is_oldest, sorted_lists)


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
        if PLACE in names:
            names.remove(PLACE)
            indices = pa.array(rows_as_they_happened(starts, lengths, table.column(PLACE).values))
        else:
            indices = pa.array(rows_of_ranges(starts, lengths))
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

    def to_rows(self, is_oldest: bool, lists_of: _ToLists = list_columns) -> pa.RecordBatch:
        """One row per group; groups that say nothing are left out."""
        lengths = np.bincount(self.group, minlength=len(self.cleared))
        cleared = np.zeros_like(self.cleared) if is_oldest else self.cleared
        kept = np.flatnonzero((lengths > 0) | cleared)
        heads = self.heads.take(pa.array(kept))
        # The groups that are left out have no elements.
        lists = lists_of(lengths[kept], dict(zip(self.elements.schema.names, self.elements.columns, strict=True)))
        return pa.RecordBatch.from_pydict(
            {HASH: heads.column(HASH), KEY: heads.column(KEY), CLEAR: pa.array(cleared[kept]), **lists}
        )


def _extents(lists: pa.ListArray, rows: Indices) -> tuple[Indices, Indices]:
    """Where the elements of the rows begin in ``lists.values``, and how many there are."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets[rows], offsets[rows + 1] - offsets[rows]


def _final_actions(nested: _Nested) -> tuple[Indices, Indices, npt.NDArray[np.int8]]:
    """For each entry of each group, in the order of insertion: what decides its value, what its place, its action."""
    actions = nested.elements.column(ACTION).to_numpy().astype(np.int8)
    codes = nested.elements.column(ENTRY_KEY).dictionary_encode().indices.to_numpy()
    order = np.lexsort((codes, nested.group))  # stable: the actions of an entry stay in their order
    if not len(order):
        return order, order, actions
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
    return order[lasts][in_order], order[placed][in_order], final[in_order]


def _expired(table: pa.RecordBatch, given: MergeInput) -> Mask | None:
    """Which rows have expired; None when none can."""
    if not given.drops_expired or EXPIRY not in table.schema.names:
        return None
    expiries = table.column(EXPIRY)
    return np.asarray(pc.fill_null(pc.less_equal(expiries, given.now), False)).astype(bool)


def _without_values(batch: pa.RecordBatch, gone: Mask) -> pa.RecordBatch:
    """Rows that have expired as rows of what was removed: nothing of them is left that could expire again."""
    mask = pa.array(gone)
    for name in (VALUE, EXPIRY) if gone.any() else ():
        batch = _with_column(batch, name, pc.if_else(mask, None, batch.column(name)))
    return batch


def _with_column(batch: pa.RecordBatch, name: str, array: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), name, array)
