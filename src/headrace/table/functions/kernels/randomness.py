"""Random numbers, made from bits that each row is given: the same epoch gives the same ones."""

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.table.functions.kernels.kernel import Datum, Invocation, Numbers, numeric

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


def rand(_: Invocation, bits: Datum, seed: Datum | None = None) -> Datum:
    """A double from 0 to 1, without 1."""
    seeds = [] if seed is None else [seed.cast(pa.int64())]
    return numeric(lambda *values: (mixed(*values) >> np.uint64(11)) * _DOUBLE_UNIT, pa.float64(), bits, *seeds)


def rand_integer(_: Invocation, bits: Datum, *more: Datum) -> Datum:
    """An integer from 0 to the last operand, without it; there may be a seed before it."""
    *seeds, bound = (operand.cast(pa.int64()) for operand in more)
    return numeric(_below, pa.int64(), bits, bound, *seeds).cast(pa.int32())


def _below(bits: Numbers, bound: Numbers, *seeds: Numbers) -> Numbers:
    if np.any(bound <= 0):
        raise pa.ArrowInvalid("the bound of RAND_INTEGER is not positive")
    found: Numbers = (mixed(bits, *seeds) % bound.astype(np.uint64)).astype(np.int64)
    return found
