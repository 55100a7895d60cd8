"""The plugin of pytest: fixtures, what a failing test is told, and what it costs those who do not use it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headrace.testing.records import Records

PLUGIN = "headrace.pytest_plugin"
JOB = """
from headrace.common import Types

made = []

def job(harness):
    made.append(harness)
    letters = harness.add_source("letters", Types.STRING())
    harness.add_sink("out", letters.map(lambda letter: letter, Types.STRING()).name("same").uid("same"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(JOB)
    return tmp_path


def run(project: Path, test: str, *arguments: str) -> tuple[int, str]:
    """Runs a test in a pytest of its own, which knows this plugin alone, whether headrace is installed or not."""
    (project / "test_it.py").write_text(f"from jobs import job, made\n\n{test}")
    (project / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments, "test_it.py"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=project, env=alone, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_it_is_found_by_its_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"headrace": PLUGIN}
    assert importlib.import_module(PLUGIN).headrace_job is not None


def test_it_imports_nothing_of_headrace_before_it_is_used() -> None:
    code = f"import sys, {PLUGIN}; print(*(name for name in sys.modules if name.startswith(('headrace', 'pyarrow'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["headrace", PLUGIN]


def test_jobs_are_open_and_are_closed_with_the_test(project: Path) -> None:
    test = """
def test_two_jobs(headrace_job):
    first, second = headrace_job(job), headrace_job(job, processing_time=5)
    assert second.processing_time() == 5
    first.push("letters", "a")
    checkpoint = first.checkpoint()
    third = headrace_job(job, restore=checkpoint, parallelism=2)
    third.push("letters", "b")
    third.run_epoch()
    assert (first.take("out"), third.take("out")) == (["a"], ["b"])

def test_all_are_closed():
    assert len(made) == 3
    assert not any(harness._folder.exists() for harness in made)
"""
    code, printed = run(project, test)
    assert (code, "2 passed" in printed) == (0, True), printed


def test_the_parallelism_is_that_of_the_command_line_unless_the_test_says_so(project: Path) -> None:
    test = """
def test_it(headrace_job):
    assert headrace_job(job).env.get_parallelism() == 3
    assert headrace_job(job, parallelism=2).env.get_parallelism() == 2
"""
    code, printed = run(project, test, "--headrace-parallelism=3")
    assert code == 0, printed
    code, printed = run(project, test, "--headrace-parallelism=0")
    assert (code, "--headrace-parallelism: at least 1, not '0'" in printed) == (4, True), printed


def test_a_failing_test_is_told_what_is_missing_and_how_far_the_job_is(project: Path) -> None:
    test = """
def test_it(headrace_job):
    harness = headrace_job(job)
    harness.push_all("letters", ["a", "b"])
    harness.advance_watermark("letters", 7)
    harness.run_epoch()
    assert harness.results("out") == ["b", "c"]
"""
    code, printed = run(project, test)
    assert code == 1, printed
    for line in (
        "records are not as expected",
        "expected, but not there: 1",
        "there, but not expected: 1",
        "processing time: 0",
        "same.currentInputWatermark: 7",
        "numRecordsRead: 2",
        "sink 'out': 2 records, not taken yet: ['a', 'b']",
    ):
        assert line in printed, printed


def test_a_failure_before_there_is_a_job_is_as_ever(project: Path) -> None:
    code, printed = run(project, "def test_it(headrace_job):\n    assert [1] == [2]\n")
    assert (code, "headrace job" in printed, "At index 0 diff: 1 != 2" in printed) == (1, False, True), printed


def test_how_records_differ() -> None:
    assert Records([1, 2]).difference([1, 2]) == []
    assert Records([]).difference([[1]]) == ["expected, but not there: 1", "  [1]"]
    assert Records([1, 1, 2]).difference([2, 1]) == ["there, but not expected: 1", "  1"]
    assert Records([1, 3, 2]).difference([1, 2, 3])[0] == "the same 3 records in another order, from number 1 on"
    many = Records([]).difference(list(range(22)))
    assert (len(many), many[-1]) == (22, "  and 2 more")
