"""How windows are computed: column by column where the results are the same, record by record otherwise, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.graph.join_specs import CoGroupSpec, IntervalJoinSpec
from headrace.graph.window_specs import (
    AggregatedWindowSpec,
    ColumnarContinuousSpec,
    ColumnarCountSpec,
    ColumnarSessionSpec,
    ColumnarSpec,
    ColumnarUntimedSpec,
    ColumnarWindowSpec,
    GlobalWindowSpec,
    LocalWindowSpec,
    RowWindowSpec,
    TriggeredWindowSpec,
)
from headrace.windowing.assigner import MergingWindowAssigner
from headrace.windowing.assigners.count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from headrace.windowing.assigners.global_windows import GlobalWindows
from headrace.windowing.assigners.of_time import ProcessingTimeAssigner
from headrace.windowing.assigners.sessions import EventTimeSessionWindows
from headrace.windowing.assigners.tumbling import TumblingProcessingTimeWindows, WindowStagger
from headrace.windowing.intervals import AlignedWindows, GrowingWindows
from headrace.windowing.triggers.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from headrace.windowing.triggers.count import CountTrigger
from headrace.windowing.triggers.end_of_window import EventTimeTrigger, ProcessingTimeTrigger
from headrace.windowing.triggers.never import EndOfStreamTrigger, NeverTrigger

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.graph.specs import OperatorSpec
    from headrace.windowing.assigner import WindowAssigner
    from headrace.windowing.trigger import Trigger

BY_RECORDS: Final = "record by record"
BY_COLUMNS: Final = "columnar"

_LONGEST_INTERVAL: Final = 1 << 62
"""No window is longer: what is shown at longer intervals is shown at the same times."""


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """Something that a faster operator, or a faster way of the same one, cannot do.

    Attributes:
        text: what it is; may name parts of the window.
        is_met: whether a window has it.
    """

    text: str
    is_met: Callable[[Any], bool]


def _is_of_sessions(assigner: WindowAssigner[Any, Any]) -> bool:
    """Whether windows are sessions of event time with one gap for all records."""
    return type(assigner) is EventTimeSessionWindows


def _is_of_the_clock(assigner: WindowAssigner[Any, Any]) -> bool:
    return isinstance(assigner, ProcessingTimeAssigner)


def _is_staggered(assigner: WindowAssigner[Any, Any]) -> bool:
    return isinstance(assigner, TumblingProcessingTimeWindows) and assigner.stagger is not WindowStagger.ALIGNED


def _is_of_a_count(assigner: WindowAssigner[Any, Any]) -> bool:
    """Whether windows are of so many records."""
    return type(assigner) in (CountTumblingWindowAssigner, CountSlidingWindowAssigner)


def _is_known(assigner: WindowAssigner[Any, Any]) -> bool:
    """Whether it is known without asking the assigner which windows there are."""
    return assigner.regular is not None or _is_of_sessions(assigner) or _is_of_a_count(assigner)


def _own_trigger(assigner: WindowAssigner[Any, Any]) -> Trigger[Any, Any]:
    """The trigger with which windows are computed column by column."""
    if isinstance(assigner, CountTumblingWindowAssigner | CountSlidingWindowAssigner):
        return CountTrigger(assigner.window_size)
    if isinstance(assigner, GlobalWindows):
        return EndOfStreamTrigger()
    return ProcessingTimeTrigger() if _is_of_the_clock(assigner) else EventTimeTrigger()


def _shown_at_intervals(asked: AggregatedWindowSpec) -> ColumnarContinuousSpec | None:
    """Windows of time with a continuous trigger, column by column; None for others."""
    windows, trigger = asked.assigner.regular, asked.plain_trigger
    if not isinstance(windows, AlignedWindows | GrowingWindows):
        return None
    if type(trigger) is ContinuousEventTimeTrigger and asked.assigner.is_event_time():
        return ColumnarContinuousSpec(asked, windows, min(trigger.interval, _LONGEST_INTERVAL), by_clock=False)
    if type(trigger) is ContinuousProcessingTimeTrigger:
        return ColumnarContinuousSpec(asked, windows, min(trigger.interval, _LONGEST_INTERVAL), by_clock=True)
    return None


def _has_columnar_trigger(spec: AggregatedWindowSpec) -> bool:
    return spec.plain_trigger == _own_trigger(spec.assigner) or _shown_at_intervals(spec) is not None


_OBSTACLES: Final = (
    _Obstacle("an evictor looks at every record", lambda spec: spec.evictor is not None),
    _Obstacle(
        "windows merge",
        lambda spec: isinstance(spec.assigner, MergingWindowAssigner) and not _is_of_sessions(spec.assigner),
    ),
    _Obstacle("windows are staggered", lambda spec: _is_staggered(spec.assigner)),
    _Obstacle("windows never fire", lambda spec: spec.plain_trigger == NeverTrigger()),
    _Obstacle("custom assigner {assigner}", lambda spec: not _is_known(spec.assigner)),
    _Obstacle("custom trigger {trigger}", lambda spec: not _has_columnar_trigger(spec)),
    _Obstacle(
        "sessions that stay for late records take results back",
        lambda spec: spec.allowed_lateness > 0 and _is_of_sessions(spec.assigner) and spec.applied_mode.retracts,
    ),
)
"""Why built-in aggregates are computed record by record; the first that is met is told."""

_FUNCTION: Final = "a function of the program"

_WHY_ASKED: Final = (
    _Obstacle("an evictor looks at every record", lambda spec: spec.evictor is not None),
    _Obstacle("results are taken back", lambda spec: spec.accumulation_mode.retracts),
    _Obstacle("windows merge", lambda spec: isinstance(spec.assigner, MergingWindowAssigner)),
    _Obstacle("windows of {assigner}", lambda spec: spec.assigner.aligned is None),
    _Obstacle("custom trigger {trigger}", lambda spec: not spec.plain_trigger.fires_only_at_end),
    _Obstacle("what was shown is dropped", lambda spec: not spec.applied_trigger.fires_only_at_end),
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


_COLUMNAR: Final = (ColumnarSpec, LocalWindowSpec, GlobalWindowSpec)


def path_of(spec: OperatorSpec) -> WindowPath | None:
    """How the windows of an operator are computed; None for operators without windows."""
    if isinstance(spec, _COLUMNAR):
        return WindowPath(BY_COLUMNS)
    if isinstance(spec, CoGroupSpec) and spec.columns:
        return WindowPath(BY_COLUMNS)
    if isinstance(spec, RowWindowSpec):
        return WindowPath(BY_RECORDS, "; ".join(filter(None, (_FUNCTION, _first_met(_WHY_ASKED, spec)))))
    if not isinstance(spec, AggregatedWindowSpec):
        return None
    met = _first_met(_OBSTACLES, spec)
    return WindowPath(BY_COLUMNS) if met is None else WindowPath(BY_RECORDS, met)


def is_join(spec: OperatorSpec) -> bool:
    """Whether an operator joins two streams."""
    return isinstance(spec, IntervalJoinSpec | CoGroupSpec)


def spills(spec: OperatorSpec) -> bool:
    """Whether what an operator holds of an epoch goes to the machine's own disk when it is much."""
    return isinstance(spec, IntervalJoinSpec) or (isinstance(spec, CoGroupSpec) and not _first_met(_WHY_ASKED, spec))


