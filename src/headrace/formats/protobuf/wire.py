"""Bytes of messages as stored columns, and back.

ptars reads and writes messages as Arrow, ten times faster than messages become objects, but not all that the
specification allows: a field that comes twice, a part of an entry of a map that is left out. So what it reads is
written again: where that gives the same bytes, nothing was lost. Other messages (with unknown fields, say) are read by
Google's own library, which writes them in the one form that leaves no doubt.

ptars is given a description of its own, made of the message's: fields by number, in one file, without what it treats in
a way of its own (well-known types, maps, which are entries in a list here).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import binary_parts
from headrace.common.errors import ConfigurationError, InvalidProgramError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
    from google.protobuf.message import Message


_MOST_GROUPS: Final = 1000
"""The nested groups that are no danger to ptars, which ends the process by an overflow of its stack at many more;
Google's library refuses more than 100."""

_FILE: Final = "headrace.proto"
_PACKAGE: Final = "headrace"
_BEGINS_GROUP: Final = 3
_HAS_LENGTH: Final = 2
_VARINT_BYTES: Final = 10
_LAST: Final = 127
"""The largest byte that an integer ends with."""

_PANIC: Final = "PanicException"
"""The name of what is raised when code of Rust fails its own checks; it is no ``Exception``, and nothing exports it."""


@lru_cache(maxsize=256)
def wire_format(schema: ProtobufSchema) -> WireFormat:
    """The wire format of messages of a schema."""
    return WireFormat(schema.descriptor())


def stored_name(field: FieldDescriptor) -> str:
    """The name of a field's stored column."""
    return f"f{field.number}"


def is_real(field: FieldDescriptor) -> bool:
    """Tell whether values are floating point numbers."""
    return field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT)


class WireFormat:
    """Reads and writes messages of one type.

    Args:
        descriptor: the type; it does not contain itself.
    """

    def __init__(self, descriptor: Descriptor) -> None:
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message_factory import GetMessageClass
        from ptars import HandlerPool

        self._class: Any = GetMessageClass(descriptor)
        pool: Any = DescriptorPool()
        name = _add_description(pool, descriptor)
        found = pool.FindMessageTypeByName(name)
        self._handler = HandlerPool([found.file]).get_for_message(found)
        self.schema: pa.Schema = self._handler.schema()

    def read(self, messages: pa.Array) -> tuple[pa.RecordBatch, bool]:
        """The stored columns of messages, and whether all messages were written without doubt.

        Args:
            messages: binary values, none null.

        Raises:
            ValueError: when one of them is no message.
        """
        try:
            columns = self._handler.array_to_record_batch(self._harmless(messages))
        except BaseException as error:
            if not isinstance(error, ValueError) and type(error).__name__ != _PANIC:
                raise
            return self.read_with_doubt(messages), False  # what ptars does not read, the other library may
        other = pc.not_equal(self._handler.record_batch_to_array(columns), messages)
        doubtful = np.flatnonzero(other.to_numpy(zero_copy_only=False))
        if not len(doubtful):
            return columns, True
        kept = np.flatnonzero(~other.to_numpy(zero_copy_only=False))
        again = self.read_with_doubt(messages.take(pa.array(doubtful)))
        places = np.empty(len(messages), np.int64)
        places[np.concatenate((kept, doubtful))] = np.arange(len(messages))
        both = pa.Table.from_batches([columns.take(pa.array(kept)), again]).combine_chunks()
        return both.take(pa.array(places)).to_batches()[0], True

    def read_with_doubt(self, messages: pa.Array) -> pa.RecordBatch:
        """The stored columns of messages of any form; errors as for :meth:`read`."""
        return self._handler.array_to_record_batch(
            pa.array([self._canonical(message) for message in messages.to_pylist()], pa.binary())
        )

    def write(self, columns: pa.RecordBatch) -> pa.Array:
        """The bytes of messages of stored columns."""
        return self._handler.record_batch_to_array(columns)

    def _harmless(self, messages: pa.Array) -> pa.Array:
        """The messages, with empty ones in place of those that ptars must not see: what it writes differs from them."""
        nested = _may_be_nested(messages)
        for index in np.flatnonzero(nested).tolist():
            nested[index] = not self._is_message(messages[index].as_py())
        bad = nested | _may_go_back(messages)
        return pc.if_else(pa.array(bad), pa.scalar(b"", pa.binary()), messages) if bad.any() else messages

    def _is_message(self, message: bytes) -> bool:
        """Say whether Google's library takes a message, which refuses groups within groups before they are a danger."""
        try:
            self._parsed(message)
        except ValueError:
            return False
        return True

    def _parsed(self, message: bytes) -> Any:
        from google.protobuf.message import DecodeError

        try:
            return self._class.FromString(message)
        except DecodeError as error:
            raise ValueError(f"it was cut, damaged or written as another message ({error})") from None

    def _canonical(self, message: bytes) -> bytes:
        parsed = self._parsed(message)
        parsed.DiscardUnknownFields()
        written: bytes = parsed.SerializePartialToString(deterministic=True)
        return written


def _may_go_back(messages: pa.Array) -> npt.NDArray[np.bool_]:
    """Find messages with a length so close to 2**64 that adding it would lead back: ten bytes behind a tag."""
    found = np.zeros(len(messages), np.bool_)
    bounds, buffer = binary_parts(messages)
    if bounds[-1] - bounds[0] <= _VARINT_BYTES:
        return found
    data = np.frombuffer(buffer, np.uint8)[bounds[0] : bounds[-1]]
    ends = np.flatnonzero((data[_VARINT_BYTES:] == 1) & (data[_VARINT_BYTES - 1 : -1] > _LAST)) + _VARINT_BYTES
    for before in range(2, _VARINT_BYTES):
        ends = ends[data[ends - before] > _LAST]
    tags = ends - _VARINT_BYTES
    ends = ends[((data[tags] & 7) == _HAS_LENGTH) | (data[np.maximum(tags - 1, 0)] > _LAST)]
    found[np.searchsorted(bounds, ends + bounds[0], side="right") - 1] = True
    return found


