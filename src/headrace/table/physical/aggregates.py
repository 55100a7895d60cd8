"""Physical nodes that aggregate groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from headrace.graph.window_specs import GroupAggregateSpec
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.distinct_values import has_places
from headrace.operators.mini_batch import MiniBatch
from headrace.table.functions.python.aggregates import user_aggregate
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.scalars import AggregateCall, Call, Cast, Literal, Scalar
from headrace.table.logical.schema import Field, Schema
from headrace.table.options import AGG_PHASES, MINI_BATCH, MINI_BATCH_SIZE
from headrace.table.physical.basic import Calc, Exchange
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, with_before
from headrace.table.physical.keys import Keys, one_key
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text, unique_names
from headrace.table.physical.phases import Phase, partial_calls
from headrace.table.physical.translation import GraphBuilder, by_key


@dataclass(frozen=True)
class GroupAggregate(PhysicalNode):
    """Aggregates of the rows of each group, updated with every row.

    Attributes:
        ttl: the time to live of unused state in milliseconds that a hint says; None for that of the session.
    """

    name: ClassVar[str] = "GroupAggregate"
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        lambda _, inputs: Modify.UPDATE | (Modify.DELETE if inputs[0] else Modify.INSERT),
        needs=with_before,
        adapts=True,
    )
    input: PhysicalNode
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    ttl: int | None = None

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        columns = [given[index] for index in self.group] + [Field("", call.type) for call in self.calls]
        return Schema(tuple(columns)).renamed(unique_names(self.names))

    @property
    def upsert_keys(self) -> Keys:
        return one_key(range(len(self.group)))

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        if self.group:
            yield "groupBy", names_text([names[index] for index in self.group])
        yield "select", names_text(aggregate_texts(self, retracts=not self.input.mode.is_insert_only))

    def as_shown(self, *, is_batch: bool) -> PhysicalNode:
        if not is_batch or not isinstance(self.input, Exchange):
            return self
        source, width = self.input.input, len(self.group)
        keys = aggregate_texts(self, retracts=False)[:width]
        found = partial_calls(self.calls, self.schema.names[width:], source.schema.names)
        if found is None:
            return self
        names = names_text([source.schema.names[index] for index in self.group])
        grouped = (("groupBy", names),) if names else ()
        local = (*grouped, ("select", names_text([*keys, *found.partial])))
        below = replace(self.input, input=Phase(source, source.schema, "LocalHashAggregate", local))
        merged = (("isMerge", "true"), *grouped, ("select", names_text([*keys, *found.final])))
        return Phase(below, self.schema, "HashAggregate", merged)

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        given = self.input.schema
        ttl = builder.state_ttl if self.ttl is None or builder.is_batch else self.ttl
        calls = operations(self.calls, self.schema.names[len(self.group) :], self.input)
        if self.input.mode.is_insert_only and not ttl:
            calls = tuple(replace(call, keeps_values=_keeps_values(call, given)) for call in calls)
        spec = GroupAggregateSpec(
            calls,
            update_before=self.mode.takes_update_before,
            retracts=not self.input.mode.is_insert_only,
            ttl=ttl,
            allows_none=True,
            is_whole=not self.group,
            mini_batch=mini_batch(builder, self.group),
            is_final=builder.is_batch,
        )
        return builder.add(spec, self.name, by_key(inputs[0], given, self.group, self.schema.names[: len(self.group)]))


def _keeps_values(call: AggregateOperation, given: Schema) -> bool:
    """Whether the distinct values that a call aggregates are kept one by one, in state of their own."""
    if not call.is_distinct or call.function not in ("COUNT", "SUM", "AVG") or len(call.arguments) != 1:
        return False
    return has_places(given[call.arguments[0]].type.arrow_type)


def mini_batch(builder: GraphBuilder, group: tuple[int, ...]) -> MiniBatch | None:
    """The mini-batch of records (``table.exec.mini-batch.enabled``); None where each record makes a change.

    Raises:
        PlanningError: when mini-batches are enabled without a size.
    """
    settings = builder.settings
    if builder.is_batch or not settings.get(MINI_BATCH):
        return None
    size = settings.get(MINI_BATCH_SIZE)
    if size <= 0:
        raise PlanningError(f"{MINI_BATCH.key} needs {MINI_BATCH_SIZE.key}: set it to 5000, say")
    return MiniBatch(size, settings.get(AGG_PHASES) != "ONE_PHASE", group)


def operations(
    calls: Sequence[AggregateCall], names: Sequence[str], given: PhysicalNode
) -> tuple[AggregateOperation, ...]:
    """Calls as the operators take them, over the columns of a node, with the names of their results."""
    return tuple(operation(call, name, given) for call, name in zip(calls, names, strict=True))


def operation(call: AggregateCall, name: str, given: PhysicalNode) -> AggregateOperation:
    """An aggregate call in the form of the operators, over the columns of a node."""
    known = ((place, constant_of(given, index)) for place, index in enumerate(call.operands))
    return AggregateOperation(
        call.function,
        call.operands,
        call.type,
        name,
        is_distinct=call.is_distinct,
        filter=call.filter,
        constants=tuple((place, value) for place, value in known if value is not None),
        options=call.options,
        user=user_aggregate(call.options),
    )


def aggregate_texts(node: GroupAggregate, *, retracts: bool) -> list[str]:
    """The output columns in the form of plans."""
    given, names = node.input.schema.names, node.schema.names
    keys = [
        given[index] if given[index] == name else f"{given[index]} AS {name}"
        for index, name in zip(node.group, names, strict=False)
    ]
    return keys + call_texts(node.calls, names[len(node.group) :], given, retracts=retracts)


def call_texts(
    calls: Sequence[AggregateCall], names: Sequence[str], given: Sequence[str], *, retracts: bool
) -> list[str]:
    """Calls with the names of their results, as plans show them."""
    return [f"{call_text(call, given, retracts=retracts)} AS {name}" for call, name in zip(calls, names, strict=True)]


def call_text(call: AggregateCall, names: Sequence[str], *, retracts: bool) -> str:
    """A call in the form of plans: ``COUNT(DISTINCT id) FILTER $f2``."""
    operands = names_text([names[index] for index in call.operands]) or "*"
    text = f"{call.function}{'_RETRACT' if retracts else ''}({'DISTINCT ' if call.is_distinct else ''}{operands})"
    return text if call.filter is None else f"{text} FILTER {names[call.filter]}"


def constant_of(node: PhysicalNode, index: int) -> Any:
    """The value of a column that is a literal; None for another one."""
    while node.passes_rows:
        (node,) = node.inputs
    return _constant(node.expressions[index]) if isinstance(node, Calc) else None


def _constant(scalar: Scalar) -> Any:
    if isinstance(scalar, Cast):
        return _constant(scalar.operand)
    if isinstance(scalar, Literal):
        return scalar.value
    if isinstance(scalar, Call) and scalar.function == "ARRAY":
        values = [_constant(operand) for operand in scalar.operands]
        return None if None in values else tuple(values)
    return None
