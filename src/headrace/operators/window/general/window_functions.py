"""The user's functions over windows: folding elements, and the function over the contents of a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateMigrationError
from headrace.common.other_names import names_explained
from headrace.common.values import handler_of
from headrace.operators.collector import results_of
from headrace.operators.functions import OTHER_NAMES_FOR_EMITTING, STATE_GETTERS, has_own, method_of, results_made_by
from headrace.operators.user_code import check_none, note_returned
from headrace.state.copying import copier
from headrace.state.interfaces import KeyedStateStore
from headrace.windowing.trigger import Firing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.common.typeinfo import TypeInformation
    from headrace.state.descriptors import StateDescriptor
    from headrace.state.keys.codecs import AnyKeyEntry
    from headrace.state.protocols import KeyedStates
    from headrace.windowing.definition import WindowFunctions


class WindowStateStore(KeyedStateStore):
    """The states that a window's function sees of the key, or of the key and window.

    Args:
        declare: gives the state of a descriptor.
    """

    def __init__(self, declare: Callable[[StateDescriptor], Any]) -> None:
        self._declare = declare

    def _state(self, descriptor: StateDescriptor, method: str) -> Any:
        return self._declare(descriptor)


@names_explained(
    "ProcessWindowFunction.Context",
    {
        **OTHER_NAMES_FOR_EMITTING,
        **dict.fromkeys(STATE_GETTERS, "use window_state() or global_state(), which have it"),
        **dict.fromkeys(("get_current_key", "key"), "the key is the first argument of process"),
        "timestamp": "use window().max_timestamp(), which the results have",
        "timer_service": "a window's timers are those of its Trigger",
    },
)
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
        maker: the method that makes what the window emits; None where there is none.
    """

    sees_window: ClassVar[bool] = True
    maker: Callable[..., Any] | None = None

    @abstractmethod
    def results(self, entry: AnyKeyEntry, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
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

    def results(self, entry: AnyKeyEntry, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        return elements


class ApplyCall(WindowCall):
    """A ``WindowFunction``, or a function of (key, window, elements).

    Args:
        function: the user's function.
    """

    def __init__(self, function: Any) -> None:
        self._apply, self.maker = method_of(function, "apply"), results_made_by(function, "apply")

    def results(self, entry: AnyKeyEntry, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        return results_of(self._apply(entry.key, context.window(), elements), self.maker)


class ProcessCall(WindowCall):
    """A ``ProcessWindowFunction``."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._process, self.maker = function.process, results_made_by(function, "process")

    def results(self, entry: AnyKeyEntry, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        return results_of(self._process(entry.key, context, elements), self.maker)

    @property
    def wants_clear(self) -> bool:
        return has_own(self._function, "clear")

    def clear(self, context: WindowContext) -> None:
        self._function.clear(context)


def maker_of(call: WindowCall, aggregate_function: Any) -> Callable[..., Any] | None:
    """The function of the user that makes what a window emits; None where that is elements, or reduced ones."""
    maker: Callable[..., Any] | None = call.maker or getattr(aggregate_function, "get_result", None)
    return maker


def window_call(function: Any) -> WindowCall:
    """The way to call a user's window function; None stands for no function."""
    if function is None:
        return PassContents()
    if callable(getattr(function, "process", None)):
        return ProcessCall(function)
    return ApplyCall(function)


class Fold(ABC):
    """Turns elements into one value a key and window: read, modify, write.

    Attributes:
        type_: the type of the values.
    """

    type_: TypeInformation

    @abstractmethod
    def first(self, element: Any) -> Any:
        """The value after the first element."""

    @abstractmethod
    def add(self, value: Any, element: Any) -> Any:
        """The value after another element."""

    @abstractmethod
    def result(self, value: Any) -> Any:
        """What the value stands for when the window fires; may be a part of it."""

    @abstractmethod
    def merge(self, value: Any, other: Any) -> Any:
        """The value of the elements of both; only where windows of another shape are declared."""


class ReduceFold(Fold):
    """``reduce(f)``: the value is of the type of the elements.

    Args:
        function: a ``ReduceFunction`` or a function of two elements.
        type_: the type of the elements.
    """

    def __init__(self, function: Any, type_: TypeInformation) -> None:
        self._reduce = method_of(function, "reduce")
        self.type_ = type_
        # A function may change its first argument in place; the element may be in several windows and streams.
        self._copy = copier(type_)
        handler = handler_of(type_)
        self._coerce, self._is_coerced = handler.coerce, handler.is_coerced

    def first(self, element: Any) -> Any:
        return self._copy(element)

    def add(self, value: Any, element: Any) -> Any:
        result = self._reduce(value, element)
        if result is element:
            return self._copy(element)
        if result is None:
            check_none(self.type_, "reduce", self._reduce)
        return result if self._is_coerced(result) else _coerced(result, self._coerce, self._reduce)

    def result(self, value: Any) -> Any:
        return value

    def merge(self, value: Any, other: Any) -> Any:
        return self.add(value, other)


class AggregateFold(Fold):
    """``aggregate(AggregateFunction)``: the value is an accumulator; ``merge`` is called by :meth:`merge` alone.

    Args:
        function: the ``AggregateFunction``.
        type_: the type of its accumulators.
    """

    def __init__(self, function: Any, type_: TypeInformation) -> None:
        self._function = function
        self.type_ = type_
        self._coerce = handler_of(type_).coerce

    def first(self, element: Any) -> Any:
        return self.add(self._function.create_accumulator(), element)

    def add(self, value: Any, element: Any) -> Any:
        return _coerced(self._function.add(element, value), self._coerce, self._function.add)

    def result(self, value: Any) -> Any:
        return self._function.get_result(value)

    def merge(self, value: Any, other: Any) -> Any:
        merged = self._function.merge(value, other)
        if merged is None:
            raise StateMigrationError(
                f"{type(self._function).__name__}.merge returns None, so what windows hold cannot move into windows of "
                "another shape: have it return the accumulator of both"
            )
        return _coerced(merged, self._coerce, self._function.merge)


def fold_of(functions: WindowFunctions, type_: TypeInformation) -> Fold | None:
    """The fold of a window's functions over elements of a type; None where windows keep all elements."""
    if functions.reduce_function is not None:
        return ReduceFold(functions.reduce_function, type_)
    if functions.aggregate_function is not None:
        return AggregateFold(functions.aggregate_function, functions.accumulators)
    return None


def _coerced(result: Any, coerce: Callable[[Any], Any], function: Any) -> Any:
    """What a function has returned, in the form of its type; a wrong one is noted as the function's."""
    try:
        return coerce(result)
    except InvalidTypeError as error:
        note_returned(error, function)
        raise
