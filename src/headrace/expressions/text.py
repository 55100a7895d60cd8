"""Functions of text, which consists of Unicode code points."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.expressions.functions import TEXT, Datum, Function, Kernel, Overload

_ANYTHING: Final = {"%": ".*", "_": "."}
_PATTERN_PARTS: Final = re.compile(r"\\.|.", re.DOTALL)


def concat(*parts: Datum) -> Datum:
    """Texts one after the other; null when one of them is."""
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string()))


def _substring(text: Datum, *, start: int, length: int | None) -> Datum:
    if length is None:
        return pc.utf8_slice_codeunits(text, start)
    stop = start + length
    if start < 0 <= stop:  # up to the end, which is not position 0
        return pc.utf8_slice_codeunits(text, start)
    return pc.utf8_slice_codeunits(text, start, stop)


def _like(text: Datum, *, pattern: str) -> Datum:
    if "\\" not in pattern:
        return pc.match_like(text, pattern=pattern)
    # Arrow would take a backslash for itself in a pattern that asks no more than how a text begins or ends.
    parts = (_ANYTHING.get(part) or re.escape(part[1:] or part) for part in _PATTERN_PARTS.findall(pattern))
    return pc.match_substring_regex(text, pattern=rf"(?s)\A{''.join(parts)}\z")


def _giving(result: Any, kernel: Kernel) -> Function:
    return Function((Overload((TEXT,), result, kernel),))


FUNCTIONS: Final[dict[str, Function]] = {
    "upper": _giving(Types.STRING(), pc.utf8_upper),
    "lower": _giving(Types.STRING(), pc.utf8_lower),
    "strip": _giving(Types.STRING(), pc.utf8_trim_whitespace),
    "replace": _giving(Types.STRING(), pc.replace_substring),
    "substring": _giving(Types.STRING(), _substring),
    "length": _giving(Types.LONG(), pc.utf8_length),
    "contains": _giving(Types.BOOLEAN(), pc.match_substring),
    "starts_with": _giving(Types.BOOLEAN(), pc.starts_with),
    "ends_with": _giving(Types.BOOLEAN(), pc.ends_with),
    "like": _giving(Types.BOOLEAN(), _like),
    "concat": Function((Overload((TEXT,), Types.STRING(), concat, is_variadic=True),)),
}
"""By name."""
