"""Hashes of keys: unsigned, 64 bits, the same in every process, on every machine and in every version.

Integers are hashed by the finaliser of splitmix64, strings and bytes by XXH64 with seed 0. State and key groups depend
on these figures for ever: never change them (golden values are frozen in the tests).
"""

import sys
from itertools import pairwise
from struct import Struct
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import Indices, binary_parts
from headrace.common.constants import UPPER_BOUND_MAX_PARALLELISM
from headrace.common.errors import InvalidProgramError, InvalidTypeError

Hashes: TypeAlias = npt.NDArray[np.uint64]


_ALL: Final = (1 << 64) - 1
P1: Final = 0x9E3779B185EBCA87
P2: Final = 0xC2B2AE3D27D4EB4F
P3: Final = 0x165667B19E3779F9
P4: Final = 0x85EBCA77C2B2AE63
P5: Final = 0x27D4EB2F165667C5
PRIMES: Final = (P1, P2, P3, P4, P5)
SEEDS: Final = (P1 + P2 & _ALL, P2, 0, -P1 & _ALL)
"""The initial values of the four accumulators of a stripe."""

_stripe = Struct("<4Q").unpack_from
_lane = Struct("<Q").unpack_from
_word = Struct("<I").unpack_from


def xxh64(data: bytes | memoryview) -> int:
    """The hash of ``data``."""
    size = len(data)
    hash_, position = _stripes_of_one(data) if size >= 32 else (P5, 0)
    hash_ += size
    while position + 8 <= size:
        hash_ = (_rotated((hash_ ^ _round_of_one(0, _lane(data, position)[0])) & _ALL, 27) * P1 + P4) & _ALL
        position += 8
    if position + 4 <= size:
        hash_ = (_rotated((hash_ ^ (_word(data, position)[0] * P1)) & _ALL, 23) * P2 + P3) & _ALL
        position += 4
    for byte in data[position:]:
        hash_ = (_rotated((hash_ ^ (byte * P5)) & _ALL, 11) * P1) & _ALL
    hash_ &= _ALL
    hash_ = (hash_ ^ hash_ >> 33) * P2 & _ALL
    hash_ = (hash_ ^ hash_ >> 29) * P3 & _ALL
    return hash_ ^ hash_ >> 32


def _stripes_of_one(data: bytes | memoryview) -> tuple[int, int]:
    v1, v2, v3, v4 = SEEDS
    end = len(data) & ~31
    for position in range(0, end, 32):
        a, b, c, d = _stripe(data, position)
        v1, v2, v3, v4 = _round_of_one(v1, a), _round_of_one(v2, b), _round_of_one(v3, c), _round_of_one(v4, d)
    hash_ = (_rotated(v1, 1) + _rotated(v2, 7) + _rotated(v3, 12) + _rotated(v4, 18)) & _ALL
    for value in (v1, v2, v3, v4):
        hash_ = ((hash_ ^ _round_of_one(0, value)) * P1 + P4) & _ALL
    return hash_, end


def _round_of_one(state: int, lane: int) -> int:
    return _rotated((state + lane * P2) & _ALL, 31) * P1 & _ALL


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _ALL


if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("headrace reads Arrow buffers as little-endian integers")

SCALAR_ROWS: Final = 12
"""Up to this many strings are hashed one by one: a handful of numpy calls would cost more."""

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)

_P1, _P2, _P3, _P4, _P5 = (np.uint64(prime) for prime in PRIMES)
_SEEDS: Final = np.array(SEEDS, dtype=np.uint64)
_STRIPE: Final = 32
_LANE: Final = 8
_WORD: Final = 4


def hash_int64(values: npt.NDArray[np.int64]) -> Hashes:
    """The hash of each integer."""
    hashes = values.view(np.uint64) + _GOLDEN
    hashes ^= hashes >> np.uint64(30)
    hashes *= _MIX_1
    hashes ^= hashes >> np.uint64(27)
    hashes *= _MIX_2
    hashes ^= hashes >> np.uint64(31)
    return hashes


def hash_array(array: pa.Array) -> Hashes:
    """The hash of each value of an integer, string or binary array (of any width, dictionary-encoded or not).

    Raises:
        InvalidTypeError: for another type, an integer beyond 64 bits signed, or a null.
    """
    array = canonical(array)
    check_no_nulls(array)
    if pa.types.is_int64(array.type):
        return hash_int64(int64_view(array))
    return _hash_binary(array)


