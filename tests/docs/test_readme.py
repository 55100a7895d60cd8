"""What the README shows works, and what the pages link to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from tests.docs.documents import DOCS, README, example, pages

SITE = "https://headrace.github.io/headrace/"
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def test_the_first_job_prints_what_it_says(tmp_path: Path) -> None:
    program = tmp_path / "spending.py"
    program.write_text(example(README, "first job"))
    ran = CliRunner().invoke(app, ["run", "--runtime", "local", "--no-progress", "-p", "1", str(program)])
    assert ran.exit_code == 0, ran.output
    shown = re.search(r"```\n\$ headrace run -p 1 spending\.py\n(.*?)```", README.read_text(), re.DOTALL)
    assert shown is not None
    assert ran.stdout == shown[1]


def test_imports_of_ported_programs() -> None:
    found = re.search(r"in the imports:\n\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    exec(found[1], {})


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        path, _, anchor = target.partition("#")
        if path.startswith(SITE):
            linked = DOCS / f"{path.removeprefix(SITE).strip('/') or 'index'}.md"
        elif re.match(r"https?://", path):
            continue
        else:
            linked = page.parent / path if path else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in _anchors(linked), f"{page.name} links to {target}"


def _anchors(page: Path) -> set[str]:
    """What headings are called in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
