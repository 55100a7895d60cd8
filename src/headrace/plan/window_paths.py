"""How windows are computed: column by column where the results are the same, record by record otherwise, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.graph.window_specs import (
    AggregatedWindowSpec,
    ColumnarSessionSpec,
    ColumnarWindowSpec,
    GlobalWindowSpec,
    LocalWindowSpec,
    RowWindowSpec,
)
from headrace.windowing.assigner import MergingWindowAssigner
from headrace.windowing.assigners.count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from headrace.windowing.assigners.global_windows import GlobalWindows
from headrace.windowing.assigners.of_time import ProcessingTimeAssigner
from headrace.windowing.assigners.sessions import EventTimeSessionWindows
from headrace.windowing.triggers.end_of_window import EventTimeTrigger

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.graph.specs import OperatorSpec
    from headrace.windowing.assigner import WindowAssigner

BY_RECORDS: Final = "record by record"
BY_COLUMNS: Final = "columnar"
_COUNT_WINDOWS: Final = (CountTumblingWindowAssigner, CountSlidingWindowAssigner)


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """Something that only the operator that goes record by record can do.

    Attributes:
        text: what it is; may name parts of the window.
        is_met: whether a window has it.
    """

    text: str
    is_met: Callable[[AggregatedWindowSpec], bool]


def _is_of_sessions(assigner: WindowAssigner[Any, Any]) -> bool:
    """Whether windows are sessions of event time with one gap for all records."""
    return type(assigner) is EventTimeSessionWindows


_OBSTACLES: Final = (
    _Obstacle("an evictor looks at every record", lambda spec: spec.evictor is not None),
    _Obstacle("windows end by the clock", lambda spec: isinstance(spec.assigner, ProcessingTimeAssigner)),
    _Obstacle(
        "windows merge",
        lambda spec: isinstance(spec.assigner, MergingWindowAssigner) and not _is_of_sessions(spec.assigner),
    ),
    _Obstacle("windows are of a count", lambda spec: isinstance(spec.assigner, _COUNT_WINDOWS)),
    _Obstacle("windows have no end", lambda spec: isinstance(spec.assigner, GlobalWindows)),
    _Obstacle(
        "custom assigner {assigner}", lambda spec: spec.assigner.regular is None and not _is_of_sessions(spec.assigner)
    ),
    _Obstacle("custom trigger {trigger}", lambda spec: spec.trigger != EventTimeTrigger()),
    _Obstacle(
        "sessions stay for late records", lambda spec: spec.allowed_lateness > 0 and _is_of_sessions(spec.assigner)
    ),
)
"""Why built-in aggregates are computed record by record; the first that is met is told."""


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


def path_of(spec: OperatorSpec) -> WindowPath | None:
    """How the windows of an operator are computed; None for operators without windows."""
    if isinstance(spec, ColumnarWindowSpec | LocalWindowSpec | GlobalWindowSpec | ColumnarSessionSpec):
        return WindowPath(BY_COLUMNS)
    if isinstance(spec, RowWindowSpec):
        return WindowPath(BY_RECORDS, "a function of the program")
    if not isinstance(spec, AggregatedWindowSpec):
        return None
    met = next((obstacle for obstacle in _OBSTACLES if obstacle.is_met(spec)), None)
    if met is None:
        return WindowPath(BY_COLUMNS)
    parts = {"assigner": type(spec.assigner).__name__, "trigger": type(spec.trigger).__name__}
    return WindowPath(BY_RECORDS, met.text.format(**parts))


def columnar_spec(spec: AggregatedWindowSpec) -> ColumnarWindowSpec | ColumnarSessionSpec | None:
    """The same windows column by column; None where that cannot be."""
    path = path_of(spec)
    if path is None or path.reason is not None:
        return None
    if isinstance(spec.assigner, EventTimeSessionWindows):
        return ColumnarSessionSpec(spec.assigner.session_gap, spec.aggregates, spec.late_tag, spec.has_key)
    assert spec.assigner.regular is not None
    return ColumnarWindowSpec(
        spec.assigner.regular,
        spec.aggregates,
        spec.allowed_lateness,
        spec.late_tag,
        spec.has_key,
        spec.accumulation_mode,
    )
