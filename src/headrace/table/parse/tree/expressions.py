"""Expressions, and the other arguments of functions."""

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from headrace.table.parse.tree.node import Name, Path, QueryExpression, SqlNode
from headrace.table.parse.tree.types import IntervalQualifier, TimeUnit, TypeSpec


@dataclass(frozen=True, slots=True)
class SqlExpression(SqlNode):
    """A node that is allowed where a value is expected."""


# --- names and literals ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identifier(SqlExpression):
    """A column, perhaps qualified: ``price``, ``t.price``, ``t.address.city``. The binder resolves the parts."""

    names: tuple[Name, ...]

    def __str__(self) -> str:
        return ".".join(name.text for name in self.names)


@dataclass(frozen=True, slots=True)
class Star(SqlExpression):
    """``*`` or ``t.*``: all columns."""

    qualifier: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class DynamicParameter(SqlExpression):
    """``?``, which Flink parses and then refuses."""


@dataclass(frozen=True, slots=True)
class IntegerLiteral(SqlExpression):
    """A whole number without a sign, of any size."""

    value: int


@dataclass(frozen=True, slots=True)
class DecimalLiteral(SqlExpression):
    """A number with a decimal point; trailing zeros count for its scale."""

    value: Decimal


@dataclass(frozen=True, slots=True)
class DoubleLiteral(SqlExpression):
    """A number with an exponent. The text is kept, since it may be converted to other types."""

    text: str

    @property
    def value(self) -> float:
        """The value as a ``DOUBLE``."""
        return float(self.text)


@dataclass(frozen=True, slots=True)
class StringLiteral(SqlExpression):
    """``'text'``, with escapes resolved and continuation lines joined."""

    value: str


@dataclass(frozen=True, slots=True)
class BinaryLiteral(SqlExpression):
    """``x'0aff'``."""

    value: bytes


