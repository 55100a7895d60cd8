"""Aggregate functions, and those that only ``OVER`` takes."""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from headrace.common.logical_types import ArrayType, LogicalType, MultisetType
from headrace.table.functions.definitions import CallShape, FunctionDefinition, Signature, TypeRule
from headrace.table.functions.kinds import FunctionKind
from headrace.table.functions.rules import (
    AN_INT,
    ANY,
    INTEGER,
    NUMERIC,
    TEXT,
    always,
    exactly,
    gives,
    maybe,
    takes,
)
from headrace.table.functions.types import (
    BIGINT,
    BITMAP,
    DOUBLE,
    STRING,
    R,
    as_decimal,
    decimal,
    is_in,
    root_of,
    varchar,
    with_nullability,
)
from headrace.table.logical.scalars import Literal, Scalar


def _over_group(shape: CallShape, kind: LogicalType) -> LogicalType:
    """NULL comes of an argument that may be NULL, and of no rows at all."""
    nullable = not shape.is_grouped or any(operand.type.nullable for operand in shape.operands)
    return with_nullability(kind, nullable)


def _like_argument(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    return _over_group(shape, types[0])


def _sum(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    kind = types[0]
    if root_of(kind) is R.DECIMAL:
        digits = as_decimal(kind)
        assert digits is not None
        kind = decimal(38, digits[1])
    return _over_group(shape, kind)


def _average(shape: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    kind = types[0]
    if root_of(kind) is R.DECIMAL:
        digits = as_decimal(kind)
        assert digits is not None
        kind = decimal(38, max(6, digits[1]))
    return _over_group(shape, kind)


def _array(_: CallShape, types: tuple[LogicalType, ...]) -> LogicalType:
    return ArrayType(types[0], nullable=types[0].nullable)


def _shifted(shape: CallShape) -> Signature | None:
    """``LAG(value[, offset[, default]])``: NULL before the first row, where no default is."""
    if not 1 <= len(shape.operands) <= 3:
        return None
    value = shape.types[0]
    if len(shape.operands) > 1 and not is_in(shape.types[1], frozenset({R.TINYINT, R.SMALLINT, R.INTEGER, R.BIGINT})):
        return None
    if len(shape.operands) < 3:
        return Signature(shape.types, value.as_nullable())
    kind = with_nullability(value, shape.types[2].nullable)
    return Signature((*shape.types[:2], with_nullability(value, shape.types[2].nullable)), kind)


def _aggregate(name: str, rule: TypeRule, usage: str = "") -> FunctionDefinition:
    return FunctionDefinition(name, rule, FunctionKind.AGGREGATE, usage=usage or f"{name}(value)")


def _over(name: str, rule: TypeRule, usage: str = "") -> FunctionDefinition:
    return FunctionDefinition(name, rule, FunctionKind.OVER, usage=usage or f"{name}()")


def _each(names: str, rule: TypeRule, make: Callable[..., FunctionDefinition]) -> tuple[FunctionDefinition, ...]:
    return tuple(make(name, rule) for name in names.split())


_LIKE: Final = takes(ANY, result=_like_argument)
_JSON: Final = always(varchar(2000))


def _percentile(shape: CallShape) -> Signature | None:
    """``PERCENTILE(value, fraction or fractions[, weight])``."""
    if not 2 <= len(shape.operands) <= 3 or NUMERIC(shape.types[0]) is None:
        return None
    wanted = shape.types[1]
    if any(map(_is_no_share, shape.operands[1].walk())):
        return None
    if len(shape.operands) == 3 and INTEGER(shape.types[2]) is None:
        return None
    if isinstance(wanted, ArrayType) and NUMERIC(wanted.element) is not None:
        kinds = (shape.types[0], ArrayType(DOUBLE, nullable=wanted.nullable), *shape.types[2:])
        return Signature(kinds, ArrayType(DOUBLE))
    if NUMERIC(wanted) is None:
        return None
    return Signature((shape.types[0], with_nullability(DOUBLE, wanted.nullable), *shape.types[2:]), DOUBLE)


def _is_no_share(scalar: Scalar) -> bool:
    """Return whether a scalar is a number that is no share of a whole."""
    if not isinstance(scalar, Literal) or not isinstance(scalar.value, int | float | Decimal):
        return False
    return not 0 <= scalar.value <= 1


_A_BITMAP: Final = exactly(BITMAP)

AGGREGATES: Final = (
    _aggregate("COUNT", takes(ANY, optional=1, variadic=True, result=always(BIGINT)), "COUNT(*), COUNT(value)"),
    _aggregate("APPROX_COUNT_DISTINCT", takes(ANY, result=always(BIGINT))),
    _aggregate("SUM", takes(NUMERIC, result=_sum), "SUM(number)"),
    _aggregate("SUM0", takes(NUMERIC, result=_sum), "SUM0(number)"),
    *_each("AVG STDDEV_POP STDDEV_SAMP STDDEV VAR_POP VAR_SAMP VARIANCE", takes(NUMERIC, result=_average), _aggregate),
    *_each("MIN MAX SINGLE_VALUE", _LIKE, _aggregate),
    *_each("FIRST_VALUE LAST_VALUE", _LIKE, _aggregate),
    _aggregate("LISTAGG", takes(TEXT, TEXT, optional=1, result=gives(STRING))),
    _aggregate("COLLECT", takes(ANY, result=lambda _, types: MultisetType(types[0], nullable=False))),
    _aggregate("ARRAY_AGG", takes(ANY, result=_array)),
    _aggregate("JSON_OBJECTAGG", takes(TEXT, ANY, result=_JSON)),
    _aggregate("JSON_ARRAYAGG", takes(ANY, result=_JSON)),
    _aggregate("PERCENTILE", _percentile, "PERCENTILE(number, fraction[, weight])"),
    _aggregate("BITMAP_BUILD_AGG", takes(INTEGER, result=maybe(BITMAP)), "BITMAP_BUILD_AGG(integer)"),
    _aggregate("BITMAP_BUILD_CARDINALITY_AGG", takes(INTEGER, result=maybe(BIGINT))),
    *_each("BITMAP_AND_AGG BITMAP_OR_AGG BITMAP_XOR_AGG", takes(_A_BITMAP, result=maybe(BITMAP)), _aggregate),
    *_each(
        "BITMAP_AND_CARDINALITY_AGG BITMAP_OR_CARDINALITY_AGG BITMAP_XOR_CARDINALITY_AGG",
        takes(_A_BITMAP, result=maybe(BIGINT)),
        _aggregate,
    ),
    _aggregate("GROUP_ID", takes(result=always(BIGINT)), "GROUP_ID()"),
    _aggregate("GROUPING", takes(ANY, variadic=True, result=always(BIGINT))),
    _aggregate("GROUPING_ID", takes(ANY, variadic=True, result=always(BIGINT))),
    *_each("ROW_NUMBER RANK DENSE_RANK", takes(result=always(BIGINT)), _over),
    *_each("CUME_DIST PERCENT_RANK", takes(result=always(DOUBLE)), _over),
    _over("NTILE", takes(AN_INT, result=always(BIGINT)), "NTILE(count)"),
    *_each("LAG LEAD", _shifted, _over),
)
