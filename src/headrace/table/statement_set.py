"""Statement sets."""

from headrace.common.public_module import public_module
from headrace.table.environment.statement_set import StatementSet

__all__ = ["StatementSet"]

public_module(__name__)
