"""The trigger of SQL's group windows that emit results before their end, or for late rows (``table.exec.emit.*``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.windowing.trigger import PassiveTrigger, Trigger, TriggerResult
from headrace.windowing.triggers import NEXT_FIRE
from headrace.windowing.windows import Window


@dataclass(frozen=True)
class EarlyAndLateTrigger(PassiveTrigger[Any, Window]):
    """Fires at the end of the window, and before and behind it at intervals of processing time.

    The first of these firings comes an interval after the first element. An interval of 0 fires for each element.

    Attributes:
        early: the interval before the end, in milliseconds; None for no early firings.
        late: the interval for late elements; None fires for each.
        is_event_time: whether windows end by event time; there are no late elements otherwise.
    """

    early: int | None = None
    late: int | None = None
    is_event_time: bool = True

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self._has_ended(window, ctx):
            return self._soon(self.late or 0, ctx)
        if self.is_event_time:
            ctx.register_event_time_timer(window.max_timestamp())
        else:
            ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE if self.early is None else self._soon(self.early, ctx)

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if not self.is_event_time or time != window.max_timestamp():
            return TriggerResult.CONTINUE
        self._forget(ctx)
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if not self.is_event_time and time == window.max_timestamp():
            self._forget(ctx)
            return TriggerResult.FIRE
        if ctx.get_partitioned_state(NEXT_FIRE).get() != time:
            return TriggerResult.CONTINUE
        interval = self.late if self._has_ended(window, ctx) else self.early
        ctx.get_partitioned_state(NEXT_FIRE).clear()
        self._fire_at(time + (interval or 1), ctx)
        return TriggerResult.FIRE

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self._forget(ctx)
        if self.is_event_time:
            ctx.delete_event_time_timer(window.max_timestamp())
        else:
            ctx.delete_processing_time_timer(window.max_timestamp())

    def _has_ended(self, window: Window, ctx: Trigger.TriggerContext) -> bool:
        return self.is_event_time and window.max_timestamp() <= ctx.get_current_watermark()

    def _soon(self, interval: int, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires at once, or registers a timer to fire after an interval."""
        if interval == 0:
            return TriggerResult.FIRE
        if ctx.get_partitioned_state(NEXT_FIRE).get() is None:
            self._fire_at(ctx.get_current_processing_time() + interval, ctx)
        return TriggerResult.CONTINUE

    def _fire_at(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(NEXT_FIRE).add(time)
        ctx.register_processing_time_timer(time)

    def _forget(self, ctx: Trigger.TriggerContext) -> None:
        next_fire = ctx.get_partitioned_state(NEXT_FIRE)
        time = next_fire.get()
        if time is not None:
            ctx.delete_processing_time_timer(time)
            next_fire.clear()
