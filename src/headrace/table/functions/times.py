"""Functions of dates and times."""

from dataclasses import replace
from typing import Final

from headrace.common.logical_types import AtomicType, IntervalType, LogicalType
from headrace.table.functions.definitions import CallShape, Determinism, FunctionDefinition, Signature, TypeRule
from headrace.table.functions.kernels.table import TIMES as KERNELS
from headrace.table.functions.kernels.zones import is_zone
from headrace.table.functions.kinds import FunctionKind
from headrace.table.functions.rules import (
    A_BIGINT,
    A_TIME,
    CALENDAR,
    DATETIME,
    INTEGER,
    MOMENT,
    NUMERIC,
    TEXT,
    ZONED,
    always,
    an_interval,
    anyone_nullable,
    either,
    gives,
    like_argument,
    maybe,
    nullable_like,
    one_of,
    takes,
)
from headrace.table.functions.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    INT,
    STRING,
    TIME,
    R,
    decimal,
    root_of,
    size_of,
    timestamp,
    timestamp_ltz,
    with_nullability,
)
from headrace.table.logical.scalars import Literal

_MOMENT: Final = timestamp_ltz(3)


def _now(
    name: str,
    kind: AtomicType,
    determinism: Determinism = Determinism.WITHIN_QUERY,
    *,
    takes_digits: bool = False,
) -> FunctionDefinition:
    rule = one_of(takes(result=always(kind)), _with_digits(kind)) if takes_digits else takes(result=always(kind))
    return FunctionDefinition(name, rule, determinism=determinism, usage=f"{name}[(digits)]" if takes_digits else name)


def _with_digits(kind: AtomicType) -> TypeRule:
    """``CURRENT_TIME(3)``: so many digits of a second."""

    def rule(shape: CallShape) -> Signature | None:
        (digits,) = shape.operands if len(shape.operands) == 1 else (None,)
        if not isinstance(digits, Literal) or not isinstance(digits.value, int):
            return None
        return Signature(shape.types, AtomicType(kind.root, min(digits.value, 9), nullable=False))

    return rule


def _planner(name: str, rule: TypeRule, usage: str) -> FunctionDefinition:
    return FunctionDefinition(name, rule, FunctionKind.PLANNER, usage=usage)


def _define(name: str, rule: TypeRule, usage: str, late: TypeRule | None = None) -> FunctionDefinition:
    return FunctionDefinition(name, rule, kernel=KERNELS.get(name), usage=usage, late=late)


def _rounded(shape: CallShape) -> Signature | None:
    """``FLOOR`` and ``CEIL``, of a number or of a point in time to a unit."""
    if len(shape.operands) != 1:
        return None
    (kind,) = shape.types
    if dict(shape.options).get("unit") is not None:
        return Signature(shape.types, kind) if DATETIME(kind) is not None else None
    if NUMERIC(kind) is None:
        return None
    if root_of(kind) is R.DECIMAL:
        result: LogicalType = decimal(size_of(kind), 0)
        return Signature(shape.types, with_nullability(result, kind.nullable))
    return Signature(shape.types, kind)


def _added(shape: CallShape) -> Signature | None:
    """``TIMESTAMPADD(unit, count, time)``: a date stays one when whole days are added."""
    if len(shape.operands) != 2 or INTEGER(shape.types[0]) is None or DATETIME(shape.types[1]) is None:
        return None
    kind = shape.types[1]
    unit = dict(shape.options).get("unit")
    if root_of(kind) is R.DATE and unit is not None and unit.name in ("HOUR", "MINUTE", "SECOND"):
        kind = timestamp(6)
    return Signature(shape.types, with_nullability(kind, anyone_nullable(shape)))


_A_FIELD: Final = takes(either(DATETIME, an_interval), result=gives(BIGINT))
"""A field of any time, which the planner then refuses of times that do not have it."""

_OF_TIME: Final = frozenset(("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND"))
"""The fields that a TIME has."""


def _field(shape: CallShape) -> Signature | None:
    """``EXTRACT(unit FROM time)``."""
    if len(shape.operands) != 1 or either(DATETIME, an_interval)(shape.types[0]) is None:
        return None
    unit = dict(shape.options).get("unit")
    if A_TIME(shape.types[0]) is not None and unit is not None and unit.name not in _OF_TIME:
        return None
    return Signature(shape.types, with_nullability(BIGINT, shape.types[0].nullable))


def _between(shape: CallShape) -> Signature | None:
    """``TIMESTAMPDIFF(unit, from, to)``: instants, what clocks show, and times of day have nothing between them."""
    if len(shape.operands) != 2 or any(DATETIME(kind) is None for kind in shape.types):
        return None
    if any((kind(shape.types[0]) is None) is not (kind(shape.types[1]) is None) for kind in (ZONED, A_TIME)):
        return None
    return Signature(shape.types, with_nullability(INT, anyone_nullable(shape)))


def _periods(shape: CallShape) -> Signature | None:
    """``OVERLAPS`` of two periods of the same kind of time."""
    kinds = (*(DATETIME, either(DATETIME, an_interval)) * 2,)
    times = {root_of(kind) for kind in shape.types if not isinstance(kind, IntervalType)}
    return takes(*kinds, result=gives(BOOLEAN))(shape) if len(times) == 1 else None