def _may_be_nested(messages: pa.Array) -> npt.NDArray[np.bool_]:
    """Find messages with so many bytes that can begin a group that these may be nested, as in long texts."""
    bad = np.zeros(len(messages), np.bool_)
    bounds, buffer = binary_parts(messages)
    for index in np.flatnonzero(np.diff(bounds) > _MOST_GROUPS).tolist():
        tags = np.frombuffer(buffer, np.uint8, bounds[index + 1] - bounds[index], bounds[index])
        bad[index] = np.count_nonzero((tags & 7) == _BEGINS_GROUP) > _MOST_GROUPS
    return bad


def _add_description(pool: Any, descriptor: Descriptor) -> str:
    """Add the description for ptars to a pool; gives the name of the message there."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
    names: dict[str, str] = {}
    _add_message(file, descriptor, names)
    pool.Add(file)
    return f"{_PACKAGE}.{names[descriptor.full_name]}"


def _add_message(file: Any, descriptor: Descriptor, names: dict[str, str]) -> None:
    if descriptor.full_name in names:
        return
    names[descriptor.full_name] = f"M{len(names)}"
    message = file.message_type.add(name=names[descriptor.full_name])
    is_entry = descriptor.GetOptions().map_entry
    for each in descriptor.fields:
        made = message.field.add(name=stored_name(each), number=each.number, type=each.type)
        made.label = made.LABEL_REPEATED if each.is_repeated else made.LABEL_OPTIONAL
        if each.message_type is not None:
            _add_message(file, each.message_type, names)
            made.type_name = f".{_PACKAGE}.{names[each.message_type.full_name]}"
        elif each.enum_type is not None:
            made.type = made.TYPE_INT32
        if each.is_repeated:
            made.options.packed = each.is_packed
        elif each.has_presence or is_entry or is_real(each):  # a real that is -0.0 is written, and ptars would not
            made.proto3_optional = True
            made.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{made.name}")


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A type of messages of Protobuf.

    Attributes:
        message: its full name, ``shop.Order`` say.
        descriptor_set: the files that define it and what it imports, compiled: a ``FileDescriptorSet``.

    Raises:
        InvalidProgramError: when the descriptor set is none, or has no such message.
        ConfigurationError: when the library is not installed.

    Examples:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> from headrace.datastream.formats.protobuf import ProtobufSchema
        >>> ProtobufSchema.of_class(Timestamp)
        ProtobufSchema(message='google.protobuf.Timestamp')
    """

    message: str
    descriptor_set: bytes = field(repr=False)

    def __post_init__(self) -> None:
        self.descriptor()

    @staticmethod
    def of_class(message_class: type[Message]) -> ProtobufSchema:
        """The schema of a class that ``protoc`` has generated."""
        require_protobuf()
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        descriptor = getattr(message_class, "DESCRIPTOR", None)
        if descriptor is None:
            raise InvalidProgramError(f"{message_class!r} is no class that protoc has generated from a message")
        files: dict[str, FileDescriptor] = {}
        _collect(descriptor.file, files)
        found = FileDescriptorSet()
        for file in files.values():
            file.CopyToProto(found.file.add())
        return ProtobufSchema(descriptor.full_name, found.SerializeToString(deterministic=True))

    @staticmethod
    def parse_file(file_path: str | os.PathLike[str], message: str) -> ProtobufSchema:
        """The schema in a file that ``protoc --include_imports --descriptor_set_out`` has written.

        Args:
            file_path: the file, read while the program is built.
            message: the full name of the message, with its package.
        """
        return ProtobufSchema(message, Path(file_path).read_bytes())

    def descriptor(self) -> Descriptor:
        """The message as the library describes it."""
        return _descriptor(self.message, self.descriptor_set)


def schema_of(schema: ProtobufSchema | type[Message]) -> ProtobufSchema:
    """The schema itself, where a generated class may be given."""
    return schema if isinstance(schema, ProtobufSchema) else ProtobufSchema.of_class(schema)


def require_protobuf() -> None:
    """Ask for the libraries.

    Raises:
        ConfigurationError: when they are not installed.
    """
    try:
        import google.protobuf.descriptor_pb2  # noqa: F401
        import ptars  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            "Protobuf needs libraries that are not installed: pip install 'headrace[protobuf]', on executors too"
        ) from error


def _collect(file: FileDescriptor, files: dict[str, FileDescriptor]) -> None:
    """The files that one imports, then the file itself."""
    if file.name not in files:
        for imported in file.dependencies:
            _collect(imported, files)
        files[file.name] = file


@lru_cache(maxsize=256)
def _descriptor(message: str, descriptor_set: bytes) -> Descriptor:
    require_protobuf()
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    pool: Any = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(descriptor_set).file:
            pool.Add(file)
    except (DecodeError, TypeError) as error:
        raise InvalidProgramError(
            f"the descriptor set of {message} is none: {error}. It is what protoc --include_imports "
            "--descriptor_set_out=FILE writes"
        ) from None
    try:
        found: Descriptor = pool.FindMessageTypeByName(message)
    except KeyError:
        raise InvalidProgramError(
            f"the descriptor set has no message {message!r}: its full name has the package, as in shop.Order"
        ) from None
    return found
