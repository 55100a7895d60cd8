"""How long a record takes from when it could be read to when its result is visible, exactly once.

Numbered records become available at a fixed rate by the job's clock. Each passes a shuffle and a function with keyed
state; its result is a line in a file that the exactly-once file sink publishes. The file system says when that was: a
file's status changes last when it is renamed to the name under which it is visible.

Options: ``rate`` (records a second), ``seconds`` (how long), ``warm_up`` (seconds at the beginning that do not count).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.outcome import Assignment, Outcome, median
from benchmarks.programs.headrace_job import run_job
from benchmarks.programs.phases import Phases
from headrace.common import Configuration, Encoder, Row, Types
from headrace.common.options import RuntimeExecutionMode
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from headrace.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.jobmanager.events import EpochStatistics

KEYS = 1_000
OUTPUT = "output"
_SOURCE = "events"
_EVENT = Types.ROW_NAMED(["number", "key"], [Types.LONG(), Types.LONG()])


class NumberAndCount(KeyedProcessFunction):
    """Emits each record's number, and how many its key has had so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value[0]} {count}"


class ClockedEpochs(Phases):
    """Besides, when each epoch began and ended.

    Attributes:
        clock: each epoch's reading of the job's clock, in milliseconds.
        ends: when each epoch was over, its manifest included, in milliseconds of the same clock.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock: list[float] = []
        self.ends: list[float] = []

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        super().epoch_completed(statistics)
        self.clock.append(statistics.processing_time)
        self.ends.append(statistics.processing_time + statistics.seconds * 1000)


@dataclass(frozen=True, slots=True)
class Results:
    """What is in the visible files.

    Attributes:
        numbers: of the records, in any order.
        counts: what the function counted at each.
        visible: when each result became visible, in milliseconds.
    """

    numbers: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    visible: npt.NDArray[np.float64]


def run(assignment: Assignment) -> Outcome:
    """Run the job for as long as it is to take."""
    rate, warm_up = assignment.options["rate"], assignment.options["warm_up"]
    environment = job_of_numbers(assignment)
    epochs = ClockedEpochs()
    run_job(environment, epochs)
    results = read_results(assignment.work / OUTPUT)
    started = _started(assignment.work / "checkpoints")
    counted_from = warm_up * rate
    kept = results.numbers >= counted_from
    available = started + (results.numbers[kept] + 1) * 1000 / rate
    details = epochs.summary() | {
        "latency ms": percentiles(results.visible[kept] - available),
        "of a record": parts(epochs, results.numbers[kept], available, results.visible[kept]),
    }
    totals = {"rows": len(results.numbers), "numbers": int(results.numbers.sum()), "counts": int(results.counts.sum())}
    return Outcome(tuple(epochs.epochs), totals, details)


def job_of_numbers(assignment: Assignment) -> StreamExecutionEnvironment:
    """The job, which is to be executed."""
    rate = assignment.options["rate"]
    environment = latency_environment(assignment)
    source = DataGeneratorSource(
        batch_generator=lambda numbers, _: {"number": numbers, "key": numbers % KEYS},
        count=rate * assignment.options["seconds"],
        rate_limiter_strategy=RateLimiterStrategy.per_second(rate),
        type_info=_EVENT,
    )
    sink = (
        FileSink.for_row_format(assignment.work / OUTPUT, Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    events = environment.from_source(source, WatermarkStrategy.no_watermarks(), _SOURCE).uid(_SOURCE)
    counted = events.key_by("key").process(NumberAndCount(), output_type=Types.STRING()).uid("counts")
    counted.sink_to(sink).uid("files")
    return environment


def read_results(output: Path) -> Results:
    """The lines of all visible files, with the time at which the file became visible."""
    files = [path for path in output.iterdir() if path.is_file() and not path.name.startswith(".")]
    parsed = [np.loadtxt(path, np.int64, ndmin=2) for path in files]
    visible = [np.full(len(lines), path.stat().st_ctime_ns / 1e6) for path, lines in zip(files, parsed, strict=True)]
    lines = np.concatenate([np.empty((0, 2), np.int64), *parsed])
    return Results(lines[:, 0], lines[:, 1], np.concatenate([np.empty(0), *visible]))


def percentiles(millis: npt.NDArray[np.float64]) -> dict[str, float]:
    """The usual ones of the latency, in milliseconds."""
    return {f"p{rank}": round(float(np.percentile(millis, rank)), 1) for rank in (50, 90, 99, 100)}


def parts(
    epochs: ClockedEpochs,
    numbers: npt.NDArray[np.int64],
    available: npt.NDArray[np.float64],
    visible: npt.NDArray[np.float64],
) -> dict[str, float]:
    """The medians of what a record's latency is made of, in seconds."""
    epoch = epochs_of(numbers, [each.records for each in epochs.epochs])
    begins, ends = np.array(epochs.clock)[epoch], np.array(epochs.ends)[epoch]
    return {
        "waiting for its epoch": median((begins - available).tolist()) / 1000,
        "its epoch": median((ends - begins).tolist()) / 1000,
        "from the end of the epoch to the visible file": median((visible - ends).tolist()) / 1000,
    }


def epochs_of(numbers: npt.NDArray[np.int64], records: Sequence[int]) -> list[int]:
    """In which epoch each record was read, if epochs read so many records one after the other."""
    ends = list(accumulate(records))
    return [bisect_right(ends, number) for number in numbers.tolist()]


def latency_environment(assignment: Assignment) -> StreamExecutionEnvironment:
    """On two cores, with headrace's defaults, sizes of epochs included, and the option ``settings`` besides."""
    configuration = Configuration()
    for key, value in assignment.options.get("settings", {}).items():
        configuration.set_string(key, value)
    configuration.set_string("execution.checkpointing.dir", str(assignment.work / "checkpoints"))
    configuration.set_string("headrace.spark.master", "local[2]")
    configuration.set_string("parallelism.default", "2")
    configuration.set_string("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={assignment.work / 'tmp'}")
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    return environment.set_runtime_mode(RuntimeExecutionMode.STREAMING)


def _started(checkpoints: Path) -> int:
    """When the first record was counted from, in milliseconds of the job's clock, by the newest manifest."""
    newest = max(checkpoints.rglob("manifests/*.json"), key=lambda path: path.name)
    content = json.loads(newest.read_text())
    return int(content["sources"][_SOURCE]["enumerator"]["started"])
