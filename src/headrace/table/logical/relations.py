"""Relations, the nodes that produce rows. Every node knows its schema.

Those that share their name with a physical node have the names of Calcite: ``LogicalJoin``, ``LogicalAggregate``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Final

from headrace.common.logical_types import LogicalType, string
from headrace.common.types import RowKind
from headrace.operators.expectations import OnViolation
from headrace.operators.join.results import JoinType
from headrace.table.connectors.table_sink import Staging
from headrace.table.logical.node import NOT_IN_PLANS, LogicalNode, Part, transform, walk
from headrace.table.logical.scalars import (
    AggregateCall,
    Frame,
    InputRef,
    Literal,
    Options,
    Scalar,
    SortKey,
)
from headrace.table.logical.schema import Field, Schema, TimeAttribute
from headrace.table.logical.watermarks import PLAIN_WATERMARKS, WatermarkOptions

TablePath = tuple[str, str, str]
"""Catalog, database and name of a table."""


ALIAS: Final = "ALIAS"
"""The hint that tells the name of a table in a query with hints."""


@dataclass(frozen=True)
class Hint(Part):
    """A hint of a query, as ``STATE_TTL('t' = '1d')`` or ``BROADCAST(t)``."""

    name: str
    options: tuple[tuple[str, str], ...] = ()
    items: tuple[str, ...] = ()


@dataclass(frozen=True)
class Relation(LogicalNode):
    """A node that produces rows."""

    @property
    def schema(self) -> Schema:
        """Its columns."""
        raise NotImplementedError

    @property
    def inputs(self) -> "tuple[Relation, ...]":
        """The relations that it reads, without those of subqueries in its scalars."""
        return self.parts(Relation)

    def walk(self) -> "Iterator[Relation]":
        """The relation and all relations below it, each before its inputs."""
        return walk(self, Relation)

    def transform(self, rule: "Callable[[Relation], Relation]") -> "Relation":
        """The relation in which the rule has replaced each node, the deepest ones first."""
        return transform(self, Relation, rule)

    def column(self, index: int) -> InputRef:
        """A reference to one of its columns."""
        return InputRef.of(self.schema, index)


# --- leaves -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MetadataRead(Part):
    """A metadata column of a scan: its index, the connector's key, and the type in which it is read."""

    index: int
    key: str


@dataclass(frozen=True)
class Expectation(Part):
    """An expectation about each row that a table gives or takes.

    Attributes:
        name: its name.
        condition: a condition over the columns of the table that are stored.
        on_violation: what becomes of a row that violates it.
    """

    name: str
    condition: Scalar
    on_violation: OnViolation


@dataclass(frozen=True)
class Scan(Relation):
    """The rows of a table from its connector: the physical columns, and then metadata.

    Computed columns and watermarks are a :class:`Project` and a :class:`LogicalWatermarkAssigner` above it.

    Attributes:
        columns: its columns.
        options: those of the table, overridden by an ``OPTIONS`` hint.
        primary_key: indices of columns; empty without one.
        metadata: the metadata columns.
        partition_keys: the columns that partition the table.
        inline: the source of the rows of a table without a connector: a stream, a DataFrame.
        is_projected: whether the table has columns that are not read.
        declared: all columns of the table where some are not read; else None.
        partitions: the values of partition columns, of the partitions to read; None for all.
        filters: conditions, of which the connector may use some to read fewer rows.
        limit: how many rows are enough; None for all.
        expectations: what is expected of each row.
    """

    path: TablePath
    columns: Schema
    options: Options = ()
    primary_key: tuple[int, ...] = ()
    metadata: tuple[MetadataRead, ...] = ()
    partition_keys: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()
    inline: Any = None
    is_projected: bool = False
    partitions: tuple[tuple[str | None, ...], ...] | None = None
    filters: tuple[Scalar, ...] = ()
    limit: int | None = None
    expectations: tuple[Expectation, ...] = ()
    declared: Schema | None = None

    @property
    def schema(self) -> Schema:
        return self.columns

    def without_alias(self) -> "Scan":
        """The scan without the hint of its name, which plans alone show."""
        return replace(self, hints=tuple(hint for hint in self.hints if hint.name != ALIAS))


