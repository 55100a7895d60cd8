"""Aggregate calls over all values of a group: as a multiset (``COLLECT``), or in their order (``LISTAGG``).

From multisets follow aggregates of distinct values, percentiles and bitmaps; from values in order arrays and JSON.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from math import isfinite
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import codes_of, fixed_width, gather, list_lengths, lists_of, of_fixed_width
from headrace.common.bitmaps import packed, unsigned
from headrace.common.errors import EvaluationError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.operators.aggregates.aggregator import ColumnAggregator, Fields, GroupedRows, Longs, running_sums
from headrace.operators.aggregates.calls.numbers import average, counted_sum, decimal_limbs, decimals_of, sum_or_zero
from headrace.operators.aggregates.exact_sum import round_sums, sum_values
from headrace.state.runs.grouping import Placed, Segments, value_ranks


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
        position = part * np.maximum(totals - 1, 0) + 1  # counted from one, as in Flink: the last digit depends on it
        low = np.floor(position).astype(np.int64)
        high = np.ceil(position).astype(np.int64)
        lower, upper = at(low - 1), at(high - 1)
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


@dataclass(frozen=True, slots=True)
class OrderedValues(ColumnAggregator):
    """The values in the order of arrival; a retraction removes the first value that is equal.

    Accumulators are merged in parts, and a retracted value may be in an earlier part. So retractions are kept as such
    until the accumulator covers all records of its key. The result is the list of the values that are left.
    """

    stored_name: ClassVar[str] = "OrderedValues"
    grows: ClassVar[bool] = True
    type: TypeInformation

    @property
    def fields(self) -> Fields:
        name = f"ordered({self.name})"
        long = Types.LONG()
        return (
            (name, Types.LIST(self.type)),
            (f"{name}.arrivals", Types.LIST(long)),
            (f"{name}.signs", Types.LIST(long)),
        )

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        values, arrivals, segments = rows.column(self.column), rows.arrivals(), rows.groups.segments
        lengths = segments.counts
        if values.null_count:
            counts = np.asarray(values.is_valid())
            lengths = segments.reduce(np.add, counts.astype(np.int64))
            values, arrivals = values.drop_null(), arrivals[counts]
        signs = pa.array(np.ones(len(values), np.int64))
        return [lists_of(values, lengths), lists_of(pa.array(arrivals), lengths), lists_of(signs, lengths)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        groups = np.repeat(segments.ids, list_lengths(columns[0]))
        values, arrivals, signs = (column.flatten() for column in columns)
        times = fixed_width(arrivals)
        lengths = np.bincount(groups, minlength=len(segments))
        if ((np.diff(times) < 0) & (np.diff(groups) == 0)).any():
            order = np.lexsort((times, groups))
            return [lists_of(gather(flat, order), lengths) for flat in (values, arrivals, signs)]
        return [lists_of(flat, lengths) for flat in (values, arrivals, signs)]

    def settle(self, columns: list[pa.Array]) -> list[pa.Array]:
        values, arrivals, signs = (column.flatten() for column in columns)
        steps, lengths = fixed_width(signs), list_lengths(columns[0])
        if not (steps < 0).any():
            return columns
        groups = np.repeat(np.arange(len(lengths)), lengths)
        left = _left(groups, codes_of(values), steps)
        lengths = np.bincount(groups[left], minlength=len(lengths))
        return [lists_of(gather(flat, left), lengths) for flat in (values, arrivals, signs)]

    def result(self, columns: list[pa.Array]) -> pa.Array:
        return self.settle(columns)[0]

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        values, arrivals, signs = columns
        return [values, arrivals, lists_of(pc.negate(signs.flatten()), list_lengths(values))]


def _left(groups: Longs, codes: Longs, steps: Longs) -> Longs:
    """The positions of the values that are left: each retraction removes the earliest equal value."""
    pairs = np.lexsort((codes, groups))  # stable: equal values stay in the order of arrival
    firsts = np.flatnonzero((np.diff(groups[pairs], prepend=-1) != 0) | (np.diff(codes[pairs], prepend=-1) != 0))
    segments = Segments(firsts, len(pairs))
    is_added = (steps[pairs] > 0).astype(np.int64)
    taken = segments.reduce(np.add, 1 - is_added)[segments.ids]
    return np.sort(pairs[(is_added > 0) & (running_sums(is_added, segments) > taken)])


def unboxed(lists: pa.Array, place: int = 0) -> tuple[pa.Array, Longs]:
    """A column of boxed values in lists, and the lengths of the lists."""
    return lists.flatten().field(place), list_lengths(lists)


def first_of(results: Sequence[pa.Array]) -> pa.Array:
    """The first value of each list, null where there is none."""
    values, lengths = unboxed(results[0])
    return values.take(pa.array(np.cumsum(lengths) - lengths, mask=lengths == 0))


def last_of(results: Sequence[pa.Array]) -> pa.Array:
    """The last value of each list, null where there is none."""
    values, lengths = unboxed(results[0])
    return values.take(pa.array(np.cumsum(lengths) - 1, mask=lengths == 0))


def array_of(type_: pa.DataType, is_distinct: bool, results: Sequence[pa.Array]) -> pa.Array:
    """The values as an array, null where there is none."""
    values, lengths = unboxed(results[0])
    if is_distinct:
        values, lengths = _distinct(values, lengths)
    return lists_of(values, lengths, is_missing=lengths == 0).cast(type_)


def joined_text(separator: str | None, is_distinct: bool, results: Sequence[pa.Array]) -> pa.Array:
    """The texts joined, null where there is none; the separator may be a second column."""
    values, lengths = unboxed(results[0])
    if separator is not None:
        if is_distinct:
            values, lengths = _distinct(values, lengths)
        return pc.binary_join(lists_of(values, lengths, is_missing=lengths == 0), separator)
    separators, _ = unboxed(results[0], 1)
    starts = np.cumsum(lengths) - lengths
    pieces = pc.binary_join_element_wise(separators, values, "")
    heads = starts[lengths > 0]
    mask = np.zeros(len(values), np.bool_)
    mask[heads] = True
    pieces = pc.if_else(pa.array(mask), values, pieces)
    return pc.binary_join(lists_of(pieces, lengths, is_missing=lengths == 0), "")


def single_value(results: Sequence[pa.Array]) -> pa.Array:
    """The only value; null where there is none.

    Raises:
        EvaluationError: when there are several.
    """
    if int(list_lengths(results[0]).max(initial=0)) > 1:
        raise EvaluationError("a scalar subquery gives more than one row: limit it to one, or aggregate it")
    return first_of(results)


def _distinct(values: pa.Array, lengths: Longs) -> tuple[pa.Array, Longs]:
    """The first of each value in each list."""
    groups = np.repeat(np.arange(len(lengths)), lengths)
    codes = codes_of(values)
    pairs = np.lexsort((codes, groups))
    is_first = (np.diff(groups[pairs], prepend=-1) != 0) | (np.diff(codes[pairs], prepend=-1) != 0)
    kept = np.sort(pairs[is_first])
    return gather(values, kept), np.bincount(groups[kept], minlength=len(lengths))


def json_array(results: Sequence[pa.Array]) -> pa.Array:
    """The values as the text of a JSON array; empty where there is none."""
    values, lengths = unboxed(results[0])
    texts = pa.array(_texts(values), pa.string())
    joined = pc.binary_join(lists_of(texts, lengths), ",")
    return pc.binary_join_element_wise("[", joined, "]", "")


def json_object(results: Sequence[pa.Array]) -> pa.Array:
    """The pairs of key and value as the text of a JSON object, by key.

    Raises:
        EvaluationError: when a key comes twice, or is null.
    """
    keys, lengths = unboxed(results[0])
    if keys.null_count:
        raise EvaluationError(
            "the key of JSON_OBJECTAGG is NULL: leave out such rows by FILTER (WHERE key IS NOT NULL)"
        )
    values = unboxed(results[0], 1)[0]
    groups = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((value_ranks(keys), groups))
    codes = codes_of(keys)[order]
    if ((np.diff(codes) == 0) & (np.diff(groups[order]) == 0)).any():
        raise EvaluationError("a key of JSON_OBJECTAGG comes twice in a group: keys of an object are different")
    names = _texts(gather(keys.cast(pa.string()), order))
    texts = [f"{name}:{value}" for name, value in zip(names, _texts(gather(values, order)), strict=True)]
    joined = pc.binary_join(lists_of(pa.array(texts, pa.string()), lengths), ",")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _texts(values: pa.Array) -> list[str]:
    return [json_text(value) for value in values.to_pylist()]


def json_text(value: object) -> str:
    """A value as JSON: numbers with all digits, times as strings, bytes in base64."""
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(str(key))}:{json_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(json_text, value)) + "]"
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
    return json.dumps(text, ensure_ascii=False)


def _number(value: float | Decimal) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return repr(value) if isfinite(value) else json.dumps(str(value))
