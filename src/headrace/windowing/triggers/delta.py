"""``DeltaTrigger``: fires when an element is far enough from the one that it fired for last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from headrace.common.type_variables import T
from headrace.state.descriptors import ValueStateDescriptor
from headrace.windowing.checks import check_function
from headrace.windowing.trigger import PassiveTrigger, TriggerResult
from headrace.windowing.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from headrace.common.typeinfo import DeclaredType
    from headrace.windowing.trigger import Trigger


@dataclass(frozen=True)
class DeltaTrigger(PassiveTrigger[T, Window], Generic[T]):
    """Fires for an element whose distance from the last such element is larger than a threshold.

    The first element of a window is what others are compared with; it does not fire. Windows that merge cannot have it.

    Examples:
        >>> from headrace.datastream.window import DeltaTrigger
        >>> every_hundred_metres = DeltaTrigger.of(100.0, lambda last, now: now["metres"] - last["metres"])
        >>> every_hundred_metres.can_merge()
        False

    Attributes:
        threshold: what the distance has to exceed.
        delta_function: gives the distance, of the element that fired last and the one that has come.
        state: where the former is kept.
    """

    threshold: float
    delta_function: Callable[[T, T], float]
    state: ValueStateDescriptor[T] = field(compare=False)

    @classmethod
    def of(
        cls, threshold: float, delta_function: Callable[[T, T], float], element_type: DeclaredType[T] | None = None
    ) -> Self:
        """The trigger for a distance.

        Args:
            threshold: what the distance has to exceed.
            delta_function: gives the distance, of the element that fired last and the one that has come.
            element_type: the type of the elements, one of which is kept for each window; pickled when left out.

        Raises:
            InvalidTypeError: when ``delta_function`` cannot be called.
        """
        check_function(cls.__name__, "delta_function", delta_function, "last", "element")
        state = (
            ValueStateDescriptor("last-element")
            if element_type is None
            else ValueStateDescriptor("last-element", element_type)
        )
        return cls(threshold, delta_function, state)

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        last = ctx.get_partitioned_state(self.state)
        before = last.value()
        if before is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if self.delta_function(before, element) <= self.threshold:
            return TriggerResult.CONTINUE
        last.update(element)
        return TriggerResult.FIRE

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self.state).clear()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.threshold})"