@dataclass(frozen=True)
class Values(Relation):
    """Constant rows, or none."""

    rows: tuple[tuple[Literal, ...], ...]
    columns: Schema

    @property
    def schema(self) -> Schema:
        return self.columns


# --- one input -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogicalWatermarkAssigner(Relation):
    """Makes a column the rowtime attribute, with the watermark that an expression computes for each row."""

    input: Relation
    rowtime: int
    watermark: Scalar
    options: WatermarkOptions = PLAIN_WATERMARKS

    @cached_property
    def schema(self) -> Schema:
        fields = list(self.input.schema)
        column = fields[self.rowtime]
        fields[self.rowtime] = Field(column.name, column.type, TimeAttribute.ROWTIME)
        return Schema(tuple(fields))


@dataclass(frozen=True)
class Project(Relation):
    """Scalars of each row. Names are those of results, and may repeat.

    Attributes:
        is_of_table: whether it computes the computed columns of a table, and so belongs to the table.
        correlation: the name by which subqueries in the expressions refer to the row; None when they do not.
    """

    input: Relation
    expressions: tuple[Scalar, ...]
    names: tuple[str, ...]
    hints: tuple[Hint, ...] = ()
    is_of_table: bool = False
    correlation: str | None = None

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple(map(Scalar.as_field, self.expressions, self.names)))


@dataclass(frozen=True)
class Filter(Relation):
    """The rows for which a condition is true.

    Attributes:
        correlation: the name by which subqueries in the condition refer to the row; None when they do not.
    """

    input: Relation
    condition: Scalar
    correlation: str | None = None

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class LogicalAggregate(Relation):
    """Aggregates of groups of rows with equal values in columns.

    Attributes:
        group: indices of the grouping columns, each once; they come first in the result.
        calls: the aggregates, which follow.
        names: the names of all columns of the result.
        grouping_sets: subsets of ``group``; the only one is ``group`` itself when there is no ``GROUPING SETS``.
    """

    input: Relation
    group: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    grouping_sets: tuple[tuple[int, ...], ...]
    hints: tuple[Hint, ...] = ()

    @property
    def is_simple(self) -> bool:
        """Return whether there is only one grouping set."""
        return self.grouping_sets == (self.group,)

    @cached_property
    def schema(self) -> Schema:
        columns = [self.input.schema[index] for index in self.group]
        columns = [
            column if all(index in keys for keys in self.grouping_sets) else column.as_nullable()
            for index, column in zip(self.group, columns, strict=True)
        ]
        types = [*columns, *(Field("", call.type, call.time) for call in self.calls)]
        return Schema(tuple(types)).renamed(self.names)


@dataclass(frozen=True)
class LogicalSort(Relation):
    """Rows in an order, or the first of them; without sort keys it is ``LIMIT`` alone.

    Attributes:
        offset: the number of rows to skip.
        limit: the maximum number of rows; None for all.
        at: the place of the order in the statement, for messages, as far as it is known.
    """

    input: Relation
    keys: tuple[SortKey, ...]
    offset: int = 0
    limit: int | None = None
    at: str = field(default="", kw_only=True, compare=False, repr=False)

    @property
    def schema(self) -> Schema:
        return self.input.schema


