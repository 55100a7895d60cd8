"""The user's functions of windows: those that fold elements, the one over the contents of a window, its trigger."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import reduce
from typing import Any, NoReturn

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.other_names import names_explained
from headrace.common.typeinfo import TypeInformation
from headrace.common.values import handler_of
from headrace.metrics.metricbase import MetricGroup
from headrace.operators.base import OperatorContext
from headrace.operators.collector import results_of
from headrace.operators.functions import OTHER_NAMES_FOR_EMITTING, STATE_GETTERS, has_own, method_of, results_made_by
from headrace.operators.user_code import check_none, note_returned
from headrace.operators.window.stored_windows import ADVICE, OF_TRIGGERS
from headrace.state.copying import copier
from headrace.state.descriptors import StateDescriptor
from headrace.state.interfaces import KeyedStateStore
from headrace.state.keyed.namespaces import GivenNamespace
from headrace.state.keys.codecs import KeyEntry
from headrace.state.protocols import KeyedStates, Timers
from headrace.windowing.definition import WindowFunctions
from headrace.windowing.evictors import Evictor
from headrace.windowing.trigger import Firing, Trigger, TriggerResult


class WindowStateStore(KeyedStateStore):
    """The states of the key, or of the key and window, for a window's function.

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
        """Return whether the window fires before its end, at its end or after it."""
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


class WindowCall:
    """Calls one function over the contents of a window.

    Attributes:
        sees_window: whether there is a function, which learns for which key and window it is called. Without one, what
            the elements were folded into is the result.
        maker: the method that makes what the window emits; None where that is elements, or reduced ones.
        wants_clear: whether :meth:`clear` does anything.

    Args:
        function: a ``ProcessWindowFunction``, a ``WindowFunction``, or a function of (key, window, elements).
        aggregate_function: what has folded the elements, where that has a function for its results.
    """

    def __init__(self, function: Any, aggregate_function: Any = None) -> None:
        self._function = function
        self._takes_context = callable(getattr(function, "process", None))
        name = "process" if self._takes_context else "apply"
        self._call = method_of(function, name)
        self.sees_window = function is not None
        self.maker = (
            results_made_by(function, name) if self.sees_window else getattr(aggregate_function, "get_result", None)
        )
        self.wants_clear = self._takes_context and has_own(function, "clear")

    def results(self, entry: KeyEntry, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        """The results that the window emits when it fires."""
        if not self.sees_window:
            return elements
        argument = context if self._takes_context else context.window()
        return results_of(self._call(entry.key, argument, elements), self.maker)

    def clear(self, context: WindowContext) -> None:
        """Called when the contents of a window go."""
        self._function.clear(context)


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
        """The result that the accumulator stands for when the window fires; may be a part of it."""

    @abstractmethod
    def merge(self, value: Any, other: Any) -> Any:
        """The value of the elements of both; only where windows merge, or windows of another shape are declared."""

    @abstractmethod
    def of_all(self, elements: Sequence[Any]) -> Sequence[Any]:
        """The result of elements that are there at once; none where no elements have no result."""

    def checked(self, value: Any, method: str) -> Any:
        """The value that a method has returned, where None may not be one; it is one of most functions."""
        return value


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

    def of_all(self, elements: Sequence[Any]) -> Sequence[Any]:
        return (reduce(self.add, elements[1:], self.first(elements[0])),) if elements else ()


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
        return _coerced(self.checked(self._function.merge(value, other), "merge"), self._coerce, self._function.merge)

    def of_all(self, elements: Sequence[Any]) -> Sequence[Any]:
        return (self.result(reduce(self.add, elements, self._function.create_accumulator())),)

    def checked(self, value: Any, method: str) -> Any:
        if value is None:
            error = InvalidTypeError(f"the AggregateFunction's {method} returned None: return the accumulator")
            note_returned(error, getattr(self._function, method))
            raise error
        return value


def fold_of(functions: WindowFunctions, type_: TypeInformation) -> Fold | None:
    """The fold of a window's functions over elements of a type; None where windows keep all elements."""
    if functions.reduce_function is not None:
        return ReduceFold(functions.reduce_function, type_)
    if functions.aggregate_function is not None:
        return AggregateFold(functions.aggregate_function, functions.accumulators)
    return None


def _coerced(result: Any, coerce: Callable[[Any], Any], function: Any) -> Any:
    """The result of a function, in the form of its type; a wrong one is noted as the function's."""
    try:
        return coerce(result)
    except InvalidTypeError as error:
        note_returned(error, function)
        raise


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
    """The trigger of an operator, called for one key and window after the other, and its context.

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
        trigger: Trigger,
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
        """From now on the trigger is called for this window of the current key."""
        self._window = window
        self._namespace = self._keyed.namespace = namespace

    def on_element(self, element: Any, timestamp: int) -> TriggerResult:
        """The trigger's decision after an element was added."""
        return self._checked(self._trigger.on_element(element, timestamp, self._window, self), "on_element")

    def on_event_time(self, time: int) -> TriggerResult:
        """The trigger's decision when a timer of event time fires."""
        return self._checked(self._trigger.on_event_time(time, self._window, self), "on_event_time")

    def on_processing_time(self, time: int) -> TriggerResult:
        """The trigger's decision when a timer of processing time fires."""
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
