"""The built-in triggers: when windows fire, and when they are purged."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from operator import add
from typing import Any, Final, Generic, Self

from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidTypeError, refused
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import T, T_contra, W_contra
from headrace.common.typeinfo import DeclaredType, Types
from headrace.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from headrace.windowing.trigger import PassiveTrigger, Trigger, TriggerResult
from headrace.windowing.windows import Window, check_function, check_positive


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


COUNT: Final = ReducingStateDescriptor("count", add, Types.LONG())
"""The elements that have come since the window has fired; of windows that merge, in all of them."""


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


NEXT_FIRE: Final = ReducingStateDescriptor("fire-time", min, Types.LONG())
"""The time at which a window fires next; of windows that merge, the earliest."""


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
        """Fires if the window is to fire at this time, and notes when it is to fire next."""
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
        """Return when a window that fired at a multiple of the interval fires again."""
        return self._next_after(time, window)

    @abstractmethod
    def _next_after(self, time: int, window: Window) -> int:
        """Return when the window fires next, after a multiple of the interval."""

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
        elif next_time == MAX_WATERMARK:  # a window without an end, which has fired before
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

    Windows of event time may have it, to fire again and again by the clock; they do not fire at their end then.

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


def check_trigger(owner: str, trigger: Any) -> None:
    """Refuse what is no trigger, where one is made around another one."""
    if not isinstance(trigger, Trigger):
        is_class = isinstance(trigger, type) and issubclass(trigger, Trigger)
        instead = f": make one, {trigger.__name__}(...)" if is_class else ""
        raise refused(f"{owner} takes a Trigger, not {trigger!r}{instead}", InvalidTypeError)


TIMEOUT: Final = ValueStateDescriptor("timeout", Types.LONG())
"""The time at which the window fires unless the other trigger has fired."""


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
