"""The tokenizer, by the lexical rules of Flink's parser: one regular expression, with one match per token.

Nothing is refused here: invalid text becomes a token of kind :data:`BAD`, which the parser reports. So a text can be
highlighted and split while it is still being typed.
"""

import re
from typing import Final, NamedTuple

from headrace.table.parse.keywords import KEYWORDS

NAME: Final = "name"
QUOTED: Final = "quoted name"
INTEGER: Final = "integer"
DECIMAL: Final = "decimal"
APPROXIMATE: Final = "approximate number"
STRING: Final = "string"
BINARY: Final = "binary string"
UNICODE: Final = "unicode string"
ESCAPED: Final = "escaped string"
BAD: Final = "bad"
END: Final = "end"

_LETTER: Final = r"A-Za-z_$\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u3040-\u318f\u3300-\u3d2d\u4e00-\u9fff\uf900-\ufaff"
_DIGIT: Final = (
    r"0-9\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u09e6-\u09ef\u0a66-\u0a6f\u0ae6-\u0aef\u0b66-\u0b6f\u0be7-\u0bef"
    r"\u0c66-\u0c6f\u0ce6-\u0cef\u0d66-\u0d6f\u0e50-\u0e59\u0ed0-\u0ed9\u1040-\u1049"
)
_QUOTE: Final = r"'(?:[^']|'')*'"

_TOKEN: Final = re.compile(
    rf"""
    (?:[ \t\n\r\f]+|(?:--|//)[^\n\r]*|/\*(?!\+).*?\*/)*+
    (?:
      (?P<word>(?![xXuUeEnN_])[{_LETTER}][{_LETTER}{_DIGIT}]*)
    | (?P<symbol>[(),]|/\*\+|\*/|<=|>=|<>|!=|=>|\|\||\.\.|(?!\.[0-9]|/\*)[\[\]{{}};.=<>?:+\-*/%|^])
    | (?P<string>{_QUOTE})
    | (?P<quoted>`(?:[^`\n\r]|``)+`)
    | (?P<approximate>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+)
    | (?P<decimal>[0-9]+\.[0-9]*|\.[0-9]+)
    | (?P<integer>[0-9]+)
    | (?P<binary>[xX]{_QUOTE})
    | (?P<unicode>[uU]&{_QUOTE})
    | (?P<escaped>[eE]'(?:[^'\\]|\\.|'')*')
    | (?P<prefixed>(?:[nN]|_[A-Za-z0-9][A-Za-z0-9:.\-_]*){_QUOTE})
    | (?P<other_word>[{_LETTER}][{_LETTER}{_DIGIT}]*)
    | (?P<bad>/\*.*|'.*|`[^\n\r]*|"[^"\n\r]*"?|\\.?|.)
    | $
    )
    """,
    re.VERBOSE | re.DOTALL,
)
"""A token with the spaces and comments before it. Words come first, unless they may be the prefix of a string."""

_KINDS: Final = {
    "word": NAME,
    "symbol": None,
    "string": STRING,
    "quoted": QUOTED,
    "approximate": APPROXIMATE,
    "decimal": DECIMAL,
    "integer": INTEGER,
    "binary": BINARY,
    "unicode": UNICODE,
    "escaped": ESCAPED,
    "prefixed": STRING,
    "other_word": NAME,
    "bad": BAD,
}
"""Kinds of tokens by group of the regular expression; a symbol is its own kind."""

_BY_GROUP: Final = (None, *(_KINDS[name] for name in _TOKEN.groupindex))


class Token(NamedTuple):
    """A piece of a text.

    Attributes:
        kind: a keyword in upper case, a symbol, or one of the kinds in lower case.
        text: its text.
        start: the offset of its first character.
        end: the offset after its last character.
    """

    kind: str
    text: str
    start: int
    end: int


def tokenize(text: str, start: int = 0) -> list[Token]:
    """The tokens of a text from an offset on, without spaces and comments; the last one is of kind :data:`END`."""
    found: list[Token] = []
    add, keyword, make = found.append, KEYWORDS.get, tuple.__new__  # a third of the time of Token(...)
    for match in _TOKEN.finditer(text, start):
        group = match.lastindex
        if group is None:
            continue
        piece = match[group]
        kind = _BY_GROUP[group] or piece
        if kind is NAME:
            kind = keyword(piece.upper(), NAME)
        add(make(Token, (kind, piece, *match.span(group))))
    add(Token(END, "", len(text), len(text)))
    return found


# --- what tokens stand for -------------------------------------------------------------------------------------------

_HEXADECIMAL: Final = re.compile(r"(?:[0-9A-Fa-f]{2})*")
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_BACKSLASH: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL
)


def name_of(token: Token) -> str:
    """The name of a word or a quoted name."""
    return token.text[1:-1].replace("``", "`") if token.kind == QUOTED else token.text


def text_of(token: Token) -> str:
    """The value of a string."""
    first = token.text.index("'")
    text = token.text[first + 1 : -1].replace("''", "'")
    return _BACKSLASH.sub(_unescaped, text) if token.kind == ESCAPED else text


def bytes_of(text: str) -> bytes | None:
    """The bytes of hexadecimal digits; None when they are not whole bytes."""
    return bytes.fromhex(text) if _HEXADECIMAL.fullmatch(text) else None


def unicode_of(text: str, escape: str) -> str | None:
    """The value of a string ``U&'...'``; None when an escape lacks its four hexadecimal digits."""
    pattern = rf"{re.escape(escape)}(?:({re.escape(escape)})|([0-9A-Fa-f]{{4}})|(.?))"
    wrong = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal wrong
        if match[1]:
            return escape
        wrong = wrong or not match[2]
        return chr(int(match[2], 16)) if match[2] else ""

    result = re.sub(pattern, replaced, text, flags=re.DOTALL)
    return None if wrong else result


def _unescaped(match: re.Match[str]) -> str:
    octal, *hexadecimal, letter = match.groups()
    if octal:
        return chr(int(octal, 8))
    for digits in hexadecimal:
        if digits:
            code = int(digits, 16)
            return chr(code) if code <= 0x10FFFF else "\ufffd"
    return _ESCAPES.get(letter, letter)
