"""Regular expressions of Java as those of Python."""

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import groupby
from typing import Final

_POSIX: Final = {
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
    if name in _POSIX:
        return _POSIX[name]
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
