"""Bitmaps: sets of integers of 32 bits, stored in the portable format of Roaring bitmaps."""

import struct
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]


_WITHOUT_RUNS: Final = 12346
_WITH_RUNS: Final = 12347
_ARRAY_LIMIT: Final = 4096
"""A container of more values is stored as bits."""

_NO_OFFSETS: Final = 4
"""A bitmap with runs and fewer containers says nothing of where they are."""


def packed(values: Iterable[int] | Numbers) -> bytes:
    """The bitmap of some integers, which are taken as unsigned."""
    members = np.unique(np.asarray(list(values), np.int64) & 0xFFFF_FFFF)
    keys, starts = np.unique(members >> 16, return_index=True)
    containers = np.split(members & 0xFFFF, starts[1:]) if len(members) else []
    head = struct.pack("<II", _WITHOUT_RUNS, len(containers))
    head += b"".join(
        struct.pack("<HH", key, len(part) - 1) for key, part in zip(keys.tolist(), containers, strict=True)
    )
    bodies = [_body(part) for part in containers]
    place, offsets = len(head) + 4 * len(bodies), []
    for body in bodies:
        offsets.append(struct.pack("<I", place))
        place += len(body)
    return head + b"".join(offsets) + b"".join(bodies)


def _body(values: Numbers) -> bytes:
    if len(values) <= _ARRAY_LIMIT:
        return values.astype("<u2").tobytes()
    bits = np.zeros(1 << 16, bool)
    bits[values] = True
    return np.packbits(bits, bitorder="little").tobytes()


def unpacked(data: bytes) -> Numbers:
    """The integers of a bitmap, as signed ones in the order of unsigned ones.

    Raises:
        ValueError: when the bytes are no bitmap.
    """
    try:
        parts = _containers(data)
    except (struct.error, IndexError, ValueError):
        raise ValueError("the bytes are no bitmap in the portable format of Roaring bitmaps") from None
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.uint32).view(np.int32)


def _containers(data: bytes) -> list[Numbers]:
    (cookie,) = struct.unpack_from("<I", data)
    has_runs = cookie & 0xFFFF == _WITH_RUNS
    if not has_runs and cookie != _WITHOUT_RUNS:
        raise ValueError
    count = (cookie >> 16) + 1 if has_runs else struct.unpack_from("<I", data, 4)[0]
    place = 4 if has_runs else 8
    runs = data[place : place + (count + 7) // 8] if has_runs else b""
    place += len(runs)
    heads = [struct.unpack_from("<HH", data, place + 4 * index) for index in range(count)]
    place += 4 * count + (0 if has_runs and count < _NO_OFFSETS else 4 * count)
    made = []
    for index, (key, last) in enumerate(heads):
        is_run = bool(runs and runs[index // 8] >> (index % 8) & 1)
        values, place = _container(data, place, last + 1, is_run=is_run)
        made.append(values.astype(np.int64) | key << 16)
    return made


def _container(data: bytes, place: int, count: int, *, is_run: bool) -> tuple[Numbers, int]:
    if is_run:
        (number,) = struct.unpack_from("<H", data, place)
        pairs = np.frombuffer(data, "<u2", 2 * number, place + 2).astype(np.int64).reshape(-1, 2)
        values = [np.arange(start, start + length + 1) for start, length in pairs.tolist()]
        return np.concatenate([np.zeros(0, np.int64), *values]), place + 2 + 4 * number
    if count <= _ARRAY_LIMIT:
        return np.frombuffer(data, "<u2", count, place), place + 2 * count
    bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, place), bitorder="little")
    return np.flatnonzero(bits), place + 8192


def unsigned(data: bytes) -> Numbers:
    """The integers of a bitmap, as unsigned ones."""
    return unpacked(data).view(np.uint32)
