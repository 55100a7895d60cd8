"""The sink framework: what a connector has to offer so that a job can write to it exactly once.

A sink has two halves. The **writer** lives in the task: it makes the records of an epoch durable but not visible, and
hands over *committables*. The **committer** lives in the driver and makes them visible after the manifest of the epoch
exists. A committable that the manifest holds may be committed again after a failure, so committing is idempotent.
A sink without a committer shows records when its writer writes them, so it cannot promise to show them once: it says
so by its :class:`DeliveryGuarantee`.

Between the two a sink may have a **pre-commit**: it decides, before the manifest is written, what of all that was
written becomes visible and what waits for more. So the manifest says both, and a committer only ever does what a
manifest says: of two job managers that are alive, the older one cannot make anything visible that the younger one
would not.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import (
    CheckpointError,
    CommitRefusedError,
    InfrastructureError,
    InvalidProgramError,
    StateError,
)
from headrace.common.output_tag import OutputTag
from headrace.common.serialization import SchemaCheck
from headrace.common.type_variables import T_contra
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.datasets import LineageDataset
from headrace.connectors.source import KeptClients
from headrace.storage.folder import Folder

Json = Any

T = TypeVar("T")

R = TypeVar("R")

S = TypeVar("S")


class DeliveryGuarantee(Enum):
    """Tells how often a record arrives that the job has processed once, failures or not.

    Examples:
        >>> from headrace.datastream.connectors import DeliveryGuarantee
        >>> [guarantee.name for guarantee in DeliveryGuarantee]
        ['EXACTLY_ONCE', 'AT_LEAST_ONCE', 'NONE']
    """

    EXACTLY_ONCE = 0
    """Once, failures or not."""

    AT_LEAST_ONCE = 1
    """Once, or again after a failure."""

    NONE = 2
    """Once, again, or not at all after a failure."""


class Sink(ABC, Generic[T_contra]):
    """A description of where records go; immutable and picklable, it travels to driver and tasks.

    Examples:
        >>> from headrace.common import Encoder
        >>> from headrace.datastream.connectors import FileSink, Sink
        >>> sink = FileSink.for_row_format("out", Encoder.simple_string_encoder()).build()
        >>> isinstance(sink, Sink), sink.is_durable
        (True, True)
    """

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter:
        """The task's half; made when a subtask has its first record."""

    def create_committer(self, context: CommitterContext) -> Committer | None:
        """The driver's half; None, unless overridden: writers show records by themselves."""
        return None

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """Return how often a record arrives; unless overridden, once where committables are in the manifest.

        A job is refused whose sink promises ``EXACTLY_ONCE`` and has no committer.
        """
        return DeliveryGuarantee.EXACTLY_ONCE if self.is_durable else DeliveryGuarantee.NONE

    def check_output(self, context: CommitterContext) -> None:
        """Called when a process starts, before it takes a job over: see whether its checkpoint is an old copy.

        Output of later epochs than ``context.restored_epoch`` means that it is, and that going on would write that
        output again. What is known depends on the sink; by default nothing.

        Raises:
            CheckpointError: naming the output, and what to do.
        """

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        """The datasets that it writes, for lineage; none where others cannot know them."""
        return ()

    def check_schemas(self) -> Iterator[SchemaCheck]:
        """Compare the schemas by which it writes with those of a registry, if it uses one."""
        return iter(())

    @property
    def dead_letter(self) -> OutputTag | None:
        """The side output for records that cannot be written; None makes such a record fail the job."""
        return None

    @property
    def pre_commit(self) -> PreCommit | None:
        """The pre-commit that holds committables back; None for a sink that commits every epoch at once."""
        return None

    @property
    def is_durable(self) -> bool:
        """Tell whether committables belong into the manifest; false where only the living driver shows them (print)."""
        return True

    def takes_changes(self, input_type: TypeInformation) -> bool:
        """Tell whether it writes what rows do in a changelog (``+U``, ``-D``) beside their values.

        Where it does not, rows that are no insertions are refused, as they would look like ones. Unless it says
        otherwise, it takes those of types in which the kind is a column (``changelog=True``).
        """
        return layout_of(input_type).has_kind_column

    def check_guarantee(self) -> None:
        """Refuse a guarantee that cannot be kept, when the job is planned.

        Raises:
            InvalidProgramError: naming the sink and what to do.
        """
        has_committer = type(self).create_committer is not Sink.create_committer
        if self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE and not has_committer:
            raise InvalidProgramError(without_committer(self))

    @property
    def takes_watermarks(self) -> bool:
        """Return whether its writers get the watermark (:meth:`SinkWriter.write_watermark`).

        They take part in every epoch then, and records reach them through a shuffle at least, which makes one event
        time of those of all splits.
        """
        return False

    def validate(self, input_type: TypeInformation) -> None:
        """Refuse a record type that this sink cannot write, when it is given to a stream.

        Raises:
            InvalidTypeError: naming the sink, the type and what would fit.
        """


