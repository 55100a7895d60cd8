"""``WindowedOperatorTransformation``: records that are put into windows, of which the state of an operator is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.common.arguments import expect, refused
from headrace.state_processor.bootstrap import BootstrapTransformation, Records, windowed
from headrace.windowing.assigner import WindowAssigner
from headrace.windowing.serializers import TimeWindowSerializer
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers.continuous import ContinuousProcessingTimeTrigger

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.common import Duration, Time
    from headrace.common.typeinfo import DeclaredType
    from headrace.datastream import DataStream
    from headrace.windowing.accumulation_mode import AccumulationMode
    from headrace.windowing.evictor import Evictor


@dataclass(frozen=True, slots=True)
class _Call:
    """A method of windows that is called once there are some, with its arguments."""

    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def of(self, windows: Any) -> Any:
        return getattr(windows, self.method)(*self.arguments, **self.named)


@dataclass(frozen=True, slots=True)
class WindowedOperatorTransformation:
    """Records by key and window.

    What is said of the windows has to be what the program says, whose job goes on with them. They stay open, however
    late it is in event time: what is due fires in that job, at its first watermark. Java's class of this name is the
    model; methods return another transformation.

    Examples:
        >>> import tempfile
        >>> from headrace.common import Time, Types
        >>> from headrace.datastream.aggregates import count, sum
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter
        >>> orders = OperatorTransformation.bootstrap_with([("ann", 3, 1_000), ("bob", 4, 2_000), ("ann", 5, 61_000)])
        >>> keyed = orders.assign_timestamps(lambda order, _: order[2]).key_by(lambda order: order[0], Types.STRING())
        >>> minutes = keyed.window(TumblingEventTimeWindows.of(Time.minutes(1)))
        >>> totals = minutes.aggregate(count(), sum(1).alias("total"))
        >>> path = SavepointWriter.new_savepoint().with_operator("totals", totals).write(tempfile.mkdtemp() + "/first")
        >>> for row in SavepointReader.read(path).read_table("totals", "windows").to_pylist():
        ...     print(row["window_end"], row["key"], row["records"], row["sum(f1)"])
        60000 ann 1 3
        60000 bob 1 4
        120000 ann 1 5

    Attributes:
        records: the records.
        selector: gives the key of a record.
        key_type: the type of the keys.
        calls: what is said of the windows, in order; the first call makes them.
    """

    records: Records
    selector: Any
    key_type: DeclaredType[Any] | None
    calls: tuple[_Call, ...]

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowedOperatorTransformation:
        """Has another trigger say when windows fire; one that looks at elements may do so while they are filled.

        Raises:
            InvalidTypeError: when it is no trigger.
            InvalidProgramError: when it goes by the clock at intervals.
        """
        expect(trigger, Trigger, "trigger")
        if isinstance(trigger, ContinuousProcessingTimeTrigger):
            raise refused(
                f"{trigger} fires by the clock while windows are filled, and nobody would see it: a savepoint has no "
                "such windows"
            )
        return self._with("trigger", trigger)

    def evictor(self, evictor: Evictor[Any, Any]) -> WindowedOperatorTransformation:
        """Has an evictor remove elements when windows fire."""
        return self._with("evictor", evictor)

    def allowed_lateness(self, time_ms: int | Time | Duration | timedelta) -> WindowedOperatorTransformation:
        """Says how long windows are kept after their ends; a number is milliseconds."""
        return self._with("allowed_lateness", time_ms)

    def accumulation_mode(self, mode: AccumulationMode) -> WindowedOperatorTransformation:
        """Says what windows show when they fire again."""
        return self._with("accumulation_mode", mode)

    def reduce(
        self, reduce_function: Any, window_function: Any = None, output_type: DeclaredType[Any] | None = None
    ) -> BootstrapTransformation:
        """Windows that hold what a ``ReduceFunction`` makes of their elements; as ``WindowedStream.reduce``."""
        return self._filled("reduce", reduce_function, window_function, output_type)

    def aggregate(self, aggregate_function: Any, *more: Any, **named: Any) -> BootstrapTransformation:
        """Windows that hold accumulators, of built-in aggregates or of an ``AggregateFunction``.

        Args:
            aggregate_function: as for ``WindowedStream.aggregate``.
            more: more built-in aggregates, or a window function.
            named: ``window_function``, ``accumulator_type`` and ``output_type``, as there.
        """
        return self._filled("aggregate", aggregate_function, *more, **named)

    def apply(self, window_function: Any, output_type: DeclaredType[Any] | None = None) -> BootstrapTransformation:
        """Windows that hold all elements, for a ``WindowFunction``; as ``WindowedStream.apply``."""
        return self._filled("apply", window_function, output_type)

    def process(
        self, process_window_function: Any, output_type: DeclaredType[Any] | None = None
    ) -> BootstrapTransformation:
        """Windows that hold all elements, for a ``ProcessWindowFunction``; as ``WindowedStream.process``."""
        return self._filled("process", process_window_function, output_type)

    def _with(self, method: str, *arguments: Any) -> WindowedOperatorTransformation:
        return replace(self, calls=(*self.calls, _Call(method, arguments, {})))

    def _filled(self, method: str, *arguments: Any, **named: Any) -> BootstrapTransformation:
        calls = (*self.calls, _Call(method, arguments, named))

        def build(stream: Any) -> DataStream[Any]:
            windows = stream.key_by(self.selector, self.key_type)
            for call in calls:
                windows = call.of(windows)
            filled: DataStream[Any] = windows
            return filled

        return windowed(self.records, build)


def in_windows(
    records: Records, selector: Any, key_type: DeclaredType[Any] | None, assigner: WindowAssigner[Any, Any]
) -> WindowedOperatorTransformation:
    """Records in the windows of an assigner.

    Raises:
        InvalidTypeError: when it is no assigner.
        InvalidProgramError: when its windows are of the clock.
    """
    expect(assigner, WindowAssigner, "window")
    is_of_time = isinstance(assigner.get_window_serializer(), TimeWindowSerializer)
    if is_of_time and not assigner.is_event_time():
        raise refused(
            f"{assigner} are windows of the clock, which hold what comes while they are open: a savepoint has none"
        )
    return WindowedOperatorTransformation(records, selector, key_type, (_Call("window", (assigner,), {}),))


def in_counts(
    records: Records, selector: Any, key_type: DeclaredType[Any] | None, size: int, slide: int
) -> WindowedOperatorTransformation:
    """Records in windows of so many of a key."""
    return WindowedOperatorTransformation(records, selector, key_type, (_Call("count_window", (size, slide), {}),))
