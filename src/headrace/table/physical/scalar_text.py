"""Scalars as text, in the three forms of Flink's plans.

The abstract syntax tree and the physical plan write ``>($2, 10)`` and ``>(price, 10)``, as Calcite does. The execution
plan writes ``(price > 10)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar, Final

from headrace.common.logical_types import (
    AtomicType,
    IntervalType,
    LogicalType,
    TypeRoot,
)
from headrace.table.functions.types import CHARACTERS, INT, is_in, least_restrictive
from headrace.table.logical.match import ALL_ROWS, CLASSIFIER, PatternAggregate, PatternRef
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
from headrace.table.physical.literal_text import calcite_type, cast_type, json_arguments, literal_text
from headrace.table.rules.searches import Range, Search, simplified

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
_OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_ORDERED: Final = frozenset(("<", "<=", ">", ">="))
_POSTFIX: Final = frozenset(
    f"IS {negation}{what}" for negation in ("", "NOT ") for what in ("NULL", "TRUE", "FALSE", "UNKNOWN")
)
_UNTYPED: Final = (TypeRoot.BOOLEAN, TypeRoot.INTEGER)

_EXACT: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_NO_PARENTHESES: Final = frozenset(
    ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "PI")
)

Names = Callable[[int], str]


class CalciteText:
    """Writes scalars as Calcite does, in the abstract syntax tree.

    Args:
        name_of: the text of a column.
        relation: the text of the relation of a subquery.
    """

    is_physical: ClassVar[bool] = False
    shows_flags: ClassVar[bool] = True
    shows_null_tests: ClassVar[bool] = True

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
        if call.function == "NULLIF":
            first, second = (self._operand(call, index) for index in range(2))
            return f"CASE(=({first}, {second}), null:{calcite_type(call.type)}, {first})"
        if not self.is_physical and call.function in _NO_PARENTHESES:
            return call.function
        call = _with_null_tests(call) if self.shows_null_tests else call
        operands = [self._operand(call, index) for index in range(len(call.operands))]
        if call.function == "COALESCE":
            pairs = zip(call.operands, operands, strict=True)
            operands = [text if is_in(each.type, CHARACTERS) else self._converted(each) for each, text in pairs]
        if (unit := _unit_of(call)) is not None:
            return _with_unit(call, operands, f"FLAG({unit})" if self.shows_flags else unit)
        if (of_json := json_arguments(call, operands, self._flag)) is not None:
            return f"{call.function}({', '.join(of_json)})"
        flags = list(map(self._flag, _flags_of(call)))
        return f"{call.function}({', '.join([*flags, *operands])})"

    def _flag(self, flag: str) -> str:
        return f"FLAG({flag})" if self.shows_flags else flag

    def _operand(self, call: Call, index: int) -> str:
        operand = call.operands[index]
        if _is_null(operand) and call.function in _SIMPLE_BINARY and not self.is_physical:
            return "null"
        if not isinstance(operand, Literal):
            return self(operand)
        if call.function in ("AND", "OR"):
            return self.literal(operand, typed=operand.value is None)
        if call.function in _SIMPLE_BINARY and len(call.operands) == 2:
            other = call.operands[1 - index]
            is_plain = not isinstance(other, Literal) or not _shows_type(other)
            if is_plain and operand.type.as_nullable() == other.type.as_nullable():
                return self.literal(operand, typed=False)
        is_text = isinstance(operand.value, str) and call.function not in _INFIX
        return self.literal(operand, typed=False if is_text else None)

    def _cast(self, cast: Cast) -> str:
        if cast.is_implicit:
            return self(cast.operand)
        if isinstance(cast.operand, Literal) and cast.operand.value is None:
            return f"null:{calcite_type(cast.type)}"
        if cast.is_try:
            return f"TRY_CAST({self(cast.operand)})"
        return f"CAST({self(cast.operand)}):{calcite_type(cast.type, nullability=True)}"

    def _case(self, case: Case) -> str:
        parts = [text for branch in case.branches for text in (self(branch.condition), self._converted(branch.result))]
        return f"CASE({', '.join([*parts, self._converted(case.otherwise)])})"

    def _converted(self, scalar: Scalar) -> str:
        """A result of ``CASE`` or ``COALESCE``, with its conversion to the type of all results."""
        if not isinstance(scalar, Cast) or not scalar.is_implicit:
            return self(scalar)
        if isinstance(scalar.operand, Literal):
            return self.literal(replace(scalar.operand, type=scalar.type), typed=None)
        return self(replace(scalar, is_implicit=False, type=scalar.type))

    def _over(self, over: OverCall) -> str:
        if over.function not in ("SUM", "AVG"):
            return over_text(over, self)
        count = over_text(replace(over, function="COUNT"), self)
        kind = over.type.as_nullable()
        total = over_text(replace(over, function="$SUM0"), self)
        if over.function == "SUM":
            return f"CASE(>({count}, 0), {total}, null:{calcite_type(kind)})"
        operand = over.operands[0].type.as_nullable()
        is_decimal = isinstance(operand, AtomicType) and operand.root is TypeRoot.DECIMAL
        of_sum = replace(operand, size=38) if is_decimal and isinstance(operand, AtomicType) else operand
        case = f"CASE(>({count}, 0), {total}, null:{calcite_type(of_sum)})"
        if is_decimal:
            return f"/(CAST({case}):{calcite_type(kind)}, {count})"
        average = f"/({case}, {count})"
        is_exact = isinstance(operand, AtomicType) and operand.root in _EXACT
        return f"CAST({average}):{calcite_type(kind)}" if is_exact else average

    def _pattern_ref(self, ref: PatternRef) -> str:
        if ref.physical:
            word = "PREV" if ref.physical < 0 else "NEXT"
            return f"{word}({self(replace(ref, physical=0))}, {abs(ref.physical)})"
        if ref.is_final:
            return f"FINAL({self(replace(ref, is_final=False))})"
        if ref.index == CLASSIFIER:
            column = "CLASSIFIER()" if ref.variable == ALL_ROWS else f"CLASSIFIER({ref.variable})"
            return f"{ref.function}({column}, {ref.offset})" if ref.function else column
        column = f"{ref.variable}.{self._name_of(ref.index)}"
        if ref.attribute is not None:
            bare = replace(ref, function="", attribute=None, time=ref.attribute)
            column = self(Cast(bare, type=ref.type))
        return f"{ref.function}({column}, {ref.offset})" if ref.function else column

    def _search(self, search: Search) -> str:
        return search_text(search, self)

    def _pattern_aggregate(self, aggregate: PatternAggregate) -> str:
        shown = f"{aggregate.function}({', '.join(map(self, aggregate.operands))})"
        return f"FINAL({shown})" if aggregate.is_final else shown

    def _subquery(self, subquery: Subquery) -> str:
        name, comparison, is_all = subquery.kind.value, subquery.comparison, subquery.kind is SubqueryKind.ALL
        if is_all or subquery.kind is SubqueryKind.SOME:  # a comparison with all is the opposite of one with some
            comparison = _OPPOSITE.get(comparison or "=", "=") if is_all else comparison
            name = "IN" if comparison == "=" else f"{comparison} SOME"
        parts = [*map(self, subquery.operands), "{\n" + self._relation(subquery.relation) + "\n}"]
        return f"NOT({name}({', '.join(parts)}))" if is_all else f"{name}({', '.join(parts)})"

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
        Search: _search,
    }


def _is_null(scalar: Scalar) -> bool:
    operand = scalar.operand if isinstance(scalar, Cast) else scalar
    return isinstance(operand, Literal) and operand.value is None


_OF_NULLS: Final = frozenset(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"))


def _with_null_tests(call: Call) -> Call:
    """A comparison in which NULL equals NULL, by an equality and tests for NULL; others as they are."""
    if call.function not in _OF_NULLS:
        return call
    is_same = call.function == "IS NOT DISTINCT FROM"
    test, of_both = ("IS NULL", "AND") if is_same else ("IS NOT NULL", "OR")
    given = tuple(each.operand if isinstance(each, Cast) and each.is_implicit else each for each in call.operands)
    tests = tuple(Call(test, (each,), type=call.type) for each in given)
    equal = Call("IS TRUE" if is_same else "IS NOT TRUE", (Call("=", given, type=call.type),), type=call.type)
    return Call("OR" if is_same else "AND", (Call(of_both, tests, type=call.type), equal), type=call.type)


_PARTS: Final = {
    **{name: name for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")},
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
}
"""The units of functions that are ``EXTRACT`` in plans."""


def _flags_of(call: Call) -> list[str]:
    """The keywords among the arguments of a call."""
    values = [getattr(value, "value", value) for _, value in call.options]
    return [value for value in values if isinstance(value, str) and value.isupper()]


def _unit_of(call: Call) -> str | None:
    """The unit of ``EXTRACT``, ``FLOOR`` and ``CEIL``."""
    if call.function in _PARTS:
        return _PARTS[call.function]
    unit = dict(call.options).get("unit") if call.function in ("EXTRACT", "FLOOR", "CEIL") else None
    return None if unit is None else str(getattr(unit, "value", unit))


def _with_unit(call: Call, operands: list[str], unit: str) -> str:
    if call.function in ("FLOOR", "CEIL"):
        return f"{call.function}({', '.join([*operands, unit])})"
    return f"EXTRACT({', '.join([unit, *operands])})"


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
    if not over.order_by and not frame.is_rows and (low, high) == ("UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING"):
        return ""
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
    return _PhysicalText(names.__getitem__)(_as_written(scalar))


def batch_text(scalar: Scalar, names: Sequence[str]) -> str:
    """A scalar in the form of the physical plan of batch mode: without the types of constants."""
    return _BatchText(names.__getitem__)(_as_written(scalar))


def execution_text(scalar: Scalar, names: Sequence[str]) -> str:
    """A scalar in the form of the execution plan."""
    return _executed(_as_written(scalar), names)


def _as_written(scalar: Scalar) -> Scalar:
    """A scalar in the form that plans show."""
    return simplified(scalar.transform(_with_numbers_as_written))


def _with_numbers_as_written(scalar: Scalar) -> Scalar:
    """A comparison with a floating-point constant, with the integer or the decimal that was converted to it."""
    if not isinstance(scalar, Call) or scalar.function not in _OPPOSITE:
        return scalar
    is_ordered = scalar.function in _ORDERED
    operands: list[Scalar] = []
    for each in scalar.operands:
        if isinstance(each, Literal) and isinstance(each.value, float):
            written = _number_as_written(each)
            operands.append(written if is_ordered else replace(each, value=written.value))
        else:
            operands.append(each)
    return replace(scalar, operands=tuple(operands))


def _executed(scalar: Scalar, names: Sequence[str]) -> str:
    if isinstance(scalar, Call) and scalar.function == "FINAL":
        return _MeasureText(names.__getitem__)(scalar)
    writer = _EXECUTION_WRITERS.get(type(scalar))
    if writer is None:
        return calcite_text(scalar, names)
    return writer(scalar, lambda each: _executed(each, names))


class JoinedText(CalciteText):
    """Writes conditions of joins, which keep ``IS NOT DISTINCT FROM``."""

    shows_null_tests = False


class _PhysicalText(CalciteText):
    is_physical = True
    shows_null_tests = False

    def _cast(self, cast: Cast) -> str:
        return _cast_text(cast, self, with_charset=True)

    def _operand(self, call: Call, index: int) -> str:
        operand = call.operands[index]
        if (
            call.function in ("GREATEST", "LEAST")
            and isinstance(operand, Literal)
            and isinstance(operand.value, Decimal)
        ):
            return self.literal(replace(operand, type=_type_as_written(operand)), typed=None)
        if len(call.operands) == 2 and isinstance(operand, Literal) and operand.value is not None:
            kind = call.operands[1 - index].type
            is_number = not isinstance(operand.value, str) and kind.nullable
            if call.function in ("=", "<>") and _shows_type(replace(operand, type=kind.not_null())):
                if is_number or _is_varchar(kind):
                    return self.literal(replace(operand, type=kind), typed=True)
            elif call.function in _ORDERED and isinstance(operand.value, Decimal):
                return self.literal(replace(operand, type=_type_as_written(operand)), typed=None)
        return super()._operand(call, index)

    _WRITERS = CalciteText._WRITERS | {Cast: _cast}


class _BatchText(_PhysicalText):
    shows_flags = False

    def literal(self, literal: Literal, *, typed: bool | None = None) -> str:
        text = literal_text(literal)
        if literal.value is None:
            return f"{text}:{cast_type(literal.type)}"
        return _infix_literal(literal)

    def _cast(self, cast: Cast) -> str:
        return _cast_text(cast, self)

    def _search(self, search: Search) -> str:
        return search_text(search, self, with_types=False)

    _WRITERS = _PhysicalText._WRITERS | {Cast: _cast, Search: _search}


def search_text(search: Search, text: Callable[[Scalar], str], *, with_types: bool = True) -> str:
    """``SEARCH(id, Sarg[1, (5..10)])``."""
    ends = [end.literal for each in search.ranges for end in (each.low, each.high) if end.literal is not None]
    kind, shows_each = _search_type(search, ends) if with_types else (None, False)

    def shown(literal: Literal) -> str:
        long = "L" if shows_each and kind is not None and kind.root is TypeRoot.BIGINT else ""
        return f"{literal_text(literal)}{long}:{calcite_type(kind)}" if shows_each and kind else literal_text(literal)

    ranges = ", ".join(_range_text(each, shown) for each in search.ranges)
    null = "" if search.null_as is None else f"; NULL AS {str(search.null_as).upper()}"
    suffix = "" if kind is None else f":{calcite_type(kind)}"
    return f"SEARCH({text(search.operand)}, Sarg[{ranges}{null}]{suffix})"


def _search_type(search: Search, ends: Sequence[Literal]) -> tuple[AtomicType | None, bool]:
    """The type that follows the ranges, and whether it follows each value, too."""
    texts = [each.value for each in ends if isinstance(each.value, str)]
    if texts:
        size = max(map(len, texts))
        is_char = all(len(each) == size for each in texts)
        return AtomicType(TypeRoot.CHAR if is_char else TypeRoot.VARCHAR, size), not is_char
    kind, of_literal = search.operand.type.as_nullable(), ends[0].type.as_nullable()
    if isinstance(kind, AtomicType) and kind.root is TypeRoot.DECIMAL:
        written = (_type_as_written(each) if isinstance(each.value, Decimal) else each.type for each in ends)
        shown = kind if search.is_of_points else least_restrictive([each.as_nullable() for each in written])
        return (shown, True) if isinstance(shown, AtomicType) and shown.root is TypeRoot.DECIMAL else (None, False)
    if not isinstance(of_literal, AtomicType) or of_literal.root is not TypeRoot.BIGINT:
        return None, False
    return (of_literal, True) if all(each.is_point for each in search.ranges) else (None, False)


def _range_text(found: Range, shown: Callable[[Literal], str]) -> str:
    low, high = found.low.literal, found.high.literal
    if found.is_point:
        assert low is not None
        return shown(low)
    left = "(-∞" if low is None else f"{'(' if found.low.side else '['}{shown(low)}"
    right = "+∞)" if high is None else f"{shown(high)}{')' if found.high.side else ']'}"
    return f"{left}..{right}"


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


def _cast_text(cast: Cast, text: Text, *, with_charset: bool = False) -> str:
    if cast.is_implicit:
        return text(cast.operand)
    shown = text(cast.operand)
    if cast.operand.time is TimeAttribute.PROCTIME:
        shown = f"PROCTIME_MATERIALIZE({shown})"
        if cast.type.as_nullable() == cast.operand.type.as_nullable():
            return shown
    return f"{'TRY_CAST' if cast.is_try else 'CAST'}({shown} AS {_cast_target(cast.type, with_charset)})"


def _cast_target(kind: LogicalType, with_charset: bool) -> str:
    return calcite_type(kind, nullability=True) if with_charset else cast_type(kind)


_INFIX_WRITERS: Final[dict[type[Scalar], Callable[[Any, Text], str]]] = {
    Literal: lambda literal, _: _infix_literal(literal),
    Call: _infix_call,
    Case: _infix_case,
    Cast: _cast_text,
    PatternAggregate: lambda aggregate, text: f"{aggregate.function}({', '.join(map(text, aggregate.operands))})",
    Search: lambda search, text: search_text(search, text, with_types=False),
}


def _executed_call(call: Call, text: Text) -> str:
    if call.function == "NULLIF":
        first, second = map(text, call.operands)
        return f"CASE(({first} = {second}), null:{calcite_type(call.type)}, {first})"
    if (unit := _unit_of(call)) is not None:
        return _with_unit(call, list(map(text, call.operands)), unit)
    if (of_json := json_arguments(call, list(map(text, call.operands)), str)) is not None:
        return f"{call.function}({', '.join(of_json)})"
    flags = _flags_of(call)
    if flags or call.function in ("||", "SIMILAR TO"):
        return f"{call.function}({', '.join([*flags, *map(text, call.operands)])})"
    return _infix_call(call, text)


def _executed_case(case: Case, text: Text) -> str:
    parts = [part for each in case.branches for part in (text(each.condition), text(_as_explicit(each.result)))]
    return f"CASE({', '.join([*parts, text(_as_explicit(case.otherwise))])})"


def _as_explicit(result: Scalar) -> Scalar:
    """A result with its conversion to the type of all results, but for constants."""
    is_shown = isinstance(result, Cast) and result.is_implicit and not isinstance(result.operand, Literal)
    return replace(result, is_implicit=False) if isinstance(result, Cast) and is_shown else result


def _executed_literal(literal: Literal) -> str:
    return f"null:{cast_type(literal.type)}" if literal.value is None else _infix_literal(literal)


_EXECUTION_WRITERS: Final = _INFIX_WRITERS | {
    Case: _executed_case,
    Call: _executed_call,
    Literal: lambda literal, _: _executed_literal(literal),
}


def _infix_literal(literal: Literal) -> str:
    text = literal_text(literal)
    if isinstance(literal.type, IntervalType):
        return f"{text}:{calcite_type(literal.type)}"
    return text.removeprefix("_UTF-16LE")


def _number_as_written(literal: Literal) -> Literal:
    """A floating-point constant as the integer or the decimal that was converted to it."""
    value = Decimal(repr(literal.value))
    if not value.is_finite():
        return literal
    if value == value.to_integral_value():
        return Literal(int(value), type=INT.not_null())
    made = replace(literal, value=value.normalize())
    return replace(made, type=_type_as_written(made))


def _type_as_written(literal: Literal) -> LogicalType:
    """The type of a decimal constant by its digits."""
    _, digits, exponent = literal.value.as_tuple()
    if exponent >= 0:
        return INT.not_null()
    whole = max(len(digits) + exponent, 1)  # the digit before the point counts, though it is 0
    return AtomicType(TypeRoot.DECIMAL, whole - exponent, -exponent, nullable=False)


def _is_varchar(kind: LogicalType) -> bool:
    return isinstance(kind, AtomicType) and kind.root is TypeRoot.VARCHAR


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
