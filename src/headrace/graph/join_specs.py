"""Specs of joins of changelogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from headrace.common.typeinfo import RowTypeInfo, TypeInformation
from headrace.expressions import Bound
from headrace.graph.changelog_specs import codec_of
from headrace.graph.specs import InputKind, InputSchema, OperatorParameters, OperatorSpec, OutputSchema, output_of
from headrace.graph.window_specs import of_sides
from headrace.operators.base import Operator
from headrace.operators.join.find_pairs import JoinInterval
from headrace.operators.join.regular.definition import SideState
from headrace.operators.join.results import JoinType
from headrace.state.protocols import KEYED, StateKinds

if TYPE_CHECKING:
    from headrace.operators.join.broadcast_join import BroadcastHashJoin
    from headrace.operators.join.regular.definition import JoinDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpec(OperatorSpec):
    """A join of two keyed inputs by their keys.

    Attributes:
        join_type: the kind of join.
        names: the names of the columns of both inputs.
        condition: the condition on pairs besides equal keys; None for no condition.
        strict_keys: for each input, the key columns that are compared by ``=``, so that NULL matches nothing.
    """

    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)
    state_kinds: ClassVar[StateKinds] = KEYED
    join_type: JoinType
    names: tuple[str, ...]
    condition: Bound | None = None
    strict_keys: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def pair_type(self, inputs: Sequence[InputSchema]) -> TypeInformation:
        """The type of a row with the columns of both inputs."""
        types = [kind for schema in inputs for kind in schema.record_type.field_types]
        return RowTypeInfo(tuple(types), self.names)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return output_of(inputs[0].record_type if self.join_type.gives_left_rows else self.pair_type(inputs))

    def definition(self, parameters: OperatorParameters) -> JoinDefinition:
        """The definition that operators take."""
        from headrace.operators.join.regular.definition import JoinDefinition

        left, right = parameters.input_types
        pairs, output = self.pair_type(parameters.inputs), parameters.output_type
        return JoinDefinition(self.join_type, (left, right), pairs, output, self.condition, self.strict_keys)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return of_sides(inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegularJoinSpec(JoinSpec):
    """A regular join of two changelogs, which keeps all rows of both in state.

    Attributes:
        states: how the rows of both inputs are kept.
        joins_itself: whether both inputs are the same records, each of which comes to both before the next does.
    """

    kind: ClassVar[str] = "Join"
    states: tuple[SideState, SideState] = (SideState(), SideState())
    joins_itself: bool = False

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        appends = self.join_type in (JoinType.INNER, JoinType.SEMI)
        has_changes = not appends or any(schema.has_changes for schema in inputs)
        return replace(JoinSpec.outputs(self, inputs), has_changes=has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.regular.regular_join import RegularJoinOperator

        definition, codec = self.definition(parameters), codec_of(parameters.inputs[0])
        return RegularJoinOperator(definition, codec, self.states, joins_itself=self.joins_itself)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedJoinSpec(JoinSpec):
    """A join of two bounded inputs, which emits its result when both have ended."""

    kind: ClassVar[str] = "BoundedJoin"
    waits_for_all_inputs: ClassVar[bool] = True

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "results are emitted once, at the end of the inputs"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.bounded_join import BoundedJoinOperator

        return BoundedJoinOperator(self.definition(parameters), codec_of(parameters.inputs[0]))


@dataclass(frozen=True, slots=True)
class BroadcastJoinSpec(OperatorSpec):
    """A join of records with the rows of bounded tables, which every task has whole.

    Attributes:
        join: the join.
    """

    kind: ClassVar[str] = "BroadcastJoin"
    ignores_event_time: ClassVar[bool] = True
    join: BroadcastHashJoin

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return output_of(self.join.definition.output_type)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.broadcast_join import BroadcastJoinOperator

        return BroadcastJoinOperator(self.join, parameters.task.storage_options)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWindowJoinSpec(JoinSpec):
    """A join of rows in the same window, whose bounds are columns, emitted once the window has ended.

    Attributes:
        end_fields: for each input, the position of the window end column.
        zone: the time zone by whose clock windows end; None where times are those of the clock already.
    """

    kind: ClassVar[str] = "WindowJoin"
    end_fields: tuple[int, int]
    zone: str | None = None

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "results of a window that has ended are not taken back"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.window.table.join import TableWindowJoinOperator
        from headrace.operators.window.table.local_time import LocalTime

        definition, codec = self.definition(parameters), codec_of(parameters.inputs[0])
        return TableWindowJoinOperator(definition, codec, end_fields=self.end_fields, clock=LocalTime(self.zone))


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalJoinSpec(JoinSpec):
    """Each row of the left input with the version of a row of the right one that is valid at its time.

    Attributes:
        time_fields: the position of the time column of each input.
    """

    kind: ClassVar[str] = "TemporalJoin"
    time_fields: tuple[int, int]

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return replace(JoinSpec.outputs(self, inputs), has_changes=inputs[0].has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.temporal_join import TemporalJoinOperator

        definition, left = self.definition(parameters), parameters.inputs[0]
        return TemporalJoinOperator(
            definition, codec_of(left), time_fields=self.time_fields, has_changes=left.has_changes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIntervalJoinSpec(JoinSpec):
    """A join of rows whose times, which are columns, lie within an interval of each other.

    Attributes:
        interval: which times match.
        time_fields: the position of the time column of each input; None where the time is that at which a row arrives.
    """

    kind: ClassVar[str] = "TableIntervalJoin"
    interval: JoinInterval
    time_fields: tuple[int, int] | None

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "pairs that it has given are not taken back"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.table_interval_join import ProcessingTimeJoinOperator, TableIntervalJoinOperator

        definition = self.definition(parameters)
        if self.time_fields is None:
            return ProcessingTimeJoinOperator(definition, self.interval)
        return TableIntervalJoinOperator(definition, self.interval, self.time_fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiJoinSpec(OperatorSpec):
    """Several joins on one key, which keep the rows of the inputs in state and not those of joins between them.

    Attributes:
        names: the names of the columns of all inputs.
        states: how the rows of each input are kept.
        optional: for each input whether rows of those before it are emitted without one of its rows, too.
        conditions: for each input the condition of its join, over the columns of the inputs up to it; equality of keys
            is part of it. None for no condition.
    """

    kind: ClassVar[str] = "MultiJoin"
    state_kinds: ClassVar[StateKinds] = KEYED
    names: tuple[str, ...]
    states: tuple[SideState, ...]
    optional: tuple[bool, ...]
    conditions: tuple[Bound | None, ...]

    @property
    def inputs(self) -> tuple[InputKind, ...]:  # type: ignore[override]
        return (InputKind.KEYED,) * len(self.states)

    def joined_type(self, inputs: Sequence[InputSchema]) -> TypeInformation:
        """The type of a row with the columns of some of the inputs."""
        types = tuple(kind for schema in inputs for kind in schema.record_type.field_types)
        return RowTypeInfo(types, self.names[: len(types)])

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        has_changes = any(self.optional) or any(schema.has_changes for schema in inputs)
        return replace(output_of(self.joined_type(inputs)), has_changes=has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.multi_join import JoinedInput, MultiJoinOperator

        inputs = [
            JoinedInput(schema.record_type, state, is_optional, condition, self.joined_type(parameters.inputs[:number]))
            for number, (schema, state, is_optional, condition) in enumerate(
                zip(parameters.inputs, self.states, self.optional, self.conditions, strict=True), 1
            )
        ]
        return MultiJoinOperator(inputs, parameters.output_type, codec_of(parameters.inputs[0]))

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {f"input {number}": schema.record_type for number, schema in enumerate(inputs)}
