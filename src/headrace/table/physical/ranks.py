"""Top-N and deduplication, of all rows and of those of each window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from headrace.common.logical_types import bigint
from headrace.graph.changelog_specs import DeduplicateSpec, RankSpec
from headrace.graph.table_window_specs import WindowRankSpec
from headrace.operators.changelog.order import RankRange, RankStrategy
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.scalars import InputRef, Literal, Scalar, SortKey
from headrace.table.logical.schema import Field, Schema, TimeAttribute, unique_names
from headrace.table.options import MINI_BATCH, MINI_BATCH_SIZE
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, UpdateKind, never
from headrace.table.physical.conversion import ConversionContext, conversion_rule, converted
from headrace.table.physical.keys import Keys, one_key
from headrace.table.physical.node import (
    Edges,
    PhysicalNode,
    ScalarText,
    Terms,
    names_text,
    order_text,
    with_unique_names,
)
from headrace.table.physical.over import bounded_rank
from headrace.table.physical.translation import GraphBuilder, by_key, sort_fields
from headrace.table.physical.windows import WindowColumns, window_columns
from headrace.table.rules import rank as rules


@dataclass(frozen=True)
class Rank(PhysicalNode):
    """The rows of each group whose rank lies in a range.

    Attributes:
        strategy: the way to rank, which the changes of the input determine; None until they are inferred.
        has_updates: whether plans show updates of the first row, as Flink's do where there are mini-batches.
        shows_insertions: whether plans show no updates, as Flink's do of the first row in any but a descending order.
    """

    name: ClassVar[str] = "Rank"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        lambda node, inputs: Modify.INSERT if node.only_inserts(inputs[0]) else Modify.ALL,
        needs=lambda node, _index, _wanted: node.needs,
        adapts=True,
    )
    input: PhysicalNode
    function: str
    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    start: int
    end: int | None
    rank: Field
    end_column: int | None = None
    shows_rank: bool = False
    strategy: RankStrategy = RankStrategy.APPEND
    unique_key: tuple[int, ...] = ()
    has_updates: bool = False
    shows_insertions: bool = False

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        return with_unique_names(Schema((*given, self.rank))) if self.shows_rank else given

    @property
    def is_deduplication(self) -> bool:
        """Return whether it keeps the first or the last row by a time attribute."""
        one = self.function == "ROW_NUMBER" and (self.start, self.end) == (1, 1) and not self.shows_rank
        return one and len(self.order_by) == 1 and self.input.schema[self.order_by[0].index].time is not None

    @property
    def keeps_last(self) -> bool:
        """Return whether a deduplication keeps the last row."""
        return self.order_by[0].descending

    def only_inserts(self, given: Modify) -> bool:
        """Return whether no row is ever retracted, given the changes of its input."""
        if given is not Modify.INSERT or self.has_updates:
            return False
        return self.shows_insertions or (self.is_deduplication and not self.keeps_last)

    @property
    def needs(self) -> UpdateKind:
        """The row kinds by which the rank needs the updates of its input."""
        return needed_by(self.strategy)

    @property
    def upsert_keys(self) -> Keys:
        found = self.input.upsert_keys
        if self.shows_rank:
            return found | one_key((*self.partition_by, len(self.input.schema)))
        return found | one_key(self.partition_by) if (self.start, self.end) == (1, 1) else found

    @property
    def requires_watermark(self) -> bool:
        return bool(self.order_by) and self.input.schema[self.order_by[0].index].time is TimeAttribute.ROWTIME

    def terms(self, text: ScalarText) -> Terms:
        schema = self.input.schema
        yield "strategy", strategy_text(self.strategy, self.unique_key)
        yield "rankType", self.function
        yield "rankRange", self._range_text()
        yield "partitionBy", names_text([schema.names[index] for index in self.partition_by])
        yield "orderBy", self._order_text()
        yield "select", names_text(self.schema.names)

    def _order_text(self) -> str:
        schema = self.input.schema
        first = self.order_by[0] if self.order_by else None
        is_time = first is not None and schema[first.index].time is TimeAttribute.ROWTIME
        return f"{'ROWTIME ' if is_time else ''}{order_text(self.order_by, schema)}"

    def _range_text(self) -> str:
        if self.end is None and self.end_column is not None:
            return f"rankEnd={self.input.schema.names[self.end_column]}"
        return f"rankStart={self.start}, rankEnd={self.end}"

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        schema = self.input.schema
        keyed = by_key(inputs[0], schema, self.partition_by)
        before = self.mode.takes_update_before
        if self.is_deduplication and self.strategy is RankStrategy.APPEND:
            key = self.order_by[0]
            field = key.index if schema[key.index].time is TimeAttribute.ROWTIME else None
            has_mini_batches = builder.settings.get(MINI_BATCH) and field is None and not builder.is_batch
            spec = DeduplicateSpec(
                keeps_last=self.keeps_last,
                time_field=field,
                update_before=before,
                mini_batch=(builder.settings.get(MINI_BATCH_SIZE), self.partition_by) if has_mini_batches else None,
                ttl=builder.state_ttl,
            )
            return builder.add(spec, "Deduplicate", keyed)
        ranks = RankRange(self.start, self.end, self.end_column, self.shows_rank)
        rank = RankSpec(
            order=sort_fields(self.order_by, schema),
            ranks=ranks,
            strategy=self.strategy,
            unique_key=self.unique_key,
            update_before=before,
            rank_name=self.schema.names[-1],
            ttl=builder.state_ttl,
        )
        return builder.add(rank, self.name, keyed)


@dataclass(frozen=True)
class WindowRank(PhysicalNode):
    """The first rows of each window and group in an order, once the window has ended."""

    name: ClassVar[str] = "WindowRank"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(never, takes=Modify.INSERT)
    input: PhysicalNode
    windowing: WindowColumns
    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    start: int
    end: int
    rank: Field | None

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        if self.rank is None:
            return given
        return Schema((*given, self.rank)).renamed(unique_names((*given.names, self.rank.name)))

    @property
    def title(self) -> str:
        return "WindowDeduplicate" if self.is_deduplicate else self.name

    @property
    def is_deduplicate(self) -> bool:
        """Return whether it keeps the first or the last row in event time."""
        one = (self.start, self.end) == (1, 1) and len(self.order_by) == 1
        return one and self.input.schema[self.order_by[0].index].time is TimeAttribute.ROWTIME

    @property
    def requires_watermark(self) -> bool:
        return True

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        yield "window", self.windowing.text(names)
        keys = names_text([names[index] for index in self.partition_by])
        if self.is_deduplicate:
            yield "keep", "LastRow" if self.order_by[0].descending else "FirstRow"
            yield "partitionKeys", keys
            yield "orderKey", names[self.order_by[0].index]
            yield "order", "ROWTIME"
            return
        yield "rankType", "ROW_NUMBER"
        yield "rankRange", f"rankStart={self.start}, rankEnd={self.end}"
        yield "partitionBy", keys
        yield "orderBy", order_text(self.order_by, self.input.schema)
        yield "select", names_text(self.schema.names)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        assert self.windowing.end is not None
        spec = WindowRankSpec(
            end_field=self.windowing.end,
            order=sort_fields(self.order_by, self.input.schema),
            ranks=RankRange(self.start, self.end, shows_rank=self.rank is not None),
            zone=self.windowing.window.zone(builder),
            last_of_equal=self.is_deduplicate and self.order_by[0].descending,
            rank_name=self.schema.names[-1],
        )
        return builder.add(spec, self.name, by_key(inputs[0], self.input.schema, self.partition_by))


@conversion_rule(rules.LogicalRank)
def _rank(rank: rules.LogicalRank, context: ConversionContext) -> PhysicalNode:
    return converted_rank(rank, context)


def converted_rank(
    rank: rules.LogicalRank, context: ConversionContext, *, has_updates: bool = False, shows_insertions: bool = False
) -> PhysicalNode:
    """The plan of a Top-N; the flags are those of :class:`Rank`.

    Raises:
        PlanningError: when no operator can compute it.
    """
    source = converted(rank.input, context)
    if context.is_batch:
        return bounded_rank(rank, source)
    if rank.function != "ROW_NUMBER":
        raise PlanningError(f"{rank.function}() of streams is not supported: ROW_NUMBER() is")
    if rank.end is not None and rank.end <= 0:
        raise PlanningError(f"Rank end should not less than zero, but now is {rank.end}: the first rank is 1")
    windowed = _window_rank(source, rank)
    if windowed is not None:
        return windowed
    is_one = (rank.start, rank.end) == (1, 1)
    node = Rank(
        Exchange(source, rank.partition_by),
        rank.function,
        rank.partition_by,
        rank.order_by,
        rank.start,
        rank.end,
        rank.rank,
        rank.end_column,
        rank.shows_rank and not is_one,
        has_updates=has_updates,
        shows_insertions=shows_insertions,
    )
    node = with_strategy(node, context)
    return _with_constant_rank(node, rank.rank) if rank.shows_rank and is_one else node


def _with_constant_rank(node: PhysicalNode, rank: Field) -> PhysicalNode:
    """Adds the rank 1 as a column."""
    schema = node.schema
    columns: tuple[Scalar, ...] = InputRef.all_of(schema)
    one = Literal(1, type=bigint().not_null())
    return Calc(node, (*columns, one), unique_names((*schema.names, rank.name)))


def with_strategy(node: Rank, context: ConversionContext) -> Rank:
    """The node with the cheapest strategy for its input."""
    strategy, key = strategy_of(node.input, node.partition_by, node.order_by, context)
    return replace(node, strategy=strategy, unique_key=key)


def needed_by(strategy: RankStrategy) -> UpdateKind:
    """The row kinds by which a strategy needs the updates of its input."""
    if strategy is RankStrategy.RETRACT:
        return UpdateKind.BEFORE_AND_AFTER
    return UpdateKind.ONLY_AFTER if strategy is RankStrategy.UPDATE else UpdateKind.NONE


def strategy_text(strategy: RankStrategy, unique_key: Sequence[int]) -> str:
    """A strategy in the form of plans."""
    shown = f"[{','.join(map(str, unique_key))}]" if strategy is RankStrategy.UPDATE else ""
    return f"{strategy.value}{shown}"


def strategy_of(
    source: PhysicalNode, partition_by: Sequence[int], order_by: Sequence[SortKey], context: ConversionContext
) -> tuple[RankStrategy, tuple[int, ...]]:
    """The cheapest strategy for a node's rows, and the unique key by which updates replace rows."""
    if context.is_batch or not context.does(source):
        return RankStrategy.APPEND, ()
    key = _unique_key_that_rises(source, partition_by, order_by, context)
    return RankStrategy.UPDATE if key else RankStrategy.RETRACT, key


