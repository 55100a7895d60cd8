"""Leaves out events that come while their keys have no partial matches, before events are brought in order by key.

Where few events begin matches, most others meet none. Whether one might is told by a table of bits, in which the keys
of those that begin matches, and of those that are stored, are marked with the stretches of time in which these may be
open. Two of them may have one bit: then events are kept that could have been left out.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.operators.base import KeyedBatch

Longs = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

FEWEST: Final = 1 << 12
"""Of fewer events it does not pay to leave any out."""

RARE: Final = 16
"""Matches are rare where so many events come for each that begins one or is stored."""

_SPARSE: Final = 64
"""The number of bits for each that is marked."""

_MOST_BITS: Final = 24
_OF_STRETCHES: Final = np.uint64(0x9E3779B97F4A7C15)
_OF_ALL: Final = np.uint64(0xD6E8FEB86659FD93)
"""Odd numbers whose products are spread over all bits."""


def sieve(batch: KeyedBatch, begins: Mask, window: int, stored: Hashes, stored_times: Longs) -> Longs:
    """Return the places of the events that may begin a match or meet one.

    Args:
        batch: the events.
        begins: the events with which matches may begin.
        window: milliseconds from its first event until a partial match has timed out; 0 for never.
        stored: the hashes of the keys of events that stored matches have taken.
        stored_times: the times of these.
    """
    hashes, times = batch.keys.hashes, batch.timestamps
    marked = np.concatenate([hashes[begins], stored])
    stretches = _stretches(np.concatenate([times[begins], stored_times]), window)
    bits = min(_MOST_BITS, (2 * _SPARSE * len(marked)).bit_length())
    table = np.zeros(1 << bits, np.bool_)
    for later in range(2 if window else 1):
        table[_codes(marked, stretches + later, bits)] = True
    return np.flatnonzero(begins | table[_codes(hashes, _stretches(times, window), bits)])


def _stretches(times: Longs, window: int) -> Longs:
    """Stretches of time as long as a window: a match that has begun in one may be open in the next, and no longer."""
    return times // window if window else np.zeros_like(times)


def _codes(hashes: Hashes, stretches: Longs, bits: int) -> Hashes:
    mixed = (hashes ^ (stretches.astype(np.uint64) * _OF_STRETCHES)) * _OF_ALL
    return mixed >> np.uint64(64 - bits)
