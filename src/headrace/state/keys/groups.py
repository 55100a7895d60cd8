"""Key groups: which parallel instance of an operator a key belongs to.

The key group of a key is the place of its hash among ``max_parallelism`` equal parts of the range of hashes. So key
groups rise with the hash: what is sorted by hash is sorted by key group, and the keys of a partition are one slice.
All hashes are the unsigned 64-bit ones of :mod:`headrace.state.keys.hashing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.common.constants import UPPER_BOUND_MAX_PARALLELISM
from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    import numpy.typing as npt

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


def partition_of(groups: npt.NDArray[np.int64], parallelism: int, max_parallelism: int) -> npt.NDArray[np.int64]:
    """The partition (from 0 to ``parallelism - 1``) that owns each key group."""
    return groups * parallelism // max_parallelism


def partitions_of_hashes(
    hashes: npt.NDArray[np.uint64], parallelism: int, max_parallelism: int
) -> npt.NDArray[np.int64]:
    """The partition that owns each hash."""
    return partition_of(key_groups(hashes, max_parallelism), parallelism, max_parallelism)


def range_of_partition(partition: int, parallelism: int, max_parallelism: int) -> range:
    """The key groups that ``partition`` owns."""
    check_parallelism(parallelism, max_parallelism)
    if not 0 <= partition < parallelism:
        raise InvalidProgramError(f"there is no partition {partition} at parallelism {parallelism}")
    return range(
        _ceil_div(partition * max_parallelism, parallelism), _ceil_div((partition + 1) * max_parallelism, parallelism)
    )


def hash_bounds(groups: range, max_parallelism: int) -> tuple[int, int]:
    """The hashes of consecutive key groups: from the first one up to, but without, the second one.

    The end is ``2**64`` for the last key group, so these are Python integers.
    """
    return _first_hash(groups.start, max_parallelism), _first_hash(groups.stop, max_parallelism)


def hash_bounds_of_partition(partition: int, parallelism: int, max_parallelism: int) -> tuple[int, int]:
    """The hashes that ``partition`` owns, as :func:`hash_bounds` gives them."""
    return hash_bounds(range_of_partition(partition, parallelism, max_parallelism), max_parallelism)


def are_within(hashes: npt.NDArray[np.uint64], bounds: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Which hashes are within bounds, as :func:`hash_bounds` gives them; none are where these hold none."""
    low, end = bounds
    if low >= end:
        return np.zeros(len(hashes), np.bool_)
    within: npt.NDArray[np.bool_] = (hashes >= np.uint64(low)) & (hashes <= np.uint64(end - 1))
    return within


def _first_hash(group: int, max_parallelism: int) -> int:
    return _ceil_div(group << 32, max_parallelism) << 32


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
