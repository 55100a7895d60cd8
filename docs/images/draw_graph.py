"""Draws the picture of the demo's plan, for the documentation: python docs/images/draw_graph.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = HERE.parent.parent / "examples" / "card_fraud" / "job.py"
PICTURE = HERE / "card_fraud.svg"
COMMAND = ("explain", "-p", "2", "--format", "svg", str(PROGRAM))
"""Of ``headrace``; it prints the picture."""


def drawn() -> str:
    """The picture as headrace draws it now."""
    command = [sys.executable, "-m", "headrace", *COMMAND]
    return subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
