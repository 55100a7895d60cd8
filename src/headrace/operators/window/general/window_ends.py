"""How an operator learns that windows come to their ends, and go: from timers, or from what the windows hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from headrace.operators.window.general.ordered_contents import KeysOfWindow, OrderedContents
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.protocols import DomainTimers


class DueWindow(NamedTuple):
    """A window of which all keys come to the end together; they sort in the order of happening.

    Attributes:
        time: when that is, in milliseconds of event time.
        end: the end of the window.
        fires: whether it fires.
        goes: whether its contents go, and the function is to be told.
    """

    time: int
    end: int
    fires: bool
    goes: bool


class WindowEnds(ABC):
    """When windows end and go."""

    def begin_epoch(self, watermark: int) -> None:
        """Event time has come to ``watermark``."""

    @abstractmethod
    def keep(self, end: int, namespace: GivenNamespace) -> None:
        """The current key has something in a window, which goes at ``end``."""

    @abstractmethod
    def release(self, end: int, namespace: GivenNamespace) -> None:
        """A window of the current key has become part of another one."""

    @abstractmethod
    def pop_due(self, watermark: int) -> Iterable[tuple[DueWindow, KeysOfWindow]]:
        """Event time advances: the windows of which all keys are due together, in order; others have timers."""


class TimersOfWindows(WindowEnds):
    """Each key has a timer for the time at which a window of it goes; its trigger sets timers of its own.

    Args:
        timers: the timers, in the time of the windows.
    """

    def __init__(self, timers: DomainTimers) -> None:
        self._timers = timers

    def keep(self, end: int, namespace: GivenNamespace) -> None:
        if end < MAX_WATERMARK:  # what is kept until the end of time needs no timer
            self._timers.register(end, namespace)

    def release(self, end: int, namespace: GivenNamespace) -> None:
        self._timers.delete(end, namespace)

    def pop_due(self, watermark: int) -> Iterable[tuple[DueWindow, KeysOfWindow]]:
        return ()


class EndsOfContents(WindowEnds):
    """What windows hold is ordered by their ends, which takes the place of timers.

    Args:
        contents: what they hold.
        lateness: how long windows are kept after their ends, in milliseconds.
        wants_clear: whether the function is to be told when they go.
    """

    def __init__(self, contents: OrderedContents, lateness: int, *, wants_clear: bool) -> None:
        self._contents = contents
        self._lateness = lateness
        self._goes_at_end = not lateness and wants_clear
        self._goes_later = bool(lateness) and wants_clear
        self._foreseen = MIN_WATERMARK
        self._due: deque[DueWindow] = deque()

    def begin_epoch(self, watermark: int) -> None:
        self._foreseen = watermark
        self._due.clear()

    def keep(self, end: int, namespace: GivenNamespace) -> None:
        """Its contents are there."""

    def release(self, end: int, namespace: GivenNamespace) -> None:
        """Windows of fixed ends do not become others."""

    def foresee(self, watermark: int, late_ends: Iterable[int] = ()) -> Collection[DueWindow]:
        """What is due until event time has come to ``watermark``, in order.

        To be called when all that comes on time until then has been added.

        Args:
            watermark: up to which event time will advance.
            late_ends: the ends of windows that late elements will be added to meanwhile.
        """
        if watermark > self._foreseen:
            self._contents.forget(self._foreseen)
            self._due.extend(sorted({*self._firings(watermark), *self._goings(watermark, late_ends)}))
            self._foreseen = watermark
        return self._due

    def pop_due(self, watermark: int) -> Iterator[tuple[DueWindow, KeysOfWindow]]:
        self.foresee(watermark)
        while self._due and self._due[0].time <= watermark:
            window = self._due.popleft()
            yield window, self._contents.of_all_keys(window.end)

    def _firings(self, watermark: int) -> Iterator[DueWindow]:
        for end in self._contents.ends_between(self._foreseen, watermark):
            yield DueWindow(end - 1, end, fires=True, goes=self._goes_at_end)

    def _goings(self, watermark: int, late_ends: Iterable[int]) -> Iterator[DueWindow]:
        if not self._goes_later:
            return
        ends = self._contents.ends_between(self._foreseen - self._lateness, watermark - self._lateness)
        for end in ends.union(late_ends):
            time = end - 1 + self._lateness
            if time <= watermark and time < MAX_WATERMARK:  # what would be kept beyond the end of time never goes
                yield DueWindow(time, end, fires=False, goes=True)
