"""The checks of ``headrace doctor``."""

from __future__ import annotations

import importlib.metadata
import io
import sys
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

import headrace
from headrace.cli.install import checks_table, run_doctor
from headrace.runtime.spark import diagnosis
from headrace.runtime.spark.diagnosis import Check, check_java, check_packages, check_settings, check_workers, diagnose
from headrace.runtime.spark.executors import WorkerReport, ask_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_packages_here_are_all_right() -> None:
    checks = check_packages()

    assert [check.name for check in checks] == ["pyspark", "pyarrow", "numpy", "pandas"]
    assert all(check.ok and not check.fix for check in checks)


@pytest.mark.parametrize(
    ("found", "ok"),
    [("4.0.9", False), ("4.1.0", True), ("4.3.0.dev1", True), ("5.0.0", False)],
)
def test_spark_s_version(monkeypatch: pytest.MonkeyPatch, found: str, ok: bool) -> None:
    monkeypatch.setattr(diagnosis, "version", lambda package: found)

    check = check_packages()[0]

    assert (check.ok, check.found) == (ok, found)
    assert ok or check.fix == "pyspark>=4.1,<5 is needed. Run: pip install 'headrace[spark]'"


def test_spark_is_not_started_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(diagnosis, "version", missing)

    checks = list(diagnose({}))

    assert Check("pandas", False, "not installed", checks[4].fix) == checks[4]
    assert checks[-1] == Check("Spark session", False, "not tried", "Put the above right first.")


def test_missing_java_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "bundled_java_home", lambda: None)

    check = check_java({"JAVA_HOME": "/nowhere", "PATH": ""})

    assert not check.ok
    assert "/nowhere has no bin/java" in check.found


def test_table_shows_what_to_do_only_where_there_is_something() -> None:
    good, bad = Check("Java", True, "17"), Check("pandas", False, "not installed [here]", "Install it.")

    assert [column.header for column in checks_table([good]).columns] == ["", "check", "found"]
    assert [column.header for column in checks_table([good, bad]).columns] == ["", "check", "found", "to do"]
    assert "not installed [here]" in _printed([good, bad])


def _printed(checks: list[Check]) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(checks_table(checks))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.spark
def test_workers_answer(spark: SparkSession) -> None:
    reports = ask_workers(spark, 2)

    assert [(report.executable, report.headrace) for report in reports] == [(sys.executable, headrace.__version__)]
    assert all(check.ok for check in check_workers(spark))


@pytest.mark.spark
def test_workers_that_differ(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [WorkerReport("3.9.1", "/usr/bin/python3", "", "15.0.0"), WorkerReport("3.9.1", "/opt/python", "9", "15")]
    monkeypatch.setattr(diagnosis, "ask_workers", lambda session, tasks: reports)

    python, package, arrow = check_workers(spark)

    assert (python.ok, python.found) == (False, "3.9.1 (/usr/bin/python3), 3.9.1 (/opt/python)")
    assert (package.ok, package.found) == (False, "9, not importable")
    assert (arrow.ok, arrow.found) == (False, "15, 15.0.0")


@pytest.mark.spark
def test_doctor_from_end_to_end(spark: SparkSession) -> None:
    console = Console(file=io.StringIO(), width=160)

    code = run_doctor({}, console=console)

    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert code == 0, printed
    assert f"Spark {spark.version} on local[2] (was there before)" in printed
    assert "as headrace wants them" in printed


@pytest.mark.spark
def test_doctor_finds_settings_that_are_wrong(spark: SparkSession) -> None:
    console = Console(file=io.StringIO(), width=160)

    code = run_doctor({"spark.sql.session.timeZone": "CET"}, console=console)

    assert isinstance(console.file, io.StringIO)
    assert code == 1
    assert "Set it to CET" in console.file.getvalue()


@pytest.mark.spark
def test_unix_sockets_on_yarn_need_a_folder_besides(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "master", "yarn")

    (check,) = check_settings(spark, {})

    assert (check.name, check.found) == ("spark.python.unix.domain.socket.dir", "not set")
    assert check.fix.startswith("Set it to /tmp: else Unix sockets lie in a container's folder")
