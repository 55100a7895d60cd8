"""Scalars as text, in the three forms of Flink's plans.

The abstract syntax tree and the physical plan write ``>($2, 10)`` and ``>(price, 10)``, as Calcite does. The execution
plan writes ``(price > 10)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowType,
    TypeRoot,
)
from headrace.table.logical.match import PatternAggregate, PatternRef
from headrace.table.logical.scalars import (
    Call,
    Case,
    Cast,
    CorrelatedRef,
    FieldAccess,
    Frame,
    FrameBound,
    InputRef,
    Literal,
    OrderKey,
    OverCall,
    Scalar,
    Subquery,
    SubqueryKind,
)
from headrace.table.logical.schema import TimeAttribute

_SIMPLE_BINARY: Final = frozenset(
    ("+", "-", "*", "/", "=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
)
_INFIX: Final = _SIMPLE_BINARY - {"IS DISTINCT FROM", "IS NOT DISTINCT FROM"} | {
    "AND",
    "OR",
    "%",
    "SIMILAR TO",
    "||",
}
_POSTFIX: Final = frozenset(
    f"IS {negation}{what}" for negation in ("", "NOT ") for what in ("NULL", "TRUE", "FALSE", "UNKNOWN")
)
_UNTYPED: Final = (TypeRoot.BOOLEAN, TypeRoot.INTEGER)
_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_CHARSET: Final = ' CHARACTER SET "UTF-16LE"'

Names = Callable[[int], str]


class CalciteText:
    """Writes scalars as Calcite does.

    Args:
        name_of: the text of a column.
        relation: the text of the relation of a subquery.
    """

    def __init__(self, name_of: Names, relation: Callable[[Any], str] = str) -> None:
        self._name_of = name_of
        self._relation = relation

    def __call__(self, scalar: Scalar) -> str:
        return self._WRITERS[type(scalar)](self, scalar)

    def literal(self, literal: Literal, *, typed: bool | None = None) -> str:
        """A literal; ``typed`` is whether its type follows, and None leaves that to the literal."""
        text = literal_text(literal)
        if typed is None:
            typed = _shows_type(literal)
        return f"{text}:{calcite_type(literal.type)}" if typed else text

    def _call(self, call: Call) -> str:
        if call.function == "ROW" and not call.operands:
            return "ROW()"
        operands = [self._operand(call, index) for index in range(len(call.operands))]
        flags = [f"FLAG({value})" for _, value in call.options if isinstance(value, str) and value.isupper()]
        return f"{call.function}({', '.join([*flags, *operands])})"

    def _operand(self, call: Call, index: int) -> str:
        operand = call.operands[index]
        if not isinstance(operand, Literal):
            return self(operand)
        if call.function in ("AND", "OR"):
            return self.literal(operand, typed=False)
        if call.function in _SIMPLE_BINARY and len(call.operands) == 2:
            other = call.operands[1 - index]
            is_plain = not isinstance(other, Literal) or not _shows_type(other)
            if is_plain and operand.type.as_nullable() == other.type.as_nullable():
                return self.literal(operand, typed=False)
        return self.literal(operand)

    def _cast(self, cast: Cast) -> str:
        if cast.is_implicit:
            return self(cast.operand)
        name = "TRY_CAST" if cast.is_try else "CAST"
        return f"{name}({self(cast.operand)}):{calcite_type(cast.type, nullability=True)}"

    def _case(self, case: Case) -> str:
        parts = [text for branch in case.branches for text in (self(branch.condition), self(branch.result))]
        return f"CASE({', '.join([*parts, self(case.otherwise)])})"

    def _over(self, over: OverCall) -> str:
        return over_text(over, self)

    def _pattern_ref(self, ref: PatternRef) -> str:
        column = f"{ref.variable}.{self._name_of(ref.index)}"
        if ref.attribute is not None:
            bare = replace(ref, function="", attribute=None, time=ref.attribute)
            column = self(Cast(bare, type=ref.type))
        return f"{ref.function}({column}, {ref.offset})" if ref.function else column

    def _pattern_aggregate(self, aggregate: PatternAggregate) -> str:
        return f"{aggregate.function}({', '.join(map(self, aggregate.operands))})"

    def _subquery(self, subquery: Subquery) -> str:
        name = subquery.kind.value
        if subquery.kind in (SubqueryKind.SOME, SubqueryKind.ALL):
            name = f"{subquery.comparison} {name}"
        parts = [*map(self, subquery.operands), "{\n" + self._relation(subquery.relation) + "\n}"]
        return f"{name}({', '.join(parts)})"

    _WRITERS: ClassVar[dict[type[Scalar], Callable[[Any, Any], str]]] = {
        InputRef: lambda self, ref: self._name_of(ref.index),
        Literal: lambda self, literal: self.literal(literal),
        Call: _call,
        Cast: _cast,
        Case: _case,
        FieldAccess: lambda self, access: f"{self(access.operand)}.{access.name}",
        CorrelatedRef: lambda self, ref: f"{ref.correlation}.{ref.name}",
        OverCall: _over,
        Subquery: _subquery,
        PatternRef: _pattern_ref,
        PatternAggregate: _pattern_aggregate,
    }


def over_text(over: OverCall, text: Callable[[Scalar], str]) -> str:
    """``SUM($2) OVER (PARTITION BY $1 ORDER BY $3 NULLS FIRST)``."""
    operands = ", ".join(map(text, over.operands))
    parts = []
    if over.partition_by:
        parts.append(f"PARTITION BY {', '.join(map(text, over.partition_by))}")
    if over.order_by:
        parts.append(f"ORDER BY {', '.join(_order_key(key, text) for key in over.order_by)}")
    if frame := _frame(over, text):
        parts.append(frame)
    distinct = "DISTINCT " if over.is_distinct else ""
    return f"{over.function}({distinct}{operands}) OVER ({' '.join(parts)})"


def _order_key(key: OrderKey, text: Callable[[Scalar], str]) -> str:
    return f"{text(key.operand)}{' DESC' if key.descending else ''} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


_RANKS: Final = frozenset(("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "PERCENT_RANK", "CUME_DIST", "LAG", "LEAD"))


def _frame(over: OverCall, text: Callable[[Scalar], str]) -> str:
    if over.function in _RANKS:
        return ""
    frame: Frame = over.frame
    kind = "ROWS" if frame.is_rows else "RANGE"
    low, high = _bound(frame.low, text), _bound(frame.high, text)
    if not frame.is_rows and (low, high) == ("UNBOUNDED PRECEDING", "CURRENT ROW"):
        return ""
    return f"{kind} {low}" if high == "CURRENT ROW" else f"{kind} BETWEEN {low} AND {high}"


def _bound(bound: FrameBound, text: Callable[[Scalar], str]) -> str:
    return bound.kind.value if bound.offset is None else f"{text(bound.offset)} {bound.kind.value}"


def binary(scalar: Scalar) -> Scalar:
    """A scalar in which ``AND`` and ``OR`` have two operands."""

    def nested(node: Scalar) -> Scalar:
        if not isinstance(node, Call) or node.function not in ("AND", "OR"):
            return node
        made = node.operands[0]
        for operand in node.operands[1:]:
            made = replace(node, operands=(made, operand))
        return made

    return scalar.transform(nested)


def calcite_text(scalar: Scalar, names: Sequence[str]) -> str:
    """A scalar in the form of the physical plan: casts as ``CAST(x AS BIGINT)``."""
    return _PhysicalText(names.__getitem__)(scalar)


class _PhysicalText(CalciteText):
    def _cast(self, cast: Cast) -> str:
        return _cast_text(cast, self)

    _WRITERS = CalciteText._WRITERS | {Cast: _cast}


class _MeasureText(_PhysicalText):
    """The text of measures in the execution plan: in the form of the physical plan, but for literals."""

    def literal(self, literal: Literal, *, typed: bool | None = None) -> str:
        return _infix_literal(literal)


def infix_text(scalar: Scalar, names: Sequence[str]) -> str:
    """A scalar in the form of the execution plan."""
    if isinstance(scalar, Call) and scalar.function == "FINAL":
        return _MeasureText(names.__getitem__)(scalar)
    writer = _INFIX_WRITERS.get(type(scalar))
    if writer is None:
        return calcite_text(scalar, names)
    return writer(scalar, lambda each: infix_text(each, names))


Text = Callable[[Scalar], str]


def _infix_call(call: Call, text: Text) -> str:
    if call.function in _INFIX and len(call.operands) > 1:
        return f"({f' {call.function} '.join(map(text, call.operands))})"
    if call.function in _POSTFIX:
        return f"{text(call.operands[0])} {call.function}"
    return f"{call.function}({', '.join(map(text, call.operands))})"


def _infix_case(case: Case, text: Text) -> str:
    parts = (f" WHEN {text(each.condition)} THEN {text(each.result)}" for each in case.branches)
    return f"CASE{''.join(parts)} ELSE {text(case.otherwise)} END"


def _cast_text(cast: Cast, text: Text) -> str:
    if cast.is_implicit:
        return text(cast.operand)
    if cast.operand.time is TimeAttribute.PROCTIME:
        return f"PROCTIME_MATERIALIZE({text(cast.operand)})"
    return f"{'TRY_CAST' if cast.is_try else 'CAST'}({text(cast.operand)} AS {cast_type(cast.type)})"


_INFIX_WRITERS: Final[dict[type[Scalar], Callable[[Any, Text], str]]] = {
    Literal: lambda literal, _: _infix_literal(literal),
    Call: _infix_call,
    Case: _infix_case,
    Cast: _cast_text,
    PatternAggregate: lambda aggregate, text: f"{aggregate.function}({', '.join(map(text, aggregate.operands))})",
}


def _infix_literal(literal: Literal) -> str:
    text = literal_text(literal)
    if isinstance(literal.type, IntervalType):
        return f"{text}:{calcite_type(literal.type)}"
    return text.removeprefix("_UTF-16LE")


def _shows_type(literal: Literal) -> bool:
    kind = literal.type
    if kind.nullable or not isinstance(kind, AtomicType):
        return True
    if kind.root in _UNTYPED:
        return False
    if kind.root is TypeRoot.CHAR and isinstance(literal.value, str):
        return len(literal.value) != kind.size
    if kind.root is TypeRoot.DATE:
        return False
    return not (kind.root in (TypeRoot.TIME, TypeRoot.TIMESTAMP) and kind.size == 0)


def literal_text(literal: Literal) -> str:
    """A literal without its type."""
    value, kind = literal.value, literal.type
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "_UTF-16LE'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return _number_text(value, kind)


def _number_text(value: Any, kind: LogicalType) -> str:
    if isinstance(kind, IntervalType):
        return str(value if kind.unit.is_of_months else value // 1000)
    if isinstance(kind, AtomicType) and kind.root in _TEMPORAL:
        return _temporal_text(value, kind)
    if isinstance(kind, AtomicType) and kind.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return f"{float(value):.14E}".replace("E+0", "E").replace("E-0", "E-").replace("E+", "E") if value else "0.0E0"
    return str(value)


_TEMPORAL: Final = (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def _temporal_text(value: int, kind: AtomicType) -> str:
    from numpy import datetime64

    if kind.root is TypeRoot.DATE:
        return str(datetime64(value, "D"))
    moment = str(datetime64(value, "ns" if kind.has_nanoseconds else "us"))
    day, _, clock = moment.partition("T")
    seconds, _, fraction = clock.partition(".")
    fraction = fraction.rstrip("0")
    clock = f"{seconds}.{fraction}" if fraction else seconds
    return clock if kind.root is TypeRoot.TIME else f"{day} {clock}"


def calcite_type(kind: LogicalType, *, nullability: bool = False, time: TimeAttribute | None = None) -> str:
    """A type as Calcite writes it."""
    text = _type_text(kind)
    if time is not None:
        text += f" {time.value}"
    return f"{text} NOT NULL" if nullability and not kind.nullable else text


def _type_text(kind: LogicalType) -> str:
    return _TYPE_TEXTS[type(kind)](kind)


def _parts(kinds: Sequence[LogicalType]) -> list[str]:
    return [calcite_type(kind, nullability=True) for kind in kinds]


def _atomic_text(kind: AtomicType) -> str:
    if kind.root in _TEXTS:
        return f"{kind.root.value}({kind.size}){_CHARSET}"
    if kind.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return f"{kind.root.value}({kind.size})"
    return "INTEGER" if kind.root is TypeRoot.INTEGER else str(kind.as_nullable())


def _row_text(kind: RowType) -> str:
    fields = zip(_parts(kind.types), kind.names, strict=True)
    return f"RecordType({', '.join(f'{part} {name}' for part, name in fields)})"


_TYPE_TEXTS: Final[dict[type[LogicalType], Callable[[Any], str]]] = {
    AtomicType: _atomic_text,
    IntervalType: lambda kind: f"INTERVAL {kind.unit.name.replace('_', ' ')}",
    ArrayType: lambda kind: f"{_parts([kind.element])[0]} ARRAY",
    MultisetType: lambda kind: f"{_parts([kind.element])[0]} MULTISET",
    MapType: lambda kind: f"({', '.join(_parts([kind.key, kind.value]))}) MAP",
    RowType: _row_text,
    RawType: str,
}


def cast_type(kind: LogicalType) -> str:
    """A type in ``CAST(... AS ...)``."""
    return _type_text(kind).removesuffix(_CHARSET)


def record_type_text(names: Sequence[str], kinds: Sequence[LogicalType], times: Sequence[TimeAttribute | None]) -> str:
    """``RecordType(INTEGER id, ...)``: the columns of a relation."""
    fields = (
        f"{calcite_type(kind, time=time).removesuffix(_CHARSET)} {name}"
        for name, kind, time in zip(names, kinds, times, strict=True)
    )
    return f"RecordType({', '.join(fields)})"
