"""A headrace job over the input: the environment, the source, the run and what it says about itself."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from benchmarks.data import OUT_OF_ORDER_MILLIS
from benchmarks.memory import processor_seconds
from benchmarks.outcome import Assignment, Epoch, Outcome, medians
from benchmarks.sql import RUNS
from headrace.client.running import submission_defaults
from headrace.common import Configuration
from headrace.common.options import RuntimeExecutionMode
from headrace.common.time import Duration
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.parquet import ParquetFormat
from headrace.jobmanager.events import EpochStatistics, JobEvent, JobStart
from headrace.jobmanager.status import JobSnapshot

if TYPE_CHECKING:
    from headrace.datastream.data_stream import DataStream

_TASKS = 2


class EpochTimes:
    """Takes the time from the end of one epoch to the end of the next, so nothing in between is left out.

    Attributes:
        epochs: every epoch so far.
        parts: the parts of each epoch's time, in seconds.
    """

    def __init__(self) -> None:
        self.epochs: list[Epoch] = []
        self.parts: list[dict[str, float]] = []
        self._last = 0.0

    def __enter__(self) -> Self:
        """The job is about to start."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The job is over."""

    def parts_of(self, statistics: EpochStatistics) -> dict[str, float]:
        """The parts of the time of the epoch that has just ended."""
        return {
            "planning": statistics.planning,
            "running": statistics.running,
            "checkpointing": statistics.checkpointing,
            "waiting for sinks": statistics.waiting,
        }

    def summary(self) -> dict[str, Any]:
        """The median parts of the second half of the run."""
        return {"seconds": medians(self.parts[len(self.parts) // 2 :])}

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened to the job."""
        if isinstance(event, JobStart):
            self.job_started(event)
        elif isinstance(event, EpochStatistics):
            self.epoch_completed(event)

    def job_started(self, start: JobStart) -> None:
        self._last = time.monotonic()

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        now = time.monotonic()
        self.epochs.append(Epoch(statistics.records, now - self._last))
        self.parts.append(self.parts_of(statistics))
        self._last = now


def open_environment(assignment: Assignment, parallelism: int = _TASKS) -> StreamExecutionEnvironment:
    """An environment with the settings of :func:`configuration_of`; with the option ``batch`` in batch mode."""
    configuration = configuration_of(assignment, parallelism)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    is_batch = assignment.options.get("batch")
    return environment.set_runtime_mode(RuntimeExecutionMode.BATCH if is_batch else RuntimeExecutionMode.STREAMING)


def configuration_of(assignment: Assignment, parallelism: int = _TASKS) -> Configuration:
    """Headrace's defaults on two cores, but for the size of epochs, which is fixed.

    With the option ``default_sizes`` it is not: headrace goes by its target duration. The option ``settings`` is of
    configuration besides.
    """
    fixed = {}
    if not assignment.options.get("default_sizes"):
        assert assignment.records_per_epoch is not None, "epochs have a size, or default sizes"
        fixed = {
            "headrace.epoch.max-records": str(assignment.records_per_epoch // parallelism),
            "headrace.epoch.max-bytes": "4 gb",
            "headrace.epoch.target-duration": "10 min",
        }
    settings = {
        "execution.checkpointing.dir": str(assignment.work / "checkpoints"),
        "headrace.spark.master": f"local[{_TASKS}]",
        "parallelism.default": str(parallelism),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={assignment.work / 'tmp'}",
    }
    settings |= fixed | assignment.options.get("settings", {})
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    return configuration


def event_time() -> WatermarkStrategy:
    """Records are as much out of order as the input has them."""
    tolerated = Duration.of_millis(OUT_OF_ORDER_MILLIS)
    return WatermarkStrategy.for_bounded_out_of_orderness(tolerated).with_timestamp_assigner("ts")


def read_files(
    environment: StreamExecutionEnvironment, assignment: Assignment, strategy: WatermarkStrategy
) -> DataStream:
    """The input as a stream."""
    source = FileSource.for_bulk_file_format(ParquetFormat(), assignment.input).build()
    return environment.from_source(source, strategy, "events")


def run_job(environment: StreamExecutionEnvironment, listener: EpochTimes) -> Mapping[str, Any]:
    """Run the job to its end; its counters."""
    with listener, submission_defaults({}, listener):
        counters: Mapping[str, Any] = environment.execute("benchmark").get_all_accumulator_results()
    return counters


def whole_runs(assignment: Assignment, job: Callable[[EpochTimes], object], totals: Mapping[str, float]) -> Outcome:
    """Run a job several times, and report the time of each run, to the end of its last epoch, as one epoch."""
    epochs, processor = [], []
    records = assignment.records_per_epoch
    assert records is not None
    for _ in range(RUNS):
        shutil.rmtree(assignment.work / "checkpoints", ignore_errors=True)
        times, before = EpochTimes(), processor_seconds()
        job(times)
        epochs.append(Epoch(records, sum(each.seconds for each in times.epochs)))
        processor.append(processor_seconds() - before)
    return Outcome(tuple(epochs), totals, {"processor": processor, **times.summary()})
