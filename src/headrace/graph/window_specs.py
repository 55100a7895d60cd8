"""Specs of windows, of built-in aggregates, and of joins of two streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation
from headrace.expressions import Bound
from headrace.graph.specs import (
    FunctionSpec,
    InputKind,
    InputSchema,
    OperatorParameters,
    OperatorSpec,
    OutputSchema,
    PassingSpec,
    output_of,
)
from headrace.operators.aggregates.aggregate import BindableAggregate
from headrace.operators.base import Operator
from headrace.operators.join.find_pairs import SIDES, JoinInterval
from headrace.operators.join.results import INNER, Outer, tagged_type
from headrace.state.evolution import RenamedFields
from headrace.state.protocols import KEYED, StateKinds
from headrace.windowing.definition import RESULT, WindowDefinition, WindowFunctions
from headrace.windowing.intervals import ColumnarWindows, FiringInterval, OneWindow, RegularWindows
from headrace.windowing.windows import window_serializer

if TYPE_CHECKING:
    from headrace.operators.mini_batch import MiniBatch
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
    from headrace.operators.window.general.window_operator import CalledWindows


_UNDECLARED: Final = (
    "nothing says that records are taken back: declare their type with changelog=True, or call "
    "aggregate(..., takes_changes=True)"
)


_NO_AGGREGATE: Final = "aggregate(...) needs at least one aggregate: count(), sum('field'), …"


class WindowSpec(OperatorSpec):
    """The root of operators with windows."""

    __slots__ = ()

    kind: ClassVar[str] = "Window"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = KEYED

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "what a window has taken in is not taken out again"


@dataclass(frozen=True, slots=True)
class TriggeredWindowSpec(WindowSpec):
    """The root of operators with windows of any kind, as the program declares them.

    Attributes:
        definition: the windows.
    """

    definition: WindowDefinition

    @property
    def event_time_lag(self) -> int:
        return self.definition.event_time_lag

    def element_type(self, inputs: Sequence[InputSchema]) -> TypeInformation:
        """The type of what windows hold, triggers and evictors see, and late records are."""
        return inputs[0].record_type

    def windowed(self, output_type: TypeInformation, inputs: Sequence[InputSchema]) -> OutputSchema:
        """The outputs of such windows with results of a type: these, and late records."""
        windows, late = self.definition, self.definition.late_tag
        side_types = {} if late is None else {late.tag_id: self.element_type(inputs)}
        return OutputSchema(output_type, side_types, windows.accumulation_mode.retracts and not windows.fires_once)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        shown = self.outputs(inputs).output_type if self.definition.accumulation_mode.retracts else None
        return self.held_records(inputs) | ({} if shown is None else {RESULT: shown})

    def held_records(self, inputs: Sequence[InputSchema]) -> dict[str, TypeInformation]:
        """Return what windows hold, as :meth:`kept_records` says it; of built-in aggregates what they look at."""
        return {"": self.element_type(inputs)}


@dataclass(frozen=True, slots=True)
class AggregatedWindowSpec(TriggeredWindowSpec):
    """Built-in aggregates over windows of any kind; the planner picks a columnar operator where there is one.

    Attributes:
        aggregates: the built-in aggregates.
        has_key: whether results have the key; not where all records have one key.
        known: the columns of the windows once a graph has found them, behind what they follow from.
    """

    aggregates: tuple[BindableAggregate, ...]
    has_key: bool = True
    known: tuple[tuple[object, ...], ColumnarWindowLayout] | None = field(default=None, repr=False, compare=False)

    def resolved(self, inputs: Sequence[InputSchema]) -> Self:
        return replace(self, known=(_columns_follow_from(inputs[0]), self.layout(inputs[0])))

    def layout(self, records: InputSchema) -> ColumnarWindowLayout:
        """The columns of the windows over such records.

        Raises:
            InvalidTypeError: when an aggregate does not fit the records.
            InvalidProgramError: when two columns of the output have the same name.
        """
        if self.known is not None and self.known[0] == _columns_follow_from(records):
            return self.known[1]
        return self.new_layout(records)

    def new_layout(self, records: InputSchema) -> ColumnarWindowLayout:
        """Do as :meth:`layout` does, whatever is known."""
        if not self.aggregates:
            raise InvalidProgramError(_NO_AGGREGATE)
        window_names = window_serializer(self.definition.assigner.get_window_serializer()).names
        return layout_over(records, self.aggregates, window_names, shows_key=self.has_key)

    def operator_layout(self, parameters: OperatorParameters) -> ColumnarWindowLayout:
        """The columns of the windows in an operator, whose aggregates know which operator they are in."""
        return self.layout(parameters.inputs[0]).of_operator(parameters.place, parameters.renamed_fields)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return self.windowed(self.layout(inputs[0]).output_type, inputs)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.window.general.aggregating_operator import AggregatingWindowOperator

        return AggregatingWindowOperator(
            self.definition,
            self.element_type(parameters.inputs),
            self.operator_layout(parameters),
            parameters.side_types,
            is_batch=parameters.task.is_batch,
        )


def layout_over(
    records: InputSchema,
    aggregates: Sequence[BindableAggregate],
    window_names: tuple[str, ...] = (),
    *,
    retracts: bool = False,
    shows_key: bool = True,
) -> ColumnarWindowLayout:
    """The columns of aggregates over keyed records.

    Args:
        records: the records.
        aggregates: the aggregates.
        window_names: the names of the columns of the window; none for results of no windows.
        retracts: whether records may take former ones back.
        shows_key: whether results have the key.
    """
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout

    key = records.key
    assert key is not None, "the graph takes keyed records only"
    names = key.names if shows_key else ()
    return ColumnarWindowLayout.of(
        records.record_type, key.codec, aggregates, key.fields, names, window_names, retracts=retracts
    )


def _columns_follow_from(records: InputSchema) -> tuple[object, ...]:
    key = records.key
    return (records.record_type, *(() if key is None else (key.codec, key.fields, key.names)))


@dataclass(frozen=True, slots=True)
class GroupAggregateSpec(OperatorSpec):
    """Built-in aggregates of all records of a key, as a changelog; records may take former ones back.

    Attributes:
        aggregates: the built-in aggregates.
        update_before: whether an update takes the former result back as well.
        retracts: whether records may take former ones back.
        ttl: after how many milliseconds of processing time without records a key is forgotten; 0 for never.
        allows_none: whether there may be no aggregate, where only the different keys are wanted.
        mini_batch: the settings of mini-batches, of which all records of a key make one change; None where each record
            makes one.
        is_whole: whether all records have one key, so that in batch mode there is a result of no records, too.
        is_final: whether the job runs in batch mode for certain, in which each key has one result, at the end.
    """

    kind: ClassVar[str] = "GroupAggregate"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = KEYED
    aggregates: tuple[BindableAggregate, ...]
    update_before: bool
    retracts: bool
    ttl: int = 0
    allows_none: bool = False
    is_whole: bool = False
    mini_batch: MiniBatch | None = None
    is_final: bool = False

    def layout(self, records: InputSchema) -> ColumnarWindowLayout:
        """The columns of the results over such records.

        Raises:
            InvalidTypeError: when an aggregate does not fit the records.
            InvalidProgramError: when two columns of the output have the same name, or records may be taken back from an
                aggregate that cannot do that.
        """
        if not (self.aggregates or self.allows_none):
            raise InvalidProgramError(_NO_AGGREGATE)
        return layout_over(records, self.aggregates, retracts=self.retracts)

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "" if self.retracts else _UNDECLARED

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(self.layout(inputs[0]).output_type, has_changes=not self.is_final)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {"": inputs[0].record_type}

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.group_aggregate import GroupAggregateOperator

        layout = self.layout(parameters.inputs[0]).of_operator(parameters.place, parameters.renamed_fields)
        is_batch = parameters.task.is_batch
        nothing = None
        if is_batch and self.is_whole:
            from headrace.operators.aggregates.calls.nothing import accumulators_of_nothing

            nothing = accumulators_of_nothing(layout.aggregators, parameters.inputs[0].record_type, 1)
        return GroupAggregateOperator(
            layout,
            update_before=self.update_before,
            is_batch=is_batch,
            ttl=self.ttl,
            mini_batch=self.mini_batch,
            nothing=nothing,
        )

    @property
    def can_be_split(self) -> bool:
        """Return whether senders may aggregate records as well, for aggregates that do not depend on their order."""
        return self.mini_batch is not None and self.mini_batch.has_two_phases

    def create_local_operator(self, parameters: OperatorParameters) -> Operator:
        """The operator for the sender's half; only where there are two phases."""
        from headrace.operators.mini_batch import LocalGroupAggregateOperator

        assert self.mini_batch is not None
        layout = self.layout(parameters.inputs[0]).of_operator(parameters.place, parameters.renamed_fields)
        return LocalGroupAggregateOperator(layout, self.mini_batch)


