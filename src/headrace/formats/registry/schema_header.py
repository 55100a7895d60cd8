"""What is written in front of messages whose schema is in a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.serialization import SerializationSchema
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.formats.registry.client import registry_client
from headrace.formats.registry.wire_format import header_of, with_header

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.registry.client import ReferencedSchema, SchemaRegistry


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


@hides_engine_of_methods
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
