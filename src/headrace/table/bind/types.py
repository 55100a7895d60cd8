"""Binding of data types to logical types, and of literals to their values in the units of the Arrow types."""

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from headrace.common.errors import InvalidTypeError
from headrace.common.logical_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    IntervalType,
    IntervalUnit,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowType,
    StructuredType,
    TypeRoot,
)
from headrace.table.bind.errors import SqlPlanError, invalid
from headrace.table.functions.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, char, decimal, with_nullability
from headrace.table.logical.scalars import Literal
from headrace.table.parse.dialects import type_advice
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.expressions import (
    BinaryLiteral,
    BooleanLiteral,
    DecimalLiteral,
    DoubleLiteral,
    IntegerLiteral,
    IntervalLiteral,
    NullLiteral,
    SqlExpression,
    StringLiteral,
    TemporalKind,
    TemporalLiteral,
)
from headrace.table.parse.tree.types import (
    AtomicTypeSpec,
    CollectionTypeSpec,
    IntervalQualifier,
    IntervalTypeSpec,
    MapTypeSpec,
    NamedTypeSpec,
    RawTypeSpec,
    RowTypeSpec,
    TimeUnit,
    TypeSpec,
    TypeWord,
)

_ROOTS: Final = {word: TypeRoot(word.value) for word in TypeWord if word.value in {root.value for root in TypeRoot}}
_UNBOUNDED: Final = {TypeWord.STRING: TypeRoot.VARCHAR, TypeWord.BYTES: TypeRoot.VARBINARY}

_UNITS: Final = {
    (TimeUnit.YEAR, None): IntervalUnit.YEAR,
    (TimeUnit.YEAR, TimeUnit.MONTH): IntervalUnit.YEAR_TO_MONTH,
    (TimeUnit.MONTH, None): IntervalUnit.MONTH,
    (TimeUnit.QUARTER, None): IntervalUnit.MONTH,
    (TimeUnit.WEEK, None): IntervalUnit.DAY,
    (TimeUnit.DAY, None): IntervalUnit.DAY,
    (TimeUnit.DAY, TimeUnit.HOUR): IntervalUnit.DAY_TO_HOUR,
    (TimeUnit.DAY, TimeUnit.MINUTE): IntervalUnit.DAY_TO_MINUTE,
    (TimeUnit.DAY, TimeUnit.SECOND): IntervalUnit.DAY_TO_SECOND,
    (TimeUnit.HOUR, None): IntervalUnit.HOUR,
    (TimeUnit.HOUR, TimeUnit.MINUTE): IntervalUnit.HOUR_TO_MINUTE,
    (TimeUnit.HOUR, TimeUnit.SECOND): IntervalUnit.HOUR_TO_SECOND,
    (TimeUnit.MINUTE, None): IntervalUnit.MINUTE,
    (TimeUnit.MINUTE, TimeUnit.SECOND): IntervalUnit.MINUTE_TO_SECOND,
    (TimeUnit.SECOND, None): IntervalUnit.SECOND,
}
_MOST_DIGITS: Final = {TypeRoot.DECIMAL: 38, TypeRoot.TIME: 3, TypeRoot.TIMESTAMP: 9, TypeRoot.TIMESTAMP_LTZ: 9}
"""The maximum precisions: of more digits that are written, so many are kept, as in Flink."""


class TypeBinder:
    """Binds the data types of a text."""

    def __init__(self, source: SqlSource) -> None:
        self._source = source

    def bind(self, spec: TypeSpec) -> LogicalType:
        """The type; nullable unless NOT NULL is written.

        Raises:
            SqlValidationError: when there is no such type.
            SqlPlanError: when there is one, and it is not supported.
        """
        try:
            kind = self._kind(spec)
        except InvalidTypeError as error:
            raise invalid(self._source, spec, str(error)) from None
        return with_nullability(kind, spec.nullable is not False)

    def _kind(self, spec: TypeSpec) -> LogicalType:
        if isinstance(spec, AtomicTypeSpec):
            return self._atomic(spec)
        if isinstance(spec, CollectionTypeSpec):
            element = self.bind(spec.element)
            return MultisetType(element) if spec.is_multiset else ArrayType(element)
        if isinstance(spec, MapTypeSpec):
            return MapType(self.bind(spec.key), self.bind(spec.value))
        if isinstance(spec, RowTypeSpec):
            return self._row(spec)
        if isinstance(spec, IntervalTypeSpec):
            return interval_type(spec.qualifier)
        if isinstance(spec, RawTypeSpec):
            if "." in spec.class_name:
                reason = f"values of the Java class '{spec.class_name}' cannot be read"
                raise invalid(self._source, spec, reason, "Write BYTES.")
            return RawType(spec.class_name)
        assert isinstance(spec, NamedTypeSpec)
        raise invalid(self._source, spec, f"unknown type '{spec.path}'", type_advice(str(spec.path)))

    def _row(self, spec: RowTypeSpec) -> LogicalType:
        names = tuple(field.name.text for field in spec.fields)
        types = tuple(self.bind(field.type) for field in spec.fields)
        if spec.class_name is not None:
            return StructuredType(spec.class_name, names, types)
        comments = tuple(field.comment for field in spec.fields)
        return RowType(names, types, comments if any(comment is not None for comment in comments) else ())

    def _atomic(self, spec: AtomicTypeSpec) -> LogicalType:
        if spec.word in _UNBOUNDED:
            return AtomicType(_UNBOUNDED[spec.word], MAX_LENGTH)
        root = _ROOTS.get(spec.word)
        if root is None:
            advice = "Write FLOAT." if spec.word is TypeWord.REAL else None
            reason = f"the type {spec.word.value} is not supported"
            raise SqlPlanError(reason, self._source, spec.start, spec.end, advice)
        if spec.size is None and root in (TypeRoot.VARCHAR, TypeRoot.VARBINARY):
            return AtomicType(root, MAX_LENGTH)
        most = _MOST_DIGITS.get(root)
        size = spec.size if most is None or spec.size is None else min(spec.size, most)
        return AtomicType(root, size, spec.scale)


