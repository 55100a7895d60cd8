"""What a sink may support beside writing and committing, one class for each; a sink extends those that it has.

The names are those of Flink's Sink V2. There is no ``SupportsCommitter``, as every :class:`Sink` may have a committer;
what Flink does in topologies around the committer, :class:`PreCommit` and ``Committer.post_commit`` do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.connectors.sink.writer import SinkWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink.writer import WriterContext

S = TypeVar("S")


class StatefulSinkWriter(SinkWriter, Generic[S]):
    """A writer with state of its own: records that it holds back from one epoch to the next, counters, open parts.

    It takes part in every epoch of its subtask, also in those without records.

    Examples:
        >>> from headrace.datastream.connectors.base import StatefulSinkWriter
        >>> class Waiting(StatefulSinkWriter):
        ...     def __init__(self, waiting):
        ...         self.waiting = list(waiting)
        ...     def write(self, batch):
        ...         self.waiting += batch.rows
        ...     def prepare_commit(self):
        ...         ready, self.waiting = self.waiting[:100], self.waiting[100:]
        ...         return ready
        ...     def snapshot_state(self, epoch):
        ...         return self.waiting
        >>> list(Waiting(["tea", "cake"]).snapshot_state(1))
        ['tea', 'cake']
    """

    @abstractmethod
    def snapshot_state(self, epoch: int) -> Iterable[S]:
        """What the next epoch of the subtask begins with; called at the end of every epoch, after ``prepare_commit``.

        The elements are dealt out again when the job goes on with another number of writers: each gets an equal share
        of the elements of all. So an element has to make sense without the others.

        Args:
            epoch: which epoch ends.
        """

    def wake_up_time(self) -> int | None:
        """When there has to be an epoch even if nothing comes, in milliseconds of the job's clock; None for never.

        Asked for at the end of an epoch, whose clock reading :attr:`WriterEpoch.processing_time` was.
        """
        return None


class SupportsWriterState(ABC, Generic[S]):
    """Extended by a sink whose writers are :class:`StatefulSinkWriter`; their state is part of the checkpoint.

    A writer is made by ``create_writer`` where there is no state, else by :meth:`restore_writer`: after a restart, and
    whenever a subtask goes on in another process.

    Examples:
        >>> from headrace.datastream.connectors.base import SupportsWriterState
        >>> sorted(SupportsWriterState.__abstractmethods__)
        ['restore_writer', 'writer_state_type']
    """

    @property
    @abstractmethod
    def writer_state_type(self) -> TypeInformation:
        """The type of an element of the state, which says how it is stored, as with state of functions.

        A program that stores another type under the same uid is refused, unless it can read what is there.
        """

    @abstractmethod
    def restore_writer(self, context: WriterContext, recovered_state: Sequence[S]) -> StatefulSinkWriter[S]:
        """A writer that goes on from state.

        Args:
            context: as for ``create_writer``.
            recovered_state: the elements that this subtask has; at least one.
        """


def writer_state_type(sink: Any) -> TypeInformation | None:
    """The type of the state of a sink's writers; None where they have none."""
    return sink.writer_state_type if isinstance(sink, SupportsWriterState) else None