def check_no_nulls(array: pa.Array) -> None:
    """Refuse keys that are missing.

    Raises:
        InvalidTypeError: when there is a null.
    """
    if array.null_count:
        raise InvalidTypeError("a null has no hash: keys must not be null")


def canonical(array: pa.Array) -> pa.Array:
    """The same values as int64, string or binary: the three layouts that keys are kept in.

    Raises:
        InvalidTypeError: for another type or an integer beyond 64 bits signed.
    """
    type_ = array.type
    if pa.types.is_int64(type_) or pa.types.is_string(type_) or pa.types.is_binary(type_):
        return array
    if pa.types.is_dictionary(type_):
        return canonical(array.dictionary_decode())
    target = _canonical_type(type_)
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise InvalidTypeError(f"a key of type {type_} does not fit {target}: {error}") from error


def int64_view(array: pa.Array) -> npt.NDArray[np.int64]:
    """The values of an int64 array without nulls, not copied."""
    view: npt.NDArray[np.int64] = array.to_numpy(zero_copy_only=True)
    return view


def _canonical_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return pa.int64()
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_) or pa.types.is_binary_view(type_):
        return pa.binary()
    raise InvalidTypeError(f"values of Arrow type {type_} cannot be hashed as keys")


def _hash_binary(array: pa.Array) -> Hashes:
    offsets, data = binary_parts(array)
    if len(array) <= SCALAR_ROWS:
        bounds = pairwise(offsets.tolist())
        return np.array([xxh64(data[start:end]) for start, end in bounds], dtype=np.uint64)
    return _LaneReader(data).hash(offsets[:-1], np.diff(offsets))


