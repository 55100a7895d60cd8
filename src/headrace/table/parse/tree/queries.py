"""Queries and the relations that they read from."""

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from headrace.table.parse.tree.expressions import (
    IntervalLiteral,
    OrderItem,
    OverWindow,
    SetQuantifier,
    SqlCall,
    SqlExpression,
)
from headrace.table.parse.tree.node import Name, Path, QueryExpression, SqlNode


@dataclass(frozen=True, slots=True)
class SqlHint(SqlNode):
    """``name('key'='value', ...)`` or ``name(item, ...)`` between ``/*+`` and ``*/``.

    Attributes:
        options: keys and values.
        items: names, texts and numbers, as texts; a hint has these or options.
    """

    name: Name
    options: tuple[tuple[str, str], ...] = ()
    items: tuple[str, ...] = ()


# --- SELECT ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SelectItem(SqlNode):
    """``expression [AS alias]``."""

    expression: SqlExpression
    alias: Name | None = None


class GroupingKind(Enum):
    """The kinds of grouping elements with several grouping sets."""

    SETS = "GROUPING SETS"
    ROLLUP = "ROLLUP"
    CUBE = "CUBE"


@dataclass(frozen=True, slots=True)
class GroupingElements(SqlNode):
    """``GROUPING SETS (...)``, ``ROLLUP (...)`` or ``CUBE (...)``; a set of several columns is a row of them."""

    kind: GroupingKind
    elements: "tuple[GroupingElement, ...]"


@dataclass(frozen=True, slots=True)
class EmptyGrouping(SqlNode):
    """``()``: all rows are one group."""


GroupingElement = SqlExpression | GroupingElements | EmptyGrouping


@dataclass(frozen=True, slots=True)
class GroupBy(SqlNode):
    """``GROUP BY [DISTINCT | ALL] element, ...``."""

    elements: tuple[GroupingElement, ...]
    quantifier: SetQuantifier | None = None


@dataclass(frozen=True, slots=True)
class NamedWindow(SqlNode):
    """``name AS (...)`` of the ``WINDOW`` clause."""

    name: Name
    window: OverWindow


@dataclass(frozen=True, slots=True)
class SelectQuery(QueryExpression):
    """``SELECT``, up to ``QUALIFY``."""

    items: tuple[SelectItem, ...]
    relation: "SqlRelation | None" = None
    where: SqlExpression | None = None
    group_by: GroupBy | None = None
    having: SqlExpression | None = None
    windows: tuple[NamedWindow, ...] = ()
    qualify: SqlExpression | None = None
    quantifier: SetQuantifier | None = None
    hints: tuple[SqlHint, ...] = ()


@dataclass(frozen=True, slots=True)
class ValuesQuery(QueryExpression):
    """``VALUES row, ...``; a row without parentheses has one column."""

    rows: tuple[tuple[SqlExpression, ...], ...]


@dataclass(frozen=True, slots=True)
class TableQuery(QueryExpression):
    """``TABLE t``: all rows of a table."""

    table: Path


class SqlSetOperator(Enum):
    """The set operators."""

    UNION = "UNION"
    INTERSECT = "INTERSECT"
    EXCEPT = "EXCEPT"


@dataclass(frozen=True, slots=True)
class SqlSetOperation(QueryExpression):
    """``left UNION | INTERSECT | EXCEPT [ALL] right``; ``INTERSECT`` binds tightest. Chains are deep on the left."""

    operator: SqlSetOperator
    left: QueryExpression
    right: QueryExpression
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class WithItem(SqlNode):
    """``name [(column, ...)] AS (query)``."""

    name: Name
    columns: tuple[Name, ...]
    query: QueryExpression


@dataclass(frozen=True, slots=True)
class WithQuery(QueryExpression):
    """``WITH [RECURSIVE] item, ... body``."""

    items: tuple[WithItem, ...]
    body: QueryExpression
    is_recursive: bool = False


@dataclass(frozen=True, slots=True)
class OrderedQuery(QueryExpression):
    """``body [ORDER BY ...] [LIMIT | FETCH] [OFFSET]``.

    Attributes:
        limit: a number or a parameter; None for all rows.
        offset: the number of rows to skip.
    """

    body: QueryExpression
    order_by: tuple[OrderItem, ...] = ()
    limit: SqlExpression | None = None
    offset: SqlExpression | None = None


# --- FROM ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SqlRelation(SqlNode):
    """An item of ``FROM``."""


