"""DDL statements and their clauses: columns, keys, options."""

from dataclasses import dataclass
from enum import Enum

from headrace.table.parse.tree.expressions import SqlExpression
from headrace.table.parse.tree.node import Name, Path, QueryExpression, SqlNode
from headrace.table.parse.tree.types import TypeSpec


@dataclass(frozen=True, slots=True)
class Statement(SqlNode):
    """A node that can be executed."""


@dataclass(frozen=True, slots=True)
class Option(SqlNode):
    """``'key' = 'value'`` of ``WITH`` and ``SET``."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class PartitionValue(SqlNode):
    """``column = literal`` of ``PARTITION (...)``; the literal is missing where only a column is named."""

    column: Name
    value: SqlExpression | None = None


Partition = tuple[PartitionValue, ...]


class ObjectKind(Enum):
    """The objects that statements create, alter, drop and describe."""

    TABLE = "TABLE"
    MATERIALIZED_TABLE = "MATERIALIZED TABLE"
    VIEW = "VIEW"
    CATALOG = "CATALOG"
    DATABASE = "DATABASE"
    FUNCTION = "FUNCTION"
    MODEL = "MODEL"
    CONNECTION = "CONNECTION"


# --- columns and keys ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constraint(SqlNode):
    """``[CONSTRAINT name] PRIMARY KEY | UNIQUE (column, ...) [[NOT] ENFORCED]``.

    Attributes:
        enforced: None when not specified.
    """

    name: Name | None
    is_primary_key: bool
    columns: tuple[Name, ...]
    enforced: bool | None


@dataclass(frozen=True, slots=True)
class ColumnDefinition(SqlNode):
    """A column of ``CREATE TABLE`` and ``ALTER TABLE``; there is a class for each kind.

    Attributes:
        name: the name; several names are parsed as in Flink, and refused later.
    """

    name: Path


@dataclass(frozen=True, slots=True)
class PhysicalColumn(ColumnDefinition):
    """``name type [constraint] [COMMENT 'text']``."""

    type: TypeSpec
    constraint: Constraint | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataColumn(ColumnDefinition):
    """``name type METADATA [FROM 'key'] [VIRTUAL] [COMMENT 'text']``."""

    type: TypeSpec
    key: str | None = None
    is_virtual: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ComputedColumn(ColumnDefinition):
    """``name AS expression [COMMENT 'text']``."""

    expression: SqlExpression
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class NamedColumn(ColumnDefinition):
    """A name alone: the order of columns in ``CREATE TABLE t (b, a) AS ...``."""


@dataclass(frozen=True, slots=True)
class Watermark(SqlNode):
    """``WATERMARK FOR column AS expression``."""

    column: Path
    expression: SqlExpression


class DistributionKind(Enum):
    """The kinds of distribution of rows to buckets."""

    HASH = "HASH"
    RANGE = "RANGE"


@dataclass(frozen=True, slots=True)
class TableDistribution(SqlNode):
    """``BY [HASH | RANGE](column, ...) [INTO n BUCKETS]``, or ``INTO n BUCKETS``."""

    kind: DistributionKind | None
    columns: tuple[Name, ...]
    buckets: int | None


TableElement = ColumnDefinition | Constraint | Watermark


class LikeFeature(Enum):
    """The features of a table that ``LIKE`` includes or excludes."""

    ALL = "ALL"
    CONSTRAINTS = "CONSTRAINTS"
    DISTRIBUTION = "DISTRIBUTION"
    GENERATED = "GENERATED"
    METADATA = "METADATA"
    OPTIONS = "OPTIONS"
    PARTITIONS = "PARTITIONS"
    WATERMARKS = "WATERMARKS"


class MergingStrategy(Enum):
    """The ways in which ``LIKE`` treats a feature."""

    INCLUDING = "INCLUDING"
    EXCLUDING = "EXCLUDING"
    OVERWRITING = "OVERWRITING"


@dataclass(frozen=True, slots=True)
class LikeOption(SqlNode):
    """``INCLUDING | EXCLUDING | OVERWRITING feature``."""

    strategy: MergingStrategy
    feature: LikeFeature


@dataclass(frozen=True, slots=True)
class TableLike(SqlNode):
    """``LIKE table (option ...)``."""

    table: Path
    options: tuple[LikeOption, ...] = ()


# --- CREATE and DROP -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """``CREATE [OR REPLACE] [TEMPORARY] TABLE``, ``REPLACE TABLE``.

    Attributes:
        or_replace: whether it is ``CREATE OR REPLACE`` or ``REPLACE``.
        must_exist: whether it is ``REPLACE`` alone.
    """

    table: Path
    elements: tuple[TableElement, ...] = ()
    comment: str | None = None
    distribution: TableDistribution | None = None
    partitioned_by: tuple[Name, ...] = ()
    options: tuple[Option, ...] = ()
    like: TableLike | None = None
    query: QueryExpression | None = None
    is_temporary: bool = False
    if_not_exists: bool = False
    or_replace: bool = False
    must_exist: bool = False


class RefreshMode(Enum):
    """The refresh modes of a materialized table."""

    FULL = "FULL"
    CONTINUOUS = "CONTINUOUS"


class StartModeKind(Enum):
    """The position from which a materialized table starts to read."""

    FROM_BEGINNING = "FROM_BEGINNING"
    FROM_NOW = "FROM_NOW"
    FROM_TIMESTAMP = "FROM_TIMESTAMP"
    RESUME_OR_FROM_BEGINNING = "RESUME_OR_FROM_BEGINNING"
    RESUME_OR_FROM_NOW = "RESUME_OR_FROM_NOW"
    RESUME_OR_FROM_TIMESTAMP = "RESUME_OR_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True)
class StartModeClause(SqlNode):
    """``START_MODE = kind[(argument)]``: an interval before now, or a timestamp."""

    kind: StartModeKind
    argument: SqlExpression | None = None


@dataclass(frozen=True, slots=True)
class CreateMaterializedTable(Statement):
    """``CREATE [OR ALTER] MATERIALIZED TABLE``."""

    table: Path
    query: QueryExpression
    elements: tuple[TableElement, ...] = ()
    comment: str | None = None
    distribution: TableDistribution | None = None
    partitioned_by: tuple[Name, ...] = ()
    options: tuple[Option, ...] = ()
    freshness: SqlExpression | None = None
    refresh_mode: RefreshMode | None = None
    start_mode: StartModeClause | None = None
    or_alter: bool = False


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """``CREATE [OR REPLACE] [TEMPORARY] VIEW``."""

    view: Path
    query: QueryExpression
    columns: tuple[Name, ...] = ()
    comment: str | None = None
    is_temporary: bool = False
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateCatalog(Statement):
    """``CREATE CATALOG [IF NOT EXISTS] name [COMMENT 'text'] [WITH (...)]``."""

    catalog: Name
    comment: str | None = None
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    """``CREATE DATABASE [IF NOT EXISTS] name [COMMENT 'text'] [WITH (...)]``."""

    database: Path
    comment: str | None = None
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False


class FunctionLanguage(Enum):
    """The language that a function is written in."""

    JAVA = "JAVA"
    SCALA = "SCALA"
    SQL = "SQL"
    PYTHON = "PYTHON"


@dataclass(frozen=True, slots=True)
class CreateFunction(Statement):
    """``CREATE [TEMPORARY] [SYSTEM] FUNCTION name AS 'class' [LANGUAGE ...] [USING JAR 'path', ...] [WITH (...)]``."""

    function: Path
    class_name: str
    language: FunctionLanguage | None = None
    jars: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    is_temporary: bool = False
    is_system: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateModel(Statement):
    """``CREATE [TEMPORARY] MODEL name INPUT (...) OUTPUT (...) WITH (...) [AS query]``."""

    model: Path
    inputs: tuple[TableElement, ...] = ()
    outputs: tuple[TableElement, ...] = ()
    comment: str | None = None
    options: tuple[Option, ...] = ()
    query: QueryExpression | None = None
    is_temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateConnection(Statement):
    """``CREATE [TEMPORARY] [SYSTEM] CONNECTION name [COMMENT 'text'] WITH (...)``."""

    connection: Path
    comment: str | None = None
    options: tuple[Option, ...] = ()
    is_temporary: bool = False
    is_system: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """``DROP [TEMPORARY] [SYSTEM] kind [IF EXISTS] name [CASCADE | RESTRICT]``."""

    kind: ObjectKind
    path: Path
    if_exists: bool = False
    is_temporary: bool = False
    is_system: bool = False
    cascade: bool = False


# --- ALTER -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AlterAction(SqlNode):
    """A change by ``ALTER``."""


@dataclass(frozen=True, slots=True)
class RenameTo(AlterAction):
    """``RENAME TO name``."""

    to: Path


@dataclass(frozen=True, slots=True)
class RenameColumn(AlterAction):
    """``RENAME column TO name``."""

    column: Path
    to: Path


@dataclass(frozen=True, slots=True)
class SetOptions(AlterAction):
    """``SET ('key' = 'value', ...)``."""

    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class ResetOptions(AlterAction):
    """``RESET ('key', ...)``."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetComment(AlterAction):
    """``COMMENT 'text'``."""

    comment: str


