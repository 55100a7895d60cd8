"""Functions of the user, objects with named methods or plain callables; and operators that call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.operators.base import Operator, OperatorContext, Output
from headrace.operators.runtime_context import RuntimeContext
from headrace.operators.user_code import calling_user_code

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_DOES_NOTHING: Final = "__headrace_does_nothing__"


def does_nothing(method: F) -> F:
    """Marks a method that a base class has only so that it can be overridden: as it is, nobody needs to call it."""
    setattr(method, _DOES_NOTHING, True)
    return method


def has_own(function: Any, name: str) -> bool:
    """Whether calling the method ``name`` of a function object does anything."""
    method = getattr(function, name, None)
    return callable(method) and not getattr(method, _DOES_NOTHING, False)


def method_of(function: Any, name: str) -> Callable[..., Any]:
    """The method ``name`` of a function object (``MapFunction.map``), or the callable itself."""
    method: Callable[..., Any] | None = getattr(function, name, None)
    if callable(method):
        return method
    plain: Callable[..., Any] = function
    return plain


def open_function(function: Any, runtime_context: Any) -> None:
    """Call ``open`` where there is one."""
    if callable(getattr(function, "open", None)):
        function.open(runtime_context)


def close_function(function: Any) -> None:
    """Call ``close`` where there is one."""
    if callable(getattr(function, "close", None)):
        function.close()


class FunctionOperator(Operator):
    """An operator whose functions of the user are opened and closed with it.

    Args:
        functions: objects with or without an ``open`` and a ``close``, callables, None.
    """

    def __init__(self, *functions: Any) -> None:
        super().__init__()
        self._functions = functions

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        with calling_user_code(context):
            for function in self._functions:
                open_function(function, RuntimeContext(context))

    def close(self) -> None:
        with calling_user_code(self.context):
            for function in self._functions:
                close_function(function)