def _first_met(obstacles: tuple[_Obstacle, ...], spec: TriggeredWindowSpec) -> str | None:
    met = next((obstacle for obstacle in obstacles if obstacle.is_met(spec)), None)
    parts = {"assigner": type(spec.assigner).__name__, "trigger": type(spec.plain_trigger).__name__}
    return None if met is None else met.text.format(**parts)


def columnar_spec(spec: AggregatedWindowSpec) -> ColumnarSpec | None:
    """The same windows column by column; None where that cannot be."""
    path = path_of(spec)
    if path is None or path.reason is not None:
        return None
    if isinstance(spec.assigner, EventTimeSessionWindows):
        return ColumnarSessionSpec(spec, spec.assigner.session_gap)
    if isinstance(spec.assigner, CountTumblingWindowAssigner):
        return ColumnarCountSpec(spec, spec.assigner.window_size, spec.assigner.window_size)
    if isinstance(spec.assigner, CountSlidingWindowAssigner):
        return ColumnarCountSpec(spec, spec.assigner.window_size, spec.assigner.window_slide)
    with_own_trigger = ColumnarWindowSpec if spec.assigner.is_event_time() else ColumnarUntimedSpec
    return _shown_at_intervals(spec) or with_own_trigger(spec)


def asked_of(spec: OperatorSpec) -> TriggeredWindowSpec | None:
    """The windows as the program asks for them; None for operators without windows."""
    if isinstance(spec, LocalWindowSpec | GlobalWindowSpec):
        spec = spec.window
    if isinstance(spec, ColumnarSpec):
        return spec.asked
    return spec if isinstance(spec, TriggeredWindowSpec) else None
