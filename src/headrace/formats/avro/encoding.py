"""Avro's binary encoding: integers of variable length, logical types, and where values begin.

The records of a block follow each other with nothing between them, so only a walk in order can tell where each begins.
:class:`Boundaries` walks without making values; then the values are read side by side, as those of messages are.
"""

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import binary_array
from headrace.common.errors import InvalidTypeError
from headrace.common.values.numbers import MOST_DIGITS_OF_EXPONENT
from headrace.formats.avro.schema import Array, Enum, Fixed, Map, Node, Primitive, Record, UnionSchema

Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


MOST_BYTES = 10
"""Bytes of the longest integer of 64 bits."""

FREE_ITEMS = 64
"""Items that take no bytes, such as null, may be so many for each byte around them: else a few bytes are billions."""


def read_varints(data: Bytes, positions: Positions) -> tuple[npt.NDArray[np.uint64], Positions]:
    """The integers that begin at some positions, and the positions behind them.

    Args:
        data: bytes, with :data:`MOST_BYTES` more than belong to any integer.
        positions: where integers begin.

    Raises:
        ValueError: when one has more than 64 bits.
    """
    first = data[positions]
    values = (first & 0x7F).astype(np.uint64)
    open_ = np.flatnonzero(first & 0x80)
    positions = positions + 1
    shift = 7
    while len(open_):
        if shift > 63:
            raise ValueError("an integer has more than 64 bits")
        more = data[positions[open_]]
        values[open_] |= (more & 0x7F).astype(np.uint64) << np.uint64(shift)
        positions[open_] += 1
        open_ = open_[(more & 0x80) != 0]
        shift += 7
    return values, positions


def read_integer(data: bytes, position: int) -> tuple[int, int]:
    """One integer with a sign, and the position behind it.

    Raises:
        IndexError: when it does not end within the data.
        ValueError: when it has more than 64 bits.
    """
    value = shift = 0
    while shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise ValueError("an integer has more than 64 bits")


def write_integer(value: int) -> bytes:
    """The bytes of one integer with a sign."""
    written: bytes = write_varints(zigzag(np.array([value], np.int64)))[0].as_py()
    return written


