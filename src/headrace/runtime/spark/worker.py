"""The code in Spark's Python workers: the two functions that ``mapInArrow`` calls."""

from __future__ import annotations

import gc
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa
from pyspark import SparkFiles, TaskContext

from headrace.common.logs import LogFields, logging_from_now_on
from headrace.exchange.envelope import MAX_CELL_BYTES, Envelope, from_record_batch, to_record_batch
from headrace.operators.user_code import let_ctrl_c_end_the_process
from headrace.runtime.spark.shipping import Parts, PayloadReader, PayloadWriter, read_job
from headrace.runtime.spark.task_times import TimesAccumulator, tell
from headrace.runtime.task.background import attempt
from headrace.runtime.task.dependencies import enter, work_in
from headrace.runtime.task.messages import EpochContext, SerializedJob, shipped_in
from headrace.runtime.task.runner import TaskRunner
from headrace.storage.folder import Folder
from headrace.storage.locations import are_said

_KEPT_RUNNERS = 4
"""A worker serves few jobs; those it has not seen for longest are closed."""

_MAX_ROWS = 64

_runners: dict[str, TaskRunner] = {}


class _LongLived:
    """Takes what stays for good, modules above all, out of the garbage collector's sight.

    PySpark's worker collects all garbage after every task, before it takes the next one. Looking at everything that was
    ever imported took it 40 ms each time, more than the task of a small epoch.
    """

    _TASKS_THAT_IMPORT = 4
    """After so many tasks of a job all that it needs is imported."""

    def __init__(self) -> None:
        self._expected = 0

    def expect_imports(self) -> None:
        """A job is new here."""
        self._expected = self._TASKS_THAT_IMPORT

    def freeze(self) -> None:
        """A task begins, so nothing is there yet that belongs to it alone."""
        if self._expected:
            self._expected -= 1
            gc.collect()
            gc.freeze()


_long_lived = _LongLived()


class ShippedJob:
    """A job in the closure of a Spark function: the job itself when it is small, else where to find it.

    What reaches the storage is always in the closure: secrets need not lie in a file.

    Args:
        digest: identifies the job.
        storage: where its state is, and what is shipped to its tasks.
        storage_options: how its sources and sinks reach object stores.
        content: the rest of the job, pickled, or the name of the shipped file in which it lies.
        payloads: the folder through which tasks hand large payloads to each other; None where these go by Spark.

    Attributes:
        payloads: as above.
    """

    def __init__(
        self,
        digest: str,
        storage: Folder,
        storage_options: Mapping[str, str],
        content: bytes | str,
        payloads: str | None = None,
    ) -> None:
        self.payloads = payloads
        self._digest = digest
        self._storage = storage
        self._storage_options = storage_options
        self._content = content

    @property
    def has_options(self) -> bool:
        """Return whether it holds settings of object stores, which may be secret."""
        return are_said(self._storage_options)

    def here(self) -> ShippedJob:
        """The job."""
        return self

    def enter(self) -> SerializedJob:
        """Add the job's modules and files to this process, so that its functions can be unpickled."""
        runner = _runners.get(self._digest)
        blob = self._load() if runner is None else runner.blob
        enter(blob.dependencies, SparkFiles.get)
        work_in(SparkFiles.getRootDirectory() if blob.dependencies.archives else None)
        return blob

    def runner(self) -> TaskRunner:
        """This process's runner of the job; user functions are unpickled once."""
        blob = self.enter()
        runner = _runners.pop(self._digest, None)
        if runner is None:
            pa.set_cpu_count(1)  # Spark gives a task one core
            let_ctrl_c_end_the_process()
            blob.logs.apply()
            runner = TaskRunner(blob)
            _long_lived.expect_imports()
        _long_lived.freeze()
        logging_from_now_on(LogFields(runner.blob.name))
        _runners[self._digest] = runner
        while len(_runners) > _KEPT_RUNNERS:
            _runners.pop(next(iter(_runners))).close()
        return runner

    def _load(self) -> SerializedJob:
        content = self._content
        if isinstance(content, str):
            content = read_job(shipped_in(self._storage), content)
        fields = pickle.loads(content)
        return SerializedJob(
            **fields, storage=self._storage, storage_options=self._storage_options, payloads=self.payloads
        )