@dataclass(frozen=True, slots=True)
class ColumnPlace(SqlNode):
    """``FIRST``, or ``AFTER column``; None is ``FIRST``."""

    after: Path | None


@dataclass(frozen=True, slots=True)
class SchemaChange(SqlNode):
    """An element of ``ADD`` or ``MODIFY``, with its place where it is a column."""

    element: TableElement | TableDistribution
    place: ColumnPlace | None = None


@dataclass(frozen=True, slots=True)
class ChangeSchema(AlterAction):
    """``ADD (...)`` or ``MODIFY (...)``: columns, a watermark, a key, a distribution."""

    is_add: bool
    changes: tuple[SchemaChange, ...]


@dataclass(frozen=True, slots=True)
class DropColumns(AlterAction):
    """``DROP column`` or ``DROP (column, ...)``."""

    columns: tuple[Path, ...]


class DroppedPart(Enum):
    """The parts of a table that are dropped without a name, since there is at most one."""

    PRIMARY_KEY = "PRIMARY KEY"
    DISTRIBUTION = "DISTRIBUTION"
    WATERMARK = "WATERMARK"


@dataclass(frozen=True, slots=True)
class DropPart(AlterAction):
    """``DROP PRIMARY KEY``, ``DROP WATERMARK``, ``DROP DISTRIBUTION``."""

    part: DroppedPart


