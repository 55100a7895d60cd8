"""Specs: operators as data, one small immutable class for each kind.

A spec holds the user's function as it was given, and says all that the graph, the planner and the tasks have to know of
the operator: what it wants its inputs to be, which state it may hold, and of which types its outputs are. It travels to
the tasks, and creates the operator there. Modules of operators that no program needs are imported when it does, so that
a driver starts without them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any, ClassVar, Final, Self

import pyarrow as pa

from headrace.common.output_tag import OutputTag
from headrace.common.type_variables import SupportsFilter, SupportsFlatMap, SupportsMap, SupportsReduce
from headrace.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.composite import declares_changes
from headrace.connectors.sink import Sink, writer_state_type
from headrace.connectors.source import KeptClients, Source
from headrace.expressions import Bound
from headrace.graph.partitioning import KeySelection
from headrace.operators.base import Operator
from headrace.operators.stateless import ColumnFilterOperator, SelectOperator
from headrace.operators.user_code import OperatorPlace
from headrace.state.evolution import RenamedFields
from headrace.state.protocols import KEYED, NO_STATE, StateKind, StateKinds
from headrace.storage.folder import Folder
from headrace.time.watermark_strategy import WatermarkStrategy

DEAD_LETTER_TYPE: Final = Types.ROW_NAMED(["where", "raw", "reason"], [Types.STRING(), Types.STRING(), Types.STRING()])
"""The record about a row that a source cannot read, or a sink not write; its tag may declare a tuple of three
strings."""


_LIST: Final = frozenset({StateKind.LIST})

CHANGES: Final = (
    "updates or deletions: leave these out with filter(lambda row: row.get_row_kind() is RowKind.INSERT), or make a "
    "field of what row.get_row_kind() says with map(...)"
)
"""The rest of errors of operators that are to take more than insertions."""


class InputKind(Enum):
    """The demand of an operator on one of its inputs."""

    ANY = "records"
    KEYED = "keyed records"


@dataclass(frozen=True, slots=True, order=True)
class ColumnOrigin:
    """A column that another one comes from.

    Attributes:
        source: the table, or the uid of the source, that it is of.
        column: its name.
        is_same: whether values are taken over as they are.
    """

    source: str
    column: str
    is_same: bool = True


@dataclass(frozen=True, slots=True)
class InputSchema:
    """One input of an operator in its graph.

    Attributes:
        record_type: the type of its records.
        key: how they are keyed; None when they are not.
        has_changes: whether they are known to be more than insertions, as updates and deletions are.
    """

    record_type: TypeInformation
    key: KeySelection | None = None
    has_changes: bool = False


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The outputs of one operator in its graph.

    Attributes:
        output_type: the type of the main output; None for a sink.
        side_types: the types of the side outputs, by tag id.
        has_changes: whether the main output is known to be more than insertions; the records alone may show that it is.
    """

    output_type: TypeInformation | None = None
    side_types: Mapping[str, TypeInformation] = field(default_factory=dict)
    has_changes: bool = False


def output_of(output_type: TypeInformation) -> OutputSchema:
    """One output, with the changes that its type declares."""
    return OutputSchema(output_type, has_changes=declares_changes(output_type))


@dataclass(frozen=True, slots=True)
class TaskParameters:
    """Parameters that all operators of a task have in common.

    Attributes:
        job_id: the id of the job.
        generation: the generation of the job manager.
        subtask: the index of the subtask, from 0.
        is_batch: whether the job runs in batch mode, in which timers of processing time fire when the input has ended.
        storage: the checkpoint directory, where sinks keep what is not committed.
        storage_options: how object stores are reached; not shown, since there are secrets among them.
        clients: the clients that this process keeps for the job.
    """

    job_id: str
    generation: int
    subtask: int
    is_batch: bool
    storage: Folder
    storage_options: Mapping[str, str] = field(repr=False)
    clients: KeptClients


