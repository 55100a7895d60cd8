"""Values of Avro as columns.

All messages are read side by side: of each the first field, then of each the second one, with a position for every
message. Avro says nowhere where a field begins, so this is what lets numpy do the work: a dozen operations on whole
columns for a field, instead of a call for each value.

What is read where the schemas of writer and reader differ is in :mod:`headrace.formats.avro.resolution`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import binary_array, binary_parts
from headrace.common.columns import array_to_values, values_to_array
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.values import handler_of
from headrace.common.values.basic import refused_by
from headrace.formats.avro.encoding import (
    FREE_ITEMS,
    MOST_BYTES,
    NOT_SAID,
    OTHER_SIZE,
    TOO_EARLY,
    Boundaries,
    of_stored,
    read_varints,
    unzigzag,
)
from headrace.formats.avro.schema import Enum, Fixed, Primitive
from headrace.formats.bad_records import inside_field

Rows = npt.NDArray[np.int64]


_MANY: Final = 1 << 40
"""More items than any message may have."""

_FEW_MESSAGES: Final = 64
"""Elements of fewer messages are found one by one, and then read together; of more, one of each is read at a time."""

_MANY_BLOCKS: Final = 16
"""Arrays of more blocks are not read block by block where few messages have them."""

_SMALLEST: Final = -(2**63)
_SHOWN: Final = 200


class _Messages:
    """The messages that cursors go through.

    Attributes:
        data: their bytes, and some more.
        bounds: where each message begins; the last position is the end.
        free: how many items without any bytes may follow in each of them.
    """

    __slots__ = ("_found", "bounds", "data", "free")

    def __init__(self, data: npt.NDArray[np.uint8], bounds: Rows) -> None:
        self.data = data
        self.bounds = bounds
        self.free = FREE_ITEMS * np.diff(bounds)
        self._found: dict[int, bytes] = {}

    def content(self, message: int) -> bytes:
        """The bytes of a message; they are kept, as it may have thousands of arrays."""
        if message not in self._found:
            self._found[message] = self.data[self.bounds[message] : self.bounds[message + 1]].tobytes()
        return self._found[message]


class Cursor:
    """The place in each of some messages where its next value begins.

    Attributes:
        position: where the next value of each message begins.
    """

    __slots__ = ("_all", "_end", "_message", "position")

    def __init__(self, messages: _Messages, position: Rows, message: Rows) -> None:
        self._all = messages
        self._end = messages.bounds[message + 1]
        self._message = message
        self.position = position

    @staticmethod
    def of(messages: pa.Array, skip: int = 0) -> Cursor:
        """At the beginning of binary values, behind so many bytes of each."""
        bounds, data = binary_parts(messages.cast(pa.binary()))
        held = np.zeros(int(bounds[-1]) + MOST_BYTES, np.uint8)
        held[:-MOST_BYTES] = np.frombuffer(data, np.uint8)[: int(bounds[-1])]
        return Cursor(_Messages(held, bounds), bounds[:-1] + skip, np.arange(len(messages)))

    def __len__(self) -> int:
        return len(self.position)

    def some(self, rows: Rows) -> Cursor:
        """A cursor over some of the messages, at their places; give it back to :meth:`go_on`."""
        return Cursor(self._all, self.position[rows], self._message[rows])

    def go_on(self, rows: Rows, cursor: Cursor) -> None:
        """Go on where the cursor of some of the messages stands."""
        self.position[rows] = cursor.position

    def items(self, counts: Rows, width: int) -> Cursor:
        """A cursor over so many items of each message, each of so many bytes; this one moves behind them.

        Raises:
            ValueError: when there is no room for them.
        """
        if width:
            if (counts > (self._end - self.position) // width).any():
                raise ValueError(TOO_EARLY)
        elif len(self):
            self._take_free(counts)
        rows = np.repeat(np.arange(len(self)), counts)
        items = self.some(rows)
        items.position += width * (np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts))
        self.position = self.position + width * counts
        return items

    def found_items(self, counts: Rows, boundaries: Boundaries) -> tuple[Cursor, Rows]:
        """Do as :meth:`items` for items that are found one by one; also return where each ends."""
        starts, ends = list[int](), list[int]()
        for row, wanted in enumerate(counts.tolist()):
            content, begin = self._content(row)
            places = boundaries.find(content, int(self.position[row]) - begin, wanted)
            starts += places[:-1]
            ends += places[1:]
            self.position[row] = begin + places[-1]
        items = self.some(np.repeat(np.arange(len(self)), counts))
        begins = self._all.bounds[items._message]
        items.position = begins + np.array(starts, np.int64)
        return items, begins + np.array(ends, np.int64)

    def found_blocks(self, left: Rows, ends: Rows, boundaries: Boundaries) -> tuple[Cursor, Rows, Rows]:
        """A cursor over the blocks of an array, from within one; this one moves behind the arrays.

        Args:
            left: how many items of the present block of each message follow.
            ends: where that block ends, or that this is not said.
            boundaries: finds the items.

        Returns:
            The beginnings, in which row each block is, and how many items it has.
        """
        rows, starts, counts = list[int](), list[int](), list[int]()
        for row, (items, end) in enumerate(zip(left.tolist(), ends.tolist(), strict=True)):
            content, begin = self._content(row)
            here, size = int(self.position[row]) - begin, end if end == NOT_SAID else end - begin
            found, many, behind = boundaries.blocks(content, here, items, size)
            rows += [row] * len(found)
            starts += [begin + place for place in found]
            counts += many
            self.position[row] = begin + behind
        blocks = self.some(np.array(rows, np.int64))
        blocks.position = np.array(starts, np.int64)
        return blocks, np.array(rows, np.int64), np.array(counts, np.int64)

    def _content(self, row: int) -> tuple[bytes, int]:
        """The bytes of the message of a row, and where it begins."""
        message = int(self._message[row])
        return self._all.content(message), int(self._all.bounds[message])

    def _take_free(self, counts: Rows) -> None:
        free = self._all.free
        left = free - np.bincount(self._message, np.minimum(counts, _MANY), len(free)).astype(np.int64)
        if (left < 0).any():
            problem = f"there are {counts.max()} items without any bytes"
            raise ValueError(f"{problem}, and of those at most {FREE_ITEMS} for each byte of a message are read")
        free[:] = left

    def integers(self) -> npt.NDArray[np.int64]:
        """The next integer of each message."""
        values, self.position = read_varints(self._all.data, np.minimum(self.position, self._end))
        self._check_end()
        return unzigzag(values)

    def blocks(self, size: int) -> npt.NDArray[np.uint8]:
        """The next ``size`` bytes of each message, a row for each."""
        start, self.position = self.position, self.position + size
        self._check_end()
        if not len(self):
            return np.zeros((0, size), np.uint8)
        rows: npt.NDArray[np.uint8] = self._all.data[start[:, None] + np.arange(size)]
        return rows

    def binaries(self) -> pa.Array:
        """The next bytes of each message, whose length comes before them."""
        lengths = self.integers()
        start = self.position
        if (lengths < 0).any() or (lengths > self._end - start).any():
            raise ValueError(TOO_EARLY)
        self.position = start + lengths
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        places = np.repeat(start - offsets[:-1], lengths) + np.arange(offsets[-1])
        return binary_array(self._all.data[places], offsets)

    def finish(self) -> None:
        """Refuse messages that have not been read to their end."""
        if (self.position != self._end).any():
            raise ValueError("bytes are left over behind the last field: it was written with another schema")

    def _check_end(self) -> None:
        if (self.position > self._end).any():
            raise ValueError(TOO_EARLY)


def _refuse(wrong: npt.NDArray[np.bool_], values: npt.NDArray[Any], expected: str) -> None:
    if wrong.any():
        raise ValueError(f"got {values[wrong][0]}, expected {expected}: it was written with another schema")


Decoder = Callable[[Cursor], pa.Array]
"""Reads the next value of each message, under the storage type of the reader's type.

