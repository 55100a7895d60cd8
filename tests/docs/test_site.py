"""The site has every page once, and shows it as it is meant."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.documents import DOCS, ROOT, pages

NAVIGATION = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1].split("\n\n")[0]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = Counter(re.findall(r"([\w/-]+\.md)$", NAVIGATION, re.MULTILINE))
    there = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert listed == Counter(there)


def prose(page: Path) -> str:
    """A page with a word for each block of code."""
    return re.sub(r"^( *)```.*?^\1```$", r"\1code", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_lists_are_written_as_the_site_needs_it(page: Path) -> None:
    text = prose(page)
    assert re.findall(r"\n\n( {1,3}\S.*)", text) == [], "what belongs to an item is indented by four spaces"
    begins = re.findall(r"^(?![-*|<#\s]|\d+\.).*\n(?:[-*]|\d+\.) .*", text, re.MULTILINE)
    assert begins == [], "a blank line in front of a list"
    follows = re.findall(r"^ {4,}\S.*\n(?:[-*]|\d+\.) .*", text, re.MULTILINE)
    assert follows == [], "a blank line behind a block of an item"


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Links, references and docstrings are right; an index, formatted signatures, colours would double the work."""
    pytest.importorskip("mkdocs")
    build = "import gc; gc.disable(); from mkdocs.__main__ import cli; cli()"  # a fifth of the time were collections
    command = [sys.executable, "-c", build, "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    left_out = dict.fromkeys(("SEARCH", "FORMATTED_SIGNATURES", "COLOURED_CODE"), "false")
    environment = os.environ | {f"DOCS_WITH_{name}": no for name, no in left_out.items()} | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    assert (tmp_path / "site" / "reference" / "streams" / "index.html").exists()
