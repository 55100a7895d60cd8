"""Names are made of the field's words (docs/glossary.md); docstrings do not repeat names, and are no fragments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import headrace

ROOT = Path(headrace.__file__).parent

BANNED = re.compile(r"(^|_)(un)?(told|asked|asks|judged|sieve|let_go|takes?_up|taken_up)(_|$)")
"""Words that say less than the field's: received, requested, evaluated, filter, closed, restored."""

FRAGMENT = re.compile(r"(What|Those|That of|Whether|How|Who|Where|When|Which|Why|So (long|many|much|often)|As)\b")
"""Beginnings of questions and references without a noun: a docstring names what it describes, or what a call does."""

PERSONS = re.compile(r"\b(told|asked|asks|nobody|somebody|whoever)\b", re.IGNORECASE)
"""Words for people; programs call, request, read and return."""

LITERAL = re.compile(r"``[^`]+``")
"""Code in a docstring, such as the name of a file, is no prose."""

DEFINED = re.compile(r"^\s*(?:async )?(?:def|class) (\w+)", re.MULTILINE)
SIGNATURE = r"\((?:[^\n]*|\n(?: +[*\w][^\n]*\n)+ *)\)(?: -> [^\n]+)?"
PRIVATE = re.compile(rf'(?:def|class) (_[a-zA-Z]\w*)((?:{SIGNATURE})?):\n +"""([^"\n]+)"""\n')
FILLERS = set(
    re.findall(r"\w+", "a all an and are as be by each for from in is it its of on one or that the these this to with")
)


def sources() -> Iterator[tuple[Path, str]]:
    return ((path, path.read_text()) for path in sorted(ROOT.rglob("*.py")))


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            match each:
                case ast.Expr(ast.Constant(str(text))):
                    yield text.strip()


def words_of(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def test_classes_and_functions_have_the_words_of_the_field() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in sources()
        for name in DEFINED.findall(text)
        if BANNED.search(snake(name))
    }
    assert found == set(), "take a word of docs/glossary.md"


def test_docstrings_of_private_code_say_more_than_its_name() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}: {text}"
        for path, source in sources()
        for name, signature, text in PRIVATE.findall(source)
        if not {word.lower() for word in re.findall(r"[A-Za-z]+", text)} - FILLERS - words_of(name + signature)
    }
    assert found == set(), "leave it out, or say what the name cannot"


def test_docstrings_name_what_they_describe() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for path, source in sources()
        for text in docstrings(source)
        if FRAGMENT.match(text) or PERSONS.search(LITERAL.sub("", text))
    }
    assert found == set(), "write a noun or a verb first; programs call, request, read and return"
