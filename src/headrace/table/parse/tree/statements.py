"""Statements other than DDL, which is in ``definitions``."""

from dataclasses import dataclass
from enum import Enum

from headrace.table.parse.tree.definitions import ObjectKind, Option, Partition, Statement
from headrace.table.parse.tree.expressions import SqlCall, SqlExpression
from headrace.table.parse.tree.node import Name, Path, QueryExpression, SqlNode
from headrace.table.parse.tree.queries import SqlHint, SqlRelation


@dataclass(frozen=True, slots=True)
class QueryStatement(Statement):
    """A query as a statement."""

    query: QueryExpression


# --- changes of rows -------------------------------------------------------------------------------------------------


class ConflictAction(Enum):
    """The actions of ``ON CONFLICT``."""

    NOTHING = "DO NOTHING"
    ERROR = "DO ERROR"
    DEDUPLICATE = "DO DEDUPLICATE"


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """``INSERT INTO | OVERWRITE table [PARTITION (...)] [(column, ...)] query [ON CONFLICT ...]``.

    Attributes:
        columns: as written; none when all columns are meant.
    """

    table: Path
    query: QueryExpression
    columns: tuple[Path, ...] = ()
    partition: Partition = ()
    hints: tuple[SqlHint, ...] = ()
    is_overwrite: bool = False
    on_conflict: ConflictAction | None = None


