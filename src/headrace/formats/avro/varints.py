"""Integers of variable length, many at once: seven bits a byte, the lowest first, as Avro and Protobuf have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

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


def binary_array(data: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> pa.Array:
    """Binary values of their bytes, one after the other, and where each begins (and the last one ends)."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
