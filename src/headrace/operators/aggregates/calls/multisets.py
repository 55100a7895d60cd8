"""Aggregate calls over the multiset of a group's values: ``DISTINCT``, ``COLLECT``, ``PERCENTILE``, bitmaps."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width, list_lengths, of_fixed_width
from headrace.common.bitmaps import packed, unsigned
from headrace.operators.aggregates.calls.numbers import average, counted_sum, decimal_limbs, decimals_of, sum_or_zero
from headrace.operators.aggregates.exact_sum import round_sums, sum_values
from headrace.state.runs.grouping import Placed


def count_of_distinct(results: Sequence[pa.Array]) -> pa.Array:
    """The number of distinct values."""
    return pa.array(list_lengths(results[0].field("values")))


def sum_of_distinct(type_: pa.DataType, results: Sequence[pa.Array]) -> pa.Array:
    """The sum of the distinct values."""
    return counted_sum(type_, _summed(results[0]))


def sum_of_distinct_or_zero(type_: pa.DataType, results: Sequence[pa.Array]) -> pa.Array:
    """The same with 0 where there was no value."""
    return sum_or_zero(type_, _summed(results[0]))


def average_of_distinct(type_: pa.DataType, results: Sequence[pa.Array]) -> pa.Array:
    """The average of the distinct values."""
    return average(type_, _summed(results[0]))


def _summed(multisets: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The sum and the number of the distinct values of each multiset."""
    lists = multisets.field("values")
    lengths, values = list_lengths(lists), lists.flatten()
    groups = Placed.of(np.repeat(np.arange(len(lengths)), lengths), len(lengths))
    counts = pa.array(lengths)
    if pa.types.is_decimal(values.type):
        limbs = [_spread(groups, groups.reduce(np.add, limb)) for limb in decimal_limbs(values)]
        carried = [limbs[0]]
        for limb in limbs[1:]:
            carried.append(limb + (carried[-1] >> 32))
            carried[-2] = carried[-2] & 0xFFFFFFFF
        return decimals_of(carried, 38, values.type.scale), counts
    if pa.types.is_floating(values.type):
        sums = round_sums(sum_values(fixed_width(values).astype(np.float64), groups))
        return of_fixed_width(_spread(groups, sums), None, pa.float64()), counts
    return pa.array(_spread(groups, groups.reduce(np.add, fixed_width(values).astype(np.int64)))), counts


def _spread(groups: Placed, values: np.ndarray) -> np.ndarray:
    found = np.zeros(len(groups.all_counts), values.dtype)
    found[groups.used] = values
    return found


def multiset_of(type_: pa.DataType, results: Sequence[pa.Array]) -> pa.Array:
    """The values with their counts; empty where there is none."""
    values, counts = results[0].flatten()
    offsets = np.concatenate(([0], np.cumsum(list_lengths(values))))
    made = pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), values.flatten(), counts.flatten().cast(type_.item_type)
    )
    return made.cast(type_)


def set_of(type_: pa.DataType, results: Sequence[pa.Array]) -> pa.Array:
    """The distinct values."""
    values, counts = results[0].flatten()
    ones = pa.array(np.ones(len(counts.flatten()), np.int64))
    offsets = pa.array(np.concatenate(([0], np.cumsum(list_lengths(values)))), pa.int32())
    return pa.MapArray.from_arrays(offsets, values.flatten(), ones.cast(type_.item_type)).cast(type_)


def percentiles(parts: Sequence[float], is_single: bool, results: Sequence[pa.Array]) -> pa.Array:
    """Percentiles, interpolated between two values; null where there is no value."""
    values, counts = results[0].flatten()
    lengths = list_lengths(values)
    numbers = fixed_width(values.flatten().cast(pa.float64()))
    upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(fixed_width(counts.flatten()))))
    ends = np.cumsum(lengths)
    before, totals = upto[ends - lengths], upto[ends] - upto[ends - lengths]
    has_values = totals > 0

    def at(ranks: np.ndarray) -> np.ndarray:
        places = np.searchsorted(upto[1:], before + ranks, side="right")
        return numbers[np.where(has_values, places, 0)] if len(numbers) else np.zeros(len(ranks))

    columns = []
    for part in parts:
        position = part * np.maximum(totals - 1, 0)
        low = np.floor(position).astype(np.int64)
        high = np.ceil(position).astype(np.int64)
        lower, upper = at(low), at(high)
        columns.append(np.where(low == high, lower, (high - position) * lower + (position - low) * upper))
    if is_single:
        return of_fixed_width(columns[0], has_values, pa.float64())
    flat = np.stack(columns, axis=1)[has_values].ravel()
    sizes = np.where(has_values, len(parts), 0)
    offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
    mask = None if has_values.all() else pa.array(~has_values)
    return pa.ListArray.from_arrays(offsets, pa.array(flat), mask=mask)


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
