"""How the user's function over the contents of a window is called, and what it learns about the window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from headrace.common.errors import InvalidProgramError
from headrace.operators.functions import has_own, method_of
from headrace.state.interfaces import KeyedStateStore
from headrace.windowing.trigger import Firing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.state.backend import KeyedStates
    from headrace.state.descriptors import StateDescriptor
    from headrace.state.keys.entries import AnyKeyEntry
    from headrace.windowing.windows import TimeWindow


class WindowStateStore(KeyedStateStore):
    """The states that a window's function sees of the key, or of the key and window.

    Args:
        declare: gives the state of a descriptor.
    """

    def __init__(self, declare: Callable[[StateDescriptor], Any]) -> None:
        self._declare = declare

    def _state(self, descriptor: StateDescriptor, method: str) -> Any:
        return self._declare(descriptor)


class WindowContext:
    """``ProcessWindowFunction.Context``: names as in PyFlink. One instance serves all calls of an operator.

    Args:
        keyed: the state of the key, and of the key in the namespace of the window.
        is_merging: whether windows may become one; then there is no state of a window.
    """

    def __init__(self, keyed: KeyedStates, *, is_merging: bool = False) -> None:
        self._of_key = WindowStateStore(keyed.state)
        self._of_window = WindowStateStore(_no_window_state if is_merging else keyed.namespaced_state)
        self._window: Any = None
        self._firing = Firing.ON_TIME
        self._watermark = 0
        self._processing_time = 0

    def enter(self, window: Any, watermark: int, processing_time: int, firing: Firing) -> None:
        """Called before the user's function is."""
        self._window = window
        self._firing = firing
        self._watermark = watermark
        self._processing_time = processing_time

    def window(self) -> Any:
        """The window that is being processed."""
        return self._window

    def firing(self) -> Firing:
        """Whether the window fires before its end, at its end or after it."""
        return self._firing

    def current_watermark(self) -> int:
        """The operator's event time: the watermark that makes the window fire, or that a late element met."""
        return self._watermark

    def current_processing_time(self) -> int:
        """The job's clock at the start of the epoch, in milliseconds."""
        return self._processing_time

    def window_state(self) -> KeyedStateStore:
        """State of this key and this window; ``clear`` has to clear it."""
        return self._of_window

    def global_state(self) -> KeyedStateStore:
        """State of this key, shared by all its windows and never cleared by itself."""
        return self._of_key


def _no_window_state(descriptor: StateDescriptor) -> NoReturn:
    raise InvalidProgramError(
        f"window_state() cannot be used with windows that merge, as the {descriptor.label}: a window that was merged "
        "into another one would lose it; use global_state()"
    )


class WindowCall(ABC):
    """Calls one function over the contents of a window.

    Attributes:
        sees_window: whether the function learns which key and window it is called for.
    """

    sees_window: ClassVar[bool] = True

    @abstractmethod
    def results(self, entry: AnyKeyEntry, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        """What the window emits when it fires."""

    @property
    def wants_clear(self) -> bool:
        """Whether :meth:`clear` does anything."""
        return False

    def clear(self, context: WindowContext) -> None:
        """Called when the contents of a window go."""


class PassContents(WindowCall):
    """No function: what the elements were folded into is the result."""

    sees_window: ClassVar[bool] = False

    def results(self, entry: AnyKeyEntry, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        return elements


class ApplyCall(WindowCall):
    """A ``WindowFunction``, or a function of (key, window, elements).

    Args:
        function: the user's function.
    """

    def __init__(self, function: Any) -> None:
        self._apply: Callable[[Any, TimeWindow, Iterable[Any]], Iterable[Any] | None] = method_of(function, "apply")

    def results(self, entry: AnyKeyEntry, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        return self._apply(entry.key, context.window(), elements)


class ProcessCall(WindowCall):
    """A ``ProcessWindowFunction``."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def results(self, entry: AnyKeyEntry, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any] | None:
        found: Iterable[Any] | None = self._function.process(entry.key, context, elements)
        return found

    @property
    def wants_clear(self) -> bool:
        return has_own(self._function, "clear")

    def clear(self, context: WindowContext) -> None:
        self._function.clear(context)


def window_call(function: Any) -> WindowCall:
    """The way to call a user's window function; None stands for no function."""
    if function is None:
        return PassContents()
    if callable(getattr(function, "process", None)):
        return ProcessCall(function)
    return ApplyCall(function)
