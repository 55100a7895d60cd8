"""Runs examples as users do: through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.forks import Forks
from tests.processes import Ended

EXAMPLES = Path(__file__).parents[2] / "examples"

Run = Callable[..., Ended]


@pytest.fixture
def run_example(forks: Forks) -> Run:
    """Runs an example; fails the test when the example fails."""

    def run(name: str, *arguments: object, options: tuple[str, ...] = ()) -> Ended:
        ended = forks.start_command("run", "--traceback", *options, EXAMPLES / name, *arguments).wait()
        assert ended.code == 0, ended
        return ended

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
