"""Functions for single records, as functions with keyed state.

On a keyed stream the ``open`` of a ``MapFunction`` may ask for state. What is opened there runs as a
``KeyedProcessFunction``; plain functions cannot ask for state and need no such thing.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.datastream.functions import Function, KeyedProcessFunction, RuntimeContext
from headrace.graph.specs import FilterSpec, FlatMapSpec, MapSpec

if TYPE_CHECKING:
    from collections.abc import Iterable


def is_opened(function: Any) -> bool:
    """Whether a function has an ``open`` of its own."""
    own = getattr(type(function), "open", None)
    return callable(own) and own is not Function.open


class _KeyedFunction(KeyedProcessFunction):
    """Opens and closes the function of the user with itself."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self.function.open(runtime_context)

    def close(self) -> None:
        close = getattr(self.function, "close", None)
        if callable(close):
            close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        del ctx  # these functions see nothing but the record
        return self.results(value)

    @abstractmethod
    def results(self, value: Any) -> Iterable[Any] | None:
        """What the record becomes."""


class KeyedMap(_KeyedFunction):
    """Calls a ``MapFunction``."""

    def results(self, value: Any) -> Iterable[Any] | None:
        return (self.function.map(value),)


class KeyedFlatMap(_KeyedFunction):
    """Calls a ``FlatMapFunction``."""

    def results(self, value: Any) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self.function.flat_map(value)
        return results


class KeyedFilter(_KeyedFunction):
    """Calls a ``FilterFunction``."""

    def results(self, value: Any) -> Iterable[Any] | None:
        return (value,) if self.function.filter(value) else None


ADAPTERS: dict[type[Any], type[_KeyedFunction]] = {
    MapSpec: KeyedMap,
    FlatMapSpec: KeyedFlatMap,
    FilterSpec: KeyedFilter,
}
"""By the spec for a stream without keys: what to wrap its function with on a stream with keys."""
