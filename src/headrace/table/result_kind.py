"""The kinds of results of statements."""

from headrace.common.public_module import public_module
from headrace.table.environment.table_result import ResultKind

__all__ = ["ResultKind"]

public_module(__name__)
