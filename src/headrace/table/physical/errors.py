"""Errors of the planner."""

from headrace.common.errors import InvalidProgramError


class PlanningError(InvalidProgramError):
    """A valid statement cannot be planned, or not in this mode (Flink's ``TableException``)."""


class SinkConflictError(InvalidProgramError):
    """Rows with different keys may have one key in the table, and the statement has no ``ON CONFLICT``."""


class TableDefinitionError(InvalidProgramError):
    """The definition of a table does not fit what its connector reads or writes."""
