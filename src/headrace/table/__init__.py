"""Tables and SQL in Flink's dialect.

::

    tables = TableEnvironment.create()
    tables.execute_sql("CREATE TABLE clicks (user STRING, at TIMESTAMP(3)) WITH ('connector' = 'filesystem', ...)")
    tables.execute_sql("SELECT user, COUNT(*) FROM clicks GROUP BY user").print()
"""

from headrace.common.public_module import public_module
from headrace.common.types import Row, RowKind
from headrace.operators.functions import FunctionContext
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.environment.compiled_plan import CompiledPlan, PlanReference
from headrace.table.environment.descriptors import FormatDescriptor, ModelDescriptor, TableDescriptor
from headrace.table.environment.schema import Schema
from headrace.table.environment.settings import EnvironmentSettings, TableConfig
from headrace.table.environment.statement_set import StatementSet
from headrace.table.environment.stream_tables import StreamTableEnvironment
from headrace.table.environment.table import Table
from headrace.table.environment.table_environment import TableEnvironment
from headrace.table.environment.table_result import ResultKind, TableResult
from headrace.table.functions.python.classes import AggregateFunction, ScalarFunction, TableFunction
from headrace.table.parse.tree.statements import ExplainDetail
from headrace.table.types import DataTypes

__all__ = [
    "AggregateFunction",
    "ChangelogMode",
    "CompiledPlan",
    "DataTypes",
    "EnvironmentSettings",
    "ExplainDetail",
    "FormatDescriptor",
    "FunctionContext",
    "ModelDescriptor",
    "PlanReference",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "Schema",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TableResult",
]

public_module(__name__)
