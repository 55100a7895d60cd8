"""Documents of JSON as columns: lines of a block, or messages of a fetch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from headrace.common.columns import layout_of, values_to_array
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    ListTypeInfo,
    RowTypeInfo,
    SequenceTypeInfo,
)
from headrace.common.typeinfo.basic import FLOATS, WHOLE_NUMBERS
from headrace.common.values import handler_of
from headrace.formats.json.values import by_position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.typeinfo import TypeInformation

_NULL_RECORD = re.compile(rb"\}\s*null")
"""A line that is ``null`` is a record of nulls to Arrow, and crashes the process when it is the first of a block."""

_TIMESTAMPS = frozenset({BasicType.SQL_TIMESTAMP, BasicType.TIMESTAMP_LTZ})
_BY_ARROW = {BasicType.STRING, BasicType.BOOLEAN} | WHOLE_NUMBERS | FLOATS | _TIMESTAMPS
_AS_STRING = frozenset({BasicType.SQL_DATE, BasicType.SQL_TIME, BasicType.INSTANT})

_NOT_FINITE = re.compile(rb'"(?:NaN|-?Infinity)"')
"""Numbers that are strings, which Arrow does not read."""

_BLANKS: Final = b" \t\r\n"


class JsonDecoder(Protocol):
    """Reads documents of one type, each of which is one record."""

    def lines(self, data: bytes) -> pa.RecordBatch:
        """The records of lines that each hold a document; empty lines are left out.

        Raises:
            ValueError: when one of the lines cannot be read.
        """

    def messages(self, messages: pa.Array) -> pa.RecordBatch:
        """The records of messages that each are a document, binary values of which none is null.

        Raises:
            ValueError: when one of the messages cannot be read.
        """


@lru_cache(maxsize=256)
def decoder_of(kind: TypeInformation) -> JsonDecoder:
    """What reads documents of a type that has columns."""
    if not _fits_arrow(kind):
        return _PythonDecoder(kind)
    return _RealsDecoder(kind) if _has_reals(kind) else _ArrowDecoder(kind)


def lines_of(data: bytes) -> list[str]:
    """The lines that are not empty."""
    return [line for line in str(data, "utf-8").split("\n") if line and not line.isspace()]


class _PythonDecoder:
    """Reads any type, document by document."""

    def __init__(self, kind: TypeInformation) -> None:
        self._type = kind
        self._layout = layout_of(by_position(kind))
        self._from_json = handler_of(kind).from_json

    def lines(self, data: bytes) -> pa.RecordBatch:
        return self._columns(lines_of(data))

    def messages(self, messages: pa.Array) -> pa.RecordBatch:
        return self._columns(str(message, "utf-8") for message in messages.to_pylist())

    def _columns(self, texts: Iterable[str]) -> pa.RecordBatch:
        documents = [json.loads(text, parse_float=Decimal) for text in texts]
        if self._type.is_composite and any(document is None for document in documents):
            raise ValueError("the document is null")
        return self._layout.rows_to_columns(list(map(self._from_json, documents)))


class _ArrowDecoder:
    """Reads types that Arrow's reader knows."""

    def __init__(self, kind: TypeInformation) -> None:
        self._schema = layout_of(kind).schema
        self._fields = list(zip(kind.field_names, kind.field_types, strict=True))
        read_as = pa.schema([(name, pa.string() if _is_string(t) else t.storage_type) for name, t in self._fields])
        self._options = arrow_json.ParseOptions(explicit_schema=read_as, unexpected_field_behavior="ignore")

    def lines(self, data: bytes) -> pa.RecordBatch:
        data = data.lstrip(b" \t\r\n")
        if data and (data[:1] != b"{" or _NULL_RECORD.search(data) is not None) and not _is_one_object(data):
            raise ValueError("the line is not a JSON object")
        return self._columns(pa.py_buffer(data), _lines_in(data))

    def messages(self, messages: pa.Array) -> pa.RecordBatch:
        """As declared; a message may have several lines.

        Each begins with a brace and ends with one, so none can be the beginning of another one: what follows would
        begin with a comma. So there is one object in each when there are as many as messages.
        """
        if not len(messages):
            return self._columns(pa.py_buffer(b""), 0)
        if not _are_braced(messages):
            messages = _trimmed(messages)
            if not _are_braced(messages):
                raise ValueError("the message is not a JSON object")
        as_one = pa.ListArray.from_arrays(pa.array([0, len(messages)], pa.int32()), messages)
        return self._columns(pc.binary_join(as_one, b"\n").buffers()[2], len(messages))

    def _columns(self, data: pa.Buffer, documents: int) -> pa.RecordBatch:
        str(data, "utf-8")  # Arrow does not look
        if not documents:
            return pa.RecordBatch.from_pylist([], self._schema)
        options = arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1)
        table = arrow_json.read_json(data, read_options=options, parse_options=self._options)
        if table.num_rows != documents:
            raise ValueError("there is not one JSON object, and nothing else")
        columns = [_typed(_whole(table.column(name)), kind) for name, kind in self._fields]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _RealsDecoder(_ArrowDecoder):
    """Reads types that Arrow's reader knows, where numbers may be none that are finite."""

    def __init__(self, kind: TypeInformation) -> None:
        super().__init__(kind)
        self._any = _PythonDecoder(kind)

    def lines(self, data: bytes) -> pa.RecordBatch:
        try:
            return super().lines(data)
        except ValueError:
            if _NOT_FINITE.search(data) is None:
                raise
            return self._any.lines(data)

    def messages(self, messages: pa.Array) -> pa.RecordBatch:
        try:
            return super().messages(messages)
        except ValueError:
            if not any(map(_NOT_FINITE.search, messages.to_pylist())):
                raise
            return self._any.messages(messages)


