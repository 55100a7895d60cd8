"""Where the records of a block begin: they stand there one behind the other, with nothing between them.

Only going through them in order can tell. That is done without making any value, so that the values can then be read
side by side, as those of messages are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.formats.avro.schema import Array, Enum, Fixed, Map, Node, Primitive, Record, Union
from headrace.formats.avro.varints import FREE_ITEMS, read_integer

Step = tuple[int, Any]
"""What to do about a part of a record, and what that takes."""

_INTEGER: Final = 0
_BINARY: Final = 1
_WIDTH: Final = 2
"""So many bytes."""

_UNION: Final = 3
"""The steps of one of some branches, of which there are fewer than 64, so that a byte says which."""

_CALL: Final = 4
"""A function from position to position."""

NOT_SAID: Final = -1
"""The end of a block of items that does not begin with its size."""

TOO_EARLY: Final = "it ends too early: it was cut, or written with another schema"
OTHER_SIZE: Final = "a block of an array or a map does not have the size that it says"

_PRIMITIVES: Final[dict[str, list[Step]]] = {
    "null": [],
    "boolean": [(_WIDTH, 1)],
    "int": [(_INTEGER, None)],
    "long": [(_INTEGER, None)],
    "float": [(_WIDTH, 4)],
    "double": [(_WIDTH, 8)],
    "bytes": [(_BINARY, None)],
    "string": [(_BINARY, None)],
}


class Boundaries:
    """Finds the records of blocks, and other values that follow each other.

    Args:
        writer: the schema that they were written with.
        with_keys: whether a string is before each of them, as in maps.

    Attributes:
        width: how many bytes each value takes; None where they differ.
    """

    def __init__(self, writer: Node, *, with_keys: bool = False) -> None:
        self._steps = _merged([*_PRIMITIVES["string"][:with_keys], *_steps_of(writer)])
        widths = [what if kind == _WIDTH else None for kind, what in self._steps]
        self.width: int | None = widths[0] if len(widths) == 1 else None if widths else 0

    def of(self, data: bytes, count: int, stored: int) -> npt.NDArray[np.int64]:
        """Where each record of a block begins; the last position is the end of the block.

        Args:
            data: the block.
            count: how many records it should have.
            stored: how many bytes it takes in the file.

        Raises:
            ValueError: when it does not hold so many.
        """
        if count > (len(data) if self._steps else FREE_ITEMS * stored):
            raise ValueError(f"{count} records do not fit into {len(data)} bytes")
        positions = self.find(data, 0, count)
        if positions[-1] != len(data):
            raise ValueError(f"it does not hold {count} records of its schema")
        return np.array(positions, np.int64)

    def find(self, data: bytes, position: int, count: int) -> list[int]:
        """Where so many values begin, from a position on, and where the last one ends.

        Raises:
            ValueError: when there are not so many.
        """
        positions = [position]
        steps, add = self._steps, positions.append
        try:
            for _ in range(count):
                position = _skip(steps, data, position)
                add(position)
        except IndexError:
            position = len(data) + 1
        if position > len(data):
            raise ValueError(f"there are not {count} values of the schema: it was cut, or written with another schema")
        return positions

    def blocks(self, data: bytes, position: int, left: int, end: int) -> tuple[list[int], list[int], int]:
        """Find the blocks of an array or a map, from within one of them.

        Args:
            data: the bytes of a message.
            position: where the next value begins.
            left: how many values of the block follow.
            end: where the block ends; :data:`NOT_SAID` where it does not say that.

        Returns:
            Where the values of each block begin, how many there are, and the position behind the last block.

        Raises:
            ValueError: when the message ends before, or a block does not have the size that it says.
        """
        starts, counts = [], []
        while left:
            starts.append(position)
            counts.append(left)
            position = self.find(data, position, left)[-1] if self.width is None else position + self.width * left
            if end not in (NOT_SAID, position):
                raise ValueError(OTHER_SIZE)
            try:
                left, position, end = _block_begin(data, position)
            except IndexError:
                raise ValueError(TOO_EARLY) from None
        return starts, counts, position


def _skip(steps: tuple[Step, ...], data: bytes, position: int) -> int:
    """The position behind a value. Everything in one loop: it runs for each field of each record."""
    for kind, what in steps:
        if kind == _INTEGER:
            while data[position] > 127:
                position += 1
            position += 1
        elif kind == _BINARY:
            length = data[position]
            if length > 127 or length & 1:
                position = _skip_binary(data, position)
            else:  # the usual one, of less than 64 bytes
                position += 1 + (length >> 1)
        elif kind == _WIDTH:
            position += what
        elif kind == _UNION:
            number = data[position]
            if number > 127 or number & 1:
                branch, position = _long_branch(what, data, position)
            else:  # the usual one
                branch, position = what[number >> 1], position + 1
            if branch:
                position = _skip(branch, data, position)
        else:
            position = what(data, position)
    return position


def _long_branch(branches: list[tuple[Step, ...]], data: bytes, position: int) -> tuple[tuple[Step, ...], int]:
    """The branch of a number that is written in more bytes than it needs, and the position behind the number."""
    number, position = read_integer(data, position)
    if not 0 <= number < len(branches):
        raise ValueError("a union has no branch of such a number")
    return branches[number], position


def _skip_binary(data: bytes, position: int) -> int:
    length, position = read_integer(data, position)
    if length < 0:
        raise ValueError("a length is negative")
    return position + length


def _steps_of(node: Node) -> list[Step]:
    if isinstance(node, Record):
        return [step for field in node.fields for step in _steps_of(field.node)]
    if isinstance(node, Primitive):
        return _PRIMITIVES[node.kind]
    return [_step_of(node)]


def _step_of(node: Fixed | Enum | Union | Array | Map) -> Step:
    match node:
        case Fixed():
            return _WIDTH, node.size
        case Enum():
            return _INTEGER, None
        case Union():
            return _step_of_union([_merged(_steps_of(branch)) for branch in node.branches])
        case Array():
            return _CALL, _items(_merged(_steps_of(node.items)))
        case Map():
            return _CALL, _items(_merged([(_BINARY, None), *_steps_of(node.values)]))


def _merged(steps: list[Step]) -> tuple[Step, ...]:
    """Steps of known width become one where they follow each other."""
    merged: list[Step] = []
    for kind, what in steps:
        if kind == _WIDTH and not what:
            continue
        if kind == _WIDTH and merged and merged[-1][0] == _WIDTH:
            merged[-1] = (_WIDTH, merged[-1][1] + what)
        else:
            merged.append((kind, what))
    return tuple(merged)


def _step_of_union(branches: list[tuple[Step, ...]]) -> Step:
    if len(branches) < 64:
        return _UNION, branches

    def skip(data: bytes, position: int) -> int:
        branch, position = _long_branch(branches, data, position)
        return _skip(branch, data, position)

    return _CALL, skip


def _items(steps: tuple[Step, ...]) -> Callable[[bytes, int], int]:
    """Over the items of an array or a map, which come in blocks."""

    def skip(data: bytes, position: int) -> int:
        count, position, end = _block_begin(data, position)
        while count:
            if end != NOT_SAID:
                position = end
            elif steps:
                for _ in range(count):
                    position = _skip(steps, data, position)
            count, position, end = _block_begin(data, position)
        return position

    return skip


def _block_begin(data: bytes, position: int) -> tuple[int, int, int]:
    """How many items the next block has, where they begin, and where they end, if the block says that."""
    count, position = read_integer(data, position)
    if count >= 0:
        return count, position, NOT_SAID
    size, position = read_integer(data, position)
    if size < 0:
        raise ValueError("a size is negative")
    return -count, position, position + size
