"""``SchemaHeader``: what is written in front of messages whose schema is in a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.registry.client import registry_client
from headrace.formats.registry.wire_format import header_of

if TYPE_CHECKING:
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
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        subject: str,
        text: str,
        kind: str,
        register: bool,
        references: tuple[ReferencedSchema, ...] = (),
    ) -> None:
        self._registry = registry
        self._subject = subject
        self._text = text
        self._kind = kind
        self._register = register
        self._references = references

    def schema_id(self) -> int:
        """The id, asked for once in a process."""
        client = registry_client(self._registry)
        return client.id_of(self._subject, self._text, self._kind, register=self._register, references=self._references)

    def before(self, message: bytes) -> bytes:
        """A message behind the header."""
        return header_of(self.schema_id()) + message
