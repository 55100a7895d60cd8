"""Triggers that show a window again and again before it ends."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.constants import MAX_WATERMARK
from headrace.common.time import to_millis
from headrace.common.typeinfo import Types
from headrace.state.descriptors import ReducingStateDescriptor
from headrace.windowing.checks import check_positive
from headrace.windowing.trigger import PassiveTrigger, TriggerResult
from headrace.windowing.triggers.end_of_window import EventTimeTrigger
from headrace.windowing.windows import Window

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from headrace.common.time import Duration, Time
    from headrace.windowing.trigger import Trigger

NEXT_FIRE: Final = ReducingStateDescriptor("fire-time", min, Types.LONG())
"""When a window fires next; of windows that merge, the earliest."""


@dataclass(frozen=True)
class _ContinuousTrigger(PassiveTrigger[Any, Window]):
    """Fires at multiples of an interval, of either time.

    Attributes:
        interval: milliseconds.
    """

    interval: int

    def __post_init__(self) -> None:
        check_positive(type(self).__name__, interval=self.interval)

    @classmethod
    def of(cls, interval: Time | Duration | timedelta | int) -> Self:
        """The trigger with an interval; a number is milliseconds.

        Raises:
            InvalidProgramError: when the interval is not positive.
        """
        return cls(to_millis(interval))

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(NEXT_FIRE)
        next_fire = ctx.get_partitioned_state(NEXT_FIRE).get()
        if next_fire is not None:
            self._register(next_fire, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        next_fire = ctx.get_partitioned_state(NEXT_FIRE)
        time = next_fire.get()
        if time is not None:
            self._delete(time, ctx)
            next_fire.clear()

    def _fire_at(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires if the window is to be shown at this time, and notes when that is to be done next."""
        next_fire = ctx.get_partitioned_state(NEXT_FIRE)
        if next_fire.get() != time:
            return TriggerResult.CONTINUE
        self._fire_next_at(self._next_after_firing(time, window), ctx)
        return TriggerResult.FIRE

    def _multiple(self, time: int) -> int:
        """The last multiple of the interval that is not above a time."""
        return time - time % self.interval

    def _fire_next_at(self, time: int, ctx: Trigger.TriggerContext) -> None:
        next_fire = ctx.get_partitioned_state(NEXT_FIRE)
        next_fire.clear()
        next_fire.add(time)
        self._register(time, ctx)

    def _next_after_firing(self, time: int, window: Window) -> int:
        """When a window that was shown at a multiple of the interval is to be shown again."""
        return self._next_after(time, window)

    @abstractmethod
    def _next_after(self, time: int, window: Window) -> int:
        """When the window is to be shown next, after a multiple of the interval."""

    @abstractmethod
    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Registers a timer of the time that the interval is of."""

    @abstractmethod
    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Takes such a timer back."""


@dataclass(frozen=True)
class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires each time the watermark passes a multiple of an interval, and at the end of the window.

    The first multiple is that after the timestamp of the first element; an element that comes when the window has ended
    fires at once. A window without an end fires at multiples that follow an element, not again before the next one has
    come, and once more when the input ends: how often it would show the same until then would depend on how far the
    watermark had come before.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import ContinuousEventTimeTrigger
        >>> ContinuousEventTimeTrigger.of(Time.minutes(1))
        ContinuousEventTimeTrigger(interval=60000)

    Attributes:
        interval: milliseconds.
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        next_time = ctx.get_partitioned_state(NEXT_FIRE).get()
        if next_time is None:
            self._fire_next_at(self._next_after(self._multiple(timestamp), window), ctx)
        elif next_time == MAX_WATERMARK:  # a window without an end, which was shown before
            self._fire_next_at(self._next_after(self._multiple(ctx.get_current_watermark()), window), ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else self._fire_at(time, window, ctx)

    def in_batch_mode(self) -> EventTimeTrigger:
        return EventTimeTrigger()

    def _next_after_firing(self, time: int, window: Window) -> int:
        if window.max_timestamp() == MAX_WATERMARK:
            return MAX_WATERMARK  # until an element comes
        return self._next_after(time, window)

    def _next_after(self, time: int, window: Window) -> int:
        return min(time + self.interval, window.max_timestamp())

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


@dataclass(frozen=True)
class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires each time the clock passes a multiple of an interval, and when it reaches the end of the window.

    Windows of event time may have it, to be shown again and again by the clock; it does not show them at their end.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import ContinuousProcessingTimeTrigger
        >>> ContinuousProcessingTimeTrigger.of(Time.seconds(10))
        ContinuousProcessingTimeTrigger(interval=10000)

    Attributes:
        interval: milliseconds.
    """

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if ctx.get_partitioned_state(NEXT_FIRE).get() is None:
            self._fire_next_at(self._next_after(self._multiple(ctx.get_current_processing_time()), window), ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._fire_at(time, window, ctx)

    def in_batch_mode(self) -> EventTimeTrigger:
        return EventTimeTrigger()

    def _next_after(self, time: int, window: Window) -> int:
        next_time = time + self.interval
        if time < window.max_timestamp():  # otherwise it is a window of event time, whose end the clock has passed
            next_time = min(next_time, window.max_timestamp())
        return next_time

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)
