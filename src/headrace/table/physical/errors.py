"""Errors of the planner."""

from headrace.common.errors import InvalidProgramError


class PlanningError(InvalidProgramError):
    """A statement is valid, and no operator can compute it, or not in this mode (Flink's ``TableException``)."""


class SinkConflictError(InvalidProgramError):
    """Rows with different keys may fall on one key of a table, and the statement does not say what then."""
