"""What the planner refuses."""

from headrace.common.errors import InvalidProgramError


class PlanningError(InvalidProgramError):
    """A statement is valid, and no operator can compute it, or not in this mode (Flink's ``TableException``)."""
