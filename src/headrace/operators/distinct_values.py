"""``DistinctValues``: the values that each group has had, by which ``DISTINCT`` counts a value once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import codes_of, differ, fixed_width, gather, is_fixed_width
from headrace.operators.aggregates.aggregator import AggregatorList, Input
from headrace.operators.aggregates.calls.inputs import FirstOfValue
from headrace.operators.aggregates.distinct import one_nan
from headrace.operators.base import OperatorContext
from headrace.operators.window.columnar.accumulators import Chunk
from headrace.state.key_sorted_table import KeySortedTable, key_ranges, register_key_sorted_merger
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.hashing import hash_array
from headrace.state.runs.grouping import Groups, in_order, sorted_pairs
from headrace.state.runs.layout import HASH, KEY
from headrace.state.sorted_table import TableLayout

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_KIND: Final = "distinct-values"
_PLACE: Final = "place"
_VALUE: Final = "of_value"
_WORDS: Final = {"keys": "key type", "values": "type of values", "filters": "set of filters"}

register_key_sorted_merger(_KIND, replaces_rows=True)


class DistinctValues:
    """The values of one column that each group has had, in state, and of each the filters that it has passed.

    A value is a row of its own, which is written only when it is new. So a record costs the same whether its group has
    ten values or ten million.

    Args:
        context: the operator.
        codec: the codec of the keys.
        sources: the derived columns of one column, one for each filter.
    """

    def __init__(self, context: OperatorContext, codec: KeyCodec, sources: Sequence[FirstOfValue]) -> None:
        self._sources = sources
        first = sources[0]
        self._is_exact = is_fixed_width(first.type)
        self._flags = [f"passed{number}" for number in range(len(sources))]
        fields = [pa.field(HASH, pa.uint64()), pa.field(KEY, codec.arrow_type), pa.field(_PLACE, pa.int64())]
        fields += [] if self._is_exact else [pa.field(_VALUE, _stored_type(first.type))]
        self._schema = pa.schema([*fields, *(pa.field(flag, pa.bool_()) for flag in self._flags)])
        about: dict[str, Any] = {
            "keys": codec.to_json(),
            "values": str(first.type),
            "filters": [source.filter for source in sources],
        }
        layout = TableLayout("the distinct values of groups", _KIND, self._schema, 3, about, _WORDS)
        self._table = KeySortedTable(context.state.store(store_name(first)), layout, replaces_rows=True)

    def begin_epoch(self) -> None:
        """Starts an epoch with the state that the last one left."""
        self._table.begin_epoch()

    def end_epoch(self) -> None:
        """Flushes the new values of the epoch to state."""
        self._table.end_epoch()

    def first_only(self, chunk: Chunk, groups: Groups, keys: KeyColumn) -> Chunk:
        """Records whose derived columns are null where the group has had the value; the others are remembered.

        Args:
            chunk: the records.
            groups: the groups of the records.
            keys: the key of each group.
        """
        arrays = [chunk.columns[source] for source in self._sources]
        passes = np.array([np.asarray(array.is_valid()) for array in arrays], np.bool_)
        rows = np.flatnonzero(passes.any(axis=0))
        if not len(rows):
            return chunk
        values = _comparable(gather(arrays[0] if len(arrays) == 1 else pc.coalesce(*arrays), rows))
        pairs = _GroupValues.of(groups.numbers[rows], values)
        firsts = [pairs.first_rows(passes[number][rows]) for number in range(len(arrays))]
        has_passed = self._find(keys, pairs)
        columns: dict[Input, pa.Array] = {}
        for source, array, first, known in zip(self._sources, arrays, firsts, has_passed, strict=True):
            is_new = np.zeros(len(chunk), np.bool_)
            is_new[rows[first[(first >= 0) & ~known]]] = True
            columns[source] = pc.if_else(pa.array(is_new), array, pa.scalar(None, array.type))
        self._write(keys, pairs, has_passed, np.array(firsts) >= 0)
        return replace(chunk, columns={**chunk.columns, **columns})

    def _find(self, keys: KeyColumn, pairs: _GroupValues) -> Mask:
        """Return whether each pair has passed each filter before; moves pairs whose place another value has."""
        while True:
            has_passed, is_known, is_taken = self._look_up(keys, pairs)
            new = np.flatnonzero(~is_known)
            order = in_order(pairs.of_groups[new], pairs.places[new])
            own = pairs.of_groups[new][order], pairs.places[new][order]
            is_same = np.append(False, (np.diff(own[0]) == 0) & (np.diff(own[1]) == 0))[: len(new)]
            is_taken[new[order[is_same]]] = True
            if not is_taken.any():
                return has_passed
            pairs.places[is_taken] += 1

    def _look_up(self, keys: KeyColumn, pairs: _GroupValues) -> tuple[Mask, Mask, Mask]:
        """Of each pair: the filters that it has passed, whether its place is in state, and whether by another value."""
        has_passed = np.zeros((len(self._flags), len(pairs.places)), np.bool_)
        is_known, is_taken = np.zeros((2, len(pairs.places)), np.bool_)
        for section in reversed(self._table.sections()):
            left = np.flatnonzero(~is_known)
            places = pairs.places[left]
            found, rows, _ = key_ranges(section, keys, pairs.of_groups[left], places, places)
            found = left[found]
            is_known[found] = True
            for number, flag in enumerate(self._flags):
                has_passed[number, found] = fixed_width(section.take(flag, rows)) != 0
            if not self._is_exact:
                is_taken[found] = differ(section.take(_VALUE, rows), gather(pairs.values, found))
        return has_passed, is_known, is_taken

    def _write(self, keys: KeyColumn, pairs: _GroupValues, had_passed: Mask, passes: Mask) -> None:
        changed = np.flatnonzero((passes & ~had_passed).any(axis=0))
        changed = changed[in_order(pairs.of_groups[changed], pairs.places[changed])]
        if not len(changed):
            return
        written = keys.take(pairs.of_groups[changed])
        arrays = [pa.array(written.hashes), written.values, pa.array(pairs.places[changed])]
        arrays += [] if self._is_exact else [gather(pairs.values, changed)]
        arrays += [pa.array(flags[changed]) for flags in passes | had_passed]
        self._table.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


def distinct_values(context: OperatorContext, codec: KeyCodec, aggregators: AggregatorList) -> list[DistinctValues]:
    """The state of the columns whose distinct values are aggregated."""
    return [DistinctValues(context, codec, sources) for sources in _by_column(aggregators).values()]


def store_names(aggregators: AggregatorList) -> list[str]:
    """The names of the stores of :func:`distinct_values`."""
    return [store_name(sources[0]) for sources in _by_column(aggregators).values()]


def store_name(source: FirstOfValue) -> str:
    """The name of the store of a column's values."""
    return f"{_KIND}-{source.column}"


