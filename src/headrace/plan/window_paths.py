"""Chooses how windows are computed: by columns where the results are the same, otherwise by records, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from headrace.graph.changelog_specs import SortSpec
from headrace.graph.join_specs import BoundedJoinSpec
from headrace.graph.specs import OperatorSpec
from headrace.graph.window_specs import (
    AggregatedWindowSpec,
    CoGroupSpec,
    ColumnarWindowSpec,
    GlobalAggregateSpec,
    GroupAggregateSpec,
    IntervalJoinSpec,
    LocalAggregateSpec,
    RowWindowSpec,
    TriggeredWindowSpec,
)
from headrace.windowing.assigners import (
    MergingWindowAssigner,
    ProcessingTimeAssigner,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from headrace.windowing.count_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, GlobalWindows
from headrace.windowing.definition import WindowDefinition
from headrace.windowing.intervals import (
    AlignedWindows,
    ColumnarWindows,
    CountPanes,
    FiringInterval,
    GrowingWindows,
    SessionGap,
)
from headrace.windowing.session_assigners import EventTimeSessionWindows
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)

Assigner = WindowAssigner

BY_RECORDS: Final = "record by record"
BY_COLUMNS: Final = "columnar"

_LONGEST_INTERVAL: Final = 1 << 62
"""No window is longer: what is shown at longer intervals is shown at the same times."""


def _as_arithmetic(assigner: Assigner) -> ColumnarWindows | None:
    """The windows as arithmetic; None where only the assigner knows which there are."""
    if isinstance(assigner, EventTimeSessionWindows):
        return SessionGap(assigner.session_gap) if type(assigner) is EventTimeSessionWindows else None
    if type(assigner) is CountTumblingWindowAssigner:
        return CountPanes(assigner.window_size, assigner.window_size)
    if type(assigner) is CountSlidingWindowAssigner:
        return CountPanes(assigner.window_size, assigner.window_slide)
    return assigner.regular


def _own_trigger(assigner: Assigner) -> Trigger:
    """The trigger with which windows are computed column by column."""
    if isinstance(assigner, CountTumblingWindowAssigner | CountSlidingWindowAssigner):
        return CountTrigger(assigner.window_size)
    if isinstance(assigner, GlobalWindows):
        return EndOfStreamTrigger()
    return ProcessingTimeTrigger() if isinstance(assigner, ProcessingTimeAssigner) else EventTimeTrigger()


def _interval(windows: WindowDefinition) -> FiringInterval | None:
    """The interval of windows of time with a continuous trigger; None for all others."""
    trigger = windows.plain_trigger
    if not isinstance(windows.assigner.regular, AlignedWindows | GrowingWindows):
        return None
    if type(trigger) is ContinuousProcessingTimeTrigger:
        return FiringInterval(min(trigger.interval, _LONGEST_INTERVAL), by_clock=True)
    if type(trigger) is ContinuousEventTimeTrigger and windows.assigner.is_event_time():
        return FiringInterval(min(trigger.interval, _LONGEST_INTERVAL), by_clock=False)
    return None


def _obstacles(windows: WindowDefinition) -> Iterator[str]:
    """Reasons why built-in aggregates have to be computed record by record; the first one is reported."""
    assigner, trigger = windows.assigner, windows.plain_trigger
    are_sessions = type(assigner) is EventTimeSessionWindows  # of event time, with one gap for all records
    if windows.evictor is not None:
        yield "an evictor looks at every record"
    if isinstance(assigner, MergingWindowAssigner) and not are_sessions:
        yield "windows merge"
    if isinstance(assigner, TumblingProcessingTimeWindows) and assigner.stagger is not WindowStagger.ALIGNED:
        yield "windows are staggered"
    if trigger == NeverTrigger():
        yield "windows never fire"
    if _as_arithmetic(assigner) is None:
        yield f"custom assigner {type(assigner).__name__}"
    if trigger != _own_trigger(assigner) and _interval(windows) is None:
        yield f"custom trigger {type(trigger).__name__}"
    if are_sessions and windows.allowed_lateness > 0 and windows.applied_mode.retracts:
        yield "sessions that stay for late records take results back"


def _reasons_to_ask(windows: WindowDefinition) -> Iterator[str]:
    """Reasons to call the trigger for each record of windows with a user function, and not only at their ends."""
    if windows.evictor is not None:
        yield "an evictor looks at every record"
    if windows.accumulation_mode.retracts:
        yield "results are taken back"
    if isinstance(windows.assigner, MergingWindowAssigner):
        yield "windows merge"
    if windows.assigner.aligned is None:
        yield f"windows of {type(windows.assigner).__name__}"
    if not windows.plain_trigger.fires_only_at_end:
        yield f"custom trigger {type(windows.plain_trigger).__name__}"
    if not windows.applied_trigger.fires_only_at_end:
        yield "what was shown is dropped"


_FUNCTION: Final = "a function of the program"


@dataclass(frozen=True, slots=True)
class WindowPath:
    """The way in which a window is computed.

    Attributes:
        name: ``columnar`` or ``record by record``.
        reason: why it is not columnar; None when it is.
    """

    name: str
    reason: str | None = None

    def __str__(self) -> str:
        return self.name if self.reason is None else f"{self.name} ({self.reason})"


def path_of(spec: OperatorSpec) -> WindowPath | None:
    """Return how the windows of an operator are computed; None for operators without windows."""
    spec = _whole(spec)
    if isinstance(spec, ColumnarWindowSpec):
        return WindowPath(BY_COLUMNS)
    if isinstance(spec, CoGroupSpec) and spec.columns:
        return WindowPath(BY_COLUMNS)
    if isinstance(spec, RowWindowSpec):
        return WindowPath(BY_RECORDS, "; ".join([_FUNCTION, *islice(_reasons_to_ask(spec.definition), 1)]))
    if not isinstance(spec, AggregatedWindowSpec):
        return None
    obstacle = next(_obstacles(spec.definition), None)
    return WindowPath(BY_COLUMNS) if obstacle is None else WindowPath(BY_RECORDS, obstacle)


def is_join(spec: OperatorSpec) -> bool:
    """Return whether an operator joins two streams."""
    return isinstance(spec, IntervalJoinSpec | CoGroupSpec)


def gives_at_end(spec: OperatorSpec) -> bool:
    """Return whether an operator of a bounded input gives its results once, at the end; all it keeps is for these."""
    spec = _whole(spec)
    return isinstance(spec, BoundedJoinSpec | SortSpec) or (isinstance(spec, GroupAggregateSpec) and spec.is_final)


def spills(spec: OperatorSpec) -> bool:
    """Return whether what an operator holds of an epoch goes to the disk when it is much, or is in memory anyway.

    An operator that gives its results at the end has all groups, or all rows of an order, in memory then.
    """
    is_at_end = isinstance(spec, CoGroupSpec) and spec.definition.fixed_windows is not None
    return is_at_end or isinstance(spec, IntervalJoinSpec) or gives_at_end(spec)


def columnar_spec(spec: AggregatedWindowSpec) -> ColumnarWindowSpec | None:
    """The same windows column by column; None where that cannot be, or is so already."""
    if isinstance(spec, ColumnarWindowSpec):
        return None
    windows = _as_arithmetic(spec.definition.assigner)
    if windows is None or any(_obstacles(spec.definition)):
        return None
    interval = _interval(spec.definition)
    declared = spec.definition, spec.aggregates, spec.has_key, spec.known
    return ColumnarWindowSpec(*declared, windows=windows, interval=interval)


def windows_of(spec: OperatorSpec) -> WindowDefinition | None:
    """The windows of an operator; None for operators without windows."""
    spec = _whole(spec)
    return spec.definition if isinstance(spec, TriggeredWindowSpec) else None


def _whole(spec: OperatorSpec) -> OperatorSpec:
    """The aggregation that an operator is a half of, or the operator itself."""
    return spec.aggregate if isinstance(spec, LocalAggregateSpec | GlobalAggregateSpec) else spec
