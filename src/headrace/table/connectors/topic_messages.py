"""Messages of tables in topics: rows, of which some columns are in the key and in the value, and upserts.

An upsert without a value is a deletion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch, take_back
from headrace.common.columns import layout_of
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.serialization import DeserializationSchema, DeserializedBatch, SerializationSchema
from headrace.common.typeinfo import RowTypeInfo, TypeInformation
from headrace.common.types import RowKind
from headrace.connectors.messages import (
    MessageSerializationSchema,
    OutgoingMessages,
    PartitionFunction,
    PartitionsOf,
)

_PUT: Final = RowKind.UPDATE_AFTER.value
_DELETED: Final = RowKind.DELETE.value


class UpsertsReader(DeserializationSchema):
    """Reads values as upserts, and messages without a value as deletions.

    Args:
        inner: reads values.
    """

    def __init__(self, inner: DeserializationSchema) -> None:
        self._inner = inner
        kind = inner.get_produced_type()
        assert isinstance(kind, RowTypeInfo)
        self._type = RowTypeInfo(kind.types, kind.names, changelog=True)
        self.ignore_parse_errors = inner.ignore_parse_errors

    def get_produced_type(self) -> TypeInformation:
        return self._type

    def deserialize(self, message: bytes) -> Any:
        return self._inner.deserialize(message)

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        read = self._inner.deserialize_batch(messages)
        layout = layout_of(self._inner.get_produced_type())
        columns = layout.rows_to_columns(read.rows or []) if read.columns is None else read.columns
        found = np.arange(len(messages)) if read.messages is None else read.messages
        removed = np.flatnonzero(messages.is_null().to_numpy(zero_copy_only=False))
        sources = np.concatenate([found, removed])
        order = np.argsort(sources, kind="stable")
        places = np.concatenate([np.arange(len(found)), np.full(len(removed), -1)])[order]
        taken = pa.array(places, mask=places < 0)
        kinds = pa.array(np.where(places < 0, _DELETED, _PUT).astype(np.int8))
        arrays = [*(column.take(taken) for column in columns.columns), kinds]
        made = pa.RecordBatch.from_arrays(arrays, schema=layout_of(self._type).schema)
        return DeserializedBatch(made, messages=sources[order], rejected=read.rejected)


class FieldsSchema(SerializationSchema):
    """Writes some columns of rows.

    Args:
        inner: writes rows of these columns.
        kind: their type.
        places: the positions of the columns.
    """

    def __init__(self, inner: SerializationSchema, kind: TypeInformation, places: Sequence[int]) -> None:
        self._inner = inner
        self._type = kind
        self._places = tuple(places)

    @property
    def takes_changes(self) -> bool:  # type: ignore[override]
        """Return whether values include row kinds."""
        return self._inner.takes_changes

    def serialize(self, element: Any) -> bytes:
        """Refuse a single record: only batches are written."""
        raise TypeError("columns of rows are written for batches, not for single rows")

    def serialize_batch(self, batch: Batch) -> pa.Array:
        columns = batch.columns
        arrays = [columns.column(place) for place in self._places]
        rows = pa.RecordBatch.from_arrays(arrays, schema=layout_of(self._type).schema)
        return self._inner.serialize_batch(batch.replaced(self._type, columns=rows))

    def validate(self, input_type: TypeInformation) -> None:
        self._inner.validate(self._type)


class UpsertsWriter(SerializationSchema):
    """Writes rows, and deletions as messages without a value.

    Args:
        inner: writes values.
    """

    takes_changes = True

    def __init__(self, inner: SerializationSchema) -> None:
        self._inner = inner

    def serialize(self, element: Any) -> bytes:
        """Refuse a single record: only batches are written."""
        raise TypeError("upserts are written for batches, not for single rows")

    def serialize_batch(self, batch: Batch) -> pa.Array:
        values = self._inner.serialize_batch(batch)
        kinds = batch.kinds
        if kinds is None:
            return values
        return pc.if_else(pa.array(take_back(kinds)), pa.scalar(None, values.type), values)

    def validate(self, input_type: TypeInformation) -> None:
        self._inner.validate(input_type)


FIXED: Final = "fixed"
Partitioner = PartitionFunction | Literal["fixed"] | None
"""A function that gives the partition of a row; ``fixed`` for one of each subtask; None where keys decide."""


class RowMessages(MessageSerializationSchema):
    """Creates messages from rows, whose last columns may be metadata.

    Args:
        topic: the topic.
        value: writes values.
        key: writes keys.
        metadata: the columns of metadata, by key.
        partitioner: gives partitions.
    """

    def __init__(
        self,
        topic: str,
        value: SerializationSchema,
        key: SerializationSchema | None,
        metadata: Mapping[str, int],
        partitioner: Partitioner,
    ) -> None:
        self._timestamps = metadata.get("timestamp")
        self._subtask = 0 if partitioner == FIXED else None
        headers = None if "headers" not in metadata else _Headers(metadata["headers"])
        super().__init__(
            topic, value, key, headers=headers, partitioner=None if isinstance(partitioner, str) else partitioner
        )

    def of_subtask(self, subtask: int) -> RowMessages:
        made = copy(self)
        made._subtask = None if self._subtask is None else subtask
        return made

    def encode(self, batch: Batch, partitions_of: PartitionsOf) -> Iterator[OutgoingMessages]:
        if self._timestamps is not None:
            given = batch.columns.column(self._timestamps).cast(pa.timestamp("ms", "UTC"), safe=False)
            millis = given.cast(pa.int64()).fill_null(NO_TIMESTAMP).to_numpy(zero_copy_only=False)
            batch = Batch(
                batch.type,
                np.asarray(millis, np.int64),
                batch.watermarks,
                columns=batch.columns,
                kinds=batch.kinds_beside_columns,
            )
        for messages in super().encode(batch, partitions_of):
            if self._subtask is None:
                yield messages
            else:
                partition = self._subtask % partitions_of(messages.topic)
                yield replace(messages, partitions=np.full(len(messages.values), partition, np.int32))


@dataclass(frozen=True)
class _Headers:
    place: int

    def __call__(self, row: Any) -> Mapping[str, bytes | None] | None:
        found: Mapping[str, bytes | None] | None = row[self.place]
        return found
