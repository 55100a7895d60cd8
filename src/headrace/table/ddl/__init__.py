"""DDL statements, and ``SHOW`` and ``DESCRIBE``."""

from headrace.table.ddl.execute import CreatedTable, bind_table_as, execute_ddl, planned_table_as, validate_ddl
from headrace.table.ddl.result import StatementResult

__all__ = ["CreatedTable", "StatementResult", "bind_table_as", "execute_ddl", "planned_table_as", "validate_ddl"]