It raises a ``ValueError`` when a message has no such value.
"""


def read_booleans(cursor: Cursor) -> pa.Array:
    """Booleans, a byte each."""
    values = cursor.blocks(1)[:, 0]
    _refuse(values > 1, values, "0 or 1, for a boolean")
    return pa.array(values.astype(np.bool_))


def read_ints(cursor: Cursor) -> pa.Array:
    """Integers of 32 bits."""
    values = cursor.integers()
    narrow = values.astype(np.int32)
    _refuse(narrow != values, values, "an int of 32 bits")
    return pa.array(narrow)


def read_longs(cursor: Cursor) -> pa.Array:
    """Integers of 64 bits."""
    return pa.array(cursor.integers())


def read_floats(cursor: Cursor) -> pa.Array:
    """Floating point numbers of 32 bits."""
    return pa.array(cursor.blocks(4).reshape(-1).view("<f4"))


def read_doubles(cursor: Cursor) -> pa.Array:
    """Floating point numbers of 64 bits."""
    return pa.array(cursor.blocks(8).reshape(-1).view("<f8"))


def read_strings(cursor: Cursor) -> pa.Array:
    """Strings of UTF-8."""
    values = cursor.binaries()
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        mask = refused_by(bytes.decode, values)
        shown = values.filter(pa.array(mask))[0].as_py()[:_SHOWN]
        raise ValueError(f"got {shown!r}, expected a str that UTF-8 can encode") from None


def null_decoder(storage: pa.DataType) -> Decoder:
    """Nulls of a type, which take no bytes."""
    return lambda cursor: pa.nulls(len(cursor), storage)


def fixed_decoder(size: int) -> Decoder:
    """Bytes of one length."""
    return lambda cursor: binary_array(cursor.blocks(size).reshape(-1), np.arange(len(cursor) + 1) * size)


def enum_decoder(writer: Enum, reader: Enum) -> Decoder:
    """Symbols; the reader's default in place of those that it does not have."""
    symbols = pa.array([s if s in reader.symbols else reader.default for s in writer.symbols], pa.string())
    last = len(symbols) - 1

    def read(cursor: Cursor) -> pa.Array:
        places = cursor.integers()
        _refuse((places < 0) | (places > last), places, f"the number of a symbol of {writer.name}, 0 to {last}")
        values = symbols.take(pa.array(places))
        if values.null_count:
            missing = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            unknown = f"{writer.name}.{writer.symbols[int(places[missing[0]])]}"
            raise ValueError(f"{unknown} is no symbol of the reader's schema, which has no default")
        return values

    return read