@dataclass(frozen=True, slots=True)
class BooleanLiteral(SqlExpression):
    """``TRUE``, ``FALSE``, or ``UNKNOWN``, which is None."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class NullLiteral(SqlExpression):
    """``NULL``."""


class TemporalKind(Enum):
    """The kinds of literals of dates and times."""

    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP WITH LOCAL TIME ZONE"


@dataclass(frozen=True, slots=True)
class TemporalLiteral(SqlExpression):
    """``DATE '2024-02-29'``; the binder checks the text."""

    kind: TemporalKind
    text: str


@dataclass(frozen=True, slots=True)
class IntervalLiteral(SqlExpression):
    """``INTERVAL -'1 02' DAY TO HOUR``; the binder checks the text against the units."""

    text: str
    qualifier: IntervalQualifier
    is_negative: bool = False


@dataclass(frozen=True, slots=True)
class IntervalExpression(SqlExpression):
    """``INTERVAL n DAY`` and ``(t2 - t1) SECOND``: an amount of a unit that is computed."""

    operand: SqlExpression
    qualifier: IntervalQualifier
    is_negative: bool = False


# --- operators -------------------------------------------------------------------------------------------------------


class UnaryOperator(Enum):
    """Prefix operators."""

    NOT = "NOT"
    MINUS = "-"
    PLUS = "+"


class BinaryOperator(Enum):
    """Operators of two operands; the values are their texts."""

    EQUALS = "="
    NOT_EQUALS = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IS_DISTINCT_FROM = "IS DISTINCT FROM"
    IS_NOT_DISTINCT_FROM = "IS NOT DISTINCT FROM"
    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDE = "/"
    MODULO = "%"
    CONCAT = "||"
    OVERLAPS = "OVERLAPS"
    CONTAINS = "CONTAINS"
    PERIOD_EQUALS = "EQUALS"
    PRECEDES = "PRECEDES"
    SUCCEEDS = "SUCCEEDS"
    IMMEDIATELY_PRECEDES = "IMMEDIATELY PRECEDES"
    IMMEDIATELY_SUCCEEDS = "IMMEDIATELY SUCCEEDS"
    MEMBER_OF = "MEMBER OF"
    SUBMULTISET_OF = "SUBMULTISET OF"
    NOT_SUBMULTISET_OF = "NOT SUBMULTISET OF"
    MULTISET_UNION_ALL = "MULTISET UNION ALL"
    MULTISET_UNION_DISTINCT = "MULTISET UNION DISTINCT"
    MULTISET_INTERSECT_ALL = "MULTISET INTERSECT ALL"
    MULTISET_INTERSECT_DISTINCT = "MULTISET INTERSECT DISTINCT"
    MULTISET_EXCEPT_ALL = "MULTISET EXCEPT ALL"
    MULTISET_EXCEPT_DISTINCT = "MULTISET EXCEPT DISTINCT"


@dataclass(frozen=True, slots=True)
class Unary(SqlExpression):
    """An operator and its operand. The sign of a number is one too: ``-1`` is ``MINUS`` of ``1``."""

    operator: UnaryOperator
    operand: SqlExpression


@dataclass(frozen=True, slots=True)
class Binary(SqlExpression):
    """An operator between two operands; ``a - b - c`` is ``(a - b) - c``, which :meth:`chain` takes apart."""

    operator: BinaryOperator
    left: SqlExpression
    right: SqlExpression

    def chain(self) -> tuple[SqlExpression, list[tuple[BinaryOperator, SqlExpression]]]:
        """The first operand on the left side, and each operator with its right operand, in the order of the text."""
        rest: list[tuple[BinaryOperator, SqlExpression]] = []
        node: SqlExpression = self
        while isinstance(node, Binary):
            rest.append((node.operator, node.right))
            node = node.left
        return node, rest[::-1]


@dataclass(frozen=True, slots=True)
class Logical(SqlExpression):
    """Conditions joined by ``AND``, or by ``OR``; two or more, so that long filters are not deep."""

    is_and: bool
    operands: tuple[SqlExpression, ...]


class OperandTest(Enum):
    """The tests of ``IS``; the value is the text after it."""

    NULL = "NULL"
    TRUE = "TRUE"
    FALSE = "FALSE"
    UNKNOWN = "UNKNOWN"
    A_SET = "A SET"
    EMPTY = "EMPTY"
    JSON = "JSON"
    JSON_VALUE = "JSON VALUE"
    JSON_OBJECT = "JSON OBJECT"
    JSON_ARRAY = "JSON ARRAY"
    JSON_SCALAR = "JSON SCALAR"


@dataclass(frozen=True, slots=True)
class IsTest(SqlExpression):
    """``operand IS [NOT] test``."""

    operand: SqlExpression
    test: OperandTest
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(SqlExpression):
    """``operand [NOT] BETWEEN [SYMMETRIC] low AND high``."""

    operand: SqlExpression
    low: SqlExpression
    high: SqlExpression
    negated: bool = False
    symmetric: bool = False


class LikeKind(Enum):
    """The operators that compare with a pattern."""

    LIKE = "LIKE"
    ILIKE = "ILIKE"
    RLIKE = "RLIKE"
    SIMILAR_TO = "SIMILAR TO"


@dataclass(frozen=True, slots=True)
class Like(SqlExpression):
    """``operand [NOT] LIKE pattern [ESCAPE escape]``."""

    kind: LikeKind
    operand: SqlExpression
    pattern: SqlExpression
    escape: SqlExpression | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InList(SqlExpression):
    """``operand [NOT] IN (item, ...)``."""

    operand: SqlExpression
    items: tuple[SqlExpression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InQuery(SqlExpression):
    """``operand [NOT] IN (query)``."""

    operand: SqlExpression
    query: QueryExpression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Quantified(SqlExpression):
    """``operand < ALL (query)`` or ``operand = ANY (item, ...)``; ``SOME`` is ``ANY``.

    Attributes:
        query: what the operand is compared with; None when there are items.
    """

    operator: BinaryOperator
    operand: SqlExpression
    is_all: bool
    query: QueryExpression | None
    items: tuple[SqlExpression, ...] = ()


@dataclass(frozen=True, slots=True)
class Exists(SqlExpression):
    """``EXISTS (query)``, or ``UNIQUE (query)``."""

    query: QueryExpression
    is_unique: bool = False


@dataclass(frozen=True, slots=True)
class ScalarQuery(SqlExpression):
    """A query in parentheses where a value is expected."""

    query: QueryExpression


@dataclass(frozen=True, slots=True)
class ItemAccess(SqlExpression):
    """``operand[index]``: an element of an array, a value of a map, a field of a row."""

    operand: SqlExpression
    index: SqlExpression


@dataclass(frozen=True, slots=True)
class SqlFieldAccess(SqlExpression):
    """``operand.name`` of an operand that is not a plain name: ``f(x).name``, ``a[1].name``, ``(r).name``."""

    operand: SqlExpression
    name: Name


# --- special forms ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaseBranch(SqlNode):
    """``WHEN condition, ... THEN result``; several conditions only in a ``CASE`` with an operand."""

    conditions: tuple[SqlExpression, ...]
    result: SqlExpression


@dataclass(frozen=True, slots=True)
class CaseExpression(SqlExpression):
    """``CASE [operand] WHEN ... [ELSE otherwise] END``."""

    operand: SqlExpression | None
    branches: tuple[CaseBranch, ...]
    otherwise: SqlExpression | None


@dataclass(frozen=True, slots=True)
class CastExpression(SqlExpression):
    """``CAST(operand AS type)``, or ``TRY_CAST``."""

    operand: SqlExpression
    type: TypeSpec
    is_try: bool = False


class ConstructorKind(Enum):
    """The kinds of collections that constructors create."""

    ARRAY = "ARRAY"
    MAP = "MAP"
    MULTISET = "MULTISET"


@dataclass(frozen=True, slots=True)
class CollectionConstructor(SqlExpression):
    """``ARRAY[a, b]``, ``MAP[key, value, ...]``, ``MULTISET[a, b]``."""

    kind: ConstructorKind
    items: tuple[SqlExpression, ...]


@dataclass(frozen=True, slots=True)
class CollectionQuery(SqlExpression):
    """``ARRAY(query)``, ``MAP(query)``, ``MULTISET(query)``."""

    kind: ConstructorKind
    query: QueryExpression


@dataclass(frozen=True, slots=True)
class RowConstructor(SqlExpression):
    """``ROW(a, b)`` or ``(a, b)``."""

    items: tuple[SqlExpression, ...]
    has_word: bool = True


class TrimSide(Enum):
    """The ends of a text that are trimmed."""

    BOTH = "BOTH"
    LEADING = "LEADING"
    TRAILING = "TRAILING"


@dataclass(frozen=True, slots=True)
class Trim(SqlExpression):
    """``TRIM([BOTH | LEADING | TRAILING] [characters] FROM operand)``; without characters spaces are trimmed."""

    side: TrimSide
    characters: SqlExpression | None
    operand: SqlExpression


@dataclass(frozen=True, slots=True)
class UnitArgument(SqlExpression):
    """A unit as an argument: of ``EXTRACT``, ``FLOOR``, ``CEIL``, ``TIMESTAMPADD``, ``TIMESTAMPDIFF``.

    These are calls with the unit at its position in the text: ``EXTRACT(unit, operand)``, ``FLOOR(operand, unit)``.
    """

    unit: TimeUnit


# --- calls of functions ----------------------------------------------------------------------------------------------


class SetQuantifier(Enum):
    """``DISTINCT`` or ``ALL``."""

    DISTINCT = "DISTINCT"
    ALL = "ALL"


class NullTreatment(Enum):
    """The ways in which a function treats NULLs."""

    IGNORE = "IGNORE NULLS"
    RESPECT = "RESPECT NULLS"


@dataclass(frozen=True, slots=True)
class OrderItem(SqlNode):
    """``expression [ASC | DESC] [NULLS FIRST | NULLS LAST]``.

    Attributes:
        nulls_first: None when not specified.
    """

    expression: SqlExpression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class SqlCall(SqlExpression):
    """A call of a function, of any kind: scalar, aggregate, of a table, or of a window.

    Functions with keywords between the arguments are calls as well: ``SUBSTRING(a FROM b FOR c)``,
    ``OVERLAY(a PLACING b FROM c)``, ``POSITION(a IN b)``, ``EXTRACT(unit FROM a)``, with the arguments in the order of
    the text. Functions without parentheses, as ``CURRENT_TIMESTAMP``, are calls without arguments.

    Attributes:
        function: its name; a keyword is in upper case, and another name as written.
        arguments: values, or :class:`Star` of ``COUNT(*)``, named arguments, tables.
        order_by: the order of ``ARRAY_AGG(x ORDER BY y)``, or of ``WITHIN GROUP (ORDER BY y)``.
        is_within_group: whether the order is that of ``WITHIN GROUP``.
        filter: the condition of ``FILTER (WHERE condition)``.
        has_parentheses: whether it was written with them.
    """

    function: Path
    arguments: tuple[SqlExpression, ...] = ()
    quantifier: SetQuantifier | None = None
    null_treatment: NullTreatment | None = None
    order_by: tuple[OrderItem, ...] = ()
    is_within_group: bool = False
    filter: SqlExpression | None = None
    has_parentheses: bool = True

    @property
    def name(self) -> str:
        """The function's name in upper case, with dots if it has a path."""
        return str(self.function).upper()


