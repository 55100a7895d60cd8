"""Type pairs that can be cast."""

from typing import Final

from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from headrace.table.functions.types import BINARIES, CHARACTERS, DATETIMES, EXACTS, NUMERICS, TIMESTAMPS

R = TypeRoot
_MOMENTS: Final = frozenset({R.TIMESTAMP, R.TIMESTAMP_LTZ})
_TARGETS: Final[dict[TypeRoot, frozenset[TypeRoot]]] = {
    **dict.fromkeys(CHARACTERS, CHARACTERS | BINARIES | NUMERICS | DATETIMES | {R.BOOLEAN}),
    **dict.fromkeys(BINARIES, CHARACTERS | BINARIES | DATETIMES),
    R.BOOLEAN: CHARACTERS | NUMERICS | {R.BOOLEAN},
    **dict.fromkeys(NUMERICS, CHARACTERS | NUMERICS | _MOMENTS | {R.BOOLEAN}),
    R.DATE: CHARACTERS | TIMESTAMPS | {R.DATE},
    R.TIME: CHARACTERS | TIMESTAMPS | {R.TIME},
    **dict.fromkeys(TIMESTAMPS, CHARACTERS | DATETIMES | NUMERICS),
    R.BITMAP: CHARACTERS | BINARIES | {R.BITMAP},
}
"""Targets that the validator allows a cast to, by root of the source; some of these casts cannot be executed."""


def is_castable(source: LogicalType, target: LogicalType) -> bool:
    """Return whether values of a type can be cast to another one."""
    if isinstance(source, AtomicType) and source.root is R.NULL:
        return True
    if isinstance(target, AtomicType) and target.root in CHARACTERS:
        return not isinstance(source, AtomicType) or target.root in _TARGETS.get(source.root, ())
    if isinstance(source, AtomicType) and isinstance(target, AtomicType):
        return target.root in _TARGETS.get(source.root, ())
    if isinstance(source, IntervalType) or isinstance(target, IntervalType):
        return _is_interval_castable(source, target)
    if isinstance(source, AtomicType) and source.root in CHARACTERS:
        return isinstance(target, ArrayType)
    return _are_parts_castable(source, target)


def _is_interval_castable(source: LogicalType, target: LogicalType) -> bool:
    if isinstance(source, IntervalType) and isinstance(target, IntervalType):
        return source.unit.is_of_months == target.unit.is_of_months
    other = target if isinstance(source, IntervalType) else source
    takes = frozenset({R.NULL}) if isinstance(source, IntervalType) else EXACTS | CHARACTERS
    return isinstance(other, AtomicType) and other.root in takes


def _are_parts_castable(source: LogicalType, target: LogicalType) -> bool:
    if type(source) is not type(target) or len(source.children) != len(target.children):
        return False
    if not isinstance(source, ArrayType | MapType | MultisetType | RowType):
        return False
    return all(map(is_castable, source.children, target.children))


_BY_RANGE: Final = (R.TINYINT, R.SMALLINT, R.INTEGER, R.BIGINT, R.FLOAT, R.DOUBLE, R.DECIMAL)
_WIDER: Final[dict[TypeRoot, frozenset[TypeRoot]]] = {
    **{
        source: frozenset(_BY_RANGE[at:]) - ({R.FLOAT} if source is R.DOUBLE else frozenset())
        for at, source in enumerate(_BY_RANGE)
    },
    R.DECIMAL: frozenset({R.DECIMAL, R.FLOAT, R.DOUBLE}),
    R.CHAR: CHARACTERS,
    R.VARCHAR: frozenset({R.VARCHAR}),
    R.BINARY: BINARIES,
    R.VARBINARY: frozenset({R.VARBINARY}),
    R.TIMESTAMP: TIMESTAMPS | {R.DATE, R.TIME},
    R.TIMESTAMP_LTZ: TIMESTAMPS | {R.DATE, R.TIME},
    R.DATE: frozenset({R.DATE}) | TIMESTAMPS,
    R.TIME: frozenset({R.TIME}),
    R.BOOLEAN: frozenset({R.BOOLEAN}),
}


def is_implicitly_castable(source: LogicalType, target: LogicalType) -> bool:
    """Return whether a sink's column of a type takes values of another one."""
    if isinstance(source, AtomicType) and source.root is R.NULL:
        return True
    if isinstance(source, AtomicType) and isinstance(target, AtomicType):
        return target.root in _WIDER.get(source.root, frozenset({source.root}))
    if type(source) is not type(target) or len(source.children) != len(target.children):
        return False
    if isinstance(source, IntervalType):
        return is_castable(source, target)
    return all(map(is_implicitly_castable, source.children, target.children))