def converting(inner: Decoder, node: Primitive | Fixed) -> Decoder:
    """Values of a logical type, or wider ones, as the reader's schema has them."""
    return lambda cursor: of_stored(node, inner(cursor))


def skipping(inner: Decoder) -> Decoder:
    """Nulls in place of values that the reader does not have."""

    def read(cursor: Cursor) -> pa.Array:
        inner(cursor)
        return pa.nulls(len(cursor))

    return read


def record_decoder(
    steps: Sequence[tuple[str, Decoder, int | None]], missing: Mapping[int, pa.Array], fields: pa.Schema
) -> Decoder:
    """Records, whose fields are read in the writer's order.

    Args:
        steps: of each field the name, the decoder, and the reader's field; None where the reader has none.
        missing: by the reader's field, the default of those that the writer does not have, one value each.
        fields: the reader's fields.
    """

    def read(cursor: Cursor) -> pa.Array:
        found = {index: pa.repeat(value[0], len(cursor)) for index, value in missing.items()}
        for name, decoder, index in steps:
            try:
                values = decoder(cursor)
            except ValueError as error:
                raise ValueError(inside_field(name, str(error))) from error
            if index is not None:
                found[index] = values
        return pa.StructArray.from_arrays([found[index] for index in range(len(fields))], fields=list(fields))

    return read


def union_decoder(branches: Sequence[Decoder], storage: pa.DataType) -> Decoder:
    """Values of the branch that each message names.

    Args:
        branches: decoders of the writer's branches; all give arrays of one type.
        storage: this type.
    """
    last = len(branches) - 1

    def read(cursor: Cursor) -> pa.Array:
        chosen = cursor.integers()
        _refuse((chosen < 0) | (chosen > last), chosen, f"the number of a branch of the union, 0 to {last}")
        parts, rows_read = [], []
        for number, branch in enumerate(branches):
            rows = np.flatnonzero(chosen == number)
            if len(rows):
                some = cursor.some(rows)
                parts.append(branch(some))
                cursor.go_on(rows, some)
                rows_read.append(rows)
        if not parts:
            return pa.array([], storage)
        if len(parts) == 1:
            return parts[0]
        places = np.empty(len(cursor), np.int64)
        places[np.concatenate(rows_read)] = np.arange(len(cursor))
        return pa.concat_arrays(parts).take(pa.array(places))

    return read


def object_decoder(inner: Decoder, kind: TypeInformation) -> Decoder:
    """Values of one of several branches, as objects."""
    handler = handler_of(kind)

    def read(cursor: Cursor) -> pa.Array:
        values = inner(cursor)
        mask = handler.unreadable(values)
        if mask is not None:
            wrong = handler.explained(values.slice(int(np.flatnonzero(mask)[0]), 1))
            raise ValueError(wrong.describe().removeprefix(": ").removeprefix(", "))
        return values_to_array(Types.PICKLED_BYTE_ARRAY(), array_to_values(kind, values))

    return read


def unreadable_decoder(reason: str) -> Decoder:
    """A branch of the writer that the reader does not take."""

    def read(_: Cursor) -> pa.Array:
        raise ValueError(reason)

    return read


def array_decoder(element: Decoder, storage: pa.DataType, boundaries: Boundaries) -> Decoder:
    """Arrays; of all messages the first element is read, then of all the second one, unless there is a quicker way."""
    return ArrayDecoder(
        element,
        boundaries,
        pa.array([], storage.value_type),
        lambda offsets, elements: pa.ListArray.from_arrays(offsets, elements, type=storage),
    )


