"""Functions of the user, objects with named methods or plain callables: how they are called, and what ``open`` gets."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any, Final, NamedTuple, TypeVar

from headrace.common.arguments import method_of_object
from headrace.common.errors import InvalidProgramError, StateError
from headrace.common.job_files import DistributedCache
from headrace.common.logs import get_logger
from headrace.metrics.metricbase import MetricGroup
from headrace.operators.base import Operator, OperatorContext, Output
from headrace.operators.user_code import UserCodeGuard
from headrace.state.descriptors import StateDescriptor
from headrace.state.interfaces import KeyedStateStore
from headrace.state.protocols import KeyedStates

logger = get_logger(__name__)


def close_all(closing: list[Callable[[], object]]) -> None:
    """Call all of these, the last first. Each leaves the list before, so that none is ever called again.

    Raises:
        Exception: the first failure; others are logged.
    """
    failure: Exception | None = None
    while closing:
        try:
            closing.pop()()
        except Exception as error:
            if failure is not None:
                logger.warning("closing something else beside it failed, too", exc_info=True)
            failure = failure or error
    if failure is not None:
        raise failure


F = TypeVar("F", bound="Callable[..., Any]")

_DOES_NOTHING: Final = "__headrace_does_nothing__"

_STATE_IN_OPEN: Final = "declare state in open(self, runtime_context), and keep what get_state(...) gives in self"

NO_KEYED_STATE: Final = (
    "keyed state exists only after key_by(...), and functions that are awaited have none; state of a subtask is what "
    "get_operator_state_store() of a CheckpointedFunction has"
)
"""The error for keyed state that is requested without keys."""

OTHER_NAMES_FOR_EMITTING: Final = {
    **dict.fromkeys(("output", "emit"), "yield the tag and the record for a side output: yield tag, value"),
    "collect": "yield the record",
}
"""Names that emit records in Java, where functions have no ``yield``."""

STATE_GETTERS: Final = ("get_state", "get_map_state", "get_list_state", "get_reducing_state", "get_aggregating_state")
"""The methods of what gives states."""

OTHER_NAMES_OF_CONTEXTS: Final = {**OTHER_NAMES_FOR_EMITTING, **dict.fromkeys(STATE_GETTERS, _STATE_IN_OPEN)}
"""Names that the context of a process function has in Java, or where state is declared, each with its replacement."""


ONE_INPUT: Final = ("process_element",)
TWO_INPUTS: Final = ("process_element1", "process_element2")
BROADCAST_INPUT: Final = ("process_element", "process_broadcast_element")
"""The methods of process functions, one for each input."""

INPUTS: Final = ("first", "second")
"""The names of two inputs."""

NO_TIMERS: Final = "records of the broadcast stream have no key: timers are set in process_element, or in on_timer"


class InputHandler(NamedTuple):
    """The call that handles a record of an input.

    Attributes:
        process: the method that is called.
        context: what it is called with, beside the record.
        made_by: what messages point to when its results are wrong.
    """

    process: Callable[[Any, Any], Any]
    context: Any
    made_by: Callable[..., Any]


def does_nothing(method: F) -> F:
    """Marks a method that a base class has only so that it can be overridden: there is no need to call it."""
    setattr(method, _DOES_NOTHING, True)
    return method


def has_own(function: object, name: str) -> bool:
    """Return whether calling the method ``name`` of a function object does anything."""
    method = method_of_object(function, name)
    return method is not None and not getattr(method, _DOES_NOTHING, False)


def method_of(function: Any, name: str) -> Callable[..., Any]:
    """The method ``name`` of a function object (``MapFunction.map``), or the callable itself."""
    called: Callable[..., Any] = method_of_object(function, name) or function
    return called


def results_made_by(function: object, name: str) -> Callable[..., Any]:
    """The method ``name`` of a function object, for messages: of an adapter that of the function that it adapts."""
    adapted: Callable[[str], Callable[..., Any]] | None = getattr(function, "__headrace_adapted__", None)
    return method_of(function, name) if adapted is None else adapted(name)


def objects_of(functions: Iterable[Any]) -> list[Any]:
    """The user's own objects among an operator's functions, and those that are adapted; plain ones have no fields."""
    found = []
    for each in functions:
        own = each.function if hasattr(type(each), "__headrace_adapted__") else each
        if not isinstance(own, NoneType | FunctionType | BuiltinFunctionType):
            found.append(own)
    return found


def keyed_states(context: OperatorContext, method: str) -> KeyedStates:
    """The states of an operator's keys.

    Args:
        context: the operator.
        method: what the user has called.

    Raises:
        InvalidProgramError: when the operator has no keys.
    """
    with suppress(StateError):
        return context.state.keyed
    raise InvalidProgramError(f"{method} in operator {context.name!r} ({context.call_site}): {NO_KEYED_STATE}")


class TaskContext:
    """The subtask that calls a function, as the function sees it.

    Args:
        context: the operator that calls it.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def get_task_name(self) -> str:
        """The operator's name."""
        return self._context.name

    def get_task_name_with_subtasks(self) -> str:
        """The operator's name with the number of the subtask, from 1: ``name (1/4)``."""
        return f"{self._context.name} ({self._context.subtask + 1}/{self._context.parallelism})"

    def get_number_of_parallel_subtasks(self) -> int:
        """Return how many parallel instances there are."""
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return how many key groups there are."""
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return which instance this is, from 0."""
        return self._context.subtask

    def get_attempt_number(self) -> int:
        """Always 0: an attempt must not be able to find out that it is not the first, or its output could differ."""
        return 0

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A value of the job's configuration."""
        return self._context.job_parameters.get(key, default_value)


