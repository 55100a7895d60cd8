"""Timers as functions of the user see them: the two times, and the service that has them and keeps timers."""

import enum
from abc import ABC, abstractmethod

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.common.other_names import names_explained
from headrace.state.protocols import Timers


class TimeDomain(enum.Enum):
    """The time domain of a timer.

    Examples:
        >>> from headrace.datastream import KeyedProcessFunction, TimeDomain
        >>> class Alarm(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
        ...     def on_timer(self, timestamp, ctx):
        ...         assert ctx.time_domain() is TimeDomain.EVENT_TIME
        ...         yield timestamp
    """

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Tells the time and, on keyed streams, keeps timers of the key that is being processed.

    All times are milliseconds since the epoch. Timers are part of the state: they survive restarts. On a stream that is
    not keyed, setting or deleting one raises an ``InvalidProgramError``.

    Examples:
        >>> from headrace.datastream import KeyedProcessFunction
        >>> from headrace.testing import JobHarness
        >>> class Reminder(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         timers = ctx.timer_service()
        ...         timers.register_processing_time_timer(timers.current_processing_time() + 5_000)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield f"{ctx.get_current_key()} at {timestamp}"
        >>> def job(harness):
        ...     orders = harness.add_source("orders", str).key_by(lambda order: order)
        ...     harness.add_sink("reminders", orders.process(Reminder(), output_type=str))
        >>> with JobHarness(job, processing_time=1_000) as harness:
        ...     harness.push("orders", "tea")
        ...     harness.run_epoch()
        ...     harness.advance_processing_time(5_000)
        ...     harness.run_epoch()
        ...     print(harness.results("reminders"))
        ['tea at 6000']
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """The clock's reading; it stands still within an epoch, so that an epoch that is run again sees the same."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time that has been reached."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Calls ``on_timer`` when the clock reaches ``timestamp``; once, however often it is set."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Calls ``on_timer`` when the watermark reaches ``timestamp``; once, however often it is set."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Takes a timer back; nothing happens when there is none or it has fired."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Takes a timer back; nothing happens when there is none or it has fired."""


@names_explained("TimerService")
class _OperatorTimerService(TimerService):
    """Tells the time of an operator.

    Attributes:
        watermark: the operator's event time; the operator sets it before it calls a function.
        processing_time: the clock's reading for this epoch.
    """

    def __init__(self) -> None:
        self.watermark = MIN_WATERMARK
        self.processing_time = 0

    def current_processing_time(self) -> int:
        return self.processing_time

    def current_watermark(self) -> int:
        return self.watermark


class KeyedTimerService(_OperatorTimerService):
    """The timer service of an operator on a keyed stream.

    Args:
        timers: those of the operator.

    Attributes:
        clock_has_ended: whether all timers in processing time fire now, in batch mode; then there is no later time to
            register one for.
    """

    def __init__(self, timers: Timers) -> None:
        super().__init__()
        self._timers = timers
        self.clock_has_ended = False

    def register_processing_time_timer(self, timestamp: int) -> None:
        if not self.clock_has_ended:
            self._timers.processing.register(timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        self._timers.event.register(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._timers.processing.delete(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._timers.event.delete(timestamp)


class ReadOnlyTimerService(_OperatorTimerService):
    """The timer service of records without a key, which have no timers.

    Args:
        name: the operator's name.
        advice: why it has none, and what to do instead.
        keyed: whose time it tells, for records without a key in an operator that has keys; else its own.
    """

    def __init__(self, name: str, advice: str, keyed: KeyedTimerService | None = None) -> None:
        super().__init__()
        self._name = name
        self._advice = advice
        self._times = keyed or self

    def current_processing_time(self) -> int:
        return self._times.processing_time

    def current_watermark(self) -> int:
        return self._times.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        raise self._no_timers("register_processing_time_timer")

    def register_event_time_timer(self, timestamp: int) -> None:
        raise self._no_timers("register_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        raise self._no_timers("delete_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        raise self._no_timers("delete_event_time_timer")

    def _no_timers(self, method: str) -> InvalidProgramError:
        return InvalidProgramError(f"{method} in {self._name!r}: {self._advice}")