@dataclass(frozen=True, slots=True)
class OperatorParameters:
    """Parameters from which a spec creates the operator of one subtask (Flink's ``StreamOperatorParameters``).

    Attributes:
        task: the task.
        place: the operator, as errors name it.
        parallelism: the number of its subtasks.
        inputs: its inputs.
        output_type: the type of its main output; that of its first input for a sink.
        side_types: the types of those of its side outputs that are read, by tag id.
        renamed_fields: as in :class:`.OperatorContext`.
    """

    task: TaskParameters
    place: OperatorPlace
    parallelism: int
    inputs: Sequence[InputSchema]
    output_type: TypeInformation
    side_types: Mapping[str, TypeInformation]
    renamed_fields: RenamedFields

    @property
    def input_types(self) -> list[TypeInformation]:
        """The types of the records of each input."""
        return [schema.record_type for schema in self.inputs]


@dataclass(frozen=True, slots=True)
class OperatorSpec(ABC):
    """The root of all specs.

    Properties are the same for all specs of a class where the class has an attribute in their place.

    Class attributes:
        kind: the kind of operator, as shown in plans.
        inputs: what each of its inputs has to be; empty for a source.
    """

    kind: ClassVar[str] = "Operator"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.ANY,)

    @property
    def is_sink(self) -> bool:
        """Return whether nothing can follow it."""
        return False

    @property
    def state_kinds(self) -> StateKinds:
        """The kinds of state that the operator may hold; keyed state belongs to the keys of its keyed inputs."""
        return NO_STATE

    @property
    def ignores_event_time(self) -> bool:
        """Return whether it does the same whatever the event time is."""
        return False

    @property
    def waits_for_all_inputs(self) -> bool:
        """Return whether it emits nothing before all of its inputs have ended, whichever of them are read first."""
        return False

    @property
    def requires_aligned_watermark(self) -> bool:
        """Return whether it cannot run where every split has an event time of its own, before any shuffle."""
        return False

    @property
    def event_time_lag(self) -> int:
        """By how many milliseconds its event time is behind that of its inputs."""
        return 0

    @property
    def is_deterministic(self) -> bool:
        """Return whether it gives the same for the same records whenever it runs; a service need not."""
        return True

    @abstractmethod
    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        """The outputs that the operator has by itself.

        Args:
            inputs: as many as :attr:`inputs`.

        Raises:
            InvalidTypeError: when the operator has no use for such records.
        """

    def resolved(self, inputs: Sequence[InputSchema]) -> Self:
        """The spec with what follows from its inputs, found once, by the graph that takes it."""
        return self

    @abstractmethod
    def create_operator(self, parameters: OperatorParameters) -> Operator:
        """Creates the operator of one subtask, which is not open."""

    @property
    def functions(self) -> Sequence[object]:
        """The objects of the user that the operator calls, which may have state of the subtask."""
        return ()

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        """The records that the operator itself keeps from epoch to epoch; states of functions do not count.

        Returns:
            Their types, by what paths to their fields begin with in ``set_renamed_fields``; nothing for the records of
            an operator with one input. Empty where it keeps none.
        """
        return {}

    def renamed_in_state(self, renamed: RenamedFields) -> RenamedFields:
        """Return where the records are in what the operator stores, of which fields have other names now."""
        return renamed

    @property
    def emits_to_tags(self) -> bool:
        """Return whether it has every side output that the program reads, of the type of the tag."""
        return False

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        """The reason why records may not update and delete earlier ones; empty where they may."""
        return ""


@dataclass(frozen=True, slots=True)
class SourceSpec(OperatorSpec):
    """Reads records.

    Attributes:
        source: where they come from.
        changelog: whether they are changes, although their type does not declare it.
        table: the full name of the table that it reads; empty where the program reads no table.
    """

    kind: ClassVar[str] = "Source"
    inputs: ClassVar[tuple[InputKind, ...]] = ()
    source: Source
    changelog: bool = False
    table: str = ""

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        type_ = self.source.produced_type
        return OutputSchema(type_, dead_letters(self.source.dead_letter), self.changelog or declares_changes(type_))

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        raise NotImplementedError("a source has a reader in the place of an operator")


