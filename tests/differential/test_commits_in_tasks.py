"""A sink whose second phase runs in tasks: on Spark in its workers, and exactly once on both runtimes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.batch import Batch
from headrace.common.configuration import Configuration
from headrace.connectors.sink import Committer, CommitterContext, Sink, SinkWriter, WriterContext
from headrace.datastream import StreamExecutionEnvironment


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


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_commits_run_in_tasks(runtime: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if runtime == "spark":
        request.getfixturevalue("spark")
    settings = {"headrace.runtime": runtime, "parallelism.default": "2", "headrace.epoch.max-records": "40"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.from_sequence(1, 200).map(lambda number: number, Types.LONG()).sink_to(Partitions(tmp_path))
    env.execute()
    found = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert len(found) > 3, "several epochs"
    assert sorted(number for file in found for number in file["numbers"]) == [*range(1, 201)]
    assert {file["process"] == os.getpid() for file in found} == {runtime == "local"}
