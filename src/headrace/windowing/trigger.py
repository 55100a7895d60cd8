"""The contract of triggers, and their decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Final, Generic

from headrace.common.type_variables import T_contra, W_contra
from headrace.metrics.metricbase import MetricGroup
from headrace.state.descriptors import StateDescriptor
from headrace.windowing.windows import keep_true

_CALLS: Final = ("on_element", "on_event_time", "on_processing_time", "on_merge", "clear")
"""The methods by which a trigger acts; :meth:`Trigger.in_batch_mode` is another way to do the same."""


class TriggerResult(Enum):
    """The decision of a trigger about its window.

    A window without contents emits nothing, whatever its trigger returns.

    Examples:
        >>> from headrace.datastream.window import TriggerResult
        >>> TriggerResult.FIRE.is_fire(), TriggerResult.FIRE.is_purge()
        (True, False)
    """

    CONTINUE = (False, False)
    """Nothing."""
    FIRE_AND_PURGE = (True, True)
    """Emit the result, then drop the contents."""
    FIRE = (True, False)
    """Emit the result, and keep the contents."""
    PURGE = (False, True)
    """Drop the contents without a result."""

    def is_fire(self) -> bool:
        """Return whether the window fires."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the window is purged."""
        return self.value[1]


class Firing(Enum):
    """The time of a firing relative to the window's end, which a window function reads from its context.

    Examples:
        >>> from headrace.datastream.window import Firing
        >>> Firing.LATE.value
        'late'
    """

    EARLY = "early"
    """Before its end: more elements may come. Windows without an end fire early, but for the end of the input."""
    ON_TIME = "on time"
    """At its end."""
    LATE = "late"
    """After its end, as records that are late but allowed make it fire."""


class Trigger(ABC, Generic[T_contra, W_contra]):
    """Says when the window of a key fires.

    One instance serves all keys and windows, so it holds nothing that changes: what it remembers of a window is in
    ``ctx.get_partitioned_state``. What it has registered and remembers it takes back in :meth:`clear`.

    Examples:
        >>> from headrace.datastream.window import Trigger, TriggerResult
        >>> class OnError(Trigger):
        ...     "Shows a window at once when it gets an error."
        ...     def on_element(self, element, timestamp, window, ctx):
        ...         return TriggerResult.FIRE if element == "error" else TriggerResult.CONTINUE
        ...     def on_event_time(self, time, window, ctx):
        ...         return TriggerResult.CONTINUE
        ...     def on_processing_time(self, time, window, ctx):
        ...         return TriggerResult.CONTINUE
        ...     def on_merge(self, window, ctx):
        ...         pass
        ...     def clear(self, window, ctx):
        ...         pass
        >>> OnError().on_element("error", 0, None, None)
        <TriggerResult.FIRE: (True, False)>
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keep_true(cls, "in_batch_mode", _CALLS, Trigger)

    class TriggerContext(ABC):
        """The time, timers and state of the key and window that a trigger is called for; valid during the call."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The job's clock in milliseconds; it stands still within an epoch."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The event time that has been reached, in milliseconds."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Has ``on_processing_time`` called for this key and window when the clock reaches ``time``."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Has ``on_event_time`` called for this key and window when the watermark reaches ``time``."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Takes a timer back; nothing happens when there is none."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Takes a timer back; nothing happens when there is none."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """The state of a descriptor, of this key and this window."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """The operator's metrics, which are of all keys and windows."""

    class OnMergeContext(TriggerContext):
        """The context of :meth:`Trigger.on_merge`, for the window that others were merged into."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merges the state of all windows that were merged into that of the new one.

            Raises:
                InvalidProgramError: when the state cannot be merged, as a ``ValueState`` cannot.
            """

    @property
    def fires_only_at_end(self) -> bool:
        """True when it fires at the end of a window and again for each late element, and does nothing else.

        False, as here, unless the class itself says otherwise. What is promised: it continues for every element that
        comes before the watermark reaches the last timestamp of the window, fires then, fires for every element after
        that, never purges, and remembers nothing. Windows that follow from the timestamp alone are then filled a batch
        at once and fire all keys together; the trigger is called for late elements only.
        """
        return False

    @abstractmethod
    def on_element(
        self, element: T_contra, timestamp: int, window: W_contra, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Called for each element, after it was added to the window.

        Args:
            element: the element.
            timestamp: its event time in milliseconds.
            window: the window; where windows merge, what it has become.
            ctx: the time, timers and state.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a timer of processing time fires that was registered for ``time``."""

    @abstractmethod
    def on_event_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a timer of event time fires that was registered for ``time``."""

    def can_merge(self) -> bool:
        """Return whether it supports merging windows; then :meth:`on_merge` has to be right."""
        return False

    def in_batch_mode(self) -> Trigger[T_contra, W_contra]:
        """The trigger that takes its place in batch mode, where a window is to fire once, at the end of the input.

        Itself, unless all that it does is to show windows before their ends, or by the clock. A class that overrides
        what such a trigger does stays in its place, unless it says otherwise.
        """
        return self

    @abstractmethod
    def on_merge(self, window: W_contra, ctx: Trigger.OnMergeContext) -> None:
        """Called when windows were merged into ``window``, before the others are cleared: merge state, set timers."""

    @abstractmethod
    def clear(self, window: W_contra, ctx: Trigger.TriggerContext) -> None:
        """Called when a window goes: delete its timers and its state."""


class PassiveTrigger(Trigger[T_contra, W_contra]):
    """Continues, whatever happens, but for what a class that is derived from it says; remembers nothing."""

    def on_element(
        self, element: T_contra, timestamp: int, window: W_contra, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: W_contra, ctx: Trigger.OnMergeContext) -> None:
        """Nothing to merge."""

    def clear(self, window: W_contra, ctx: Trigger.TriggerContext) -> None:
        """Nothing to clear."""
