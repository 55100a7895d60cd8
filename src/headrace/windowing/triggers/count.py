"""``CountTrigger``: fires when so many elements have come."""

from __future__ import annotations

from dataclasses import dataclass
from operator import add
from typing import TYPE_CHECKING, Any, Final

from headrace.common.typeinfo import Types
from headrace.state.descriptors import ReducingStateDescriptor
from headrace.windowing.checks import check_positive
from headrace.windowing.trigger import PassiveTrigger, TriggerResult
from headrace.windowing.windows import Window

if TYPE_CHECKING:
    from typing import Self

    from headrace.windowing.trigger import Trigger

COUNT: Final = ReducingStateDescriptor("count", add, Types.LONG())
"""How many elements have come since the window has fired; of windows that merge, in all of them."""


@dataclass(frozen=True)
class CountTrigger(PassiveTrigger[Any, Window]):
    """Fires when so many elements have come since it fired last. The contents stay: see ``PurgingTrigger``.

    Examples:
        >>> from headrace.datastream.window import CountTrigger
        >>> CountTrigger.of(100)
        CountTrigger(window_size=100)

    Attributes:
        window_size: how many.
    """

    window_size: int

    def __post_init__(self) -> None:
        check_positive(type(self).__name__, window_size=self.window_size)

    @classmethod
    def of(cls, window_size: int) -> Self:
        """The trigger for a number of elements.

        Raises:
            InvalidProgramError: when the number is not positive.
        """
        return cls(window_size)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(COUNT)
        count.add(1)
        if count.get() < self.window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(COUNT)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(COUNT).clear()
