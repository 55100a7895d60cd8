"""Executors with another headrace or another Python than the driver's are refused before anything is begun."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, JobExecutionError
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.spark import runtime
from headrace.runtime.spark.executors import WorkerReport, check_versions
from headrace.runtime.spark.session import SessionHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = headrace.__version__


def worker(version: str, executable: str = "/opt/python") -> WorkerReport:
    return WorkerReport("3.11.2", executable, version, "18.0.0")


@pytest.mark.parametrize("reports", [[], [worker(HERE)], [worker(HERE), worker(HERE, "/usr/bin/python3")]])
def test_the_same_version(reports: list[WorkerReport]) -> None:
    check_versions(reports)


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([worker("0.0.9")], "/opt/python has headrace 0.0.9"),
        ([worker("")], "/opt/python has no headrace"),
        ([worker(HERE), worker("9", "/b"), worker("", "/a")], "/a has no headrace, /b has headrace 9"),
    ],
)
def test_another_version(reports: list[WorkerReport], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        check_versions(reports)
    first, todo = str(raised.value).splitlines()
    assert first == f"the driver has headrace {HERE}, but on executors {said}: they have to have the same version"
    assert "`headrace package`" in todo
    assert f"headrace=={HERE} on driver and executors" in todo


def run(directory: Path) -> None:
    settings = Configuration()
    settings.set(options.RUNTIME, "spark")
    settings.set(options.PARALLELISM, 2)
    settings.set(options.CHECKPOINT_DIR, str(directory))
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_collection([1, 2]).print()
    env.execute()


@pytest.mark.spark
def test_a_driver_of_another_version(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SessionHandle, "tasks_run_here", False)
    monkeypatch.setattr(headrace, "__version__", "9.8.7")
    said = f"the driver has headrace 9.8.7, but on executors {sys.executable} has headrace {HERE}: "
    with pytest.raises(ConfigurationError, match=said):
        run(tmp_path)
    assert not list((tmp_path / "manifests").glob("*")), "nothing was begun"


@pytest.mark.spark
def test_a_driver_of_another_python(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SessionHandle, "tasks_run_here", False)
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.9")
    said = r"driver: 3\.9.* Set spark\.pyspark\.python to .*`headrace package`"
    with pytest.raises(JobExecutionError, match=said) as told:
        run(tmp_path)
    assert "{}.{}".format(*sys.version_info) in str(told.value)
    assert not list((tmp_path / "manifests").glob("*")), "nothing was begun"


@pytest.mark.spark
def test_tasks_beside_the_driver_are_not_asked(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(runtime, "ask_workers")
    run(tmp_path)
