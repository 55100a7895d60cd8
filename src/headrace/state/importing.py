"""From exported tables to runs: keys are hashed anew, rows sorted, and elements brought together by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import StateError
from headrace.state.exported import NAMESPACE
from headrace.state.keyed.backend import NAMESPACED_PREFIX
from headrace.state.keyed.namespaces import namespace_of, paired
from headrace.state.keys import KeyColumn
from headrace.state.keys.groups import are_within
from headrace.state.runs.layout import ACTION, CLEAR, ENTRY_KEY, HASH, KEY, KIND, PUT, SORT, TIMERS
from headrace.state.runs.list_columns import hash_column, list_columns, sorted_lists
from headrace.state.runs.merge_input import by_key
from headrace.state.runs.ordered import LIVE

if TYPE_CHECKING:
    from headrace.state.exported import ExportedTable
    from headrace.state.runs import HashRange


def imported(table: ExportedTable, hashes: HashRange) -> pa.RecordBatch:
    """The rows of the one run that holds what a table does, in the order of a run.

    Args:
        table: the table.
        hashes: the hashes of the keys that the partition owns.

    Raises:
        StateError: when it has keys of other partitions.
    """
    rows, kind = table.whole(), table.about.get(KIND)
    if KEY not in rows.schema.names:
        return rows
    keys = KeyColumn.of(rows.column(KEY))
    if table.store.startswith(NAMESPACED_PREFIX):
        keys = paired(keys, [namespace_of(data) for data in rows.column(NAMESPACE).to_pylist()])
        rows = rows.drop_columns([NAMESPACE])
    _check_owner(table, keys, hashes)
    rows = _with_keys(rows, keys)
    if kind in ("list", "map"):
        return _brought_together(rows, is_map=kind == "map")
    if kind == TIMERS:
        rows = rows.append_column(LIVE, pa.array(np.ones(rows.num_rows, np.bool_)))
    return _in_order(rows, table.about.get(SORT, []))


def _check_owner(table: ExportedTable, keys: KeyColumn, hashes: HashRange) -> None:
    if not are_within(keys.hashes, hashes).all():
        raise StateError(
            f"operator {table.uid!r}: the table {table.store!r} has keys that belong into other files: files were "
            "swapped or changed"
        )


def _with_keys(rows: pa.RecordBatch, keys: KeyColumn) -> pa.RecordBatch:
    """The rows with these keys, and with their hashes in front of them, as all runs have them."""
    place = rows.schema.get_field_index(KEY)
    rows = rows.set_column(place, KEY, keys.values)
    return rows.add_column(place, HASH, pa.array(keys.hashes))


def _brought_together(rows: pa.RecordBatch, *, is_map: bool) -> pa.RecordBatch:
    """One row for each key, with lists of its elements."""
    order, firsts = by_key(rows)
    rows = rows.take(pa.array(order))
    starts = np.flatnonzero(firsts)
    lengths = np.diff(np.append(starts, len(firsts)))
    elements = {name: rows.column(name) for name in rows.schema.names if name not in (HASH, KEY)}
    heads = rows.select([HASH, KEY]).take(pa.array(starts))
    cleared = pa.array(np.zeros(len(starts), np.bool_))
    if is_map:
        actions = pa.array(np.full(rows.num_rows, PUT, np.int8))
        columns = {ENTRY_KEY: elements.pop(ENTRY_KEY), **elements, ACTION: actions}
        lists = sorted_lists(lengths, {**columns, **hash_column(columns[ENTRY_KEY])})
    else:
        lists = list_columns(lengths, elements)
    return pa.RecordBatch.from_pydict({HASH: heads.column(HASH), KEY: heads.column(KEY), CLEAR: cleared, **lists})


def _in_order(rows: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """The rows in the order of these columns; rows that are equal there stay in theirs."""
    if not names or _is_sorted(rows, names):
        return rows
    sequence = pa.array(np.arange(rows.num_rows))
    columns = [*(rows.column(name) for name in names), sequence]
    keyed = pa.table(columns, names=[*map(str, range(len(columns)))])
    order = pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in keyed.column_names])
    return rows.take(order)


def _is_sorted(rows: pa.RecordBatch, names: list[str]) -> bool:
    """Whether rows are in order already, which those are that nobody has changed; False where that is hard to tell."""
    equal = np.ones(max(0, rows.num_rows - 1), np.bool_)
    for name in names:
        values: Any = rows.column(name)
        later, earlier = values.slice(1), values.slice(0, max(0, len(values) - 1))
        if np.asarray(pc.fill_null(pc.less(later, earlier), True))[equal].any():
            return False
        equal &= np.asarray(pc.fill_null(pc.equal(later, earlier), True))
        if not equal.any():
            return True
    return True
