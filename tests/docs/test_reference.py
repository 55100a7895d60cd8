"""The API reference has every public name once; the examples of public classes and functions do what they show."""

from __future__ import annotations

import doctest
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.client.running import submission_defaults
from tests.docs import public_api
from tests.docs.documents import DOCS

PAGES = sorted((DOCS / "reference").glob("*.md"))
SETTINGS = {"headrace.runtime": "local", "parallelism.default": "1"}
FLAGS = doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS


def entries() -> list[str]:
    """What the pages ask for; the last one has what is not public but implemented by connectors."""
    return [path for page in PAGES for path in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)]


def test_every_public_name_is_there_once() -> None:
    paths = public_api.names()
    listed = Counter(id(paths[path]) for path in entries() if path in paths)
    missing = [path for path, value in paths.items() if id(value) not in listed]
    assert missing == []
    assert [path for path, value in paths.items() if listed[id(value)] > 1] == []
    assert public_api.ERRORS in entries()


def test_every_public_class_and_function_has_an_example() -> None:
    assert len(public_api.documentation()) > 100
    assert [path for path, text in public_api.documentation().items() if ">>> " not in text] == []


@pytest.mark.parametrize("path", public_api.documentation())
def test_examples(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}  # as in a program: its classes are pickled whole
    test = doctest.DocTestParser().get_doctest(public_api.documentation()[path], names, path, None, 0)
    shown: list[str] = []
    with submission_defaults(SETTINGS):
        result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=shown.append)
    assert result.failed == 0, "".join(shown)