class WindowKind(Enum):
    """The window table-valued functions."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True)
class LogicalWindowTableFunction(Relation):
    """``TUMBLE``, ``HOP``, ``CUMULATE``, ``SESSION``: rows with their windows, in three columns appended.

    Attributes:
        time_column: the index of the time attribute.
        size: of the window, in milliseconds; the largest one of ``CUMULATE``; the gap of ``SESSION``.
        step: the slide of ``HOP``, the step of ``CUMULATE``.
        offset: from the epoch, in milliseconds.
        partition_by: indices of the columns that partition sessions.
        window_columns: ``window_start``, ``window_end`` and ``window_time``.
        intervals: the sizes as written, for plans.
    """

    input: Relation
    kind: WindowKind
    time_column: int
    size: int
    step: int | None = None
    offset: int = 0
    partition_by: tuple[int, ...] = ()
    window_columns: tuple[Field, ...] = ()
    intervals: tuple[Literal, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.input.schema.fields + self.window_columns)


@dataclass(frozen=True)
class OverFunction(Part):
    """A function over the rows of a frame; operands are indices of columns of the input."""

    function: str
    operands: tuple[int, ...]
    type: LogicalType
    is_distinct: bool = False
    ignores_nulls: bool = False
    options: Options = ()


@dataclass(frozen=True)
class LogicalOverAggregate(Relation):
    """Functions over one window of rows, in columns appended to those of the input.

    Attributes:
        shows_all: whether plans show it over all columns of its input.
        at: the place of the first call in the statement, for messages, as far as it is known.
    """

    input: Relation
    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    frame: Frame
    calls: tuple[OverFunction, ...]
    names: tuple[str, ...]
    shows_all: bool = False
    at: str = field(default="", kw_only=True, compare=False, repr=False)

    @cached_property
    def schema(self) -> Schema:
        added = tuple(Field(name, call.type) for name, call in zip(self.names, self.calls, strict=True))
        return Schema(self.input.schema.fields + added)


@dataclass(frozen=True)
class Unnest(Relation):
    """The elements of collections as rows: those of arrays and multisets, keys and values of maps, fields of rows.

    Attributes:
        operands: collections, which are scalars of the outer row, of a :class:`LogicalCorrelate`, or constants.
        columns: its columns, with that of ``WITH ORDINALITY`` at the end.
    """

    operands: tuple[Scalar, ...]
    columns: Schema
    with_ordinality: bool = False

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class TableFunctionScan(Relation):
    """``TABLE(f(...))``: the rows of a table function.

    Attributes:
        operands: scalars of the outer row, of a :class:`LogicalCorrelate`, or constants.
        function: its name, or the path of a user-defined one.
    """

    function: str
    operands: tuple[Scalar, ...]
    columns: Schema
    options: Options = ()

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class Snapshot(Relation):
    """The versions of a table's rows at a time of the outer row: ``FOR SYSTEM_TIME AS OF``."""

    input: Relation
    period: Scalar

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Sample(Relation):
    """``TABLESAMPLE``: a random sample of the rows, by row (``BERNOULLI``) or by block (``SYSTEM``).

    Attributes:
        percentage: how many of a hundred rows, as a text.
        seed: of ``REPEATABLE``.
    """

    input: Relation
    is_bernoulli: bool
    percentage: str
    seed: int | None = None

    @property
    def schema(self) -> Schema:
        return self.input.schema


KindCodes = tuple[tuple[RowKind, str], ...]
"""Kinds of changes, with their texts."""


@dataclass(frozen=True)
class LogicalToChangelog(Relation):
    """``TO_CHANGELOG``: every change as an inserted row, with its kind as text in the first column.

    Attributes:
        codes: the kinds that are kept, and their texts; empty for all of them by their names.
    """

    input: Relation
    kind_column: str = "op"
    codes: KindCodes = ()

    @cached_property
    def schema(self) -> Schema:
        return Schema((Field(self.kind_column, string()), *map(Field.without_clock, self.input.schema)))


@dataclass(frozen=True)
class LogicalFromChangelog(Relation):
    """``FROM_CHANGELOG``: inserted rows as changes of the kinds in a column.

    Attributes:
        kind_column: the index of that column, which is not in the result.
        codes: the kinds, and the texts that stand for them; empty for their names.
    """

    input: Relation
    kind_column: int
    codes: KindCodes = ()

    @cached_property
    def schema(self) -> Schema:
        fields = [field for at, field in enumerate(self.input.schema) if at != self.kind_column]
        return Schema(tuple(fields))


# --- several inputs --------------------------------------------------------------------------------------------------


def joined_schema(left: Schema, right: Schema, kind: JoinType) -> Schema:
    """The columns of a join."""
    if kind in (JoinType.SEMI, JoinType.ANTI):
        return left
    lefts = tuple(map(Field.as_nullable, left)) if kind.left_is_optional else left.fields
    rights = tuple(map(Field.as_nullable, right)) if kind.right_is_optional else right.fields
    return Schema(lefts + rights)