@dataclass(frozen=True, slots=True)
class SqlStatementSet(Statement):
    """``STATEMENT SET BEGIN insert; ... END``."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, slots=True)
class BeginStatementSet(Statement):
    """``BEGIN STATEMENT SET``, which opens a set in a client."""


@dataclass(frozen=True, slots=True)
class EndStatementSet(Statement):
    """``END``."""


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """``DELETE FROM table [[AS] alias] [WHERE condition]``."""

    table: Path
    alias: Name | None = None
    where: SqlExpression | None = None


@dataclass(frozen=True, slots=True)
class ColumnAssignment(SqlNode):
    """``column = value`` of ``UPDATE``."""

    column: Path
    value: SqlExpression


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """``UPDATE table [[AS] alias] SET column = value, ... [WHERE condition]``."""

    table: Path
    assignments: tuple[ColumnAssignment, ...]
    alias: Name | None = None
    where: SqlExpression | None = None


@dataclass(frozen=True, slots=True)
class MergeInto(Statement):
    """``MERGE INTO table [AS alias] USING source ON condition WHEN ...``, which Flink parses and then refuses.

    Attributes:
        updates: the assignments of ``WHEN MATCHED THEN UPDATE SET``.
        insert_values: the values of ``WHEN NOT MATCHED THEN INSERT``; None without it.
    """

    table: Path
    alias: Name | None
    source: SqlRelation
    condition: SqlExpression
    updates: tuple[ColumnAssignment, ...] = ()
    insert_columns: tuple[Name, ...] = ()
    insert_values: tuple[SqlExpression, ...] | None = None


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    """``TRUNCATE TABLE table``."""

    table: Path


# --- plans -----------------------------------------------------------------------------------------------------------


class ExplainDetail(Enum):
    """The details that ``EXPLAIN`` adds to the plan.

    Examples:
        >>> from headrace.table import ExplainDetail, TableEnvironment
        >>> plan = TableEnvironment.create().sql_query("SELECT 1 AS n").explain(ExplainDetail.CHANGELOG_MODE)
        >>> "changelogMode=[I]" in plan
        True
    """

    ESTIMATED_COST = "ESTIMATED_COST"
    CHANGELOG_MODE = "CHANGELOG_MODE"
    JSON_EXECUTION_PLAN = "JSON_EXECUTION_PLAN"
    PLAN_ADVICE = "PLAN_ADVICE"


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """``EXPLAIN [PLAN FOR | detail, ...] statement``."""

    statement: Statement
    details: tuple[ExplainDetail, ...] = ()


@dataclass(frozen=True, slots=True)
class Execute(Statement):
    """``EXECUTE statement``."""

    statement: Statement


@dataclass(frozen=True, slots=True)
class ExecutePlan(Statement):
    """``EXECUTE PLAN 'file'``."""

    file: str


@dataclass(frozen=True, slots=True)
class CompilePlan(Statement):
    """``COMPILE [AND EXECUTE] PLAN 'file' [IF NOT EXISTS] FOR statement``."""

    file: str
    statement: Statement
    if_not_exists: bool = False
    and_execute: bool = False


# --- the session and its objects -------------------------------------------------------------------------------------


class ShowKind(Enum):
    """The lists of ``SHOW``; the value is the text between ``SHOW`` and the clauses."""

    CATALOGS = "CATALOGS"
    CURRENT_CATALOG = "CURRENT CATALOG"
    CURRENT_DATABASE = "CURRENT DATABASE"
    DATABASES = "DATABASES"
    TABLES = "TABLES"
    MATERIALIZED_TABLES = "MATERIALIZED TABLES"
    VIEWS = "VIEWS"
    COLUMNS = "COLUMNS"
    FUNCTIONS = "FUNCTIONS"
    USER_FUNCTIONS = "USER FUNCTIONS"
    PROCEDURES = "PROCEDURES"
    MODELS = "MODELS"
    CONNECTIONS = "CONNECTIONS"
    MODULES = "MODULES"
    FULL_MODULES = "FULL MODULES"
    PARTITIONS = "PARTITIONS"
    JARS = "JARS"
    JOBS = "JOBS"


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """``SHOW kind [FROM | IN path] [[NOT] LIKE | ILIKE 'pattern']``, ``SHOW PARTITIONS table [PARTITION (...)]``.

    Attributes:
        path: the catalog, database or table.
        pattern: the pattern that names have to match.
        ignores_case: whether it is ``ILIKE``.
    """

    kind: ShowKind
    path: Path | None = None
    pattern: str | None = None
    negated: bool = False
    ignores_case: bool = False
    partition: Partition = ()


@dataclass(frozen=True, slots=True)
class ShowCreate(Statement):
    """``SHOW CREATE kind name``."""

    kind: ObjectKind
    path: Path


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """``DESCRIBE [kind] [EXTENDED] name``; a table is of kind ``TABLE``, and may be a view."""

    kind: ObjectKind
    path: Path
    is_extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeJob(Statement):
    """``DESCRIBE JOB 'id'``."""

    job: str


@dataclass(frozen=True, slots=True)
class StopJob(Statement):
    """``STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]``."""

    job: str
    with_savepoint: bool = False
    with_drain: bool = False


@dataclass(frozen=True, slots=True)
class UseCatalog(Statement):
    """``USE CATALOG name``."""

    catalog: Name


@dataclass(frozen=True, slots=True)
class UseDatabase(Statement):
    """``USE [catalog.]database``."""

    database: Path


@dataclass(frozen=True, slots=True)
class UseModules(Statement):
    """``USE MODULES name, ...``."""

    modules: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class LoadModule(Statement):
    """``LOAD MODULE name [WITH (...)]``."""

    module: Name
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class UnloadModule(Statement):
    """``UNLOAD MODULE name``."""

    module: Name


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    """``SET``, ``SET 'key' = 'value'``, ``SET key = value``.

    Attributes:
        option: None when all settings are to be shown.
    """

    option: Option | None = None


@dataclass(frozen=True, slots=True)
class ResetOption(Statement):
    """``RESET``, ``RESET 'key'``, ``RESET key``.

    Attributes:
        key: None when all settings are reset.
    """

    key: str | None = None


@dataclass(frozen=True, slots=True)
class ClientCommand(Statement):
    """``QUIT``, ``EXIT``, ``CLEAR`` or ``HELP``, which a client executes."""

    word: str


@dataclass(frozen=True, slots=True)
class Jar(Statement):
    """``ADD JAR 'path'`` or ``REMOVE JAR 'path'``."""

    path: str
    is_add: bool


class StatisticsScope(Enum):
    """The statistics that ``ANALYZE TABLE`` computes."""

    ROW_COUNT = "ROW COUNT"
    COLUMNS = "COLUMNS"
    ALL_COLUMNS = "ALL COLUMNS"


@dataclass(frozen=True, slots=True)
class AnalyzeTable(Statement):
    """``ANALYZE TABLE table [PARTITION (...)] COMPUTE STATISTICS [FOR COLUMNS a, ... | FOR ALL COLUMNS]``."""

    table: Path
    partition: Partition
    scope: StatisticsScope
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class CallProcedure(Statement):
    """``CALL path.procedure(argument, ...)``."""

    call: SqlCall
