"""The sink framework: what a connector has to offer so that a job can write to it exactly once.

A sink has two halves. The **writer** lives in the task: it makes the records of an epoch durable but not visible, and
hands over *committables*. The **committer** lives in the driver and makes them visible after the manifest of the epoch
exists. A committable that the manifest holds may be committed again after a failure, so committing is idempotent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation

Json = Any


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a writer is made with, once for every epoch.

    Attributes:
        job_id: the job's id, the same over all its restarts.
        operator_id: the sink's uid.
        epoch: the epoch that is written.
        generation: how often the job has been taken over; a new generation never reuses a name of an older one.
        subtask: which of the parallel writers this is.
        parallelism: how many parallel writers there are.
        processing_time: the epoch's clock reading in milliseconds.
        input_type: the type of the records.
    """

    job_id: str
    operator_id: str
    epoch: int
    generation: int
    subtask: int
    parallelism: int
    processing_time: int
    input_type: TypeInformation


class SinkWriter(ABC):
    """Writes the records of one epoch and one subtask. The same records make the same committables."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Take records over; nothing becomes visible."""

    @abstractmethod
    def prepare_commit(self) -> Sequence[Json]:
        """Make everything durable and say what has to be committed; called once, at the end of the epoch."""

    def abort(self) -> None:
        """The epoch failed in this task; let go of what was opened."""


@dataclass(frozen=True, slots=True)
class CommitterContext:
    """What a committer is made with.

    Attributes:
        job_id: the job's id.
        operator_id: the sink's uid.
        input_type: the type of the records.
    """

    job_id: str
    operator_id: str
    input_type: TypeInformation


class Committer(ABC):
    """Makes committables visible; lives in the driver, epochs arrive in order, perhaps more than once."""

    @abstractmethod
    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        """Make the committables of an epoch visible; doing it again changes nothing.

        Now and then this is called without committables, so that a sink that holds results back sees the clock go on.

        Raises:
            CommitRefusedError: when they can never be committed; the job stops, naming sink and epoch.
            OSError: on a passing fault; the commit is tried again.
        """

    def recover(self, generation: int) -> None:
        """Called once after a restart when all pending committables are committed: remove what failed attempts left."""

    def finish(self) -> None:
        """The job has ended and everything is committed: publish what was held back."""

    def close(self) -> None:
        """Let go of connections and files."""


class Sink(ABC):
    """A description of where records go; immutable and picklable, it travels to driver and tasks."""

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter:
        """The task's half, for one epoch."""

    @abstractmethod
    def create_committer(self, context: CommitterContext) -> Committer:
        """The driver's half."""

    @property
    def is_durable(self) -> bool:
        """Whether committables belong into the manifest; false where only the living driver shows them (print)."""
        return True

    def validate(self, input_type: TypeInformation) -> None:
        """Refuse a record type that this sink cannot write, when the job is planned.

        Raises:
            InvalidTypeError: naming the sink, the type and what would fit.
        """
