"""Specs of process functions, of requests to other systems, and of lookups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headrace.common.typeinfo import TypeInformation, Types
from headrace.graph.specs import FunctionSpec, InputKind, InputSchema, OperatorParameters, OperatorSpec, OutputSchema
from headrace.operators.base import Operator
from headrace.operators.functions import INPUTS, TWO_INPUTS
from headrace.operators.process import KeyedProcessOperator, ProcessOperator
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.protocols import KEYED, NO_STATE, StateKind, StateKinds

if TYPE_CHECKING:
    from headrace.operators.asynchronous.requests import RequestGrouping, RequestSettings
    from headrace.operators.lookup.lookup_joins import LookupJoinDefinition
    from headrace.operators.lookup.lookup_operator import LookupRequests, LookupSettings
    from headrace.operators.lookup.readers import LookupReader, ReloadTrigger, TableReader
    from headrace.operators.lookup.vector_search import NearestRows
    from headrace.operators.prediction import Features, Model


_LIST: Final = frozenset({StateKind.LIST})
_BROADCAST: Final = frozenset({StateKind.BROADCAST})


@dataclass(frozen=True, slots=True)
class ProcessSpec(FunctionSpec):
    """A ``ProcessFunction``: no state and no timers."""

    kind: ClassVar[str] = "Process"
    emits_to_tags: ClassVar[bool] = True

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.process import ProcessOperator

        return ProcessOperator(self.function, self.result_type, parameters.side_types)


@dataclass(frozen=True, slots=True)
class KeyedProcessSpec(FunctionSpec):
    """A ``KeyedProcessFunction``: with state and timers."""

    kind: ClassVar[str] = "KeyedProcess"
    emits_to_tags: ClassVar[bool] = True
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = KEYED

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.process import KeyedProcessOperator

        return KeyedProcessOperator(
            self.function, self.result_type, parameters.side_types, is_batch=parameters.task.is_batch
        )


@dataclass(frozen=True, slots=True)
class StateBootstrapSpec(KeyedProcessSpec):
    """A function that makes state for another job: its timers are those of that job, and do not fire."""

    kind: ClassVar[str] = "StateBootstrap"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.process import StateBootstrapOperator

        return StateBootstrapOperator(self.function, self.result_type, parameters.side_types)


@dataclass(frozen=True, slots=True)
class TwoInputSpec(FunctionSpec):
    """The root of those of two streams.

    Attributes:
        in_event_time_order: whether records wait for event time, and come sorted by their timestamps.
    """

    emits_to_tags: ClassVar[bool] = True
    in_event_time_order: bool = field(default=False, kw_only=True)

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "sorted by time, a change may come before what it changes" if self.in_event_time_order else ""

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        if not self.in_event_time_order:
            return {}
        return {name: schema.record_type for name, schema in zip(INPUTS, inputs, strict=True)}

    def _in_order(
        self,
        operator: KeyedProcessOperator | ProcessOperator,
        parameters: OperatorParameters,
        broadcast: int | None = None,
    ) -> Operator:
        """The operator, behind one that sorts its records where the program wants that."""
        if not self.in_event_time_order:
            return operator

        from headrace.operators.event_time_order import EventTimeOrderOperator

        return EventTimeOrderOperator(operator, parameters.input_types, broadcast)


@dataclass(frozen=True, slots=True)
class CoProcessSpec(TwoInputSpec):
    """A ``CoProcessFunction`` on two streams of which not both are keyed: no state of keys, no timers.

    Attributes:
        sees_time: whether event time matters to it, so that this has to be that of both streams.
    """

    sees_time: bool = True

    kind: ClassVar[str] = "CoProcess"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.ANY, InputKind.ANY)

    @property
    def ignores_event_time(self) -> bool:
        return not self.sees_time

    @property
    def requires_aligned_watermark(self) -> bool:
        return self.sees_time

    @property
    def state_kinds(self) -> StateKinds:
        return _LIST if self.in_event_time_order else NO_STATE

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.process import ProcessOperator

        operator = ProcessOperator(self.function, self.result_type, parameters.side_types, TWO_INPUTS)
        return self._in_order(operator, parameters)


@dataclass(frozen=True, slots=True)
class KeyedCoProcessSpec(TwoInputSpec):
    """A ``KeyedCoProcessFunction``: two keyed streams with state and timers of their common keys."""

    kind: ClassVar[str] = "KeyedCoProcess"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)
    state_kinds: ClassVar[StateKinds] = KEYED

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.process import KeyedProcessOperator

        operator = KeyedProcessOperator(
            self.function,
            self.result_type,
            parameters.side_types,
            TWO_INPUTS,
            is_batch=parameters.task.is_batch,
            is_in_order=self.in_event_time_order,
        )
        return self._in_order(operator, parameters)


@dataclass(frozen=True, slots=True)
class BroadcastProcessSpec(TwoInputSpec):
    """A ``BroadcastProcessFunction``: the second stream reaches all subtasks, and is what their broadcast state is of.

    Attributes:
        descriptors: those of the broadcast state.
    """

    descriptors: tuple[MapStateDescriptor, ...]

    kind: ClassVar[str] = "BroadcastProcess"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.ANY, InputKind.ANY)
    requires_aligned_watermark: ClassVar[bool] = True

    @property
    def state_kinds(self) -> StateKinds:
        return _BROADCAST | _LIST if self.in_event_time_order else _BROADCAST

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.broadcast import BROADCAST, BroadcastProcessOperator

        operator = BroadcastProcessOperator(self.function, self.result_type, parameters.side_types, self.descriptors)
        return self._in_order(operator, parameters, BROADCAST)


@dataclass(frozen=True, slots=True)
class KeyedBroadcastProcessSpec(BroadcastProcessSpec):
    """A ``KeyedBroadcastProcessFunction``: the same where the first stream is keyed, with state and timers."""

    kind: ClassVar[str] = "KeyedBroadcastProcess"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.ANY)

    @property
    def state_kinds(self) -> StateKinds:
        return _BROADCAST | KEYED

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.broadcast import BROADCAST, KeyedBroadcastProcessOperator

        operator = KeyedBroadcastProcessOperator(
            self.function,
            self.result_type,
            parameters.side_types,
            self.descriptors,
            is_batch=parameters.task.is_batch,
            is_in_order=self.in_event_time_order,
        )
        return self._in_order(operator, parameters, BROADCAST)


@dataclass(frozen=True, slots=True)
class AsyncSpec(FunctionSpec):
    """An ``AsyncFunction``, or an ``AsyncBatchFunction``: any number of records for each record.

    Attributes:
        settings: how requests are made.
        grouping: which records share a request; None where each has its own.
    """

    settings: RequestSettings
    grouping: RequestGrouping | None = None

    kind: ClassVar[str] = "AsyncWait"
    ignores_event_time: ClassVar[bool] = True
    is_deterministic: ClassVar[bool] = False

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.asynchronous.requesting_operator import AsyncOperator

        return AsyncOperator(self.function, self.result_type, self.settings, self.grouping)


@dataclass(frozen=True, slots=True)
class LookupSpec(OperatorSpec):
    """Pairs of each record and what is found of its key.

    Attributes:
        reader: finds it.
        key_of: gives the key of a record.
        value_type: the type of what is found.
        settings: how.
    """

    kind: ClassVar[str] = "Lookup"
    ignores_event_time: ClassVar[bool] = True
    reader: LookupReader
    key_of: Callable[[Any], Any]
    value_type: TypeInformation
    settings: LookupSettings

    @property
    def is_deterministic(self) -> bool:
        return self.reader.never_changes

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        type_, tag = inputs[0].record_type, self.settings.miss_tag
        misses = {} if tag is None else {tag.tag_id: type_}
        return OutputSchema(Types.TUPLE([type_, self.value_type]), misses)

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "it gives pairs, and rows alone can be changes"

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.lookup.lookup_operator import LookupOperator

        return LookupOperator(self.reader, self.key_of, parameters.output_type, self.settings)


@dataclass(frozen=True, slots=True)
class LookupJoinSpec(OperatorSpec):
    """A lookup join of SQL: joins rows with the rows of a table that have the same key at that time.

    Attributes:
        definition: the join.
    """

    ignores_event_time: ClassVar[bool] = True
    definition: LookupJoinDefinition

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(self.definition.result.output_type, has_changes=inputs[0].has_changes)


@dataclass(frozen=True, slots=True)
class TableLookupSpec(LookupJoinSpec):
    """A lookup join with a table that is read as a whole.

    Attributes:
        reader: reads it.
        reload: the trigger of reloads.
    """

    kind: ClassVar[str] = "TableLookup"
    reader: TableReader
    reload: ReloadTrigger

    @property
    def is_deterministic(self) -> bool:
        return self.reader.never_changes

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.lookup.lookup_joins import TableLookupOperator

        return TableLookupOperator(self.definition, self.reader, self.reload)


@dataclass(frozen=True, slots=True)
class VectorSearchSpec(TableLookupSpec):
    """Joins rows with those of a table whose vectors are the most similar.

    Attributes:
        nearest: which rows are found.
    """

    kind: ClassVar[str] = "VectorSearch"
    nearest: NearestRows

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.lookup.vector_search import VectorSearchOperator

        return VectorSearchOperator(self.definition, self.reader, self.reload, self.nearest)


@dataclass(frozen=True, slots=True)
class RequestedLookupSpec(LookupJoinSpec):
    """A lookup join that requests keys from the table.

    Attributes:
        reader: answers requests.
        requests: the settings of requests.
    """

    kind: ClassVar[str] = "RequestedLookup"
    is_deterministic: ClassVar[bool] = False
    reader: LookupReader
    requests: LookupRequests

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.lookup.lookup_joins import RequestedLookupOperator

        return RequestedLookupOperator(self.definition, self.reader, self.requests)


@dataclass(frozen=True, slots=True)
class PredictSpec(OperatorSpec):
    """Rows with the columns that a model gives for them.

    Attributes:
        features: what the model is given.
        model: the model.
        output_type: the type of the rows.
        settings: how requests are made; None where the model is called in place.
    """

    kind: ClassVar[str] = "Predict"
    ignores_event_time: ClassVar[bool] = True
    is_deterministic: ClassVar[bool] = False
    features: Features
    model: Model
    output_type: TypeInformation
    settings: RequestSettings | None = None

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(self.output_type, has_changes=inputs[0].has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.prediction import AsyncPredictOperator, PredictOperator

        if self.settings is None:
            return PredictOperator(self.features, self.model, self.output_type)
        return AsyncPredictOperator(self.features, self.model, self.output_type, self.settings)
