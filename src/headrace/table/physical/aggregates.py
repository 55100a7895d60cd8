"""The physical node that aggregates groups of rows, and aggregate calls as operators take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

from headrace.graph.window_specs import GroupAggregateSpec
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.distinct_values import has_places
from headrace.operators.mini_batch import WHOLE_INPUT, MiniBatch
from headrace.table.bind.hints import time_to_live
from headrace.table.functions.python.aggregates import user_aggregate
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.scalars import AggregateCall, Call, Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema, unique_names
from headrace.table.options import AGG_PHASES, MINI_BATCH, MINI_BATCH_SIZE
from headrace.table.physical.basic import Calc
from headrace.table.physical.call_texts import call_texts
from headrace.table.physical.changelog_rules import ChangelogRule, Modify, with_before
from headrace.table.physical.keys import Keys, one_key
from headrace.table.physical.node import Edges, PhysicalNode, ScalarText, Terms, names_text
from headrace.table.physical.translation import GraphBuilder, by_key


@dataclass(frozen=True)
class GroupAggregate(PhysicalNode):
    """Aggregates of the rows of each group, updated with every row.

    Attributes:
        ttl: the time to live of unused state in a hint; None for that of the session.
        level: ``PARTIAL`` or ``FINAL`` where distinct values are aggregated in two levels; empty elsewhere.
        in_one_phase: whether plans of batch mode show no partial results.
        has_few_groups: whether, by statistics, one task can have all groups.
    """

    name: ClassVar[str] = "GroupAggregate"
    has_two_phases: ClassVar[bool] = False
    changelog: ClassVar[ChangelogRule] = ChangelogRule(
        lambda _, inputs: Modify.UPDATE | (Modify.DELETE if inputs[0] else Modify.INSERT),
        needs=with_before,
        adapts=True,
    )
    input: PhysicalNode
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    ttl: str | None = None
    level: str = ""
    in_one_phase: bool = False
    has_few_groups: bool = False

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        columns = [given[index] for index in self.group] + [Field("", call.type) for call in self.calls]
        return Schema(tuple(columns)).renamed(unique_names(self.names))

    @property
    def upsert_keys(self) -> Keys:
        return one_key(range(len(self.group)))

    @property
    def retracts(self) -> bool:
        """Return whether rows may be retracted."""
        return not self.input.mode.is_insert_only

    @property
    def is_incremental(self) -> bool:
        """Return whether it takes accumulators of the level below, and not its results."""
        return False

    def terms(self, text: ScalarText) -> Terms:
        names = self.input.schema.names
        if self.group:
            yield "groupBy", names_text([names[index] for index in self.group])
        if self.level:
            yield "partialFinalType", self.level
        yield "select", names_text([*self.key_texts, *self.call_texts])

    @property
    def key_texts(self) -> list[str]:
        """The columns of the key in the form of plans."""
        given = self.input.schema.names
        pairs = zip(self.group, self.schema.names, strict=False)
        return [given[index] if given[index] == name else f"{given[index]} AS {name}" for index, name in pairs]

    @property
    def call_texts(self) -> list[str]:
        """The calls in the form of plans."""
        names = self.schema.names[len(self.group) :]
        growing = growing_calls(self.input, self.group, self.calls)
        return call_texts(self.calls, names, self.input.schema.names, retracts=self.retracts, growing=growing)

    def hint_terms(self) -> Terms:
        if self.ttl is not None:
            yield "stateTtlHints", f"[[STATE_TTL options:[{self.ttl}]]]"

    def translate(self, builder: GraphBuilder, inputs: Sequence[Edges]) -> Edges:
        given, settings = self.input.schema, builder.settings
        ttl = builder.state_ttl if self.ttl is None or builder.is_batch else time_to_live(self.ttl)
        calls = operations(self.calls, self.schema.names[len(self.group) :], self.input)
        calls = tuple(
            replace(made, only_grows=_never_loses(self.input, self.group, call))
            for made, call in zip(calls, self.calls, strict=True)
        )
        if not self.retracts and not ttl and not self.has_two_phases:
            calls = tuple(replace(call, keeps_values=_keeps_values(call, given)) for call in calls)
        mini_batch = WHOLE_INPUT if builder.is_batch and settings.get(AGG_PHASES) != "ONE_PHASE" else None
        if settings.get(MINI_BATCH) and not builder.is_batch:
            size = settings.get(MINI_BATCH_SIZE)
            mini_batch = MiniBatch(size, self.has_two_phases, is_incremental=self.is_incremental)
        spec = GroupAggregateSpec(
            calls,
            update_before=self.mode.takes_update_before,
            retracts=self.retracts,
            ttl=ttl,
            allows_none=True,
            is_whole=not self.group,
            mini_batch=mini_batch,
            is_final=builder.is_batch,
        )
        keyed = by_key(inputs[0], given, self.group, self.schema.names[: len(self.group)])
        return builder.add(spec, GroupAggregate.name, keyed, is_small=self.has_few_groups)


def growing_calls(node: PhysicalNode, group: Sequence[int], calls: Sequence[AggregateCall]) -> set[AggregateCall]:
    """The calls over groups of a node's rows from whose results updates take back nothing."""
    return {call for call in calls if _only_grows(node, group, call)}


