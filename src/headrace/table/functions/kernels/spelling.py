"""Numbers as Java writes them."""

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels.kernel import EMPTY, TEXT, any_true, constant, map_rows

_PLAIN_BELOW: Final = 10_000_000
_PLAIN_FROM: Final = 1e-3

_REAL: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+[fFdD]?", re.ASCII)


def double_of(text: str) -> float | None:
    """The double that a text says, as Java reads it; None when it says none."""
    word = text.strip()
    if _REAL.fullmatch(word):
        return float(word if word.endswith(("NaN", "Infinity")) else word.rstrip("fFdD"))
    return float.fromhex(word.rstrip("fFdD")) if _HEXADECIMAL.fullmatch(word) else None


def double_text(value: float) -> str:
    """A double: the fewest digits that say it, two at least, with an exponent from 10 million on and below 0.001."""
    return _java(repr(value), value)


def float_text(value: float) -> str:
    """A float of 32 bits."""
    return _java(str(np.float32(value)), value)


def _java(shortest: str, value: float) -> str:
    if value != value:  # noqa: PLR0124
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if size == 0 or _PLAIN_FROM <= size < _PLAIN_BELOW:
        return shortest if "." in shortest else f"{shortest}.0"
    return _scientific(shortest, value)


def _scientific(shortest: str, value: float) -> str:
    mantissa, _, exponent = shortest.partition("e")
    if exponent:
        return f"{mantissa if '.' in mantissa else f'{value:.1e}'.partition('e')[0]}E{int(exponent)}"
    sign, unsigned = ("-", shortest[1:]) if value < 0 else ("", shortest)
    whole, _, fraction = unsigned.partition(".")
    if whole != "0":
        return f"{sign}{whole[0]}.{(whole[1:] + fraction).rstrip('0') or '0'}E{len(whole) - 1}"
    digits = fraction.lstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{len(digits) - len(fraction) - 1}"


def spelled(column: pa.Array) -> pa.Array:
    """Numbers as Java writes them."""
    if pa.types.is_floating(column.type):
        return _spelled_floats(column)
    if pa.types.is_decimal(column.type) and column.type.scale > _PLAIN_SCALE:
        return map_rows(lambda number: f"{number:f}", TEXT, column)
    return column.cast(TEXT)


_PLAIN_SCALE: Final = 6
"""Arrow writes no decimal of so few digits behind the point with an exponent."""


def _spelled_floats(column: pa.Array) -> pa.Array:
    """Format with Arrow where Java writes no exponent: the texts then differ for whole numbers only."""
    size = pc.abs(column)
    one = float_text if pa.types.is_float32(column.type) else double_text
    is_plain = pc.and_(pc.less(size, _PLAIN_BELOW), pc.greater_equal(size, constant(_PLAIN_FROM, pa.float64())))
    rest = pc.and_(pc.is_valid(column), pc.invert(is_plain))
    made = column.cast(TEXT)
    is_whole = pc.invert(pc.match_substring(made, "."))
    made = pc.if_else(is_whole, pc.binary_join_element_wise(made, constant(".0", TEXT), EMPTY), made)
    return pc.replace_with_mask(made, rest, map_rows(one, TEXT, column.filter(rest))) if any_true(rest) else made
