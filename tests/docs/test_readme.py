"""What the README shows works, and what the pages link to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from tests.docs.documents import DOCS, README, ROOT, example, pages

REPOSITORY = "https://github.com/headrace/headrace/"
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


def test_the_first_query_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spending.sql").write_text(example(README, "first query", "sql"))
    Path("payments.csv").write_text(
        "ann,12.5,2026-01-01 00:00:01\nbob,80.0,2026-01-01 00:00:02.5\n"
        "ann,7.5,2026-01-01 00:00:01.5\nann,3.0,2026-01-01 00:01:01\n"
    )
    ran = CliRunner().invoke(app, ["sql", "--runtime", "local", "--no-progress", "-f", "spending.sql"])
    assert ran.exit_code == 0, ran.output
    shown = re.search(r"```\n\$ headrace sql -f spending\.sql\n(.*?)```", README.read_text(), re.DOTALL)
    assert shown is not None
    assert ran.stdout.rstrip() == shown[1].rstrip()


def test_imports_of_ported_programs() -> None:
    found = re.search(r"in the imports:\n\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    exec(found[1], {})


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        linked = _linked(page, target)
        if linked is None:
            continue
        assert linked.exists(), f"{page.name} links to {target}"
        anchor = target.partition("#")[2]
        if anchor:
            assert anchor in _anchors(linked), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_site_has_what_its_pages_link_to(page: Path) -> None:
    relative = [target for target in LINK.findall(page.read_text()) if not target.startswith(("https:", "http:", "#"))]
    if DOCS in page.parents:
        outside = [target for target in relative if DOCS not in (page.parent / target).resolve().parents]
        assert outside == [], f"write {REPOSITORY}blob/main/..."


def _linked(page: Path, target: str) -> Path | None:
    """The file that a link means; None for what is elsewhere."""
    path = target.partition("#")[0]
    if path.startswith(SITE):
        return DOCS / f"{path.removeprefix(SITE).strip('/') or 'index'}.md"
    if path.startswith((f"{REPOSITORY}blob/main/", f"{REPOSITORY}tree/main/")):
        return ROOT / path.removeprefix(REPOSITORY).partition("/main/")[2]
    if re.match(r"https?://", path):
        return None
    return page.parent / path if path else page


def _anchors(page: Path) -> set[str]:
    """What headings are called in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
