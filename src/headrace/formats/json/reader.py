"""Reading lines of JSON."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import json as arrow_json

from headrace.common.columns import layout_of, values_to_array
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    ListTypeInfo,
    RowTypeInfo,
    Types,
)
from headrace.common.typeinfo.basic import FLOATS, WHOLE_NUMBERS
from headrace.common.values import handler_of
from headrace.formats.file_format import Decoded
from headrace.formats.json.values import by_position
from headrace.formats.lines.format import LineFormat, type_of_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.lines.format import LineDecoder

_NULL_RECORD = re.compile(rb"\}\s*null")
"""A line that is ``null`` is a record of nulls to Arrow, and crashes the process when it is the first of a block."""

_TIMESTAMPS = frozenset({BasicType.SQL_TIMESTAMP, BasicType.TIMESTAMP_LTZ, BasicType.INSTANT})
_BY_ARROW = {BasicType.STRING, BasicType.BOOLEAN} | WHOLE_NUMBERS | FLOATS | _TIMESTAMPS
_AS_STRING = frozenset({BasicType.SQL_DATE, BasicType.SQL_TIME})


class JsonLinesFormat(LineFormat[T_co]):
    r"""Lines that each hold a JSON document. Empty lines are left out.

    With a type, every line is an object with the type's fields; a field that is missing is ``None``, one that the type
    does not have is left out, and a value that does not fit makes the line a bad record. Without a type every record is
    what :func:`json.loads` makes of the line.

    Args:
        type_info: the type of the records, or the types of their fields by name.
        charset: how characters are encoded.

    Raises:
        ConfigurationError: when the charset is unknown.

    Examples:
        >>> from pathlib import Path
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.json import JsonLinesFormat
        >>> _ = Path("users.json").write_text('{"name": "ann", "age": 31}\n')
        >>> source = FileSource.for_record_stream_format(JsonLinesFormat({"name": str, "age": int}), "users.json")
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> users = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "users")
        >>> users.execute_and_collect(limit=10)
        [Row(name='ann', age=31)]
    """

    def __init__(
        self, type_info: TypeInformation[T_co] | type[T_co] | Mapping[str, Any] | None = None, *, charset: str = "UTF-8"
    ) -> None:
        super().__init__(charset)
        self._type = Types.PICKLED_BYTE_ARRAY() if type_info is None else type_of_fields(type_info)

    @property
    def produced_type(self) -> TypeInformation:
        return self._type

    def decoder(self, path: str, header: bytes) -> LineDecoder:
        if self._type.arrow_type is None:
            return _decode_objects
        return _ArrowDecoder(self._type) if _fits_arrow(self._type) else _PythonDecoder(self._type)


def _decode_objects(data: bytes) -> Decoded:
    return Decoded(rows=[json.loads(line) for line in _documents(data)])


def _documents(data: bytes) -> list[str]:
    return [line for line in str(data, "utf-8").split("\n") if line and not line.isspace()]


class _PythonDecoder:
    """Reads any type, document by document."""

    def __init__(self, kind: TypeInformation) -> None:
        self._type = kind
        self._layout = layout_of(by_position(kind))
        self._from_json = handler_of(kind).from_json

    def __call__(self, data: bytes) -> Decoded:
        documents = [json.loads(line, parse_float=Decimal) for line in _documents(data)]
        if self._type.is_composite and any(document is None for document in documents):
            raise ValueError("the line is null")
        return Decoded(self._layout.rows_to_columns(list(map(self._from_json, documents))))


class _ArrowDecoder:
    """Reads types that Arrow's reader knows."""

    def __init__(self, kind: TypeInformation) -> None:
        self._schema = layout_of(kind).schema
        self._fields = list(zip(kind.field_names, kind.field_types, strict=True))
        read_as = pa.schema([(name, pa.string() if _is_string(t) else t.storage_type) for name, t in self._fields])
        self._options = arrow_json.ParseOptions(explicit_schema=read_as, unexpected_field_behavior="ignore")

    def __call__(self, data: bytes) -> Decoded:
        str(data, "utf-8")  # Arrow does not look
        data = data.lstrip(b" \t\r\n")
        if not data:
            empty = [pa.array([], field.type) for field in self._schema]
            return Decoded(pa.RecordBatch.from_arrays(empty, schema=self._schema))
        if (data[:1] != b"{" or _NULL_RECORD.search(data) is not None) and not _is_one_object(data):
            raise ValueError("the line is not a JSON object")
        options = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        table = arrow_json.read_json(pa.py_buffer(data), read_options=options, parse_options=self._options)
        if table.num_rows != _lines_in(data):
            raise ValueError("the line does not hold one JSON object")
        columns = [_typed(_whole(table.column(name)), kind) for name, kind in self._fields]
        return Decoded(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _is_one_object(data: bytes) -> bool:
    """Whether there is nothing but one object, so that what looks like a null after it is part of a string."""
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _typed(column: pa.Array, kind: TypeInformation) -> pa.Array:
    """A column under its type; dates and times are still strings."""
    if not _is_string(kind):
        return column
    parse = handler_of(kind).parse
    return values_to_array(kind, [None if text is None else parse(text) for text in column.to_pylist()])


def _lines_in(data: bytes) -> int:
    """How many lines are not empty."""
    if b"\n\n" in data or b"\n\r\n" in data or b"\n " in data or data[:1].isspace():
        return sum(1 for line in data.split(b"\n") if line and not line.isspace())
    return data.count(b"\n") + (not data.endswith(b"\n"))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_string(kind: TypeInformation) -> bool:
    return isinstance(kind, BasicTypeInfo) and kind.basic_type in _AS_STRING


def _fits_arrow(kind: TypeInformation) -> bool:
    """Whether Arrow's reader reads records of this type as they are meant."""
    if not isinstance(kind, CompositeTypeInfo) or (isinstance(kind, RowTypeInfo) and kind.changelog):
        return False
    return all(_is_string(field) or _value_fits(field) for field in kind.field_types)


def _value_fits(kind: Any) -> bool:
    if isinstance(kind, BasicTypeInfo):
        return kind.basic_type in _BY_ARROW
    if isinstance(kind, ListTypeInfo):
        return _value_fits(kind.element_type)
    return isinstance(kind, CompositeTypeInfo) and _fits_arrow(kind) and not any(map(_is_string, kind.field_types))
