"""The function of :mod:`benchmarks.programs.headrace_process` before a sink that takes its time.

Options: ``writing``, seconds that each writer takes for an epoch, within it; ``committing``, seconds for the commit of
an epoch, behind its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, read_files, run_job
from benchmarks.programs.headrace_process import CHECKS, RESULT, CountAndSum
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.connectors.sink import Committer, SinkWriter

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.connectors.sink import CommitterContext, WriterContext


class SlowSink(CountingSink):
    """Counts, slowly.

    Args:
        writing: seconds of a writer for an epoch.
        committing: seconds of the committer for an epoch.
    """

    def __init__(self, writing: float, committing: float) -> None:
        super().__init__(CHECKS)
        self._writing = writing
        self._committing = committing

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _SlowWriter(super().create_writer(context), self._writing)

    def create_committer(self, context: CommitterContext) -> Committer:
        return _SlowCommitter(super().create_committer(context), self._committing)


class _SlowWriter(SinkWriter):
    def __init__(self, writer: SinkWriter, seconds: float) -> None:
        self._writer = writer
        self._seconds = seconds

    def write(self, batch: Batch) -> None:
        self._writer.write(batch)

    def prepare_commit(self) -> Sequence[Any]:
        time.sleep(self._seconds)
        return self._writer.prepare_commit()


class _SlowCommitter(Committer):
    def __init__(self, committer: Committer, seconds: float) -> None:
        self._committer = committer
        self._seconds = seconds

    def commit(self, epoch: int, committables: Sequence[Any], processing_time: int) -> None:
        time.sleep(self._seconds)
        self._committer.commit(epoch, committables, processing_time)


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    environment = open_environment(assignment)
    sink = SlowSink(assignment.options["writing"], assignment.options["committing"])
    (
        read_files(environment, assignment, WatermarkStrategy.no_watermarks())
        .key_by("key")
        .process(CountAndSum(), output_type=RESULT)
        .uid("totals")
        .sink_to(sink)
    )
    times = EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())
