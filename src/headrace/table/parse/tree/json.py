"""The functions of JSON, which have clauses of their own."""

from dataclasses import dataclass
from enum import Enum

from headrace.table.parse.tree.expressions import OrderItem, SqlExpression
from headrace.table.parse.tree.node import SqlNode
from headrace.table.parse.tree.types import TypeSpec


class JsonBehaviorKind(Enum):
    """The results of a JSON function ``ON EMPTY`` and ``ON ERROR``."""

    ERROR = "ERROR"
    NULL = "NULL"
    DEFAULT = "DEFAULT"
    EMPTY_ARRAY = "EMPTY ARRAY"
    EMPTY_OBJECT = "EMPTY OBJECT"
    TRUE = "TRUE"
    FALSE = "FALSE"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class JsonBehavior(SqlNode):
    """``NULL | ERROR | DEFAULT value | ...`` of the clauses ``ON EMPTY`` and ``ON ERROR``."""

    kind: JsonBehaviorKind
    default: SqlExpression | None = None


class JsonWrapper(Enum):
    """The ways in which ``JSON_QUERY`` wraps its result in an array."""

    WITHOUT = "WITHOUT ARRAY WRAPPER"
    CONDITIONAL = "WITH CONDITIONAL ARRAY WRAPPER"
    UNCONDITIONAL = "WITH UNCONDITIONAL ARRAY WRAPPER"


class JsonFunction(Enum):
    """The functions that read JSON by a path."""

    EXISTS = "JSON_EXISTS"
    VALUE = "JSON_VALUE"
    QUERY = "JSON_QUERY"


@dataclass(frozen=True, slots=True)
class JsonPathCall(SqlExpression):
    """``JSON_VALUE(operand, path [RETURNING type] [wrapper] [... ON EMPTY] [... ON ERROR])``, and its siblings."""

    function: JsonFunction
    operand: SqlExpression
    path: SqlExpression
    returning: TypeSpec | None = None
    wrapper: JsonWrapper | None = None
    on_empty: JsonBehavior | None = None
    on_error: JsonBehavior | None = None


@dataclass(frozen=True, slots=True)
class JsonFormatted(SqlExpression):
    """``operand FORMAT JSON``: a text that is JSON already."""

    operand: SqlExpression


@dataclass(frozen=True, slots=True)
class JsonEntry(SqlNode):
    """``[KEY] key VALUE value``, or ``key : value``."""

    key: SqlExpression
    value: SqlExpression


@dataclass(frozen=True, slots=True)
class JsonObject(SqlExpression):
    """``JSON_OBJECT(KEY k VALUE v, ... [NULL | ABSENT ON NULL])``, or ``JSON_OBJECTAGG`` with one entry.

    Attributes:
        absent_on_null: None when not specified.
    """

    entries: tuple[JsonEntry, ...]
    absent_on_null: bool | None = None
    is_aggregate: bool = False


@dataclass(frozen=True, slots=True)
class JsonArray(SqlExpression):
    """``JSON_ARRAY(a, ... [NULL | ABSENT ON NULL])``, or ``JSON_ARRAYAGG(a [ORDER BY ...] ...)`` with one item."""

    items: tuple[SqlExpression, ...]
    absent_on_null: bool | None = None
    is_aggregate: bool = False
    order_by: tuple[OrderItem, ...] = ()