@dataclass(frozen=True)
class LogicalJoin(Relation):
    """Pairs of rows for which a condition is true.

    Attributes:
        hints: hints such as ``BROADCAST``, which name the input they apply to.
        state_ttl: the time to live of the state of each input, from the hint ``STATE_TTL``.
        correlation: the name by which subqueries in the condition refer to a pair; None where none does.
        aliases: the names of both inputs, by which hints refer to them; None for an input without one.
    """

    left: Relation
    right: Relation
    kind: JoinType
    condition: Scalar
    hints: tuple[Hint, ...] = ()
    state_ttl: tuple[str | None, str | None] = (None, None)
    correlation: str | None = None
    aliases: tuple[str | None, str | None] = (None, None)

    @property
    def sides_of_hints(self) -> tuple[tuple[str, str], ...]:
        """The names of hints on how to join, and for each the side that it names first: ``LEFT`` or ``RIGHT``."""
        found = []
        for hint in self.hints:
            side = next((self.aliases.index(each) for each in hint.items if each in self.aliases), None)
            found += [] if side is None else [(hint.name, ("LEFT", "RIGHT")[side])]
        return tuple(found)

    @cached_property
    def schema(self) -> Schema:
        return joined_schema(self.left.schema, self.right.schema, self.kind)


@dataclass(frozen=True)
class LogicalCorrelate(Relation):
    """A join in which the right relation is computed for each row of the left one.

    Attributes:
        correlation: the name by which the right relation refers to the left row.
        required: the columns of the left row that it reads.
        kind: inner, or left.
    """

    left: Relation
    right: Relation
    correlation: str
    kind: JoinType
    required: tuple[int, ...] = ()
    hints: tuple[Hint, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        return joined_schema(self.left.schema, self.right.schema, self.kind)


class SetOperator(Enum):
    """The kinds of set operations."""

    UNION = "Union"
    INTERSECT = "Intersect"
    EXCEPT = "Minus"


@dataclass(frozen=True)
class SetOperation(Relation):
    """``UNION``, ``INTERSECT``, ``EXCEPT`` of two or more inputs with equally many columns."""

    operator: SetOperator
    arms: tuple[Relation, ...]
    is_all: bool
    columns: Schema

    @property
    def schema(self) -> Schema:
        return self.columns


# --- what takes the rows ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sink(Relation):
    """``INSERT INTO``: the rows, in the columns of a table.

    Attributes:
        input: rows with the table's persisted columns, in order and of their types: the binder has put a projection
            with casts, NULLs for columns that are not named, and values of static partitions.
        columns: the persisted columns of the table, physical ones and metadata that can be written.
        metadata: the metadata columns among them.
        targets: the indices of columns that the statement names; empty for all.
        static_partition: columns of the partition with their values as texts.
        on_conflict: ``NOTHING``, ``ERROR`` or ``DEDUPLICATE``.
        expectations: what is expected of each row.
        staging: set where no row may be seen before all are there, if the connector can do so.
        is_projected: whether the binder has put that projection.
        at: the place of the table in the statement, for messages, as far as it is known.
    """

    input: Relation
    path: TablePath
    columns: Schema
    options: Options = ()
    primary_key: tuple[int, ...] = ()
    metadata: tuple[MetadataRead, ...] = ()
    partition_keys: tuple[str, ...] = ()
    targets: tuple[int, ...] = ()
    static_partition: tuple[tuple[str, str], ...] = ()
    is_overwrite: bool = False
    on_conflict: str | None = None
    hints: tuple[Hint, ...] = ()
    inline: Any = field(default=None, compare=False)
    expectations: tuple[Expectation, ...] = ()
    staging: Staging | None = None
    at: str = field(default="", kw_only=True, compare=False, repr=False, metadata=NOT_IN_PLANS)
    is_projected: bool = False

    @property
    def schema(self) -> Schema:
        return self.columns
