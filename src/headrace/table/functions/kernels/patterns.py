"""LIKE, SIMILAR TO and regular expressions, which are Java's."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels.kernel import Datum, Invocation, Kernel, by_row, map_rows

_LIKE_LETTERS: Final = {"%": ".*", "_": "."}


def like(call: Invocation, text: Datum, pattern: Datum, escape: Datum | None = None) -> Datum:
    """Return where a text is as a pattern says: ``%`` stands for any text, ``_`` for any character."""
    if isinstance(pattern, pa.Scalar) and pattern.is_valid and (escape is None or isinstance(escape, pa.Scalar)):
        letter = None if escape is None else escape.as_py()
        if letter is None and "\\" not in pattern.as_py():
            return pc.match_like(text, pattern=pattern.as_py())
        return pc.match_substring_regex(text, pattern=rf"(?s)\A{_like_regex(pattern.as_py(), letter)}\z")
    escapes = [] if escape is None else [escape]
    return map_rows(lambda *values: bool(_like(*values[1:]).match(values[0])), call.storage, text, pattern, *escapes)


@lru_cache(maxsize=1024)
def _like(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    return re.compile(rf"\A{_like_regex(pattern, escape)}\Z", re.DOTALL)


def _like_regex(pattern: str, escape: str | None) -> str:
    if escape is not None and len(escape) != 1:
        raise ValueError(f"the escape character of LIKE is one character, not {escape!r}")
    made, letters = [], iter(pattern)
    for letter in letters:
        if letter == escape:
            escaped = next(letters, None)
            if escaped is None or escaped not in (*_LIKE_LETTERS, escape):
                raise ValueError(
                    f"in the pattern {pattern!r} the escape character stands before none of %, _ and itself"
                )
            made.append(re.escape(escaped))
        else:
            made.append(_LIKE_LETTERS.get(letter) or re.escape(letter))
    return "".join(made)


@lru_cache(maxsize=1024)
def _similar(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    try:
        return re.compile(rf"\A(?:{_similar_regex(pattern, escape)})\Z", re.DOTALL)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r} of SIMILAR TO is wrong: {error}") from None


def _similar_regex(pattern: str, escape: str | None) -> str:
    made, in_class, letters = [], False, iter(pattern)
    for letter in letters:
        if letter == escape:
            made.append(re.escape(next(letters, "")))
        elif in_class or letter == "[":
            in_class = letter != "]"
            made.append(letter)
        else:
            made.append(_LIKE_LETTERS.get(letter, letter))
    return re.sub(r"\[:(\w+):\]", _posix_class, "".join(made))


_POSIX: Final = {
    "ALPHA": "a-zA-Z",
    "UPPER": "A-Z",
    "LOWER": "a-z",
    "DIGIT": "0-9",
    "ALNUM": "a-zA-Z0-9",
    "SPACE": " ",
    "WHITESPACE": r"\s",
}


def _posix_class(found: re.Match[str]) -> str:
    return _POSIX.get(found[1].upper(), found[0])


def similar_to(call: Invocation, text: Datum, pattern: Datum, escape: Datum | None = None) -> Datum:
    """Return where a text is as a regular expression of SQL says."""
    escapes = [] if escape is None else [escape]
    return map_rows(lambda *values: bool(_similar(*values[1:]).match(values[0])), call.storage, text, pattern, *escapes)


_JAVA_CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r"\s",
    "Blank": r" \t",
    "XDigit": "0-9a-fA-F",
    "ASCII": r"\x00-\x7f",
    "L": r"^\W\d_",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": r"\d",
    "Nd": r"\d",
}

_JAVA_PARTS: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\p\{(\w+)\}|\(\?<(?![=!])|\\(z)|\\(h)|\\(R)|\\.|.", re.DOTALL)
"""Pieces of a pattern of Java that Python writes in another way."""


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """A regular expression of Java, in which classes such as that of letters are those of ASCII.

    Raises:
        re.error: when it is none.
    """
    return re.compile(_JAVA_PARTS.sub(_in_python, pattern), re.ASCII)


def _in_python(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("\\Q"):
        return re.escape(found[1])
    if found[2]:
        members = _JAVA_CLASSES.get(found[2].removeprefix("Is"))
        if members is None:
            raise re.error(f"the class of characters {text} is not known")
        return f"[{members}]"
    return _SPELLINGS.get(text, text)


_SPELLINGS: Final = {"(?<": "(?P<", "\\z": "\\Z", "\\h": "[ \\t]", "\\R": "(?:\\r\\n|[\\n\\r])"}


def _matching(function: Callable[..., Any], default: Any = None) -> Kernel:
    """A kernel of a function whose second operand is a pattern; where that is none the result is the default."""

    def of_row(text: str, pattern: str, *more: Any) -> Any:
        try:
            regex = compiled(pattern)
        except re.error:
            return default
        return function(text, regex, *more)

    return by_row(of_row)


def _extract(text: str, regex: re.Pattern[str], group: int = 0) -> str | None:
    found = regex.search(text)
    if found is None or not 0 <= group <= regex.groups:
        return None
    return found[group]


def _extract_all(text: str, regex: re.Pattern[str], group: int = 1) -> list[str | None] | None:
    if not 0 <= group <= regex.groups:
        return None
    return [found[group] for found in regex.finditer(text)]


def _place(text: str, regex: re.Pattern[str]) -> int:
    found = regex.search(text)
    return 0 if found is None else found.start() + 1


regexp: Final = _matching(lambda text, regex: regex.search(text) is not None, default=False)
regexp_replace: Final = _matching(lambda text, regex, new: regex.sub(lambda _: new, text))
regexp_extract: Final = _matching(_extract)
regexp_extract_all: Final = _matching(_extract_all)
regexp_count: Final = _matching(lambda text, regex: sum(1 for _ in regex.finditer(text)))
regexp_instr: Final = _matching(_place)
regexp_substr: Final = _matching(_extract)
