"""Windows as a program declares them: which there are, when they fire, and what is computed over them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from headrace.common.output_tag import OutputTag
from headrace.common.type_variables import SupportsAggregate, SupportsReduce
from headrace.common.typeinfo import TypeInformation, Types
from headrace.windowing.assigners import MergingWindowAssigner, WindowAssigner
from headrace.windowing.evictors import Evictor
from headrace.windowing.intervals import RegularWindows
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import EndOfStreamTrigger, EventTimeTrigger, ProcessingTimeTrigger, PurgingTrigger
from headrace.windowing.windows import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer


class AccumulationMode(Enum):
    """The output of a window that fires again, for a late record or by its trigger; not in Flink.

    The names are those of Beam and of the Dataflow model.

    Examples:
        >>> from headrace.common import Row, Time, Types
        >>> from headrace.datastream.aggregates import count
        >>> from headrace.datastream.window import AccumulationMode, TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> def job(harness):
        ...     clicks = harness.add_source("clicks", Types.ROW_NAMED(["page"], [str]))
        ...     minutes = clicks.key_by("page").window(TumblingEventTimeWindows.of(Time.minutes(1)))
        ...     minutes.allowed_lateness(Time.minutes(1))
        ...     minutes.accumulation_mode(AccumulationMode.ACCUMULATING_AND_RETRACTING)
        ...     harness.add_sink("counts", minutes.aggregate(count()))
        >>> with JobHarness(job) as harness:
        ...     harness.push("clicks", Row(page="a"), 1_000)
        ...     harness.advance_watermark("clicks", 60_000)
        ...     harness.push("clicks", Row(page="a"), 2_000)
        ...     harness.finish()
        ...     for row in harness.results("counts"):
        ...         print(row.get_row_kind(), row.window_end, row.count)
        +I 60000 1
        -U 60000 1
        +U 60000 2
    """

    DISCARDING = "discarding"
    """Only the records that have come since it fired last."""
    ACCUMULATING = "accumulating"
    """All that it holds: a result takes the place of the one before. This is what Flink does."""
    ACCUMULATING_AND_RETRACTING = "accumulating and retracting"
    """The same, and it takes the former result back: with the kind ``-U``, and the new one has ``+U``."""

    @property
    def retracts(self) -> bool:
        """Return whether former results are taken back."""
        return self is AccumulationMode.ACCUMULATING_AND_RETRACTING


RESULT: Final = "result"
"""The prefix of paths to fields of results, where windows keep what they have emitted."""

_KINDS: Final = {
    TimeWindowSerializer: "windows from one time to another",
    CountWindowSerializer: "windows of so many records",
    GlobalWindowSerializer: "windows without end",
}


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """The windows of an operator, whatever is computed over them and however that is done.

    A program may say the same thing in two ways: that windows discard what they have emitted follows from the
    accumulation mode, or from a purging trigger. The fields are what the program has said; operators go by
    :attr:`applied_trigger` and :attr:`applied_mode`, and the planner by :attr:`plain_trigger`.

    Attributes:
        assigner: puts records into windows.
        trigger: decides when windows fire, and when their contents are purged.
        evictor: removes records from a window that fires; None removes none.
        allowed_lateness: how long after its end a window of event time still takes records, in milliseconds.
        late_tag: the side output for records that come too late; None drops and counts them.
        accumulation_mode: what windows show when they fire again.
    """

    assigner: WindowAssigner
    trigger: Trigger
    evictor: Evictor | None = None
    allowed_lateness: int = 0
    late_tag: OutputTag | None = None
    accumulation_mode: AccumulationMode = AccumulationMode.ACCUMULATING

    @property
    def late_tag_id(self) -> str | None:
        """The id of the side output for records that come too late, if there is one."""
        return None if self.late_tag is None else self.late_tag.tag_id

    @property
    def event_time_lag(self) -> int:
        """By how many milliseconds event time is behind the watermark.

        Windows that merge do so where they touch: a record at the end of one is still part of it. It is not late before
        the watermark reaches the end, so no window may fire earlier, at its last timestamp.
        """
        return 1 if isinstance(self.assigner, MergingWindowAssigner) and self.assigner.is_event_time() else 0

    @property
    def plain_trigger(self) -> Trigger:
        """The trigger, without purging triggers around it: :attr:`applied_mode` says that windows discard."""
        trigger = self.trigger
        while type(trigger) is PurgingTrigger and not self.accumulation_mode.retracts:
            trigger = trigger.nested_trigger
        return trigger

    @property
    def applied_mode(self) -> AccumulationMode:
        """The output of windows when :attr:`plain_trigger` has them fire again."""
        return self.accumulation_mode if self.plain_trigger is self.trigger else AccumulationMode.DISCARDING

    @property
    def applied_trigger(self) -> Trigger:
        """The trigger, with a purging one around it where windows discard what they have emitted and stay."""
        trigger = self.plain_trigger
        goes_when_shown = trigger.fires_only_at_end and self.allowed_lateness == 0 and self.assigner.is_event_time()
        is_discarding = self.applied_mode is AccumulationMode.DISCARDING
        return PurgingTrigger.of(trigger) if is_discarding and not goes_when_shown else trigger

    @property
    def fixed_windows(self) -> RegularWindows | None:
        """The windows as arithmetic, where nothing looks at them before their ends; None for all others.

        An evictor does, a trigger that may fire earlier, and results that are taken back.
        """
        is_seen_before = self.evictor is not None or self.accumulation_mode.retracts
        return None if is_seen_before or not self.applied_trigger.fires_only_at_end else self.assigner.aligned

    @property
    def fires_once(self) -> bool:
        """Return whether each window is known to fire no more than once."""
        if self.trigger == EventTimeTrigger():
            return self.allowed_lateness == 0
        return self.trigger in (ProcessingTimeTrigger(), EndOfStreamTrigger())

    @property
    def kind(self) -> str:
        """The kind of windows in words: contents of windows of another kind would never fire, or never be removed."""
        kind = _KINDS.get(type(self.assigner.get_window_serializer()), "windows of a class of the program")
        merges = " that merge" if isinstance(self.assigner, MergingWindowAssigner) else ""
        return f"{kind}{merges}, of {'event' if self.assigner.is_event_time() else 'processing'} time"


@dataclass(frozen=True, slots=True)
class WindowFunctions:
    """The functions of the user over windows; without any, a window emits the records that it holds.

    Attributes:
        reduce_function: combines two records; not together with ``aggregate_function``.
        aggregate_function: an ``AggregateFunction``.
        window_function: a ``WindowFunction``, a ``ProcessWindowFunction``, or a function of key, window and contents;
            it gets what the other function has made of the records.
        accumulator_type: the type of the accumulators of ``aggregate_function``; None pickles them.
    """

    reduce_function: Callable[[Any, Any], Any] | SupportsReduce | None = None
    aggregate_function: SupportsAggregate | None = None
    window_function: object = None
    accumulator_type: TypeInformation | None = None

    @property
    def objects(self) -> tuple[object, ...]:
        """The functions, which are opened and closed."""
        return self.reduce_function, self.aggregate_function, self.window_function

    @property
    def accumulators(self) -> TypeInformation:
        """The type by which accumulators are stored."""
        return self.accumulator_type or Types.PICKLED_BYTE_ARRAY()


class ChangedWindows(Enum):
    """The treatment of the contents of windows that the program declares otherwise now.

    Example:
        >>> ChangedWindows("drop")
        <ChangedWindows.DROP: 'drop'>
    """

    FAIL = "fail"
    """The job fails, since the change may be a mistake."""

    DROP = "drop"
    """It is dropped for good, and the new windows begin empty."""

    REAGGREGATE = "reaggregate"
    """It moves into the new windows, which have to consist of whole old ones."""
