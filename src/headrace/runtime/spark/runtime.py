"""The Spark runtime: one epoch is one query, ``mapInArrow → repartitionById → mapInArrow → …``."""

from __future__ import annotations

import base64
import contextlib
import logging
import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from headrace.common.errors import CheckpointStorageError, JobExecutionError
from headrace.exchange.envelope import DDL, SORT_COLUMNS, Kind
from headrace.runtime.spark.faults import SPARK_ERRORS, failure, first_line
from headrace.runtime.spark.worker import CompactionStage, LaterStage, ShippedJob, SourceStage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.spark.session import SessionHandle
    from headrace.runtime.task.instance import JobBlob
    from headrace.runtime.task.messages import EpochContext, TaskReport
    from headrace.state.compaction import CompactionResult, CompactionTask

logger = logging.getLogger(__name__)

_STOPPED: tuple[type[Exception], ...] = (AttributeError, *SPARK_ERRORS)
"""What a context raises that has been stopped: PySpark lets go of its Java half."""

SHIPPED_CONTEXT_BYTES = 256 * 1024
"""A larger context is not sent along with every task, but lies in the plan of a query that is built for it."""

INLINE_JOB_BYTES = 512 * 1024
"""A larger job lies in a file: PySpark broadcasts closures above 1 MiB, and leaves a file behind each time."""


class SparkRuntime:
    """Executes epochs as Spark queries; implements :class:`headrace.jobmanager.runtime.Runtime`.

    Args:
        handle: the session; it outlives the job, whoever has built it.
    """

    def __init__(self, handle: SessionHandle) -> None:
        self._session = handle.session
        self._tag = f"headrace-{uuid.uuid4().hex[:12]}"
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headrace-background")
        self._parallelism: list[int] = []
        self._job: ShippedJob | None = None
        self._job_file: Path | None = None
        self._prepared: DataFrame | None = None
        self._context_key = f"spark.headrace.{self._tag}"

    def start(self, blob: JobBlob) -> None:
        """Ship the job, and try from a task whether the state directory can be written there."""
        for archive in blob.dependencies.all():
            self._session.sparkContext.addArchive(f"{archive.path}#{archive.name}")
        plan: JobPlan = pickle.loads(blob.plan)
        self._parallelism = [stage.parallelism for stage in plan.stages]
        content = pickle.dumps(blob, protocol=5)
        if len(content) <= INLINE_JOB_BYTES:
            self._job = ShippedJob(blob.digest, content, None)
        else:
            self._job_file = Path(blob.state_directory).parent / f"job-{blob.digest}.pickle"
            self._job_file.write_bytes(content)
            self._job = ShippedJob(blob.digest, None, str(self._job_file))
        self._probe(blob.state_directory)

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        """Run the epoch as one query.

        Raises:
            InfrastructureError: on a fault that Spark's own retries did not mend.
        """
        try:
            self._tag_queries()
            table = self._query(context).toArrow()
        except SPARK_ERRORS as error:
            raise failure(f"epoch {context.epoch}", error) from error
        payloads = table.column("payload")
        kinds = table.column("kind").to_pylist()
        return [pickle.loads(payloads[row].as_buffer()) for row, kind in enumerate(kinds) if kind == Kind.REPORT]

    def start_compaction(
        self, state_directory: str, tasks: list[CompactionTask]
    ) -> Callable[[], list[CompactionResult] | None]:
        """Merge runs in a query of their own, which runs beside the epochs."""
        future = self._background.submit(self._compact, state_directory, tasks)
        return lambda: future.result() if future.done() else None

    def cancel(self) -> None:
        """Interrupt the query that runs."""
        # Not interruptTag() of the session: it finds only what the same thread has tagged.
        with contextlib.suppress(*_STOPPED):
            self._session.sparkContext.cancelJobsWithTag(self._tag)

    def close(self) -> None:
        """Let go of the job; the session stays, for the next job and for the user's own queries."""
        self._background.shutdown(wait=True, cancel_futures=True)
        if self._job_file is not None:
            self._job_file.unlink(missing_ok=True)
        with contextlib.suppress(*_STOPPED):  # whoever has ended Spark is told by the epoch that fails
            self._session.sparkContext.removeJobTag(self._tag)
            self._session.conf.unset(self._context_key)

    def _tag_queries(self) -> None:
        """Let :meth:`cancel` find the queries that this thread is about to run."""
        try:
            self._session.sparkContext.addJobTag(self._tag)
        except AttributeError as error:
            raise JobExecutionError("the Spark session was stopped while the job ran; run the program again") from error

    def _query(self, context: EpochContext) -> DataFrame:
        """The epoch's query: the one that was analysed once, or one of its own for a context that is too big to ship.

        ``select`` makes a new query of the old DataFrame: running the DataFrame itself again would take the shuffle
        files of the epoch before.
        """
        payload = context.to_bytes()
        if len(payload) > SHIPPED_CONTEXT_BYTES:
            return self._build(payload)
        if self._prepared is None:
            self._prepared = self._build(None)
        self._session.conf.set(self._context_key, base64.b64encode(payload).decode())
        return self._prepared.select("*")

    def _build(self, context: bytes | None) -> DataFrame:
        assert self._job is not None, "start() comes first"
        tasks = self._parallelism[0]
        column = sql.lit(context).cast("binary").alias("context")
        rows = self._session.range(0, tasks, 1, tasks).select("id", column)
        query = rows.mapInArrow(SourceStage(self._job, self._context_key), DDL)
        for stage in range(1, len(self._parallelism)):
            query = (
                query.repartitionById(self._parallelism[stage], sql.col("partition"))
                .sortWithinPartitions(*SORT_COLUMNS)
                .mapInArrow(LaterStage(self._job, stage), DDL)
            )
        return query

    def _compact(self, state_directory: str, tasks: list[CompactionTask]) -> list[CompactionResult]:
        self._tag_queries()
        content = pickle.dumps(tasks, protocol=5)
        rows = self._session.range(0, len(tasks), 1, len(tasks)).select("id", sql.lit(content).alias("tasks"))
        try:
            found = rows.mapInArrow(CompactionStage(state_directory), "result binary").toArrow()
        except SPARK_ERRORS as error:
            logger.info("a compaction is given up, the next one makes up for it: %s", first_line(error))
            return []
        return [pickle.loads(result) for result in found.column(0).to_pylist()]

    def _probe(self, state_directory: str) -> None:
        """Write and read a file of the state directory on an executor."""
        name = f".probe-{uuid.uuid4().hex}"
        try:
            self._session.range(0, 1, 1, 1).mapInArrow(_Probe(state_directory, name), "ok boolean").collect()
        except SPARK_ERRORS as error:
            raise failure(f"writing to {state_directory} from a task", error) from error
        written = Path(state_directory) / name
        if not written.exists():
            raise CheckpointStorageError(
                f"a task wrote to {state_directory}, the driver does not see it: executors and driver must share the "
                "checkpoint directory; set execution.checkpointing.dir to a shared path"
            )
        written.unlink()


class _Probe:
    """Writes a file from a task."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._name = name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for _ in batches:
            folder = Path(self._folder)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / self._name).write_bytes(b"")
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([True])], names=["ok"])
