"""What a window keeps of its elements when functions of the user work on it: one folded value, or all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.common.errors import InvalidTypeError, StateMigrationError
from headrace.common.values import handler_of
from headrace.operators.functions import method_of
from headrace.operators.user_code import check_none, note_returned
from headrace.state.copying import copier

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation
    from headrace.windowing.definition import WindowFunctions


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
