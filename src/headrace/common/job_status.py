"""``JobStatus``: the states of a job."""

from __future__ import annotations

from enum import Enum
from typing import Final

from headrace.common.public_module import public_module

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """What a job is doing, under Flink's names.

    Examples:
        >>> from headrace.common import JobStatus
        >>> JobStatus.RESTARTING.is_terminal_state()
        False
        >>> JobStatus.FINISHED.is_globally_terminal_state()
        True
    """

    CREATED = 0
    """It was submitted; no epoch has run."""

    RUNNING = 1
    """Epochs run, or the job waits for input."""

    FAILING = 2
    """It has failed and is being cleaned up."""

    FAILED = 3
    """It has failed for good."""

    CANCELLING = 4
    """It is being cancelled."""

    CANCELED = 5
    """It was cancelled."""

    FINISHED = 6
    """Its input has ended and all its results are committed."""

    RESTARTING = 7
    """It waits for its next attempt after a failure."""

    SUSPENDED = 8
    """It was stopped here, but may go on elsewhere."""

    RECONCILING = 9
    """It recovers its state from a checkpoint."""

    def is_globally_terminal_state(self) -> bool:
        """Whether the job is over and will not go on anywhere."""
        return self in _GLOBALLY_TERMINAL

    def is_terminal_state(self) -> bool:
        """Whether the job is over as far as this process is concerned."""
        return self in _GLOBALLY_TERMINAL or self is JobStatus.SUSPENDED


_GLOBALLY_TERMINAL: Final = frozenset({JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED})


public_module(__name__)
