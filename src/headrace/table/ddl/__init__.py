"""DDL statements, and ``SHOW`` and ``DESCRIBE``."""

from headrace.table.ddl.execute import create_table_as, execute_ddl, validate_ddl
from headrace.table.ddl.result import StatementResult

__all__ = ["StatementResult", "create_table_as", "execute_ddl", "validate_ddl"]
