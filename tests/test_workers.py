"""Tests in forks of pytest: each runs once, and what becomes of it is told, of one that ends its process as well."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")

MODULES = {
    "first": """
        import os, warnings

        def test_of_a_session(ran): ran("spark")
        test_of_a_session = __import__("pytest").mark.spark(test_of_a_session)
        def test_fails(ran): assert ran("fails") == 1
        def test_dies(ran): ran("dies"), os._exit(3)
        def test_warns(ran): ran("warns"), warnings.warn("beware")
        def test_waits(ran): ran("waits"), __import__("time").sleep(100)
        test_waits = __import__("pytest").mark.timeout(0.5)(test_waits)
    """,
    "second": """
        import pytest

        @pytest.mark.spark
        def test_of_the_same_session(ran): ran("spark")
        @pytest.mark.parametrize("number", range(3))
        def test_passes(ran, number): ran("passes")
    """,
    "conftest": """
        import os, pytest

        @pytest.fixture
        def ran(tmp_path):
            assert not any(tmp_path.iterdir())
            return lambda what: print(what, os.getpid(), file=open("ran", "a"))
    """,
}


def test_each_runs_once_and_is_told_of(tmp_path: Path) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"{'' if name == 'conftest' else 'test_'}{name}.py").write_text(
            re.sub("^ {8}", "", text, flags=re.M)
        )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = spark\n")
    plugins = ["-p", "tests.workers", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "--forks", "2"]
    root = Path(__file__).parents[1]
    environment = {"PYTHONPATH": f"{root}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "3 failed, 6 passed, 1 warning in" in done.stdout
    assert "test_fails - AssertionError: assert None == 1" in done.stdout
    assert "test_dies - the fork that ran it ended with exit code 3" in done.stdout
    assert "test_waits - Failed: Timeout (>0.5s) from pytest-timeout" in done.stdout
    assert "UserWarning: beware" in done.stdout
    ran = sorted(line.split() for line in (tmp_path / "ran").read_text().splitlines())
    assert [name for name, _ in ran] == ["dies", "fails", *["passes"] * 3, "spark", "spark", "waits", "warns"]
    sessions = {process for name, process in ran if name == "spark"}
    assert len(sessions) == 1
    assert sessions.isdisjoint(process for name, process in ran if name != "spark")
