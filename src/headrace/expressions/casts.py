"""Casts: which type can be made of which, and how. What a value of the other type does not hold is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import BasicType, BasicTypeInfo, TypeInformation
from headrace.common.typeinfo.base import FLOATS
from headrace.expressions.functions import (
    BOOLEAN,
    DATE,
    INSTANT,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    TIMESTAMP,
    ZONED,
    Datum,
    Family,
)

Caster = Callable[[Datum, pa.DataType], Datum]


def _plainly(value: Datum, target: pa.DataType) -> Datum:
    return value.cast(target)


def _number(value: Datum, target: pa.DataType) -> Datum:
    """Floats may be rounded; what is too large for 32 bits, or not whole where an integer is wanted, does not fit."""
    if not pa.types.is_floating(target):
        return value.cast(target)
    made = value.cast(target, safe=False)
    if pa.types.is_float32(target):
        lost = pc.and_(pc.is_inf(made), pc.invert(pc.is_inf(value.cast(pa.float64(), safe=False))))
        if pc.any(lost).as_py() if isinstance(lost, pa.Array) else lost.as_py():
            raise pa.ArrowInvalid("the number is too large for 32 bits")
    return made


def _spelled_float(value: Datum, target: pa.DataType) -> Datum:
    """As Arrow writes it, but a whole number with ``.0``."""
    text = value.cast(target)
    return pc.if_else(
        pc.match_substring_regex(text, r"^-?\d+$"), pc.binary_join_element_wise(text, pa.scalar(".0"), ""), text
    )


def _spelled_integer(value: Datum, target: pa.DataType) -> Datum:
    """Decimal digits with or without a sign; Arrow alone would take ``0x10`` as well."""
    wrong = pc.invert(pc.match_substring_regex(value, r"^[+-]?[0-9]+$"))
    if pc.any(wrong).as_py() if isinstance(wrong, pa.Array) else wrong.as_py():
        texts = value.filter(wrong) if isinstance(value, pa.Array) else [value]
        raise pa.ArrowInvalid(f"{texts[0].as_py()!r} is no integer")
    return pc.replace_substring_regex(value, r"^\+", "").cast(target)


def _decimal_text(value: Datum, _: pa.DataType) -> Datum:
    value.cast(pa.decimal256(76, 38))  # refuses what is no decimal
    return value


def _of_decimal(value: Datum, target: pa.DataType) -> Datum:
    return value.cast(pa.decimal256(76, 38)).cast(target)


def _as_it_is(value: Datum, _: pa.DataType) -> Datum:
    return value


def _part_of_day(value: Datum, target: pa.DataType) -> Datum:
    return value.cast(target, safe=False)


FLOAT: Final = Family("a float", FLOATS)
_DECIMAL: Final = Family("a decimal", frozenset({BasicType.BIG_DEC}))
_STRING: Final = Family("text", frozenset({BasicType.STRING}))

_CASTS: Final[tuple[tuple[Family, Family, Caster], ...]] = (
    (NUMBER, NUMBER, _number),
    (BOOLEAN, NUMBER, _plainly),
    (INTEGER, _DECIMAL, _plainly),
    (_DECIMAL, INTEGER, _of_decimal),
    (_DECIMAL, FLOAT, _plainly),
    (_DECIMAL, _STRING, _as_it_is),
    (FLOAT, _STRING, _spelled_float),
    (INTEGER, _STRING, _plainly),
    (BOOLEAN, _STRING, _plainly),
    (DATE, _STRING, _plainly),
    (TIME, _STRING, _plainly),
    (TIMESTAMP, _STRING, _plainly),
    (TEXT, _STRING, _as_it_is),
    (TEXT, INTEGER, _spelled_integer),
    (TEXT, NUMBER, _plainly),
    (TEXT, BOOLEAN, _plainly),
    (TEXT, DATE, _plainly),
    (TEXT, TIMESTAMP, _plainly),
    (TEXT, _DECIMAL, _decimal_text),
    (DATE, TIMESTAMP, _plainly),
    (TIMESTAMP, DATE, _part_of_day),
    (TIMESTAMP, TIME, _part_of_day),
    (TIMESTAMP, ZONED, _plainly),
    (ZONED, TIMESTAMP, _plainly),
    (ZONED, INSTANT, _plainly),
    (INSTANT, ZONED, _plainly),
)
"""From, to, how; the first that fits is taken. Timestamps without a zone are taken for UTC where one is wanted."""


def caster(source: TypeInformation, target: TypeInformation) -> Caster | None:
    """How values of one type become values of another; None when they do not."""
    if source == target:
        return _as_it_is
    return next((how for given, made, how in _CASTS if given.takes(source) and made.takes(target)), None)


def targets_of(source: TypeInformation) -> list[str]:
    """The names of the types that values of a type can be cast to."""
    return [kind.name for kind in BasicType if caster(source, BasicTypeInfo(kind)) is not None]
