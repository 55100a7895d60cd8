"""The plugin of pytest: fixtures, what a failing test is told, and what it costs those who do not use it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headrace.testing.pushed import PushedRecords

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


TESTS = """
def test_two_jobs(headrace_job):
    first, second = headrace_job(job), headrace_job(job, processing_time=5)
    assert second.processing_time() == 5
    first.push("letters", "a")
    checkpoint = first.checkpoint()
    third = headrace_job(job, restore=checkpoint, parallelism=2)
    third.push("letters", "b")
    third.run_epoch()
    assert (first.take("out"), third.take("out")) == (["a"], ["b"])
    assert [harness.env.get_parallelism() for harness in made] == [3, 3, 2]

def test_all_are_closed():
    assert len(made) == 3
    assert not any(harness._folder.exists() for harness in made)

def test_other_records(headrace_job):
    harness = headrace_job(job)
    harness.push("letters", "a")
    harness.advance_watermark("letters", 7)
    harness.run_epoch()
    assert harness.results("out") == ["c"]

def test_other_numbers(headrace_job):
    assert [1] == [2]
"""


def test_jobs_of_the_fixture_and_what_failing_tests_are_told(project: Path) -> None:
    code, printed = run(project, TESTS, "--headrace-parallelism=3")
    assert (code, "2 failed, 2 passed" in printed) == (1, True), printed
    for line in (
        "records are not as expected",
        "expected, but not there: 1",
        "there, but not expected: 1",
        "processing time: 0",
        "same.currentInputWatermark: 7",
        "numRecordsRead: 1",
        "sink 'out': 1 in all, not taken yet: ['a']",
        "At index 0 diff: 1 != 2",
    ):
        assert line in printed, printed
    assert printed.count(" headrace job ") == 1


def test_a_parallelism_that_is_none_is_refused(project: Path) -> None:
    code, printed = run(project, "", "--headrace-parallelism=0")
    assert (code, "--headrace-parallelism: at least 1, not '0'" in printed) == (4, True), printed


def test_how_records_differ() -> None:
    assert PushedRecords([1, 2]).difference([1, 2]) == []
    assert PushedRecords([]).difference([[1]]) == ["expected, but not there: 1", "  [1]"]
    assert PushedRecords([1, 1, 2]).difference([2, 1]) == ["there, but not expected: 1", "  1"]
    assert PushedRecords([1, 3, 2]).difference([1, 2, 3])[0] == "the same 3 records in another order, from number 1 on"
    many = PushedRecords([]).difference(list(range(22)))
    assert (len(many), many[-1]) == (22, "  and 2 more")
