"""``PurgingTrigger``: drops the contents of a window whenever another trigger shows them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.common.type_variables import T_contra, W_contra
from headrace.windowing.checks import check_trigger
from headrace.windowing.trigger import Trigger, TriggerResult

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class PurgingTrigger(Trigger[T_contra, W_contra]):
    """Does what another trigger does, and drops the contents whenever that one fires.

    Examples:
        >>> from headrace.datastream.window import CountTrigger, PurgingTrigger
        >>> PurgingTrigger.of(CountTrigger.of(100))
        PurgingTrigger(nested_trigger=CountTrigger(window_size=100))

    Attributes:
        nested_trigger: the other trigger.
    """

    nested_trigger: Trigger[T_contra, W_contra]

    def __post_init__(self) -> None:
        check_trigger(type(self).__name__, self.nested_trigger)

    @classmethod
    def of(cls, nested_trigger: Trigger[T_contra, W_contra]) -> Self:
        """The trigger around another one.

        Raises:
            InvalidTypeError: when it is no trigger.
        """
        return cls(nested_trigger)

    def on_element(
        self, element: T_contra, timestamp: int, window: W_contra, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def in_batch_mode(self) -> PurgingTrigger[T_contra, W_contra]:
        return replace(self, nested_trigger=self.nested_trigger.in_batch_mode())

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W_contra, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: W_contra, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.nested_trigger})"


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
