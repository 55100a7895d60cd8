"""Every example can be explained, without Spark and without its input being read."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = [*sorted(ROOT.glob("*.py")), ROOT / "card_fraud" / "job.py"]
ARGUMENTS = {"kafka_totals": ("--events", "0", "--bootstrap-servers", "127.0.0.1:1")}
"""Without these it would start a broker."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("fmt", ["text", "mermaid", "json"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.stem)
def test_examples_can_be_explained(example: Path, fmt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["explain", "-p", "2", "--format", fmt, str(example), *ARGUMENTS.get(example.stem, ())]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stderr
    assert result.stdout
    assert list(tmp_path.iterdir()) == []
