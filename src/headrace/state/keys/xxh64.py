"""XXH64 of one byte string, with seed 0; what :mod:`headrace.state.keys.hashing` does for many at a time."""

from __future__ import annotations

from struct import Struct
from typing import Final

_ALL: Final = (1 << 64) - 1
P1: Final = 0x9E3779B185EBCA87
P2: Final = 0xC2B2AE3D27D4EB4F
P3: Final = 0x165667B19E3779F9
P4: Final = 0x85EBCA77C2B2AE63
P5: Final = 0x27D4EB2F165667C5
PRIMES: Final = (P1, P2, P3, P4, P5)
SEEDS: Final = (P1 + P2 & _ALL, P2, 0, -P1 & _ALL)
"""What the four accumulators of a stripe begin with."""

_stripe = Struct("<4Q").unpack_from
_lane = Struct("<Q").unpack_from
_word = Struct("<I").unpack_from


def digest(data: bytes | memoryview) -> int:
    """The hash of ``data``."""
    size = len(data)
    hash_, position = _stripes(data) if size >= 32 else (P5, 0)
    hash_ += size
    while position + 8 <= size:
        hash_ = (_rotate((hash_ ^ _round(0, _lane(data, position)[0])) & _ALL, 27) * P1 + P4) & _ALL
        position += 8
    if position + 4 <= size:
        hash_ = (_rotate((hash_ ^ (_word(data, position)[0] * P1)) & _ALL, 23) * P2 + P3) & _ALL
        position += 4
    for byte in data[position:]:
        hash_ = (_rotate((hash_ ^ (byte * P5)) & _ALL, 11) * P1) & _ALL
    return _avalanche(hash_ & _ALL)


def _stripes(data: bytes | memoryview) -> tuple[int, int]:
    v1, v2, v3, v4 = SEEDS
    end = len(data) & ~31
    for position in range(0, end, 32):
        a, b, c, d = _stripe(data, position)
        v1, v2, v3, v4 = _round(v1, a), _round(v2, b), _round(v3, c), _round(v4, d)
    hash_ = (_rotate(v1, 1) + _rotate(v2, 7) + _rotate(v3, 12) + _rotate(v4, 18)) & _ALL
    for value in (v1, v2, v3, v4):
        hash_ = ((hash_ ^ _round(0, value)) * P1 + P4) & _ALL
    return hash_, end


def _round(state: int, lane: int) -> int:
    return _rotate((state + lane * P2) & _ALL, 31) * P1 & _ALL


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _ALL


def _avalanche(hash_: int) -> int:
    hash_ = (hash_ ^ hash_ >> 33) * P2 & _ALL
    hash_ = (hash_ ^ hash_ >> 29) * P3 & _ALL
    return hash_ ^ hash_ >> 32
