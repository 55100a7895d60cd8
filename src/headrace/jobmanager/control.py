"""Commands to a running job, and the queue in which they wait for the job's own thread.

Between epochs a manifest says all there is to say of the job, and nothing moves. So a command neither takes locks nor
meets a half-done epoch. Other processes send theirs as files in the checkpoint directory.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import JobCancelledError, JobExecutionError
from headrace.common.logs import get_logger
from headrace.jobmanager.savepoints import NO_PLACE, SavepointRequest
from headrace.savepoint.requests import REQUESTS, STARTING, JobAnswer, JobRequest, RequestFolder, RunningMark
from headrace.storage.folder import Folder

if TYPE_CHECKING:
    from headrace.jobmanager.status import JobSnapshot

logger = get_logger(__name__)


T = TypeVar("T")


class JobCommands(Protocol):
    """The commands that a job takes from any thread; :class:`headrace.jobmanager.job_manager.JobManager` has them."""

    def status(self) -> JobSnapshot: ...

    def stop(self, *, drain: bool = False) -> None: ...

    def cancel(self) -> None: ...

    def take_savepoint(
        self, wanted: SavepointRequest, *, stops: bool = False, drains: bool = False
    ) -> CompletableFuture[str]: ...

    def trigger_checkpoint(self) -> CompletableFuture[int]: ...

    def rescale(self, parallelism: int) -> CompletableFuture[None]: ...

    def release_epoch(self) -> int: ...


class CommandQueue:
    """The commands that wait for the running epoch to end.

    Args:
        wake: set when there is a command, for a job that waits for input.
    """

    def __init__(self, wake: threading.Event) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], Any], CompletableFuture]] = deque()
        self._is_closed = False

    def add(self, command: Callable[[], T]) -> CompletableFuture[T]:
        """Have a command run; what it raises is its outcome, and the job goes on.

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
        """Run the commands that wait, in the order in which they came.

        Commands that come meanwhile wait for the next time: a client that sends many cannot keep the job from
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


_LOOK_SECONDS: Final = 1.0
"""The shortest interval between two looks at the folder: on an object store each costs a request."""


class RequestWatch:
    """Carries out requests of other processes to a job, between epochs.

    Args:
        directory: the job's checkpoint directory.
        savepoints: the directory of savepoints whose request names none; None where a request has to name one.
    """

    def __init__(self, directory: Folder, savepoints: str | None) -> None:
        self._requests = RequestFolder(directory)
        self._savepoints = savepoints
        self._looked_at = 0.0
        self._at_end: list[str] = []
        self._cancelling: list[str] = []
        self._folder = directory.folder(REQUESTS)
        self._mark = RunningMark(self._folder, STARTING)
        self._has_begun = False
        self.stopped_by = ""
        """The request that makes the job end, or an empty string."""

    def begin(self, generation: int) -> None:
        """The job has started, and shows it by its mark."""
        self._has_begun = True
        try:
            self._requests.begin()
            self._mark = RunningMark(self._folder, generation)
            self._mark.set()
        except OSError as error:
            logger.warning("requests to the job cannot be read: %s", error)

    def look(self, job: JobCommands, *, only_stops: bool = False) -> None:
        """Begin the requests that have come since the last look, unless that was just now.

        Args:
            job: the job.
            only_stops: whether it waits for its restart, or for the release of an epoch, and can do nothing but stop
                or release it: the rest stays until it runs.
        """
        if not self._has_begun or time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        try:
            for stem, request in self._requests.take(self._is_at_once if only_stops else None):
                logger.info("job %r takes up %s", job.status().name, request.described(stem))
                self._begin(job, stem, request)
        except OSError as error:
            logger.warning("requests to the job cannot be read: %s", error)

    def close(self, error: BaseException | None) -> None:
        """The job has ended: answer the requests that wait for it, with the error if it has failed."""
        answer = JobAnswer(error="" if error is None else f"the job has ended with an error: {error}")
        for stem in self._at_end:
            self._answer(stem, answer)
        cancelled = JobAnswer() if isinstance(error, JobCancelledError) else answer
        for stem in self._cancelling:
            self._answer(stem, cancelled)
        self._at_end = self._cancelling = []
        try:
            self._mark.remove()
        except OSError as failed:
            logger.info("the file that says that the job runs could not be removed: %s", failed)

    def _is_at_once(self, request: JobRequest) -> bool:
        """Return whether a request only stops the job, or releases an epoch."""
        return (
            request.cancels
            or request.releases
            or (request.stops and not request.needs_savepoint and not (request.directory or self._savepoints))
        )

    def _begin(self, job: JobCommands, stem: str, request: JobRequest) -> None:
        if request.only_looks or request.releases:
            self._answer(stem, _released(job) if request.releases else JobAnswer())
            return
        if request.cancels:
            self._cancelling.append(stem)
            job.cancel()
            return
        if request.checkpoints:
            job.trigger_checkpoint().add_done_callback(partial(self._tell_checkpoint, stem))
            return
        if request.parallelism:
            job.rescale(request.parallelism).add_done_callback(partial(self._tell, stem))
            return
        place = request.directory or self._savepoints
        if place is None and request.needs_savepoint:
            self._answer(stem, JobAnswer(error=NO_PLACE))
            return
        if request.stops or request.drains:
            self.stopped_by = request.described(stem)
        if place is None:
            self._at_end.append(stem)
            job.stop(drain=request.drains)
            return
        wanted = SavepointRequest(place, request.format)
        outcome = job.take_savepoint(wanted, stops=request.stops, drains=request.drains)
        outcome.add_done_callback(partial(self._tell, stem))

    def _tell(self, stem: str, outcome: CompletableFuture) -> None:
        error = outcome.exception()
        if error is not None and stem in self.stopped_by:  # without its savepoint the job goes on
            self.stopped_by = ""
        self._answer(stem, JobAnswer(outcome.result() or "") if error is None else JobAnswer(error=str(error)))

    def _tell_checkpoint(self, stem: str, outcome: CompletableFuture[int]) -> None:
        error = outcome.exception()
        answer = JobAnswer(checkpoint=outcome.result()) if error is None else JobAnswer(error=str(error))
        self._answer(stem, answer)

    def _answer(self, stem: str, answer: JobAnswer) -> None:
        try:
            self._requests.answer(stem, answer)
        except OSError as error:
            logger.warning("nobody can be told what became of the request %s: %s", stem, error)


def _released(job: JobCommands) -> JobAnswer:
    try:
        return JobAnswer(checkpoint=job.release_epoch())
    except JobExecutionError as error:
        return JobAnswer(error=str(error))
