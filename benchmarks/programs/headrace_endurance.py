"""Very many small epochs of a job with windows and keyed state, with a look at memory, disk and files now and then.

Options: ``epochs``, and ``samples``, how often to look. What is seen is in the outcome's details.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from pyspark import SparkContext

from benchmarks.data import START_MILLIS
from benchmarks.memory import DRIVER, JVM, MIB, WORKER, Peaks, resident_by_role
from benchmarks.outcome import Assignment, Outcome, median
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, run_job
from benchmarks.programs.headrace_process import RESULT, CountAndSum
from headrace.common import Types
from headrace.common.time import Duration, Time
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import aggregates
from headrace.datastream.connectors.datagen import DataGeneratorSource
from headrace.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    import numpy as np

    from headrace.jobmanager.events import EpochStatistics

_KEYS = 1_000
_MILLIS_PER_RECORD = 25
_EVENT = Types.ROW_NAMED(["key", "ts", "value"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])


class Samples(EpochTimes):
    """Looks at this process, its JVM, its workers and its folder every so many epochs.

    Args:
        every: after how many epochs.
        folder: where the job writes.
    """

    def __init__(self, every: int, folder: Path) -> None:
        super().__init__()
        self._every = every
        self._folder = folder
        self.samples: list[dict[str, float]] = []

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        super().epoch_completed(statistics)
        if len(self.epochs) % self._every == 0:
            self.samples.append(self._look())

    def _look(self) -> dict[str, float]:
        recent = [epoch.seconds for epoch in self.epochs[-self._every :]]
        peaks = Peaks()
        for role, resident in resident_by_role(psutil.Process()):
            peaks.see(role, resident)
        processes = {f"{role} MiB": round(peaks.by_role.get(role, 0) / MIB) for role in (JVM, DRIVER, WORKER)}
        return (
            {"epochs": len(self.epochs), "epoch ms": round(median(recent) * 1000), "heap MiB": _heap_after_collection()}
            | processes
            | {"JVM threads": _jvm_threads(), "driver files": psutil.Process().num_fds()}
            | dict(_usage(self._folder))
        )


def _heap_after_collection() -> int:
    """What lives in the JVM's heap, in MiB."""
    jvm = _jvm()
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return round(int(runtime.totalMemory() - runtime.freeMemory()) / MIB)


def _jvm_threads() -> int:
    return int(_jvm().Thread.activeCount())


def _jvm() -> Any:
    context = SparkContext._active_spark_context
    assert context is not None
    gateway: Any = context._jvm
    return gateway.java.lang


def _usage(folder: Path) -> Iterator[tuple[str, float]]:
    """Bytes and numbers of files below a folder, for checkpoints and for everything temporary."""
    for name, parts in {"checkpoint": ("checkpoints",), "temporary": ("spark", "tmp")}.items():
        sizes = [size for part in parts for size in _sizes(folder / part)]
        yield f"{name} KiB", round(sum(sizes) / 1024)
        yield f"{name} files", len(sizes)


def _sizes(folder: Path) -> Iterator[int]:
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(parent) / name).lstat().st_size
            except FileNotFoundError:  # deleted meanwhile
                continue


def make_events(indices: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Records by number."""
    size = len(indices)
    return {
        "key": rng.integers(0, _KEYS, size),
        "ts": START_MILLIS + indices * _MILLIS_PER_RECORD - rng.integers(0, 5_000, size),
        "value": rng.random(size),
    }


def run(assignment: Assignment) -> Outcome:
    """Run the job to its end."""
    epochs = assignment.options["epochs"]
    environment = open_environment(assignment)
    source = DataGeneratorSource(
        batch_generator=make_events, count=epochs * assignment.records_per_epoch, type_info=_EVENT, seed=7
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner("ts")
    keyed = environment.from_source(source, strategy, "events").uid("events").key_by("key")
    windows, totals = CountingSink((("count", "c", "sum"),)), CountingSink()
    (
        keyed.window(TumblingEventTimeWindows.of(Time.seconds(60)))
        .aggregate(aggregates.count().alias("c"), aggregates.sum("value").alias("s"))
        .uid("windows")
        .sink_to(windows)
    )
    keyed.process(CountAndSum(), output_type=RESULT).uid("totals").sink_to(totals)
    samples = Samples(max(1, epochs // assignment.options["samples"]), assignment.work)
    run_job(environment, samples)
    return Outcome(tuple(samples.epochs), windows.totals, {"samples": samples.samples})
