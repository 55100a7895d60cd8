"""Documents of JSON as Python objects, whose numbers are kept as they are spelled."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import numpy as np

from headrace.common.typeinfo import Types
from headrace.common.values import handler_of
from headrace.formats.lines.format import BOM

MAX_DEPTH: Final = 200
"""How deep lists and objects of a document may be nested; whatever follows them down has a stack of 1,000 calls."""

BLANKS: Final = b" \t\r\n"
NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_ODD_NUMBER: Final = re.compile(rf"{_STRING.pattern.decode()}|(-?)(Inf|(?<=-)NaN)(?![A-Za-z])", re.DOTALL)
_STEPS: Final = bytes({**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", 255)}.get(byte, 0) for byte in range(256))


class JsonNumber(str):
    """The characters of a number, which only the type of its field turns into one."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=JsonNumber)


def document_of(message: bytes) -> Any:
    """The document that a message holds. Of a field that comes twice the last one counts.

    Raises:
        ValueError: when it is no document of JSON, or nested too deep.
    """
    refuse_deep(message)
    text = str(message.removeprefix(BOM), "utf-8")
    try:
        return _DECODER.decode(text)
    except ValueError as error:
        usual = _ODD_NUMBER.sub(_in_full, text)
        if usual != text:
            return document_of(usual.encode())
        raise ValueError(f"the text is not one document of JSON: {error}") from None


def _in_full(found: re.Match[str]) -> str:
    """``Inf`` and ``-NaN``, which Arrow's reader takes, as other readers know them; strings stay as they are."""
    if found[2] is None:
        return found[0]
    return f"{found[1]}Infinity" if found[2] == "Inf" else "NaN"


def refuse_deep(message: bytes) -> None:
    """Refuse a document that is nested too deep, before anything follows it down.

    Raises:
        ValueError: naming the limit.
    """
    if message.count(b"[") + message.count(b"{") <= MAX_DEPTH:
        return
    steps = np.frombuffer(_STRING.sub(b"", message).translate(_STEPS), np.int8)
    if np.cumsum(steps, dtype=np.int64).max(initial=0) > MAX_DEPTH:
        raise ValueError(f"the document has more than {MAX_DEPTH} levels of lists and objects")


def is_spelled_whole(number: str) -> bool:
    """Return whether a number has neither a fraction nor an exponent."""
    return number.removeprefix("-").isdigit()


def text_of(value: Any) -> str:
    """A value of a document as compact JSON, numbers as they were spelled."""
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(text_of, value))}]"
    if isinstance(value, dict):
        names = (f"{json.dumps(name, ensure_ascii=False)}:" for name in value)
        return f"{{{','.join(map(str.__add__, names, map(text_of, value.values())))}}}"
    return json.dumps(value, ensure_ascii=False)


def plain(value: Any) -> Any:
    """A value of a document without a type: whole numbers as ``int``, those with a fraction as ``Decimal``.

    Raises:
        ValueError: when a number has more digits than are read.
    """
    if isinstance(value, JsonNumber):
        if value in NOT_FINITE:
            return float(value)
        return int(value) if is_spelled_whole(value) else handler_of(Types.BIG_DEC()).parse(value)
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, dict):
        return dict(zip(value, map(plain, value.values()), strict=True))
    return value
