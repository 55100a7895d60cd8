"""``ExportedTable``: what a state backend holds of one state of one operator in one task, as all backends have it.

Tables hold what counts and nothing else: no tombstones, nothing that is over or has expired, no hashes. By its kind
(``about["kind"]``) a table has these columns:

===================================  ==================================================================================
``value, reducing, aggregating``     ``key``, ``namespace`` where the state is kept by it, ``value``, ``expiry``
``list``                             the same: a row for each element, those of a key in their order
``map``                              ``key``, ``namespace``, ``entry_key``, ``entry`` where the former is not the key of
                                     the entry as users know it, ``value``, ``expiry``: a row for each entry, those of a
                                     key in the order of insertion
``timers``                           ``time``, ``key``, ``namespace``
``elements``                         ``value``: a row for each element of a list of a subtask, in order
any other: a log of an operator      what the operator has put into it, without the hashes of keys
===================================  ==================================================================================

Keys (``key``, ``entry_key``) are in canonical form, namespaces as
:func:`~headrace.state.keyed.namespaces.ordered_bytes`
gives them, empty for none; a null ``expiry``, or no such column, means never. Broadcast maps are maps of the key 0.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, starmap
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import StateError
from headrace.state.compaction import FULL_BYTES, SLICE_BYTES
from headrace.state.keyed.namespaces import decoded_pair, namespace_of, ordered_bytes, paired
from headrace.state.keys import KeyColumn
from headrace.state.keys.hashing import are_within
from headrace.state.protocols import NAMESPACED_PREFIX, is_broadcast
from headrace.state.runs import ALL_HASHES, HashRange, Run
from headrace.state.runs.layout import (
    ACTION,
    CLEAR,
    ENTRY_HASH,
    ENTRY_KEY,
    HASH,
    KEY,
    KEY_ORDER,
    KIND,
    LIVE,
    PLACE,
    PUT,
    SORT,
    TIMERS,
    TTL,
    hash_column,
    list_columns,
    rows_as_they_happened,
    sorted_lists,
)
from headrace.state.runs.merge_input import by_key, concat, is_ordered
from headrace.state.runs.merging import describe_run, is_by_hash, merged_pieces
from headrace.state.runs.sections import Section
from headrace.state.state_file import NewVersion, write_run
from headrace.state.ttl import IN_EVENT_TIME
from headrace.storage.file_system import MappedFile
from headrace.storage.folder import Folder

NAMESPACE: Final = "namespace"
"""The column of namespaces."""


@dataclass(frozen=True)
class ExportedTable:
    """One table.

    Attributes:
        uid: the operator.
        store: the state: ``state/<name>`` and ``namespaced/<name>`` for keyed states, ``timers/event`` and
            ``timers/processing``, ``list/<name>``, ``union/<name>``, ``broadcast/<name>``, else the name of a log.
        about: what has to be known of it, as JSON: its kind, and how keys and values are stored (``keys``, ``types``).
        schema: its columns.
        batches: its rows, to be gone through once.
        is_in_order: whether the rows are known to be in the order of runs, as all are that headrace's backends export.
    """

    uid: str
    store: str
    about: dict[str, Any]
    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]
    is_in_order: bool = False

    def whole(self) -> pa.RecordBatch:
        """All rows in one piece; uses up ``batches``."""
        table = pa.Table.from_batches(self.batches, self.schema).combine_chunks()
        return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], self.schema)


PIECE_BYTES: Final = SLICE_BYTES // 2
"""A piece of what is kept by key has so many bytes, and the rows of one key more; slices of compaction have as many."""

ORDERED_BYTES: Final = FULL_BYTES * 5 // 4
"""The same limit for rows in the order of time: so many that compaction leaves their run alone until it is over."""


class Piece(NamedTuple):
    """Some rows of a table that follow one another.

    Attributes:
        rows: the rows.
        hashes: a range that the hashes of their keys are in.
    """

    rows: pa.RecordBatch
    hashes: HashRange


def cut(
    batches: Iterable[pa.RecordBatch], hashes: HashRange, most_bytes: int, *, by_hash: bool = False
) -> Iterator[Piece]:
    """Rows in pieces.

    Args:
        batches: rows with a column ``hash``.
        hashes: the range that all of them are in.
        most_bytes: a piece ends when it has so many.
        by_hash: whether no piece ends between rows of one hash, where these follow one another, and says which range of
            hashes it has. Otherwise each may have all of them.
    """
    pending: list[pa.RecordBatch] = []
    size, end = 0, hashes[0]
    for batch in _small(batches, most_bytes):
        pending.append(batch)
        size += batch.nbytes
        stop = 0 if size < most_bytes else _start_of_last_hash(batch) if by_hash else batch.num_rows
        if stop:
            pending[-1] = batch.slice(0, stop)
            piece = _piece(pending, end, hashes[0]) if by_hash else Piece(concat(pending), hashes)
            pending = [batch.slice(stop)] if stop < batch.num_rows else []
            size, end = sum(rest.nbytes for rest in pending), piece.hashes[1]
            yield piece
            del piece  # its receiver is done with it
    if pending:
        last = _piece(pending, end, hashes[0]) if by_hash else Piece(concat(pending), hashes)
        pending = []
        yield last._replace(hashes=(last.hashes[0], hashes[1]))


def _small(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about so many bytes at most, none of them empty."""
    for batch in batches:
        rows = max(1, batch.num_rows * most_bytes // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _start_of_last_hash(batch: pa.RecordBatch) -> int:
    """Return where the rows of the last hash begin; behind all rows where these are in another order."""
    hashes = batch.column(HASH).to_numpy()
    is_sorted = bool((hashes[1:] >= hashes[:-1]).all())
    return int(np.searchsorted(hashes, hashes[-1])) if is_sorted else len(hashes)


def _piece(batches: list[pa.RecordBatch], end: int, lowest: int) -> Piece:
    """These rows, of which the range begins where that of the last piece ended if they are all behind that."""
    columns = [batch.column(HASH).to_numpy() for batch in batches]
    first, last = min(int(column.min()) for column in columns), max(int(column.max()) for column in columns)
    return Piece(concat(batches), (end if first >= end else lowest, last + 1))


MOST_HELD: Final = PIECE_BYTES
"""Runs of so many bytes together wait in memory for the file of the version; others have files of their own."""


class Importer:
    """Makes the state of one task of tables.

    Args:
        storage: where state files are.
        version: which version the state becomes.
        load: gives what loads a file.
    """

    def __init__(self, storage: Folder, version: NewVersion, load: Callable[[str], Callable[[], MappedFile]]) -> None:
        self._storage = storage
        self._version = version
        self._load = load
        self._held = 0

    def runs(self, table: ExportedTable, hashes: HashRange) -> list[Run]:
        """The runs that together hold what a table does, in their order.

        Args:
            table: the table.
            hashes: the hashes of the keys that the partition owns.

        Raises:
            StateError: when it has keys of other partitions.
        """
        return [*map(partial(self._run, table), imported(table, hashes))]  # as in `imported`

    def _run(self, table: ExportedTable, piece: Piece) -> Run:
        """A run in memory, or in a file when all that is in memory would be too large."""
        meta = describe_run(table.about, piece.rows)
        run = Run(Section(piece.rows), meta, piece.hashes, origin=self._version.partition)
        size = run.section.nbytes
        # What all subtasks have alike is in their versions, where it is looked for.
        if is_broadcast(table.store):
            return run
        if self._held + size <= MOST_HELD:
            self._held += size
            return run
        about = {"imported": {"uid": table.uid, "store": table.store, "epoch": self._version.epoch}}
        entry = write_run(self._storage, run, self._version.generation, self._version.stage, about)
        run.section.moved_to(entry["file"], entry["at"], self._load(entry["file"]))
        return run


def imported(table: ExportedTable, hashes: HashRange) -> Iterator[Piece]:
    """The rows of the runs that hold what a table does, each in the order of a run; arguments as of `Importer.runs`."""
    if table.about.get(SORT) == KEY_ORDER or (table.is_in_order and is_by_hash(table.about)):
        # In another order a log may not be cut: all rows of a key have to be in one run.
        pieces = cut(_stored(table, hashes), hashes, PIECE_BYTES, by_hash=True)
    elif is_ordered(table.about):
        pieces = cut(_stored(table, hashes), hashes, ORDERED_BYTES)
    else:
        whole = table.whole()
        pieces = iter([Piece(_with_hashes(table, whole, hashes), hashes)] if whole.num_rows else [])
    return map(partial(_piece_of_run, table), pieces)  # who names a piece has it beside the next


def _piece_of_run(table: ExportedTable, piece: Piece) -> Piece:
    return Piece(_as_in_runs(table, piece.rows), piece.hashes)


def imported_schema(table: ExportedTable) -> pa.Schema:
    """The columns of the runs that a table becomes; its rows are not looked at."""
    empty = pa.RecordBatch.from_pylist([], table.schema)
    return _as_in_runs(table, _with_hashes(table, empty, ALL_HASHES)).schema


def _stored(table: ExportedTable, hashes: HashRange) -> Iterator[pa.RecordBatch]:
    for batch in table.batches:
        yield _with_hashes(table, batch, hashes)


def _with_hashes(table: ExportedTable, rows: pa.RecordBatch, hashes: HashRange) -> pa.RecordBatch:
    """The rows with their keys as runs have them, and the hashes of these."""
    if KEY not in rows.schema.names:
        return rows
    keys = KeyColumn.of(rows.column(KEY))
    if table.store.startswith(NAMESPACED_PREFIX):
        keys = paired(keys, [namespace_of(data) for data in rows.column(NAMESPACE).to_pylist()])
        rows = rows.drop_columns([NAMESPACE])
    _check_owner(table, keys, hashes)
    return _with_keys(rows, keys)


def _as_in_runs(table: ExportedTable, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that have hashes in the form and in the order of a run; those without keys stay as they are."""
    if KEY not in rows.schema.names:
        return rows
    kind = table.about.get(KIND)
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
    """Return whether rows are known to be in order, as those are that were not changed."""
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


_OF_RUNS: Final = {ACTION, CLEAR, ENTRY_HASH, HASH, PLACE}
"""Columns that say how runs of keyed state are to be merged, or found in."""


_STORAGE: Final = {"int64": pa.int64(), "string": pa.string(), "binary": pa.binary()}


def exported(stores: Mapping[tuple[str, str], Sequence[Run]], now: int) -> Iterator[ExportedTable]:
    """The tables of a task, by operator and store.

    Args:
        stores: the runs of each store, oldest first, by the uid of its operator and its name.
        now: processing time in milliseconds; what has expired by then is left out.
    """
    for (uid, store), runs in sorted(stores.items()):
        pieces = merged_pieces(runs, _time_of(runs, now))
        first = next(pieces, None)
        if first is None:
            continue
        rows, about = _exported_rows(store, *first), first[1]
        others = starmap(partial(_exported_rows, store), pieces)
        yield ExportedTable(uid, store, about, rows.schema, chain([rows], others), is_in_order=True)


def _exported_rows(store: str, batch: pa.RecordBatch, about: dict[str, Any]) -> pa.RecordBatch:
    rows = _rows_of(batch, about)
    return _with_namespaces(rows, about["keys"]["key"]) if store.startswith(NAMESPACED_PREFIX) else rows


def _rows_of(batch: pa.RecordBatch, about: dict[str, Any]) -> pa.RecordBatch:
    kind = about.get(KIND)
    if kind in ("list", "map"):
        return _elements(batch)
    hashes = {HASH} if KEY in batch.schema.names else set()  # without keys they say something else
    return _without(batch, {*hashes, LIVE} if kind == TIMERS else hashes)


def _elements(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each element of lists, or for each entry of maps in the order of insertion."""
    lists = [field.name for field in batch.schema if pa.types.is_list(field.type)]
    lengths = batch.column(lists[0]).value_lengths().to_numpy().astype(np.int64)
    offsets = batch.column(lists[0]).offsets.to_numpy().astype(np.int64)
    if PLACE in lists:
        order = rows_as_they_happened(offsets[:-1], lengths, batch.column(PLACE).values)
    else:
        order = np.arange(offsets[0], offsets[-1])
    names = [name for name in lists if name not in _OF_RUNS]
    keys = batch.column(KEY).take(pa.array(np.repeat(np.arange(batch.num_rows), lengths)))
    indices = pa.array(order)
    return pa.RecordBatch.from_pydict({KEY: keys, **{name: batch.column(name).values.take(indices) for name in names}})


def _with_namespaces(batch: pa.RecordBatch, keys: dict[str, Any]) -> pa.RecordBatch:
    """Pairs of key and namespace as two columns."""
    pairs = [decoded_pair(data) for data in batch.column(KEY).to_pylist()]
    columns = {
        KEY: pa.array([key for key, _ in pairs], _STORAGE[keys["storage"]]),
        NAMESPACE: pa.array([ordered_bytes(namespace) for _, namespace in pairs], pa.binary()),
    }
    rest = {name: batch.column(name) for name in batch.schema.names if name != KEY}
    return pa.RecordBatch.from_pydict({**columns, **rest})


def _without(batch: pa.RecordBatch, names: set[str]) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name not in names])


def _time_of(runs: Sequence[Run], now: int) -> int:
    """The present time for the elements of a store; of one that ages in event time, all elements are exported."""
    return MIN_WATERMARK if runs[-1].meta.get(TTL) == IN_EVENT_TIME else now
