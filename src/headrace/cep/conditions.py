"""Conditions as programs write them, and what they become."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic

from headrace.common.arguments import check_returns
from headrace.common.errors import InvalidProgramError, InvalidTypeError, refused, shown, uncalled
from headrace.common.type_variables import T, T_contra
from headrace.datastream.functions import FilterFunction, Function
from headrace.datastream.streams.checks import check_condition
from headrace.expressions import Expression
from headrace.expressions.stages import looks_at_stages
from headrace.expressions.text import parse_expression
from headrace.expressions.tree import FunctionCall
from headrace.operators.functions import method_of
from headrace.operators.pattern.conditions import (
    And,
    Condition,
    ConditionContext,
    EventCall,
    EventExpression,
    IterativeCall,
    Or,
    TakenExpression,
)


class IterativeCondition(Function, Generic[T_contra]):
    """A condition on an event and on those that the partial match has taken so far.

    Where a function of two parameters says it all, it does as well. A condition with ``open`` gets state and metrics of
    the operator there.

    Examples:
        >>> from headrace.cep import IterativeCondition, Pattern
        >>> class IsRise(IterativeCondition):
        ...     def filter(self, value, ctx):
        ...         return all(value > before for before in ctx.events("rise")[-1:])
        >>> pattern = Pattern.begin("rise").where(IsRise()).one_or_more()
    """

    @abstractmethod
    def filter(self, value: T_contra, ctx: ConditionContext) -> bool:
        """Return whether an event satisfies it."""


class SimpleCondition(Function, Generic[T_contra]):
    """A condition on an event alone, which is evaluated once an event, whatever the number of partial matches.

    A function of one parameter does as well, and an expression over the columns of the events is faster.

    Examples:
        >>> from headrace.cep import Pattern, SimpleCondition
        >>> class IsLarge(SimpleCondition):
        ...     def filter(self, value):
        ...         return value.amount > 500
        >>> pattern = Pattern.begin("large").where(IsLarge())
    """

    @abstractmethod
    def filter(self, value: T_contra) -> bool:
        """Return whether an event satisfies it."""

    @staticmethod
    def of(filter: Callable[[T], bool] | FilterFunction[T]) -> SimpleCondition[T]:
        """Return a condition that a function of the event decides, for patterns that are ported from Java.

        Args:
            filter: a function of one parameter, or a ``FilterFunction``.
        """
        if not isinstance(condition_of(method_of(filter, "filter"), "of()"), EventCall):
            raise refused(f"of() takes a function of the event, not {shown(filter)}", InvalidTypeError)
        return FunctionCondition(filter)


class FunctionCondition(SimpleCondition[T_contra]):
    """Calls a function of the event.

    Attributes:
        function: the function, or a ``FilterFunction``.
    """

    def __init__(self, function: Callable[[T_contra], bool] | FilterFunction[T_contra]) -> None:
        self.function = function

    def filter(self, value: T_contra) -> bool:
        decided: bool = method_of(self.function, "filter")(value)
        return decided


Given = (
    Expression
    | str
    | SimpleCondition[T]
    | IterativeCondition[T]
    | Callable[[T], bool]
    | Callable[[T, ConditionContext], bool]
)
"""The forms of a condition in a program."""


def condition_of(given: Any, method: str) -> Condition:
    """The condition of a stage that a program gives.

    Args:
        given: an expression, its text, a condition object, a function, or a condition as it is.
        method: the method that it was given to.

    Raises:
        InvalidTypeError: when it is nothing of these, or a function that gives no answer.
        InvalidProgramError: when it is a function that never returns anything, or a text that is no expression.
    """
    if isinstance(given, Condition):
        return given
    if isinstance(given, str | Expression):
        return _of_expression(_parsed(given) if isinstance(given, str) else given)
    if isinstance(given, FunctionCondition):
        called = method_of(given.function, "filter")
        check_condition(called, "filter()")
        check_returns(given.function, "filter")
        return EventCall(called, given.function)
    if isinstance(given, SimpleCondition | IterativeCondition):
        check_condition(given.filter, "filter()")
        check_returns(given, "filter")
        if isinstance(given, SimpleCondition):
            return EventCall(given.filter, given)
        return IterativeCall(given.filter, given)
    if not callable(given) or isinstance(given, type):
        raise refused(
            f"{method} takes an expression as col('amount') < 1.0, its text, a function of the event, or one of the "
            f"event and the context, not {shown(given)}{uncalled(given, SimpleCondition)}",
            InvalidTypeError,
        )
    check_condition(given, method)
    check_returns(given, method.removesuffix("()"))
    return IterativeCall(given, given) if _takes_context(given, method) else EventCall(given, given)


def _of_expression(expression: Expression) -> Condition:
    """A condition of an expression; parts of it that look at the event alone are conditions of their own."""
    if not looks_at_stages(expression):
        return EventExpression(expression)
    match expression:
        case FunctionCall("and", (first, second)):
            return And(_of_expression(first), _of_expression(second))
        case FunctionCall("or", (first, second)):
            return Or(_of_expression(first), _of_expression(second))
    return TakenExpression(expression)


def _parsed(text: str) -> Expression:
    try:
        return parse_expression(text)
    except InvalidProgramError as error:
        raise refused(str(error)) from None


def _takes_context(function: Callable[..., object], method: str) -> bool:
    """Return whether a function is called with the context as well; one that may have it or not is not."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # it is written in C
        return False
    if _binds(signature, 1):
        return False
    if _binds(signature, 2):
        return True
    name = getattr(function, "__name__", type(function).__name__)
    raise refused(
        f"{method} calls a condition with the event, or with the event and the context, and {name}{signature} takes "
        "neither",
        InvalidTypeError,
    )


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
