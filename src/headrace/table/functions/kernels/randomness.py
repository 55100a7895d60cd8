"""Random numbers, made from bits that each row is given: the same epoch gives the same ones."""

import hashlib
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from headrace.table.functions.kernels.kernel import Datum, Invocation, Numbers, map_rows, numeric

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_DOUBLE_UNIT: Final = 2.0**-53


def mixed(bits: Numbers, seed: Numbers | int = 0) -> Numbers:
    """Other bits of 64, of bits and a seed (the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):
        state = (np.asarray(bits).astype(np.uint64) + np.asarray(seed).astype(np.uint64) * _GAMMA) + _GAMMA
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
        found: Numbers = state ^ (state >> np.uint64(31))
    return found


def rand(call: Invocation, bits: Datum, seed: Datum | None = None) -> Datum:
    """A double from 0 to 1, without 1."""
    return numeric(lambda *values: _mixed(call, *values) * _DOUBLE_UNIT, pa.float64(), bits, *_seeds(seed))


def rand_integer(call: Invocation, bits: Datum, *more: Datum) -> Datum:
    """An integer from 0 to the last operand, without it; there may be a seed before it."""
    *seeds, bound = (operand.cast(pa.int64()) for operand in more)

    def below(values: Numbers, limits: Numbers, *others: Numbers) -> Numbers:
        if np.any(limits <= 0):
            raise pa.ArrowInvalid("the bound of RAND_INTEGER is not positive")
        return _mixed(call, values, *others) % limits

    return numeric(below, pa.int64(), bits, bound, *seeds).cast(pa.int32())


def uuid(call: Invocation, bits: Datum) -> Datum:
    """A random UUID of version 4."""
    number = int(call.option("call", 0))
    return map_rows(lambda seed: _uuid(seed, number), call.storage, bits)


def _uuid(seed: int, number: int) -> str:
    digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=4))


def _seeds(seed: Datum | None) -> list[Datum]:
    return [] if seed is None else [seed.cast(pa.int64())]


def _mixed(call: Invocation, bits: Numbers, *seeds: Numbers) -> Numbers:
    """53 bits of those of each row, of the number of the call in the row, and of a seed."""
    found = mixed(mixed(bits, int(call.option("call", 0))), *seeds) >> np.uint64(11)
    return found.astype(np.int64)