class _LaneReader:
    """XXH64 of many byte strings in one buffer, all of them advancing together, lane by lane.

    The buffer is seen through views whose elements overlap (an integer begins at every byte), so that taking a lane of
    every string is one gather; no lane reaches beyond its string, so nothing outside the buffer is read.
    """

    def __init__(self, data: memoryview) -> None:
        self._bytes = np.frombuffer(data, dtype=np.uint8)
        self._words = _overlapping(data, "<u4")
        self._lanes = _overlapping(data, "<u8")

    def hash(self, starts: Indices, lengths: Indices) -> Hashes:
        hashes = self._stripes(starts, lengths)
        hashes += lengths.view(np.uint64)
        ends = starts + lengths
        position = starts + (lengths & ~(_STRIPE - 1))
        for _ in range(_STRIPE // _LANE - 1):
            position = self._step(hashes, position, ends, _LANE)
        position = self._step(hashes, position, ends, _WORD)
        for _ in range(_WORD - 1):
            position = self._step(hashes, position, ends, 1)
        return _avalanche(hashes)

    def _step(self, hashes: Hashes, position: Indices, ends: Indices, width: int) -> Indices:
        """Take ``width`` bytes more of every string that still has them; returns the new positions."""
        has = position + width <= ends
        if has.all():
            hashes[:] = self._mix(hashes, position, width)
            return position + width
        rows = np.flatnonzero(has)
        if len(rows):
            hashes[rows] = self._mix(hashes[rows], position[rows], width)
            position = position + width * has
        return position

    def _mix(self, hashes: Hashes, position: Indices, width: int) -> Hashes:
        if width == _LANE:
            mixed = hashes ^ _round(np.zeros_like(hashes), self._lanes[position])
            return _rotate(mixed, 27) * _P1 + _P4
        if width == _WORD:
            mixed = hashes ^ (self._words[position].astype(np.uint64) * _P1)
            return _rotate(mixed, 23) * _P2 + _P3
        mixed = hashes ^ (self._bytes[position].astype(np.uint64) * _P5)
        return _rotate(mixed, 11) * _P1

    def _stripes(self, starts: Indices, lengths: Indices) -> Hashes:
        """The state after the whole stripes of 32 bytes, before the length is added."""
        hashes = np.full(len(starts), _P5, dtype=np.uint64)
        rows = np.flatnonzero(lengths >= _STRIPE)
        if len(rows):
            # The longest first: those that still have a stripe are then always the first ones.
            rows = rows[np.argsort(-lengths[rows], kind="stable")]
            hashes[rows] = self._whole_stripes(starts[rows], lengths[rows] // _STRIPE)
        return hashes

    def _whole_stripes(self, starts: Indices, counts: Indices) -> Hashes:
        """The same for strings that have such stripes, the longest first."""
        state = np.repeat(_SEEDS[:, None], len(starts), axis=1)
        for stripe in range(int(counts[0])):
            active = int(np.count_nonzero(counts > stripe))
            for lane in range(4):
                values = self._lanes[starts[:active] + (stripe * _STRIPE + lane * _LANE)]
                state[lane, :active] = _round(state[lane, :active], values)
        return _converge(state)


def _overlapping(data: memoryview, dtype: str) -> npt.NDArray[Any]:
    size = np.dtype(dtype).itemsize
    count = max(0, data.nbytes - size + 1)
    return np.ndarray(shape=(count,), dtype=dtype, buffer=data if count else b"\0" * size, strides=(1,))


def _round(state: Hashes, lanes: Hashes) -> Hashes:
    return _rotate(state + lanes * _P2, 31) * _P1


def _rotate(values: Hashes, bits: int) -> Hashes:
    rotated = values << np.uint64(bits)
    rotated |= values >> np.uint64(64 - bits)
    return rotated


def _converge(state: npt.NDArray[np.uint64]) -> Hashes:
    hashes = _rotate(state[0], 1) + _rotate(state[1], 7) + _rotate(state[2], 12) + _rotate(state[3], 18)
    for accumulator in state:
        hashes ^= _round(np.zeros_like(accumulator), accumulator)
        hashes *= _P1
        hashes += _P4
    return hashes


def _avalanche(hashes: Hashes) -> Hashes:
    hashes ^= hashes >> np.uint64(33)
    hashes *= _P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= _P3
    hashes ^= hashes >> np.uint64(32)
    return hashes


HASH_END: Final = 1 << 64
"""One more than the greatest hash."""

_HALF: Final = np.uint64(32)


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Refuse what cannot be divided into key groups.

    Raises:
        InvalidProgramError: unless ``1 <= parallelism <= max_parallelism <= 32768``.
    """
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise InvalidProgramError(
            f"max_parallelism must be between 1 and {UPPER_BOUND_MAX_PARALLELISM}, not {max_parallelism}"
        )
    if not 1 <= parallelism <= max_parallelism:
        raise InvalidProgramError(f"parallelism must be between 1 and {max_parallelism}, not {parallelism}")


def key_groups(hashes: npt.NDArray[np.uint64], max_parallelism: int) -> npt.NDArray[np.int64]:
    """The key group of each hash, from 0 to ``max_parallelism - 1``; never falling where the hashes do not fall."""
    groups = hashes >> _HALF
    groups *= np.uint64(max_parallelism)
    groups >>= _HALF
    return groups.view(np.int64)


def partitions_of_hashes(
    hashes: npt.NDArray[np.uint64], parallelism: int, max_parallelism: int
) -> npt.NDArray[np.int64]:
    """The partition, from 0 to ``parallelism - 1``, that owns the key group of each hash."""
    return key_groups(hashes, max_parallelism) * parallelism // max_parallelism


def range_of_partition(partition: int, parallelism: int, max_parallelism: int) -> range:
    """The key groups that ``partition`` owns."""
    check_parallelism(parallelism, max_parallelism)
    if not 0 <= partition < parallelism:
        raise InvalidProgramError(f"there is no partition {partition} at parallelism {parallelism}")
    # Rounded up, as Python's division rounds down.
    return range(-(-partition * max_parallelism // parallelism), -(-(partition + 1) * max_parallelism // parallelism))


def hash_bounds(groups: range, max_parallelism: int) -> tuple[int, int]:
    """The hashes of consecutive key groups: from the first one up to, but without, the second one.

    The end is ``2**64`` for the last key group, so these are Python integers.
    """
    return -((-groups.start << 32) // max_parallelism) << 32, -((-groups.stop << 32) // max_parallelism) << 32


def hash_bounds_of_partition(partition: int, parallelism: int, max_parallelism: int) -> tuple[int, int]:
    """The hashes that ``partition`` owns, as :func:`hash_bounds` gives them."""
    return hash_bounds(range_of_partition(partition, parallelism, max_parallelism), max_parallelism)


def are_within(hashes: npt.NDArray[np.uint64], bounds: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return which hashes are within bounds, as :func:`hash_bounds` gives them; none are where these hold none."""
    low, end = bounds
    if low >= end:
        return np.zeros(len(hashes), np.bool_)
    within: npt.NDArray[np.bool_] = (hashes >= np.uint64(low)) & (hashes <= np.uint64(end - 1))
    return within
