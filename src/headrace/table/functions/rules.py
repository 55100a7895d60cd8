"""Type rules, made of small parts: which arguments a function takes, and what its result is."""

from collections.abc import Callable, Sequence
from typing import Final

from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    TypeRoot,
)
from headrace.table.functions.definitions import CallShape, Signature, TypeRule
from headrace.table.functions.types import (
    APPROXIMATES,
    BIGINT,
    BINARIES,
    BOOLEAN,
    CHARACTERS,
    DATETIMES,
    EXACTS,
    INT,
    INTEGERS,
    NUMERICS,
    STRING,
    TIMESTAMPS,
    common_type,
    is_in,
    root_of,
    with_nullability,
)

Parameter = Callable[[LogicalType], "LogicalType | None"]
"""The type that an argument of a type is brought to; None when the function takes no such argument."""

Result = Callable[[CallShape, tuple[LogicalType, ...]], "LogicalType | None"]
"""The type of the result, of the call and of the types that its arguments are brought to."""


def _of(roots: frozenset[TypeRoot]) -> Parameter:
    return lambda kind: kind if is_in(kind, roots) else None


def nullable(parameter: Parameter, kind: AtomicType) -> Parameter:
    """A parameter that takes a bare NULL as well, as a value of a type."""
    return lambda given: kind if root_of(given) is TypeRoot.NULL else parameter(given)


ANY: Final[Parameter] = lambda kind: kind  # noqa: E731
TEXT: Final = _of(CHARACTERS)
BINARY: Final = _of(BINARIES)
TEXT_OR_BINARY: Final = _of(CHARACTERS | BINARIES)
NUMERIC: Final = _of(NUMERICS)
EXACT: Final = _of(EXACTS)
INTEGER: Final = _of(INTEGERS)
APPROXIMATE: Final = _of(APPROXIMATES)
CONDITION: Final = _of(frozenset({TypeRoot.BOOLEAN}))
DATETIME: Final = _of(DATETIMES)
MOMENT: Final = _of(TIMESTAMPS)
DATE_OR_TIME: Final = _of(DATETIMES - {TypeRoot.TIMESTAMP_LTZ})
CALENDAR: Final = _of(TIMESTAMPS | {TypeRoot.DATE})
A_TIME: Final = _of(frozenset({TypeRoot.TIME}))
ZONED: Final = _of(frozenset({TypeRoot.TIMESTAMP_LTZ}))


def an_array(kind: LogicalType) -> LogicalType | None:
    """The parameter that takes arrays of any elements."""
    return kind if isinstance(kind, ArrayType) else None


def a_map(kind: LogicalType) -> LogicalType | None:
    """The parameter that takes maps of any keys and values."""
    return kind if isinstance(kind, MapType) else None


def a_multiset(kind: LogicalType) -> LogicalType | None:
    """The parameter that takes multisets of any elements."""
    return kind if isinstance(kind, MultisetType) else None


def an_interval(kind: LogicalType) -> LogicalType | None:
    """The parameter that takes intervals of either kind."""
    return kind if isinstance(kind, IntervalType) else None


def either(*parameters: Parameter) -> Parameter:
    """A parameter that accepts what any of some parameters accepts."""

    def choose(kind: LogicalType) -> LogicalType | None:
        return next((found for parameter in parameters if (found := parameter(kind)) is not None), None)

    return choose


_WIDER: Final = {
    TypeRoot.SMALLINT: {TypeRoot.TINYINT},
    TypeRoot.INTEGER: {TypeRoot.TINYINT, TypeRoot.SMALLINT},
    TypeRoot.BIGINT: INTEGERS,
    TypeRoot.DECIMAL: EXACTS,
    TypeRoot.FLOAT: EXACTS | {TypeRoot.FLOAT},
    TypeRoot.DOUBLE: NUMERICS,
    TypeRoot.VARCHAR: CHARACTERS,
    TypeRoot.CHAR: CHARACTERS,
    TypeRoot.VARBINARY: BINARIES,
    TypeRoot.TIMESTAMP: TIMESTAMPS | {TypeRoot.DATE},
    TypeRoot.TIMESTAMP_LTZ: TIMESTAMPS | {TypeRoot.DATE},
}
"""Roots whose values are cast implicitly, by the root to which they are cast."""


