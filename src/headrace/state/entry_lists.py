"""The entries of maps as lists that are sorted, so that a single one is found by binary search.

A run of a map state has one row per key; its list columns say what happened to the entries of that key. They are sorted
by the keys of the entries where these are integers, else by their hashes. The order in which things happened, from
which the order of insertion follows, is kept beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.element_lists import heads_of, list_columns, rows_of_ranges
from headrace.state.hashing import hash_array
from headrace.state.run_layout import ACTION, ENTRY_HASH, ENTRY_KEY, PLACE

if TYPE_CHECKING:
    import numpy.typing as npt

    Indices = npt.NDArray[np.int64]


def sorted_lists(lengths: Indices, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """List columns of entries, of which each row has so many, in the order in which things happened to them."""
    group = np.repeat(np.arange(len(lengths)), lengths)
    order = _order(group, columns)
    happened = np.arange(len(group)) - heads_of(lengths)[group]
    indices = pa.array(order)
    ordered = {name: column.take(indices) for name, column in columns.items()}
    return list_columns(lengths, {**ordered, PLACE: pa.array(happened[order].astype(np.int32))})


def rows_as_they_happened(starts: Indices, lengths: Indices, places: pa.Array) -> Indices:
    """The rows of sorted ranges, one range after the other, in each the first thing that happened first.

    ``places`` is the whole column; nothing of it but these ranges is looked at.
    """
    rows = rows_of_ranges(starts, lengths)
    happened = np.empty_like(rows)
    happened[np.repeat(heads_of(lengths), lengths) + places.take(pa.array(rows)).to_numpy()] = rows
    return happened


def with_sorted_entries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a run of maps; one that an earlier version has left, as things happened, is sorted."""
    if PLACE in batch.schema.names:
        return batch
    flat = {field.name: batch.column(field.name).flatten() for field in batch.schema if pa.types.is_list(field.type)}
    rest = {field.name: batch.column(field.name) for field in batch.schema if field.name not in flat}
    lengths = batch.column(ACTION).value_lengths().to_numpy().astype(np.int64)
    return pa.RecordBatch.from_pydict({**rest, **sorted_lists(lengths, {**flat, **hash_column(flat[ENTRY_KEY])})})


def hash_column(keys: pa.Array, hashes: npt.NDArray[np.uint64] | None = None) -> dict[str, pa.Array]:
    """The column by which entries with such keys are sorted, unless it is that of the keys."""
    if pa.types.is_int64(keys.type):
        return {}
    return {ENTRY_HASH: pa.array(hash_array(keys) if hashes is None else hashes)}


def _order(group: Indices, columns: dict[str, pa.Array]) -> Indices:
    """The order of entries by group, then by what they are sorted by."""
    if not (group[1:] == group[:-1]).any():
        return np.arange(len(group))
    if ENTRY_HASH not in columns:
        return np.lexsort((columns[ENTRY_KEY].to_numpy(), group))
    hashes = columns[ENTRY_HASH].to_numpy()
    order = np.lexsort((hashes, group))
    groups, ordered = group[order], hashes[order]
    if ((ordered[1:] == ordered[:-1]) & (groups[1:] == groups[:-1])).any():  # two keys have the same hash
        names = ["group", ENTRY_HASH, ENTRY_KEY]
        table = pa.table([pa.array(group), columns[ENTRY_HASH], columns[ENTRY_KEY]], names=names)
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]).to_numpy().astype(np.int64)
    return order
