"""Errors of rules and of the planner."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from headrace.common.errors import InvalidProgramError

P = ParamSpec("P")
R = TypeVar("R")


class PlanningError(InvalidProgramError):
    """A valid statement cannot be planned, or not in this mode (Flink's ``TableException``)."""


def placed(reason: str, at: str) -> PlanningError:
    """The error about a part of a statement.

    Args:
        reason: what is wrong.
        at: the place of the part, as far as it is known.
    """
    return PlanningError(f"{reason} (at {at})" if at else reason)


class SinkConflictError(InvalidProgramError):
    """Rows with different keys may have one key in the table, and the statement has no ``ON CONFLICT``."""


class StartPositionError(PlanningError):
    """A table cannot be read from where ``START_MODE`` says."""


class NoCastError(InvalidProgramError):
    """There is no cast from one type to another, and a function in place of it."""


class TableDefinitionError(InvalidProgramError):
    """The definition of a table does not fit what its connector reads or writes."""


def refuses_depth(function: Callable[P, R]) -> Callable[P, R]:
    """Turn a stack overflow of the planner into an error about a too deeply nested statement."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise PlanningError(
                "the statement is nested too deeply, as a chain of hundreds of operators is, too: bracket parts "
                "of a chain, as in (a + b) + (c + d), or split the statement"
            ) from None

    return call
