"""The half of a sink that lives in the task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.common.constants import MIN_WATERMARK
from headrace.connectors.kept_clients import KeptClients

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.outgoing_messages import Reject
    from headrace.connectors.sink.committer import Json
    from headrace.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a writer is made with.

    Attributes:
        job_id: the job's id, the same over all its restarts.
        operator_id: the sink's uid.
        generation: a number that rises with each start and restart of the job; a new generation never reuses a name of
            an older one.
        subtask: which of the parallel writers this is.
        parallelism: how many parallel writers there are.
        input_type: the type of the records.
        storage_options: how object stores are reached, by the names that their clients have; not shown, since there are
            secrets among them.
        reject: sends a record that cannot be written to the sink's dead letters; None where it has none, so that such
            a record has to fail the job.
        folder: a folder of the sink's own in the checkpoint directory, which all tasks and the driver share, for what
            is written and not committed; it need not exist. None outside of a job.
        clients: connections of this process that writers of the job can hand to each other.
    """

    job_id: str
    operator_id: str
    generation: int
    subtask: int
    parallelism: int
    input_type: TypeInformation
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    reject: Reject | None = field(default=None, repr=False, compare=False)
    folder: Folder | None = field(default=None, repr=False)
    clients: KeptClients = field(default_factory=KeptClients, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class WriterEpoch:
    """An epoch that is written.

    Attributes:
        number: which one.
        processing_time: its clock reading in milliseconds.
        watermark: how far event time had come when it began, where the sink ``takes_watermarks``.
    """

    number: int
    processing_time: int
    watermark: int = MIN_WATERMARK


class SinkWriter(ABC):
    """Writes the records of one subtask, epoch by epoch. The same records make the same committables.

    It lives as long as the task's instance, usually for many epochs, so that it may keep connections and buffers. What
    it keeps is not state: the next epoch of the subtask may be written by another one. A writer that has to keep
    something is a :class:`~headrace.connectors.sink.sink.StatefulSinkWriter`.

    In an epoch it is called in the order of the methods below, :meth:`write` and :meth:`write_watermark` in turns.
    """

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        """The records of an epoch follow.

        Not called for an epoch in which there are none, unless the writer has state or its sink takes watermarks.
        """

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Take records over; nothing becomes visible where there is a committer."""

    def write_watermark(self, watermark: int) -> None:
        """Event time has come so far, in milliseconds: what follows with an earlier timestamp is late.

        Called where the sink ``takes_watermarks``, when event time has risen: behind the records of a batch,
        each of which has the watermark that it met in ``batch.watermarks``, and without any.
        """

    def flush(self, end_of_input: bool) -> None:
        """All records of the epoch have come: write what is in buffers.

        Args:
            end_of_input: whether the input has ended, so that nothing can be held back for a later epoch.
        """

    @abstractmethod
    def prepare_commit(self) -> Sequence[Json]:
        """Make all records of the epoch durable, say what has to be committed, and be ready for the next epoch.

        Without a committer this has to wait until the other side has acknowledged all records: the manifest that
        follows says that they need not be read again.

        Returns:
            JSON values. The committer gets them as they come back from a checkpoint: tuples are lists, keys of dicts
            are text. None of them without a committer.
        """

    def abort(self) -> None:
        """The epoch failed in this task: let go of what was written of it; :meth:`close` follows."""

    def close(self) -> None:
        """Let go of connections and files."""
