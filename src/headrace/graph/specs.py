"""What an operator does, as data: one small immutable class for each kind.

A spec holds the user's function as it was given; the planner picks the operator that runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.state.kinds import KEYED, NO_STATE

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.connectors.sink import Sink
    from headrace.connectors.source import Source
    from headrace.expressions import Bound
    from headrace.state.kinds import StateKinds
    from headrace.time.watermark_strategy import WatermarkStrategy
    from headrace.time.windows import AlignedWindows


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """The root of all specs.

    Class attributes:
        kind: the kind of operator, as shown in plans.
        state_kinds: the kinds of state that the operator may hold.
        is_timeless: whether it does the same whatever the event time is.
    """

    kind: ClassVar[str] = "Operator"
    state_kinds: ClassVar[StateKinds] = NO_STATE
    is_timeless: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class SourceSpec(OperatorSpec):
    """Reads records."""

    kind: ClassVar[str] = "Source"
    source: Source


@dataclass(frozen=True, slots=True)
class SinkSpec(OperatorSpec):
    """Writes records."""

    kind: ClassVar[str] = "Sink"
    is_timeless: ClassVar[bool] = True
    sink: Sink


@dataclass(frozen=True, slots=True)
class TimestampsSpec(OperatorSpec):
    """Assigns timestamps and makes watermarks."""

    kind: ClassVar[str] = "Timestamps/Watermarks"
    strategy: WatermarkStrategy


@dataclass(frozen=True, slots=True)
class MapSpec(OperatorSpec):
    """One record for each record."""

    kind: ClassVar[str] = "Map"
    is_timeless: ClassVar[bool] = True
    function: Any


@dataclass(frozen=True, slots=True)
class FlatMapSpec(OperatorSpec):
    """Any number of records for each record."""

    kind: ClassVar[str] = "FlatMap"
    is_timeless: ClassVar[bool] = True
    function: Any


@dataclass(frozen=True, slots=True)
class FilterSpec(OperatorSpec):
    """Keeps the records for which a function is true."""

    kind: ClassVar[str] = "Filter"
    is_timeless: ClassVar[bool] = True
    function: Any


@dataclass(frozen=True, slots=True)
class ColumnFilterSpec(OperatorSpec):
    """Keeps the records for which an expression is true."""

    kind: ClassVar[str] = "Filter"
    is_timeless: ClassVar[bool] = True
    condition: Bound


@dataclass(frozen=True, slots=True)
class SelectSpec(OperatorSpec):
    """One record of expressions for each record.

    Attributes:
        columns: an expression for each field, or one for the whole record.
    """

    kind: ClassVar[str] = "Map"
    is_timeless: ClassVar[bool] = True
    columns: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class MapBatchesSpec(OperatorSpec):
    """An Arrow batch for each Arrow batch."""

    kind: ClassVar[str] = "MapBatches"
    is_timeless: ClassVar[bool] = True
    function: Any


@dataclass(frozen=True, slots=True)
class ProcessSpec(OperatorSpec):
    """A ``ProcessFunction``: any number of records for each record, side outputs, no state and no timers."""

    kind: ClassVar[str] = "Process"
    function: Any


@dataclass(frozen=True, slots=True)
class KeyedProcessSpec(OperatorSpec):
    """A ``KeyedProcessFunction``: with state and timers."""

    kind: ClassVar[str] = "KeyedProcess"
    state_kinds: ClassVar[StateKinds] = KEYED
    function: Any


@dataclass(frozen=True, slots=True)
class RollingReduceSpec(OperatorSpec):
    """Folds the records of a key with a function; emits each new value (streaming) or the last one (batch)."""

    kind: ClassVar[str] = "Reduce"
    state_kinds: ClassVar[StateKinds] = KEYED
    function: Any


@dataclass(frozen=True, slots=True)
class RollingAggregateSpec(OperatorSpec):
    """A rolling ``sum``, ``min``, ``max``, ``min_by`` or ``max_by`` over one field.

    Attributes:
        aggregation: which of them.
        field: name or position; None for the record itself.
    """

    kind: ClassVar[str] = "Aggregate"
    state_kinds: ClassVar[StateKinds] = KEYED
    aggregation: str
    field: str | int | None


@dataclass(frozen=True, slots=True)
class ColumnarWindowSpec(OperatorSpec):
    """Built-in aggregates over windows, column by column.

    Attributes:
        assigner: puts records into windows.
        aggregates: the built-in aggregates.
        allowed_lateness: milliseconds.
        late_tag: the side output for records that come too late; None drops and counts them.
    """

    kind: ClassVar[str] = "Window"
    state_kinds: ClassVar[StateKinds] = KEYED
    assigner: AlignedWindows
    aggregates: tuple[Any, ...]
    allowed_lateness: int = 0
    late_tag: OutputTag | None = None


@dataclass(frozen=True, slots=True)
class RowWindowSpec(OperatorSpec):
    """Functions of the user over windows.

    Attributes:
        assigner: puts records into windows.
        reduce_function: folds two records into one, if the window is reduced.
        aggregate_function: an ``AggregateFunction``, if the window is aggregated.
        window_function: a ``WindowFunction`` or ``ProcessWindowFunction`` over the contents, if there is one.
        accumulator_type: the type of the accumulator of ``aggregate_function``.
        allowed_lateness: milliseconds.
        late_tag: the side output for records that come too late; None drops and counts them.
    """

    kind: ClassVar[str] = "Window"
    state_kinds: ClassVar[StateKinds] = KEYED
    assigner: AlignedWindows
    reduce_function: Any = None
    aggregate_function: Any = None
    window_function: Any = None
    accumulator_type: Any = None
    allowed_lateness: int = 0
    late_tag: OutputTag | None = None


@dataclass(frozen=True, slots=True)
class LocalWindowSpec(OperatorSpec):
    """The sender's half of a two-phase window aggregation; put in by the planner.

    Attributes:
        window: the receiver's half.
    """

    kind: ClassVar[str] = "LocalWindow"
    window: ColumnarWindowSpec
