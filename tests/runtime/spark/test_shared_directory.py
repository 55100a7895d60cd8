"""Executors on other machines have to reach the checkpoint directory: a task tries it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import CheckpointStorageError
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.spark.session import SessionHandle
from headrace.storage.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that the driver looks for, as soon as tasks have written them."""
    found: list[str] = []
    size = Folder.size

    def noting(self: Folder, name: str) -> int | None:
        there = size(self, name)
        if self.path.endswith("/state") and name.startswith(".probe-"):
            found.append(name)
            assert there == 0
        return there

    monkeypatch.setattr(Folder, "size", noting)
    return found


def run(directory: Path) -> None:
    settings = Configuration()
    settings.set(options.RUNTIME, "spark")
    settings.set(options.PARALLELISM, 1)
    settings.set(options.CHECKPOINT_DIR, str(directory))
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_collection([1, 2]).print()
    env.execute()


def test_tasks_beside_the_driver_are_not_asked(spark: SparkSession, probes: list[str], tmp_path: Path) -> None:
    run(tmp_path)
    assert probes == []


def test_a_task_elsewhere_writes_a_file(
    spark: SparkSession, probes: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(SessionHandle, "tasks_run_here", False)
    run(tmp_path)
    assert len(probes) == 1
    assert not list((tmp_path / "state").glob(".probe-*"))


def test_a_directory_that_is_not_shared_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(SessionHandle, "tasks_run_here", False)
    size = Folder.size
    monkeypatch.setattr(Folder, "size", lambda self, name: None if self.path.endswith("/state") else size(self, name))
    with pytest.raises(CheckpointStorageError, match="must share the checkpoint directory"):
        run(tmp_path)
    assert not list((tmp_path / "manifests").glob("*")), "nothing was begun"
