"""Joins of batch mode whose build side every task computes for itself, so that neither input is shuffled.

Which joins these are follows from the statistics of tables: computing the build side in every task has to cost less
than shuffling both inputs. Of other joins an input may be filtered by the keys of the other one in this way before it
is shuffled (Flink's runtime filters).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

from headrace.common import options
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.graph.join_specs import BroadcastJoinSpec
from headrace.operators.join.bounded_rows import BoundedRows
from headrace.operators.join.broadcast_join import BroadcastHashJoin, JoinedRows
from headrace.operators.join.key_index import can_be_key
from headrace.operators.join.regular.definition import JoinDefinition
from headrace.operators.join.results import JoinType
from headrace.table.logical import relations as logical
from headrace.table.logical.relations import LogicalAggregate, LogicalJoin, Relation, Scan
from headrace.table.logical.scalars import BOOLEAN, Call, InputRef, Scalar, all_of, input_refs, moved
from headrace.table.logical.schema import Schema
from headrace.table.options import BROADCAST_THRESHOLD, RUNTIME_FILTER
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.bounded_sides import are_plain, can_be_computed, register_join, rows_of
from headrace.table.physical.conversion import ConversionContext, converted
from headrace.table.physical.joins import (
    JOIN_NAMES,
    HashJoin,
    JoinKeys,
    NestedLoopJoin,
    SortMergeJoin,
    bounded_join,
    pairs_of,
)
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.row_counts import size_of
from headrace.table.physical.translation import GraphBuilder, compiled, record_type
from headrace.table.rules.estimates import Estimates

_SHUFFLE: Final = 12.0
"""The cost of shuffling a row, where that of reading a number is 1."""
_STAGE: Final = 4_000_000.0
"""The cost of a shuffle, however little is shuffled."""
_INDEX: Final = 4.0
"""The cost of a row of a build side, which others are looked up in; twice that where there are very many."""
_MANY: Final = 2_000_000.0
_OF_GROUPS: Final = 10.0
"""The cost of aggregating a row."""
_NUMBER, _OTHER = 1.0, 3.0
"""The costs of reading a number, and a value of another type."""
_NUMBERS: Final = frozenset(
    (
        *(TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT),
        *(TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE, TypeRoot.TIME),
    )
)
_COMPARISON, _PATTERN = 0.5, 8.0
"""The costs of comparing a value, and of looking whether a text fits a pattern."""
_PATTERNS: Final = frozenset(("LIKE", "SIMILAR TO", "REGEXP"))
_LARGEST: Final = 256 << 20
"""The estimated bytes of a build side, where the program does not set how many may be broadcast."""
_FILTERS: Final = 0.5
"""A filter is worth its cost where it keeps at most so many rows."""
_SHUFFLING_HINTS: Final = ("SHUFFLE_HASH", "SHUFFLE_MERGE")


@dataclass(frozen=True)
class BuildSide:
    """The rows that each task computes; not an input, since nothing is sent."""

    node: PhysicalNode


@dataclass(frozen=True)
class BroadcastJoin(PhysicalNode):
    """A hash join of rows with a build side that each task computes.

    Attributes:
        build: the build side.
        kind: the kind of join.
        condition: the condition over the columns of both.
        keys: the columns that it compares for equality.
        builds_left: whether the build side is the left input.
        columns: the columns of the result among those of both; of the left input for a semi or anti join.
    """

    name: ClassVar[str] = "HashJoin"
    input: PhysicalNode
    build: BuildSide
    kind: JoinType
    condition: Scalar
    keys: JoinKeys
    builds_left: bool
    columns: tuple[int, ...]

    @property
    def sides(self) -> tuple[Schema, Schema]:
        """The columns of the left and of the right input."""
        given, own = self.input.schema, self.build.node.schema
        return (own, given) if self.builds_left else (given, own)

    @cached_property
    def pairs(self) -> Schema:
        """The columns of both inputs."""
        return pairs_of(*self.sides, self.kind)

    @cached_property
    def schema(self) -> Schema:
        given = self.sides[0] if self.kind in (JoinType.SEMI, JoinType.ANTI) else self.pairs
        return Schema(tuple(given[index] for index in self.columns))

    def terms(self, text: ScalarText) -> Terms:
        yield "joinType", JOIN_NAMES[self.kind]
        yield "where", text(self.condition, self.pairs.names)
        yield "select", names_text(self.schema.names)
        yield "isBroadcast", "true"
        yield "build", "left" if self.builds_left else "right"

    @property
    def identity(self) -> str:
        return "\n".join([super().identity, *(each.identity for each in self.build.node.walk())])

    def reading(self, read: Sequence[int]) -> BroadcastJoin:
        """The same join with some of its columns."""
        return replace(self, columns=tuple(self.columns[index] for index in read))

    def hash_join(self, builder: GraphBuilder) -> BroadcastHashJoin:
        """The join in the form that operators take."""
        left, right = map(record_type, self.sides)
        rest, keys = self.keys.rest, self.keys
        definition = JoinDefinition(
            self.kind,
            (left, right),
            record_type(self.pairs),
            record_type(self.schema),
            compiled(all_of(rest), self.pairs, builder) if rest else None,
            (keys.strict(keys.left), keys.strict(keys.right)),
        )
        build = rows_of(self.build.node, builder)
        return BroadcastHashJoin(definition, build, (keys.left, keys.right), self.builds_left, self.columns)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        return builder.add(BroadcastJoinSpec(self.hash_join(builder)), self.name, *inputs)


def _is_plain(join: BroadcastJoin) -> bool:
    return are_plain(join.keys.rest) and can_be_computed(join.build.node)


def _rows_of_join(join: BroadcastJoin, builder: GraphBuilder) -> BoundedRows:
    return JoinedRows(record_type(join.schema), rows_of(join.input, builder), join.hash_join(builder))


def _can_be_broadcast(join: HashJoin) -> bool:
    has_plain_keys = _have_plain_keys(join.keys, join.left, join.right)
    return join.kind is not JoinType.FULL and has_plain_keys and are_plain(join.keys.rest)


def _rows_of_hash_join(join: HashJoin, builder: GraphBuilder) -> BoundedRows:
    builds_left = join.kind is JoinType.RIGHT or (join.kind is JoinType.INNER and join.has_smaller_left)
    inputs = without_exchange(join.left), without_exchange(join.right)
    return rows_of(_broadcast(*inputs, join.kind, join.condition, builds_left=builds_left), builder)


for _kind in (HashJoin, NestedLoopJoin, SortMergeJoin):
    register_join(_kind, _can_be_broadcast, _rows_of_hash_join)
register_join(BroadcastJoin, _is_plain, _rows_of_join)


def _have_plain_keys(keys: JoinKeys, left: PhysicalNode, right: PhysicalNode) -> bool:
    """Return whether keys can be looked up by value, and NULL matches nothing."""
    pairs = zip(keys.left, keys.right, strict=True)
    types = [(left.schema[one].type.arrow_type, right.schema[other].type.arrow_type) for one, other in pairs]
    return not any(keys.null_safe) and all(one == other and can_be_key(one) for one, other in types)


def without_exchange(node: PhysicalNode) -> PhysicalNode:
    """A node whose rows stay in their task."""
    return node.input if isinstance(node, Exchange) else node


def _broadcast(
    left: PhysicalNode, right: PhysicalNode, kind: JoinType, condition: Scalar, *, builds_left: bool
) -> BroadcastJoin:
    given, build = (right, left) if builds_left else (left, right)
    width = len(left.schema)
    count = width if kind in (JoinType.SEMI, JoinType.ANTI) else width + len(right.schema)
    keys = JoinKeys.of(condition, width)
    return BroadcastJoin(given, BuildSide(build), kind, condition, keys, builds_left, tuple(range(count)))


# --- the choice ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Costs:
    """Estimated costs of plans; that of reading a row is 1.

    Attributes:
        estimates: the estimates of rows.
        tasks: the number of tasks at the same time.
        limit: the most bytes of a build side.
    """

    estimates: Estimates
    tasks: int
    limit: float

    @staticmethod
    def of(context: ConversionContext) -> _Costs | None:
        """The costs by which a statement is planned; None where joins stay as they are."""
        threshold = context.settings.get(BROADCAST_THRESHOLD)
        if context.estimates is None or (threshold is not None and threshold < 0):
            return None
        tasks = context.settings.get(options.PARALLELISM) or os.cpu_count() or 1
        return _Costs(context.estimates, tasks, _LARGEST if threshold is None else threshold)

    def of_computing(self, relation: Relation) -> float:
        """The cost of computing a relation once."""
        return sum(map(self._of_node, relation.walk()))

    def _of_node(self, relation: Relation) -> float:
        rows = self.estimates.rows
        if isinstance(relation, LogicalAggregate):
            return _OF_GROUPS * rows(relation.input)
        if isinstance(relation, LogicalJoin):
            return rows(relation) + _INDEX * rows(relation.right) + _COMPARISON * rows(relation.left)
        if isinstance(relation, logical.Filter):
            calls = [each.function for each in relation.condition.walk() if isinstance(each, Call)]
            return rows(relation.input) * sum(_PATTERN if each in _PATTERNS else _COMPARISON for each in calls)
        return rows(relation) * _width(relation) if isinstance(relation, Scan) else 0.0

    def of_broadcasting(self, relation: Relation) -> float:
        """The additional cost of computing a build side in every task instead of once."""
        return (self.tasks - 1) * self.of_computing(relation) + self.tasks * self._of_index(relation)

    def in_every_task(self, relation: Relation) -> float:
        """The cost of computing a build side in every task."""
        return self.tasks * (self.of_computing(relation) + self._of_index(relation))

    def _of_index(self, relation: Relation) -> float:
        rows = self.estimates.rows(relation)
        return rows * (_INDEX if rows <= _MANY else 2 * _INDEX)

    def of_shuffling(self, join: LogicalJoin) -> float:
        """The cost of shuffling both inputs of a join."""
        return _STAGE + _SHUFFLE * (self.estimates.rows(join.left) + self.estimates.rows(join.right))

    def fits(self, relation: Relation) -> bool:
        """Return whether a relation may be a build side: its size is known, and not above the limit."""
        if not self.estimates.are_known(relation):
            return False
        return self.estimates.rows(relation) * size_of(relation.schema) <= self.limit


def executed_join(
    join: LogicalJoin, left: PhysicalNode, right: PhysicalNode, context: ConversionContext
) -> PhysicalNode:
    """The join of two bounded inputs in the way that costs least."""
    costs, threshold = _Costs.of(context), context.settings.get(BROADCAST_THRESHOLD)
    if costs is None:
        return bounded_join(join, left, right, threshold)
    has_smaller_left = costs.estimates.rows(join.left) < costs.estimates.rows(join.right)
    filters = _filters(join, left, right, costs, context)
    of_groups = [None if each is None or not each.is_of_groups else each for each in filters]
    left, right = _filtered(left, of_groups[0]), _filtered(right, of_groups[1])
    others = [None if each is None or each.is_of_groups else each for each in filters]
    saved = sum(each.saved for each in others if each is not None)
    broadcast = _broadcast_join(join, left, right, costs, costs.of_shuffling(join) - saved)
    if broadcast is not None:
        return broadcast
    left, right = _filtered(left, others[0]), _filtered(right, others[1])
    return bounded_join(join, left, right, threshold, has_smaller_left=has_smaller_left)


def _filtered(node: PhysicalNode, key_filter: _KeyFilter | None) -> PhysicalNode:
    return node if key_filter is None else key_filter.pushed(node, key_filter.columns)


def _width(scan: Scan) -> float:
    """The cost of reading a row."""
    return sum(map(_cost_of_reading, scan.columns.types))


def _cost_of_reading(kind: LogicalType) -> float:
    return _NUMBER if isinstance(kind, AtomicType) and kind.root in _NUMBERS else _OTHER


def _broadcast_join(
    join: LogicalJoin, left: PhysicalNode, right: PhysicalNode, costs: _Costs, most: float
) -> PhysicalNode | None:
    """The join with a build side that each task computes, where that costs no more than something else."""
    hints = dict(join.sides_of_hints)
    if join.kind is JoinType.FULL or not hints.keys().isdisjoint(_SHUFFLING_HINTS):
        return None
    if not _have_plain_keys(JoinKeys.of(join.condition, len(left.schema)), left, right):
        return None
    found = []
    for builds_left in _build_sides(join.kind):
        relation, node = (join.left, left) if builds_left else (join.right, right)
        if not can_be_computed(node) or not costs.fits(relation):
            continue
        cost = costs.of_broadcasting(relation)
        is_requested = hints.get("BROADCAST") == ("LEFT" if builds_left else "RIGHT")
        if is_requested or cost <= most:
            found.append((not is_requested, cost, builds_left))
    if not found:
        return None
    *_, builds_left = min(found)
    return _broadcast(left, right, join.kind, join.condition, builds_left=builds_left)


def _build_sides(kind: JoinType) -> tuple[bool, ...]:
    """The inputs that can be the build side: whether each is the left one."""
    if kind is JoinType.INNER:
        return (False, True)
    return (kind is JoinType.RIGHT,)


# --- runtime filters -------------------------------------------------------------------------------------------------


def _filters(
    join: LogicalJoin, left: PhysicalNode, right: PhysicalNode, costs: _Costs, context: ConversionContext
) -> tuple[_KeyFilter | None, _KeyFilter | None]:
    """The filters of both inputs of a join, which keep rows whose keys the other one may have; None for none."""
    keys = JoinKeys.of(join.condition, len(left.schema))
    is_requested = context.settings.get(RUNTIME_FILTER) is not False
    if not is_requested or not keys.left or not _have_plain_keys(keys, left, right):
        return None, None
    of_left = of_right = None
    if join.kind not in (JoinType.RIGHT, JoinType.FULL):
        of_right = _best_filter(join.right, keys.right, join.left, keys.left, costs, context)
    if join.kind in (JoinType.INNER, JoinType.SEMI, JoinType.RIGHT):
        of_left = _best_filter(join.left, keys.left, join.right, keys.right, costs, context)
    return of_left, of_right


@dataclass(frozen=True)
class _KeyFilter:
    """A filter of rows by the keys of others.

    Attributes:
        node: computes the others.
        keys: their columns of the key, or of a part of it.
        columns: the same columns of the rows that are filtered.
        saved: what it saves, less what it costs.
        is_of_groups: whether rows are filtered before they are grouped.
    """

    node: PhysicalNode
    keys: tuple[int, ...]
    columns: tuple[int, ...]
    saved: float
    is_of_groups: bool

    def pushed(self, node: PhysicalNode, columns: Sequence[int]) -> PhysicalNode:
        """A node whose rows are filtered by some columns, as far below as that is possible."""
        if isinstance(node, Exchange):
            return node.with_inputs([self.pushed(node.input, columns)])
        found = None
        if isinstance(node, Calc):
            found = self._below_calc(node, columns)
        elif isinstance(node, GroupAggregate) and set(columns) <= set(range(len(node.group))):
            found = node.with_inputs([self.pushed(node.input, [node.group[index] for index in columns])])
        elif isinstance(node, HashJoin):
            found = self._below_join(node, columns)
        return self._over(node, columns) if found is None else found

    def _below_calc(self, calc: Calc, columns: Sequence[int]) -> PhysicalNode | None:
        below = [calc.expressions[index] for index in columns]
        places = [each.index for each in below if isinstance(each, InputRef)]
        if len(places) < len(below) or not isinstance(calc.input, GroupAggregate | HashJoin | Exchange):
            return None
        return calc.with_inputs([self.pushed(calc.input, places)])

    def _below_join(self, join: HashJoin, columns: Sequence[int]) -> PhysicalNode | None:
        width = len(join.left.schema)
        if all(index < width for index in columns) and join.kind not in (JoinType.RIGHT, JoinType.FULL):
            return join.with_inputs([self.pushed(join.left, columns), join.right])
        if all(index >= width for index in columns) and join.kind in (JoinType.INNER, JoinType.RIGHT):
            return join.with_inputs([join.left, self.pushed(join.right, [index - width for index in columns])])
        return None

    def _over(self, node: PhysicalNode, columns: Sequence[int]) -> PhysicalNode:
        width, given, own = len(node.schema), node.schema, self.node.schema
        pairs = zip(columns, self.keys, strict=True)
        columns_of_pairs = [
            (InputRef(one, type=given.types[one]), InputRef(width + other, type=own.types[other]))
            for one, other in pairs
        ]
        equalities = [Call("=", pair, type=BOOLEAN) for pair in columns_of_pairs]
        return _broadcast(node, self.node, JoinType.SEMI, all_of(equalities), builds_left=False)


def _best_filter(
    filtered: Relation,
    columns: Sequence[int],
    others: Relation,
    keys: Sequence[int],
    costs: _Costs,
    context: ConversionContext,
) -> _KeyFilter | None:
    """The filter of a relation that saves most; None where none does."""
    best, most = None, 0.0
    rows, grouped = costs.estimates.rows(filtered), _grouped_rows(filtered, columns, costs)
    gain = _SHUFFLE * rows if grouped is None else _OF_GROUPS * grouped
    if gain < _SHUFFLE * _FEWEST_FILTERED:
        return None
    for own, others_own in _parts_of_keys(columns, keys):
        for relation, places in _providers(others, others_own):
            if not costs.fits(relation):
                continue
            kept = _kept(filtered, own, relation, places, costs)
            saved = gain * (1 - kept) - costs.in_every_task(relation)
            if kept > _FILTERS or saved <= most:
                continue
            node = converted(relation, context)
            if can_be_computed(node):
                best, most = _KeyFilter(node, places, own, saved, grouped is not None), saved
    return best


def _parts_of_keys(columns: Sequence[int], keys: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The columns of a key in both inputs, and each of several alone: fewer columns may be cheaper to compute."""
    yield tuple(columns), tuple(keys)
    if len(columns) > 1:
        yield from (((one,), (other,)) for one, other in zip(columns, keys, strict=True))


