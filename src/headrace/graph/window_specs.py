"""What operators with windows do, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.common.typeinfo import Types
from headrace.graph.specs import InputKind, OperatorSpec, PassingSpec
from headrace.operators.window.columnar.layout import ColumnarWindowLayout
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_TAG
from headrace.operators.window.stores import RESULT
from headrace.state.kinds import KEYED, NO_STATE
from headrace.windowing.accumulation_mode import AccumulationMode
from headrace.windowing.assigner import MergingWindowAssigner
from headrace.windowing.serializers import window_serializer
from headrace.windowing.triggers.end_of_window import EventTimeTrigger, ProcessingTimeTrigger
from headrace.windowing.triggers.never import EndOfStreamTrigger
from headrace.windowing.triggers.purging import PurgingTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.graph.specs import InputSchema
    from headrace.operators.aggregates.aggregate import Aggregate
    from headrace.state.kinds import StateKinds
    from headrace.windowing.assigner import WindowAssigner
    from headrace.windowing.evictor import Evictor
    from headrace.windowing.intervals import AlignedWindows, GrowingWindows, RegularWindows
    from headrace.windowing.trigger import Trigger


class WindowSpec(OperatorSpec):
    """The root of operators with windows, from which records cannot be taken back."""

    __slots__ = ()

    kind: ClassVar[str] = "Window"
    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED,)
    state_kinds: ClassVar[StateKinds] = KEYED

    def takes_changes(self, inputs: Sequence[InputSchema]) -> bool:
        return False


class TriggeredWindowSpec(WindowSpec):
    """The root of operators with windows of any kind, as the program asks for them.

    Attributes:
        assigner: puts records into windows.
        trigger: says when the contents of windows are shown, and when they go.
        evictor: removes records from a window that fires; None removes none.
        allowed_lateness: milliseconds.
        late_tag: the side output for records that come too late; None drops and counts them.
        accumulation_mode: what windows show when they fire again.
    """

    __slots__ = ()

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    evictor: Evictor[Any, Any] | None
    allowed_lateness: int
    late_tag: OutputTag | None
    accumulation_mode: AccumulationMode

    @property
    def event_time_lag(self) -> int:  # type: ignore[override]
        """That of windows which merge where they touch: a record at the end of one is still part of it.

        It is not late before the watermark reaches the end, so no window may fire earlier, at its last timestamp.
        """
        return 1 if isinstance(self.assigner, MergingWindowAssigner) and self.assigner.is_event_time() else 0

    @property
    def plain_trigger(self) -> Trigger[Any, Any]:
        """The trigger, without one around it that only has windows discard what they have shown: the mode says that."""
        trigger = self.trigger
        while type(trigger) is PurgingTrigger and not self.accumulation_mode.retracts:
            trigger = trigger.nested_trigger
        return trigger

    @property
    def applied_mode(self) -> AccumulationMode:
        """What windows show when they fire again, where :attr:`plain_trigger` says when that is."""
        return self.accumulation_mode if self.plain_trigger is self.trigger else AccumulationMode.DISCARDING

    @property
    def applied_trigger(self) -> Trigger[Any, Any]:
        """The trigger; where windows are there to discard what they have shown, one that purges besides."""
        trigger = self.plain_trigger
        goes_when_shown = trigger.fires_only_at_end and self.allowed_lateness == 0 and self.assigner.is_event_time()
        is_discarding = self.applied_mode is AccumulationMode.DISCARDING
        return PurgingTrigger.of(trigger) if is_discarding and not goes_when_shown else trigger

    @property
    def late_tag_id(self) -> str | None:
        """The id of the side output for records that come too late, if there is one."""
        return None if self.late_tag is None else self.late_tag.tag_id

    def element_type(self, inputs: Sequence[InputSchema]) -> TypeInformation:
        """The type of what windows hold, triggers and evictors see, and late records are."""
        return inputs[0].record_type

    def side_types(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {} if self.late_tag is None else {self.late_tag.tag_id: self.element_type(inputs)}

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        shown = self.output_type(inputs) if self.accumulation_mode.retracts else None
        return self.held_records(inputs) | ({} if shown is None else {RESULT: shown})

    def held_records(self, inputs: Sequence[InputSchema]) -> dict[str, TypeInformation]:
        """What windows hold, as :meth:`kept_records` says it; of built-in aggregates what they look at."""
        return {"": self.element_type(inputs)}

    def has_changes(self, inputs: Sequence[InputSchema]) -> bool:
        is_fired_at_end = self.trigger == EventTimeTrigger() and self.allowed_lateness == 0
        fires_once = is_fired_at_end or self.trigger in (ProcessingTimeTrigger(), EndOfStreamTrigger())
        return self.accumulation_mode.retracts and not fires_once


@dataclass(frozen=True, slots=True)
class AggregatedWindowSpec(TriggeredWindowSpec):
    """Built-in aggregates over windows of any kind, as the program asks for them; the planner picks the operator.

    Attributes:
        assigner: puts records into windows.
        trigger: says when the contents of windows are shown, and when they go.
        aggregates: the built-in aggregates.
        evictor: removes records from a window that fires; None removes none.
        allowed_lateness: milliseconds.
        late_tag: the side output for records that come too late; None drops and counts them.
        has_key: whether results have the key; not where all records have one key.
        accumulation_mode: what windows show when they fire again.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    aggregates: tuple[Aggregate, ...]
    evictor: Evictor[Any, Any] | None = None
    allowed_lateness: int = 0
    late_tag: OutputTag | None = None
    has_key: bool = True
    accumulation_mode: AccumulationMode = AccumulationMode.ACCUMULATING

    def layout(self, records: InputSchema) -> ColumnarWindowLayout:
        """The columns of the windows over such records.

        Raises:
            InvalidTypeError: when an aggregate does not fit the records.
            InvalidProgramError: when two columns of the output have the same name.
        """
        key = records.key
        assert key is not None, "the graph takes keyed records only"
        names = key.names if self.has_key else ()
        window_names = window_serializer(self.assigner.get_window_serializer()).names
        return ColumnarWindowLayout.of(records.record_type, key.codec, self.aggregates, key.fields, names, window_names)

    def output_type(self, inputs: Sequence[InputSchema]) -> TypeInformation | None:
        return self.layout(inputs[0]).output_type


