"""A sink whose second phase runs in tasks: on Spark in its workers, and exactly once on both runtimes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.batch import Batch
from headrace.common.configuration import Configuration
from headrace.common.errors import CommitRefusedError, JobExecutionError, UserFunctionError
from headrace.connectors.sink import Committer, CommitterContext, Sink, SinkWriter, WriterContext
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.local import LocalRuntime

RUNTIMES = ["local", pytest.param("spark", marks=pytest.mark.spark)]


class Partitions(Sink):
    """Writes each epoch's numbers into a file a remainder; who has written it is in it, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer()

    def create_committer(self, context: CommitterContext) -> Committer:
        return _Committer(self.folder, context)


class _Writer(SinkWriter):
    def __init__(self) -> None:
        self._numbers: list[int] = []

    def write(self, batch: Batch) -> None:
        self._numbers += batch.rows

    def prepare_commit(self) -> Sequence[Any]:
        numbers, self._numbers = self._numbers, []
        return [numbers]


class _Committer(Committer):
    def __init__(self, folder: Path, context: CommitterContext) -> None:
        self._folder = folder
        self._run_in_tasks = context.run_in_tasks

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        numbers = sorted(number for part in committables for number in part)
        items = [(rest, [number for number in numbers if number % 3 == rest]) for rest in range(3)]
        written = self._run_in_tasks(partial(publish, self._folder, epoch), items)
        assert written == [len(part) for _, part in items], "in the order of the items"


def publish(folder: Path, epoch: int, item: tuple[int, list[int]]) -> int:
    rest, numbers = item
    (folder / f"{epoch}-{rest}.json").write_text(json.dumps({"process": os.getpid(), "numbers": numbers}))
    return len(numbers)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_commits_run_in_tasks(runtime: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if runtime == "spark":
        request.getfixturevalue("spark")
    settings = {
        "headrace.runtime": runtime,
        "parallelism.default": "2",
        "headrace.epoch.max-records": "40",
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.from_sequence(1, 200).map(lambda number: number, Types.LONG()).sink_to(Partitions(tmp_path))
    env.execute()
    found = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert len(found) > 3, "several epochs"
    assert sorted(number for file in found for number in file["numbers"]) == [*range(1, 201)]
    assert {file["process"] == os.getpid() for file in found} == {runtime == "local"}


MODULE = """
from headrace.common.errors import CommitRefusedError

def publish(folder, item):
    if item == "refused":
        raise CommitRefusedError("nobody may write there")
    if item == "wrong":
        raise LookupError("no such partition")
    if item == "odd":
        raise type("Odd", (Exception,), {})("cannot be pickled")
    if item == "left":
        raise SystemExit(4)
    (folder / item).write_text("here")
"""
"""What is in a module of the job's own, which no process knows by itself."""


class _Publishing(Sink):
    """Publishes in tasks by a function of the job's module; every epoch the same items."""

    def __init__(self, folder: Path, items: Sequence[str]) -> None:
        self.folder, self.items = folder, items

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer()

    def create_committer(self, context: CommitterContext) -> Committer:
        return _Publisher(self, context)


class _Publisher(Committer):
    def __init__(self, sink: _Publishing, context: CommitterContext) -> None:
        self._sink = sink
        self._run_in_tasks = context.run_in_tasks

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        from its_own_publisher import publish

        self._run_in_tasks(partial(publish, self._sink.folder), self._sink.items)


def run(runtime: str, tmp_path: Path, request: pytest.FixtureRequest, *items: str) -> Path:
    if runtime == "spark":
        request.getfixturevalue("spark")
    module, out = tmp_path / "its_own_publisher.py", tmp_path / "out"
    module.write_text(MODULE)
    out.mkdir()
    settings = {"headrace.runtime": runtime, "parallelism.default": "2"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.add_python_file(str(module))
    env.from_sequence(1, 20).map(lambda number: number, Types.LONG()).sink_to(_Publishing(out, items))
    env.execute()
    return out


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_work_in_tasks_may_need_modules_of_the_job(
    runtime: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    items = [str(number) for number in range(8)]
    assert sorted(path.name for path in run(runtime, tmp_path, request, *items).iterdir()) == items


@pytest.mark.sampled(2)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        ("refused", CommitRefusedError, "nobody may write there"),
        ("wrong", UserFunctionError, r"(?s)uid .*epoch 1 failed.*LookupError: no such partition"),
        ("odd", Exception, "cannot be pickled"),
        ("left", JobExecutionError, "SystemExit: 4"),
    ],
)
def test_what_work_in_tasks_raises_is_raised_by_the_commit(
    runtime: str, item: str, error: type[Exception], message: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(error, match=message):
        run(runtime, tmp_path, request, "1", item)


def test_what_is_done_in_tasks_has_to_be_pickled_on_every_runtime() -> None:
    runtime = LocalRuntime()
    lock = threading.Lock()

    def locked(item: int) -> int:
        with lock:
            return item

    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object"):
        runtime.run_background(locked, [1]).result()
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object"):
        runtime.run_background(id, [lock]).result()
    changed: list[int] = []
    assert runtime.run_background(changed.append, [1, 2]).result() == [None, None]
    assert changed == [], "a task has a copy"
