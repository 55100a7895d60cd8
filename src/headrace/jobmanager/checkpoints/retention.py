"""What becomes of a job's checkpoints when it ends."""

from __future__ import annotations

from enum import Enum, auto


class Ending(Enum):
    """How a run of a job has ended."""

    FINISHED = auto()
    """Its input has come to an end."""

    STOPPED = auto()
    """It goes on from its newest checkpoint when it is run again."""

    CANCELLED = auto()
    """Somebody gave it up."""

    FAILED = auto()
    """Something failed for good."""


class Retention(Enum):
    """After which endings checkpoints are deleted; names as in Flink."""

    RETAIN_ON_CANCELLATION = frozenset[Ending]()
    DELETE_ON_CANCELLATION = frozenset({Ending.CANCELLED})
    NO_EXTERNALIZED_CHECKPOINTS = frozenset({Ending.CANCELLED, Ending.FAILED, Ending.FINISHED})

    def deletes(self, ending: Ending) -> bool:
        """Whether checkpoints go when a job has ended like that."""
        return ending in self.value
