"""Errors of rules and of the planner."""

from headrace.common.errors import InvalidProgramError


class PlanningError(InvalidProgramError):
    """A valid statement cannot be planned, or not in this mode (Flink's ``TableException``)."""
