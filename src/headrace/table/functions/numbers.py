"""Functions of numbers, and those that choose among values."""

from typing import Final

from headrace.common.logical_types import ArrayType, LogicalType, MapType, MultisetType
from headrace.table.functions.definitions import CallShape, Determinism, FunctionDefinition, Signature, TypeRule
from headrace.table.functions.kernels import comparison, numbers, randomness
from headrace.table.functions.kernels.kernel import Kernel
from headrace.table.functions.rules import (
    ANY,
    CONDITION,
    INTEGER,
    NUMERIC,
    always,
    an_interval,
    anyone_nullable,
    either,
    gives,
    like_argument,
    maybe,
    takes,
    uniform,
)
from headrace.table.functions.types import (
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMPS,
    R,
    common_type,
    decimal,
    least_restrictive,
    root_of,
    size_of,
    with_nullability,
)
from headrace.table.logical.scalars import Literal


def _define(name: str, rule: TypeRule, kernel: Kernel, usage: str) -> FunctionDefinition:
    return FunctionDefinition(name, rule, kernel=kernel, usage=usage)


def _of_double(name: str, kernel: Kernel) -> FunctionDefinition:
    return _define(name, takes(NUMERIC, result=gives(DOUBLE)), kernel, f"{name}(number)")


def _scaled(shape: CallShape) -> Signature | None:
    """``ROUND`` and ``TRUNCATE``: a decimal has no more digits after the point than the argument says."""
    count = len(shape.operands)
    if count not in (1, 2) or NUMERIC(shape.types[0]) is None or (count == 2 and INTEGER(shape.types[1]) is None):
        return None
    kind = shape.types[0]
    if root_of(kind) is R.DECIMAL:
        places = shape.operands[1] if count == 2 else Literal(0, type=INT)
        kind = _with_places(kind, places.value) if isinstance(places, Literal) else kind
    return Signature(shape.types, with_nullability(kind, anyone_nullable(shape)))


def _with_places(kind: LogicalType, places: int) -> LogicalType:
    precision, scale = size_of(kind), getattr(kind, "scale", 0)
    if places >= scale:
        return kind
    kept = max(places, 0)
    return decimal(min(precision - scale + kept + 1, 38), kept)


_NUMBERS: Final = (
    _define("ABS", takes(either(NUMERIC, an_interval), result=like_argument()), numbers.absolute, "ABS(number)"),
    _define("SIGN", takes(NUMERIC, result=like_argument()), numbers.sign, "SIGN(number)"),
    _define("ROUND", _scaled, numbers.round_half_up, "ROUND(number[, places])"),
    _define("TRUNCATE", _scaled, numbers.truncate, "TRUNCATE(number[, places])"),
    _define("POWER", takes(NUMERIC, NUMERIC, result=gives(DOUBLE)), numbers.power, "POWER(number, exponent)"),
    _define("LOG", takes(NUMERIC, NUMERIC, optional=1, result=gives(DOUBLE)), numbers.log, "LOG([base, ]number)"),
    _define("ATAN2", takes(NUMERIC, NUMERIC, result=gives(DOUBLE)), numbers.atan2, "ATAN2(y, x)"),
    _of_double("SQRT", numbers.sqrt),
    _of_double("EXP", numbers.exp),
    _of_double("LN", numbers.ln),
    _of_double("LOG10", numbers.log10),
    _of_double("LOG2", numbers.log2),
    _of_double("SIN", numbers.sin),
    _of_double("COS", numbers.cos),
    _of_double("TAN", numbers.tan),
    _of_double("COT", numbers.cot),
    _of_double("ASIN", numbers.asin),
    _of_double("ACOS", numbers.acos),
    _of_double("ATAN", numbers.atan),
    _of_double("SINH", numbers.sinh),
    _of_double("COSH", numbers.cosh),
    _of_double("TANH", numbers.tanh),
    _of_double("DEGREES", numbers.degrees),
    _of_double("RADIANS", numbers.radians),
    _define("PI", takes(result=always(DOUBLE)), numbers.pi, "PI()"),
    _define("E", takes(result=always(DOUBLE)), numbers.e, "E()"),
    FunctionDefinition(
        "RAND",
        takes(INTEGER, optional=1, result=gives(DOUBLE)),
        determinism=Determinism.NEVER,
        kernel=randomness.rand,
        usage="RAND([seed])",
    ),
    FunctionDefinition(
        "RAND_INTEGER",
        takes(INTEGER, INTEGER, optional=1, result=gives(INT)),
        determinism=Determinism.NEVER,
        kernel=randomness.rand_integer,
        usage="RAND_INTEGER([seed, ]bound)",
    ),
)


