"""Which message of its schema's file a message of Protobuf is: what is behind Confluent's header."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.registry.wire_format import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import Descriptor

_MOST_INDEXES: Final = 100
"""Messages inside of messages are not as many as this; a longer list of indexes is damage."""


def without_indexes(messages: pa.Array) -> tuple[list[tuple[int, ...]], pa.Array]:
    """Which message of its schema's file each one is, as the way from the outermost one, and what follows the header.

    Raises:
        ValueError: when the header ends too early.
    """
    messages = messages.cast(pa.binary())
    first = pc.binary_slice(messages, HEADER_BYTES, HEADER_BYTES + 1)
    if pc.all(pc.equal(first, b"\x00"), min_count=0).as_py():
        return [(0,)] * len(messages), pc.binary_slice(messages, HEADER_BYTES + 1)
    indexes, bodies = [], []
    for message in messages.to_pylist():
        numbers = _varints(message[HEADER_BYTES:])
        count, position = next(numbers)
        if not 0 <= count <= _MOST_INDEXES:
            raise ValueError(f"its header says that {count} indexes of a message follow")
        path = [next(numbers) for _ in range(count)]
        indexes.append(tuple(number for number, _ in path) or (0,))
        bodies.append(message[HEADER_BYTES + (path[-1][1] if path else position) :])
    return indexes, pa.array(bodies, pa.binary())


def _varints(data: bytes) -> Iterator[tuple[int, int]]:
    """Signed integers that lie one behind the other, each with the place behind it."""
    value = shift = 0
    for place, byte in enumerate(data, 1):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield (value >> 1) ^ -(value & 1), place
            value = shift = 0
    raise ValueError("it ends within the header")


def indexes_of(descriptor: Descriptor) -> bytes:
    """Which message of its file it is, as the header says it."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto()
    descriptor.file.CopyToProto(file)
    path: list[int] = []
    inner: Any = file.message_type
    for name in descriptor.full_name.removeprefix(f"{file.package}.").split("."):
        path.append([message.name for message in inner].index(name))
        inner = inner[path[-1]].nested_type
    return b"\x00" if path == [0] else b"".join(map(_varint, [len(path), *path]))


def _varint(number: int) -> bytes:
    """A number that is not negative, as :func:`_varints` reads it."""
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])
