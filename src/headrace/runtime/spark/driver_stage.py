"""The last stage of a bounded job in the driver: where one task runs it, to give results to the program itself.

Spark takes about 50 milliseconds to begin a stage and to report its end, which is longer than the last stage of
most queries works. All tasks run on the driver's machine then, so that what they hand on is found there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.common.errors import InfrastructureError
from headrace.exchange.envelope import sort_key
from headrace.operators.user_code import EpochCancelledError, InterruptibleRun
from headrace.runtime.spark.shipping import PayloadReader
from headrace.runtime.task.runner import TaskRunner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.exchange.envelope import Envelope
    from headrace.runtime.task.messages import SerializedJob
    from headrace.runtime.task.task_clock import TaskTimes


class DriverStage:
    """The last stage of a job.

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
