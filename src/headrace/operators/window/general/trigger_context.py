"""What triggers and evictors see of the window that they are asked about: the time, timers, state."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidTypeError
from headrace.common.other_names import names_explained
from headrace.metrics.metricbase import MetricGroup
from headrace.operators.functions import STATE_GETTERS
from headrace.operators.window.stores import ADVICE, OF_TRIGGERS
from headrace.windowing.evictors import Evictor
from headrace.windowing.trigger import Trigger, TriggerResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.operators.base import OperatorContext
    from headrace.state.descriptors import StateDescriptor
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.protocols import KeyedStates, Timers


class OperatorTime(Evictor.EvictorContext):
    """Both times of an operator.

    Attributes:
        watermark: event time.
        processing_time: the job's clock.
        clock_has_ended: whether all timers in processing time fire now, in batch mode.
    """

    def __init__(self) -> None:
        self.clock_has_ended = False
        self.watermark = MIN_WATERMARK
        self.processing_time = 0

    def get_current_processing_time(self) -> int:
        return self.processing_time

    def get_current_watermark(self) -> int:
        return self.watermark


@names_explained("Trigger.TriggerContext", dict.fromkeys(STATE_GETTERS, "use get_partitioned_state(descriptor)"))
class WindowTrigger(Trigger.OnMergeContext):
    """The trigger of an operator, asked about one key and window after the other, and what it sees of them.

    Its state is apart from that which a window function keeps of the same window, whatever they call it.

    Args:
        trigger: the trigger.
        keyed: the state.
        timers: the timers.
        time: the operator's time.
        context: the operator.
    """

    def __init__(
        self,
        trigger: Trigger[Any, Any],
        keyed: KeyedStates,
        timers: Timers,
        time: OperatorTime,
        context: OperatorContext,
    ) -> None:
        self._metrics = context.metrics
        self._renamed_fields = context.renamed_fields
        self._trigger = trigger
        self._keyed = keyed
        self._event = timers.event
        self._processing = timers.processing
        self._time = time
        self._window: Any = None
        self._namespace: GivenNamespace = 0
        self._merged: Sequence[GivenNamespace] = ()
        self._own: dict[str, tuple[StateDescriptor, StateDescriptor, Any]] = {}

    def enter(self, window: Any, namespace: GivenNamespace) -> None:
        """From now on the trigger is asked about this window of the current key."""
        self._window = window
        self._namespace = self._keyed.namespace = namespace

    def on_element(self, element: Any, timestamp: int) -> TriggerResult:
        """What the trigger wants after an element was added."""
        return self._checked(self._trigger.on_element(element, timestamp, self._window, self), "on_element")

    def on_event_time(self, time: int) -> TriggerResult:
        """What the trigger wants when a timer of event time fires."""
        return self._checked(self._trigger.on_event_time(time, self._window, self), "on_event_time")

    def on_processing_time(self, time: int) -> TriggerResult:
        """What the trigger wants when a timer of processing time fires."""
        return self._checked(self._trigger.on_processing_time(time, self._window, self), "on_processing_time")

    def on_merge(self, merged: Sequence[GivenNamespace]) -> None:
        """Other windows have been merged into this one."""
        self._merged = merged
        self._trigger.on_merge(self._window, self)
        self._merged = ()

    def clear(self) -> None:
        """The window goes."""
        self._trigger.clear(self._window, self)

    def get_current_processing_time(self) -> int:
        return self._time.processing_time

    def get_current_watermark(self) -> int:
        return self._time.watermark

    def register_processing_time_timer(self, time: int) -> None:
        if not self._time.clock_has_ended:
            self._processing.register(time, self._namespace)

    def register_event_time_timer(self, time: int) -> None:
        self._event.register(time, self._namespace)

    def delete_processing_time_timer(self, time: int) -> None:
        self._processing.delete(time, self._namespace)

    def delete_event_time_timer(self, time: int) -> None:
        self._event.delete(time, self._namespace)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        try:
            known = self._own.get(state_descriptor.name)
        except AttributeError:
            text = f"get_partitioned_state: expected a state descriptor, got {state_descriptor!r}"
            raise InvalidTypeError(text) from None
        if known is None or known[0] is not state_descriptor:
            own = copy(state_descriptor)
            own.name = f"{OF_TRIGGERS}{state_descriptor.name}"
            renamed = state_descriptor.renamed_fields or self._renamed_fields
            own.keep_for_operator(f"the trigger's {state_descriptor.label}", renamed, ADVICE)
            known = state_descriptor, own, self._keyed.namespaced_state(own)
            self._own[state_descriptor.name] = known
        return known[2]

    def get_metric_group(self) -> MetricGroup:
        return MetricGroup(self._metrics)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        self.get_partitioned_state(state_descriptor)  # is declared then
        self._keyed.merge_namespaces(self._own[state_descriptor.name][1], self._merged)

    def _checked(self, result: Any, method: str) -> TriggerResult:
        if isinstance(result, TriggerResult):
            return result
        name = f"{type(self._trigger).__name__}.{method}"
        raise InvalidTypeError(f"{name} has to return a TriggerResult, not {result!r}")
