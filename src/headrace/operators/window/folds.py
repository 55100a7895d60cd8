"""What a window keeps of its elements when functions of the user work on it: one folded value, or all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from headrace.operators.functions import method_of
from headrace.state.copying import copy_value


class Fold(ABC):
    """Turns elements into one value a key and window: read, modify, write. Values are never merged.

    Attributes:
        functions: the functions of the user that are called.
    """

    functions: tuple[Any, ...]

    @abstractmethod
    def first(self, element: Any) -> Any:
        """The value after the first element."""

    @abstractmethod
    def add(self, value: Any, element: Any) -> Any:
        """The value after another element."""

    @abstractmethod
    def result(self, value: Any) -> Any:
        """What the value stands for when the window fires; may be a part of it."""


class ReduceFold(Fold):
    """``reduce(f)``: the value is of the type of the elements.

    Args:
        function: a ``ReduceFunction`` or a function of two elements.
    """

    def __init__(self, function: Any) -> None:
        self.functions = (function,)
        self._reduce = method_of(function, "reduce")

    def first(self, element: Any) -> Any:
        # A function may change its first argument in place; the element may be in several windows and streams.
        return copy_value(element)

    def add(self, value: Any, element: Any) -> Any:
        return self._reduce(value, element)

    def result(self, value: Any) -> Any:
        return value


class AggregateFold(Fold):
    """``aggregate(AggregateFunction)``: the value is an accumulator; ``merge`` is not called.

    Args:
        function: the ``AggregateFunction``.
    """

    def __init__(self, function: Any) -> None:
        self.functions = (function,)
        self._function = function

    def first(self, element: Any) -> Any:
        return self._function.add(element, self._function.create_accumulator())

    def add(self, value: Any, element: Any) -> Any:
        return self._function.add(element, value)

    def result(self, value: Any) -> Any:
        return self._function.get_result(value)
