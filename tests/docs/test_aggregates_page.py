"""The page on aggregates shows what comes out, and knows all there are and which of them retract."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.datastream import aggregates
from tests.docs.documents import DOCS, example

PAGE = DOCS / "aggregates.md"


@pytest.mark.parametrize("name", ["aggregates", "own-aggregate"])
def test_the_example_prints_what_it_says(name: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(example(PAGE, name))
    ran = CliRunner().invoke(app, ["run", "--runtime", "local", "--no-progress", "-p", "1", str(program)])
    assert ran.exit_code == 0, ran.output
    text = PAGE.read_text()
    shown = re.search(r"```\n(\+I.*?)```", text[text.index(f"example: {name} ") :], re.DOTALL)
    assert shown is not None
    assert sorted(ran.stdout.splitlines()) == sorted(shown[1].splitlines())


def test_every_aggregate_is_listed_and_says_whether_it_retracts() -> None:
    rows = re.findall(r"^\| (`.*?) \|.*\| (yes|no) \|$", PAGE.read_text(), re.MULTILINE)
    listed = {name: retracts for names, retracts in rows for name in re.findall(r"`(\w+)\(", names)}
    functions = {name: getattr(aggregates, name) for name in aggregates.__all__ if name.islower()}
    assert listed == {
        name: "no" if function("v").why_not_retractable else "yes" for name, function in functions.items()
    }