_FEWEST_FILTERED: Final = 10_000.0
"""The rows of an input that is filtered."""


def _kept(filtered: Relation, columns: Sequence[int], others: Relation, keys: Sequence[int], costs: _Costs) -> float:
    """The share of the rows of a relation whose keys are among those of others."""
    estimates = costs.estimates
    by_values = estimates.distinct(others, keys) / estimates.distinct(filtered, columns)
    by_rows = [estimates.rows(others) / estimates.rows(scan) for scan in _scans_of(others, keys)]
    return min(max(by_values, *by_rows) if by_rows else by_values, 1.0)


def _scans_of(relation: Relation, columns: Sequence[int]) -> list[Scan]:
    """The tables whose columns some columns are: keys of all rows of a table leave nothing out."""
    scans = [found for index in columns if (found := _scan_of(relation, index)) is not None]
    return list(dict.fromkeys(scans))


def _scan_of(relation: Relation, index: int) -> Scan | None:
    while not isinstance(relation, Scan):
        if isinstance(relation, logical.Project):
            column = relation.expressions[index]
            if not isinstance(column, InputRef):
                return None
            index = column.index
        elif isinstance(relation, LogicalAggregate):
            if index >= len(relation.group):
                return None
            index = relation.group[index]
        elif isinstance(relation, LogicalJoin):
            width = len(relation.left.schema)
            index, relation = (index, relation.left) if index < width else (index - width, relation.right)
            continue
        elif not isinstance(relation, logical.Filter):
            return None
        relation = relation.inputs[0]
    return relation


