"""What a user sees when a function or a row of theirs is at fault: one error that says what, where and why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.processes import PROGRAMS, Ended
from tests.reliability.support.outputs import lines

LOCAL = ["--runtime", "local"]
SPARK = ["--master", "local[2]"]
FOREIGN = ("java", "scala", "py4j", "Traceback", "pyspark", "Caused by", "org.apache")


def run(forks: Forks, runtime: list[str], program: str, *arguments: object) -> Ended:
    return forks.start_command("run", *runtime, "-p", "2", PROGRAMS / program, *arguments).wait()


def line_of(program: str, text: str) -> str:
    """Where some source text is, as errors name it."""
    path = PROGRAMS / program
    (number,) = (n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)
    return f"{path}:{number}"


@pytest.mark.parametrize(
    "runtime",
    [
        pytest.param(LOCAL, id="local"),
        pytest.param(SPARK, id="spark", marks=[pytest.mark.integration, pytest.mark.apart]),
    ],
)
def test_a_failing_function_behind_a_shuffle(runtime: list[str], forks: Forks) -> None:
    check_failing_function(runtime, "second", "behind", forks)


@pytest.mark.slow
def test_a_failing_function_beside_the_source(forks: Forks) -> None:
    check_failing_function(LOCAL, "first", "before", forks)


def check_failing_function(runtime: list[str], place: str, name: str, forks: Forks) -> None:
    ended = run(forks, runtime, "failing_function.py", place)
    assert ended.code == 1, ended
    assert ended.errors.count("error:") == 1
    for said in (
        f"operator {name!r} (uid {place}, subtask ",
        "ZeroDivisionError: ",
        f"at {line_of('failing_function.py', 'return 100')} in divide",
        "record: 7",
        f"operator defined at {PROGRAMS / 'failing_function.py'}:",
    ):
        assert said in ended.errors, ended
    assert not [word for word in FOREIGN if word in ended.errors], ended


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file whose lines 4 and 8 are bad."""
    path = tmp_path / "rows.csv"
    every = [f"{number},{number * 10}" for number in range(1, 11)]
    every[3] = "4,forty"
    every[7] = "8"
    path.write_text(os.linesep.join(every) + os.linesep)
    return path


@pytest.mark.parametrize(
    "runtime",
    [
        pytest.param(LOCAL, id="local"),
        pytest.param(SPARK, id="spark", marks=[pytest.mark.integration, pytest.mark.slow]),
    ],
)
def test_a_bad_row_fails_the_job_naming_file_and_line(
    runtime: list[str], rows: Path, forks: Forks, tmp_path: Path
) -> None:
    ended = run(forks, runtime, "bad_rows.py", rows, tmp_path / "output")
    assert ended.code == 1, ended
    assert ended.errors.count("error:") == 1
    assert f"{rows}:4" in ended.errors, ended
    assert "forty" in ended.errors
    assert not [word for word in FOREIGN if word in ended.errors], ended
    assert list(lines(tmp_path / "output")) == []


def test_bad_rows_go_to_the_dead_letter_output(rows: Path, forks: Forks, tmp_path: Path) -> None:
    ended = run(forks, LOCAL, "bad_rows.py", rows, tmp_path / "output", tmp_path / "bad")
    assert ended.code == 0, ended
    good = [f"({number},{number * 10})" for number in range(1, 11) if number not in (4, 8)]
    assert sorted(lines(tmp_path / "output")) == sorted(good)
    bad = sorted(lines(tmp_path / "bad"))
    assert len(bad) == 2
    for line, (number, raw) in zip(bad, [(4, "4,forty"), (8, "8")], strict=True):
        assert f"{rows}:{number}" in line, line
        assert raw in line
