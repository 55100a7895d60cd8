"""Scalars, the nodes with a value for each row. Every node knows its type, and whether it is a time attribute."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.table.logical.node import LogicalNode, Part, transform, walk
from headrace.table.logical.schema import Field, Schema, TimeAttribute, type_text

if TYPE_CHECKING:
    from headrace.table.logical.relations import Relation

BOOLEAN: Final = AtomicType(TypeRoot.BOOLEAN)
"""The type of conditions, which may be unknown."""


@dataclass(frozen=True)
class Scalar(LogicalNode):
    """A node with a value for each row.

    Attributes:
        type: the type of the value.
        time: the kind of time attribute; None for another scalar.
    """

    type: LogicalType = field(kw_only=True)
    time: TimeAttribute | None = field(default=None, kw_only=True)

    @property
    def children(self) -> "tuple[Scalar, ...]":
        """The scalars that it is computed from, without the relation of a subquery."""
        return self.parts(Scalar)

    def walk(self) -> "Iterator[Scalar]":
        """The scalar and all scalars below it, each before its children."""
        return walk(self, Scalar)

    def transform(self, rule: "Callable[[Scalar], Scalar]") -> "Scalar":
        """The scalar in which the rule has replaced each node, the deepest ones first."""
        return transform(self, Scalar, rule)

    def as_field(self, name: str) -> Field:
        """The column that holds its values."""
        return Field(name, self.type, self.time)

    @property
    def type_text(self) -> str:
        """Its type as Flink shows it."""
        return type_text(self.type, self.time)


@dataclass(frozen=True)
class InputRef(Scalar):
    """A column of the input, by its index; a join's columns are those of its left input and then of its right one."""

    index: int

    @staticmethod
    def of(schema: Schema, index: int) -> "InputRef":
        """A reference to a column of a schema."""
        column = schema[index]
        return InputRef(index, type=column.type, time=column.time)

    @staticmethod
    def all_of(schema: Schema) -> "tuple[InputRef, ...]":
        """References to all columns of a schema."""
        return tuple(InputRef.of(schema, index) for index in range(len(schema)))


@dataclass(frozen=True)
class CorrelatedRef(Scalar):
    """A column of the row of an outer query.

    Attributes:
        correlation: the variable of the row (``$cor0``), defined by the node with the subquery, or by the
            :class:`~headrace.table.logical.relations.LogicalCorrelate`.
        index: the index of the column in that row.
        name: the column's name, for plans.
    """

    correlation: str
    index: int
    name: str


@dataclass(frozen=True)
class Literal(Scalar):
    """A constant.

    Attributes:
        value: as ``pyarrow.scalar(value, type.arrow_type)`` takes it: None, bool, int, float, Decimal, str or bytes.
            Dates, times, points in time and intervals are integers in the unit of the Arrow type: days, microseconds
            (nanoseconds beyond six digits), months.
    """

    value: Any


Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Call(Scalar):
    """A function or an operator of scalars.

    Attributes:
        function: its name in the table of functions, which is Calcite's name: ``+``, ``=``, ``AND``, ``IS NULL``,
            ``UPPER``, ``ITEM``.
        operands: the arguments, in the types of the function's signature: the binder has added casts.
        options: arguments that are not values, and are constant: the unit of ``EXTRACT``, the side of ``TRIM``, the
            clauses of ``JSON_VALUE``.
        at: its place in the text of the statement, for messages, as far as it is known.
    """

    function: str
    operands: tuple[Scalar, ...]
    options: Options = ()
    at: str = field(default="", kw_only=True, compare=False, repr=False)

    def option(self, name: str, default: Any = None) -> Any:
        """The value of an option."""
        return next((value for key, value in self.options if key == name), default)


@dataclass(frozen=True)
class Cast(Scalar):
    """``CAST(operand AS type)``, or ``TRY_CAST`` with ``is_try``.

    Attributes:
        is_implicit: whether the binder has added it, for a kernel's operand types. Plans do not show it.
        at: its place in the text of the statement, for messages, as far as it is known.
    """

    operand: Scalar
    is_try: bool = False
    is_implicit: bool = False
    at: str = field(default="", kw_only=True, compare=False, repr=False)


@dataclass(frozen=True)
class Branch(Part):
    """``WHEN condition THEN result``."""

    condition: Scalar
    result: Scalar


@dataclass(frozen=True)
class Case(Scalar):
    """``CASE``: the result of the first branch whose condition is true. All results are of the type of the node."""

    branches: tuple[Branch, ...]
    otherwise: Scalar


@dataclass(frozen=True)
class FieldAccess(Scalar):
    """A field of a row, by its index."""

    operand: Scalar
    index: int
    name: str


class SubqueryKind(Enum):
    """The kinds of subqueries."""

    SCALAR = "$SCALAR_QUERY"
    EXISTS = "EXISTS"
    IN = "IN"
    SOME = "SOME"
    ALL = "ALL"
    UNIQUE = "UNIQUE"
    ARRAY = "$ARRAY_QUERY"
    MAP = "$MAP_QUERY"
    MULTISET = "$MULTISET_QUERY"