def _unique_key_that_rises(
    source: PhysicalNode, partition_by: Sequence[int], order_by: Sequence[SortKey], context: ConversionContext
) -> tuple[int, ...]:
    """The unique key of rows whose updates only move them up, so that rows below the last rank need not be stored.

    These are aggregates of append-only input: ``COUNT`` and ``MAX`` only rise.
    """
    node, places = source, list(range(len(source.schema)))
    while isinstance(node, Calc | Exchange):
        if isinstance(node, Calc):
            if node.condition is not None:
                return ()
            found = [node.expressions[place] if place >= 0 else None for place in places]
            places = [each.index if isinstance(each, InputRef) else -1 for each in found]
        node = node.input
    if not isinstance(node, GroupAggregate) or context.does(node.input):
        return ()
    keys = tuple(places.index(index) if index in places else -1 for index in range(len(node.group)))
    if -1 in keys or not set(partition_by) <= set(keys) or not order_by:
        return ()
    rises = all(_rises(node, places[key.index], descending=key.descending) for key in order_by)
    return keys if rises else ()


def _rises(node: GroupAggregate, place: int, *, descending: bool) -> bool:
    """Return whether the updates of a group never lower it in the order of a column; its keys stay what they are."""
    if place < len(node.group):
        return place >= 0
    return node.calls[place - len(node.group)].function in (("COUNT", "MAX") if descending else ("MIN",))


def _windows_of_groups(source: PhysicalNode) -> WindowColumns | None:
    """The window columns of rows, or of groups of rows by their windows, whose updates Flink refuses to rank."""
    if not isinstance(source, GroupAggregate):
        return window_columns(source)
    below = window_columns(source.input)
    return None if below is None else below.through({index: at for at, index in enumerate(source.group)})


def _window_rank(source: PhysicalNode, rank: rules.LogicalRank) -> PhysicalNode | None:
    """The plan of a window Top-N; None if the rank's partition keys do not include a window."""
    columns = _windows_of_groups(source)
    if columns is None or columns.start not in rank.partition_by or columns.end not in rank.partition_by:
        return None
    if rank.end is None or rank.function != "ROW_NUMBER":
        raise PlanningError("a window Top-N needs ROW_NUMBER() with a constant limit")
    keys = tuple(index for index in rank.partition_by if index not in columns.places)
    shown = rank.rank if rank.shows_rank else None
    node = WindowRank(Exchange(source, keys), columns, keys, rank.order_by, rank.start, rank.end, shown)
    if shown is not None and node.is_deduplicate:
        return _with_constant_rank(replace(node, rank=None), shown)
    return node
