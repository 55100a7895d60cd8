"""The Spark runtime: one epoch is one query, ``mapInArrow → repartitionById → mapInArrow → …``."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark import SparkFiles

from headrace.common.errors import InfrastructureError, JobExecutionError
from headrace.common.pickling import pickle_by_value
from headrace.exchange.envelope import Envelope, EnvelopeKind, from_record_batch, sort_key
from headrace.operators.user_code import EpochCancelledError, InterruptibleRun
from headrace.runtime.spark.background_process import BackgroundProcess
from headrace.runtime.spark.epoch_sessions import CONTEXT_KEY, EPOCH_SESSIONS, JOB_KEY
from headrace.runtime.spark.executors import ask_workers, check_directory, check_versions, remove_probes
from headrace.runtime.spark.faults import SPARK_ERRORS, failure
from headrace.runtime.spark.session import SessionHandle
from headrace.runtime.spark.shipping import Parts, PayloadReader, ShippedFiles, files_in, make_folder, remove
from headrace.runtime.spark.task_times import times_of
from headrace.runtime.spark.worker import ShippedJob, background_stage, write_shared_job
from headrace.runtime.spark.worker_daemon import is_found_by_new_interpreters
from headrace.runtime.task.dependencies import NOTHING, own_path
from headrace.runtime.task.messages import EpochContext, SerializedJob, TaskReport, with_times
from headrace.runtime.task.runner import TaskRunner
from headrace.runtime.task.task_clock import TaskTimes
from headrace.storage.folder import Folder
from headrace.storage.locations import options_for_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


T = TypeVar("T")
R = TypeVar("R")

_STOPPED: tuple[type[Exception], ...] = (AttributeError, *SPARK_ERRORS)
"""The exceptions of a context that has been stopped: PySpark drops its Java half."""

SENT_WITH_TASKS_BYTES = 1 << 20
"""The most bytes that Spark sends for an epoch's context, over all tasks, each of which receives all of it. A larger
context lies in a file, of which every task of stage 0 reads its part."""

_BACKGROUND_QUERIES: Final = 4
"""The queries at the same time: several, so that a commit does not wait for a compaction."""

_SHUFFLED_BYTES_CHANGE: Final = ("spark.io.encryption.enabled", "spark.shuffle.compress")
"""Settings by which Spark handles all shuffled data. Where the user has turned one of these on, shuffles go through
Spark."""

INLINE_JOB_BYTES = 512 * 1024
"""A larger job lies in a file: PySpark broadcasts closures above 1 MiB, and leaves a file behind each time."""


class SparkRuntime:
    """Executes epochs as Spark queries; implements :class:`headrace.jobmanager.runtime.Runtime`.

    Args:
        handle: the session; it outlives the job. Queries run in one of their own beside it.
    """

    _job: ShippedJob
    """The job as tasks get it, from :meth:`start` on."""

    _job_file: str | None
    """The file that the settings of queries name; None where the job is in the closures of a query of its own."""

    _files: ShippedFiles
    """Likewise, what is shipped by files."""

    def __init__(self, handle: SessionHandle) -> None:
        self._of_job = EPOCH_SESSIONS.take(handle.session)
        self._given, self._session = handle.session, self._of_job.session
        self._tasks_run_here = handle.tasks_run_here
        self._tag = f"headrace-{uuid.uuid4().hex[:12]}"
        self._background = ThreadPoolExecutor(_BACKGROUND_QUERIES, "headrace-background")
        self._beside = self._process_beside()
        self._cleaning = ThreadPoolExecutor(1, "headrace-cleaning")
        self._parallelism: tuple[int, ...] = ()
        self._is_started = False
        self._big_job: tuple[str, bytes] | None = None  # its file, and what is in it
        self._payloads: str | None = None
        self._job_files: set[str] = set()
        self._prepared: DataFrame | None = None
        self._last: DriverStage | None = None
        self._is_undisturbed = True

    def start(self, blob: SerializedJob) -> None:
        """Ship the job; where tasks run on other machines, try them first.

        Raises:
            ConfigurationError: when executors have another headrace.
            CheckpointStorageError: when they do not share the state directory.
            JobExecutionError: when they cannot run Python as the driver's.
        """
        for archive in blob.dependencies.all():
            self._session.sparkContext.addArchive(f"{archive.path}#{archive.name}")
        self._close_last()
        self._parallelism = blob.parallelism
        if blob.ends_in_driver and self._tasks_run_here and blob.dependencies == NOTHING:
            self._last, self._parallelism = DriverStage(blob), blob.parallelism[:-1]
        self._prepared = None  # of another plan of the job; what work beside the epochs has of that stays until the end
        if not self._is_started:
            self._files = ShippedFiles(blob.shipped)
            self._files.remove_leftovers()
            self._payloads = self._payload_folder()
            self._is_started = True  # from here on, so that it is tried again where the storage was away
        self._job = self._ship(blob)
        self._job_file = self._write_job(blob)
        remove_probes(blob.state)
        if not self._tasks_run_here:
            self._check_executors(blob.state)

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        """Run the epoch as one query, but for a last stage that the driver runs.

        Raises:
            InfrastructureError: on a fault that Spark's own retries did not mend, or when it is given up.
        """
        context_parts = self._ship_context(context)
        try:
            self._tag_queries()
            found = self._query(context_parts).toArrow().to_batches()
            envelopes = [envelope for batch in found for envelope in from_record_batch(batch)]
            if self._last is not None:
                envelopes = self._last.run(envelopes, self._payloads)
        except SPARK_ERRORS as error:
            self._is_undisturbed = False
            raise failure(f"epoch {context.epoch}", error) from error
        finally:
            self._files.forget(context_parts)
            if self._payloads is not None:  # giving gigabytes back takes a while, in which the next epoch may begin
                self._cleaning.submit(remove, files_in(self._payloads))
        reports = (pickle.loads(each.payload) for each in envelopes if each.kind == EnvelopeKind.REPORT)
        times = times_of(self._of_job.times, context.epoch)
        return with_times(reports, times if self._last is None else [*times, *self._last.times])

    def slots(self) -> int:
        """The cores of all executors that are there now.

        Raises:
            JobExecutionError: when Java has ended.
        """
        try:
            return int(self._session.sparkContext.defaultParallelism)
        except _STOPPED as error:
            raise _stopped() from error

    def about(self) -> tuple[str, str]:
        """Spark's master and its web UI; there is none where ``spark.ui.enabled`` is false."""
        context = self._session.sparkContext
        return f"Spark, master {context.master}", context.uiWebUrl or ""

    def check(self) -> None:
        """Check by a call of Java that the context still runs: else an end of Java shows only when a query runs.

        Raises:
            JobExecutionError: when Java has ended, or the context was stopped.
        """
        try:
            is_stopped = self._session.sparkContext._jsc.sc().isStopped()
        except AttributeError:
            is_stopped = True
        except SPARK_ERRORS as error:
            raise failure("asking Spark whether it still runs", error) from error
        if is_stopped:
            raise _stopped()

    def run_background(self, work: Callable[[T], R], items: Sequence[T], *, gives_way: bool = False) -> Future[list[R]]:
        """Do it in a query of its own, which runs beside the epochs; what gives way to them in its own process.

        That is where all tasks run on this machine. Elsewhere other executors may be free.
        """
        run = self._run_background if self._beside is None or not gives_way else self._run_beside
        return self._background.submit(run, work, items)

    def cancel(self) -> None:
        """Interrupt the query that runs, and what runs beside it."""
        self._is_undisturbed = False
        # Not interruptTag() of the session: it finds only what the same thread has tagged.
        with contextlib.suppress(*_STOPPED):
            self._session.sparkContext.cancelJobsWithTag(self._tag)
        if self._last is not None:
            self._last.interrupt()
        if self._beside is not None:
            self._beside.end()

    def close(self) -> None:
        """Let go of the job; the session stays, for the next job and for the user's own queries."""
        self._background.shutdown(wait=True, cancel_futures=True)
        self._close_last()
        if self._beside is not None:
            self._beside.end()
        self._cleaning.shutdown(wait=True, cancel_futures=True)  # the folder goes as a whole
        for name in self._job_files:
            self._files.folder.remove(name)
        if self._payloads is not None:
            shutil.rmtree(self._payloads, ignore_errors=True)
        with contextlib.suppress(*_STOPPED):  # the epoch that fails reports that Spark has ended
            self._session.sparkContext.removeJobTag(self._tag)
            if self._is_undisturbed:  # else tasks of the job may still run
                EPOCH_SESSIONS.give_back(self._given, self._of_job)

    def _close_last(self) -> None:
        if self._last is not None:
            self._last.close()
            self._last = None

    def _tag_queries(self) -> None:
        """Let :meth:`cancel` find the queries that this thread is about to run."""
        try:
            self._session.sparkContext.addJobTag(self._tag)
        except AttributeError as error:
            raise _stopped() from error

    def _ship(self, blob: SerializedJob) -> ShippedJob:
        # Tasks on this machine find the program's modules where it does; others get only what it names
        dependencies = replace(blob.dependencies, path=own_path()) if self._tasks_run_here else blob.dependencies
        storage_options = options_for_tasks(blob.storage_options)
        fields = {
            "plan": blob.plan,
            "name": blob.name,
            "parallelism": blob.parallelism,
            "fresh_instances": blob.fresh_instances,
            "dependencies": dependencies,
            "logs": blob.logs,
        }
        content = pickle.dumps(fields, protocol=5)
        digest = hashlib.sha256(content + pickle.dumps((blob.storage, self._payloads), protocol=5)).hexdigest()
        if len(content) <= INLINE_JOB_BYTES:
            return ShippedJob(digest, blob.storage, storage_options, content, self._payloads)
        name = self._files.write_job(content)
        self._big_job = name, content
        self._job_files.add(name)
        return ShippedJob(digest, blob.storage, storage_options, name, self._payloads)

    def _write_job(self, blob: SerializedJob) -> str | None:
        """Write the job where the query that jobs share finds it; what reaches the storage is in closures alone."""
        brings_archives = any(True for _ in blob.dependencies.all())
        if self._payloads is None or brings_archives or self._job.has_options:
            return None
        return write_shared_job(self._job, self._payloads)

    def _payload_folder(self) -> str | None:
        """Return where tasks hand large payloads to each other, if they all run here; None where Spark has all."""
        settings = self._session.conf  # which has those of Spark's core as well
        if not self._tasks_run_here or "true" in [settings.get(key, "false") for key in _SHUFFLED_BYTES_CHANGE]:
            return None
        return make_folder(self._session.sparkContext._temp_dir)  # in spark.local.dir

    def _ship_context(self, context: EpochContext) -> Parts:
        whole = Parts(here=pickle.dumps(context, protocol=5))
        if len(whole.to_text()) * sum(self._parallelism) <= SENT_WITH_TASKS_BYTES:
            return whole
        return self._files.write_parts([pickle.dumps(part, protocol=5) for part in context.for_sources()])

    def _query(self, context: Parts) -> DataFrame:
        """The epoch's query: the one that was analysed once, with another context.

        ``select`` makes a new query of the old DataFrame: running the DataFrame itself again would take the shuffle
        files of the epoch before.
        """
        if self._prepared is None and self._job_file is not None:
            self._prepared = self._of_job.shared_query(self._parallelism)
        elif self._prepared is None:
            self._prepared = self._of_job.query(self._job, self._parallelism)
        self._bring_back_the_job()
        if self._job_file is not None:
            self._session.conf.set(JOB_KEY, self._job_file)
        self._session.conf.set(CONTEXT_KEY, context.to_text())
        return self._prepared.select("*")

    def _bring_back_the_job(self) -> None:
        """Write the job again where it is gone, which workers that start from now on would look for.

        A job manager that was slow to find itself superseded may have taken the job's file for one of an old run; and
        temporary folders are swept of files that were not read for days, as of workers that have known them for long.
        """
        if self._big_job is not None:
            name, content = self._big_job
            if self._files.folder.size(name) is None:
                self._files.write_job(content)
        if self._job_file is not None and not os.path.exists(self._job_file):
            self._job_file = write_shared_job(self._job, os.path.dirname(self._job_file))

    def _process_beside(self) -> BackgroundProcess | None:
        """The process for work that gives way to the epochs, where all tasks run on this machine."""
        if not self._tasks_run_here or not is_found_by_new_interpreters():
            return None
        return BackgroundProcess(SparkFiles.getRootDirectory())

    def _run_beside(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        assert self._beside is not None
        self._bring_back_the_job()
        pickled = [pickle.dumps(item, protocol=5) for item in items]
        outcomes = self._beside.run(self._job, pickle_by_value(work), pickled)
        return [pickle.loads(outcome).result() for outcome in outcomes]

    def _run_background(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        self._tag_queries()
        self._bring_back_the_job()
        pickled = [pickle_by_value(work), *(pickle.dumps(item, protocol=5) for item in items)]
        parts = self._files.write_parts(pickled)
        numbers = self._session.range(0, len(items), 1, len(items))
        try:
            stage = partial(background_stage, self._job, parts)
            found = numbers.mapInArrow(stage, "number long, outcome binary").toArrow()
        except SPARK_ERRORS as error:
            raise failure("work beside the epochs", error) from error
        finally:
            self._files.forget(parts)
        outcomes = dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
        return [pickle.loads(outcomes[number]).result() for number in range(len(items))]

    def _check_executors(self, folder: Folder) -> None:
        """Before anything is sent that only the same headrace can read, and before anything is begun."""
        try:
            check_versions(ask_workers(self._session, max(self._parallelism)))
        except SPARK_ERRORS as error:
            raise failure("asking the executors for their versions", error) from error
        try:
            check_directory(self._session, folder)
        except SPARK_ERRORS as error:
            raise failure(f"writing to {folder} from a task", error) from error


def _stopped() -> JobExecutionError:
    return JobExecutionError("the Spark session was stopped while the job ran; run the program again")


class DriverStage:
    """The last stage of a bounded job, which one task runs in the driver, to give results to the program itself.

    Spark takes about 50 milliseconds to begin a stage and to report its end, which is longer than the last stage of
    most queries works. All tasks run on the driver's machine then, so that what they hand on is found there.

    Args:
        blob: the job; one task runs its last stage.

    Attributes:
        times: where the time of its last run went.
    """

    def __init__(self, blob: SerializedJob) -> None:
        self.times: list[TaskTimes] = []
        self._stage = len(blob.parallelism) - 1
        self._runner = TaskRunner(blob)
        self._runner.on_times = self.times.append
        self._interruptible = InterruptibleRun()

    def run(self, envelopes: Iterable[Envelope], payloads: str | None) -> list[Envelope]:
        """Run the stage; the result is what it sends, and the envelopes that were not for it.

        Args:
            envelopes: what the stages before it have sent.
            payloads: the folder of large payloads, if there is one.

        Raises:
            InfrastructureError: when it is interrupted, or what it was sent cannot be read.
        """
        self.times.clear()
        reader = PayloadReader(payloads)
        try:
            received = [reader.loaded(each) if each.stage == self._stage else each for each in envelopes]
        except OSError as error:
            raise InfrastructureError(f"what was sent to the last stage cannot be read: {error}") from error
        try:
            return self._interruptible.run(partial(self._run, sorted(received, key=sort_key)))
        except EpochCancelledError as error:
            self._runner.drop_interrupted()
            raise InfrastructureError("the last stage of the epoch was given up") from error

    def _run(self, received: list[Envelope]) -> list[Envelope]:
        return list(self._runner.run_stage_task(self._stage, received))

    def interrupt(self) -> None:
        """Interrupt what it does; from another thread."""
        self._interruptible.interrupt()

    def close(self) -> None:
        """Close its operators."""
        self._runner.close()
