"""``TimerService``: the time, and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["TimerService"]


class TimerService(ABC):
    """Tells the time and, on keyed streams, keeps timers of the key that is being processed.

    All times are milliseconds since the epoch. Timers are part of the state: they survive restarts. On a stream that is
    not keyed, setting or deleting one raises an ``InvalidProgramError``.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """The clock's reading; it stands still within an epoch, so that an epoch that is run again sees the same."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time that has been reached."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Calls ``on_timer`` when the clock reaches ``timestamp``; once, however often it is asked for."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Calls ``on_timer`` when the watermark reaches ``timestamp``; once, however often it is asked for."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Takes a timer back; nothing happens when there is none or it has fired."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Takes a timer back; nothing happens when there is none or it has fired."""
