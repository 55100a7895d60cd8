"""What programs say of windows before they compute something over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self

from headrace.common.arguments import expect, refused
from headrace.common.call_site import warn_caller
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import K_co, T_co
from headrace.common.typeinfo import RowTypeInfo
from headrace.windowing.accumulation_mode import AccumulationMode
from headrace.windowing.assigner import MergingWindowAssigner, WindowAssigner
from headrace.windowing.assigners.count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from headrace.windowing.definition import WindowDefinition
from headrace.windowing.evictor import Evictor
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers.never import NeverTrigger

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.common.typeinfo import TypeInformation
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.keyed_stream import KeyedStream


@dataclass(slots=True)
class WindowSettings:
    """What has been said of windows so far.

    Attributes:
        assigner: puts records into windows.
        trigger: says when windows are shown; None leaves it to the assigner.
        evictor: removes records from a window that fires; None removes none.
        lateness: how long after its end a window still takes records, in milliseconds.
        late_tag: the side output for records that come too late; None drops and counts them.
        mode: what windows show when they fire again.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any] | None = None
    evictor: Evictor[Any, Any] | None = None
    lateness: int = 0
    late_tag: OutputTag | None = None
    mode: AccumulationMode = AccumulationMode.ACCUMULATING

    def __post_init__(self) -> None:
        if not isinstance(self.assigner, WindowAssigner):
            offered = "TumblingEventTimeWindows.of(...) or another WindowAssigner"
            raise refused(f"window takes {offered}, not {self.assigner!r}", InvalidTypeError)

    def check_merges(self, trigger: Trigger[Any, Any]) -> None:
        """Refuse a trigger that cannot merge, of windows that do.

        Raises:
            InvalidProgramError: when it is one.
        """
        if isinstance(self.assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise refused(
                f"{trigger} cannot be used with windows that merge ({self.assigner}): its can_merge() is False"
            )

    def definition(self, environment: StreamExecutionEnvironment) -> WindowDefinition:
        """The windows, with the assigner's own trigger where the program has set none."""
        trigger = self._trigger_or_default(environment)
        return WindowDefinition(self.assigner, trigger, self.evictor, self.lateness, self.late_tag, self.mode)

    def _trigger_or_default(self, environment: StreamExecutionEnvironment) -> Trigger[Any, Any]:
        if self.trigger is not None:
            return self.trigger
        trigger = self.assigner.get_default_trigger(environment)
        if not isinstance(trigger, Trigger):
            name = type(self.assigner).__name__
            raise refused(f"{name}.get_default_trigger has to return a Trigger, not {trigger!r}", InvalidTypeError)
        self.check_merges(trigger)
        if isinstance(trigger, NeverTrigger):
            warn_caller(f"{self.assigner} show nothing by themselves: say when, with .trigger(...)")
        return trigger


class WindowsOfStream(Generic[T_co, K_co]):
    """The root of streams that are cut into windows. Its settings change the stream, and return it, as in PyFlink.

    Args:
        keyed_stream: the keyed stream.
        settings: its windows.
    """

    def __init__(self, keyed_stream: KeyedStream[T_co, K_co], settings: WindowSettings) -> None:
        self._keyed_stream = keyed_stream
        self._settings = settings

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation[T_co]:
        """The type of the records in the windows."""
        return self._keyed_stream.get_type()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_input_type()}, {self._settings.assigner})"

    def _repr_html_(self) -> str:
        """What notebooks show: the windows, and all that comes before."""
        from headrace.datastream.notebook import stream_html

        stream = self._keyed_stream
        return stream_html(type(self).__name__, self._facts(), stream._transformations.graph, stream._operator_ids())

    def _facts(self) -> dict[str, object]:
        return {**self._keyed_stream._facts(), "windows": self._settings.assigner}

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Says when the contents of windows are shown, in the place of the assigner's own trigger.

        So a ``CountTrigger`` on windows of time shows them at each count, and no more at their end.

        Raises:
            InvalidTypeError: when it is no trigger.
            InvalidProgramError: when the windows merge and the trigger cannot.
        """
        expect(trigger, Trigger, "trigger")
        self._settings.check_merges(trigger)
        self._settings.trigger = trigger
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Removes records from a window when it fires, before or after its function is called; not in PyFlink.

        All records of the window are kept for it, also where they are reduced or aggregated.

        Raises:
            InvalidTypeError: when it is no evictor.
        """
        expect(evictor, Evictor, "evictor")
        self._settings.evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration | timedelta) -> Self:
        """Keeps windows for some time after the watermark has passed them; each late record fires its window again.

        Windows of the clock, of a count and global ones have no late records: there it has no effect, and warns.

        Args:
            time_ms: how long; a number is milliseconds.

        Raises:
            InvalidProgramError: when it is negative, or has no 64 bits.
        """
        lateness = to_millis(time_ms, "allowed_lateness")
        if lateness < 0:
            raise refused(f"the allowed lateness cannot be negative, it is {lateness} ms")
        if lateness > MAX_WATERMARK:
            raise refused(f"the allowed lateness is at most {MAX_WATERMARK} ms, for ever, not {lateness} ms")
        if lateness and not self._settings.assigner.is_event_time():
            warn_caller(f"allowed_lateness has no effect: nothing is late in {self._settings.assigner}")
        self._settings.lateness = lateness
        return self

    def accumulation_mode(self, mode: AccumulationMode) -> Self:
        """Says what windows show when they fire again; all that they hold unless this is called. Not in Flink.

        Raises:
            InvalidTypeError: when it is no ``AccumulationMode``.
            InvalidProgramError: when it takes results back, and the windows are of so many records.
        """
        expect(mode, AccumulationMode, "accumulation_mode")
        assigner = self._settings.assigner
        if mode.retracts and isinstance(assigner, CountTumblingWindowAssigner | CountSlidingWindowAssigner):
            raise refused(f"{assigner} are shown once, when they are full: there is nothing to take back")
        self._settings.mode = mode
        return self

    def side_output_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Sends records that are too late for all their windows to a side output; otherwise they are dropped.

        Their type is that of the records, so the tag need not say it.
        """
        expect(output_tag, OutputTag, "side_output_late_data")
        self._settings.late_tag = output_tag
        return self

    def _definition(self) -> WindowDefinition:
        return self._settings.definition(self.get_execution_environment())

    def _definition_for(self, found: TypeInformation) -> WindowDefinition:
        """The windows, for functions of the user whose results are of the type ``found``.

        Raises:
            InvalidTypeError: when such results cannot be taken back, and the windows do that.
        """
        if self._settings.mode.retracts and not isinstance(found, RowTypeInfo):
            raise refused(
                f"results that are taken back are rows, which alone have a kind, not {found}: give rows, and declare "
                "their type, Types.ROW(...) or Types.ROW_NAMED(...)",
                InvalidTypeError,
            )
        return self._definition()