@dataclass(frozen=True, slots=True)
class RowWindowSpec(TriggeredWindowSpec):
    """Functions of the user over windows.

    Attributes:
        result_type: the type of what is emitted.
        user_functions: the functions.
    """

    result_type: TypeInformation
    user_functions: WindowFunctions

    @property
    def functions(self) -> Sequence[object]:
        return self.user_functions.objects

    def held_records(self, inputs: Sequence[InputSchema]) -> dict[str, TypeInformation]:
        is_folded = self.user_functions.aggregate_function is not None and self.definition.evictor is None
        return {"": self.user_functions.accumulators if is_folded else self.element_type(inputs)}

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return self.windowed(self.result_type, inputs)

    @property
    def emits_to_tags(self) -> bool:
        return self.user_functions.window_function is not None

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.window.general.ordered_operator import window_operator

        return window_operator(self.called_windows(parameters))

    def called_windows(self, parameters: OperatorParameters) -> CalledWindows:
        """The windows, and the functions that are called over them, for the operator of a subtask."""
        from headrace.operators.window.general.window_operator import CalledWindows

        return CalledWindows(
            self.definition,
            self.user_functions,
            self.element_type(parameters.inputs),
            self.result_type,
            parameters.side_types,
            parameters.task.is_batch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnarWindowSpec(AggregatedWindowSpec):
    """Built-in aggregates over windows that are computed column by column.

    Attributes:
        windows: which windows records are in, as arithmetic.
        interval: when windows of time are shown before they end; None where they are not.
    """

    windows: ColumnarWindows
    interval: FiringInterval | None = None

    @property
    def regular_windows(self) -> RegularWindows | None:
        """The windows that senders may know as well, and that are not shown before their end; None for all others."""
        return self.windows if isinstance(self.windows, RegularWindows) and self.interval is None else None

    @property
    def can_be_split(self) -> bool:
        """Return whether senders may aggregate records as well, for aggregates that do not depend on their order."""
        windows = self.definition
        return self.regular_windows is not None and windows.late_tag is None and windows.allowed_lateness == 0

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.window.columnar.columnar_operator import columnar_operator

        return columnar_operator(self.operator_layout(parameters), self.definition, self.windows, self.interval)

    def create_local_operator(self, parameters: OperatorParameters) -> Operator:
        """The operator for the sender's half; only where there are :attr:`regular_windows`."""
        from headrace.operators.window.columnar.local_aggregate import LocalWindowAggregateOperator

        windows = self.regular_windows if self.definition.assigner.is_event_time() else None
        # Of windows that do not look at timestamps the receiver knows which there are.
        return LocalWindowAggregateOperator(self.operator_layout(parameters), windows or OneWindow())


@dataclass(frozen=True, slots=True)
class LocalAggregateSpec(PassingSpec):
    """The sender's half of a two-phase aggregation; put in by the planner.

    Records that it does not sum up leave by the main output, accumulators by a side output.

    Attributes:
        aggregate: the aggregation as it is without halves.
    """

    kind: ClassVar[str] = "LocalAggregate"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    aggregate: ColumnarWindowSpec | GroupAggregateSpec

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return self.aggregate.why_insertions_only(inputs)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_TAG

        (records,) = inputs
        accumulators = {ACCUMULATORS_TAG: self.aggregate.layout(records).accumulator_type}
        return OutputSchema(records.record_type, accumulators, records.has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        return self.aggregate.create_local_operator(parameters)


@dataclass(frozen=True, slots=True)
class GlobalAggregateSpec(OperatorSpec):
    """The receiver's half: records on the first input, accumulators on the second.

    Attributes:
        aggregate: the aggregation as it is without halves.
    """

    kind: ClassVar[str] = "GlobalAggregate"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)
    state_kinds: ClassVar[StateKinds] = KEYED
    aggregate: ColumnarWindowSpec | GroupAggregateSpec

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return self.aggregate.why_insertions_only(inputs)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return self.aggregate.outputs(inputs)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return self.aggregate.kept_records(inputs)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        return self.aggregate.create_operator(parameters)


_SIDES_OF_TAGGED: Final = {"f1": SIDES[0], "f2": SIDES[1]}
"""The sides, by the fields that their records are in where windows hold those of both."""


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec(FunctionSpec):
    """Pairs of records of two inputs with the same key whose times lie within an interval.

    Attributes:
        interval: which times match.
        late_tags: of each input the side output for records that come too late; None drops and counts them.
        columns: expressions over the pairs, where there is no function.
        outer: of which inputs records without a partner are shown as well.
    """

    kind: ClassVar[str] = "IntervalJoin"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)
    state_kinds: ClassVar[StateKinds] = KEYED
    interval: JoinInterval
    late_tags: tuple[OutputTag | None, OutputTag | None]
    columns: tuple[Bound, ...] = ()
    outer: Outer = INNER

    @property
    def late_tag_ids(self) -> tuple[str | None, ...]:
        """The ids of these side outputs."""
        return tuple(None if tag is None else tag.tag_id for tag in self.late_tags)

    @property
    def emits_to_tags(self) -> bool:
        return self.function is not None

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "pairs that it has given are not taken back"

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return of_sides(inputs)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.interval_join import IntervalJoinOperator
        from headrace.operators.join.results import ColumnResults, FunctionResults, JoinResults

        types, tags = parameters.input_types, self.late_tag_ids
        results: JoinResults = (
            ColumnResults(self.columns, types, self.result_type)
            if self.function is None
            else FunctionResults(self.function, types, self.result_type, parameters.side_types)
        )
        return IntervalJoinOperator(self.interval, types, tags, results, self.outer)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        types: dict[str, TypeInformation] = {}
        for tag_id, schema in zip(self.late_tag_ids, inputs, strict=True):
            if tag_id is None:
                continue
            if types.setdefault(tag_id, schema.record_type) != schema.record_type:
                raise InvalidTypeError(
                    f"the late records of both streams go to the side output {tag_id!r}, but they are of types "
                    f"{types[tag_id]} and {schema.record_type}: give each stream a tag of its own"
                )
        return replace(output_of(self.result_type), side_types=types)


