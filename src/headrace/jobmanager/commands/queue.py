"""Commands to a running job: asked for by any thread, carried out by the job's own between two epochs.

Between epochs a manifest says all there is to say of the job, and nothing moves. So a command neither takes locks nor
meets a half-done epoch.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import JobExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jobmanager.job_manager import JobManager

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Command(Protocol[T_co]):
    """What a job is asked to do; whatever it raises goes to whoever has asked, and the job goes on."""

    def __call__(self, job: JobManager) -> T_co:
        """Do it, in the job's thread."""


class CommandQueue:
    """The commands that wait for the running epoch to end.

    Args:
        wake: set when there is a command, for a job that waits for input.
    """

    def __init__(self, wake: threading.Event) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Command[Any], CompletableFuture[Any]]] = deque()
        self._is_closed = False

    def add(self, command: Command[T]) -> CompletableFuture[T]:
        """Ask for something.

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

    def add_lasting(
        self, begin: Callable[[JobManager, CompletableFuture[T]], None], too_late: Exception
    ) -> CompletableFuture[T]:
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

        self.add(lambda job: begin(job, outcome)).add_done_callback(fail)
        return outcome

    def run_all(self, job: JobManager) -> None:
        """Carry out what waits, in the order in which it was asked for.

        What is asked for meanwhile waits for the next time: somebody who asks without pause cannot keep the job from
        its epochs, or from its end.
        """
        for _ in range(len(self._waiting)):
            command, outcome = self._waiting.popleft()  # nobody else takes any while the queue is open
            try:
                result = command(job)
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
