"""Protobuf messages as rows and back, with or without a schema registry."""

from __future__ import annotations

import base64
import binascii
import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidProgramError, UnknownSchemaError
from headrace.formats.avro.encoding import read_integer, write_integer
from headrace.formats.bad_records import ColumnarDeserializationSchema, ColumnarSerializationSchema
from headrace.formats.protobuf.columns import message_column
from headrace.formats.protobuf.wire import ProtobufSchema, require_protobuf, schema_of, wire_format
from headrace.formats.schema_registry import (
    HEADER_BYTES,
    ReferencedSchema,
    RegisteredSchema,
    RegistrySerializationSchema,
    SchemaHeader,
    SchemaRegistry,
    registry_client,
    registry_of,
    schema_ids,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.message import Message


class ProtobufRowDeserializationSchema(ColumnarDeserializationSchema):
    """Reads messages of Protobuf as rows, with the options of Flink's format.

    Enums are the names of their values, ``uint32`` is ``Types.LONG()``, ``uint64`` is ``Types.BIG_INT()``, well-known
    types are rows as other messages are.

    Args:
        schema: the message: a class that ``protoc`` has generated, or a :class:`ProtobufSchema`.
        read_default_values: whether what a message does not have is read as its default; else it is ``None``. Fields
            of proto3 that are neither messages nor ``optional`` nor one of several have their default anyway.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Raises:
        InvalidProgramError: when the message contains itself or a group, or a message without fields.
        ConfigurationError: when the library is not installed.

    Examples:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> from headrace.datastream.formats.protobuf import ProtobufRowDeserializationSchema
        >>> schema = ProtobufRowDeserializationSchema(Timestamp)
        >>> schema.deserialize(Timestamp(seconds=5).SerializeToString())
        Row(seconds=5, nanos=0)
    """

    def __init__(
        self,
        schema: ProtobufSchema | type[Message],
        *,
        read_default_values: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        self._schema = schema_of(schema)
        self._read_defaults = read_default_values
        kind = message_column(self._schema, read_default_values=read_default_values).type_info
        super().__init__(kind, ignore_parse_errors=ignore_parse_errors)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return read_messages(self._schema, messages, read_default_values=self._read_defaults)


class ProtobufRowSerializationSchema(ColumnarSerializationSchema):
    r"""Writes a record as a message of Protobuf; its fields are those of the message, in their order.

    A field that is ``None`` is not written. Of several fields of a ``oneof`` the last one is.

    Args:
        schema: the message: a class that ``protoc`` has generated, or a :class:`ProtobufSchema`.
        write_null_string_literal: what is written for ``None`` among strings of a list or a map, where there is no
            null; numbers are 0 there.

    Raises:
        InvalidProgramError: as for :class:`ProtobufRowDeserializationSchema`.
        ConfigurationError: likewise.

    Examples:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> from headrace.common import Row
        >>> from headrace.datastream.formats.protobuf import ProtobufRowSerializationSchema
        >>> ProtobufRowSerializationSchema(Timestamp).serialize(Row(seconds=5, nanos=None))
        b'\x08\x05'
    """

    def __init__(self, schema: ProtobufSchema | type[Message], *, write_null_string_literal: str = "") -> None:
        self._schema = schema_of(schema)
        self._null_literal = write_null_string_literal
        super().__init__(message_column(self._schema, write_null_string_literal=write_null_string_literal).type_info)

    def serialize_batch(self, batch: Batch) -> pa.Array:
        columns = self.columns_of(batch)
        wire = wire_format(self._schema)
        column = message_column(self._schema, write_null_string_literal=self._null_literal)
        arrays = column.write_fields(columns.columns, list(wire.schema), "")
        return wire.write(pa.RecordBatch.from_arrays(arrays, schema=wire.schema))


def read_messages(schema: ProtobufSchema, messages: pa.Array, *, read_default_values: bool) -> pa.RecordBatch:
    """The records of messages, none of which is null, under the schema of their type.

    Raises:
        ValueError: when one of them cannot be read.
    """
    wire = wire_format(schema)
    column = message_column(schema, read_default_values=read_default_values)
    messages = messages.cast(pa.binary())
    stored, certain = wire.read(messages)
    if certain and not column.are_plain(stored.columns):
        stored = wire.read_with_doubt(messages)
    rows = pa.StructArray.from_arrays(stored.columns, fields=list(stored.schema))
    return pa.RecordBatch.from_arrays(column.read_fields(rows), schema=layout_of(column.type_info).schema)


_MOST_INDEXES: Final = 100
"""Messages inside of messages are not as many as this; a longer list of indexes is damage."""


def without_indexes(messages: pa.Array) -> tuple[list[tuple[int, ...]], pa.Array]:
    """Split messages into the path of each message's type in its schema's file, and what follows the header.

    Raises:
        ValueError: when the header ends too early.
    """
    messages = messages.cast(pa.binary())
    first = pc.binary_slice(messages, HEADER_BYTES, HEADER_BYTES + 1)
    if pc.all(pc.equal(first, b"\x00"), min_count=0).as_py():
        return [(0,)] * len(messages), pc.binary_slice(messages, HEADER_BYTES + 1)
    indexes, bodies = [], []
    for message in messages.to_pylist():
        try:
            path, end = _path_of(message)
        except IndexError:
            raise ValueError("it ends within the header") from None
        indexes.append(path)
        bodies.append(message[end:])
    return indexes, pa.array(bodies, pa.binary())


def _path_of(message: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes in the header of a message, and where that ends."""
    count, end = read_integer(message, HEADER_BYTES)
    if not 0 <= count <= _MOST_INDEXES:
        raise ValueError(f"its header says that {count} indexes of a message follow")
    path = []
    for _ in range(count):
        index, end = read_integer(message, end)
        path.append(index)
    return tuple(path) or (0,), end


def indexes_of(descriptor: Descriptor) -> bytes:
    """The path of a message's type in its file, as the header has it."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto()
    descriptor.file.CopyToProto(file)
    path: list[int] = []
    inner: Any = file.message_type
    for name in descriptor.full_name.removeprefix(f"{file.package}.").split("."):
        path.append([message.name for message in inner].index(name))
        inner = inner[path[-1]].nested_type
    return b"\x00" if path == [0] else b"".join(map(write_integer, [len(path), *path]))


_SERIALIZED: Final = "serialized"
_WELL_KNOWN: Final = "google/protobuf/"


class ConfluentRegistryProtobufDeserializationSchema(ColumnarDeserializationSchema):
    """Reads messages of Protobuf behind the id of their schema.

    Messages are read by the numbers of their fields, so of a newer or older schema what both have. The registry is
    queried for the schema of each id once, for the name of the message: another message of the topic cannot be read.

    Args:
        registry: the registry, or its URL.
        schema: the message, as for :class:`ProtobufRowDeserializationSchema`; where it is left out, that of the newest
            schema of ``subject`` by now.
        subject: where the schema is in the registry, which is queried once, while the program is built.
        message: the full name of the message, where it is not the first one of the subject's schema.
        read_default_values: as for :class:`ProtobufRowDeserializationSchema`.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Raises:
        InvalidProgramError: when neither a schema nor a subject is given, or the schema has no such message.
        UnknownSchemaError: when there is no such subject.
        InfrastructureError: when the registry does not answer.

    Examples:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> from headrace.datastream.formats.schema_registry import ConfluentRegistryProtobufDeserializationSchema
        >>> ConfluentRegistryProtobufDeserializationSchema("http://localhost:8081", Timestamp).get_produced_type()
        RowTypeInfo(seconds: Long, nanos: Integer)
    """

    def __init__(
        self,
        registry: SchemaRegistry | str,
        schema: ProtobufSchema | type[Message] | None = None,
        *,
        subject: str | None = None,
        message: str | None = None,
        read_default_values: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        self._registry = registry_of(registry)
        if schema is not None:
            self._schema = schema_of(schema)
        elif subject is not None:
            self._schema = _newest(self._registry, subject, message)
        else:
            raise InvalidProgramError("give schema, or the subject whose newest schema it is to be")
        self._read_defaults = read_default_values
        kind = message_column(self._schema, read_default_values=read_default_values).type_info
        super().__init__(kind, ignore_parse_errors=ignore_parse_errors)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        ids = schema_ids(messages)
        indexes, bodies = without_indexes(messages)
        for schema_id, path in set(zip(ids.tolist(), indexes, strict=True)):
            self._check(schema_id, path)
        return read_messages(self._schema, bodies, read_default_values=self._read_defaults)

    def _check(self, schema_id: int, path: tuple[int, ...]) -> None:
        """Refuse another message, of which the fields' numbers may be the same."""
        try:
            found = registry_client(self._registry).schema(schema_id, _SERIALIZED)
        except UnknownSchemaError as error:
            raise ValueError(str(error)) from error
        name = _message_at(found, path)
        if name != self._schema.message:
            raise ValueError(f"it is a message {name}, and {self._schema.message} is read")


class ConfluentRegistryProtobufSerializationSchema(RegistrySerializationSchema):
    """Writes records as messages of Protobuf behind the id of their schema, which is put into a registry.

    Files that the schema's file imports are put under subjects of their names; those of Protobuf itself are not.

    Args:
        registry: the registry, or its URL.
        subject: where the schema is.
        schema: the message, as for :class:`ProtobufRowSerializationSchema`.
        auto_register: whether a schema that is not there becomes a new version of the subject.
        write_null_string_literal: as for :class:`ProtobufRowSerializationSchema`.

    Examples:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> from headrace.datastream.formats.schema_registry import ConfluentRegistryProtobufSerializationSchema
        >>> schema = ConfluentRegistryProtobufSerializationSchema("http://localhost:8081", "moments-value", Timestamp)
    """

    def __init__(
        self,
        registry: SchemaRegistry | str,
        subject: str,
        schema: ProtobufSchema | type[Message],
        *,
        auto_register: bool = True,
        write_null_string_literal: str = "",
    ) -> None:
        found = schema_of(schema)
        descriptor = found.descriptor()
        file = _referenced(descriptor.file)
        super().__init__(
            SchemaHeader(
                registry_of(registry),
                subject,
                file.text,
                "PROTOBUF",
                auto_register,
                file.references,
                more=indexes_of(descriptor),
            ),
            ProtobufRowSerializationSchema(found, write_null_string_literal=write_null_string_literal),
        )


def _newest(registry: SchemaRegistry, subject: str, message: str | None) -> ProtobufSchema:
    """The message of that name, or the first one, of the newest schema of a subject."""
    require_protobuf()
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found = registry_client(registry).latest(subject, _SERIALIZED)
    try:
        names = _message_at(found, (0,))
        files = _files(found)
    except ValueError as error:
        raise InvalidProgramError(f"the newest schema of {subject!r}: {error}") from error
    return ProtobufSchema(message or names, FileDescriptorSet(file=files).SerializeToString(deterministic=True))


@lru_cache(maxsize=1024)
def _message_at(found: RegisteredSchema, path: tuple[int, ...]) -> str:
    """The full name of a message of a schema.

    Raises:
        ValueError: when it is no schema of Protobuf, or has no such message.
    """
    file = _file(found.text, "", found)
    names, inner = [file.package] if file.package else [], file.message_type
    try:
        for index in path:
            names.append(inner[index].name)
            inner = inner[index].nested_type
    except IndexError:
        raise ValueError(f"the schema {found.id} has no message {list(path)}") from None
    return ".".join(names)


def _file(text: str, name: str, found: RegisteredSchema) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    if found.kind != "PROTOBUF":
        raise ValueError(f"the schema {found.id} is one of {found.kind}, not of Protobuf")
    try:
        file: Any = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError) as error:
        raise ValueError(f"the registry gives the schema {found.id} in no form that can be read: {error}") from None
    file.name = name or file.name
    return file


def _files(found: RegisteredSchema) -> list[Any]:
    """The files of a schema, each behind those that it imports."""
    named = zip(found.references, found.reference_names, strict=True)
    files = [*(_file(text, name, found) for text, name in named), _file(found.text, "schema.proto", found)]
    have = {file.name for file in files}
    known: dict[str, Any] = {}
    for file in files:
        for path in file.dependency:
            if path not in have:
                _add_known(path, known)
    return [*known.values(), *files]


def _add_known(path: str, known: dict[str, Any]) -> None:
    """Add a file of Protobuf itself, which the registry does not keep, and what it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if path in known:
        return
    if not path.startswith(_WELL_KNOWN):
        raise ValueError(f"it imports {path}, which the registry does not name as a reference")
    try:
        module = importlib.import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        raise ValueError(f"it imports {path}, which the installed protobuf does not have") from None
    for imported in module.DESCRIPTOR.dependencies:
        _add_known(imported.name, known)
    known[path] = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(known[path])


def _referenced(file: FileDescriptor) -> ReferencedSchema:
    """A file as the registry takes it, with what it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    copy = FileDescriptorProto()
    file.CopyToProto(copy)
    text = base64.b64encode(copy.SerializeToString(deterministic=True)).decode()
    imported = [each for each in file.dependencies if not each.name.startswith(_WELL_KNOWN)]
    return ReferencedSchema(file.name, text, tuple(map(_referenced, imported)))