def refuse_missing_fields(messages: pa.Array, columns: pa.RecordBatch, kind: TypeInformation) -> None:
    """Refuse messages that lack a field; only those that have a null somewhere need to be looked at once more.

    Args:
        messages: the messages, none of them null.
        columns: what was read of them.
        kind: their type.

    Raises:
        ValueError: for the first field that is missing.
    """
    suspicious = np.zeros(len(messages), np.bool_)
    for column in columns.columns:
        if pa.types.is_nested(column.type):
            suspicious[:] = True
        elif column.null_count:
            suspicious |= column.is_null().to_numpy(zero_copy_only=False)
    for message in messages.filter(pa.array(suspicious)).to_pylist():
        _refuse_missing(json.loads(message), kind)


def _refuse_missing(document: Any, kind: Any) -> None:
    if isinstance(kind, CompositeTypeInfo) and isinstance(document, Mapping):
        for name, field in zip(kind.field_names, kind.field_types, strict=True):
            if name not in document:
                raise ValueError(f"the field {name!r} is missing")
            _refuse_missing(document[name], field)
    elif isinstance(kind, SequenceTypeInfo) and isinstance(document, Sequence):
        for element in document:
            _refuse_missing(element, kind.element_type)


def _are_braced(messages: pa.Array) -> bool:
    """Whether each message begins with an opening brace and ends with a closing one."""
    _, offsets, data = messages.cast(pa.binary()).buffers()
    ends = np.frombuffer(offsets, np.int32)[messages.offset : messages.offset + len(messages) + 1]
    if (np.diff(ends) == 0).any():
        return False
    characters = np.frombuffer(data, np.uint8)
    return bool((characters[ends[:-1]] == ord("{")).all() and (characters[ends[1:] - 1] == ord("}")).all())


def _trimmed(messages: pa.Array) -> pa.Array:
    return pa.array([message.strip(_BLANKS) for message in messages.to_pylist()], pa.binary())


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
    if not data:
        return 0
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


def _has_reals(kind: Any) -> bool:
    if isinstance(kind, CompositeTypeInfo):
        return any(map(_has_reals, kind.field_types))
    if isinstance(kind, ListTypeInfo):
        return _has_reals(kind.element_type)
    return isinstance(kind, BasicTypeInfo) and kind.basic_type in FLOATS
