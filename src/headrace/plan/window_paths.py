"""How windows are computed: column by column where the results are the same, record by record otherwise, and why."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.graph.specs import OperatorSpec
from headrace.graph.window_specs import (
    AggregatedWindowSpec,
    CoGroupSpec,
    ColumnarWindowSpec,
    GlobalWindowSpec,
    IntervalJoinSpec,
    LocalWindowSpec,
    RowWindowSpec,
    TriggeredWindowSpec,
)
from headrace.windowing.assigner import MergingWindowAssigner, ProcessingTimeAssigner, WindowAssigner
from headrace.windowing.assigners import TumblingProcessingTimeWindows, WindowStagger
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

Obstacle = tuple[str, Callable[[WindowDefinition], bool]]
"""Something that a faster operator, or a faster way of the same one, cannot do, and whether windows have it.

The text may name parts of the window.
"""

BY_RECORDS: Final = "record by record"
BY_COLUMNS: Final = "columnar"

_LONGEST_INTERVAL: Final = 1 << 62
"""No window is longer: what is shown at longer intervals is shown at the same times."""


def _is_of_sessions(assigner: Assigner) -> bool:
    """Whether windows are sessions of event time with one gap for all records."""
    return type(assigner) is EventTimeSessionWindows


def _is_of_the_clock(assigner: Assigner) -> bool:
    return isinstance(assigner, ProcessingTimeAssigner)


def _is_staggered(assigner: Assigner) -> bool:
    return isinstance(assigner, TumblingProcessingTimeWindows) and assigner.stagger is not WindowStagger.ALIGNED


def _as_arithmetic(assigner: Assigner) -> ColumnarWindows | None:
    """The windows as arithmetic; None where only the assigner knows which there are."""
    if isinstance(assigner, EventTimeSessionWindows):
        return SessionGap(assigner.session_gap) if _is_of_sessions(assigner) else None
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
    return ProcessingTimeTrigger() if _is_of_the_clock(assigner) else EventTimeTrigger()


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


def _has_columnar_trigger(windows: WindowDefinition) -> bool:
    return windows.plain_trigger == _own_trigger(windows.assigner) or _interval(windows) is not None


def _merges_otherwise(windows: WindowDefinition) -> bool:
    return isinstance(windows.assigner, MergingWindowAssigner) and not _is_of_sessions(windows.assigner)


def _retracts_late_sessions(windows: WindowDefinition) -> bool:
    is_of_sessions = _is_of_sessions(windows.assigner)
    return is_of_sessions and windows.allowed_lateness > 0 and windows.applied_mode.retracts


_OBSTACLES: Final[Sequence[Obstacle]] = (
    ("an evictor looks at every record", lambda windows: windows.evictor is not None),
    ("windows merge", _merges_otherwise),
    ("windows are staggered", lambda windows: _is_staggered(windows.assigner)),
    ("windows never fire", lambda windows: windows.plain_trigger == NeverTrigger()),
    ("custom assigner {assigner}", lambda windows: _as_arithmetic(windows.assigner) is None),
    ("custom trigger {trigger}", lambda windows: not _has_columnar_trigger(windows)),
    ("sessions that stay for late records take results back", _retracts_late_sessions),
)
"""Why built-in aggregates are computed record by record; the first that is met is told."""

_FUNCTION: Final = "a function of the program"

_WHY_ASKED: Final[Sequence[Obstacle]] = (
    ("an evictor looks at every record", lambda windows: windows.evictor is not None),
    ("results are taken back", lambda windows: windows.accumulation_mode.retracts),
    ("windows merge", lambda windows: isinstance(windows.assigner, MergingWindowAssigner)),
    ("windows of {assigner}", lambda windows: windows.assigner.aligned is None),
    ("custom trigger {trigger}", lambda windows: not windows.plain_trigger.fires_only_at_end),
    ("what was shown is dropped", lambda windows: not windows.applied_trigger.fires_only_at_end),
)
"""Why the trigger is asked about each record of windows with a function of the program; else it fires at their ends."""


@dataclass(frozen=True, slots=True)
class WindowPath:
    """How a window is computed.

    Attributes:
        name: ``columnar`` or ``record by record``.
        reason: why it is not columnar; None when it is.
    """

    name: str
    reason: str | None = None

    def __str__(self) -> str:
        return self.name if self.reason is None else f"{self.name} ({self.reason})"


_COLUMNAR: Final = (ColumnarWindowSpec, LocalWindowSpec, GlobalWindowSpec)


def path_of(spec: OperatorSpec) -> WindowPath | None:
    """How the windows of an operator are computed; None for operators without windows."""
    if isinstance(spec, _COLUMNAR):
        return WindowPath(BY_COLUMNS)
    if isinstance(spec, CoGroupSpec) and spec.columns:
        return WindowPath(BY_COLUMNS)
    if isinstance(spec, RowWindowSpec):
        return WindowPath(BY_RECORDS, "; ".join(filter(None, (_FUNCTION, _first_met(_WHY_ASKED, spec.definition)))))
    if not isinstance(spec, AggregatedWindowSpec):
        return None
    met = _first_met(_OBSTACLES, spec.definition)
    return WindowPath(BY_COLUMNS) if met is None else WindowPath(BY_RECORDS, met)


def is_join(spec: OperatorSpec) -> bool:
    """Whether an operator joins two streams."""
    return isinstance(spec, IntervalJoinSpec | CoGroupSpec)


def spills(spec: OperatorSpec) -> bool:
    """Whether what an operator holds of an epoch goes to the machine's own disk when it is much."""
    is_at_end = isinstance(spec, CoGroupSpec) and spec.definition.fixed_windows is not None
    return is_at_end or isinstance(spec, IntervalJoinSpec)


def _first_met(obstacles: Iterable[Obstacle], windows: WindowDefinition) -> str | None:
    met = next((text for text, is_met in obstacles if is_met(windows)), None)
    parts = {"assigner": type(windows.assigner).__name__, "trigger": type(windows.plain_trigger).__name__}
    return None if met is None else met.format(**parts)


def columnar_spec(spec: AggregatedWindowSpec) -> ColumnarWindowSpec | None:
    """The same windows column by column; None where that cannot be, or is so already."""
    if isinstance(spec, ColumnarWindowSpec):
        return None
    path, windows = path_of(spec), _as_arithmetic(spec.definition.assigner)
    if path is None or path.reason is not None or windows is None:
        return None
    interval = _interval(spec.definition)
    asked = spec.definition, spec.aggregates, spec.has_key, spec.known
    return ColumnarWindowSpec(*asked, windows=windows, interval=interval)


def windows_of(spec: OperatorSpec) -> WindowDefinition | None:
    """The windows of an operator; None for operators without windows."""
    if isinstance(spec, LocalWindowSpec | GlobalWindowSpec):
        spec = spec.window
    return spec.definition if isinstance(spec, TriggeredWindowSpec) else None
