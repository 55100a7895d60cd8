"""Aggregate calls whose result is a bitmap, or the cardinality of one."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.bitmaps import packed, unsigned

Members = npt.NDArray[Any]

Combine = Callable[[Sequence[Any], Sequence[int]], Members]
"""Combines distinct values, and the count of each, into the integers of a bitmap."""


def built(values: Sequence[Any], _: Sequence[int]) -> Members:
    """The integers themselves."""
    return np.array(values, np.int64)


def in_all(values: Sequence[Any], _: Sequence[int]) -> Members:
    """The intersection of the bitmaps."""
    return reduce(np.intersect1d, map(unsigned, values))


def in_any(values: Sequence[Any], _: Sequence[int]) -> Members:
    """The union of the bitmaps."""
    return reduce(np.union1d, map(unsigned, values))


def in_odd(values: Sequence[Any], counts: Sequence[int]) -> Members:
    """The symmetric difference of the bitmaps: the integers in an odd number of them."""
    odd = (unsigned(value) for value, count in zip(values, counts, strict=True) if count % 2)
    return reduce(np.setxor1d, odd, np.zeros(0, np.uint32))


def bitmap(combine: Combine, results: Sequence[pa.Array]) -> pa.Array:
    """A bitmap for each group; null where there is no value."""
    return _of_groups(lambda *group: packed(combine(*group)), pa.binary(), results)


def cardinality(combine: Combine, results: Sequence[pa.Array]) -> pa.Array:
    """The cardinality of each group's bitmap; null where there is no value."""
    return _of_groups(lambda *group: len(np.unique(combine(*group))), pa.int64(), results)


def _of_groups(make: Callable[..., Any], type_: pa.DataType, results: Sequence[pa.Array]) -> pa.Array:
    values, counts = (column.to_pylist() for column in results[0].flatten())
    groups = zip(values, counts, strict=True)
    return pa.array([make(*group) if group[0] else None for group in groups], type_)


COMBINES: Final[dict[str, Combine]] = {"BUILD": built, "AND": in_all, "OR": in_any, "XOR": in_odd}
"""Set operations by the word in the middle of the functions' names."""
