"""``Sink``: where records go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic

from headrace.common.columns import layout_of
from headrace.common.errors import InvalidProgramError
from headrace.common.type_variables import T_contra
from headrace.connectors.sink.guarantee import DeliveryGuarantee

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink.committer import Committer, CommitterContext
    from headrace.connectors.sink.pre_commit import PreCommit
    from headrace.connectors.sink.writer import SinkWriter, WriterContext


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
