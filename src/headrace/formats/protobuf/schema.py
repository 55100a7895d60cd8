"""Which message of which ``.proto`` files, as something that can be pickled."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.errors import ConfigurationError, InvalidProgramError

if TYPE_CHECKING:
    import os

    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.message import Message


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
        """That of a class which ``protoc`` has generated."""
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
        """That of a file which ``protoc --include_imports --descriptor_set_out`` has written.

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
