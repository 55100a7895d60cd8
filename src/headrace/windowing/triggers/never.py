"""The triggers of global windows: one never fires, one at the end of the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.constants import MAX_WATERMARK
from headrace.windowing.trigger import PassiveTrigger, TriggerResult
from headrace.windowing.windows import Window

if TYPE_CHECKING:
    from typing import Self

    from headrace.windowing.trigger import Trigger


@dataclass(frozen=True)
class NeverTrigger(PassiveTrigger[Any, Window]):
    """Never fires; global windows have it unless the program sets another.

    Examples:
        >>> from headrace.datastream.window import NeverTrigger
        >>> NeverTrigger().on_element("a", 0, None, None)
        <TriggerResult.CONTINUE: (False, False)>
    """


@dataclass(frozen=True)
class EndOfStreamTrigger(PassiveTrigger[Any, Window]):
    """Fires when the input ends, once for each key and window.

    Examples:
        >>> from headrace.common.constants import MAX_WATERMARK
        >>> from headrace.datastream.window import EndOfStreamTrigger
        >>> EndOfStreamTrigger.create().on_event_time(MAX_WATERMARK, None, None)
        <TriggerResult.FIRE: (True, False)>
    """

    @classmethod
    def create(cls) -> Self:
        """The trigger."""
        return cls()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(MAX_WATERMARK)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == MAX_WATERMARK else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.register_event_time_timer(MAX_WATERMARK)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(MAX_WATERMARK)
