"""Binding of syntax trees to logical plans: name resolution, types, and the checks of Flink's validator."""

from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import SqlPlanError, SqlValidationError
from headrace.table.bind.statements import bind_change, bind_insert, bind_query, result_schema

__all__ = [
    "BindContext",
    "SqlPlanError",
    "SqlValidationError",
    "bind_change",
    "bind_insert",
    "bind_query",
    "result_schema",
]
