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

    def add_lasting(self, begin: Callable[[JobManager, CompletableFuture[T]], None]) -> CompletableFuture[T]:
        """Have something begun that goes on beside the epochs.

        Returns:
            The outcome, which ``begin`` is given to complete it later; it raises nothing.
        """
        outcome: CompletableFuture[T] = CompletableFuture()

        def fail(begun: CompletableFuture[None]) -> None:
            error = begun.exception()
            if error is not None and not outcome.done():
                outcome.set_exception(error)

        self.add(lambda job: begin(job, outcome)).add_done_callback(fail)
        return outcome

    def run_all(self, job: JobManager) -> None:
        """Carry out what waits, in the order in which it was asked for."""
        while (next_one := self._next()) is not None:
            command, outcome = next_one
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
        while (left := self._next()) is not None:
            left[1].set_exception(_ended())

    def _next(self) -> tuple[Command[Any], CompletableFuture[Any]] | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None


def _ended() -> JobExecutionError:
    return JobExecutionError("the job has ended before it could do what it was asked for")
