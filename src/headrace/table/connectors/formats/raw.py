"""``raw``: messages as rows of one column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError
from headrace.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    DeserializedBatch,
    SerializationSchema,
    SimpleStringSchema,
)
from headrace.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation


def only_column(kind: TypeInformation) -> BasicType:
    """The type of the column.

    Raises:
        InvalidTypeError: when there are several, or it is neither text nor bytes.
    """
    assert isinstance(kind, RowTypeInfo)
    if len(kind.types) != 1:
        raise InvalidTypeError(
            f"format 'raw' is one column that is the whole message, not {len(kind.types)}: use 'csv' or 'json'"
        )
    (only,) = kind.types
    if not isinstance(only, BasicTypeInfo) or only.basic_type not in (BasicType.STRING, BasicType.BYTES):
        raise InvalidTypeError(f"format 'raw' is a column of STRING or BYTES, not {only}: CAST it in the query")
    return only.basic_type


class RawSchema(SerializationSchema, DeserializationSchema):
    """Reads and writes rows of one column.

    Args:
        kind: the type of the rows.
        charset: the encoding of text.

    Raises:
        InvalidTypeError: when there are several columns, or it is neither text nor bytes.
    """

    def __init__(self, kind: TypeInformation, charset: str) -> None:
        is_text = only_column(kind) is BasicType.STRING
        self._inner = SimpleStringSchema(charset) if is_text else ByteArraySchema()
        self._type = kind

    def get_produced_type(self) -> TypeInformation:
        return self._type

    def deserialize(self, message: bytes) -> Any:
        return self._inner.deserialize(message)

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        present = messages.drop_null()
        read = self._inner.deserialize_batch(present)
        layout = layout_of(self._inner.get_produced_type())
        values = layout.rows_to_columns(read.rows or []) if read.columns is None else read.columns
        columns = pa.RecordBatch.from_arrays([values.column(0)], schema=layout_of(self._type).schema)
        if len(present) == len(messages):
            return DeserializedBatch(columns, messages=read.messages, rejected=read.rejected)
        places = messages.is_valid().to_numpy(zero_copy_only=False).nonzero()[0]
        rejected = [(int(places[index]), reason) for index, reason in read.rejected]
        return DeserializedBatch(
            columns, messages=places if read.messages is None else places[read.messages], rejected=rejected
        )

    def serialize(self, element: Any) -> bytes:
        """Refuse a single record: only batches are written."""
        raise TypeError("raw messages are written for batches, not for single rows")

    def serialize_batch(self, batch: Batch) -> pa.Array:
        kind = self._inner.get_produced_type()
        columns = pa.RecordBatch.from_arrays([batch.columns.column(0)], schema=layout_of(kind).schema)
        return self._inner.serialize_batch(Batch(kind, batch.timestamps, batch.watermarks, columns=columns))
