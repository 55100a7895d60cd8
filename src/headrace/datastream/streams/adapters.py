"""Functions of one kind as functions of another: for single records with keyed state, for all records by key.

On a keyed stream the ``open`` of a ``MapFunction``, or its ``initialize_state``, may ask for state. What is opened
there runs as a ``KeyedProcessFunction``; plain functions cannot ask for state and need no such thing. Windows of all
records are windows of one key, which their functions are not told.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from headrace.datastream.functions import KeyedProcessFunction, ProcessWindowFunction, RuntimeContext, WindowFunction
from headrace.graph.process_specs import KeyedProcessSpec
from headrace.graph.specs import FilterSpec, FlatMapSpec, FunctionSpec, MapSpec, OperatorSpec
from headrace.operators.checkpointed import CheckpointedFunction
from headrace.operators.functions import has_own, method_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.common.typeinfo import TypeInformation


class Adapter:
    """Opens and closes the function of the user with itself.

    Attributes:
        function: the function.
        method: the name of the method of it that is called.
    """

    method: str

    def __init__(self, function: Any) -> None:
        self.function = function

    def __headrace_adapted__(self, name: str) -> Callable[..., Any]:
        """The method of the function that is called in the method ``name`` of this object."""
        return method_of(self.function, self.method)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._call("open", runtime_context)

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str, *arguments: Any) -> None:
        method = getattr(self.function, name, None)
        if callable(method):
            method(*arguments)


class _KeyedFunction(Adapter, KeyedProcessFunction):
    """A function for single records."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        del ctx  # these functions see nothing but the record
        return self.results(value)

    @abstractmethod
    def results(self, value: Any) -> Iterable[Any] | None:
        """What the record becomes."""


class KeyedMap(_KeyedFunction):
    """Calls a ``MapFunction``."""

    method = "map"

    def results(self, value: Any) -> Iterable[Any] | None:
        return (self.function.map(value),)


class KeyedFlatMap(_KeyedFunction):
    """Calls a ``FlatMapFunction``."""

    method = "flat_map"

    def results(self, value: Any) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self.function.flat_map(value)
        return results


class KeyedFilter(_KeyedFunction):
    """Calls a ``FilterFunction``."""

    method = "filter"

    def results(self, value: Any) -> Iterable[Any] | None:
        return (value,) if self.function.filter(value) else None


class _CoFunction(Adapter):
    """A function for single records of two streams, as one that may have keyed state."""

    methods: tuple[str, str]

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._first, self._second = (method_of(function, name) for name in self.methods)

    def __headrace_adapted__(self, name: str) -> Callable[..., Any]:
        return self._second if name.endswith("2") else self._first


class CoMap(_CoFunction):
    """Calls a ``CoMapFunction``; None is no record."""

    methods = ("map1", "map2")

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        result = self._first(value)
        return None if result is None else (result,)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        result = self._second(value)
        return None if result is None else (result,)


class CoFlatMap(_CoFunction):
    """Calls a ``CoFlatMapFunction``."""

    methods = ("flat_map1", "flat_map2")

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self._first(value)
        return results

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self._second(value)
        return results


class AllApply(Adapter, WindowFunction):
    """Calls an ``AllWindowFunction``, or a function of window and records."""

    method = "apply"

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = method_of(self.function, "apply")(window, inputs)
        return results


class AllProcess(Adapter, ProcessWindowFunction):
    """Calls a ``ProcessAllWindowFunction``."""

    method = "process"

    def process(
        self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]
    ) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self.function.process(context, elements)
        return results

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        self._call("clear", context)


def with_keyed_state(spec: OperatorSpec, record_type: TypeInformation) -> OperatorSpec:
    """The spec for a stream with keys; another one where its function may ask for state.

    Args:
        spec: the spec for a stream without keys.
        record_type: the type of the records.
    """
    adapter = _ADAPTERS.get(type(spec))
    if adapter is None:
        return spec
    assert isinstance(spec, FunctionSpec | FilterSpec)
    if not (has_own(spec.function, "open") or isinstance(spec.function, CheckpointedFunction)):
        return spec
    result_type = spec.result_type if isinstance(spec, FunctionSpec) else record_type
    return KeyedProcessSpec(adapter(spec.function), result_type)


_ADAPTERS: Final[dict[type[OperatorSpec], type[_KeyedFunction]]] = {
    MapSpec: KeyedMap,
    FlatMapSpec: KeyedFlatMap,
    FilterSpec: KeyedFilter,
}
"""By the spec for a stream without keys: what to wrap its function with on a stream with keys."""