@dataclass(frozen=True, slots=True)
class RowWindowSpec(TriggeredWindowSpec):
    """Functions of the user over windows.

    Attributes:
        assigner: puts records into windows.
        trigger: says when the contents of windows are shown, and when they go.
        result_type: the type of what is emitted.
        evictor: removes records from a window that fires; None removes none.
        reduce_function: folds two records into one, if the window is reduced.
        aggregate_function: an ``AggregateFunction``, if the window is aggregated.
        window_function: a ``WindowFunction`` or ``ProcessWindowFunction`` over the contents, if there is one.
        accumulator_type: the type of the accumulator of ``aggregate_function``; None pickles it.
        allowed_lateness: milliseconds.
        late_tag: the side output for records that come too late; None drops and counts them.
        accumulation_mode: what windows show when they fire again.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    result_type: TypeInformation
    evictor: Evictor[Any, Any] | None = None
    reduce_function: Any = None
    aggregate_function: Any = None
    window_function: Any = None
    accumulator_type: TypeInformation | None = None
    allowed_lateness: int = 0
    late_tag: OutputTag | None = None
    accumulation_mode: AccumulationMode = AccumulationMode.ACCUMULATING

    @property
    def functions(self) -> Sequence[Any]:
        return self.reduce_function, self.aggregate_function, self.window_function

    def held_records(self, inputs: Sequence[InputSchema]) -> dict[str, TypeInformation]:
        is_folded = self.aggregate_function is not None and self.evictor is None
        accumulators = self.accumulator_type or Types.PICKLED_BYTE_ARRAY()
        return {"": accumulators if is_folded else self.element_type(inputs)}

    def output_type(self, inputs: Sequence[InputSchema]) -> TypeInformation | None:
        return self.result_type

    @property
    def emits_to_tags(self) -> bool:
        return self.window_function is not None


@dataclass(frozen=True, slots=True)
class ColumnarSpec(WindowSpec):
    """The root of operators with built-in aggregates, column by column, in the place of what the program asks for.

    Attributes:
        asked: the windows as the program asks for them.
    """

    asked: AggregatedWindowSpec

    @property
    def event_time_lag(self) -> int:  # type: ignore[override]
        return self.asked.event_time_lag

    def layout(self, records: InputSchema) -> ColumnarWindowLayout:
        """The columns of the windows over such records."""
        return self.asked.layout(records)

    def output_type(self, inputs: Sequence[InputSchema]) -> TypeInformation | None:
        return self.asked.output_type(inputs)

    def side_types(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return self.asked.side_types(inputs)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return self.asked.kept_records(inputs)

    def has_changes(self, inputs: Sequence[InputSchema]) -> bool:
        return self.asked.has_changes(inputs)


@dataclass(frozen=True, slots=True)
class ColumnarRegularSpec(ColumnarSpec):
    """The root of those whose windows are arithmetic, which senders may know as well."""

    @property
    def windows(self) -> RegularWindows:
        """The windows as arithmetic."""
        windows: RegularWindows | None = self.asked.assigner.regular
        assert windows is not None, "the planner takes no others"
        return windows


@dataclass(frozen=True, slots=True)
class ColumnarWindowSpec(ColumnarRegularSpec):
    """Windows of event time that follow from a record's timestamp alone."""


