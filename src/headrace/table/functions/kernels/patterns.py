"""LIKE, SIMILAR TO and regular expressions, which are Java's."""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import count, groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels.bytewise import is_ascii
from headrace.table.functions.kernels.kernel import Datum, Invocation, Kernel, by_row, constant, map_rows

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
    "Cntrl": r"\x00-\x1f\x7f",
    "Graph": "!-~",
    "Print": " -~",
}
"""Classes of ASCII."""

_PROPERTIES: Final = {
    "Alphabetic": ("L", "Nl"),
    "Letter": ("L",),
    "Digit": ("Nd",),
    "Uppercase": ("Lu",),
    "Lowercase": ("Ll",),
    "Titlecase": ("Lt",),
    "Punctuation": ("P",),
    "Control": ("Cc",),
    "White_Space": ("Z",),
}
"""Properties of characters of all languages, by their categories of Unicode."""

_CATEGORY: Final = re.compile(r"C[cfnos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")

_PIECES: Final = re.compile(
    r"\\Q(?P<literal>.*?)(?:\\E|\Z)"
    r"|\\(?P<sense>[pP])(?:\{(?P<name>\w+)\}|(?P<short>[CLMNPSZ]))"
    r"|(?P<group>\(\?<(?![=!]))"
    r"|(?P<other>\\.|.)",
    re.DOTALL,
)

_SPACES: Final = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_SPELLINGS: Final = {r"\z": r"\Z", r"\h": f"[{_SPACES}]", r"\R": r"(?:\r\n|[\n\r])"}


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    r"""A regular expression of Java, in which classes such as ``\w`` are those of ASCII.

    Raises:
        re.error: when it is none.
    """
    return re.compile("".join(_PatternTranslation(pattern).pieces()), re.ASCII)


class _PatternTranslation:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def pieces(self) -> Iterator[str]:
        """The pieces of the pattern, as Python writes them."""
        while self.at < len(self.pattern):
            if self.pattern[self.at] == "[":
                yield self.character_class()
                continue
            found = self.piece()
            if found["name"] or found["short"]:
                yield f"[{'^' * (found['sense'] == 'P')}{_members(found)}]"
            else:
                yield _plain(found)

    def piece(self) -> re.Match[str]:
        """The next piece, which is then behind."""
        found = _PIECES.match(self.pattern, self.at)
        assert found is not None
        self.at = found.end()
        return found

    def character_class(self) -> str:
        """``[...]``, which matches one character: classes in it add to it, and ``&&`` keeps what is in both."""
        start = self.at
        self.at += 1
        is_negated = self.pattern.startswith("^", self.at)
        self.at += is_negated
        alternatives: list[list[str]] = [[]]
        members = ""
        while True:
            if self.at >= len(self.pattern):
                raise re.error("the class of characters does not end", self.pattern, start)
            if self.pattern[self.at] == "]" and (members or any(alternatives[-1]) or len(alternatives) > 1):
                self.at += 1
                break
            if self.pattern[self.at] == "[":
                alternatives[-1].append(self.character_class())
            elif self.pattern.startswith("&&", self.at):
                self.at += 2
                alternatives[-1] += [f"[{members}]"] * bool(members)
                alternatives.append([])
                members = ""
            else:
                found = self.piece()
                if found["sense"] == "P":
                    alternatives[-1].append(f"[^{_members(found)}]")
                else:
                    members += _members(found) if found["sense"] else _member(found)
        if not is_negated and len(alternatives) == 1 and not alternatives[0]:
            return f"[{members}]"
        alternatives[-1] += [f"[{members}]"] * bool(members)
        if is_negated and len(alternatives) == 1 and alternatives[0] == [f"[{members}]"]:
            return f"[^{members}]"
        *others, last = (f"(?:{'|'.join(each)})" for each in alternatives if each)
        joint = "".join(f"(?={each})" for each in others) + last
        return f"(?:(?!{joint})[\\s\\S])" if is_negated else f"(?:{joint})"


def _plain(found: re.Match[str]) -> str:
    """A piece outside of classes."""
    if found["literal"] is not None:
        return re.escape(found["literal"])
    return "(?P<" if found["group"] else _SPELLINGS.get(found[0], found[0])


