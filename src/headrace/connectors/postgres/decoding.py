"""The decoding of tables of PostgreSQL in tasks: the rows of chunks, and of changes, as columns with row kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import SourceChangedError
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot, string
from headrace.common.typeinfo import RowTypeInfo, TypeInformation
from headrace.common.types import RowKind
from headrace.connectors.postgres.relations import DELETE, INSERT, PostgresRelation
from headrace.connectors.postgres.replication import ChangeRun
from headrace.connectors.postgres.server import PostgresServer, telling
from headrace.connectors.postgres.snapshot import Bound, ChunkPiece, View, begin_in, read_chunk, seen_already
from headrace.connectors.postgres.tables import CapturedTable, FoundTable
from headrace.connectors.postgres.values import converter_of
from headrace.connectors.source import Json, SourceReader, SourceRecords

if TYPE_CHECKING:
    from headrace.connectors.postgres.server import Connection

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_TEXT: Final = ord("t")
_NULL: Final = ord("n")
_UNCHANGED: Final = ord("u")
_NEW: Final = ord("N")
_WHOLE: Final = ord("O")

_AHEAD: Final = 8
"""The bytes that are read behind the last one, of numbers that are not there."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one column.

    Attributes:
        kinds: what each is: a text, null, or unchanged.
        starts: where its text begins.
        lengths: how long it is.
    """

    kinds: Bytes
    starts: Places
    lengths: Places

    def take(self, indices: Places) -> Cells:
        """Some of them."""
        return Cells(self.kinds[indices], self.starts[indices], self.lengths[indices])

    @property
    def are_unchanged(self) -> Mask:
        """Return which are left out, since they were not changed."""
        return np.equal(self.kinds, _UNCHANGED)

    def or_else(self, others: Cells) -> Cells:
        """The same, with others in the place of those that are left out."""
        missing = self.are_unchanged
        return Cells(
            np.where(missing, others.kinds, self.kinds),
            np.where(missing, others.starts, self.starts),
            np.where(missing, others.lengths, self.lengths),
        )

    @staticmethod
    def nulls(count: int) -> Cells:
        """A number of cells that are null."""
        zeros = np.zeros(count, np.int64)
        return Cells(np.full(count, _NULL, np.uint8), zeros, zeros)

    @staticmethod
    def joined(one: Cells, other: Cells) -> Cells:
        """The cells of both."""
        return Cells(
            np.concatenate([one.kinds, other.kinds]),
            np.concatenate([one.starts, other.starts]),
            np.concatenate([one.lengths, other.lengths]),
        )


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The rows in messages about one table.

    Attributes:
        data: the messages.
        kinds: what each is: an insertion, an update or a deletion.
        old: the numbers of the messages that have a row before.
        is_whole: which of these have all its columns, and not only those of the key.
        old_cells: of these, the cells of each column.
        new: the numbers of the messages that have a new row.
        new_cells: of these, the cells of each column.
    """

    data: Bytes
    kinds: Bytes
    old: Places
    is_whole: Mask
    old_cells: list[Cells]
    new: Places
    new_cells: list[Cells]

    @classmethod
    def parse(cls, data: bytes, lengths: Places, columns: int) -> ChangedRows:
        """Find the rows.

        Args:
            data: the messages, one behind the other.
            lengths: how long each is.
            columns: how many columns the table has.
        """
        buffer = np.frombuffer(data + bytes(_AHEAD), np.uint8)
        starts = np.cumsum(lengths) - lengths
        kinds, tags = buffer[starts], buffer[starts + 5]
        old = np.flatnonzero(tags != _NEW)
        old_cells, ends = _rows(buffer, starts[old] + 6, columns)
        first = starts + 6
        first[old] = ends + 1
        new = np.flatnonzero(kinds != DELETE)
        new_cells, _ = _rows(buffer, first[new], columns)
        return cls(buffer, kinds, old, tags[old] == _WHOLE, old_cells, new, new_cells)

    def texts(self, cells: Cells) -> pa.Array:
        """The texts of cells."""
        return texts(self.data, cells)


