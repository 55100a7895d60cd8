"""``Sink``: where records go, which guarantee it gives, and what a sink may offer besides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.common.columns import layout_of
from headrace.common.errors import InvalidProgramError
from headrace.common.type_variables import T_contra
from headrace.connectors.sink.writer import SinkWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink.committer import Committer, CommitterContext, PreCommit
    from headrace.connectors.sink.writer import WriterContext


class DeliveryGuarantee(Enum):
    """How often a record arrives that the job has processed once, failures or not.

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


def without_committer(sink: Sink) -> str:
    """Why a sink cannot promise ``EXACTLY_ONCE``, and what to do."""
    return (
        f"{type(sink).__name__} promises EXACTLY_ONCE and has no committer, so what an epoch has written before it "
        "failed would be there twice: give it a create_committer(), or have its delivery_guarantee be AT_LEAST_ONCE"
    )


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
        """How often a record arrives; unless overridden, once where committables are in the manifest.

        A job is refused whose sink promises ``EXACTLY_ONCE`` and has no committer.
        """
        return DeliveryGuarantee.EXACTLY_ONCE if self.is_durable else DeliveryGuarantee.NONE

    def check_output(self, context: CommitterContext) -> None:
        """Called when a process starts, before it takes a job over: see whether its checkpoint is an old copy.

        Output of later epochs than ``context.restored_epoch`` means that it is, and that going on would write that
        output again. What can be told depends on the sink; nothing, unless it says otherwise.

        Raises:
            CheckpointError: naming the output, and what to do.
        """

    @property
    def dead_letter(self) -> OutputTag | None:
        """The side output for records that cannot be written; None makes such a record fail the job."""
        return None

    @property
    def pre_commit(self) -> PreCommit | None:
        """What holds committables back; None for a sink that commits every epoch at once."""
        return None

    @property
    def is_durable(self) -> bool:
        """Whether committables belong into the manifest; false where only the living driver shows them (print)."""
        return True

    def takes_changes(self, input_type: TypeInformation) -> bool:
        """Whether it writes what rows do in a changelog (``+U``, ``-D``) beside their values.

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
        """Whether its writers are told how far event time has come (:meth:`SinkWriter.write_watermark`).

        They take part in every epoch then, and records reach them through a shuffle at least, which makes one event
        time of those of all splits.
        """
        return False

    def validate(self, input_type: TypeInformation) -> None:
        """Refuse a record type that this sink cannot write, when the job is planned.

        Raises:
            InvalidTypeError: naming the sink, the type and what would fit.
        """


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