def without_committer(sink: Sink) -> str:
    """The reason why a sink cannot promise ``EXACTLY_ONCE``, with advice."""
    return (
        f"{type(sink).__name__} promises EXACTLY_ONCE and has no committer, so what an epoch has written before it "
        "failed would be there twice: give it a create_committer(), or have its delivery_guarantee be AT_LEAST_ONCE"
    )


@dataclass(frozen=True, slots=True)
class WriterContext:
    """The context in which a writer is created.

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
    something is a :class:`~headrace.connectors.sink.StatefulSinkWriter`.

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
        """Write what is in buffers: all records of the epoch have come.

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
        """The epoch failed in this task: drop what was written of it; :meth:`close` follows."""

    def close(self) -> None:
        """Close connections and files."""


NOT_OF_THE_RECORDS = (InfrastructureError, CheckpointError, CommitRefusedError, StateError, OSError)
"""Errors that are not about records. All others come from records that do not fit, or from code of the user."""


Reject = Callable[[Any, Exception], None]
"""Sends a record to the dead letters of a sink, with the reason; may be called within ``write()`` only."""


def encode_or_reject(encode: Callable[[Batch], T], batch: Batch, reject: Reject | None) -> list[T]:
    """Encode a batch, in as many parts as there are stretches without a bad record; gives them in order.

    A batch that is refused is halved until the records are found that are to blame; so a few of them cost little, and
    none costs nothing.

    Args:
        encode: encodes a batch as a whole, or raises; it may be called with parts of it, and must keep nothing.
        batch: the records.
        reject: is called with those that cannot be encoded; None if they are not collected.

    Raises:
        OSError: and whatever else is no fault of a record, or of one that is not collected.
    """
    try:
        return [encode(batch)] if len(batch) else []
    except NOT_OF_THE_RECORDS:
        raise
    except Exception as error:
        if reject is None:
            raise
        if len(batch) == 1:
            reject(batch.rows[0], error)
            return []
    middle = len(batch) // 2
    before = encode_or_reject(encode, batch.slice(0, middle), reject)
    return before + encode_or_reject(encode, batch.slice(middle, len(batch)), reject)


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
        """Give the state with which the subtask's next epoch begins; called after ``prepare_commit`` of every epoch.

        The elements are dealt out again when the job goes on with another number of writers: each gets an equal share
        of the elements of all. So an element has to make sense without the others.

        Args:
            epoch: which epoch ends.
        """

    def wake_up_time(self) -> int | None:
        """Return when an epoch is due even if nothing comes, in milliseconds of the job's clock; None for never.

        Called at the end of an epoch, whose clock reading :attr:`WriterEpoch.processing_time` was.
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


class RunInTasks(Protocol):
    """Runs work on the cluster, beside the epochs."""

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Do something with every item, each in a task of its own, and wait for it.

        Args:
            work: what to do; it may be done twice, and for some items only when this fails.
            items: what to do it with; they and the results travel as pickles.

        Raises:
            OSError: on a passing fault.
        """