def _member(found: re.Match[str]) -> str:
    """A piece within a class."""
    if found["literal"] is not None:
        return "".join(f"\\{letter}" if letter in "\\]^-[" else letter for letter in found["literal"])
    text = _SPELLINGS.get(found[0], found[0])
    if text.startswith("["):
        return text[1:-1]
    return "\\]" if text == "]" else text


def _members(found: re.Match[str]) -> str:
    r"""The characters that ``\p{...}`` stands for.

    Raises:
        re.error: when no class has the name.
    """
    name = found["name"] or found["short"]
    if name in _JAVA_CLASSES:
        return _JAVA_CLASSES[name]
    bare = name.removeprefix("Is")
    if bare in _PROPERTIES:
        return "".join(map(_of_category, _PROPERTIES[bare]))
    if not _CATEGORY.fullmatch(bare):
        raise re.error(f"the class of characters {found[0]} is not known")
    return _of_category(bare)


@cache
def _of_category(category: str) -> str:
    """The characters of a category of Unicode, as ranges."""
    places = (at for at in range(sys.maxunicode + 1) if unicodedata.category(chr(at)).startswith(category))
    ranges = []
    for _, group in groupby(enumerate(places), lambda pair: pair[1] - pair[0]):
        members = [at for _, at in group]
        ranges.append(f"\\U{members[0]:08x}-\\U{members[-1]:08x}")
    return "".join(ranges)


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
    if isinstance(text, pa.Array) and all(
        isinstance(each, pa.Scalar) and each.is_valid for each in (pattern, *escapes)
    ):
        regex = _similar(*(each.as_py() for each in (pattern, *escapes))).pattern
        if _SAFE.fullmatch(regex.removeprefix(r"\A(?:").removesuffix(r")\Z")):
            return pc.match_substring_regex(text, "(?s)" + regex.removesuffix(r"\Z") + r"\z")
    return map_rows(lambda *values: bool(_similar(*values[1:]).match(values[0])), call.storage, text, pattern, *escapes)


def _matching(function: Callable[..., Any], default: Any = None) -> Kernel:
    """A kernel of a function whose second operand is a pattern; where that is none the result is the default."""

    def of_row(text: str, pattern: str, *more: Any) -> Any:
        try:
            regex = compiled(pattern)
        except re.error:
            return default
        return function(text, regex, *more)

    return by_row(of_row)


_SAFE: Final = re.compile(
    r"""(?:[A-Za-z0-9 _\-,;:/@#%&=<>!"'~]"""
    r"""|\\[dws.\\\-/()\[\]{}*+?|^$]"""
    r"""|\[\^?(?:[A-Za-z0-9 _.,;:/@#%=<>!"'~\-]|&(?!&)|\\[dws.\\\-])+\]"""
    r"""|\((?!\?)|[)|.^]|[*+?](?!\+)|\{\d{1,3}(?:,\d{0,3})?\}(?!\+))*"""
)
"""Patterns that mean the same to Java and to RE2, which Arrow has."""


@lru_cache(maxsize=256)
def _is_safe(pattern: str, *, has_groups: bool = True) -> bool:
    """Return whether Arrow can take a pattern: one that fits no empty text, where both go on in other ways."""
    if not _SAFE.fullmatch(pattern) or (has_groups and re.search(r"\)[?*{]|\\\\", pattern)):
        return False
    try:
        fits_nothing = compiled(pattern).search("") is None
    except re.error:
        return False
    return fits_nothing and not (has_groups and _has_groups_in_alternatives(pattern))


def _has_groups_in_alternatives(pattern: str) -> bool:
    """Return whether a group may not take part in a match: Java has null for it then, and Arrow an empty text."""
    levels: list[set[str]] = [set()]
    for letter in re.findall(r"\\.|\[[^\]]*\]|([()|])", pattern):
        if letter == "(":
            levels.append(set())
        elif letter == "|":
            levels[-1].add(letter)
        elif letter == ")":
            if levels.pop() >= {"|", "("}:
                return True
            levels[-1].add("(")
    return levels[0] >= {"|", "("}


