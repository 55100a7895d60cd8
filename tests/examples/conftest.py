"""Runs examples as users do: through the command line, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace

EXAMPLES = Path(__file__).parents[2] / "examples"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_example(tmp_path: Path) -> Run:
    """Runs an example; fails the test when the example fails."""

    def run(name: str, *arguments: object, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace", "run", "--traceback", *options, str(EXAMPLES / name)]
        source = str(Path(headrace.__file__).parent.parent)
        finished = subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": source},
        )
        assert finished.returncode == 0, finished.stderr
        return finished

    return run


@pytest.fixture
def read_lines() -> Callable[[Path], list[str]]:
    """Reads what a file sink published in a folder."""

    def read(folder: Path) -> list[str]:
        files = sorted(path for path in folder.glob("*") if path.is_file() and not path.name.startswith("."))
        return [line for file in files for line in file.read_text().splitlines()]

    return read


@pytest.fixture
def read_records(read_lines: Callable[[Path], list[str]]) -> Callable[[Path], list[dict[str, Any]]]:
    """Reads the JSON lines that a file sink published in a folder."""
    return lambda folder: [json.loads(line) for line in read_lines(folder)]
