"""Keeps what a job fails with: in the history beside its checkpoints, with what enrichers say of it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headrace.common.errors import HeadraceError
from headrace.common.job_failure import JobFailure
from headrace.common.logs import get_logger
from headrace.jobmanager.failure_enricher import FailureContext, labels_of
from headrace.jobmanager.status import FailuresRecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.checkpoint.failure_history import FailureHistory
    from headrace.checkpoint.manifest import Manifest
    from headrace.jobmanager.failure_enricher import FailureEnricher
    from headrace.jobmanager.status import JobEvent

logger = get_logger(__name__)


class FailureRecorder:
    """Records the failures of one run of a job. Whatever goes wrong with that is logged: it never hides the failure.

    Args:
        history: where they are kept.
        enrichers: what labels them.
        manifest: the newest one; says which job it is.
        now: the clock's reading in milliseconds.
        limit: how many of the latest failures are known.
        publish: is told of them.
    """

    def __init__(
        self,
        history: FailureHistory,
        enrichers: Sequence[FailureEnricher],
        manifest: Manifest,
        now: Callable[[], int],
        limit: int,
        publish: Callable[[JobEvent], None],
    ) -> None:
        self._history = history
        self._enrichers = enrichers
        self._manifest = manifest
        self._now = now
        self._recent: deque[JobFailure] = deque(maxlen=limit)
        self._publish = publish
        try:
            self._recent.extend(history.read())
        except Exception:
            logger.warning("the job's former failures cannot be read", exc_info=True)
        publish(FailuresRecorded(tuple(self._recent)))

    def record(self, error: Exception, epoch: int, *, restarts: int, restart_in: float | None) -> None:
        """Note a failure.

        Args:
            error: what was raised.
            epoch: the epoch that was at work, or about to be.
            restarts: how often the job has begun again before.
            restart_in: after how many seconds it begins again; None when it does not.
        """
        origin = error.origin if isinstance(error, HeadraceError) else None
        known = self._manifest
        context = FailureContext(known.job_id, known.job_name, epoch, restart_in is None, origin)
        failure = JobFailure(
            number=self._recent[-1].number + 1 if self._recent else 1,
            time=self._now(),
            epoch=epoch,
            error=type(error).__name__,
            message=str(error),
            restarts=restarts,
            restart_in=restart_in,
            origin=origin,
            labels=labels_of(self._enrichers, error, context),
        )
        try:
            failure = self._history.add(failure)
        except Exception:
            logger.warning("a failure cannot be kept in the job's history", exc_info=True)
        self._recent.append(failure)
        self._publish(FailuresRecorded(tuple(self._recent)))
