"""``JobControl``: what others may ask of a running job, and the queue in which that waits for the job's own thread.

Between epochs a manifest says all there is to say of the job, and nothing moves. So a command neither takes locks nor
meets a half-done epoch.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import JobExecutionError

if TYPE_CHECKING:
    from headrace.jobmanager.commands.savepoints import SavepointRequest
    from headrace.jobmanager.metrics import MetricKey
    from headrace.jobmanager.status import JobSnapshot

T = TypeVar("T")


class JobControl(Protocol):
    """A running job as others see it; every method may be called from any thread.

    The client of the program, requests of other processes and whatever serves a job to the network share it, so that
    a savepoint or a stop means the same wherever it comes from.
    """

    def status(self) -> JobSnapshot:
        """The newest snapshot; it is there before the job starts, and stays after its end."""

    def metrics(self) -> dict[MetricKey, float]:
        """All that the job measures, of operators and of their subtasks, as of the last epoch."""

    def take_savepoint(
        self, wanted: SavepointRequest, *, stops: bool = False, drains: bool = False
    ) -> CompletableFuture[str]:
        """Take a savepoint between two epochs.

        Args:
            wanted: where, and of which format.
            stops: whether the job stops there.
            drains: whether all sources end where they are first, and so the job.

        Returns:
            The place of the savepoint, once it is complete; a ``SavepointError`` when none was taken.
        """

    def stop(self, *, drain: bool = False) -> None:
        """Stop at the end of the epoch that runs; with ``drain`` one more epoch ends all sources where they are."""

    def cancel(self) -> None:
        """Give up the epoch that runs, and stop."""

    def rescale(self, parallelism: int) -> CompletableFuture[None]:
        """Go on at another parallelism from the end of the epoch that runs.

        Returns:
            The outcome: ``UnsupportedOperationError`` when the job cannot be planned anew, ``InvalidProgramError`` or
            ``StateMigrationError`` when it cannot be planned so; then it goes on as it was.
        """


class CommandQueue:
    """The commands that wait for the running epoch to end.

    Args:
        wake: set when there is a command, for a job that waits for input.
    """

    def __init__(self, wake: threading.Event) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], Any], CompletableFuture[Any]]] = deque()
        self._is_closed = False

    def add(self, command: Callable[[], T]) -> CompletableFuture[T]:
        """Ask for something; what it raises goes to whoever has asked, and the job goes on.

        Returns:
            The outcome; a ``JobExecutionError`` when the job ends before.
        """
        outcome: CompletableFuture[T] = CompletableFuture()
        with self._lock:
            if not self._is_closed:
                self._waiting.append((command, outcome))
                self._wake.set()
                return outcome
        outcome.set_exception(_ended())
        return outcome

    def add_lasting(self, begin: Callable[[CompletableFuture[T]], None], too_late: Exception) -> CompletableFuture[T]:
        """Have something begun that goes on beside the epochs.

        Args:
            begin: begins it; it raises nothing.
            too_late: the outcome when the job ends before it has begun.

        Returns:
            The outcome, which ``begin`` is given to complete it later.
        """
        outcome: CompletableFuture[T] = CompletableFuture()

        def fail(begun: CompletableFuture[None]) -> None:
            if begun.exception() is not None and not outcome.done():
                outcome.set_exception(too_late)

        self.add(lambda: begin(outcome)).add_done_callback(fail)
        return outcome

    def run_all(self) -> None:
        """Carry out what waits, in the order in which it was asked for.

        What is asked for meanwhile waits for the next time: somebody who asks without pause cannot keep the job from
        its epochs, or from its end.
        """
        for _ in range(len(self._waiting)):
            command, outcome = self._waiting.popleft()  # nobody else takes any while the queue is open
            try:
                result = command()
            except Exception as error:
                outcome.set_exception(error)
            except BaseException:
                outcome.set_exception(_ended())
                raise
            else:
                outcome.set_result(result)

    def close(self) -> None:
        """The job is over: nothing is carried out any more."""
        with self._lock:
            self._is_closed = True
        while self._waiting:
            self._waiting.popleft()[1].set_exception(_ended())


def _ended() -> JobExecutionError:
    return JobExecutionError("the job has ended before it could do what it was asked for")