def dead_letters(tag: OutputTag | None) -> Mapping[str, TypeInformation]:
    """The side output of what a source cannot read or a sink cannot write, if there is one."""
    if tag is None:
        return {}
    declared = tag.type_info
    fits = isinstance(declared, TupleTypeInfo | RowTypeInfo) and declared.field_types == DEAD_LETTER_TYPE.field_types
    return {tag.tag_id: declared if fits else DEAD_LETTER_TYPE}


@dataclass(frozen=True, slots=True)
class SinkSpec(OperatorSpec):
    """Writes records; state and time matter where the sink says so.

    Attributes:
        sink: where they go.
        origins: the columns of tables that each column comes from, where a plan of SQL says it.
    """

    kind: ClassVar[str] = "Sink"
    is_sink: ClassVar[bool] = True
    sink: Sink
    origins: tuple[frozenset[ColumnOrigin], ...] = field(default=(), compare=False)

    @property
    def functions(self) -> Sequence[object]:
        return (self.sink,)

    @property
    def state_kinds(self) -> StateKinds:
        return NO_STATE if writer_state_type(self.sink) is None else _LIST

    @property
    def ignores_event_time(self) -> bool:
        return not self.sink.takes_watermarks

    @property
    def requires_aligned_watermark(self) -> bool:
        return self.sink.takes_watermarks

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        self.sink.validate(inputs[0].record_type)
        return OutputSchema(None, dead_letters(self.sink.dead_letter))

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.connectors.sink import WriterContext
        from headrace.operators.sink import SinkOperator
        from headrace.storage.folder import sink_folder

        task, uid = parameters.task, parameters.place.uid
        context = WriterContext(
            job_id=task.job_id,
            operator_id=uid,
            generation=task.generation,
            subtask=task.subtask,
            parallelism=parameters.parallelism,
            input_type=parameters.inputs[0].record_type,
            storage_options=task.storage_options,
            folder=sink_folder(task.storage, uid),
            clients=task.clients,
        )
        return SinkOperator(self.sink, context, next(iter(dead_letters(self.sink.dead_letter).items()), None))

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "" if self.sink.takes_changes(inputs[0].record_type) else "what it writes is not taken back"

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        kept = writer_state_type(self.sink)
        return {} if kept is None else {"": kept}


class PassingSpec(OperatorSpec):
    """The root of operators whose results are of the type of their records, and do what these do in a changelog."""

    __slots__ = ()

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(inputs[0].record_type, has_changes=any(map(attrgetter("has_changes"), inputs)))


class FoldingSpec(PassingSpec):
    """The root of operators that fold the records of a key into one."""

    __slots__ = ()

    def why_insertions_only(self, inputs: Sequence[InputSchema]) -> str:
        return "what is folded in is not taken out again, as key_by(...).aggregate(...) does"

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {"": inputs[0].record_type}


@dataclass(frozen=True, slots=True)
class TimestampsSpec(PassingSpec):
    """Assigns timestamps and makes watermarks."""

    kind: ClassVar[str] = "Timestamps/Watermarks"
    strategy: WatermarkStrategy

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.timestamps import TimestampsOperator

        return TimestampsOperator(self.strategy, is_batch=parameters.task.is_batch)


@dataclass(frozen=True, slots=True)
class FilterSpec(PassingSpec):
    """Keeps the records for which a function is true."""

    kind: ClassVar[str] = "Filter"
    ignores_event_time: ClassVar[bool] = True
    function: Callable[[Any], bool] | SupportsFilter

    @property
    def functions(self) -> Sequence[object]:
        return (self.function,)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return OutputSchema(inputs[0].record_type)  # it may be for leaving changes out

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.stateless import FilterOperator

        return FilterOperator(self.function, parameters.inputs[0].record_type)


@dataclass(frozen=True, slots=True)
class ColumnFilterSpec(PassingSpec):
    """Keeps the records for which an expression is true."""

    kind: ClassVar[str] = "Filter"
    ignores_event_time: ClassVar[bool] = True
    condition: Bound

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        return ColumnFilterOperator(self.condition)


