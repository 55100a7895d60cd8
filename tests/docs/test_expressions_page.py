"""The page on expressions shows what comes out, and knows every function there is."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.expressions.methods import ExpressionMethods
from tests.docs.documents import DOCS, example

PAGE = DOCS / "expressions.md"


def test_the_example_prints_what_it_says(tmp_path: Path) -> None:
    program = tmp_path / "orders.py"
    program.write_text(example(PAGE, "expressions"))
    ran = CliRunner().invoke(app, ["run", "--runtime", "local", "--no-progress", "-p", "1", str(program)])
    assert ran.exit_code == 0, ran.output
    shown = re.search(r"```\n(sizes>.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    assert sorted(ran.stdout.splitlines()) == sorted(shown[1].splitlines())


def test_every_function_is_listed() -> None:
    listed = set(re.findall(r"(\w+)\(", PAGE.read_text()))
    assert {name for name in vars(ExpressionMethods) if not name.startswith("_")} <= listed
