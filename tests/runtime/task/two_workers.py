"""The local runtime with several workers, each of which keeps instances of its own, as Spark's Python workers do."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.checkpoint.store import CheckpointStore
from headrace.client.submission import blob_of, plan_graph
from headrace.common.configuration import Configuration
from headrace.datastream import StreamExecutionEnvironment
from headrace.exchange.envelope import Envelope
from headrace.jobmanager.job_manager import JobManager
from headrace.jobmanager.settings import PlannedJob, job_settings
from headrace.runtime.local import LocalRuntime
from headrace.runtime.task.messages import EpochContext, SerializedJob, TaskReport
from headrace.runtime.task.runner import TaskRunner
from headrace.storage.folder import posix_folder
from headrace.time.clock import ManualClock

Attempts = Callable[[int], list[tuple[int, ...]]]
"""Of an epoch: its attempts, the last of which counts; each says for every task (by number) which worker has it."""


@dataclass
class _Assigned:
    """Stands for one runner, and gives every task to the worker that it is for."""

    workers: list[TaskRunner]
    of_task: tuple[int, ...]

    def run_source_task(self, subtask: int, context: EpochContext) -> Iterator[Envelope]:
        return self._worker(subtask).run_source_task(subtask, context)

    def run_stage_task(self, stage: int, envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
        waiting = list(envelopes)
        partition = min((envelope.partition for envelope in waiting), default=0)
        return self._worker(partition).run_stage_task(stage, waiting)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def _worker(self, number: int) -> TaskRunner:
        return self.workers[self.of_task[number % len(self.of_task)]]


class TwoWorkers(LocalRuntime):
    """Runs every attempt of an epoch as it is told; only the last one's reports come out.

    Args:
        attempts: which attempts an epoch has.
        count: how many workers there are.
    """

    def __init__(self, attempts: Attempts, count: int = 2) -> None:
        super().__init__()
        self._attempts = attempts
        self._count = count
        self.workers: list[TaskRunner] = []

    def start(self, blob: SerializedJob) -> None:
        super().start(blob)
        # Each unpickles the job for itself, as another process would.
        self.workers = [TaskRunner(pickle.loads(pickle.dumps(blob))) for _ in range(self._count)]

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        reports: list[TaskReport] = []
        for of_task in self._attempts(context.epoch):
            self._runner = _Assigned(self.workers, of_task)  # type: ignore[assignment]
            reports = super().run_epoch(context)
        return reports


def run_job(
    build: Callable[[StreamExecutionEnvironment], Any], runtime: LocalRuntime, folder: Path, settings: dict[str, str]
) -> JobManager:
    """A job manager that is about to run what ``build`` makes; the caller opens it and runs its epochs."""
    configuration = Configuration.from_dict(settings)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    build(env)
    plan = plan_graph(env.transformations.take_next_job(), configuration, None, 1)
    store = CheckpointStore(posix_folder(folder))
    blob = blob_of(plan, store.storage)
    job = PlannedJob(plan, blob, job_settings(configuration, plan))
    return JobManager(job, runtime, store, clock=ManualClock())


class BothAtOnce(LocalRuntime):
    """Has two workers run every epoch at the same time, as Spark does with tasks that it takes to be slow.

    Attributes:
        reports: of each epoch, those of both.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[tuple[list[TaskReport], list[TaskReport]]] = []
        self._both = (LocalRuntime(), LocalRuntime())
        self._pool = ThreadPoolExecutor(2)

    def start(self, blob: SerializedJob) -> None:
        for one in self._both:
            one.start(pickle.loads(pickle.dumps(blob)))

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        copies = [pickle.loads(pickle.dumps(context)) for _ in self._both]
        first, second = self._pool.map(lambda one, copy: one.run_epoch(copy), self._both, copies)
        self.reports.append((first, second))
        return self.reports[-1][context.epoch % 2]

    def close(self) -> None:
        self._pool.shutdown()
        for one in self._both:
            one.close()
