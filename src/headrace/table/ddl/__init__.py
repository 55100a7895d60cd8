"""Statements that change what catalogs hold, and those that show it."""

from headrace.table.ddl.execute import create_table_as, execute_ddl, validate_ddl
from headrace.table.ddl.result import StatementResult

__all__ = ["StatementResult", "create_table_as", "execute_ddl", "validate_ddl"]
