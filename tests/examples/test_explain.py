"""Every example can be explained, without Spark and without its input being read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = [*sorted(ROOT.glob("*.py")), ROOT / "card_fraud" / "job.py"]


FORMATS = ("text", "mermaid", "json")


def explained() -> Iterator[tuple[Path, str]]:
    """Each example in each format, but for the one that starts a broker."""
    for example in EXAMPLES:
        yield from ((example, fmt) for fmt in (FORMATS[:1] if example.stem == "kafka_totals" else FORMATS))


@pytest.mark.parametrize(("example", "fmt"), [*explained()], ids=lambda each: getattr(each, "stem", each))
def test_examples_can_be_explained(example: Path, fmt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["explain", "-p", "2", "--format", fmt, str(example)])
    assert result.exit_code == 0, result.stderr
    assert result.stdout
    assert list(tmp_path.iterdir()) == []
