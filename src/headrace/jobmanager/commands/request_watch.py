"""What other processes ask of a running job, by files in its checkpoint directory."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.common.logs import get_logger
from headrace.jobmanager.commands.savepoints import NO_PLACE, SavepointRequest
from headrace.savepoint.requests import REQUESTS, JobAnswer, RequestFolder
from headrace.savepoint.running_jobs import STARTING, RunningMark

if TYPE_CHECKING:
    from headrace.common.completable_future import CompletableFuture
    from headrace.jobmanager.commands.control import JobControl
    from headrace.savepoint.requests import JobRequest
    from headrace.storage.folder import Folder

logger = get_logger(__name__)

_LOOK_SECONDS: Final = 1.0
"""How often the folder is looked at, at most: on an object store each look costs a request."""


class RequestWatch:
    """Has a job do what others ask of it, between epochs.

    Args:
        directory: the job's checkpoint directory.
        savepoints: where savepoints are made unless who asks for one says it; None for nowhere.
    """

    def __init__(self, directory: Folder, savepoints: str | None) -> None:
        self._requests = RequestFolder(directory)
        self._savepoints = savepoints
        self._looked_at = 0.0
        self._at_end: list[str] = []
        self._folder = directory.folder(REQUESTS)
        self._mark = RunningMark(self._folder, STARTING)
        self._has_begun = False
        self.stopped_by = ""
        """The request that makes the job end, or an empty string."""

    def begin(self, generation: int) -> None:
        """The job has started, and says so to whoever asks for it."""
        self._has_begun = True
        try:
            self._requests.begin()
            self._mark = RunningMark(self._folder, generation)
            self._mark.set()
        except OSError as error:
            logger.warning("requests to the job cannot be read: %s", error)

    def look(self, job: JobControl, *, only_stops: bool = False) -> None:
        """Begin what was asked for since the last look, unless that was just now.

        Args:
            job: the job.
            only_stops: whether it waits for its restart, and can do nothing but stop: the rest stays until it runs.
        """
        if not self._has_begun or time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        try:
            for stem, request in self._requests.take(self._is_plain_stop if only_stops else None):
                logger.info("job %r takes up %s", job.status().name, request.told(stem))
                self._begin(job, stem, request)
        except OSError as error:
            logger.warning("requests to the job cannot be read: %s", error)

    def close(self, error: BaseException | None) -> None:
        """The job has ended: who only wanted that is told, or with what error it failed on the way."""
        answer = JobAnswer(error="" if error is None else f"the job has ended with an error: {error}")
        for stem in self._at_end:
            self._answer(stem, answer)
        self._at_end = []
        try:
            self._mark.remove()
        except OSError as failed:
            logger.info("the file that says that the job runs could not be removed: %s", failed)

    def _is_plain_stop(self, request: JobRequest) -> bool:
        """Return whether a request only stops the job."""
        return request.stops and not request.needs_savepoint and not (request.directory or self._savepoints)

    def _begin(self, job: JobControl, stem: str, request: JobRequest) -> None:
        if request.only_looks:
            self._answer(stem, JobAnswer())
            return
        if request.parallelism:
            job.rescale(request.parallelism).add_done_callback(partial(self._tell, stem))
            return
        place = request.directory or self._savepoints
        if place is None and request.needs_savepoint:
            self._answer(stem, JobAnswer(error=NO_PLACE))
            return
        if request.stops or request.drains:
            self.stopped_by = request.told(stem)
        if place is None:
            self._at_end.append(stem)
            job.stop(drain=request.drains)
            return
        wanted = SavepointRequest(place, request.format)
        outcome = job.take_savepoint(wanted, stops=request.stops, drains=request.drains)
        outcome.add_done_callback(partial(self._tell, stem))

    def _tell(self, stem: str, outcome: CompletableFuture[Any]) -> None:
        error = outcome.exception()
        if error is not None and stem in self.stopped_by:  # without its savepoint the job goes on
            self.stopped_by = ""
        self._answer(stem, JobAnswer(outcome.result() or "") if error is None else JobAnswer(error=str(error)))

    def _answer(self, stem: str, answer: JobAnswer) -> None:
        try:
            self._requests.answer(stem, answer)
        except OSError as error:
            logger.warning("nobody can be told what became of the request %s: %s", stem, error)