def _grouped_rows(relation: Relation, columns: Sequence[int], costs: _Costs) -> float | None:
    """The rows that are grouped by some columns of a relation, perhaps among others; None where none are."""
    if isinstance(relation, logical.Project):
        below = [relation.expressions[index] for index in columns]
        places = [each.index for each in below if isinstance(each, InputRef)]
        return _grouped_rows(relation.input, places, costs) if len(places) == len(below) else None
    if isinstance(relation, logical.Filter):
        return _grouped_rows(relation.input, columns, costs)
    is_grouped = isinstance(relation, LogicalAggregate) and set(columns) <= set(range(len(relation.group)))
    return costs.estimates.rows(relation.inputs[0]) if is_grouped else None


def _providers(relation: Relation, columns: tuple[int, ...]) -> Iterator[tuple[Relation, tuple[int, ...]]]:
    """Relations with all keys that some columns of a relation have, and perhaps more; and their columns."""
    yield relation, columns
    if isinstance(relation, logical.Project):
        places = [relation.expressions[index] for index in columns]
        if all(isinstance(each, InputRef) for each in places):
            yield from _providers(relation.input, tuple(each.index for each in places if isinstance(each, InputRef)))
    elif isinstance(relation, logical.Filter):
        yield from _below(relation.input, columns)
    elif isinstance(relation, LogicalAggregate) and set(columns) <= set(range(len(relation.group))):
        yield from _providers(relation.input, tuple(relation.group[index] for index in columns))
    elif isinstance(relation, LogicalJoin):
        yield from _providers_of_join(relation, columns)


