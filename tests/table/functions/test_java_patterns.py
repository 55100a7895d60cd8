"""Regular expressions of Java, as Python reads them."""

from __future__ import annotations

import re

import pytest

from headrace.table.functions.kernels.patterns import compiled, split_by


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("[a-z&&[^l]]", list("heo")),
        ("[a-c[x-z]]", list("")),
        ("[^[hl]]", list("eoÉ1 ")),
        (r"[^h&&[\p{L}]]", list("elloÉ1 ")),
        (r"\p{L}", list("helloÉ")),
        (r"\P{L}", ["1", " "]),
        (r"[\p{Lu}\d]", ["É", "1"]),
        (r"\p{IsAlphabetic}+", ["helloÉ"]),
        (r"\p{Alpha}+", ["hello"]),
        (r"\Ql\E", ["l", "l"]),
        (r"[\Qe1\E]", ["e", "1"]),
        (r"\h", [" "]),
        ("[]1]", ["1"]),
        ("(?<x>l)o", ["lo"]),
    ],
)
def test_patterns_find_what_they_find_in_java(pattern: str, found: list[str]) -> None:
    assert [each[0] for each in compiled(pattern).finditer("helloÉ1 ")] == found


@pytest.mark.parametrize("pattern", ["(", "[a", r"\p{Nope}", "*"])
def test_wrong_patterns_are_wrong(pattern: str) -> None:
    with pytest.raises(re.error):
        compiled(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "limit", "parts"),
    [
        ("", "a1b", 0, ["a", "1", "b"]),
        ("", "a", 2, ["a", ""]),
        (",", "a,,b,,", 0, ["a", "", "b"]),
        (",", ",a", 0, ["", "a"]),
        ("=", "a=b=c", 2, ["a", "b=c"]),
        ("x", "", 0, [""]),
    ],
)
def test_texts_are_split_as_in_java(pattern: str, text: str, limit: int, parts: list[str]) -> None:
    assert split_by(pattern, text, limit) == parts
