"""Computes an aggregate of groups of values that come, and are taken back, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.arrays import concat, gather
from headrace.common.columns import array_to_values, values_to_array
from headrace.common.typeinfo import TypeInformation, Types
from headrace.operators.aggregates.aggregator import AggregatorList, GroupedRows
from headrace.state.runs.grouping import Groups, group_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.operators.aggregates.aggregate import Aggregate


@dataclass
class Folding:
    """The accumulators of one aggregate; groups are numbers from 0 on.

    Attributes:
        aggregate: of the column ``v``, of records ``(k, v)``, or more columns where ``types`` has more.
        types: the types of the columns.
        retracts: whether it is bound so that values can be taken back.
    """

    aggregate: Aggregate
    types: Sequence[TypeInformation]
    retracts: bool = False
    names: Sequence[str] = ("v", "w")
    groups: list[np.ndarray] = field(default_factory=list)
    pieces: list[list[pa.Array]] = field(default_factory=list)
    arrivals: int = 0

    def __post_init__(self) -> None:
        fields = list(self.names[: len(self.types)])
        input_type = Types.ROW_NAMED(["k", *fields], [Types.LONG(), *self.types])
        self.bound = self.aggregate.bind(input_type, retracts=self.retracts)
        self.list = AggregatorList(tuple(dict.fromkeys(self.bound.aggregators)))

    def add(self, *records: Sequence[Any], takes_back: bool = False) -> Folding:
        """Adds records (group, value, …) as one piece."""
        if not records:
            return self
        numbers = np.array([record[0] for record in records], np.int64)
        groups = _grouped(numbers)
        columns = zip(*(record[1:] for record in records), strict=True)
        arrays = {i + 1: values_to_array(t, list(c)) for i, (t, c) in enumerate(zip(self.types, columns, strict=True))}
        rows = GroupedRows(arrays, np.arange(self.arrivals, self.arrivals + len(records)), groups)
        self.arrivals += len(records)
        self.groups.append(numbers[groups.first_rows])
        self.pieces.append(self.list.retract(rows) if takes_back else self.list.accumulate(rows))
        return self

    def merge(self, start: int = 0, stop: int | None = None) -> Folding:
        """Merges the pieces from ``start`` up to ``stop``, by aggregators that know only what is stored of them."""
        chosen = slice(start, stop)
        if not self.pieces[chosen]:
            return self
        numbers = np.concatenate(self.groups[chosen])
        groups = _grouped(numbers)
        columns = [gather(concat(list(parts)), groups.order) for parts in zip(*self.pieces[chosen], strict=True)]
        stored = AggregatorList.for_merging(self.list.to_json())
        self.groups[chosen] = [numbers[groups.first_rows]]
        self.pieces[chosen] = [stored.merge(columns, groups.segments)]
        return self

    def results(self) -> dict[int, Any]:
        """The result of each group, once all is merged."""
        self.merge()
        if not self.pieces:
            return {}
        found = self.list.results(self.pieces[0])
        column = self.bound.emit([found[aggregator] for aggregator in self.bound.aggregators])
        assert column.type.equals(self.bound.type.storage_type), (column.type, self.bound.type)
        column.validate(full=True)
        return dict(zip(self.groups[0].tolist(), array_to_values(self.bound.type, column), strict=True))


def _grouped(numbers: np.ndarray) -> Groups:
    return group_rows(numbers, np.zeros(len(numbers), np.uint64), pa.array(numbers))