@dataclass(frozen=True, slots=True)
class ColumnarUntimedSpec(ColumnarRegularSpec):
    """Windows that do not look at timestamps: those of the clock, and the one that fires when the input ends."""


@dataclass(frozen=True, slots=True)
class ColumnarContinuousSpec(ColumnarSpec):
    """Windows of time that are shown at intervals before they end.

    Attributes:
        windows: the windows as arithmetic.
        interval: how long after a result the next one is due, in milliseconds.
        by_clock: whether that is time of the clock.
    """

    windows: AlignedWindows | GrowingWindows
    interval: int
    by_clock: bool


@dataclass(frozen=True, slots=True)
class ColumnarSessionSpec(ColumnarSpec):
    """Sessions of event time.

    Attributes:
        gap: how long after its last record a session ends, in milliseconds; the same for all records.
    """

    gap: int


@dataclass(frozen=True, slots=True)
class ColumnarCountSpec(ColumnarSpec):
    """Windows of so many records of a key.

    Attributes:
        size: how many records a window holds.
        slide: how many records after one window the next one begins; the size where they follow one another.
    """

    size: int
    slide: int


@dataclass(frozen=True, slots=True)
class LocalWindowSpec(WindowSpec, PassingSpec):
    """The sender's half of a two-phase window aggregation; put in by the planner.

    Records that it does not sum up leave by the main output, accumulators by a side output.

    Attributes:
        window: the window as it is without halves.
    """

    kind: ClassVar[str] = "LocalWindow"
    state_kinds: ClassVar[StateKinds] = NO_STATE
    window: ColumnarRegularSpec

    def side_types(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return {ACCUMULATORS_TAG: self.window.layout(inputs[0]).accumulator_type}


@dataclass(frozen=True, slots=True)
class GlobalWindowSpec(WindowSpec):
    """The receiver's half: records on the first input, accumulators on the second.

    Attributes:
        window: the window as it is without halves.
    """

    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)
    window: ColumnarRegularSpec

    def output_type(self, inputs: Sequence[InputSchema]) -> TypeInformation | None:
        return self.window.output_type(inputs)

    def kept_records(self, inputs: Sequence[InputSchema]) -> Mapping[str, TypeInformation]:
        return self.window.kept_records(inputs)
