"""What type checkers say about programs: the errors that comments announce (``# error: code``), and no others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))

Errors = dict[int, set[str]]
"""The codes of errors by the number of the line."""


def output_of(checker: str, *options: str) -> str:
    """What a type checker prints about all programs; 1 as exit code says that there are errors."""
    command = [sys.executable, "-m", checker, *options, *map(str, PROGRAMS)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def mypy_errors() -> dict[str, Errors]:
    """What mypy finds, by the name of the program."""
    text = output_of("mypy", "--output", "json")
    found: dict[str, Errors] = defaultdict(lambda: defaultdict(set))
    for message in map(json.loads, text.splitlines()):
        if message["severity"] == "error":
            found[Path(message["file"]).name][message["line"]].add(message["code"])
    return found


@pytest.fixture(scope="module")
def pyright_errors() -> dict[str, Errors]:
    """What pyright finds, by the name of the program."""
    report = json.loads(output_of("pyright", "--pythonpath", sys.executable, "--outputjson"))
    assert report["summary"]["filesAnalyzed"] == len(PROGRAMS)
    found: dict[str, Errors] = defaultdict(lambda: defaultdict(set))
    for message in report["generalDiagnostics"]:
        line = message["range"]["start"]["line"] + 1
        found[Path(message["file"]).name][line].add(message.get("rule", "syntax"))
    return found


def announced(program: Path) -> Errors:
    """The codes that the comments of a program announce."""
    lines = enumerate(program.read_text().splitlines(), start=1)
    comments = ((number, re.search(r"# error: ([\w-]+(?:, [\w-]+)*)$", line)) for number, line in lines)
    return {number: set(comment[1].split(", ")) for number, comment in comments if comment}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_mypy_in_strict_mode_finds_these_errors(program: Path, mypy_errors: dict[str, Errors]) -> None:
    expected = announced(program)
    assert expected
    assert mypy_errors[program.name] == expected


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_pyright_finds_errors_in_the_same_lines(program: Path, pyright_errors: dict[str, Errors]) -> None:
    assert sorted(pyright_errors[program.name]) == sorted(announced(program))
