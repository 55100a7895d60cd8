"""Reading changes of tables from messages of Canal, which tell of several rows each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.tracebacks import hides_engine_of_methods
from headrace.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.basic import WHOLE_NUMBERS
from headrace.common.values import handler_of
from headrace.formats.bad_records import BadValueError
from headrace.formats.cdc.changes_schema import ChangesDeserializationSchema
from headrace.formats.cdc.former_rows import restored, told_nulls
from headrace.formats.cdc.images import Images, Operation, operations_of
from headrace.formats.cdc.metadata import MetadataField, moment, numbers, text, texts
from headrace.formats.json.columns import reader_of, with_whole_numbers
from headrace.formats.json.decoders import decoder_of
from headrace.formats.json.documents import document_of

if TYPE_CHECKING:
    import numpy.typing as npt

_WHOLE: Final = WHOLE_NUMBERS | {BasicType.BIG_INT}


@hides_engine_of_methods
class CanalJsonDeserializationSchema(ChangesDeserializationSchema):
    """Reads changes as Canal writes them: ``{"data": [...], "old": [...], "type": "UPDATE"}``, several rows in one.

    ``old`` holds the fields alone that were others before. Values may be strings, as Canal writes them. That a table
    was created is left out, as in Flink.

    Args:
        type_info: the type of the rows of the table.
        database_include: a regular expression; messages of databases whose whole name does not match it are left out.
        table_include: likewise, of tables.
        metadata: names of metadata, or fields by name and the metadata that each holds: ``database``, ``table``,
            ``sql-type``, ``pk-names``, ``ingestion-timestamp`` and ``event-timestamp``.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.cdc import CanalJsonDeserializationSchema
        >>> schema = CanalJsonDeserializationSchema(Types.ROW_NAMED(["id", "n"], [int, int]), table_include="orders_.*")
    """

    operations: ClassVar[Mapping[str, Operation]] = {
        "INSERT": Operation.INSERT,
        "UPDATE": Operation.UPDATE,
        "DELETE": Operation.DELETE,
        "CREATE": Operation.NOTHING,
    }
    operation_field = "type"
    known_metadata: ClassVar[Mapping[str, MetadataField]] = {
        "database": text("database"),
        "table": text("table"),
        "sql-type": numbers("sqlType"),
        "pk-names": texts("pkNames"),
        "ingestion-timestamp": moment("ts", unit="ms"),
        "event-timestamp": moment("es", unit="ms"),
    }

    def __init__(
        self,
        type_info: TypeInformation,
        *,
        database_include: str | None = None,
        table_include: str | None = None,
        metadata: Mapping[str, str] | Sequence[str] = (),
        ignore_parse_errors: bool = False,
    ) -> None:
        super().__init__(type_info, metadata=metadata, ignore_parse_errors=ignore_parse_errors)
        self._include = {
            name: re.compile(pattern)
            for name, pattern in (("database", database_include), ("table", table_include))
            if pattern is not None
        }

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        row = RowTypeInfo((Types.STRING(),) * len(self.row_type.field_names), self.row_type.field_names)
        rows, text = Types.LIST(row), Types.STRING()
        envelope = Types.ROW_NAMED(["data", "old", "type", "database", "table"], [rows, rows, text, text, text])
        return self._parsed(decoder_of(envelope).messages(messages))

    def _parsed(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """With values of their types in place of texts."""
        named = list(zip(self.row_type.field_names, self.row_type.field_types, strict=True))
        for index, name in enumerate(("data", "old")):
            lists = read.column(name)
            texts = lists.values
            columns = zip(named, texts.flatten(), strict=True)
            fields = [_parsed(kind, column, f"{name}.{field}") for (field, kind), column in columns]
            rows = pa.StructArray.from_arrays(fields, fields=list(self.row_type.arrow_type), mask=texts.is_null())
            whole = pa.ListArray.from_arrays(lists.offsets, rows, mask=lists.is_null())
            read = read.set_column(index, name, whole)
        return read

    def images(self, read: pa.RecordBatch, messages: pa.Array) -> Images:
        operations = operations_of(read.column("type"), self.operations)
        operations = np.where(self._excluded(read), Operation.NOTHING, operations).astype(np.int8)
        data, old = read.column("data"), read.column("old")
        counts, old_counts = _lengths(data), _lengths(old)
        # Where there is no row, and should be one, there is one here that is null: it is refused.
        rows = np.repeat(np.arange(len(counts)), np.where(operations == Operation.NOTHING, 0, np.maximum(counts, 1)))
        place = np.arange(len(rows)) - np.searchsorted(rows, rows)
        after, of_old = _elements(data, rows, place, counts), _elements(old, rows, place, old_counts)
        told = told_nulls(messages, rows, place, operations[rows])
        before = restored(after, of_old, operations[rows] == Operation.UPDATE, told)
        return Images(operations[rows], before, after, rows)

    def _excluded(self, read: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        excluded = np.zeros(read.num_rows, np.bool_)
        for name, pattern in self._include.items():
            values = read.column(name).to_pylist()
            excluded |= np.array([value is None or not pattern.fullmatch(value) for value in values], np.bool_)
        return excluded


def _lengths(lists: pa.Array) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def _elements(
    lists: pa.Array, rows: npt.NDArray[Any], place: npt.NDArray[Any], lengths: npt.NDArray[np.int64]
) -> pa.Array:
    """The elements at some places of lists, null where there are not so many."""
    there = place < lengths[rows]
    starts = lists.offsets.to_numpy()[:-1][rows]
    return lists.values.take(pa.array(np.where(there, starts + place, 0), mask=~there))


def _parsed(kind: TypeInformation, texts: pa.Array, path: str) -> pa.Array:
    """Values of their texts; MySQL's booleans are the numbers 0 and 1."""
    if kind == Types.BOOLEAN():
        texts = pc.if_else(pc.equal(texts, "1"), "true", pc.if_else(pc.equal(texts, "0"), "false", texts))
    try:
        if isinstance(kind, BasicTypeInfo):
            texts = with_whole_numbers(texts) if kind.basic_type in _WHOLE else texts
            return handler_of(kind).parse_all(texts)
        documents = [None if text is None else document_of(text.encode()) for text in texts.to_pylist()]
        return reader_of(kind).of_documents(documents)
    except BadValueError as error:
        raise error.inside(path) from error
    except ValueError as error:
        raise ValueError(f"field {path!r}: {error}") from error