def map_decoder(value: Decoder, storage: pa.DataType, boundaries: Boundaries) -> Decoder:
    """Maps: keys and values are read as the elements of arrays."""

    def read_entry(cursor: Cursor) -> pa.Array:
        key = read_strings(cursor)
        return pa.StructArray.from_arrays([key, value(cursor)], ["key", "value"])

    def nested(offsets: pa.Array, entries: pa.Array) -> pa.Array:
        return pa.MapArray.from_arrays(offsets, *entries.flatten(), type=storage)

    none = pa.array([], pa.struct([("key", pa.string()), ("value", storage.item_type)]))
    return ArrayDecoder(read_entry, boundaries, none, nested)


@dataclass(frozen=True, slots=True)
class ArrayDecoder:
    """A :data:`Decoder` of values that come in blocks.

    Attributes:
        element: reads the elements.
        boundaries: finds the elements.
        none: no elements at all.
        nested: makes arrays or maps of offsets and elements.
    """

    element: Decoder
    boundaries: Boundaries
    none: pa.Array
    nested: Callable[[pa.Array, pa.Array], pa.Array]

    def __call__(self, cursor: Cursor) -> pa.Array:
        rows_read: list[Rows] = []
        parts: list[pa.Array] = []
        left, ends = np.zeros(len(cursor), np.int64), np.full(len(cursor), NOT_SAID, np.int64)
        open_ = np.arange(len(cursor))
        for blocks in count(1):
            self._begin_blocks(cursor, open_, left, ends)
            open_ = open_[left[open_] > 0]
            if not len(open_):
                break
            some = cursor.some(open_)
            if blocks > _MANY_BLOCKS and len(open_) <= _FEW_MESSAGES:
                elements, counts = self._all_elements(some, left[open_], ends[open_])
                left[open_], ends[open_] = 0, NOT_SAID
                cursor.go_on(open_, some)
                rows_read.append(np.repeat(open_, counts))
                parts.append(elements)
                break
            counts = self._counts(left[open_])
            parts.append(self._elements(some, counts))
            rows_read.append(np.repeat(open_, counts))
            cursor.go_on(open_, some)
            left[open_] -= counts
        return self._lists(len(cursor), rows_read, parts)

    def _counts(self, left: Rows) -> Rows:
        """Return how many of the elements that are left of some messages are read next."""
        few = left.sum(dtype=np.float64) <= _FEW_MESSAGES * float(left.max())
        return left if few or self.boundaries.width is not None else np.ones(len(left), np.int64)

    def _elements(self, cursor: Cursor, counts: Rows) -> pa.Array:
        """The next elements of each message."""
        if self.boundaries.width is None and counts.max() == 1:
            return self.element(cursor)
        return self._found_elements(cursor, counts)

    def _found_elements(self, cursor: Cursor, counts: Rows) -> pa.Array:
        """The same, where the elements are found first."""
        if self.boundaries.width is not None:
            return self.element(cursor.items(counts, self.boundaries.width))
        items, ends = cursor.found_items(counts, self.boundaries)
        elements = self.element(items)
        if (items.position != ends).any():
            raise ValueError(OTHER_SIZE)
        return elements

    def _all_elements(self, cursor: Cursor, left: Rows, ends: Rows) -> tuple[pa.Array, Rows]:
        """All elements that are left of each message, and how many: a step for each block would take too long."""
        blocks, rows, counts = cursor.found_blocks(left, ends, self.boundaries)
        elements = self._found_elements(blocks, counts)
        return elements, np.bincount(rows, counts, len(left)).astype(np.int64)

    def _begin_blocks(self, cursor: Cursor, rows: Rows, left: Rows, ends: Rows) -> None:
        """Set how many elements are left, once the next block has begun where one has ended; 0 at the end."""
        ended = rows[left[rows] == 0]
        if not len(ended):
            return
        some = cursor.some(ended)
        if ((ends[ended] != NOT_SAID) & (ends[ended] != some.position)).any():
            raise ValueError(OTHER_SIZE)
        counts = some.integers()
        _refuse(counts == _SMALLEST, counts, "a number of elements")
        ends[ended] = NOT_SAID
        sized = np.flatnonzero(counts < 0)
        if len(sized):  # a negative count says that the size of the block follows
            sizes = some.some(sized)
            bytes_of_blocks = sizes.integers()
            _refuse((bytes_of_blocks < 0) | (bytes_of_blocks >= _MANY), bytes_of_blocks, "the size of a block")
            some.go_on(sized, sizes)
            ends[ended[sized]] = sizes.position + bytes_of_blocks
        cursor.go_on(ended, some)
        left[ended] = np.abs(counts)

    def _lists(self, count: int, rows_read: list[Rows], parts: list[pa.Array]) -> pa.Array:
        rows = np.concatenate(rows_read) if rows_read else np.zeros(0, np.int64)
        offsets = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=count))))
        elements = pa.concat_arrays(parts).take(pa.array(np.argsort(rows, kind="stable"))) if parts else self.none
        return self.nested(pa.array(offsets, pa.int32()), elements)