def _below(relation: Relation, columns: tuple[int, ...]) -> Iterator[tuple[Relation, tuple[int, ...]]]:
    """The same of the input of a filter, without the input itself."""
    found = _providers(relation, columns)
    next(found)
    yield from found


def _providers_of_join(join: LogicalJoin, columns: tuple[int, ...]) -> Iterator[tuple[Relation, tuple[int, ...]]]:
    width, keys = len(join.left.schema), JoinKeys.of(join.condition, len(join.left.schema))
    of_left = {right + width: left for left, right in zip(keys.left, keys.right, strict=True)}
    of_right = dict(zip(keys.left, keys.right, strict=True))
    if join.kind in (JoinType.INNER, JoinType.SEMI, JoinType.LEFT, JoinType.ANTI):
        lefts = [index if index < width else of_left.get(index) for index in columns]
        known = tuple(each for each in lefts if each is not None)
        if len(known) == len(columns) and (join.kind is not JoinType.LEFT or max(columns) < width):
            yield from _providers(join.left, known)
    if join.kind in (JoinType.INNER, JoinType.SEMI, JoinType.RIGHT):
        rights = [of_right.get(index) if index < width else index - width for index in columns]
        known = tuple(each for each in rights if each is not None)
        if len(known) == len(columns) and (join.kind is not JoinType.RIGHT or min(columns) >= width):
            yield from _providers(join.right, known)