def _by_column(aggregators: AggregatorList) -> Mapping[int, list[FirstOfValue]]:
    found: dict[int, list[FirstOfValue]] = {}
    for source in aggregators.inputs:
        if isinstance(source, FirstOfValue):
            found.setdefault(source.column, []).append(source)
    return found


@dataclass(frozen=True)
class _GroupValues:
    """The different pairs of a group and a value among records.

    Attributes:
        of_groups: the group of each pair.
        values: its value.
        places: its place among the values of the group: the value itself where that is a number, else a hash.
        order: the records, pair after pair.
        starts: where each pair begins in ``order``.
    """

    of_groups: Longs
    values: pa.Array
    places: Longs
    order: Longs
    starts: Longs

    @staticmethod
    def of(groups: Longs, values: pa.Array) -> _GroupValues:
        """The pairs of records, given the group and the value of each."""
        order, numbers, codes = sorted_pairs(groups, codes_of(values))
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (numbers[1:] != numbers[:-1]) | (codes[1:] != codes[:-1])
        starts = np.flatnonzero(is_first)
        different = gather(values, order[starts])
        return _GroupValues(numbers[starts], different, _places(different), order, starts)

    def first_rows(self, passes: Mask) -> Longs:
        """The first record of each pair that passes a filter; -1 if none does."""
        total = len(self.order)
        at = np.minimum.reduceat(np.where(passes[self.order], np.arange(total), total), self.starts)
        rows: Longs = np.append(self.order, -1)[at]
        return rows


def _comparable(values: pa.Array) -> pa.Array:
    """Values as they are compared, and stored where they are no numbers."""
    if pa.types.is_floating(values.type):
        return pa.array(one_nan(fixed_width(values)))
    return values if is_fixed_width(values.type) else values.cast(_stored_type(values.type))


def _stored_type(type_: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_decimal(type_) else type_


def _places(values: pa.Array) -> Longs:
    if not is_fixed_width(values.type):
        return hash_array(values).view(np.int64)
    numbers = fixed_width(values)
    return numbers.astype(np.float64).view(np.int64) if numbers.dtype.kind == "f" else numbers.astype(np.int64)


def has_places(type_: pa.DataType) -> bool:
    """Return whether values of a type can be kept one by one."""
    is_text = pa.types.is_string(type_) or pa.types.is_binary(type_)
    return is_text or pa.types.is_decimal(type_) or is_fixed_width(type_)
