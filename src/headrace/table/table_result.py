"""Results of statements."""

from headrace.common.public_module import public_module
from headrace.table.environment.table_result import CollectedRows as CloseableIterator
from headrace.table.environment.table_result import TableResult

__all__ = ["CloseableIterator", "TableResult"]

public_module(__name__)
