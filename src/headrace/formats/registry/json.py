"""Documents of JSON behind Confluent's header: the id of their JSON Schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headrace.formats.columnar_messages import ColumnarDeserializationSchema
from headrace.formats.json.decoders import decoder_of
from headrace.formats.json.json_schema import json_schema_of
from headrace.formats.json.schemas import JsonRowSerializationSchema
from headrace.formats.registry.client import SchemaRegistry, registry_of
from headrace.formats.registry.wire_format import RegistrySerializationSchema, SchemaHeader, without_header

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.common.typeinfo import TypeInformation


class ConfluentRegistryJsonDeserializationSchema(ColumnarDeserializationSchema):
    r"""Reads documents of JSON behind the id of a schema; what comes out is said by a type, as for other JSON.

    Args:
        type_info: the type of the records.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.schema_registry import ConfluentRegistryJsonDeserializationSchema
        >>> schema = ConfluentRegistryJsonDeserializationSchema(Types.ROW_NAMED(["id"], [int]))
        >>> schema.deserialize(bytes(4) + b'\x07{"id": 1}')
        Row(id=1)
    """

    def __init__(self, type_info: TypeInformation, *, ignore_parse_errors: bool = False) -> None:
        self._type = type_info
        self.ignore_parse_errors = ignore_parse_errors

    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
        return self._type

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return decoder_of(self._type).messages(without_header(messages))


class ConfluentRegistryJsonSerializationSchema(RegistrySerializationSchema):
    """Writes records as documents of JSON behind the id of their JSON Schema, which is put into a registry.

    Args:
        registry: the registry, or its URL.
        subject: where the schema is.
        type_info: the type of the records.
        json_schema: their JSON Schema; one is made of the type when it is left out.
        auto_register: whether a schema that is not there becomes a new version of the subject.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.schema_registry import ConfluentRegistryJsonSerializationSchema
        >>> order = Types.ROW_NAMED(["id", "card"], [int, str])
        >>> schema = ConfluentRegistryJsonSerializationSchema("http://localhost:8081", "orders-value", order)
    """

    def __init__(
        self,
        registry: SchemaRegistry | str,
        subject: str,
        type_info: TypeInformation,
        *,
        json_schema: str | None = None,
        auto_register: bool = True,
    ) -> None:
        text = json.dumps(json_schema_of(type_info)) if json_schema is None else json_schema
        header = SchemaHeader(registry_of(registry), subject, text, "JSON", auto_register)
        super().__init__(header, JsonRowSerializationSchema(type_info))
