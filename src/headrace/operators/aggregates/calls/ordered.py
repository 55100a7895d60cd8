"""Aggregate calls that depend on the order of arrival: ``FIRST_VALUE``, ``LISTAGG``, ``ARRAY_AGG``, JSON."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import codes_of, fixed_width, gather, list_lengths, lists_of
from headrace.common.errors import EvaluationError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.operators.aggregates.aggregator import ColumnAggregator, Fields, GroupedRows, Longs, running_sums
from headrace.state.runs.grouping import Segments, value_ranks


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
