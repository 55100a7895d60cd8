"""``AggregatorList``: all aggregators of a window or group, their description in state, and fields with new names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from headrace.common.typeinfo import Types
from headrace.operators.aggregates.collected import BY, ArrivedValues, TopValues
from headrace.operators.aggregates.counts import CountRows, CountTrue, CountValues, KeyField
from headrace.operators.aggregates.deviations import SquaredDeviations
from headrace.operators.aggregates.distinct_sketch import DistinctSketch
from headrace.operators.aggregates.exact_sum import SumDecimals
from headrace.operators.aggregates.min_max import Extreme, FirstOrLast
from headrace.operators.aggregates.multisets import Multiset
from headrace.operators.aggregates.quantiles import RoundedMultiset
from headrace.operators.aggregates.sums import SumFiniteFloats, SumFloats, SumIntegers
from headrace.operators.aggregates.user_defined import UserParts
from headrace.state.renamed_fields import NOTHING_RENAMED, RenamedFields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from headrace.operators.aggregates.aggregate import BoundAggregate
    from headrace.operators.aggregates.aggregator import Aggregator, GroupedRows, Input
    from headrace.state.runs.grouping import RowGroups, Segments


@dataclass(frozen=True)
class AggregatorList:
    """What is remembered for a key and window; each aggregator has some of the columns.

    Attributes:
        members: the aggregators in the order of their columns, all different.
    """

    members: tuple[Aggregator, ...]

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        """The columns of the accumulators of each group of rows."""
        return [column for aggregator in self.members for column in aggregator.accumulate(rows)]

    def retract(self, rows: GroupedRows) -> list[pa.Array]:
        """The columns of accumulators that take each group of rows away from those they are merged with."""
        return [column for aggregator in self.members for column in aggregator.retract(rows)]

    def merge(self, columns: Sequence[pa.Array], segments: RowGroups) -> list[pa.Array]:
        """The columns of each group of accumulators; they lie group after group, or anywhere if all are scatterable."""
        pairs = zip(self.members, self._split(columns), strict=True)
        return [column for aggregator, own in pairs for column in aggregator.merge(own, cast("Segments", segments))]

    def combine(self, older: Sequence[pa.Array], newer: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns of two tables row by row, of which both have all groups, in the same order."""
        parts = zip(self.members, self._split(older), self._split(newer), strict=True)
        return [column for aggregator, a, b in parts for column in aggregator.combine(a, b)]

    def negate(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns of accumulators that take away what these add, once they are merged."""
        pairs = zip(self.members, self._split(columns), strict=True)
        return [column for aggregator, own in pairs for column in aggregator.negate(own)]

    def are_reversible(self, columns: Sequence[pa.Array]) -> bool:
        """Whether nothing of these remains where they are merged and later their opposites are."""
        pairs = zip(self.members, self._split(columns), strict=True)
        return all(aggregator.is_reversible(own) for aggregator, own in pairs)

    def results(self, columns: Sequence[pa.Array]) -> dict[Aggregator, pa.Array]:
        """The value of each aggregator."""
        pairs = zip(self.members, self._split(columns), strict=True)
        return {aggregator: aggregator.result(own) for aggregator, own in pairs}

    def running_results(
        self, wanted: Iterable[Aggregator], columns: Sequence[pa.Array], segments: Segments
    ) -> dict[Aggregator, pa.Array]:
        """The value of some aggregators, of each accumulator merged with all before it in its group."""
        own = dict(zip(self.members, self._split(columns), strict=True))
        return {aggregator: aggregator.running_results(own[aggregator], segments) for aggregator in wanted}

    def running_values(
        self, aggregates: Sequence[BoundAggregate], columns: Sequence[pa.Array], segments: Segments
    ) -> list[pa.Array]:
        """The column of each aggregate, of each accumulator merged with all before it in its group."""
        own = dict(zip(self.members, self._split(columns), strict=True))
        scanned = dict.fromkeys(one for each in aggregates if each.running is None for one in each.aggregators)
        results = self.running_results(scanned, columns, segments)
        return [
            each.emit([results[one] for one in each.aggregators])
            if each.running is None
            else each.running(own[each.aggregators[0]], segments)
            for each in aggregates
        ]

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """What the aggregators look at, each once."""
        return tuple(dict.fromkeys(source for aggregator in self.members for source in aggregator.inputs))

    @property
    def are_scatterable(self) -> bool:
        """Whether all of them are: see :class:`Aggregator`."""
        return all(aggregator.is_scatterable for aggregator in self.members)

    def to_json(self) -> list[dict[str, Any]]:
        """What has to be known to merge accumulators, without the program that made them."""
        return [
            {"kind": aggregator.stored_name} | {name: getattr(aggregator, name) for name in aggregator.parameters}
            for aggregator in self.members
        ]

    @staticmethod
    def for_merging(described: Sequence[dict[str, Any]]) -> AggregatorList:
        """Aggregators that merge as those described do; columns and types of the input are not known any more."""
        return AggregatorList(tuple(_for_merging(dict(entry)) for entry in described))

    def _split(self, columns: Sequence[pa.Array]) -> list[list[pa.Array]]:
        """The columns of each aggregator."""
        return [list(columns[start:stop]) for start, stop in self._bounds]

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        """Where the columns of each aggregator begin and end."""
        return list(pairwise([0, *accumulate(len(aggregator.fields) for aggregator in self.members)]))


_OF_STORED_NAME: Final[dict[str, type[Aggregator]]] = {
    kind.stored_name: kind
    for kind in (
        ArrivedValues,
        CountRows,
        CountTrue,
        CountValues,
        DistinctSketch,
        Extreme,
        FirstOrLast,
        KeyField,
        Multiset,
        RoundedMultiset,
        SquaredDeviations,
        SumDecimals,
        SumFiniteFloats,
        SumFloats,
        SumIntegers,
        TopValues,
        UserParts,
    )
}


def _for_merging(entry: dict[str, Any]) -> Aggregator:
    kind = _OF_STORED_NAME[entry.pop("kind")]
    unknown: dict[str, Any] = {"column": -1, "by": -1} | dict.fromkeys(("type", "by_type"), Types.PICKLED_BYTE_ARRAY())
    return kind(**entry, **{name: value for name, value in unknown.items() if name in kind.__dataclass_fields__})


_FIELD: Final = re.compile(r"""col\("([^"]+)"\)""")
"""A field in the text of an expression."""