def exactly(wanted: AtomicType) -> Parameter:
    """A type, and what is converted to it implicitly: smaller numbers, shorter texts."""
    takes = frozenset(_WIDER.get(wanted.root, ())) | {wanted.root}
    keeps = CHARACTERS | BINARIES

    def choose(kind: LogicalType) -> LogicalType | None:
        if root_of(kind) is TypeRoot.NULL:
            return wanted
        if not is_in(kind, takes):
            return None
        return kind if is_in(kind, keeps) else with_nullability(wanted, kind.nullable)

    return choose


A_TEXT: Final = nullable(TEXT, STRING)
"""A text, or a bare NULL: Flink's own functions take that, and Calcite's do not."""

AN_INT: Final = exactly(INT)
A_BIGINT: Final = exactly(BIGINT)
A_STRING: Final = exactly(STRING)


# --- results ---------------------------------------------------------------------------------------------------------


def anyone_nullable(shape: CallShape) -> bool:
    """Return whether one of the arguments may be NULL."""
    return any(operand.type.nullable for operand in shape.operands)


def gives(kind: LogicalType) -> Result:
    """A type; NULL is among its values when an argument may be NULL."""
    return lambda shape, types: with_nullability(kind, anyone_nullable(shape))


def maybe(kind: LogicalType) -> Result:
    """A type with NULL among its values."""
    return lambda shape, types: kind.as_nullable()


def always(kind: LogicalType) -> Result:
    """A type without NULL."""
    return lambda shape, types: kind.not_null()


def like_argument(index: int = 0) -> Result:
    """The type of an argument; NULL is among its values when any argument may be NULL."""
    return lambda shape, types: with_nullability(types[index], anyone_nullable(shape))


def same_as(index: int = 0) -> Result:
    """The type of an argument, with its own nullability."""
    return lambda shape, types: types[index]


def nullable_like(index: int = 0) -> Result:
    """The type of an argument, with NULL."""
    return lambda shape, types: types[index].as_nullable()


# --- rules -----------------------------------------------------------------------------------------------------------


def takes(*parameters: Parameter, result: Result, optional: int = 0, variadic: bool = False) -> TypeRule:
    """A function of these parameters.

    Args:
        parameters: one for each argument.
        result: the type of what it gives.
        optional: how many of the last ones may be left out.
        variadic: whether the last one may be repeated.
    """

    def rule(shape: CallShape) -> Signature | None:
        count = len(shape.operands)
        if count < len(parameters) - optional or (count > len(parameters) and not variadic):
            return None
        wanted = parameters[:count] + parameters[-1:] * (count - len(parameters))
        types = [parameter(kind) for parameter, kind in zip(wanted, shape.types, strict=True)]
        found = tuple(kind for kind in types if kind is not None)
        if len(found) < count:
            return None
        kind = result(shape, found)
        return None if kind is None else Signature(found, kind)

    return rule


def one_of(*rules: TypeRule) -> TypeRule:
    """The first rule that takes the arguments."""
    return lambda shape: next((found for rule in rules if (found := rule(shape)) is not None), None)


def uniform(result: Result, *, least: int = 1) -> TypeRule:
    """Any number of arguments, which are all brought to their common type."""

    def rule(shape: CallShape) -> Signature | None:
        kind = common_type(shape.types) if len(shape.operands) >= least else None
        if kind is None:
            return None
        types = tuple(with_nullability(kind, each.nullable) for each in shape.types)
        found = result(shape, (kind, *types[1:]))
        return None if found is None else Signature(types, found)

    return rule


def compared(types: Sequence[LogicalType]) -> tuple[LogicalType, ...] | None:
    """The types that two values are compared in; None when they cannot be compared.

    Texts are compared with dates and times as such.
    """
    left, right = types
    roots = (root_of(left), root_of(right))
    if roots == (TypeRoot.NULL, TypeRoot.NULL):
        return BOOLEAN, BOOLEAN
    joint: LogicalType | None = None
    if is_in(left, CHARACTERS) and is_in(right, DATETIMES):
        joint = right
    elif is_in(right, CHARACTERS) and is_in(left, DATETIMES):
        joint = left
    elif TypeRoot.DATE not in roots or roots[0] is roots[1] or TypeRoot.NULL in roots:
        joint = common_type(types)
    if joint is None:
        return None
    if is_in(joint, CHARACTERS | BINARIES) and TypeRoot.NULL not in roots:
        return tuple(types)
    return tuple(with_nullability(joint, kind.nullable) for kind in types)


CONDITION_RESULT: Final = gives(BOOLEAN)
