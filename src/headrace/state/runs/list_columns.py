"""List columns: rows with several elements each, over one flat array of elements; and those of maps, which are sorted.

A run of a map state has one row per key; its list columns say what happened to the entries of that key. They are sorted
by the keys of the entries where these are integers, else by their hashes, so that a single one is found by binary
search. The order in which things happened, from which the order of insertion follows, is kept beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.keys.entries import order_by_hash
from headrace.state.keys.hashing import hash_array
from headrace.state.runs.layout import ACTION, ENTRY_HASH, ENTRY_KEY, PLACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Indices = npt.NDArray[np.int64]
    Lengths = Sequence[int] | npt.NDArray[np.integer[Any]]


def list_columns(lengths: Lengths, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """List columns from flat ones, with so many elements in each row."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    place = pa.array(offsets)
    return {name: pa.ListArray.from_arrays(place, column) for name, column in columns.items()}


def rows_of_ranges(starts: Indices, lengths: Indices) -> Indices:
    """The rows of ranges, one range after the other."""
    return np.repeat(starts - heads_of(lengths), lengths) + np.arange(lengths.sum())


def heads_of(lengths: Indices) -> Indices:
    """Where each range begins when they stand one after the other."""
    heads: Indices = np.cumsum(lengths) - lengths
    return heads


def sorted_lists(lengths: Indices, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """List columns of entries, of which each row has so many, in the order in which things happened to them."""
    group = np.repeat(np.arange(len(lengths)), lengths)
    happened = (np.arange(len(group)) - heads_of(lengths)[group]).astype(np.int32)
    order = _order(group, columns)
    if order is not None:
        indices = pa.array(order)
        columns, happened = {name: column.take(indices) for name, column in columns.items()}, happened[order]
    return list_columns(lengths, {**columns, PLACE: pa.array(happened)})


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


def _order(group: Indices, columns: dict[str, pa.Array]) -> Indices | None:
    """The order of entries by group, then by what they are sorted by; None when they are in this order."""
    if not len(group):
        return None
    probes = columns[ENTRY_HASH if ENTRY_HASH in columns else ENTRY_KEY].to_numpy()
    combined = _combined(group, probes)
    if (combined[1:] > combined[:-1]).all():
        return None
    order, ordered = order_by_hash(combined)
    if (ordered[1:] == ordered[:-1]).any():  # two keys have the same hash, or the bits that differ were left out
        names = ["group", "probe", ENTRY_KEY]
        table = pa.table([pa.array(group), pa.array(probes), columns[ENTRY_KEY]], names=names)
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]).to_numpy().astype(np.int64)
    return order


def _combined(group: Indices, probes: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Numbers that rise with the group, then with the probe, as far as both fit into 64 bits: with the upper bits."""
    values = probes.view(np.uint64) - probes.min().view(np.uint64)
    group_bits, value_bits = int(group[-1]).bit_length(), int(values.max()).bit_length()
    excess = max(0, group_bits + value_bits - 64)
    value_bits -= excess
    numbers: npt.NDArray[np.uint64] = group.view(np.uint64) << np.uint64(value_bits)
    numbers |= values >> np.uint64(excess)
    numbers <<= np.uint64(64 - group_bits - value_bits)
    return numbers