@dataclass(frozen=True, slots=True)
class TableReference(SqlRelation):
    """A table, a view, or a name of ``WITH``."""

    table: Path
    hints: tuple[SqlHint, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedTable(SqlRelation):
    """``[LATERAL] (query)``."""

    query: QueryExpression
    is_lateral: bool = False


@dataclass(frozen=True, slots=True)
class TableFunctionCall(SqlRelation):
    """``[LATERAL] TABLE(call)``, or a call in place of a table."""

    call: SqlCall
    is_lateral: bool = False


@dataclass(frozen=True, slots=True)
class UnnestRelation(SqlRelation):
    """``UNNEST(collection, ...) [WITH ORDINALITY]``, where a collection may be a query in parentheses."""

    operands: tuple[SqlExpression, ...]
    with_ordinality: bool = False


@dataclass(frozen=True, slots=True)
class AliasedRelation(SqlRelation):
    """``relation [AS] alias [(column, ...)]``."""

    relation: SqlRelation
    alias: Name
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotRelation(SqlRelation):
    """``relation FOR SYSTEM_TIME AS OF time``."""

    relation: SqlRelation
    time: SqlExpression


@dataclass(frozen=True, slots=True)
class TableSample(SqlRelation):
    """``relation TABLESAMPLE BERNOULLI | SYSTEM (percentage) [REPEATABLE (seed)]``."""

    relation: SqlRelation
    is_bernoulli: bool
    percentage: Decimal
    seed: int | None = None


class SqlJoinKind(Enum):
    """The kinds of joins; a comma is one."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    CROSS = "CROSS"
    COMMA = ","


@dataclass(frozen=True, slots=True)
class JoinRelation(SqlRelation):
    """``left [NATURAL] kind JOIN right [ON condition | USING (column, ...)]``."""

    kind: SqlJoinKind
    left: SqlRelation
    right: SqlRelation
    condition: SqlExpression | None = None
    using: tuple[Name, ...] = ()
    is_natural: bool = False


@dataclass(frozen=True, slots=True)
class PivotAggregate(SqlNode):
    """``call [AS alias]`` of ``PIVOT``."""

    call: SqlExpression
    alias: Name | None = None


@dataclass(frozen=True, slots=True)
class PivotValue(SqlNode):
    """``(value, ...) [AS alias]`` of ``PIVOT``."""

    values: tuple[SqlExpression, ...]
    alias: Name | None = None


@dataclass(frozen=True, slots=True)
class Pivot(SqlRelation):
    """``relation PIVOT (aggregate, ... FOR axis IN (value, ...))``."""

    relation: SqlRelation
    aggregates: tuple[PivotAggregate, ...]
    axes: tuple[Name, ...]
    values: tuple[PivotValue, ...]


@dataclass(frozen=True, slots=True)
class UnpivotValue(SqlNode):
    """``(column, ...) [AS (value, ...)]`` of ``UNPIVOT``."""

    columns: tuple[Name, ...]
    values: tuple[SqlExpression, ...] = ()


@dataclass(frozen=True, slots=True)
class Unpivot(SqlRelation):
    """``relation UNPIVOT [INCLUDE | EXCLUDE NULLS] (measure FOR axis IN (value, ...))``."""

    relation: SqlRelation
    measures: tuple[Name, ...]
    axes: tuple[Name, ...]
    values: tuple[UnpivotValue, ...]
    include_nulls: bool = False


# --- MATCH_RECOGNIZE -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowPattern(SqlNode):
    """A part of ``PATTERN``."""


@dataclass(frozen=True, slots=True)
class PatternVariable(RowPattern):
    """A variable, which matches one row."""

    name: Name


@dataclass(frozen=True, slots=True)
class PatternSequence(RowPattern):
    """A concatenation of parts."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class PatternAlternatives(RowPattern):
    """``a | b``."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class PatternPermutation(RowPattern):
    """``PERMUTE(a, b)``."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class RowPatternExclusion(RowPattern):
    """``{- a -}``: matched rows that are not in the output."""

    part: RowPattern


@dataclass(frozen=True, slots=True)
class PatternRepetition(RowPattern):
    """``a*``, ``a+``, ``a?``, ``a{n,m}``, and their reluctant forms with ``?``.

    Attributes:
        least: None when it is left out, as in ``a{,m}``.
        most: None when there is no limit.
    """

    part: RowPattern
    least: int | None
    most: int | None
    is_reluctant: bool = False


class AfterMatch(Enum):
    """The row from which the search for the next match starts."""

    NEXT_ROW = "TO NEXT ROW"
    PAST_LAST_ROW = "PAST LAST ROW"
    FIRST = "TO FIRST"
    LAST = "TO LAST"


class RowsPerMatch(Enum):
    """The rows that ``ALL ROWS PER MATCH`` has besides those of matches; beyond Flink's grammar."""

    SHOW_EMPTY = "SHOW EMPTY MATCHES"
    OMIT_EMPTY = "OMIT EMPTY MATCHES"
    WITH_UNMATCHED = "WITH UNMATCHED ROWS"


@dataclass(frozen=True, slots=True)
class MatchMeasure(SqlNode):
    """``expression AS alias`` of ``MEASURES``."""

    expression: SqlExpression
    alias: Name


@dataclass(frozen=True, slots=True)
class MatchSubset(SqlNode):
    """``name = (variable, ...)`` of ``SUBSET``."""

    name: Name
    variables: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class MatchDefinition(SqlNode):
    """``variable AS condition`` of ``DEFINE``."""

    variable: Name
    condition: SqlExpression


@dataclass(frozen=True, slots=True)
class MatchRecognize(SqlRelation):
    """``relation MATCH_RECOGNIZE (...)``.

    Attributes:
        all_rows: whether it is ``ALL ROWS PER MATCH``; None when not specified.
        all_rows_option: what follows ``ALL ROWS PER MATCH``; None when nothing does.
        after_match: None when not specified, which is ``TO NEXT ROW`` in Flink.
        after_variable: the variable of ``TO FIRST`` and ``TO LAST``.
        at_begin: whether the pattern began with ``^``.
        at_end: whether it ended with ``$``.
    """

    relation: SqlRelation
    partition_by: tuple[SqlExpression, ...]
    order_by: tuple[OrderItem, ...]
    measures: tuple[MatchMeasure, ...]
    all_rows: bool | None
    all_rows_option: RowsPerMatch | None
    after_match: AfterMatch | None
    after_variable: Name | None
    pattern: RowPattern
    at_begin: bool
    at_end: bool
    within: IntervalLiteral | None
    subsets: tuple[MatchSubset, ...]
    definitions: tuple[MatchDefinition, ...]
