"""Names of the columns of runs, and of the entries of ``meta``, with what they hold."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.keys.codecs import order_by_hash
from headrace.state.keys.hashing import hash_array

Indices = npt.NDArray[np.int64]
Lengths = Sequence[int] | npt.NDArray[np.integer[Any]]


KIND: Final = "kind"
"""The entry of ``meta`` that says what a run holds, and so how it is merged."""

SUBTASK_LIST: Final = "elements"
"""The kind of the lists of subtasks: a row is an element, and merging puts the rows one after the other."""

TIMERS: Final = "timers"
"""The kind of timers: rows in the order of time."""

TYPES: Final = "types"
"""The entry of ``meta`` that says under which types the values of a run were stored: JSON."""

SORT: Final = "sort"
"""The entry of ``meta`` that lists the columns by which a run is sorted."""

ELEMENT_COUNT: Final = "elements"
"""The entry of ``meta`` that says how many elements the lists of a run have, if its rows have lists of elements."""

LIVE: Final = "live"
"""A column that is false in the row of something deleted, which hides what an older run holds."""

RETAINED_UNTIL: Final = "retained_until"
"""The column (int64) of the watermarks at which rows expire; and the entry of ``meta`` that says when all have."""

REACHED: Final = "reached"
"""The entry of ``meta`` that says where the watermark was when a run was written: what had expired is not needed."""

SHOWN: Final = "shown"
"""The entry of ``meta`` that says up to which watermark expired rows have been shown: they must not come back."""

HASH: Final = "hash"
"""The column (uint64) of the keys' hashes; rows of a store without it belong to no key."""

KEY: Final = "key"
"""The keys in canonical form."""

KEY_ORDER: Final = [HASH, KEY]
"""The order of runs of keyed state; there is one row per key."""

VALUE: Final = "value"
"""Values, elements, or values of entries; for a value state null is a tombstone."""

EXPIRY: Final = "expiry"
"""The expiry of each, in milliseconds of the time that ``TTL`` or ``FORMER_TTL`` says.

Null, no such column, or none of these entries: never.
"""

TTL: Final = "ttl"
"""The entry of ``meta`` that is there while a state has a time to live: true in processing time, or ``event``."""

FORMER_TTL: Final = "former_ttl"
"""The same where the state has none at present, and keeps the expiries for when it has one again."""

HALF_EXPIRED: Final = "half_expired"
"""The entry of ``meta`` that says when half of the elements of a run will have expired, if that is ever."""

CLEAR: Final = "clear"
"""Lists and maps: whether everything that older runs hold for the key is void."""

ENTRY_KEY: Final = "entry_key"
"""The entries' keys in canonical form, by which entries are equal."""

ENTRY_HASH: Final = "entry_hash"
"""The hashes of these, by which the entries of a key are sorted; where the keys are integers, these are sorted."""

PLACE: Final = "place"
"""The place of each action on the entries of a key in the order in which they happened: 0 for the first one."""

ENTRY: Final = "entry"
"""The entries' keys as the user knows them, where the canonical form would not give back the same object."""

ACTION: Final = "action"
"""The action on an entry of a map: one of the three below."""

REMOVED: Final = 0
PUT: Final = 1
"""The value is set; an entry that exists keeps its place in the order of insertion."""
REINSERTED: Final = 2
"""The entry was removed, then put again: it goes to the end."""


def fields_of_rows(schema: pa.Schema) -> list[pa.Field]:
    """The columns of rows that are stored with others, under names that differ from theirs."""
    return [pa.field(f"{place}.{field.name}", field.type) for place, field in enumerate(schema)]


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
    """Return where each range begins when they stand one after the other."""
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