@dataclass(frozen=True, slots=True)
class CoGroupSpec(RowWindowSpec):
    """Functions of the user over windows that hold the records of two inputs, each with a tag that says of which.

    Attributes:
        columns: expressions over the pairs of each window, where there is no function; only if :attr:`ends_at_once`.
        outer: of which inputs records without a partner are shown then as well.
    """

    kind: ClassVar[str] = "CoGroup"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)
    columns: tuple[Bound, ...] = ()
    outer: Outer = INNER

    @property
    def ends_at_once(self) -> bool:
        """Return whether a window fires once, for all keys together, and is gone then."""
        return self.definition.fixed_windows is not None and not self.definition.allowed_lateness

    def element_type(self, inputs: Sequence[InputSchema]) -> TypeInformation:
        left, right = inputs
        return tagged_type(left.record_type, right.record_type)

    def held_records(self, inputs: Sequence[InputSchema]) -> dict[str, TypeInformation]:
        return of_sides(inputs)

    def renamed_in_state(self, renamed: RenamedFields) -> RenamedFields:
        return renamed.of_parts(_SIDES_OF_TAGGED)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.join.results import ColumnResults
        from headrace.operators.join.window_join import CoGroupOperator, ColumnarWindowJoin, OrderedCoGroupOperator

        if not self.columns:
            kind = CoGroupOperator if self.definition.fixed_windows is None else OrderedCoGroupOperator
            return kind(self.called_windows(parameters))
        results = ColumnResults(self.columns, parameters.input_types, self.result_type)
        element_type = self.element_type(parameters.inputs)
        return ColumnarWindowJoin(self.definition, element_type, self.result_type, self.outer, results)


def of_sides(inputs: Sequence[InputSchema]) -> dict[str, TypeInformation]:
    """The types of the records of both sides."""
    return {side: schema.record_type for side, schema in zip(SIDES, inputs, strict=True)}
