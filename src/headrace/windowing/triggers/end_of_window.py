"""The triggers of windows of time unless the program sets another: they fire at the end of the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.windowing.trigger import PassiveTrigger, TriggerResult
from headrace.windowing.windows import Window

if TYPE_CHECKING:
    from typing import Self

    from headrace.windowing.trigger import Trigger


@dataclass(frozen=True)
class EventTimeTrigger(PassiveTrigger[Any, Window]):
    """Fires when the watermark reaches the last timestamp of the window, and at once for each element after that.

    Examples:
        >>> from headrace.datastream.window import EventTimeTrigger
        >>> EventTimeTrigger.create().can_merge()
        True
    """

    @classmethod
    def create(cls) -> Self:
        """The trigger."""
        return cls()

    @property
    def fires_only_at_end(self) -> bool:
        return type(self) is EventTimeTrigger  # a class derived from it, which may do more, says so for itself

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        # What the watermark has passed fires for the element that has brought the windows together.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


@dataclass(frozen=True)
class ProcessingTimeTrigger(PassiveTrigger[Any, Window]):
    """Fires when the clock reaches the last timestamp of the window.

    Examples:
        >>> from headrace.datastream.window import ProcessingTimeTrigger
        >>> ProcessingTimeTrigger.create().can_merge()
        True
    """

    @classmethod
    def create(cls) -> Self:
        """The trigger."""
        return cls()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def in_batch_mode(self) -> EventTimeTrigger:
        return EventTimeTrigger()

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())
