"""Table sources over DataStream sources, with their columns selected, reordered and cast, and with row kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Kinds
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.datasets import LineageDataset
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    Json,
    ReaderContext,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
)


@dataclass(frozen=True, slots=True)
class PartitionOfPath:
    """A partition column, whose value is in the path of the file: ``.../day=2024-02-29/part-0.csv``.

    Attributes:
        path: the index of the column that holds the path.
        name: the name before the ``=``.
        no_value: the name of the partition whose value is null.
    """

    path: int
    name: str
    no_value: str

    def values(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """The values as texts."""
        paths = arrays[self.path]
        named = pc.struct_field(pc.extract_regex(paths, rf"(?:^|/){self.name}=(?P<value>[^/]*)/"), "value")
        if not len(paths) or "%" not in str(named[0].as_py()):
            return pc.if_else(pc.equal(named, self.no_value), pa.scalar(None, pa.string()), named)

        return pa.array(
            [None if text is None or text == self.no_value else unquote(text) for text in named.to_pylist()]
        )


Pick = int | PartitionOfPath


class PickedColumns(Source[Any]):
    """The columns of a table, selected from the records of another source, and cast to the table's types.

    Row kinds are not a column here, even if they are in the other source.

    Args:
        inner: the source.
        produced_type: the type of the columns.
        picks: the column of the source for each column.
        limit: how many rows of a piece are enough; None for all.
    """

    def __init__(
        self, inner: Source[Any], produced_type: TypeInformation, picks: Sequence[Pick], limit: int | None = None
    ) -> None:
        self._inner = inner
        self._limit = limit
        self._type = produced_type
        self._picks = tuple(picks)

    @property
    def boundedness(self) -> Boundedness:
        return self._inner.boundedness

    @property
    def produced_type(self) -> TypeInformation:
        return self._type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return self._inner.create_enumerator(context)

    def create_reader(self) -> SourceReader:
        return _PickedReader(
            self._inner.create_reader(), self._inner.produced_type, self._type, self._picks, self._limit
        )

    @property
    def position_kind(self) -> str:
        return self._inner.position_kind

    @property
    def locations(self) -> tuple[str, ...]:
        return self._inner.locations

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        return self._inner.datasets

    @property
    def inner(self) -> tuple[Source[Any], ...]:
        return (self._inner,)

    @property
    def dead_letter(self) -> OutputTag | None:
        return self._inner.dead_letter

    @property
    def gives_timestamps(self) -> bool:
        return self._inner.gives_timestamps

    @property
    def can_replay(self) -> bool:
        return self._inner.can_replay

    @property
    def reads_in_pieces(self) -> bool:
        return self._inner.reads_in_pieces

    def __repr__(self) -> str:
        return repr(self._inner)


class _PickedReader(SourceReader):
    def __init__(
        self,
        inner: SourceReader,
        given: TypeInformation,
        wanted: TypeInformation,
        picks: tuple[Pick, ...],
        limit: int | None,
    ) -> None:
        self._limit = limit
        self._inner = inner
        self._given = given
        self._wanted = wanted
        self._picks = picks

    def open(self, context: ReaderContext) -> None:
        self._inner.open(context)

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        count = 0
        for records in self._inner.read(piece):
            yield self._picked(records)
            count += len(records)
            if self._limit is not None and count >= self._limit:
                return

    def close(self) -> None:
        self._inner.close()

    def _picked(self, records: SourceRecords) -> SourceRecords:
        columns, kinds = self._columns_of(records)
        arrays = columns.columns
        picked = [pick.values(arrays) if isinstance(pick, PartitionOfPath) else arrays[pick] for pick in self._picks]
        schema = layout_of(self._wanted).schema
        cast = [_cast(array, field) for array, field in zip(picked, schema, strict=True)]
        made = pa.RecordBatch.from_arrays(cast, schema=schema)
        return replace(records, columns=made, rows=None, kinds=kinds)

    def _columns_of(self, records: SourceRecords) -> tuple[pa.RecordBatch, Kinds | None]:
        layout = layout_of(self._given)
        columns, kinds = records.columns, records.kinds
        if columns is None:
            columns, kinds = layout.rows_to_columns_and_kinds(records.rows or [])
        found = layout.kinds_in(columns) if layout.has_kind_column else kinds
        return columns, found if found is not None and found.any() else None


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.type == field.type:
        return array
    try:
        return array.cast(field.type, safe=False) if pa.types.is_temporal(field.type) else array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidTypeError(f"column {field.name!r} cannot be read as {field.type}: {error}") from error
