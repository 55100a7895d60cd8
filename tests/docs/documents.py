"""Finds what is in the documentation: code, tables, links."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"


def pages() -> list[Path]:
    """All Markdown in the root of the repository, the README among it, and everything in docs."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def example(page: Path, name: str, language: str = "python") -> str:
    """The code that follows the comment ``<!-- example: name -->``."""
    found = re.search(rf"<!-- example: {name} -->\n```{language}\n(.*?)```", page.read_text(), re.DOTALL)
    assert found is not None, f"{page.name} has no example {name!r}"
    return found[1]


def between(text: str, name: str) -> str:
    """What stands between the comments ``<!-- name -->`` and ``<!-- /name -->``."""
    return text.split(f"<!-- {name} -->\n", 1)[1].split(f"<!-- /{name} -->", 1)[0]


def tables(text: str) -> list[list[str]]:
    """The cells of all rows of tables, without headings and the lines below them."""
    lines = text.splitlines()
    rows = []
    for number, line in enumerate(lines):
        is_rule = re.fullmatch(r"\|(-+\|)+", line) is not None
        is_heading = number + 1 < len(lines) and re.fullmatch(r"\|(-+\|)+", lines[number + 1]) is not None
        if line.startswith("|") and not is_rule and not is_heading:
            rows.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def is_test(name: str) -> bool:
    """Whether ``tests/file.py::test_name`` is there."""
    path, _, test = name.partition("::")
    return path.startswith("tests/") and test in _tests_of(path)


@cache
def _tests_of(path: str) -> frozenset[str]:
    """The names of the test functions of a file."""
    if not (ROOT / path).is_file():
        return frozenset()
    body = ast.parse((ROOT / path).read_text()).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
