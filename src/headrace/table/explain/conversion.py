"""Conversion rules of plans that are shown, in place of those of plans that are executed.

Flink's plans compute some aggregates by simpler ones with an expression above: deviations, and averages beside sums.
The calls that are executed are those that are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Final

from headrace.common.logical_types import ArrayType, AtomicType, LogicalType, RowType, TypeRoot
from headrace.table.explain.over import converted_rank as rank_of_batch
from headrace.table.functions.types import BIGINT, DOUBLE, INT, STRING
from headrace.table.logical.relations import LogicalAggregate, LogicalCorrelate, LogicalJoin, Unnest
from headrace.table.logical.scalars import AggregateCall, Branch, Call, Case, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Schema, unique_names
from headrace.table.options import MINI_BATCH
from headrace.table.physical.basic import Calc, ValuesScan, projected
from headrace.table.physical.broadcast_joins import executed_join
from headrace.table.physical.conversion import RULES, ConversionContext, ConversionRules, converted
from headrace.table.physical.correlates import Correlate, converted_correlate
from headrace.table.physical.grouping import MakeAggregate, converted_aggregate, equal, literal, maker_of
from headrace.table.physical.joins import without_times
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.ranks import converted_rank
from headrace.table.physical.windows import window_columns
from headrace.table.rules.rank import LogicalRank


def _rank(rank: LogicalRank, context: ConversionContext) -> PhysicalNode:
    """A Top-N of streams: it has updates with mini-batches, and none of a first row in any but a descending order."""
    is_descending = len(rank.order_by) == 1 and rank.order_by[0].descending
    return converted_rank(
        rank,
        context,
        has_updates=context.settings.get(MINI_BATCH),
        shows_insertions=(rank.start, rank.end) == (1, 1) and not is_descending,
    )


def _join(join: LogicalJoin, context: ConversionContext) -> PhysicalNode:
    """A join of batch mode, whose times are plain columns."""
    left, right = converted(join.left, context), converted(join.right, context)
    return executed_join(join, without_times(left), without_times(right), context)


def _correlate(correlate: LogicalCorrelate, context: ConversionContext) -> PhysicalNode:
    return converted_correlate(correlate, context, _with_flink_names)


def _unnest(unnest: Unnest, context: ConversionContext) -> PhysicalNode:
    """The unnesting of a constant collection, over a row without columns."""
    if len(unnest.operands) != 1:
        return RULES[Unnest](unnest, context)
    nothing = ValuesScan(((),), Schema(()))
    return _with_flink_names(Correlate(nothing, unnest.operands[0], unnest.columns, unnest.with_ordinality), "")


def _with_flink_names(node: Correlate, correlation: str) -> PhysicalNode:
    """The rows as plans show them: Flink gives the columns of elements names of its own."""
    elements = [f"f{at}" for at in range(len(node.columns))]
    if node.with_ordinality:
        elements = [*(f"EXPR${at}" for at in range(len(elements) - 1)), "ORDINALITY"]
    if isinstance(node.collection.type, ArrayType) and isinstance(node.collection.type.element, RowType):
        elements[: len(node.collection.type.element.names)] = node.collection.type.element.names
    if node.with_ordinality and node.keeps_empty:
        return replace(node, correlation=correlation)
    named = replace(node, columns=node.columns.renamed(tuple(elements)), correlation=correlation)
    if not len(node.input.schema):
        return named
    names = (*node.input.schema.names, *node.columns.names)
    return projected(named, InputRef.all_of(named.schema), names)


_BIGINT: Final = BIGINT.not_null()
_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_DEVIATIONS: Final = frozenset(("STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VAR_POP", "VAR_SAMP", "VARIANCE"))
_REDUCED: Final = _DEVIATIONS | {"AVG", "SUM"}
_WELFORD: Final = "$WELFORD_M2$1"
_JSON: Final = ("JSON_ARRAYAGG", "JSON_OBJECTAGG")


def _aggregate(aggregate: LogicalAggregate, context: ConversionContext) -> PhysicalNode:
    """The plan of an aggregate as it is shown."""
    make = partial(_reduced_or_whole, maker_of(aggregate, context, shows_phases=True))
    return converted_aggregate(aggregate, context, make, INT.not_null())


def _reduced_or_whole(
    make: MakeAggregate,
    source: PhysicalNode,
    group: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, ...],
) -> PhysicalNode:
    """The plan of an aggregate with its calls as plans show them."""
    source, calls = _with_json_arguments(source, calls)
    calls = tuple(_as_sum(call, source) for call in calls)
    summed = frozenset(call.operands for call in calls if call.function == "SUM" and not call.is_distinct)
    reduced = _Reduced(source, group, names[len(group) :], summed)
    results = [reduced.result(call, at) for at, call in enumerate(calls)]
    if len(reduced.calls) >= len(calls) and not any(call.function in _DEVIATIONS for call in calls):
        return make(source, group, calls, names)
    labels = (*names[: len(group)], *reduced.names)
    node = make(source, group, tuple(reduced.calls), labels)
    keys = InputRef.all_of(node.schema)[: len(group)]
    return projected(node, (*keys, *results), unique_names(names))


@dataclass
class _Reduced:
    """The calls that compute others, each once.

    Attributes:
        source: the rows.
        group: the grouping columns.
        given: the names of the results as they are written.
        summed: the operands of sums.
    """

    source: PhysicalNode
    group: tuple[int, ...]
    given: Sequence[str]
    summed: frozenset[tuple[int, ...]]
    calls: list[AggregateCall] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def result(self, call: AggregateCall, place: int) -> Scalar:
        """The result of a call, over the columns of the simpler ones."""
        if call.is_distinct or call.function not in _REDUCED:
            return self._add(call, self.given[place])
        if call.function == "SUM":
            return self._sum(call, self.given[place])
        count = replace(call, function="COUNT", type=_BIGINT, name=None)
        if not self.source.schema.types[call.operands[0]].nullable:
            count = replace(count, operands=())
        if call.function == "AVG":
            total = replace(call, function="SUM", type=self._sum_type(call), name=None)
            found = self._sum(total, None) if call.operands in self.summed else self._add(total)
            return _quotient(found, self._add(count), call.type)
        squares = self._add(replace(call, function=_WELFORD, type=DOUBLE, name=None))
        return _deviation(call, squares, self._add(count))

    def _sum(self, call: AggregateCall, name: str | None) -> Scalar:
        kind = call.type
        total = self._add(replace(call, function="$SUM0", type=kind.not_null(), name=None), name)
        if not kind.nullable:
            return total
        count = self._add(replace(call, function="COUNT", type=_BIGINT, name=None))
        return Case((Branch(equal(count, 0), Literal(None, type=kind)),), total, type=kind)

    def _sum_type(self, call: AggregateCall) -> LogicalType:
        kind = replace(self.source.schema.types[call.operands[0]], nullable=call.type.nullable)
        is_decimal = isinstance(kind, AtomicType) and kind.root is TypeRoot.DECIMAL
        return replace(kind, size=38) if is_decimal and isinstance(kind, AtomicType) else kind

    def _add(self, call: AggregateCall, name: str | None = None) -> Scalar:
        """The column of a call, which has a generated name if it has none yet."""
        found = next((at for at, each in enumerate(self.calls) if _is_same(each, call)), None)
        if found is None:
            found = len(self.calls)
            self.calls.append(call)
            self.names.append(name or f"$f{self._keys + found}")
        return InputRef(len(self.group) + found, type=self.calls[found].type, time=call.time)

    @property
    def _keys(self) -> int:
        """The number of keys beside a window."""
        columns = window_columns(self.source)
        places = () if columns is None else columns.places
        return sum(index not in places for index in self.group)


def _as_sum(call: AggregateCall, source: PhysicalNode) -> AggregateCall:
    """A call of ``SUM`` of a computed column, which plans do not show as ``$SUM0`` if the column is never NULL."""
    if call.function != "SUM" or not isinstance(source, Calc):
        return call
    is_computed = not isinstance(source.expressions[call.operands[0]], InputRef)
    is_of_function = source.input.title == "WindowTableFunction"
    return replace(call, type=call.type.as_nullable()) if is_computed or is_of_function else call


def _is_same(one: AggregateCall, other: AggregateCall) -> bool:
    return replace(one, name=None, type=other.type) == replace(other, name=None)


def _quotient(total: Scalar, count: Scalar, kind: LogicalType) -> Scalar:
    if isinstance(kind, AtomicType) and kind.root is TypeRoot.DECIMAL:
        return Call("/", (Cast(total, type=kind), count), type=kind)
    found = Call("/", (total, count), type=kind)
    is_narrow = isinstance(kind, AtomicType) and kind.root in _INTEGERS and kind.root is not TypeRoot.BIGINT
    return Cast(found, type=kind) if is_narrow else found


def _deviation(call: AggregateCall, total: Scalar, count: Scalar) -> Scalar:
    """The variance of values from the sum of their squared distances, or its root."""
    divisor = count
    if not call.function.endswith("_POP"):
        less = Call("-", (count, literal(1)), type=BIGINT)
        divisor = Case((Branch(equal(count, 1), Literal(None, type=BIGINT)),), less, type=BIGINT)
    found: Scalar = Call("/", (total, divisor), type=DOUBLE)
    if call.function.startswith("STDDEV"):
        half = Literal(Decimal("0.5"), type=AtomicType(TypeRoot.DECIMAL, 2, 1, nullable=False))
        found = Call("POWER", (found, half), type=DOUBLE)
    return found if call.type.as_nullable() == DOUBLE else Cast(found, type=call.type)


def _with_json_arguments(
    source: PhysicalNode, calls: tuple[AggregateCall, ...]
) -> tuple[PhysicalNode, tuple[AggregateCall, ...]]:
    """Calls that make JSON, over columns that are JSON already."""
    columns: list[Scalar] = list(InputRef.all_of(source.schema))
    names, made = list(source.schema.names), []
    for call in calls:
        operands = call.operands
        if call.function in _JSON:
            *keys, value = operands
            text = Call("JSON_STRING", (columns[value],), type=STRING)
            if text not in columns:
                columns.append(text)
                names.append(f"$f{len(names)}")
            operands = (*keys, columns.index(text))
        made.append(replace(call, operands=operands))
    is_same = len(columns) == len(source.schema)
    return (source if is_same else projected(source, columns, names)), tuple(made)


_OF_BOTH: Final[ConversionRules] = {
    LogicalAggregate: _aggregate,
    LogicalCorrelate: _correlate,
    Unnest: _unnest,
}
RULES_OF_STREAMS: Final[ConversionRules] = {**_OF_BOTH, LogicalRank: _rank}
RULES_OF_BATCH: Final[ConversionRules] = {**_OF_BOTH, LogicalRank: rank_of_batch, LogicalJoin: _join}
