"""Savepoints of a job with much keyed state, in headrace: taken while it runs, started from, and another parallelism.

When all keys are there, savepoints are taken one after the other, with epochs in between that nothing disturbs. Then
the job is rescaled, and comes to its end. After that jobs begin in the same Spark session, in turn with nothing and
with the first savepoint, so that the start of Java counts for none of them.

Options: ``keys`` (how many there are), ``savepoints`` (how many are taken), ``between`` (epochs between them),
``starts`` (how often a job begins with and without one).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.outcome import Assignment, Outcome, median
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, read_files
from benchmarks.programs.headrace_process import CHECKS, RESULT, CountAndSum
from headrace.client.running import submission_defaults
from headrace.common.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.jobmanager.events import EpochStatistics

Interval = tuple[float, float]

_LOOK_SECONDS = 0.002
_RESCALED = 4


class Intervals(EpochTimes):
    """Besides, when each epoch began and ended.

    Attributes:
        intervals: of each epoch so far.
        records: how many records all of them have read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.intervals: list[Interval] = []
        self.records = 0

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        began = self._last
        super().epoch_completed(statistics)
        self.records += statistics.records
        self.intervals.append((began, self._last))

    def wait(self, is_there: Callable[[], bool]) -> None:
        """Wait for something that epochs bring about."""
        while not is_there():
            time.sleep(_LOOK_SECONDS)

    def wait_epochs(self, count: int) -> None:
        """Wait for so many more epochs."""
        wanted = len(self.intervals) + count
        self.wait(lambda: len(self.intervals) >= wanted)


def run(assignment: Assignment) -> Outcome:
    """All of it."""
    sink, epochs = CountingSink(CHECKS), Intervals()
    client = start(assignment, sink, epochs, "job", {})
    epochs.wait(lambda: epochs.records >= assignment.options["keys"])
    epochs.wait_epochs(assignment.options["between"])
    loaded = len(epochs.intervals)
    places, taken = savepoints(client, epochs, assignment)
    native = timed(lambda: client.trigger_savepoint(str(assignment.work / "native"), "native").result())
    rescaled = rescale(client, epochs)
    client.get_job_execution_result().result()
    during, between = by_interval(epochs.intervals[loaded - assignment.options["between"] :], taken, rescaled[0])
    seconds = starts(assignment, places[0])
    details = epochs.summary() | {
        "canonical savepoint": median([end - begin for begin, end in taken]),
        "native savepoint": native[1] - native[0],
        "rescale": rescaled[1] - rescaled[0],
        "start": median(seconds["start"]),
        "start from a savepoint": median(seconds["start from a savepoint"]),
        "epochs during a savepoint": during,
        "epochs without": between,
    }
    return Outcome(tuple(epochs.epochs), sink.totals, details)


def start(
    assignment: Assignment, sink: CountingSink, epochs: EpochTimes, name: str, settings: Mapping[str, str]
) -> JobClient:
    """Start a job with a checkpoint directory of its own."""
    environment = open_environment(assignment)
    (
        read_files(environment, assignment, WatermarkStrategy.no_watermarks())
        .key_by("key")
        .process(CountAndSum(), output_type=RESULT)
        .uid("totals")
        .sink_to(sink)
    )
    own = {"execution.checkpointing.dir": str(assignment.work / name)}
    with submission_defaults({**own, **settings}, epochs):
        return environment.execute_async("savepoints")


def savepoints(client: JobClient, epochs: Intervals, assignment: Assignment) -> tuple[list[str], list[Interval]]:
    """Take canonical savepoints; where they are, and when they were asked for and complete."""
    places, taken = [], []
    for _ in range(assignment.options["savepoints"]):
        began = time.monotonic()
        places.append(client.trigger_savepoint(str(assignment.work / "savepoints")).result())
        taken.append((began, time.monotonic()))
        epochs.wait_epochs(assignment.options["between"])
    return places, taken


def rescale(client: JobClient, epochs: Intervals) -> Interval:
    """Go on at twice the parallelism: from the request to the end of the first epoch."""
    began = time.monotonic()
    client.rescale(_RESCALED).result()
    epochs.wait_epochs(1)
    return began, epochs.intervals[-1][1]


def timed(action: Callable[[], Any]) -> Interval:
    """When something was begun, and when it was done."""
    began = time.monotonic()
    action()
    return began, time.monotonic()


def by_interval(epochs: Sequence[Interval], taken: Sequence[Interval], end: float) -> tuple[list[float], list[float]]:
    """The seconds of epochs that ran while a savepoint was taken, and those of the others before the end."""
    during, between = [], []
    for began, ended in epochs:
        if ended < end:
            is_disturbed = any(began < complete and asked < ended for asked, complete in taken)
            (during if is_disturbed else between).append(ended - began)
    return during, between


def starts(assignment: Assignment, savepoint: str) -> dict[str, list[float]]:
    """Seconds from ``execute`` to the first manifest, with and without a savepoint."""
    cases = {"start": {}, "start from a savepoint": {"execution.state-recovery.path": savepoint}}
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(assignment.options["starts"]):
        for name, settings in cases.items():
            epochs = Intervals()
            began = time.monotonic()
            client = start(assignment, CountingSink(CHECKS), epochs, f"{name}-{number}".replace(" ", "-"), settings)
            epochs.wait_epochs(1)
            seconds[name].append(epochs.intervals[0][1] - began)
            client.stop().result()
    return seconds