@dataclass(frozen=True)
class Subquery(Scalar):
    """A query inside an expression.

    Attributes:
        kind: scalar, ``EXISTS``, ``IN``, or a quantified comparison.
        relation: the query; it refers to the outer row by :class:`CorrelatedRef`.
        operands: the left operands of ``IN`` and of comparisons.
        comparison: the operator of ``SOME`` and ``ALL``: ``<``.
    """

    kind: SubqueryKind
    relation: "Relation"
    operands: tuple[Scalar, ...] = ()
    comparison: str | None = None


@dataclass(frozen=True)
class SortKey(Part):
    """A sort key that is a column, with the position of NULLs."""

    index: int
    descending: bool = False
    nulls_first: bool = True

    def moved(self, places: Mapping[int, int]) -> "SortKey":
        """The sort key over moved columns, given new indices by old ones."""
        return replace(self, index=places[self.index])


class FrameBoundKind(Enum):
    """An end of a frame."""

    UNBOUNDED_PRECEDING = "UNBOUNDED PRECEDING"
    PRECEDING = "PRECEDING"
    CURRENT_ROW = "CURRENT ROW"
    FOLLOWING = "FOLLOWING"
    UNBOUNDED_FOLLOWING = "UNBOUNDED FOLLOWING"


@dataclass(frozen=True)
class FrameBound(Part):
    """An end of a frame, with the offset of ``n PRECEDING`` and ``n FOLLOWING``."""

    kind: FrameBoundKind
    offset: Scalar | None = None


@dataclass(frozen=True)
class Frame(Part):
    """``ROWS | RANGE BETWEEN low AND high``."""

    is_rows: bool
    low: FrameBound
    high: FrameBound


@dataclass(frozen=True)
class OrderKey(Part):
    """A sort key that is a scalar, with the position of NULLs."""

    operand: Scalar
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class OverCall(Scalar):
    """``function(...) OVER (...)`` from the binder.

    A rule turns a projection with such calls into the relation
    :class:`~headrace.table.logical.relations.LogicalOverAggregate`.

    Attributes:
        at: its place in the text of the statement, for messages, as far as it is known.
    """

    function: str
    operands: tuple[Scalar, ...]
    partition_by: tuple[Scalar, ...]
    order_by: tuple[OrderKey, ...]
    frame: Frame
    is_distinct: bool = False
    ignores_nulls: bool = False
    options: Options = ()
    at: str = field(default="", kw_only=True, compare=False, repr=False)


@dataclass(frozen=True)
class AggregateCall(Part):
    """A call of an aggregate function, over columns of the aggregate's input.

    Attributes:
        function: its name in the table of functions.
        operands: indices of columns of the input.
        filter: the index of a boolean column; only rows in which it is true are counted.
        order_by: the order of ``ARRAY_AGG`` and ``LISTAGG``.
        options: as of :class:`Call`: the clause ``ON NULL`` of ``JSON_OBJECTAGG``.
        name: the name of the result's column, where the query has one.
    """

    function: str
    operands: tuple[int, ...]
    type: LogicalType
    time: TimeAttribute | None = None
    is_distinct: bool = False
    filter: int | None = None
    order_by: tuple[SortKey, ...] = ()
    options: Options = ()
    name: str | None = None

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that it reads, with repetitions."""
        chosen = () if self.filter is None else (self.filter,)
        return (*self.operands, *chosen, *(key.index for key in self.order_by))

    def moved(self, places: Mapping[int, int]) -> "AggregateCall":
        """The call over moved columns, given new indices by old ones."""
        return replace(
            self,
            operands=tuple(places[index] for index in self.operands),
            filter=None if self.filter is None else places[self.filter],
            order_by=tuple(key.moved(places) for key in self.order_by),
        )


def input_refs(scalar: Scalar) -> Iterator[int]:
    """The indices of the columns that a scalar reads, with repetitions."""
    return (node.index for node in scalar.walk() if isinstance(node, InputRef))


def substituted(scalar: Scalar, columns: Sequence[Scalar]) -> Scalar:
    """The scalar with column references replaced by the scalars that compute the columns."""
    return scalar.transform(lambda node: columns[node.index] if isinstance(node, InputRef) else node)


def moved(scalar: Scalar, places: Mapping[int, int]) -> Scalar:
    """The scalar over moved columns, given new indices by old ones."""
    return scalar.transform(
        lambda node: replace(node, index=places[node.index]) if isinstance(node, InputRef) else node
    )


def conjuncts(condition: Scalar) -> list[Scalar]:
    """The conditions that ``AND`` joins, however they are nested, from left to right."""
    if isinstance(condition, Call) and condition.function == "AND":
        return [each for operand in condition.operands for each in conjuncts(operand)]
    return [condition]


def all_of(conditions: Sequence[Scalar]) -> Scalar:
    """The conjunction of one or more conditions; nested ``AND`` are flattened."""
    parts = tuple(part for condition in conditions for part in conjuncts(condition))
    if len(parts) == 1:
        return parts[0]
    nullable = any(part.type.nullable for part in parts)
    return Call("AND", parts, type=BOOLEAN if nullable else BOOLEAN.not_null())
