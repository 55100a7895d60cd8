"""Flink's plan for the plan that is executed: its nodes, phases of them, and projections where Flink has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce, singledispatch

from headrace.common.logical_types import LogicalType
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.explain.aggregates import aggregate_phases
from headrace.table.explain.distributions import distributed, gathered
from headrace.table.explain.over import ComputedOver, computed_over, with_results
from headrace.table.explain.phases import Phase, Work, partial_calls
from headrace.table.logical.errors import refuses_depth
from headrace.table.logical.scalars import Cast, InputRef, Literal, Scalar, SortKey, input_refs, substituted
from headrace.table.logical.schema import Schema
from headrace.table.physical.aggregates import GroupAggregate, growing_calls
from headrace.table.physical.basic import Calc, Exchange, Union, ValuesScan
from headrace.table.physical.call_texts import merging_texts, partials
from headrace.table.physical.group_windows import GroupWindowAggregate
from headrace.table.physical.joins import HashJoin
from headrace.table.physical.mini_batches import GlobalGroupAggregate
from headrace.table.physical.node import PhysicalNode, names_text, order_text
from headrace.table.physical.over import OverAggregate
from headrace.table.physical.sinks import Sink
from headrace.table.physical.sorts import NO_LIMIT, Limit, Sort
from headrace.table.rules.conditions import without_null_branch


@refuses_depth
def explained_plan(node: PhysicalNode, is_batch: bool) -> PhysicalNode:
    """Flink's plan in place of the one under a node.

    Args:
        node: the node.
        is_batch: whether it runs in batch mode.
    """
    node = _with_read_parts(node)
    inputs = [explained_plan(child, is_batch) for child in node.inputs]
    below = node.with_inputs(inputs if isinstance(node, Calc) else [*map(with_results, inputs)])
    return explained(below, is_batch)


def _with_read_parts(node: PhysicalNode) -> PhysicalNode:
    """A projection over group windows without the properties of windows, where it reads none of them."""
    if not isinstance(node, Calc) or not isinstance(below := node.input, GroupWindowAggregate):
        return node
    computed = node.expressions if node.condition is None else (*node.expressions, node.condition)
    columns = len(below.group) + len(below.calls)
    if any(index >= columns for each in computed for index in input_refs(each)):
        return node
    return replace(node, input=replace(below, columns=()))


@singledispatch
def explained(node: PhysicalNode, _is_batch: bool) -> PhysicalNode:
    """Flink's node in place of one whose inputs are Flink's: the last of its phases, or the node itself."""
    return node


# --- projections, constant rows and unions ---------------------------------------------------------------------------


@dataclass(frozen=True)
class PulledCalc(Calc):
    """A projection that Flink has above the limit of its rows; one above it is merged with it."""


@explained.register
def _calc(calc: Calc, _: bool) -> PhysicalNode:
    below = calc.input
    if calc.is_identity:
        return below
    below = _below_projection(below) or below
    if isinstance(below, PulledCalc) and calc.condition is None:
        merged = tuple(substituted(each, below.expressions) for each in calc.expressions)
        return replace(calc, input=below.input, expressions=merged)
    results = below.results if isinstance(below, ComputedOver) else ()
    if not results:
        return calc
    condition = None if calc.condition is None else without_null_branch(substituted(calc.condition, results))
    return replace(
        calc, expressions=tuple(substituted(each, results) for each in calc.expressions), condition=condition
    )


def _below_projection(sort: PhysicalNode) -> PhysicalNode | None:
    """A sort below the projection of its input; None where Flink leaves them as they are."""
    exchange = sort.input if isinstance(sort, Sort) else None
    calc = exchange.input if isinstance(exchange, Exchange) else None
    if not isinstance(sort, Sort) or exchange is None or sort.limit is not None:
        return None
    if not isinstance(calc, Calc) or calc.condition is not None:
        return None
    if not all(isinstance(each, InputRef) for each in calc.expressions):
        return None
    keys = tuple(replace(key, index=_column(calc, key.index)) for key in sort.keys)
    made = replace(sort, input=exchange.with_inputs([calc.input]), keys=keys)
    return PulledCalc(made, calc.expressions, calc.names)


def _column(calc: Calc, index: int) -> int:
    found = calc.expressions[index]
    assert isinstance(found, InputRef)
    return found.index


@explained.register
def _values(values: ValuesScan, is_batch: bool) -> PhysicalNode:
    return replace(values, shows_type=False, is_batch=True) if is_batch else values


@explained.register
def _union(union: Union, _: bool) -> PhysicalNode:
    arms = [_arm(arm, union.columns) for arm in union.arms]
    made = replace(union, arms=tuple(arms[:2]))
    for arm in arms[2:]:  # Calcite's have two inputs
        modes = [each.mode for each in made.arms]
        made = replace(union, arms=(replace(made, mode=reduce(ChangelogMode.union, modes)), arm))
    return made


def _arm(arm: PhysicalNode, columns: Schema) -> PhysicalNode:
    """An arm of a union with its conversions to the types of the union."""
    refs = InputRef.all_of(arm.schema)
    given = arm.expressions if isinstance(arm, Calc) else refs
    cast = [_converted(each, kind) for each, kind in zip(given, columns.types, strict=True)]
    if any(each.type.as_nullable() != kind.as_nullable() for each, kind in zip(given, columns.types, strict=True)):
        below, condition = (arm.input, arm.condition) if isinstance(arm, Calc) else (arm, None)
        return Calc(below, tuple(cast), arm.schema.names, condition, mode=arm.mode)
    if all(each.type == ref.type for each, ref in zip(cast, refs, strict=True)):
        return arm
    nullable = [_converted(ref, each.type) for ref, each in zip(refs, cast, strict=True)]
    return Calc(arm, tuple(nullable), arm.schema.names, mode=arm.mode)


def _converted(scalar: Scalar, kind: LogicalType) -> Scalar:
    """A column in a type of a union; constants and time attributes stay as they are."""
    if scalar.type == kind or scalar.time is not None or isinstance(scalar, Literal):
        return scalar
    return Cast(scalar, type=kind)


def with_shared_sinks(roots: Sequence[PhysicalNode]) -> list[PhysicalNode]:
    """Plans with one sink for all that write into the same columns of a table."""
    alike = dict[object, list[PhysicalNode]]()
    for root in roots:
        alike.setdefault(_key_of_sink(root) if isinstance(root, Sink) else id(root), []).append(root)
    return [_shared_sink(found) for found in alike.values()]


def _key_of_sink(sink: Sink) -> object:
    """The properties that parts of a sink share: rows that are only added do not join those that change."""
    modes = tuple(each.mode for each in sink.inputs)
    return (sink.target.path, sink.target.targets, sink.materializes, modes)


def _shared_sink(sinks: Sequence[PhysicalNode]) -> PhysicalNode:
    if len(sinks) == 1:
        return sinks[0]
    inputs = [each for sink in sinks for each in sink.inputs]
    mode = reduce(ChangelogMode.union, (each.mode for each in inputs))
    return sinks[0].with_inputs([Union(tuple(inputs), inputs[0].schema, mode=mode)])


# --- phases of batch mode --------------------------------------------------------------------------------------------


@explained.register
def _aggregate(node: GroupAggregate, is_batch: bool) -> PhysicalNode:
    return aggregate_phases(node) or node if is_batch else node


@explained.register
def _group_window(node: GroupWindowAggregate, is_batch: bool) -> PhysicalNode:
    assert isinstance(node.input, Exchange)
    results, given = node.names[len(node.group) :], node.input.schema
    found = partial_calls(node.calls, results, given.names) if is_batch else None
    if found is None:
        return node
    properties = [part for part in node.properties if part != "w$proctime"]
    local = tuple(node.terms_of(properties, found.partial))
    below = Exchange(Phase(node.input.input, given, "LocalHashWindowAggregate", local), node.group)
    return Phase(below, node.schema, "HashWindowAggregate", tuple(node.terms_of(properties, found.final)))


@explained.register
def _over(node: OverAggregate, is_batch: bool) -> PhysicalNode:
    return computed_over(node, is_batch=is_batch)


@explained.register
def _join(join: HashJoin, _: bool) -> PhysicalNode:
    return join.with_inputs([distributed(each) for each in join.inputs])


@explained.register
def _limit(node: Limit, is_batch: bool) -> PhysicalNode:
    return _limit_phases(node.input, (), node.offset, node.limit) if is_batch else node


@explained.register
def _sort(node: Sort, _: bool) -> PhysicalNode:
    if node.limit is None:
        return node.with_inputs([gathered(node.input)])
    return _limit_phases(node.input, node.keys, node.offset, node.limit)


def _limit_phases(exchange: PhysicalNode, keys: Sequence[SortKey], offset: int, limit: int) -> PhysicalNode:
    """A limit of each task, and then of all rows, below the projection of columns."""
    (source,) = exchange.inputs
    calc = source if isinstance(source, Calc) and source.condition is None else None
    if calc is not None and all(isinstance(calc.expressions[key.index], InputRef) for key in keys):
        source = calc.input
        keys = [replace(key, index=_column(calc, key.index)) for key in keys]
    else:
        calc = None
    title = "SortLimit" if keys else "Limit"
    order = (("orderBy", order_text(keys, source.schema)),) if keys else ()
    first = (*order, ("offset", "0"), ("fetch", str(offset + limit)), ("global", "false"))
    is_limited = limit != NO_LIMIT
    fetch = str(limit) if is_limited else "unlimited"
    last = (*order, ("offset", str(offset)), ("fetch", fetch), ("global", "true"))
    own, whole = Work(len(keys), limit=offset + limit), Work(len(keys), limit=limit)
    below = exchange.with_inputs([Phase(source, source.schema, title, first, work=own) if is_limited else source])
    made = Phase(below, source.schema, title, last, distributed=(), work=whole)
    return made if calc is None else PulledCalc(made, calc.expressions, calc.names)


# --- mini-batches ----------------------------------------------------------------------------------------------------


@explained.register
def _global_aggregate(node: GlobalGroupAggregate, _: bool) -> PhysicalNode:
    below = node.local.input
    if node.is_incremental and isinstance(below, GlobalGroupAggregate) and below.level:
        return _incremental(node, below)
    return node


def _incremental(final: GlobalGroupAggregate, partial: GlobalGroupAggregate) -> PhysicalNode:
    """Two levels of aggregates, the first of which gives its accumulators to the second."""
    keys, names = names_text(final.key_texts), partial.schema.names
    parts = [each.text for each in partials(partial.local.counted_calls, retracts=partial.retracts)]
    growing = growing_calls(partial.local.input, partial.local.group, partial.calls)
    merged = merging_texts(partial.local.counted_calls, retracts=partial.retracts, growing=growing)
    selected = [f"{text} AS {part}" for text, part in zip(merged, parts, strict=True)]
    described = (
        ("partialAggGrouping", names_text([names[place] for place in range(len(partial.group))])),
        ("finalAggGrouping", keys),
        ("select", names_text([*final.key_texts, *selected])),
    )
    hints = tuple(final.hint_terms())
    node = Phase(partial.input, partial.schema, "IncrementalGroupAggregate", described, hints=hints)
    suffix = "_RETRACT" if partial.retracts else ""
    calls = [f"{call.function}{suffix}({part})" for call, part in zip(final.calls, parts, strict=False)]
    results = [f"{text} AS {name}" for text, name in zip(calls, final.schema.names[len(final.group) :], strict=True)]
    terms = [("groupBy", keys)] if keys else []
    terms += [("partialFinalType", final.level), ("select", names_text([*final.key_texts, *results]))]
    exchange = Exchange(node, final.group)
    return Phase(exchange, final.schema, final.name, tuple(terms), hints=hints, mode=final.mode)