@dataclass(frozen=True, slots=True)
class RollingReduceSpec(FoldingSpec):
    """Folds the records of a key with a function; emits each new value (streaming) or the last one (batch)."""

    kind: ClassVar[str] = "Reduce"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = KEYED
    function: Callable[[Any, Any], Any] | SupportsReduce

    @property
    def functions(self) -> Sequence[object]:
        return (self.function,)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.functions import method_of
        from headrace.operators.rolling import RollingOperator

        type_ = parameters.inputs[0].record_type
        fold = method_of(self.function, "reduce")
        return RollingOperator(fold, type_, self.function, is_batch=parameters.task.is_batch)


@dataclass(frozen=True, slots=True)
class RollingAggregateSpec(FoldingSpec):
    """A rolling ``sum``, ``min``, ``max``, ``min_by`` or ``max_by`` over one field.

    Attributes:
        aggregation: which of them.
        field: name or position; None for the record itself.
    """

    kind: ClassVar[str] = "Aggregate"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = KEYED
    aggregation: str
    field: str | int | None

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.rolling import RollingOperator, rolling_aggregate

        type_ = parameters.inputs[0].record_type
        fold = rolling_aggregate(self.aggregation, self.field, type_)
        return RollingOperator(fold, type_, is_batch=parameters.task.is_batch)


@dataclass(frozen=True, slots=True)
class SelectSpec(OperatorSpec):
    """One record of expressions for each record.

    Attributes:
        columns: an expression for each field, or one for the whole record.
        result_type: the type of the new records.
        changelog: whether they are changes, although the type of the records before does not declare it.
        condition: the condition on the records of which new ones are made; None for all.
    """

    kind: ClassVar[str] = "Map"
    ignores_event_time: ClassVar[bool] = True
    columns: tuple[Bound, ...]
    result_type: TypeInformation
    changelog: bool = False
    condition: Bound | None = None

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        has_changes = self.changelog or (isinstance(self.result_type, RowTypeInfo) and inputs[0].has_changes)
        return OutputSchema(self.result_type, has_changes=has_changes)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        return SelectOperator(self.columns, self.result_type, self.condition)


@dataclass(frozen=True, slots=True)
class FunctionSpec(OperatorSpec):
    """The root of operators that make what a function gives.

    Attributes:
        function: the user's.
        result_type: the type of its results, as the program declares it or as its annotations say.
    """

    function: object
    result_type: TypeInformation

    @property
    def functions(self) -> Sequence[object]:
        return (self.function,)

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        return output_of(self.result_type)


@dataclass(frozen=True, slots=True)
class MapSpec(FunctionSpec):
    """One record for each record.

    Attributes:
        is_hidden: whether it is a step of another operation of the program: then it cannot be given a uid.
    """

    function: Callable[[Any], Any] | SupportsMap
    is_hidden: bool = False

    kind: ClassVar[str] = "Map"
    ignores_event_time: ClassVar[bool] = True

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.stateless import MapOperator

        return MapOperator(self.function, self.result_type)


@dataclass(frozen=True, slots=True)
class FlatMapSpec(FunctionSpec):
    """Any number of records for each record."""

    function: Callable[[Any], Iterable[Any] | None] | SupportsFlatMap

    kind: ClassVar[str] = "FlatMap"
    ignores_event_time: ClassVar[bool] = True

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.stateless import FlatMapOperator

        return FlatMapOperator(self.function, self.result_type)


@dataclass(frozen=True, slots=True)
class MapBatchesSpec(FunctionSpec):
    """An Arrow batch for each Arrow batch."""

    function: Callable[[pa.RecordBatch], pa.RecordBatch | None]

    kind: ClassVar[str] = "MapBatches"
    ignores_event_time: ClassVar[bool] = True

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        from headrace.operators.stateless import MapBatchesOperator

        return MapBatchesOperator(self.function, self.result_type)
