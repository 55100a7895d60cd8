"""Common types: of both sides of an operator, the branches of CASE, and the arms of UNION."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from headrace.common.logical_types import (
    MAX_LENGTH,
    MAX_PRECISION,
    ArrayType,
    AtomicType,
    IntervalType,
    IntervalUnit,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

R = TypeRoot
CHARACTERS: Final = frozenset({R.CHAR, R.VARCHAR})
BINARIES: Final = frozenset({R.BINARY, R.VARBINARY})
INTEGERS: Final = frozenset({R.TINYINT, R.SMALLINT, R.INTEGER, R.BIGINT})
EXACTS: Final = INTEGERS | {R.DECIMAL}
APPROXIMATES: Final = frozenset({R.FLOAT, R.DOUBLE})
NUMERICS: Final = EXACTS | APPROXIMATES
TIMESTAMPS: Final = frozenset({R.TIMESTAMP, R.TIMESTAMP_LTZ})
DATETIMES: Final = TIMESTAMPS | {R.DATE, R.TIME}

_DIGITS: Final = {R.TINYINT: 3, R.SMALLINT: 5, R.INTEGER: 10, R.BIGINT: 19}
_LEAST_SCALE: Final = 6

BOOLEAN: Final = AtomicType(R.BOOLEAN)
TINYINT: Final = AtomicType(R.TINYINT)
SMALLINT: Final = AtomicType(R.SMALLINT)
INT: Final = AtomicType(R.INTEGER)
BIGINT: Final = AtomicType(R.BIGINT)
FLOAT: Final = AtomicType(R.FLOAT)
DOUBLE: Final = AtomicType(R.DOUBLE)
STRING: Final = AtomicType(R.VARCHAR, MAX_LENGTH)
BYTES: Final = AtomicType(R.VARBINARY, MAX_LENGTH)
DATE: Final = AtomicType(R.DATE)
TIME: Final = AtomicType(R.TIME, 0)
NULL: Final = AtomicType(R.NULL)
VARIANT: Final = AtomicType(R.VARIANT)
BITMAP: Final = AtomicType(R.BITMAP)


def char(length: int) -> AtomicType:
    """``CHAR`` of a length."""
    return AtomicType(R.CHAR, length)


def varchar(length: int) -> AtomicType:
    """``VARCHAR`` of a length."""
    return AtomicType(R.VARCHAR, length)


def decimal(precision: int, scale: int) -> AtomicType:
    """``DECIMAL`` of a precision and a scale."""
    return AtomicType(R.DECIMAL, precision, scale)


def timestamp(precision: int) -> AtomicType:
    """``TIMESTAMP`` of a precision."""
    return AtomicType(R.TIMESTAMP, precision)


def timestamp_ltz(precision: int) -> AtomicType:
    """``TIMESTAMP_LTZ`` of a precision."""
    return AtomicType(R.TIMESTAMP_LTZ, precision)


def root_of(kind: LogicalType) -> TypeRoot | None:
    """The family of a type without parts; None of others."""
    return kind.root if isinstance(kind, AtomicType) else None


def is_in(kind: LogicalType, roots: frozenset[TypeRoot]) -> bool:
    """Return whether a type is of one of the families."""
    return isinstance(kind, AtomicType) and kind.root in roots


def with_nullability(kind: LogicalType, nullable: bool) -> LogicalType:
    """The type with NULL among its values, or without."""
    return kind if kind.nullable == nullable else replace(kind, nullable=nullable)


def size_of(kind: LogicalType) -> int:
    """The length or precision of a type that has one."""
    assert isinstance(kind, AtomicType)
    assert kind.size is not None
    return kind.size


def as_decimal(kind: LogicalType) -> tuple[int, int] | None:
    """The precision and scale of an exact number; integers have as many digits as their largest value."""
    if not isinstance(kind, AtomicType):
        return None
    if kind.root is R.DECIMAL:
        return size_of(kind), kind.scale or 0
    digits = _DIGITS.get(kind.root)
    return None if digits is None else (digits, 0)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def adjusted(precision: int, scale: int) -> AtomicType:
    """The decimal for so many digits; of too many, those behind the point give way, down to six."""
    if precision > MAX_PRECISION:
        whole = precision - scale
        scale = max(MAX_PRECISION - whole, min(scale, _LEAST_SCALE))
        precision = MAX_PRECISION
    return decimal(precision, scale)


def added(left: tuple[int, int], right: tuple[int, int]) -> AtomicType:
    """The type of a sum or difference of decimals."""
    scale = max(left[1], right[1])
    return adjusted(max(left[0] - left[1], right[0] - right[1]) + scale + 1, scale)


def multiplied(left: tuple[int, int], right: tuple[int, int]) -> AtomicType:
    """The type of a product of decimals."""
    return adjusted(left[0] + right[0] + 1, left[1] + right[1])


def divided(left: tuple[int, int], right: tuple[int, int]) -> AtomicType:
    """The type of a quotient of decimals."""
    scale = max(_LEAST_SCALE, left[1] + right[0] + 1)
    return adjusted(left[0] - left[1] + right[1] + scale, scale)


def remainder(left: tuple[int, int], right: tuple[int, int]) -> AtomicType:
    """The type of a remainder of decimals."""
    scale = max(left[1], right[1])
    return adjusted(min(left[0] - left[1], right[0] - right[1]) + scale, scale)


# --- common types ----------------------------------------------------------------------------------------------------


def least_restrictive(types: Sequence[LogicalType]) -> LogicalType | None:
    """The type of CASE, UNION, VALUES and arithmetic over these types, as Calcite has it; None when there is none."""
    return _common(types, _joined)


def common_type(types: Sequence[LogicalType]) -> LogicalType | None:
    """The type that values of all these types are brought to, as Flink's own functions do: COALESCE, GREATEST."""
    return _common(types, _widened)