class FunctionContext(TaskContext):
    """Handed to ``open`` of functions of SQL; names as in PyFlink.

    Examples:
        >>> from headrace.table.udf import ScalarFunction
        >>> class Where(ScalarFunction):
        ...     def open(self, function_context):
        ...         self.subtask = function_context.get_index_of_this_subtask()
        ...     def eval(self):
        ...         return self.subtask
    """

    def get_metric_group(self) -> MetricGroup:
        """The operator's metrics: counters, gauges, meters and distributions for ``JobClient.get_metrics()``."""
        return MetricGroup(self._context.metrics)


@dataclass(frozen=True)
class OpenedFunction:
    """A function of SQL, which is opened and closed with an operator.

    Attributes:
        function: the function.
    """

    function: Any

    def open(self, context: OperatorContext) -> None:
        """Open it."""
        if (opened := method_of_object(self.function, "open")) is not None:
            with UserCodeGuard(context):
                opened(FunctionContext(context))

    def close(self) -> None:
        """Close it."""
        if (closed := method_of_object(self.function, "close")) is not None:
            closed()


class RuntimeContext(TaskContext, KeyedStateStore):
    """Handed to ``open``; names as in PyFlink.

    Examples:
        >>> from headrace.datastream import MapFunction, StreamExecutionEnvironment
        >>> class Where(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.name = runtime_context.get_task_name_with_subtasks()
        ...     def map(self, value):
        ...         return f"{value} in {self.name}"
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["tea"]).map(Where(), output_type=str).name("orders").execute_and_collect(limit=10)
        ['tea in orders (1/1)']
    """

    def get_metrics_group(self) -> MetricGroup:
        """The operator's metrics: counters, gauges, meters and distributions for ``JobClient.get_metrics()``."""
        return MetricGroup(self._context.metrics)

    def get_distributed_cache(self) -> DistributedCache:
        """The files that ``register_cached_file`` has had copied to this machine."""
        return DistributedCache()

    def _state(self, descriptor: StateDescriptor, method: str) -> Any:
        return keyed_states(self._context, method).state(descriptor)


class FunctionOperator(Operator):
    """An operator whose functions of the user are opened and closed with it.

    Args:
        functions: objects with or without an ``open`` and a ``close``, callables, None.
    """

    def __init__(self, *functions: object) -> None:
        super().__init__()
        self._functions = functions

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self._open_all(self._functions, context)

    def _open_all(self, functions: Sequence[object], context: OperatorContext) -> None:
        with UserCodeGuard(context):
            for function in functions:
                if (opened := method_of_object(function, "open")) is not None:
                    opened(self._runtime_context(context))

    def _runtime_context(self, context: OperatorContext) -> RuntimeContext:
        """The context that ``open`` of functions is called with."""
        return RuntimeContext(context)

    def close(self) -> None:
        close_all([partial(self._close, function) for function in reversed(self._functions)])

    def _close(self, function: object) -> None:
        if (closed := method_of_object(function, "close")) is not None:
            with UserCodeGuard(self.context):
                closed()