def interval_type(qualifier: IntervalQualifier) -> IntervalType:
    """The type of an interval with these fields."""
    unit = _UNITS.get((qualifier.first, qualifier.last), IntervalUnit.DAY_TO_SECOND)
    text = unit.value
    precision = qualifier.precision if qualifier.precision is not None and "{0}" in text else 2
    fraction = qualifier.fraction if qualifier.fraction is not None and "{1}" in text else 6
    return IntervalType(unit, precision, fraction)


_EPOCH: Final = date(1970, 1, 1).toordinal()
_DATE: Final = re.compile(r"\s*(\d{1,4})-(\d{1,2})-(\d{1,2})\s*")
_TIME: Final = re.compile(r"\s*(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d*))?\s*")
_MICROSECONDS: Final = {
    TimeUnit.WEEK: 7 * 86_400_000_000,
    TimeUnit.DAY: 86_400_000_000,
    TimeUnit.HOUR: 3_600_000_000,
    TimeUnit.MINUTE: 60_000_000,
    TimeUnit.SECOND: 1_000_000,
}
_MONTHS: Final = {TimeUnit.YEAR: 12, TimeUnit.QUARTER: 3, TimeUnit.MONTH: 1}
_ORDER: Final = (TimeUnit.DAY, TimeUnit.HOUR, TimeUnit.MINUTE, TimeUnit.SECOND)


class BadLiteralError(ValueError):
    """The text of a literal is not valid for its type."""


def literal(node: SqlExpression, text: str) -> Literal:
    """Bind a literal.

    Args:
        node: the literal in the syntax tree.
        text: its text.

    Raises:
        BadLiteralError: when its text is not valid for its type.
    """
    return _RULES[type(node)](node, text)


def _boolean(node: BooleanLiteral) -> Literal:
    return Literal(node.value, type=BOOLEAN if node.value is None else BOOLEAN.not_null())


def integer(value: int) -> Literal:
    """The literal of a whole number that is INT or BIGINT."""
    return _integer(value)