def _constant_pattern(text: Datum, pattern: Datum, *, has_groups: bool = True) -> str | None:
    """A pattern that Arrow can take for a whole column; None where it cannot."""
    if isinstance(text, pa.Scalar) or isinstance(pattern, pa.Array) or not pattern.is_valid:
        return None
    found: str = pattern.as_py()
    return found if _is_safe(found, has_groups=has_groups) else None


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


_finds: Final = _matching(lambda text, regex: bool(regex.pattern) and regex.search(text) is not None, default=False)
_replaces: Final = _matching(lambda text, regex, new: regex.sub(lambda _: new, text))
_extracts: Final = _matching(_extract)


def regexp(call: Invocation, text: Datum, pattern: Datum) -> Datum:
    """Return where a pattern is found in a text."""
    regex = _constant_pattern(text, pattern, has_groups=False)
    return pc.match_substring_regex(text, regex) if regex else _finds(call, text, pattern)


def regexp_replace(call: Invocation, text: Datum, pattern: Datum, new: Datum) -> Datum:
    """A text in which all that a pattern fits is replaced; the other text means itself."""
    regex = _constant_pattern(text, pattern, has_groups=False)
    if regex is None or isinstance(new, pa.Array) or not new.is_valid:
        return _replaces(call, text, pattern, new)
    return pc.replace_substring_regex(text, regex, new.as_py().replace("\\", "\\\\"))


def regexp_extract(call: Invocation, text: Datum, pattern: Datum, group: Datum | None = None) -> Datum:
    """The text that a group of a pattern matches, or the whole pattern when no group is given."""
    regex, groups = _constant_pattern(text, pattern), [] if group is None else [group]
    wanted = 0 if group is None else group.as_py() if isinstance(group, pa.Scalar) else None
    if regex is None or wanted is None or not 0 <= wanted <= compiled(regex).groups:
        return _extracts(call, text, pattern, *groups)
    found = pc.extract_regex(text, _named(regex))
    return pc.struct_field(found, [wanted])


def _named(pattern: str) -> str:
    """A pattern around which, and in all of whose groups, are names, as Arrow wants them."""
    numbers = count(1)
    named = re.sub(r"(\\.|\[[^\]]*\])|\(", lambda found: found[1] or f"(?P<g{next(numbers)}>", pattern)
    return f"(?P<g0>{named})"


regexp_extract_all: Final = _matching(_extract_all)
_counts: Final = _matching(lambda text, regex: sum(1 for _ in regex.finditer(text)))
_places: Final = _matching(_place)


def regexp_count(call: Invocation, text: Datum, pattern: Datum) -> Datum:
    """The number of times that a pattern is found in a text."""
    regex = _constant_pattern(text, pattern, has_groups=False)
    if regex is None or "^" in regex:  # to Arrow what follows a match begins anew
        return _counts(call, text, pattern)
    return pc.count_substring_regex(text, regex)


def regexp_instr(call: Invocation, text: Datum, pattern: Datum) -> Datum:
    """The position at which a pattern is found first in a text; 0 when it is not."""
    regex = _constant_pattern(text, pattern, has_groups=False)
    if regex is None or not is_ascii(text):
        return _places(call, text, pattern)
    found = pc.find_substring_regex(text, regex)
    return pc.add(found, constant(1, found.type))


def regexp_substr(call: Invocation, text: Datum, pattern: Datum) -> Datum:
    """The first text that a pattern matches."""
    return regexp_extract(call, text, pattern)


def split_by(pattern: str, text: str, limit: int = 0) -> list[str]:
    """The parts of a text between what a pattern fits, as Java's ``split`` has them.

    Args:
        pattern: the pattern.
        text: the text.
        limit: the most parts; 0 for any number, without empty ones at the end.

    Raises:
        ValueError: when the pattern is wrong.
    """
    try:
        regex = compiled(pattern)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r} is wrong: {error}") from None
    parts: list[str] = []
    end = 0
    for found in regex.finditer(text):
        if found.end() == 0:
            continue
        if limit and len(parts) == limit - 1:
            break
        parts.append(text[end : found.start()])
        end = found.end()
    parts.append(text[end:])
    while not limit and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
