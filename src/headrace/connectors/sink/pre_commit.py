"""What decides between the two halves of a sink, before the manifest of an epoch is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.connectors.sink.committables import Json


@dataclass(frozen=True, slots=True)
class PreCommitted:
    """What becomes of the committables of an epoch and of the output that was in progress before.

    Attributes:
        ready: what the committer is asked to commit.
        in_progress: what is written, but waits for more before it is committed; JSON, part of the manifest; None when
            nothing does.
    """

    ready: tuple[Json, ...]
    in_progress: Json | None


class PreCommit(ABC):
    """Decides what of a sink's committables is committed now and what stays in progress; keeps nothing itself."""

    @abstractmethod
    def prepare(
        self, in_progress: Json | None, committables: Sequence[Json], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        """Called before the manifest of every epoch.

        Args:
            in_progress: what this gave in the epoch before.
            committables: what the writers gave in this one.
            processing_time: the epoch's clock reading in milliseconds.
            is_last: whether the job ends with this epoch; nothing can stay in progress then.
        """

    @abstractmethod
    def due(self, in_progress: Json) -> int | None:
        """When something in progress becomes ready by itself, in milliseconds of the job's clock; None: never."""