# --- columns ---------------------------------------------------------------------------------------------------------


def with_read_columns(node: PhysicalNode) -> PhysicalNode:
    """A plan in which broadcast joins have the columns that are read."""
    node = node.with_inputs([with_read_columns(each) for each in node.inputs])
    if isinstance(node, BroadcastJoin):
        return replace(node, build=BuildSide(with_read_columns(node.build.node)))
    if not isinstance(node, Calc) or not isinstance(node.input, BroadcastJoin):
        return node
    computed = node.expressions if node.condition is None else (*node.expressions, node.condition)
    read = sorted({index for each in computed for index in input_refs(each)}) or [_cheapest_column(node.input)]
    if len(read) == len(node.input.schema):
        return node
    places = {index: place for place, index in enumerate(read)}
    calc = replace(
        node,
        input=node.input.reading(read),
        expressions=tuple(moved(each, places) for each in node.expressions),
        condition=None if node.condition is None else moved(node.condition, places),
    )
    return calc.input if calc.is_identity else calc


def _cheapest_column(join: BroadcastJoin) -> int:
    """The column of a join that is kept where none is read, since only the number of rows matters."""
    width, types = len(join.sides[0]), join.schema.types

    def cost(column: int) -> tuple[bool, float]:
        is_of_build_side = (join.columns[column] < width) == join.builds_left
        return is_of_build_side, _cost_of_reading(types[column])

    return min(range(len(types)), key=cost)