def _only_grows(node: PhysicalNode, group: Sequence[int], call: AggregateCall) -> bool:
    """Return whether updates of a call's argument never take back its result: a ``MAX`` of counts, say."""
    found = _origin_of_argument(node, call)
    if found is None or found[0].name != "ChangelogNormalize":
        return _never_loses(node, group, call)
    return any(key == {found[1]} for key in found[0].upsert_keys)  # no update of a row changes its key


def _never_loses(node: PhysicalNode, group: Sequence[int], call: AggregateCall) -> bool:
    """Return whether no change of a call's argument takes back its result: it is a count of added rows, say.

    Rows whose changes move them to another group take back the result of the one that they leave.
    """
    found = _origin_of_argument(node, call)
    if found is None:
        return False
    keys = [_origin(node, column) for column in group]
    node, place = found
    if not isinstance(node, GroupAggregate) or node.retracts or place < len(node.group):
        return False
    if any(key is None or key[1] >= len(node.group) for key in keys):
        return False
    return node.calls[place - len(node.group)].function in (("COUNT", "MAX") if call.function == "MAX" else ("MIN",))


def _origin_of_argument(node: PhysicalNode, call: AggregateCall) -> tuple[PhysicalNode, int] | None:
    """The node that computes the argument of ``MIN`` or ``MAX``, and its column there."""
    return _origin(node, call.operands[0]) if call.function in ("MIN", "MAX") else None


def _origin(node: PhysicalNode, place: int) -> tuple[PhysicalNode, int] | None:
    """The node that computes a column, and its column there; None where rows are filtered."""
    while isinstance(node, Calc) or node.passes_rows:
        if isinstance(node, Calc):
            column = node.expressions[place]
            if node.condition is not None or not isinstance(column, InputRef):
                return None
            place = column.index
        (node,) = node.inputs
    return node, place


_OF_KEPT_VALUES: Final = frozenset(("COUNT", "SUM", "$SUM0", "SUM0", "AVG"))


def _keeps_values(call: AggregateOperation, given: Schema) -> bool:
    """Return whether the distinct values that a call aggregates are kept one by one, in state of their own."""
    if not call.is_distinct or call.function not in _OF_KEPT_VALUES or len(call.arguments) != 1:
        return False
    return has_places(given[call.arguments[0]].type.arrow_type)


def operations(
    calls: Sequence[AggregateCall], names: Sequence[str], given: PhysicalNode
) -> tuple[AggregateOperation, ...]:
    """Calls as the operators take them, over the columns of a node, with the names of their results."""
    return tuple(operation(call, name, given) for call, name in zip(calls, names, strict=True))


def operation(call: AggregateCall, name: str, given: PhysicalNode) -> AggregateOperation:
    """An aggregate call in the form of the operators, over the columns of a node."""
    if call.function in ("MIN", "MAX") and call.type.children:
        raise PlanningError(f"{call.function} does not take {call.type}: its values have no order")
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


def constant_of(node: PhysicalNode, index: int) -> Any:
    """The value of a column that is a literal; None for another one."""
    while node.passes_rows or (node.appends_columns and index < len(node.inputs[0].schema)):
        (node,) = node.inputs
    if not isinstance(node, Calc):
        return None
    found = node.expressions[index]
    return constant_of(node.input, found.index) if isinstance(found, InputRef) else _constant(found)


def _constant(scalar: Scalar) -> Any:
    if isinstance(scalar, Cast):
        return _constant(scalar.operand)
    if isinstance(scalar, Literal):
        return scalar.value
    if isinstance(scalar, Call) and scalar.function == "ARRAY":
        values = [_constant(operand) for operand in scalar.operands]
        return None if None in values else tuple(values)
    return None
