"""An environment, its graph, and jobs that never run."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import CompletableFuture, Configuration, JobExecutionResult, JobID, WatermarkStrategy
from headrace.common.errors import JobCancelledError, JobExecutionError
from headrace.connectors.ranges import NumberSequenceSource
from headrace.connectors.source import Boundedness
from headrace.datastream import DataStream, StreamExecutionEnvironment

if TYPE_CHECKING:
    from headrace.graph.stream_graph import StreamGraph


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def graph(env: StreamExecutionEnvironment) -> StreamGraph:
    return env.transformations.graph


class _Endless(NumberSequenceSource):
    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED


@pytest.fixture
def endless(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_source(_Endless(1, 2), WatermarkStrategy.no_watermarks(), "endless")


@dataclass
class Job:
    """A job as it was submitted, and its client."""

    graph: StreamGraph
    configuration: Configuration
    name: str | None
    is_cancelled: bool = False
    interrupted: JobCancelledError | None = None
    result: CompletableFuture[JobExecutionResult] = field(default_factory=CompletableFuture)

    def finish(self) -> None:
        self.result.set_result(JobExecutionResult(JobID(), 5, {"records": 3}))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return self.result

    def interruption(self) -> JobCancelledError | None:
        return self.interrupted

    def cancel(self) -> CompletableFuture[None]:
        self.is_cancelled = True
        self.result.set_exception(JobExecutionError("the job was cancelled"))
        return CompletableFuture.completed(None)


class Submissions(list[Job]):
    """The jobs that were submitted; they end at once unless told otherwise."""

    finish_at_once = True

    def submit(self, graph: StreamGraph, configuration: Configuration, job_name: str | None) -> Any:
        self.append(Job(graph, configuration, job_name))
        if self.finish_at_once:
            self[-1].finish()
        return self[-1]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Submissions:
    submissions = Submissions()
    module = ModuleType("headrace.client.submission")
    module.submit = submissions.submit  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "headrace.client.submission", module)
    return submissions
