"""Pictures of the documentation are those that headrace draws now."""

from __future__ import annotations

from typer.testing import CliRunner

from headrace.cli.main import app
from tests.docs.documents import DOCS, ROOT

PROGRAM = ROOT / "examples" / "card_fraud.py"
PICTURE = DOCS / "images" / "card_fraud.svg"


def test_the_plan_of_the_demo() -> None:
    drawn = CliRunner().invoke(app, ["explain", "-p", "2", "--format", "svg", str(PROGRAM)])
    assert drawn.exit_code == 0, drawn.output
    assert PICTURE.read_text(encoding="utf-8") == drawn.stdout, "run: python docs/images/draw_graph.py"