def texts(data: Bytes, cells: Cells) -> pa.Array:
    """The texts of cells, as a column.

    Args:
        data: where they are.
        cells: the cells.
    """
    offsets = np.concatenate([[0], np.cumsum(cells.lengths)])
    places = np.repeat(cells.starts - offsets[:-1], cells.lengths) + np.arange(offsets[-1])
    valid = cells.kinds == _TEXT
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[places])]
    return pa.Array.from_buffers(pa.string(), len(valid), buffers)


def _rows(buffer: Bytes, places: Places, columns: int) -> tuple[list[Cells], Places]:
    """The cells of each column of the rows that begin somewhere, and where the rows end."""
    found = _number(buffer, places, 2)
    if (found != columns).any():
        raise SourceChangedError(
            f"a change has {int(found[found != columns][0])} columns, and its table had {columns}: this is no "
            "output of pgoutput that headrace knows"
        )
    places = places + 2
    cells = []
    for _ in range(columns):
        kinds = buffer[places]
        has_text = kinds == _TEXT
        lengths = np.where(has_text, _number(buffer, places + 1, 4), 0)
        cells.append(Cells(kinds, places + 5, lengths))
        places = places + np.where(has_text, 5 + lengths, 1)
    return cells, places


def _number(buffer: Bytes, places: Places, size: int) -> npt.NDArray[Any]:
    """The numbers of some bytes that are somewhere."""
    found = np.zeros(len(places), np.int64)
    for place in range(size):
        found = found << 8 | buffer[places + place]
    return found


METADATA: Final[Mapping[str, LogicalType]] = {
    "database_name": string().not_null(),
    "schema_name": string().not_null(),
    "table_name": string().not_null(),
    "op_ts": AtomicType(TypeRoot.TIMESTAMP_LTZ, 3, nullable=False),
}
"""The metadata of a row, with Flink CDC's names."""

_OP_TS: Final = "op_ts"


@dataclass(frozen=True, slots=True)
class ChangePiece:
    """Some changes that a task reads.

    Attributes:
        runs: the changes.
        tables: those that they are of, by their names.
        views: by name, from which value of the key by which the snapshot was cut on rows are as of which place; of a
            table that has none all changes are later.
    """

    runs: tuple[ChangeRun, ...]
    tables: Mapping[str, FoundTable]
    views: Mapping[str, tuple[View, ...]]