def _coalesced(shape: CallShape) -> Signature | None:
    """The common type; NULL is among its values only when no argument is without."""
    kind = common_type(shape.types) if shape.operands else None
    if kind is None or root_of(kind) is R.NULL:
        return None
    types = tuple(with_nullability(kind, each.nullable) for each in shape.types)
    return Signature(types, with_nullability(kind, all(each.nullable for each in shape.types)))


def _ifnull(shape: CallShape) -> Signature | None:
    """A value that is never NULL keeps its type."""
    found = _coalesced(shape) if len(shape.operands) == 2 else None
    if found is None or shape.types[0].nullable:
        return found
    kind = shape.types[0]
    return Signature((kind, with_nullability(kind, shape.types[1].nullable)), kind)


def _if(shape: CallShape) -> Signature | None:
    if len(shape.operands) != 3 or CONDITION(shape.types[0]) is None:
        return None
    chosen, other = shape.types[1:]
    is_zoned = {root_of(chosen), root_of(other)} == TIMESTAMPS
    kind = chosen if is_zoned else least_restrictive((chosen, other))
    if kind is None or R.NULL in (root_of(each) for each in shape.types[1:]):
        return None
    types = tuple(with_nullability(kind, each.nullable) for each in shape.types[1:])
    return Signature((shape.types[0], *types), with_nullability(kind, anyone_nullable(shape)))


def _nullif(shape: CallShape) -> Signature | None:
    return Signature(shape.types, shape.types[0].as_nullable()) if len(shape.operands) == 2 else None


def _type_text(shape: CallShape) -> Signature | None:
    """``TYPEOF(value[, in full])``, of which the second argument is a literal."""
    if len(shape.operands) == 2 and not isinstance(shape.operands[1], Literal):
        return None
    return takes(ANY, CONDITION, optional=1, result=maybe(STRING))(shape)


_COMMON: Final = uniform(lambda shape, types: with_nullability(types[0], anyone_nullable(shape)))


def _extreme(shape: CallShape) -> Signature | None:
    """The largest or smallest of values that have an order."""
    has_none = any(isinstance(kind, ArrayType | MapType | MultisetType) for kind in shape.types)
    return None if has_none else _COMMON(shape)


_CHOICES: Final = (
    _define("COALESCE", _coalesced, comparison.coalesce, "COALESCE(value, ...)"),
    _define("IFNULL", _ifnull, comparison.coalesce, "IFNULL(value, other)"),
    _define("NULLIF", _nullif, comparison.nullif, "NULLIF(value, other)"),
    _define("IF", _if, comparison.choose, "IF(condition, value, other)"),
    FunctionDefinition("GREATEST", _extreme, kernel=comparison.greatest, usage="GREATEST(value, ...)", late=_COMMON),
    FunctionDefinition("LEAST", _extreme, kernel=comparison.least, usage="LEAST(value, ...)", late=_COMMON),
    _define(
        "TYPEOF",
        _type_text,
        comparison.type_of,
        "TYPEOF(value[, in full])",
    ),
    _define("IN", takes(ANY, ANY, variadic=True, result=gives(BOOLEAN)), comparison.is_in, "value IN (other, ...)"),
)

NUMBER_FUNCTIONS: Final = (*_NUMBERS, *_CHOICES)
