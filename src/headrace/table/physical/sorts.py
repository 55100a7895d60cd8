"""``ORDER BY`` and ``LIMIT``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from headrace.graph.changelog_specs import RankSpec, SortSpec, TemporalSortSpec
from headrace.operators.changelog.order import RankRange, RankStrategy
from headrace.table.logical.errors import placed
from headrace.table.logical.relations import LogicalSort
from headrace.table.logical.scalars import SortKey
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.options import SORT_LIMIT
from headrace.table.physical.basic import Exchange, ValuesScan
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, UpdateKind, never
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.node import (
    Edges,
    PassingNode,
    PhysicalNode,
    ScalarText,
    Terms,
    order_text,
    with_unique_names,
)
from headrace.table.physical.ranks import needed_by, strategy_of, strategy_text
from headrace.table.physical.translation import GraphBuilder, by_key, sort_fields


@dataclass(frozen=True)
class TemporalSort(PhysicalNode):
    """Rows in the order of their rowtime."""

    name: ClassVar[str] = "TemporalSort"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    input: PhysicalNode
    keys: tuple[SortKey, ...]

    @property
    def schema(self) -> Schema:
        return self.input.schema

    def terms(self, text: ScalarText) -> Terms:
        yield "orderBy", order_text(self.keys, self.schema)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        first, *others = self.keys
        if self.schema[first.index].time is TimeAttribute.PROCTIME:
            return inputs[0]
        spec = TemporalSortSpec(time_field=first.index, order=sort_fields(others, self.schema))
        return builder.add(spec, self.name, by_key(inputs[0], self.schema, ()))


@dataclass(frozen=True)
class SortLimit(PassingNode):
    """The first rows in an order; without sort keys any rows, which is ``Limit``."""

    name: ClassVar[str] = "SortLimit"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        lambda node, inputs: Modify.ALL if node.keys or inputs[0] else Modify.INSERT,
        needs=lambda node, _index, _wanted: node.needs,
        adapts=True,
    )
    keys: tuple[SortKey, ...]
    offset: int
    limit: int
    strategy: RankStrategy = RankStrategy.APPEND
    unique_key: tuple[int, ...] = ()

    @property
    def needs(self) -> UpdateKind:
        """The row kinds by which the limit needs the updates of its input."""
        return needed_by(self.strategy)

    def terms(self, text: ScalarText) -> Terms:
        yield "orderBy", order_text(self.keys, self.schema)
        yield "offset", str(self.offset)
        yield "fetch", str(self.limit)
        yield "strategy", strategy_text(self.strategy, self.unique_key)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        spec = RankSpec(
            order=sort_fields(self.keys, self.schema),
            ranks=RankRange(self.offset + 1, self.offset + self.limit),
            strategy=self.strategy,
            unique_key=self.unique_key,
            update_before=self.mode.takes_update_before,
            ttl=builder.state_ttl,
        )
        return builder.add(spec, self.name, by_key(inputs[0], self.schema, ()))


@dataclass(frozen=True)
class Limit(SortLimit):
    """A limited number of rows, in no order."""

    name: ClassVar[str] = "Limit"

    def terms(self, text: ScalarText) -> Terms:
        yield "offset", str(self.offset)
        yield "fetch", str(self.limit)


NO_LIMIT: Final = 2**31 - 1
"""The limit of ``OFFSET`` without ``LIMIT``."""


@dataclass(frozen=True)
class Sort(PhysicalNode):
    """All rows, or the first of them, in an order, at the end of the input: in batch mode."""

    name: ClassVar[str] = "Sort"
    input: PhysicalNode
    keys: tuple[SortKey, ...]
    offset: int = 0
    limit: int | None = None

    @property
    def schema(self) -> Schema:
        return self.input.schema

    def terms(self, text: ScalarText) -> Terms:
        yield "orderBy", order_text(self.keys, self.schema)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        spec = SortSpec(order=sort_fields(self.keys, self.schema), offset=self.offset, limit=self.limit)
        return builder.add(spec, self.name, by_key(inputs[0], self.schema, ()))


@conversion_rule(LogicalSort)
def _sort(sort: LogicalSort, context: ConversionContext) -> PhysicalNode:
    if sort.limit == 0:
        return ValuesScan((), with_unique_names(sort.schema))
    source = Exchange(converted(sort.input, context), ())
    if context.is_batch and sort.keys:
        return Sort(source, sort.keys, sort.offset, _limit_in_batch_mode(sort, context))
    strategy, key = strategy_of(source, (), sort.keys, context)
    if not sort.keys and sort.limit is None and not context.is_batch:
        raise placed(
            "FETCH is missed, which on streaming table is not supported currently: OFFSET needs a LIMIT in streams",
            sort.at,
        )
    if not sort.keys:
        limit = NO_LIMIT if sort.limit is None else sort.limit
        return Limit(source, (), sort.offset, limit, strategy)
    if sort.limit is not None:
        return SortLimit(source, sort.keys, sort.offset, sort.limit, strategy, key)
    return _by_time(source, sort)


def _limit_in_batch_mode(sort: LogicalSort, context: ConversionContext) -> int | None:
    default = context.settings.get(SORT_LIMIT)
    return default if sort.limit is None and not sort.offset and default >= 0 else sort.limit


def _by_time(source: PhysicalNode, sort: LogicalSort) -> PhysicalNode:
    first = sort.keys[0]
    if source.schema[first.index].time is None:
        raise placed(
            "Sort on a non-time-attribute field is not supported: add a LIMIT, order by row time, or use batch mode",
            sort.at,
        )
    if first.descending:
        raise placed("Primary sort order of a streaming table must be ascending on time", sort.at)
    if sort.offset:
        raise placed("OFFSET needs a LIMIT in streams", sort.at)
    return TemporalSort(source, sort.keys)
