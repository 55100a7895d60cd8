"""Everything that windows may be made of, and what may happen to them, for hypothesis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.output_tag import OutputTag
from headrace.windowing.assigners import (
    CumulatingEventTimeWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from headrace.windowing.count_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, GlobalWindows
from headrace.windowing.definition import AccumulationMode, WindowDefinition
from headrace.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from headrace.windowing.session_assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from tests.windowing.model import WindowModel

KEYS: Final = [1, 2, 3]
FIRST_CLOCK: Final = 1000


@dataclass(frozen=True)
class Windows:
    """The parts of a window operator.

    Attributes:
        assigner: puts elements into windows.
        trigger: says when they fire; None for the assigner's own.
        evictor: drops elements; None drops none.
        lateness: milliseconds.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any] | None
    evictor: Evictor[Any, Any] | None
    lateness: int

    @property
    def are_of_subtasks(self) -> bool:
        """Whether each subtask has windows of its own: those of the model are the ones of the first subtask."""
        assigner = self.assigner
        return isinstance(assigner, TumblingProcessingTimeWindows) and assigner.stagger is WindowStagger.RANDOM

    def definition(
        self, late_tag: str | None = None, mode: AccumulationMode = AccumulationMode.ACCUMULATING
    ) -> WindowDefinition:
        """The same for an operator."""
        trigger = self.trigger or self.assigner.get_default_trigger(None)
        tag = None if late_tag is None else OutputTag(late_tag)
        return WindowDefinition(self.assigner, trigger, self.evictor, self.lateness, tag, mode)

    def model(self, rank: Any = repr) -> WindowModel:
        """The model of these windows."""
        return WindowModel(self.assigner, self.trigger, self.evictor, self.lateness, rank)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Element:
    """An element, and the watermark in force when it comes."""

    key: int
    value: int
    timestamp: int
    watermark: int


@dataclass(frozen=True)
class Epoch:
    """What comes in an epoch.

    Attributes:
        clock: the reading of the clock.
        batches: the elements, by batches.
        watermark: what the watermark has reached at the end.
    """

    clock: int
    batches: tuple[tuple[Element, ...], ...]
    watermark: int


def gap_of(value: int) -> int:
    """The gap that an element asks for."""
    return value % 7 + 1


def distance(before: int, now: int) -> float:
    """How far two elements are apart."""
    return abs(now - before)


@st.composite
def _aligned(draw: st.DrawFn) -> WindowAssigner[Any, Any]:
    size, slide = draw(st.integers(1, 12)), draw(st.integers(1, 15))
    if draw(st.booleans()):
        kind: Any = draw(st.sampled_from([TumblingEventTimeWindows, TumblingProcessingTimeWindows]))
        return kind.of(size, draw(st.integers(1 - size, size - 1)))
    kind = draw(st.sampled_from([SlidingEventTimeWindows, SlidingProcessingTimeWindows]))
    return kind.of(size, slide, draw(st.integers(1 - slide, slide - 1)))


_STEPS: Final = st.integers(1, 4)

ASSIGNERS: Final[st.SearchStrategy[Any]] = st.one_of(
    _aligned(),
    st.builds(
        lambda size, stagger: TumblingProcessingTimeWindows.of(size, 0, stagger),
        st.integers(1, 12),
        st.sampled_from(WindowStagger),
    ),
    st.builds(lambda step, steps: CumulatingEventTimeWindows.of(step * steps, step), _STEPS, _STEPS),
    st.builds(EventTimeSessionWindows.with_gap, st.integers(1, 12)),
    st.builds(ProcessingTimeSessionWindows.with_gap, st.integers(1, 12)),
    st.just(EventTimeSessionWindows.with_dynamic_gap(lambda row: gap_of(row["value"]))),
    st.just(ProcessingTimeSessionWindows.with_dynamic_gap(lambda row: gap_of(row["value"]))),
    st.just(GlobalWindows.create()),
    st.just(GlobalWindows.create_with_end_of_stream_trigger()),
    st.builds(CountTumblingWindowAssigner.of, _STEPS),
    st.builds(CountSlidingWindowAssigner.of, _STEPS, _STEPS),
)


