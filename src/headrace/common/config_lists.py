"""Lists in configuration values: Flink's ``a;b`` and the lists of YAML, which its configuration files have."""

from __future__ import annotations

import re
from typing import Any, Final

_QUOTED: Final = re.compile(r"""'(?P<single>(?:[^']|'')*)'|"(?P<double>(?:[^"\\]|\\.)*)\"""")
_FLOW_ITEM: Final = re.compile(rf"\s*(?:{_QUOTED.pattern}|(?P<plain>[^\s'\"\[\]{{}},][^\[\]{{}},]*))\s*(?:,|$)")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_INTEGER: Final = re.compile(r"[-+]?\d+")
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")
_WORDS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~"), None),
}


def parse_list(text: str) -> list[Any]:
    """The elements of a list: ``a;b``, ``[a, b]`` or, one a line, ``- a``. Without text there are none.

    In the lists of YAML what looks like a number, a boolean or null is one, unless it is in quotes.

    Raises:
        ValueError: when a list in YAML in brackets has anything but plain or quoted values in it.
    """
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        return _flow(stripped[1:-1])
    lines = [line.strip() for line in stripped.splitlines() if line.strip()]
    if lines and all(line.startswith("- ") for line in lines):
        return [_block_item(line[2:].strip()) for line in lines]
    return text.split(";") if text else []


def _flow(text: str) -> list[Any]:
    items: list[Any] = []
    position = 0
    while text[position:].strip():  # a comma may come last
        match = _FLOW_ITEM.match(text, position)
        if match is None:
            raise ValueError(f"a list of plain or quoted values, such as [a, 'b'], not [{text}]")
        items.append(_quoted(match) if match["plain"] is None else _plain(match["plain"].strip()))
        position = match.end()
    return items


def _block_item(text: str) -> Any:
    match = _QUOTED.fullmatch(text)
    return _plain(text) if match is None else _quoted(match)


def _quoted(match: re.Match[str]) -> str:
    if match["single"] is not None:
        return match["single"].replace("''", "'")
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), match["double"])


def _plain(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return _WORDS.get(text, text)