class PostgresReader(SourceReader):
    """Reads chunks of the snapshot, and what the driver has taken over of the changes.

    Args:
        server: where the tables are.
        table: the table, or what the tables are called.
        produced_type: the type of the rows, the columns of the tables before those of metadata.
        metadata: the keys of the latter.
    """

    def __init__(
        self, server: PostgresServer, table: CapturedTable, produced_type: TypeInformation, metadata: Sequence[str]
    ) -> None:
        assert isinstance(produced_type, RowTypeInfo)
        self._server = server
        self._table = table
        self._schema = layout_of(produced_type).schema
        self._metadata = tuple(metadata)
        self._convert = {name: converter_of(name, kind) for name, kind in table.columns.items()}

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        if isinstance(piece, tuple):
            yield from self._read_chunks(piece)
            return
        assert isinstance(piece, ChangePiece)
        yield from in_order([self._read_changes(run, piece) for run in piece.runs])

    # --- the snapshot ------------------------------------------------------------------------------------------------

    def _read_chunks(self, pieces: Sequence[ChunkPiece]) -> Iterator[SourceRecords]:
        # A session of its own for each share: one that was kept would keep the server from removing old rows.
        with closing(self._server.connect("chunks")) as connection:
            with telling(f"the snapshot of table {self._table}"):
                begin_in(connection, pieces[0].snapshot)
            for each in pieces:
                for start, end in pairwise(each.bounds):
                    yield self._chunk(connection, each.found, start, end)

    def _chunk(self, connection: Connection, found: FoundTable, start: Bound, end: Bound) -> SourceRecords:
        table = self._table.named(found.schema, found.table)
        texts = read_chunk(connection, table, found.chunk_key, start, end)
        columns = [self._convert[name](texts.column(name).combine_chunks()) for name in table.columns]
        times = np.zeros(len(texts), np.int64)
        return SourceRecords(columns=self._batch(table, columns, times), timestamps=times)

    # --- changes -----------------------------------------------------------------------------------------------------

    def _read_changes(self, run: ChangeRun, piece: ChangePiece) -> NumberedRecords:
        table = self._table.named(run.relation.schema, run.relation.table)
        found, views = piece.tables[str(table)], piece.views.get(str(table))
        rows = ChangesOfRun(run, table, found.key).rows()
        if views:
            rows = rows.take(np.flatnonzero(~self._seen(rows, run, found, views)))
        columns = [self._convert[name](rows.texts(name)) for name in table.columns]
        times = run.array(run.times)[rows.messages]
        batch = self._batch(table, columns, times)
        return NumberedRecords(run.array(run.numbers)[rows.messages], batch, rows.kinds, times)

    def _seen(self, rows: EmittedRows, run: ChangeRun, found: FoundTable, views: tuple[View, ...]) -> Mask:
        lsns = run.array(run.lsns)[rows.messages]
        kind = (found.chunk_key_type, found.collation)
        with closing(self._server.connect("ranges")) as connection:
            return seen_already(connection, kind, views, rows.texts(found.chunk_key), lsns)

    def _batch(self, table: CapturedTable, columns: list[pa.Array], times: npt.NDArray[np.int64]) -> pa.RecordBatch:
        count = len(times)
        known = {"database_name": self._server.database, "schema_name": table.schema, "table_name": table.table}
        for name, field in zip(self._metadata, list(self._schema)[len(columns) :], strict=True):
            made = pa.array(times).cast(pa.timestamp("ms", "UTC")) if name == _OP_TS else pa.repeat(known[name], count)
            columns.append(made.cast(field.type))
        arrays = [each if each.type == field.type else each.cast(field.type) for each, field in self._fields(columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _fields(self, columns: list[pa.Array]) -> Iterator[tuple[pa.Array, pa.Field]]:
        return zip(columns, self._schema, strict=True)


@dataclass(frozen=True, slots=True)
class NumberedRecords:
    """Records of one table among those of others.

    Attributes:
        numbers: the place of each among all changes.
        columns: their columns.
        kinds: what each does.
        times: when it was committed.
    """

    numbers: Places
    columns: pa.RecordBatch
    kinds: npt.NDArray[np.int8]
    times: npt.NDArray[np.int64]

    def records(self) -> SourceRecords:
        """The records, in the order that they have here."""
        kinds = self.kinds if self.kinds.any() else None
        return SourceRecords(columns=self.columns, kinds=kinds, timestamps=self.times)


def in_order(parts: Sequence[NumberedRecords]) -> Iterator[SourceRecords]:
    """Records in the order in which they were changed, whichever table they are of."""
    parts = [part for part in parts if len(part.numbers)]
    if all(one.numbers[-1] < other.numbers[0] for one, other in pairwise(parts)):
        yield from (part.records() for part in parts)
        return
    numbers = np.concatenate([part.numbers for part in parts])
    order = np.argsort(numbers, kind="stable")  # an update is two records with one number
    columns = pa.concat_batches([part.columns for part in parts]).take(pa.array(order))
    kinds = np.concatenate([part.kinds for part in parts])[order]
    yield NumberedRecords(
        numbers[order], columns, kinds, np.concatenate([part.times for part in parts])[order]
    ).records()


@dataclass(frozen=True, slots=True)
class EmittedRows:
    """Rows of changes, in their order.

    Attributes:
        found: the messages.
        columns: the places of the columns.
        cells: the cells of all rows, by column.
        messages: the number of the message of each row.
        kinds: what each row does.
    """

    found: ChangedRows
    columns: Mapping[str, int]
    cells: list[Cells]
    messages: Places
    kinds: npt.NDArray[np.int8]

    def texts(self, name: str) -> pa.Array:
        """The texts of a column.

        Raises:
            SourceChangedError: when one is left out of a change, and is not known.
        """
        cells = self.cells[self.columns[name]]
        if cells.are_unchanged.any():
            raise SourceChangedError(
                f"column {name!r} is missing in an update: PostgreSQL leaves out large values (TOAST) that were not "
                "changed. Execute ALTER TABLE ... REPLICA IDENTITY FULL, which has it tell the row before as a whole; "
                "or do not declare the column. This change was sent already: start the job without its checkpoints"
            )
        return self.found.texts(cells)

    def take(self, indices: Places) -> EmittedRows:
        """Some of the rows."""
        cells = [each.take(indices) for each in self.cells]
        return EmittedRows(self.found, self.columns, cells, self.messages[indices], self.kinds[indices])


class ChangesOfRun:
    """The changes of a run, and the rows that they become.

    An update becomes the row before and the new one, or the new one alone; one that changes the primary key a deletion
    and an insertion.

    Args:
        run: the changes.
        table: the table.
        key: the columns of the primary key; those of the table when it has some.
    """

    def __init__(self, run: ChangeRun, table: CapturedTable, key: tuple[str, ...]) -> None:
        self._relation: PostgresRelation = run.relation
        self._has_before = table.has_before
        self._columns = {name: place for place, name in enumerate(run.relation.names)}
        self._key = tuple(name for name in table.primary_key or key if name in self._columns)
        self._found = ChangedRows.parse(run.data, run.array(run.lengths), len(run.relation.columns))

    def rows(self) -> EmittedRows:
        """The rows."""
        found = self._found
        new_cells = self._new_cells
        moved = self._moved
        is_update = (found.kinds != INSERT) & (found.kinds != DELETE)
        is_old = (found.kinds[found.old] == DELETE) | moved[found.old] | (self._has_before & is_update[found.old])
        old = np.flatnonzero(is_old)
        messages = np.concatenate([found.old[old], found.new])
        order = np.argsort(messages * 2 + (np.arange(len(messages)) >= len(old)), kind="stable")
        kinds = np.concatenate([self._old_kinds(found.old[old], moved), self._new_kinds(moved, is_update)])
        cells = [
            Cells.joined(before.take(old), after).take(order)
            for before, after in zip(found.old_cells, new_cells, strict=True)
        ]
        return EmittedRows(found, self._columns, cells, messages[order], kinds[order].astype(np.int8))

    def _old_kinds(self, messages: Places, moved: Mask) -> npt.NDArray[np.int64]:
        is_deletion = (self._found.kinds[messages] == DELETE) | moved[messages]
        return np.where(is_deletion, RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)

    def _new_kinds(self, moved: Mask, is_update: Mask) -> npt.NDArray[np.int64]:
        is_insertion = ~is_update[self._found.new] | moved[self._found.new]
        return np.where(is_insertion, RowKind.INSERT.value, RowKind.UPDATE_AFTER.value)

    @cached_property
    def _new_cells(self) -> list[Cells]:
        """The cells of the new rows; what is left out is that of a whole row before."""
        found = self._found
        whole = found.old[found.is_whole]
        has_whole = np.isin(found.new, whole)
        if not has_whole.any():
            return found.new_cells
        # For each new row, the number of the row before; any one where there is none
        before = np.searchsorted(found.old, found.new).clip(0, len(found.old) - 1)
        made = []
        for old, new in zip(found.old_cells, found.new_cells, strict=True):
            known = new.or_else(old.take(before))
            kinds = np.where(has_whole, known.kinds, new.kinds)
            made.append(Cells(kinds, known.starts, known.lengths))
        return made

    @cached_property
    def _moved(self) -> Mask:
        """Tell for each message whether it changes the primary key of a row."""
        found = self._found
        moved = np.zeros(len(found.kinds), np.bool_)
        both = np.intersect1d(found.old, found.new)
        if not self._key or not len(both):
            return moved
        old, new = np.searchsorted(found.old, both), np.searchsorted(found.new, both)
        for name in self._key:
            place = self._columns[name]
            before, after = found.old_cells[place].take(old), self._new_cells[place].take(new)
            differ = found.texts(before).to_numpy(zero_copy_only=False) != found.texts(after).to_numpy(
                zero_copy_only=False
            )
            moved[both] |= differ.astype(np.bool_)
        return moved