@dataclass(frozen=True, slots=True)
class JobOfQuery:
    """The job that a query is run for, by its settings: so the same query serves many jobs.

    The setting names the file alone. Spark writes settings to its event log, and a job may have secrets.

    Attributes:
        key: the setting.
    """

    key: str

    def here(self) -> ShippedJob:
        """The job, in a task of the query."""
        return _job_in(_setting(self.key))


def write_shared_job(job: ShippedJob, folder: str) -> str:
    """Write the job where tasks on this machine read it.

    Args:
        job: the job.
        folder: one of this job alone, which only this user may read.

    Returns:
        The value of the setting of :class:`JobOfQuery`: no other job or plan of a job has the same.
    """
    file, path = tempfile.mkstemp(prefix="job-", dir=folder)
    with open(file, "wb") as written:
        pickle.dump(job, written, protocol=5)
    return path


@lru_cache(maxsize=_KEPT_RUNNERS)
def _job_in(path: str) -> ShippedJob:
    job: ShippedJob = pickle.loads(Path(path).read_bytes())
    return job


def _setting(key: str) -> str:
    """The value that a setting of Spark had when the query of this task was started; also where it is run again."""
    task = TaskContext.get()
    value = task.getLocalProperty(key) if task else None
    if value is None:
        raise RuntimeError(f"Spark has not handed the setting {key} on to its task")
    return str(value)


def source_stage(
    given: ShippedJob | JobOfQuery, times: TimesAccumulator, context_key: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Stage 0 as a function of Arrow batches of subtasks.

    Args:
        given: the job.
        times: is called with the times of the task.
        context_key: the Spark setting with the place of the context. Settings reach a task as its local properties,
            as they were when its query was started; also when the task is run again.
        batches: the subtasks.
    """
    job = given.here()
    runner = job.runner()
    runner.on_times = partial(tell, times)
    contexts = Parts.from_text(_setting(context_key))
    for batch in batches:
        for subtask in batch.column(0).to_pylist():
            context: EpochContext = pickle.loads(contexts.part(subtask, runner.blob.shipped))
            yield from _batched(runner.run_source_task(subtask, context), job.payloads)


def later_stage(
    given: ShippedJob | JobOfQuery, times: TimesAccumulator, stage: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A later stage as a function of Arrow batches of envelopes; those for stages beyond pass through as they are.

    Args:
        given: the job.
        times: is called with the times of the task.
        stage: the stage.
        batches: the envelopes.
    """
    job = given.here()
    reader = PayloadReader(job.payloads)
    envelopes = (envelope for batch in batches for envelope in from_record_batch(batch))
    received = (reader.loaded(envelope) if envelope.stage == stage else envelope for envelope in envelopes)
    runner = job.runner()
    runner.on_times = partial(tell, times)
    yield from _batched(runner.run_stage_task(stage, received), job.payloads)


def background_stage(job: ShippedJob, parts: Parts, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Works beside the epochs: a function of Arrow batches of numbers of items.

    Args:
        job: the job, whose modules the work may need.
        parts: pickled: first the work, a function of an item, then the items one by one.
        batches: the numbers.
    """
    shipped = job.enter().shipped
    work = pickle.loads(parts.part(0, shipped))
    for batch in batches:
        for number in batch.column(0).to_pylist():
            outcome = attempt(work, pickle.loads(parts.part(number + 1, shipped))).to_bytes()
            yield pa.RecordBatch.from_pydict({"number": pa.array([number]), "outcome": pa.array([outcome])})


def _batched(envelopes: Iterable[Envelope], payloads: str | None) -> Iterator[pa.RecordBatch]:
    """Envelopes in Arrow batches of bounded size; ``payloads`` is the folder for large payloads, if there is one."""
    waiting: list[Envelope] = []
    size = 0
    with _payload_writer(payloads) as writer:
        for envelope in map(writer.stored, envelopes):
            waiting.append(envelope)
            size += len(envelope.payload)
            if size >= MAX_CELL_BYTES or len(waiting) >= _MAX_ROWS:
                yield to_record_batch(waiting)
                waiting, size = [], 0
        writer.complete()
    if waiting:
        yield to_record_batch(waiting)


def _payload_writer(folder: str | None) -> PayloadWriter:
    task = TaskContext.get()
    assert task is not None, "tasks run in Spark"
    return PayloadWriter(folder, task.stageId(), task.partitionId())
