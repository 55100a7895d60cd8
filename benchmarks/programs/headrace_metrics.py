"""Windows by headrace in one process, again and again: in turn without reporters of metrics and with some.

Option: ``rounds``, how often each has its turn after the first one, which warms up.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.memory import processor_seconds
from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, event_time, open_environment, read_files, run_job
from benchmarks.truth import WINDOW_MILLIS
from headrace.common.time import Time
from headrace.datastream import aggregates
from headrace.datastream.window import TumblingEventTimeWindows

CHECKS = (("count", "c", "sum"), ("sum", "s", "sum"), ("last_end", "window_end", "max"))


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input, several times."""
    sink = CountingSink(CHECKS)
    records = assignment.records_per_epoch
    assert records is not None
    epochs, processor = [], {"without": list[float](), "with": list[float]()}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        ways = {"without": {}, "with": _reporters(server.getsockname()[1])}
        for _ in range(1 + assignment.options["rounds"]):
            for way, settings in ways.items():
                shutil.rmtree(assignment.work / "checkpoints", ignore_errors=True)
                before, times = processor_seconds(), EpochTimes()
                run_windows(replace(assignment, options={**assignment.options, "settings": settings}), sink, times)
                processor[way].append(processor_seconds() - before)
                epochs.append(Epoch(records, sum(each.seconds for each in times.epochs)))
    totals = {name: sink.totals[name] / len(epochs) for name in ("rows", "count", "sum")}
    totals["last_end"] = sink.totals["last_end"]
    return Outcome(tuple(epochs), totals, {"processor": {way: found[1:] for way, found in processor.items()}})


def _reporters(port: int) -> Mapping[str, str]:
    """Metrics each second, which is ten times as often as usual, and a span for each epoch."""
    return {
        "metrics.reporter.statsd.factory.class": "statsd",
        "metrics.reporter.statsd.host": "127.0.0.1",
        "metrics.reporter.statsd.port": str(port),
        "metrics.reporter.statsd.interval": "1 s",
        "traces.reporter.log.factory.class": "log",
        "traces.reporter.log.interval": "1 s",
    }


def run_windows(assignment: Assignment, sink: CountingSink, times: EpochTimes) -> None:
    """Run the job once."""
    environment = open_environment(assignment)
    (
        read_files(environment, assignment, event_time())
        .key_by("key")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS)))
        .aggregate(aggregates.count().alias("c"), aggregates.sum("value").alias("s"))
        .uid("windows")
        .sink_to(sink)
    )
    run_job(environment, times)