class SilentEventTimeTrigger(EventTimeTrigger):
    """Does the same, but does not say of itself that it fires only at the end: windows cannot rely on it."""


_PLAIN_TRIGGERS: Final[st.SearchStrategy[Any]] = st.one_of(
    st.just(EventTimeTrigger.create()),
    st.just(SilentEventTimeTrigger()),
    st.just(ProcessingTimeTrigger.create()),
    st.builds(ContinuousEventTimeTrigger.of, st.integers(1, 8)),
    st.builds(ContinuousProcessingTimeTrigger.of, st.integers(1, 8)),
    st.builds(CountTrigger.of, _STEPS),
    st.just(EndOfStreamTrigger.create()),
    st.just(NeverTrigger()),
    st.builds(lambda limit: DeltaTrigger.of(limit, lambda a, b: distance(a["value"], b["value"])), st.integers(0, 9)),
)

TRIGGERS: Final[st.SearchStrategy[Any]] = st.one_of(
    st.none(),
    _PLAIN_TRIGGERS,
    st.builds(PurgingTrigger.of, _PLAIN_TRIGGERS),
    st.builds(ProcessingTimeoutTrigger.of, _PLAIN_TRIGGERS, st.integers(1, 9), st.booleans(), st.booleans()),
    st.builds(
        lambda inner, time: PurgingTrigger.of(ProcessingTimeoutTrigger.of(inner, time)),
        _PLAIN_TRIGGERS,
        st.integers(1, 9),
    ),
)

EVICTORS: Final[st.SearchStrategy[Any]] = st.one_of(
    st.none(),
    st.none(),
    st.builds(CountEvictor.of, st.integers(0, 3), st.booleans()),
    st.builds(TimeEvictor.of, st.integers(1, 12), st.booleans()),
    st.builds(
        lambda limit, after: DeltaEvictor.of(limit, lambda a, b: distance(a["value"], b["value"]), after),
        st.integers(0, 9),
        st.booleans(),
    ),
)


@st.composite
def windows(draw: st.DrawFn) -> Windows:
    """Windows of every kind that a program may ask for."""
    assigner = draw(ASSIGNERS)
    triggers = TRIGGERS
    if isinstance(assigner, MergingWindowAssigner):
        triggers = TRIGGERS.filter(lambda trigger: trigger is None or trigger.can_merge())
    lateness = draw(st.sampled_from([0, 0, 1, 5, 30, MAX_WATERMARK]))
    return Windows(assigner, draw(triggers), draw(EVICTORS), lateness)


@st.composite
def inputs(draw: st.DrawFn) -> list[Epoch]:
    """Elements in any order, with a watermark and a clock that go on, in any batches and epochs; then the end."""
    epochs, watermark, clock = [], MIN_WATERMARK, FIRST_CLOCK
    for _ in range(draw(st.integers(0, 5))):
        clock += draw(st.integers(1, 9))
        batches: list[tuple[Element, ...]] = []
        for _ in range(draw(st.integers(0, 3))):
            elements = []
            for _ in range(draw(st.integers(1, 6))):
                watermark = max(watermark, draw(st.one_of(st.just(watermark), st.integers(-20, 40))))
                element = (draw(st.sampled_from(KEYS)), draw(st.integers(0, 20)), draw(st.integers(-20, 40)))
                elements.append(Element(*element, watermark))
            batches.append(tuple(elements))
        watermark = max(watermark, draw(st.one_of(st.just(watermark), st.integers(-20, 40))))
        epochs.append(Epoch(clock, tuple(batches), watermark))
    return [*epochs, Epoch(clock + 40, (), MAX_WATERMARK)]
