"""``JobStatus``: the states of a job."""

from enum import Enum
from typing import Final

from headrace.common.public_module import public_module

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """The state of a job, under Flink's names.

    Examples:
        >>> from headrace.common import JobStatus
        >>> JobStatus.RESTARTING.is_terminal_state()
        False
        >>> JobStatus.FINISHED.is_globally_terminal_state()
        True
    """

    CREATED = 0
    """It was submitted, and has not yet begun or gone on from its checkpoint."""

    RUNNING = 1
    """Epochs run, or the job waits for input."""

    FAILING = 2
    """It has failed for good, and lets go of what it holds."""

    FAILED = 3
    """It has failed, and has let go of what it held."""

    CANCELLING = 4
    """It is being cancelled."""

    CANCELED = 5
    """It was cancelled."""

    FINISHED = 6
    """Its input has ended and all its results are committed, or it was stopped with a savepoint."""

    RESTARTING = 7
    """It waits for its next attempt after a failure."""

    SUSPENDED = 8
    """It was stopped without a savepoint, or another process has taken it over: it may go on from its checkpoint."""

    RECONCILING = 9
    """Never set, as in today's Flink: a job that goes on from its checkpoint is ``CREATED`` until it runs."""

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job is over and will not go on anywhere."""
        return self in _GLOBALLY_TERMINAL

    def is_terminal_state(self) -> bool:
        """Return whether the job is over as far as this process is concerned."""
        return self in _GLOBALLY_TERMINAL or self is JobStatus.SUSPENDED


_GLOBALLY_TERMINAL: Final = frozenset({JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED})


public_module(__name__)
