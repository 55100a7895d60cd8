"""Tokens cover a text, and no text is one that they cannot cover."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.table.parse import SqlParseError, parse_script
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tokens import BAD, END, NAME, QUOTED, STRING, bytes_of, name_of, text_of, tokenize, unicode_of
from tests.draws import draws
from tests.table.conformance.cases import groups, statements

PIECES = [
    "SELECT",
    " a",
    "`b c`",
    "'x''y'",
    "1.5e3",
    ".5",
    "<>",
    "/*+",
    "*/",
    "--c\n",
    "/* d */",
    "(",
    ")",
    ",",
    "'",
    "`",
]
TEXTS = st.text("aB1_$ \n'`\"-/*+.,()<>=\\é😀") | st.lists(st.sampled_from(PIECES)).map(" ".join)


def kinds(text: str) -> list[str]:
    return [token.kind for token in tokenize(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select Label foo", ["SELECT", "LABEL", NAME]),
        ("`a``b` été $x _y", [QUOTED, NAME, NAME, NAME]),
        (
            "1 1. .5 1.5 1e3 1.5E-3",
            ["integer", "decimal", "decimal", "decimal", "approximate number", "approximate number"],
        ),
        (
            "'a' N'a' _utf8'a' U&'a' x'00' E'a'",
            [STRING, STRING, STRING, "unicode string", "binary string", "escaped string"],
        ),
        ("x U E N _", [NAME, NAME, NAME, NAME, NAME]),
        ("a--b\n//c\n/* d\n */e /**/", ["A", NAME]),
        ("/*+ a */", ["/*+", "A", "*/"]),
        ("<= >= <> != => || | .. . ->", ["<=", ">=", "<>", "!=", "=>", "||", "|", "..", ".", "-", ">"]),
        ('"a" \'b', [BAD, BAD]),
    ],
)
def test_kinds(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


def test_values() -> None:
    quoted, text, escaped = tokenize("`a``b` 'it''s' E'a\\n\\x41\\u00e9'")[:-1]
    assert (name_of(quoted), text_of(text), text_of(escaped)) == ("a`b", "it's", "a\nAé")
    assert (bytes_of("0Aff"), bytes_of("0"), bytes_of("0g")) == (b"\n\xff", None, None)
    assert (unicode_of("\\0041\\\\", "\\"), unicode_of("!00", "!")) == ("A\\", None)


@given(TEXTS)
@settings(max_examples=draws(360), deadline=None)
def test_tokens_stand_where_they_say(text: str) -> None:
    found = tokenize(text)
    assert [text[token.start : token.end] for token in found] == [token.text for token in found]
    assert all(left.end <= right.start for left, right in itertools.pairwise(found))
    assert found[-1].kind == END
    between = "".join(text[left.end : right.start] for left, right in itertools.pairwise(found))
    assert kinds(between + "\n") == []


STATEMENTS = sorted({statement for group in groups() for _, statement, _ in statements(group)})


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A statement with pieces of another one in place of some of its own."""
    one, other = ([token.text for token in tokenize(draw(st.sampled_from(STATEMENTS)))] for _ in range(2))
    start, stop, begin, end = (draw(st.integers(0, len(each))) for each in (one, one, other, other))
    return " ".join([*one[:start], *other[begin : min(end, begin + 3)], *one[max(start, stop) :]])


@given(TEXTS | damaged())
@settings(max_examples=draws(360), deadline=None)
def test_no_text_fails_in_another_way(text: str) -> None:
    error = None
    try:
        parse_script(text)
    except SqlParseError as raised:
        error = raised
    if error is not None:
        assert error.position == SqlSource(text).position(error.position.offset)
        assert 0 <= error.position.offset <= len(text)