def with_new_names(described: Sequence[dict[str, Any]], renamed: RenamedFields) -> list[dict[str, Any]]:
    """The description of stored aggregators, as it would be with the names that fields have now."""
    return [
        {**each, "name": _renamed(each["name"], renamed.names)} if "name" in each else dict(each) for each in described
    ]


def renamed_columns(aggregators: AggregatorList, renamed: RenamedFields) -> RenamedFields:
    """Which columns of accumulators were called otherwise, as their fields were."""
    if not renamed:
        return NOTHING_RENAMED
    before = {new: old for old, new in renamed.names.items()}
    columns: dict[str, str] = {}
    named: Iterator[Any] = (each for each in aggregators.members if hasattr(each, "name"))
    for aggregator in named:
        former = replace(aggregator, name=_renamed(aggregator.name, before))
        columns |= {old: new for (old, _), (new, _) in zip(former.fields, aggregator.fields, strict=True)}
    return RenamedFields({old: new for old, new in columns.items() if old != new})


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """The name of what an aggregator looks at: that of a field, two fields, or the text of an expression."""
    if BY in name:
        return BY.join(_renamed(each, names) for each in name.split(BY))
    return names.get(name) or _FIELD.sub(lambda found: f'col("{names.get(found[1], found[1])}")', name)