def unzigzag(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Signed integers of those in which small ones of both signs are small."""
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


def zigzag(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Small integers of both signs as small integers without one."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def write_varints(values: npt.NDArray[np.uint64]) -> pa.Array:
    """The bytes of integers, as binary values."""
    lengths = np.ones(len(values), np.int64)
    for bits in range(7, 64, 7):
        longer = values >= np.uint64(1 << bits)
        if not longer.any():
            break
        lengths += longer
    ends = np.cumsum(lengths)
    data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    starts = ends - lengths
    rows, place = np.arange(len(values)), 0
    while len(rows):
        last = lengths[rows] == place + 1
        byte = ((values[rows] >> np.uint64(7 * place)) & np.uint64(0x7F)).astype(np.uint8)
        data[starts[rows] + place] = np.where(last, byte, byte | 0x80)
        rows = rows[~last]
        place += 1
    return binary_array(data, np.concatenate(([0], ends)))


STORED: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
"""The arrays of primitive values before anything is made of them."""

_MICROS: Final = {
    "time-millis": 1000,
    "time-micros": 1,
    "timestamp-millis": 1000,
    "timestamp-micros": 1,
    "local-timestamp-millis": 1000,
    "local-timestamp-micros": 1,
}
"""Microseconds in one of what is stored."""

_MOST_MICROS: Final = 2**63 - 1
_MOST_DECIMAL_BYTES: Final = 4096
"""More take a time that grows with the square of their number."""

_EXACT: Final = Context(prec=10_000)


def of_stored(node: Primitive | Fixed, array: pa.Array) -> pa.Array:
    """Convert stored values to the storage type of the node's type.

    Raises:
        ValueError: when a moment is too far away.
    """
    storage = node.type_info.storage_type
    if isinstance(node, Primitive) and node.kind in STORED and array.type != STORED[node.kind]:
        array = array.cast(STORED[node.kind], safe=False)  # integers may lose digits as floats, as elsewhere
    if node.logical == "decimal":
        values = array.to_pylist()
        return pa.array([None if value is None else _decimal_text(value, node.scale) for value in values], storage)
    if node.logical in _MICROS:
        return _in_micros(array.cast(pa.int64()), _MICROS[node.logical]).view(storage)
    return array if array.type == storage else array.view(storage)


def _in_micros(array: pa.Array, micros: int) -> pa.Array:
    if micros == 1:
        return array
    try:
        return pc.multiply_checked(array, micros)
    except pa.ArrowInvalid:
        far = next(value for value in array.to_pylist() if value is not None and abs(value) > _MOST_MICROS // micros)
        raise ValueError(f"got {far}, expected a time in the years 1 to 9999") from None


def to_stored(node: Primitive | Fixed, array: pa.Array, where: str) -> pa.Array:
    """The values that are stored.

    Args:
        node: what they stand for.
        array: values under the storage type of the node's type; none is null.
        where: the field, for messages.

    Raises:
        InvalidTypeError: when a decimal has more digits than are stored.
    """
    if node.logical == "decimal":
        size = node.size if isinstance(node, Fixed) else None
        return pa.array([_unscaled(text, node.scale, size, where) for text in array.to_pylist()], pa.binary())
    if node.logical in _MICROS:
        counted = array.view(pa.int64())
        micros = _MICROS[node.logical]
        if micros > 1:
            numbers = np.floor_divide(counted.to_numpy(zero_copy_only=False), micros)
            counted = pa.array(numbers, pa.int64())
    elif node.logical == "date":
        counted = array.view(pa.int32())
    else:
        return array
    assert isinstance(node, Primitive)
    return counted.cast(STORED[node.kind])


def _decimal_text(value: bytes, scale: int) -> str:
    if abs(scale) > MOST_DIGITS_OF_EXPONENT:
        raise ValueError(f"got a decimal whose scale is {scale}, expected at most {MOST_DIGITS_OF_EXPONENT}")
    if len(value) > _MOST_DECIMAL_BYTES:
        raise ValueError(f"got {len(value)} bytes, expected a decimal of at most {_MOST_DECIMAL_BYTES}")
    return str(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT))


def _unscaled(text: str, scale: int, size: int | None, where: str) -> bytes:
    scaled = Decimal(text).scaleb(scale, _EXACT)
    whole = int(scaled) if scaled.is_finite() else None
    if whole is None or whole != scaled:
        raise InvalidTypeError(f"{where}: {text} does not fit the Avro schema, whose decimals have {scale} digits")
    length = size or (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
    try:
        return whole.to_bytes(length, "big", signed=True)
    except OverflowError:
        raise InvalidTypeError(f"{where}: {text} does not fit the {size} bytes of the Avro schema") from None


def is_of_time(node: Node) -> bool:
    """Tell whether values are times of some unit."""
    return isinstance(node, Primitive) and (node.logical in _MICROS or node.logical == "date")


Step = tuple[int, Any]
"""The instruction for a part of a record, and its argument."""

_INTEGER: Final = 0
_BINARY: Final = 1
_WIDTH: Final = 2
"""The size in bytes."""

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
        """Find where each record of a block begins; the last position is the end of the block.

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
        """Find where so many values begin, from a position on, and where the last one ends.

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


def _step_of(node: Fixed | Enum | UnionSchema | Array | Map) -> Step:
    match node:
        case Fixed():
            return _WIDTH, node.size
        case Enum():
            return _INTEGER, None
        case UnionSchema():
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
    """Return how many items the next block has, where they begin, and where they end, if the block says that."""
    count, position = read_integer(data, position)
    if count >= 0:
        return count, position, NOT_SAID
    size, position = read_integer(data, position)
    if size < 0:
        raise ValueError("a size is negative")
    return -count, position, position + size