class BoundKind(Enum):
    """An end of a frame."""

    UNBOUNDED_PRECEDING = "UNBOUNDED PRECEDING"
    PRECEDING = "PRECEDING"
    CURRENT_ROW = "CURRENT ROW"
    FOLLOWING = "FOLLOWING"
    UNBOUNDED_FOLLOWING = "UNBOUNDED FOLLOWING"


@dataclass(frozen=True, slots=True)
class WindowFrameBound(SqlNode):
    """An end of a frame, with the offset of ``n PRECEDING`` and ``n FOLLOWING``."""

    kind: BoundKind
    offset: SqlExpression | None = None


@dataclass(frozen=True, slots=True)
class WindowFrame(SqlNode):
    """``ROWS | RANGE BETWEEN low AND high``; the high end is the current row when only one is given."""

    is_rows: bool
    low: WindowFrameBound
    high: WindowFrameBound | None


@dataclass(frozen=True, slots=True)
class OverWindow(SqlNode):
    """``([name] [PARTITION BY ...] [ORDER BY ...] [frame] [ALLOW | DISALLOW PARTIAL])``."""

    base: Name | None
    partition_by: tuple[SqlExpression, ...]
    order_by: tuple[OrderItem, ...]
    frame: WindowFrame | None
    allow_partial: bool | None = None


@dataclass(frozen=True, slots=True)
class Over(SqlExpression):
    """``call OVER window``, where the window is inline or named in the ``WINDOW`` clause."""

    call: SqlCall
    window: Name | OverWindow


@dataclass(frozen=True, slots=True)
class MatchSemantics(SqlExpression):
    """``RUNNING call`` or ``FINAL call``, in ``MATCH_RECOGNIZE``."""

    is_final: bool
    call: SqlExpression


@dataclass(frozen=True, slots=True)
class NamedArgument(SqlExpression):
    """``name => value``."""

    name: Name
    value: SqlExpression


@dataclass(frozen=True, slots=True)
class DefaultArgument(SqlExpression):
    """``DEFAULT`` as an argument, or as a value of an inserted row."""


@dataclass(frozen=True, slots=True)
class Descriptor(SqlExpression):
    """``DESCRIPTOR(column, ...)``."""

    columns: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class TableArgument(SqlExpression):
    """``TABLE t [PARTITION BY ...] [ORDER BY ...]``, or a query in place of ``TABLE t``."""

    query: QueryExpression
    partition_by: tuple[Name, ...] = ()
    order_by: tuple[OrderItem, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelArgument(SqlExpression):
    """``MODEL m``."""

    model: Path