def _seconds(kind: LogicalType) -> LogicalType | None:
    return None if root_of(kind) is R.NULL else A_BIGINT(kind)


def _instant(shape: CallShape) -> Signature | None:
    """``TO_TIMESTAMP_LTZ``: as many digits as are counted in, three at least."""
    precision = 3
    if len(shape.operands) == 2 and isinstance(shape.operands[1], Literal) and INTEGER(shape.types[1]) is not None:
        given = shape.operands[1].value or 0
        if not 0 <= given <= _MOST_DIGITS:
            return None
        precision = max(3, given)
    zone = shape.operands[2] if len(shape.operands) == 3 else None
    if isinstance(zone, Literal) and isinstance(zone.value, str) and not is_zone(zone.value):
        return None
    kind = maybe(timestamp_ltz(precision))
    rules = (
        takes(NUMERIC, INTEGER, optional=1, result=kind),
        takes(TEXT, TEXT, TEXT, optional=2, result=kind),
    )
    return one_of(*rules)(shape)


_MOST_DIGITS: Final = 9

_WINDOW: Final = takes(MOMENT, an_interval, A_TIME, optional=1, result=like_argument())
_HOP: Final = takes(MOMENT, an_interval, an_interval, A_TIME, optional=1, result=like_argument())

TIMES: Final = (
    _now("CURRENT_DATE", DATE),
    _now("CURRENT_TIME", TIME, takes_digits=True),
    _now("LOCALTIME", TIME, takes_digits=True),
    _now("CURRENT_TIMESTAMP", _MOMENT, takes_digits=True),
    replace(_now("NOW", _MOMENT), late=takes(INTEGER, result=always(_MOMENT))),
    _now("LOCALTIMESTAMP", timestamp(3), takes_digits=True),
    _now("CURRENT_ROW_TIMESTAMP", _MOMENT, Determinism.NEVER),
    FunctionDefinition("PROCTIME", takes(result=always(_MOMENT)), determinism=Determinism.NEVER, usage="PROCTIME()"),
    _define(
        "UNIX_TIMESTAMP",
        one_of(takes(result=always(BIGINT)), takes(TEXT, TEXT, optional=1, result=gives(BIGINT))),
        "UNIX_TIMESTAMP([text[, format]])",
    ),
    _define(
        "FROM_UNIXTIME", takes(_seconds, TEXT, optional=1, result=maybe(STRING)), "FROM_UNIXTIME(seconds[, format])"
    ),
    _define(
        "DATE_FORMAT", takes(either(MOMENT, TEXT), TEXT, result=maybe(STRING)), "DATE_FORMAT(timestamp or text, format)"
    ),
    _define("CONVERT_TZ", takes(TEXT, TEXT, TEXT, result=maybe(STRING)), "CONVERT_TZ(text, from zone, to zone)"),
    _define("TO_TIMESTAMP", takes(TEXT, TEXT, optional=1, result=maybe(timestamp(3))), "TO_TIMESTAMP(text[, format])"),
    _define(
        "TO_TIMESTAMP_LTZ", _instant, "TO_TIMESTAMP_LTZ(number[, precision]), TO_TIMESTAMP_LTZ(text[, format[, zone]])"
    ),
    _define("TO_DATE", takes(TEXT, TEXT, optional=1, result=maybe(DATE)), "TO_DATE(text[, format])"),
    _define("EXTRACT", _field, "EXTRACT(unit FROM time)", _A_FIELD),
    _define("FLOOR", _rounded, "FLOOR(number), FLOOR(time TO unit)"),
    _define("CEIL", _rounded, "CEIL(number), CEIL(time TO unit)"),
    _define("OVERLAPS", _periods, "(time, time or interval) OVERLAPS (time, time or interval)"),
    _define("TIMESTAMPADD", _added, "TIMESTAMPADD(unit, count, time)"),
    _define("TIMESTAMPDIFF", _between, "TIMESTAMPDIFF(unit, from, to)", takes(DATETIME, DATETIME, result=gives(INT))),
    *(
        _define(name, takes(CALENDAR, result=gives(BIGINT)), f"{name}(date)", takes(A_TIME, result=gives(BIGINT)))
        for name in ("YEAR", "QUARTER", "MONTH")
    ),
    *(
        _define(name, takes(either(CALENDAR, an_interval), result=gives(BIGINT)), f"{name}(date)", _A_FIELD)
        for name in ("WEEK", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK")
    ),
    *(
        _define(name, takes(either(DATETIME, an_interval), result=gives(BIGINT)), f"{name}(time)")
        for name in ("HOUR", "MINUTE", "SECOND")
    ),
    _planner("SOURCE_WATERMARK", takes(result=maybe(_MOMENT)), "SOURCE_WATERMARK()"),
    _planner("CURRENT_DATABASE", takes(result=always(STRING)), "CURRENT_DATABASE()"),
    _define("CURRENT_WATERMARK", takes(MOMENT, result=nullable_like()), "CURRENT_WATERMARK(time)"),
    _planner("$TUMBLE", _WINDOW, "TUMBLE(time, size)"),
    _planner("$HOP", _HOP, "HOP(time, slide, size)"),
    _planner("$SESSION", _WINDOW, "SESSION(time, gap)"),
)