def _units(text: str) -> int:
    """The length of a text as Java counts it, in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _integer(value: int) -> Literal:
    if -(2**31) <= value < 2**31:
        return Literal(value, type=INT.not_null())
    if -(2**63) <= value < 2**63:
        return Literal(value, type=BIGINT.not_null())
    raise BadLiteralError(f"the number {value} is too large for BIGINT")


def _decimal(value: Decimal, text: str) -> Literal:
    """The precision is that of the text: 0.001 has precision 4 and scale 3."""
    whole, _, fraction = text.partition(".")
    if not fraction:
        return _integer(int(value))
    precision, scale = max(1, len(whole) + len(fraction)), len(fraction)
    if precision > 38:
        raise BadLiteralError(f"the number {text} has more than 38 digits")
    return Literal(value, type=decimal(precision, scale).not_null())


def _double(node: DoubleLiteral) -> Literal:
    if not isfinite(node.value):
        raise BadLiteralError(f"the number {node.text} is too large for DOUBLE")
    return Literal(node.value, type=DOUBLE.not_null())


# --- dates and times -------------------------------------------------------------------------------------------------


def _temporal(node: TemporalLiteral) -> Literal:
    if node.kind is TemporalKind.DATE:
        return Literal(_days(node.text), type=DATE.not_null())
    if node.kind is TemporalKind.TIME:
        nanoseconds, digits = _clock(node.text)
        return Literal(nanoseconds // 1000, type=AtomicType(TypeRoot.TIME, min(digits, 3), nullable=False))
    day, space, clock = node.text.strip().partition(" ")
    days = _days(day)
    nanoseconds, digits = _clock(clock) if space else (0, 0)
    root = TypeRoot.TIMESTAMP if node.kind is TemporalKind.TIMESTAMP else TypeRoot.TIMESTAMP_LTZ
    kind = AtomicType(root, digits, nullable=False)
    total = days * 86_400 * 10**9 + nanoseconds
    return Literal(total if kind.has_nanoseconds else total // 1000, type=kind)


def _days(text: str) -> int:
    found = _DATE.fullmatch(text)
    if found is None:
        raise BadLiteralError(f"'{text}' is not a date: it is written 'yyyy-MM-dd'")
    try:
        return date(*map(int, found.groups())).toordinal() - _EPOCH
    except ValueError as error:
        raise BadLiteralError(f"'{text}' is not a date: {error}") from None


def _clock(text: str) -> tuple[int, int]:
    """Nanoseconds since midnight, and the digits of the fraction of a second, at most nine."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise BadLiteralError(f"'{text}' is not a time: it is written 'HH:mm:ss'")
    hour, minute, second = (int(part) for part in found.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise BadLiteralError(f"'{text}' is not a time: the last one of a day is '23:59:59'")
    fraction = (found[4] or "")[:9]
    total = ((hour * 60 + minute) * 60 + second) * 10**9 + int(fraction.ljust(9, "0"))
    return total, len(fraction)


# --- intervals -------------------------------------------------------------------------------------------------------


def _interval(node: IntervalLiteral) -> Literal:
    kind = interval_type(node.qualifier).not_null()
    text = node.text.strip()
    negative = node.is_negative
    if text[:1] in ("-", "+"):
        negative ^= text[0] == "-"
        text = text[1:]
    value = _months(node, text) if kind.unit.is_of_months else _span(node, text)
    return Literal(-value if negative else value, type=kind)


def _bad_interval(node: IntervalLiteral) -> BadLiteralError:
    units = node.qualifier.first.value + (f" TO {node.qualifier.last.value}" if node.qualifier.last else "")
    return BadLiteralError(f"'{node.text}' is not an interval of {units}")


def _months(node: IntervalLiteral, text: str) -> int:
    if node.qualifier.last is not None:
        found = re.fullmatch(r"(\d+)-(\d+)", text)
        if found is None or int(found[2]) > 11:
            raise _bad_interval(node)
        _check_digits(node, found[1])
        return int(found[1]) * 12 + int(found[2])
    if not text.isdigit():
        raise _bad_interval(node)
    _check_digits(node, text)
    return int(text) * _MONTHS[node.qualifier.first]


def _check_digits(node: IntervalLiteral, text: str) -> None:
    """Refuse more digits than the precision of the leading field, two by default."""
    most = node.qualifier.precision or 2
    if len(text.lstrip("0")) > most:
        unit = node.qualifier.first.value
        raise BadLiteralError(f"{text} has more than {most} digits: write INTERVAL '{node.text}' {unit}({len(text)})")


def _span(node: IntervalLiteral, text: str) -> int:
    """Microseconds of an interval of days to seconds."""
    first, last = node.qualifier.first, node.qualifier.last or node.qualifier.first
    if first not in _ORDER:
        if not text.isdigit():
            raise _bad_interval(node)
        _check_digits(node, text)
        return int(text) * _MICROSECONDS[first]
    units = _ORDER[_ORDER.index(first) : _ORDER.index(last) + 1]
    fraction_digits = 6 if node.qualifier.fraction is None else node.qualifier.fraction
    patterns = [
        rf"(\d+)(?:\.(\d{{1,{max(1, fraction_digits)}}}))?" if unit is TimeUnit.SECOND else r"(\d+)" for unit in units
    ]
    pattern = patterns[0]
    for unit, part in zip(units, patterns[1:], strict=False):
        pattern += (" +" if unit is TimeUnit.DAY else ":") + part
    found = re.fullmatch(pattern, text)
    if found is None:
        raise _bad_interval(node)
    parts: list[Any] = list(found.groups())
    fraction = (parts.pop() or "") if last is TimeUnit.SECOND else ""
    _check_digits(node, parts[0])
    if any(int(part) > _LARGEST[unit] for part, unit in zip(parts[1:], units[1:], strict=True)):
        raise _bad_interval(node)
    total = sum(int(part) * _MICROSECONDS[unit] for part, unit in zip(parts, units, strict=True))
    return total + int(fraction.ljust(6, "0")[:6])


_LARGEST: Final = {TimeUnit.HOUR: 23, TimeUnit.MINUTE: 59, TimeUnit.SECOND: 59}
UNITS: Final = _MICROSECONDS | _MONTHS
"""One of each unit: in microseconds, or in months."""

_RULES: Final[dict[type, Callable[[Any, str], Literal]]] = {
    IntegerLiteral: lambda node, _: _integer(node.value),
    DecimalLiteral: lambda node, text: _decimal(node.value, text),
    DoubleLiteral: lambda node, _: _double(node),
    StringLiteral: lambda node, _: Literal(node.value, type=char(_units(node.value)).not_null()),
    BinaryLiteral: lambda node, _: Literal(
        node.value, type=AtomicType(TypeRoot.BINARY, len(node.value), nullable=False)
    ),
    BooleanLiteral: lambda node, _: _boolean(node),
    NullLiteral: lambda _, __: Literal(None, type=NULL),
    TemporalLiteral: lambda node, _: _temporal(node),
    IntervalLiteral: lambda node, _: _interval(node),
}
