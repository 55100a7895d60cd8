"""A running sum for each key over generated records. Options: ``parallelism`` and ``epochs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.data import START_MILLIS
from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, run_job
from headrace.common import Types
from headrace.common.time import Duration
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream.connectors.datagen import DataGeneratorSource

if TYPE_CHECKING:
    import numpy as np

_KEYS = 1_000
_EVENT = Types.ROW_NAMED(["key", "ts", "value"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])


def make_events(indices: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Records by number."""
    size = len(indices)
    return {"key": rng.integers(0, _KEYS, size), "ts": START_MILLIS + indices, "value": rng.random(size)}


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    records = assignment.options["epochs"] * assignment.records_per_epoch
    environment = open_environment(assignment, assignment.options["parallelism"])
    source = DataGeneratorSource(batch_generator=make_events, count=records, type_info=_EVENT, seed=7)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner("ts")
    sink = CountingSink()
    environment.from_source(source, strategy, "events").uid("events").key_by("key").sum("value").uid("sums").sink_to(
        sink
    )
    times = EpochTimes()
    run_job(environment, times)
    manifests = [path.stat().st_size for path in (assignment.work / "checkpoints").rglob("manifests/*.json")]
    details = times.summary() | {"manifest KiB": max(manifests) / 1024}
    return Outcome(tuple(times.epochs), sink.totals | {"sent": records}, details)