_Merge = Callable[[AtomicType, AtomicType], "AtomicType | None"]


def _common(types: Sequence[LogicalType], merge: _Merge) -> LogicalType | None:
    known = [kind for kind in types if root_of(kind) is not R.NULL]
    if not known:
        return types[0] if types else None
    nullable = len(known) < len(types) or any(kind.nullable for kind in types)
    found: LogicalType | None = known[0]
    for kind in known[1:]:
        found = None if found is None else _merged(found, kind, merge)
    return None if found is None else with_nullability(found, nullable)


def _merged(left: LogicalType, right: LogicalType, merge: _Merge) -> LogicalType | None:
    if left == with_nullability(right, left.nullable):
        return left
    if isinstance(left, AtomicType) and isinstance(right, AtomicType):
        return merge(left, right)
    if isinstance(left, IntervalType) and isinstance(right, IntervalType):
        return interval_sum(left, right)
    parts = [_common((one, other), merge) for one, other in zip(left.children, right.children, strict=False)]
    if type(left) is not type(right) or None in parts or len(left.children) != len(right.children):
        return None
    return rebuilt(left, [part for part in parts if part is not None])


def rebuilt(kind: LogicalType, parts: Sequence[LogicalType]) -> LogicalType | None:
    """The composite type with other parts."""
    if isinstance(kind, ArrayType | MultisetType):
        return replace(kind, element=parts[0])
    if isinstance(kind, MapType):
        return replace(kind, key=parts[0], value=parts[1])
    if isinstance(kind, RowType):
        return replace(kind, types=tuple(parts))
    return None


def _joined(left: AtomicType, right: AtomicType) -> AtomicType | None:
    if is_in(left, NUMERICS) and is_in(right, NUMERICS):
        return _number(left, right, prefers_left=True)
    return _texts(left, right) or _times(left, right)


def _widened(left: AtomicType, right: AtomicType) -> AtomicType | None:
    if is_in(left, NUMERICS) and is_in(right, NUMERICS):
        return _number(left, right, prefers_left=False)
    return _texts(left, right) or _times_of_both(left, right)


def _number(left: AtomicType, right: AtomicType, *, prefers_left: bool) -> AtomicType:
    """The common type of numbers; of FLOAT and DOUBLE the left one, since their precision is the same in Calcite."""
    roots = {left.root, right.root}
    if roots & APPROXIMATES:
        if R.DECIMAL in roots:
            return DOUBLE
        if roots == APPROXIMATES:
            return left if prefers_left else DOUBLE
        return left if left.root in APPROXIMATES else right
    if R.DECIMAL not in roots:
        return max(left, right, key=lambda kind: _DIGITS[kind.root])
    one, other = as_decimal(left), as_decimal(right)
    assert one is not None
    assert other is not None
    whole = max(one[0] - one[1], other[0] - other[1])
    scale = min(max(one[1], other[1]), MAX_PRECISION - whole)
    return decimal(whole + scale, scale)


def _texts(left: AtomicType, right: AtomicType) -> AtomicType | None:
    for family, variable in ((CHARACTERS, R.VARCHAR), (BINARIES, R.VARBINARY)):
        if left.root in family and right.root in family:
            length = max(size_of(left), size_of(right))
            same = left.root is right.root and left.size == right.size
            return AtomicType(left.root if same else variable, length)
    return None


def _times(left: AtomicType, right: AtomicType) -> AtomicType | None:
    if left.root is right.root and left.root in (R.TIME, R.TIMESTAMP, R.TIMESTAMP_LTZ):
        return AtomicType(left.root, max(size_of(left), size_of(right)))
    if {left.root, right.root} == TIMESTAMPS:  # as Calcite, which looks at the root where it changes the precision
        return left if size_of(left) == size_of(right) else AtomicType(right.root, max(size_of(left), size_of(right)))
    return None


def _times_of_both(left: AtomicType, right: AtomicType) -> AtomicType | None:
    """The common type of times in Flink's own functions: a timestamp gets a zone, and a date stays a date."""
    if {left.root, right.root} == TIMESTAMPS:
        return AtomicType(R.TIMESTAMP_LTZ, max(size_of(left), size_of(right)))
    if {left.root, right.root} <= TIMESTAMPS | {R.DATE} and left.root is not right.root:
        return DATE
    return _times(left, right)


def interval_sum(left: IntervalType, right: IntervalType) -> IntervalType | None:
    """The type of a sum of intervals: from the largest unit of both to the smallest one."""
    if left.unit.is_of_months != right.unit.is_of_months:
        return None
    if left.unit is right.unit:
        return left
    unit = IntervalUnit.YEAR_TO_MONTH if left.unit.is_of_months else IntervalUnit.DAY_TO_SECOND
    return IntervalType(unit)


def to_external(kind: LogicalType) -> LogicalType:
    """The type as results and DESCRIBE show it: all intervals are of months, or of seconds with three digits."""
    if isinstance(kind, IntervalType):
        nullable = kind.nullable
        if kind.unit.is_of_months:
            return IntervalType(IntervalUnit.MONTH, nullable=nullable)
        return IntervalType(IntervalUnit.SECOND, fraction=3, nullable=nullable)
    parts = kind.children
    changed = [to_external(part) for part in parts]
    if all(new is old for new, old in zip(changed, parts, strict=True)):
        return kind
    return rebuilt(kind, changed) or kind
