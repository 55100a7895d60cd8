"""Connections of a source outlast the chains of a process, and end with the run of the job that made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from headrace.common import WatermarkStrategy
from headrace.connectors.ranges import NumberSequenceSource
from headrace.connectors.source import ReaderContext, SourceReader, SourceRecords
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.task.messages import EpochContext, TaskReport
from headrace.testing.pushed import RecordingSink
from tests.runtime.task.two_workers import TwoWorkers, run_job


class Connection:
    """Keeps all that were made, and says whether they are closed."""

    made: ClassVar[list[Connection]] = []

    def __init__(self) -> None:
        self.is_closed = False
        self.made.append(self)

    def close(self) -> None:
        self.is_closed = True


class ConnectedReader(SourceReader):
    """Reads numbers, and needs a connection for it."""

    def __init__(self, numbers: SourceReader) -> None:
        self._numbers = numbers

    def open(self, context: ReaderContext) -> None:
        self._clients = context.clients
        self._connection = self._clients.take("numbers", Connection) or Connection()

    def read(self, piece: Any) -> Iterator[SourceRecords]:
        assert not self._connection.is_closed
        return self._numbers.read(piece)

    def close(self) -> None:
        self._clients.keep("numbers", self._connection)


class ConnectedSource(NumberSequenceSource):
    """Its readers need connections."""

    def create_reader(self) -> SourceReader:
        return ConnectedReader(super().create_reader())


class Watched(TwoWorkers):
    """Keeps the context of the last epoch."""

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        self.context = context
        return super().run_epoch(context)


def test_connections_outlast_tasks_that_change_places_but_not_the_run(tmp_path: Path) -> None:
    Connection.made.clear()

    def build(env: StreamExecutionEnvironment) -> None:
        numbers = env.from_source(ConnectedSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")
        numbers.sink_to(RecordingSink())

    runtime = Watched(lambda epoch: [(epoch % 2,)])
    limit = {
        "headrace.epoch.max-records": "10",
        "headrace.epoch.target-duration": "60s",
        "headrace.epoch.first-records": "10",
    }
    manager = run_job(build, runtime, tmp_path, limit)
    manager.open()
    for _ in range(6):
        manager.run_epoch()
    assert [connection.is_closed for connection in Connection.made] == [False, False]  # one in each worker
    later = replace(runtime.context, generation=runtime.context.generation + 1)
    for worker in runtime.workers:  # as after a failure
        worker._cache.take(0, 0, later).drop()
    assert [connection.is_closed for connection in Connection.made] == [True, True]
    manager.close()
