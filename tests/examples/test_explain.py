"""Every example can be explained, without Spark and without its input being read."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = [*sorted(ROOT.glob("*.py")), ROOT / "card_fraud" / "job.py"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("fmt", ["text", "mermaid", "json"])
def test_examples_can_be_explained(example: Path, fmt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["explain", "-p", "2", "--format", fmt, str(example)])
    assert result.exit_code == 0, result.stderr
    assert result.stdout
    assert list(tmp_path.iterdir()) == []