@dataclass(frozen=True, slots=True)
class DropConstraint(AlterAction):
    """``DROP CONSTRAINT name``."""

    name: Name


@dataclass(frozen=True, slots=True)
class AddPartitions(AlterAction):
    """``ADD [IF NOT EXISTS] PARTITION (...) [WITH (...)] ...``; options stand beside the partition of their place."""

    partitions: tuple[Partition, ...]
    options: tuple[tuple[Option, ...], ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitions(AlterAction):
    """``DROP [IF EXISTS] PARTITION (...), ...``."""

    partitions: tuple[Partition, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetQuery(AlterAction):
    """``AS query``, of views and materialized tables."""

    query: QueryExpression


@dataclass(frozen=True, slots=True)
class SetFunction(AlterAction):
    """``AS 'class' [LANGUAGE ...]``."""

    class_name: str
    language: FunctionLanguage | None = None


@dataclass(frozen=True, slots=True)
class SetFreshness(AlterAction):
    """``SET FRESHNESS = INTERVAL ...``."""

    freshness: SqlExpression


@dataclass(frozen=True, slots=True)
class SetRefreshMode(AlterAction):
    """``SET REFRESH_MODE = ...``."""

    mode: RefreshMode


@dataclass(frozen=True, slots=True)
class Suspend(AlterAction):
    """``SUSPEND``."""


@dataclass(frozen=True, slots=True)
class Resume(AlterAction):
    """``RESUME [WITH (...)]``."""

    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Refresh(AlterAction):
    """``REFRESH [PARTITION (...)]``."""

    partition: Partition = ()


@dataclass(frozen=True, slots=True)
class Alter(Statement):
    """``ALTER kind [IF EXISTS] name action``."""

    kind: ObjectKind
    path: Path
    action: AlterAction
    if_exists: bool = False
    is_temporary: bool = False
    is_system: bool = False