def run_here(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Run work in this process."""
    return [work(item) for item in items]


@dataclass(frozen=True, slots=True)
class CommitterContext:
    """The context in which a committer is created.

    Attributes:
        job_id: the job's id.
        operator_id: the sink's uid.
        input_type: the type of the records.
        generation: as in :class:`WriterContext`. A committer of an older generation may still be alive, even in the
            middle of a commit: see to it when the committer is made that it can make nothing visible any more,
            or that what it makes visible is what this one would.
        restored_epoch: the epoch that the job goes on from; 0 when it begins.
        run_in_tasks: for a commit that is more than the driver should do alone (very many partitions to publish).
        storage_options: as in :class:`WriterContext`.
        parallelism: how many parallel writers there are now; pending committables may be of more of them.
        folder: as in :class:`WriterContext`.
        waiting: the epochs of which the checkpoint does not know that they were committed, in their order: the first
            that a committer is requested.
    """

    job_id: str
    operator_id: str
    input_type: TypeInformation
    generation: int = 0
    restored_epoch: int = 0
    run_in_tasks: RunInTasks = run_here
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    parallelism: int = 1
    folder: Folder | None = field(default=None, repr=False)
    waiting: tuple[int, ...] = ()


class Committer(ABC):
    """Makes committables visible; lives in the driver, epochs arrive in order, perhaps more than once."""

    @abstractmethod
    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        """Make the committables of an epoch visible; doing it again changes nothing.

        A job manager that has been superseded may be doing the same at this moment. So every step that others can see
        happens exclusively (a transaction, a rename of a file that is there once) or is fenced by the generation.

        Raises:
            CommitRefusedError: when they can never be committed; the job stops, naming sink and epoch.
            OSError: on a passing fault; the commit is tried again.
        """

    def post_commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        """Do what follows the commit of an epoch: put visible files together, tell others of them.

        Called with what :meth:`commit` was called with, after it, before the commit of the next epoch. The checkpoint
        goes on saying that the epoch is to be committed until this has returned as well: so it happens for each epoch
        whatever fails, but may begin again from the start, also behind a :meth:`commit` that is done again. Name what
        it makes after the epoch, so that doing it again changes nothing. Errors as for :meth:`commit`; after an OSError
        only this is done again.
        """

    def recover(self, in_progress: Json | None) -> None:
        """Called once after a restart when all pending committables are committed.

        See to it that what is in progress is there, and remove what failed attempts left.

        Args:
            in_progress: what :class:`PreCommit` gave last.

        Raises:
            CommitRefusedError: when it is not there.
        """

    def finish(self) -> None:
        """The job has ended and everything is committed: nothing that the sink keeps for itself is needed any more."""

    def close(self) -> None:
        """Close connections and files."""


@dataclass(frozen=True, slots=True)
class PreCommitted:
    """The decision of a pre-commit about an epoch's committables and the output in progress.

    Attributes:
        ready: what the committer is to commit.
        in_progress: what is written, but waits for more before it is committed; JSON, part of the manifest; None when
            nothing does.
    """

    ready: tuple[Json, ...]
    in_progress: Json | None


class PreCommit(ABC):
    """Decides what of a sink's committables is committed now and what stays in progress; keeps nothing itself.

    Attributes:
        needs_whole_input: whether what it holds back is right only when the input has ended. No savepoint can be taken
            of such a job once it has written, and it cannot be drained.
    """

    needs_whole_input: ClassVar[bool] = False

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
        """Return when something in progress becomes ready by itself, in milliseconds of the job's clock, or None."""


def as_json(value: Any) -> Json:
    """A committable, or the output in progress, as it comes back from a checkpoint: tuples are lists then.

    A committer gets them so at once. Else one that relies on more than JSON would find out after its first crash.

    Raises:
        InvalidProgramError: when it is no JSON.
    """
    try:
        found: Json = json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise InvalidProgramError(
            f"{value!r:.200} cannot be stored in a checkpoint ({error}): make committables of text, numbers, lists "
            "and dicts"
        ) from error
    return found
