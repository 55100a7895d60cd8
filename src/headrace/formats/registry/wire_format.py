"""Confluent's wire format: a zero, the id of a schema in four bytes, and what was written with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.serialization import SerializationSchema
from headrace.formats.registry.client import registry_client

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.registry.client import ReferencedSchema, SchemaRegistry


HEADER_BYTES: Final = 5


def schema_ids(messages: pa.Array) -> npt.NDArray[Any]:
    """The ids of the schemas of messages, none of which is null.

    Raises:
        ValueError: when one does not begin as the wire format does.
    """
    heads = pc.binary_slice(messages.cast(pa.binary()), 0, HEADER_BYTES)
    if not pc.all(pc.equal(pc.binary_length(heads), HEADER_BYTES), min_count=0).as_py():
        raise ValueError("it has fewer than five bytes, so there is no id of a schema")
    _, offsets, data = heads.buffers()
    start = int(np.frombuffer(offsets, np.int32)[heads.offset]) if len(heads) else 0
    flat = (
        np.frombuffer(data, np.uint8)[start : start + HEADER_BYTES * len(heads)]
        if len(heads)
        else np.zeros(0, np.uint8)
    )
    rows = flat.reshape(-1, HEADER_BYTES)
    if rows[:, 0].any():
        raise ValueError("it does not begin with a zero: it was not written with a schema registry")
    ids: npt.NDArray[Any] = np.ascontiguousarray(rows[:, 1:]).view(">u4").reshape(-1).astype(np.int64)
    return ids


def decode_by_schema(messages: pa.Array, decode: Callable[[int, pa.Array], pa.RecordBatch]) -> pa.RecordBatch | None:
    """The records of messages that were written with several schemas; None when there are no messages.

    Args:
        messages: messages with headers.
        decode: gives the records of messages of one id.

    Raises:
        ValueError: when a message has no header, and what ``decode`` raises.
    """
    ids = schema_ids(messages)
    known = np.unique(ids)
    if len(known) <= 1:
        return decode(int(known[0]), messages) if len(known) else None
    rows = [np.flatnonzero(ids == schema_id) for schema_id in known]
    parts = [
        decode(int(schema_id), messages.take(pa.array(found))) for schema_id, found in zip(known, rows, strict=True)
    ]
    places = np.empty(len(messages), np.int64)
    places[np.concatenate(rows)] = np.arange(len(messages))
    return pa.concat_batches(parts).take(pa.array(places))


def without_header(messages: pa.Array) -> pa.Array:
    """What follows the headers."""
    schema_ids(messages)
    return pc.binary_slice(messages.cast(pa.binary()), HEADER_BYTES)


def header_of(schema_id: int) -> bytes:
    """What is in front of messages of a schema."""
    return b"\x00" + schema_id.to_bytes(HEADER_BYTES - 1, "big")


def with_header(schema_id: int, messages: pa.Array, more: bytes = b"") -> pa.Array:
    """Messages behind headers, and ``more`` behind these; those without a value stay so."""
    head = pa.scalar(header_of(schema_id) + more, pa.binary())
    return pc.binary_join_element_wise(head, messages, pa.scalar(b"", pa.binary()))


class SchemaHeader:
    """The id of a schema, for which the registry is asked in the task, before the first message.

    Args:
        registry: the registry.
        subject: where the schema is.
        text: the schema.
        kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.
        register: whether it becomes a new version of the subject if it is not there.
        references: what it refers to.
        more: what else is in front of every message.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        subject: str,
        text: str,
        kind: str,
        register: bool,
        references: tuple[ReferencedSchema, ...] = (),
        *,
        more: bytes = b"",
    ) -> None:
        self._registry = registry
        self._subject = subject
        self._text = text
        self._kind = kind
        self._register = register
        self._references = references
        self._more = more

    def schema_id(self) -> int:
        """The id, asked for once in a process."""
        client = registry_client(self._registry)
        return client.id_of(self._subject, self._text, self._kind, register=self._register, references=self._references)

    def before(self, message: bytes) -> bytes:
        """A message behind the header."""
        return header_of(self.schema_id()) + self._more + message

    def before_all(self, messages: pa.Array) -> pa.Array:
        """Messages behind the header; those without a value stay so."""
        return with_header(self.schema_id(), messages, self._more)


class RegistrySerializationSchema(SerializationSchema):
    """Writes records as another schema does, behind the header.

    Args:
        header: what is in front of every message.
        inner: writes what follows.
    """

    def __init__(self, header: SchemaHeader, inner: SerializationSchema) -> None:
        self._header = header
        self._inner = inner

    def serialize(self, element: Any) -> bytes | None:
        """The header and the message of one record."""
        message = self._inner.serialize(element)
        return None if message is None else self._header.before(message)

    def serialize_batch(self, batch: Batch) -> pa.Array:
        return self._header.before_all(self._inner.serialize_batch(batch))

    def validate(self, input_type: TypeInformation) -> None:
        self._inner.validate(input_type)
