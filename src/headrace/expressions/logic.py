"""Comparisons, boolean operators and what has to do with nulls: SQL's three-valued logic."""

from __future__ import annotations

from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.expressions.functions import (
    ANY,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    INSTANT,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    TIMESTAMP,
    ZONED,
    Datum,
    Function,
    Kernel,
    Overload,
)

_COMPARABLE: Final = (INTEGER, NUMBER, DECIMAL, TEXT, BOOLEAN, BYTES, DATE, TIME, TIMESTAMP, ZONED, INSTANT)
"""Values of one of these are compared with one another, and with nothing else."""


def _comparing(kernel: Kernel, count: int = 2, *, is_variadic: bool = False) -> Function:
    found = (Overload((family,) * count, Types.BOOLEAN(), kernel, is_variadic) for family in _COMPARABLE)
    wants = "values of one kind: numbers, decimals, text, bytes, booleans, dates, times or timestamps alike"
    return Function(tuple(found), wants)


def _between(value: Datum, low: Datum, high: Datum) -> Datum:
    return pc.and_kleene(pc.greater_equal(value, low), pc.less_equal(value, high))


def _is_in(value: Datum, *members: Datum) -> Datum:
    """Whether a value equals one of the others: null where it is null, or none equals it and one is null."""
    if not all(isinstance(member, pa.Scalar) and member.is_valid for member in members):
        return reduce(pc.or_kleene, (pc.equal(value, member) for member in members))
    known = pa.array(list(members), value.type)
    if pa.types.is_floating(known.type):
        known = known.filter(pc.invert(pc.is_nan(known)))  # a NaN equals nothing
        value, known = pc.add(value, 0.0), pc.add(known, 0.0)  # -0.0, which equals 0.0, becomes that
    return pc.if_else(pc.is_valid(value), pc.is_in(value, value_set=known), pa.scalar(None, pa.bool_()))


def _boolean(kernel: Kernel, count: int) -> Function:
    return Function((Overload((BOOLEAN,) * count, Types.BOOLEAN(), kernel),))


FUNCTIONS: Final[dict[str, Function]] = {
    "equal": _comparing(pc.equal),
    "not_equal": _comparing(pc.not_equal),
    "less": _comparing(pc.less),
    "less_equal": _comparing(pc.less_equal),
    "greater": _comparing(pc.greater),
    "greater_equal": _comparing(pc.greater_equal),
    "between": _comparing(_between, 3),
    "is_in": _comparing(_is_in, 1, is_variadic=True),
    "and": _boolean(pc.and_kleene, 2),
    "or": _boolean(pc.or_kleene, 2),
    "not": _boolean(pc.invert, 1),
    "is_null": Function((Overload((ANY,), Types.BOOLEAN(), pc.is_null),)),
    "is_not_null": Function((Overload((ANY,), Types.BOOLEAN(), pc.is_valid),)),
    "is_nan": Function((Overload((NUMBER,), Types.BOOLEAN(), pc.is_nan),)),
    "coalesce": Function(
        (
            Overload((ANY,), None, pc.coalesce, is_variadic=True, is_uniform=True),
            Overload((INTEGER,), Types.LONG(), pc.coalesce, is_variadic=True),
            Overload((NUMBER,), Types.DOUBLE(), pc.coalesce, is_variadic=True),
            Overload((TEXT,), Types.STRING(), pc.coalesce, is_variadic=True),
        ),
        "values of one type, or numbers",
    ),
}
"""By name."""
