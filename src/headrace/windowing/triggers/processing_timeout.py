"""``ProcessingTimeoutTrigger``: fires when another trigger does, or when the clock has gone on for long enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.common.time import to_millis
from headrace.common.type_variables import T_contra, W_contra
from headrace.common.typeinfo import Types
from headrace.state.descriptors import ValueStateDescriptor
from headrace.windowing.checks import check_positive, check_trigger
from headrace.windowing.trigger import Trigger, TriggerResult

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from headrace.common.time import Duration, Time

TIMEOUT: Final = ValueStateDescriptor("timeout", Types.LONG())
"""When the window fires unless the other trigger has fired."""


@dataclass(frozen=True)
class ProcessingTimeoutTrigger(Trigger[T_contra, W_contra]):
    """Fires when another trigger does, or some time after the first element, by the clock.

    A batch of 100 that waits no longer than a second, say: ``of(CountTrigger.of(100), Time.seconds(1))``. As in Flink,
    windows that merge cannot have it, and every timer of the other trigger fires as well.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import CountTrigger, ProcessingTimeoutTrigger
        >>> ProcessingTimeoutTrigger.of(CountTrigger.of(100), Time.seconds(1)).timeout
        1000

    Attributes:
        nested_trigger: the other trigger.
        timeout: milliseconds.
        reset_timer_on_new_record: whether the time runs from the newest element, not from the first.
        should_clear_on_timeout: whether the other trigger begins anew (counts from 0, say) when the time has passed.
    """

    nested_trigger: Trigger[T_contra, W_contra]
    timeout: int
    reset_timer_on_new_record: bool = False
    should_clear_on_timeout: bool = True

    def __post_init__(self) -> None:
        check_trigger(type(self).__name__, self.nested_trigger)
        check_positive(type(self).__name__, timeout=self.timeout)

    @classmethod
    def of(
        cls,
        nested_trigger: Trigger[T_contra, W_contra],
        timeout: Time | Duration | timedelta | int,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> Self:
        """The trigger around another one.

        Args:
            nested_trigger: the other trigger.
            timeout: how long after an element; a number is milliseconds.
            reset_timer_on_new_record: whether the time runs from the newest element, not from the first.
            should_clear_on_timeout: whether the other trigger begins anew when the time has passed.

        Raises:
            InvalidProgramError: when it is no trigger, or the time is not positive.
        """
        return cls(nested_trigger, to_millis(timeout), reset_timer_on_new_record, should_clear_on_timeout)

    def on_element(
        self, element: T_contra, timestamp: int, window: W_contra, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        state = ctx.get_partitioned_state(TIMEOUT)
        due = state.value()
        if due is not None and self.reset_timer_on_new_record:
            ctx.delete_processing_time_timer(due)
            due = None
        if due is None:
            due = ctx.get_current_processing_time() + self.timeout
            state.update(due)
            ctx.register_processing_time_timer(due)
        return result

    def on_processing_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._timed(self.nested_trigger.on_processing_time(time, window, ctx), window, ctx)

    def on_event_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._timed(self.nested_trigger.on_event_time(time, window, ctx), window, ctx)

    def in_batch_mode(self) -> ProcessingTimeoutTrigger[T_contra, W_contra]:
        return replace(self, nested_trigger=self.nested_trigger.in_batch_mode())

    def on_merge(self, window: W_contra, ctx: Trigger.OnMergeContext) -> None:
        """Is not called: the trigger cannot merge."""

    def clear(self, window: W_contra, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(TIMEOUT)
        due = state.value()
        if due is not None:
            ctx.delete_processing_time_timer(due)
            state.clear()
        self.nested_trigger.clear(window, ctx)

    def _timed(self, result: TriggerResult, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.nested_trigger}, {self.timeout} ms)"
