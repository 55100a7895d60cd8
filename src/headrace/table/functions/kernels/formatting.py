"""``PRINTF``: Java's format strings."""

import re
from decimal import Decimal
from typing import Any, Final

from headrace.table.functions.kernels.decimals import EXACT
from headrace.table.functions.kernels.kernel import by_row_with_nulls
from headrace.table.functions.kernels.spelling import double_text

_PIECE: Final = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_WHOLE: Final = "doxX"
_REAL: Final = "fFeEgG"


def _printf(pattern: str | None, *values: Any) -> str | None:
    if pattern is None:
        return None
    made, end, following = [], 0, iter(range(len(values)))
    for found in _PIECE.finditer(pattern):
        made.append(_checked(pattern[end : found.start()]))
        made.append(_piece(found, values, following))
        end = found.end()
    return "".join([*made, _checked(pattern[end:])])


def _checked(text: str) -> str:
    if "%" in text:
        raise ValueError(f"the format of PRINTF has a % that begins no conversion: {text!r}")
    return text


def _piece(found: re.Match[str], values: tuple[Any, ...], following: Any) -> str:
    place, flags, width, precision, conversion = found.groups()
    if conversion in "%n":
        return "%" if conversion == "%" else "\n"
    index = int(place) - 1 if place else next(following, None)
    if index is None or index >= len(values):
        raise ValueError(f"the format of PRINTF has {found[0]!r}, but there is no value for it")
    return _padded(_value(values[index], flags, precision, conversion, int(width or 0)), flags, int(width or 0))


def _padded(text: str, flags: str, width: int) -> str:
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _value(value: Any, flags: str, precision: str | None, conversion: str, width: int) -> str:
    if conversion in "bB":
        text = str(value if isinstance(value, bool) else value is not None)
        return text.upper() if conversion == "B" else text.lower()
    if value is None:
        text = "null" if precision is None else "null"[: int(precision)]
        return text.upper() if conversion.isupper() else text
    if conversion in "sS":
        text = _text(value) if precision is None else _text(value)[: int(precision)]
        return text.upper() if conversion == "S" else text
    if conversion in "cC":
        return chr(value)
    if conversion in _WHOLE + _REAL:
        return _number(value, flags, precision, conversion, width)
    raise ValueError(f"the format of PRINTF has no conversion %{conversion}")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return double_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: Any, flags: str, precision: str | None, conversion: str, width: int) -> str:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole != (conversion in _WHOLE):
        raise ValueError(f"the format of PRINTF has %{conversion}, which {value!r} is not for")
    sign = "+" if "+" in flags else " " if " " in flags else ""
    zeros = f"0{width}" if "0" in flags and width else ""
    comma = "," if "," in flags else ""
    if is_whole and conversion in "xXo" and value < 0:
        value += 1 << (32 if value >= -(1 << 31) else 64)  # the bits of an INT, or of a BIGINT
    if is_whole and "(" in flags and value < 0:
        return f"({format(-value, f'{zeros}{comma}{conversion}')})"
    if is_whole:
        return format(value, f"{sign}{zeros}{comma}{conversion}")
    if conversion in "eE":
        return format(float(value), f"{sign}{zeros}.{precision or 6}{conversion}")
    if conversion in "gG":
        return _general(float(value), int(precision or 6) or 1, f"{sign}{zeros}", conversion)
    rounded = Decimal(repr(value) if isinstance(value, float) else value)
    rounded = EXACT.quantize(rounded, Decimal(1).scaleb(-int(precision or 6)))
    return format(rounded, f"{sign}{zeros}{comma}f")


def _general(value: float, digits: int, flags: str, conversion: str) -> str:
    """``%g``: so many digits, in scientific notation where the number is very small or needs more digits."""
    scientific = format(value, f"{flags}.{digits - 1}{'E' if conversion == 'G' else 'e'}")
    exponent = int(scientific.lower().partition("e")[2])
    return format(value, f"{flags}.{digits - 1 - exponent}f") if value == 0 or -5 < exponent < digits else scientific


def _printf_or_null(pattern: str | None, *values: Any) -> str | None:
    """Format values; NULL where the format does not fit them, as in Flink."""
    try:
        return _printf(pattern, *values)
    except (ValueError, TypeError):
        return None


printf: Final = by_row_with_nulls(_printf_or_null)
