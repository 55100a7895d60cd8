"""The window operator for every assigner, trigger and evictor: Flink's rules, element by element, on keyed state.

Contents, the trigger's state and timers are those of a key and a namespace, which is the window. Windows that merge
keep their contents under the first of them, so that what they hold need not be moved each time that they grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.common.output_tag import OutputTag
from headrace.operators.collector import RowCollector
from headrace.operators.functions import FunctionOperator, RuntimeContext
from headrace.operators.timer_service import TimeDomain
from headrace.operators.user_code import NO_RECORD, record_text, user_error
from headrace.operators.window.lateness import LATE_DROPPED, check_timestamps
from headrace.operators.window.merging import check_has_no_tables
from headrace.operators.window.merging_windows import MergingWindows
from headrace.operators.window.trigger_context import OperatorTime, WindowTrigger
from headrace.operators.window.window_functions import WindowContext, maker_of
from headrace.state.keys.entries import NO_KEY
from headrace.windowing.assigner import MergingWindowAssigner, WindowAssigner
from headrace.windowing.serializers import window_serializer
from headrace.windowing.trigger import Firing, TriggerResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from headrace.common.batch import Batch
    from headrace.operators.base import EpochScope, OperatorContext, Output
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.contents import WindowContents
    from headrace.operators.window.window_layout import WindowOperatorLayout
    from headrace.state.backend import DomainTimers
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.keys.entries import AnyKeyEntry
    from headrace.state.timers import Timer

    Assigned = list[Collection[Any]]


class WindowOperator(FunctionOperator):
    """Functions of the user over windows.

    Args:
        layout: assigner, trigger, evictor, functions and types.
    """

    def __init__(self, layout: WindowOperatorLayout) -> None:
        super().__init__(*layout.functions)
        self._layout = layout
        self._assigner = layout.assigner
        self._lateness = layout.lateness
        self._is_event_time = layout.assigner.is_event_time()
        self._windows = window_serializer(layout.assigner.get_window_serializer())
        self._late_tag = None if layout.late_tag is None else OutputTag(layout.late_tag)
        self._call = layout.new_call()
        self.maker = maker_of(self._call, layout.aggregate_function)
        self._collector = RowCollector(layout.output_type, layout.side_types)
        self._time = OperatorTime()

    def open(self, context: OperatorContext, output: Output) -> None:
        assert context.state is not None
        check_has_no_tables(context)
        self._keyed, self._timers = context.state.keyed, context.state.timers
        self._contents = self._new_contents()
        self._trigger = WindowTrigger(self._layout.trigger, self._keyed, self._timers, self._time)
        self._merging: MergingWindows[Any] | None = None
        if isinstance(self._assigner, MergingWindowAssigner):
            self._merging = MergingWindows(self._assigner, self._windows, self._keyed)
        self._context = WindowContext(self._keyed, is_merging=self._merging is not None)
        self._assigner_context = _AssignerContext(context, self._time)
        super().open(context, output)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._time.watermark, self._time.processing_time = scope.watermark, scope.processing_time
        if self._merging is not None:
            self._merging.begin_epoch()
        if not self._layout.is_batch:
            self._fire_processing_time(scope.processing_time, scope.watermark)
            self._flush()

    def process(self, input_index: int, batch: Batch) -> None:
        if not len(batch):
            return
        if self._is_event_time:
            check_timestamps(batch, self.context)
        entries = self._keyed.bind(cast("KeyedBatch", batch).keys)
        timestamps = batch.timestamps.tolist()
        assigned = self._assign(batch.rows, timestamps, entries)
        self._keyed.expect(self._pairs(entries, assigned))
        row: Any = NO_RECORD
        try:
            for row, timestamp, watermark, entry, windows in zip(
                batch.rows, timestamps, batch.watermarks.tolist(), entries, assigned, strict=True
            ):
                if watermark != self._time.watermark:
                    self._advance(watermark)
                self._keyed.current = entry
                self._add(row, timestamp, windows)
        except BaseException as error:
            raise user_error(error, self.context, row) from error
        finally:
            self._keyed.current = NO_KEY
        self._flush()

    def advance_watermark(self, watermark: int) -> None:
        if watermark > self._time.watermark:
            reached = self._time.watermark
            self._advance(watermark)
            if self._layout.is_batch and watermark == MAX_WATERMARK:  # the clock comes to its end behind event time
                self._time.clock_has_ended = True
                self._fire_processing_time(MAX_WATERMARK, reached)
            self._flush()
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        if self._merging is not None:
            self._merging.end_epoch()

    def _new_contents(self) -> WindowContents:
        """What windows hold."""
        return self._layout.new_contents(self._keyed, self._time)

    # --- elements ----------------------------------------------------------------------------------------------------

    def _assign(self, rows: Sequence[Any], timestamps: Sequence[int], entries: Sequence[AnyKeyEntry]) -> Assigned:
        """The windows of each element: the assigner may use state of the key, but nothing that triggers change."""
        assign, context, assigned, row = self._assigner.assign_windows, self._assigner_context, [], NO_RECORD
        try:
            for row, timestamp, entry in zip(rows, timestamps, entries, strict=True):
                self._keyed.current = entry
                assigned.append(assign(row, timestamp, context))
        except BaseException as error:
            raise user_error(error, self.context, row, function=self._assigner.assign_windows) from error
        finally:
            self._keyed.current = NO_KEY
        return assigned

    def _pairs(
        self, entries: Iterable[AnyKeyEntry], assigned: Assigned
    ) -> Iterator[tuple[AnyKeyEntry, GivenNamespace]]:
        """The keys and namespaces whose state elements will need."""
        namespace_of, merging = self._windows.namespace_of, self._merging
        if merging is None:
            for entry, windows in zip(entries, assigned, strict=True):
                for window in windows:
                    yield entry, namespace_of(window)
            return
        for entry in dict.fromkeys(entries):
            self._keyed.current = entry
            for window in merging.of_current_key().mapping.values():
                yield entry, namespace_of(window)
        self._keyed.current = NO_KEY

    def _add(self, element: Any, timestamp: int, windows: Collection[Any]) -> None:
        """Adds an element to its windows; one that is too late for all of them is sent away."""
        add = self._add_to_window if self._merging is None else self._merge_into_window
        is_taken = False
        for window in windows:
            is_taken |= add(window, element, timestamp)
        watermark = self._time.watermark
        if is_taken or not self._is_event_time or min(timestamp + self._lateness, MAX_WATERMARK) > watermark:
            return
        if self._late_tag is None:
            self.count(LATE_DROPPED)
        else:
            self._collector.collect_side(self._late_tag, element, timestamp, watermark)

    def _add_to_window(self, window: Any, element: Any, timestamp: int) -> bool:
        """Adds an element to a window; not to one that is late."""
        if self._is_late(window):
            return False
        namespace = self._windows.namespace_of(window)
        self._put(window, namespace, namespace, element, timestamp)
        return True

    def _merge_into_window(self, window: Any, element: Any, timestamp: int) -> bool:
        """Adds an element to the window that its own becomes; judged late or not when it is merged, as in Flink."""
        assert self._merging is not None
        windows = self._merging.of_current_key()
        actual = windows.add(window, self._merge)
        if self._is_late(actual):
            windows.retire(actual)
            return False
        namespace_of = self._windows.namespace_of
        self._put(actual, namespace_of(actual), namespace_of(windows.mapping[actual]), element, timestamp)
        return True

    def _put(
        self, window: Any, namespace: GivenNamespace, contents: GivenNamespace, element: Any, timestamp: int
    ) -> None:
        """Adds an element to a window whose contents are in the namespace ``contents``, and asks the trigger."""
        self._contents.add(contents, element, timestamp)
        self._trigger.enter(window, namespace)
        result = self._trigger.on_element(element, timestamp)
        if result is not TriggerResult.CONTINUE:
            is_late = self._is_event_time and window.max_timestamp() <= self._time.watermark
            firing = Firing.LATE if is_late else Firing.EARLY
            self._react(result, window, contents, firing, self._time.watermark)
        cleanup = self._cleanup_time(window)
        if cleanup < MAX_WATERMARK:  # what is kept until the end of time needs no timer
            self._own_timers.register(cleanup, namespace)

    def _merge(self, result: Any, merged: Sequence[Any], state_window: Any, merged_states: Sequence[Any]) -> None:
        """Windows have become one: the trigger, its state, timers and contents follow."""
        self._check_not_late(result)
        namespace_of = self._windows.namespace_of
        self._trigger.enter(result, namespace_of(result))
        self._trigger.on_merge([namespace_of(window) for window in merged])
        for window in merged:
            namespace = namespace_of(window)
            self._trigger.enter(window, namespace)
            self._trigger.clear()
            self._own_timers.delete(self._cleanup_time(window), namespace)
        if merged_states:
            self._contents.merge(namespace_of(state_window), [namespace_of(window) for window in merged_states])

    def _check_not_late(self, window: Any) -> None:
        now = self._time.watermark if self._is_event_time else self._time.processing_time
        if self._cleanup_time(window) <= now:
            name = "watermark" if self._is_event_time else "processing time"
            raise InvalidProgramError(
                f"windows were merged into {window!r}, which is over already: the {name} is {now}. The window that "
                f"{type(self._assigner).__name__}.merge_windows gives must not end before those that it is made of"
            )

    # --- time --------------------------------------------------------------------------------------------------------

    def _advance(self, watermark: int) -> None:
        """Fires what the advance makes due; what it emits still meets the watermark before."""
        reached, self._time.watermark = self._time.watermark, watermark
        if self._timers.event.next_due <= watermark:
            self._fire(TimeDomain.EVENT_TIME, self._timers.event.pop_due(watermark), reached)

    def _fire_processing_time(self, now: int, stamp: int) -> None:
        self._fire(TimeDomain.PROCESSING_TIME, self._timers.processing.pop_due(now), stamp)

    def _fire(self, domain: TimeDomain, due: Iterable[Timer], stamp: int) -> None:
        timer = None
        try:
            for timer in due:
                self._keyed.current = timer.entry
                self._on_timer(domain, timer, stamp)
        except BaseException as error:
            told = "" if timer is None else self._timer_text(domain, timer)
            raise user_error(error, self.context, timer=told) from error
        finally:
            self._keyed.current = NO_KEY

    def _on_timer(self, domain: TimeDomain, timer: Timer, stamp: int) -> None:
        namespace = contents = cast("GivenNamespace", timer.namespace)
        window, is_event = self._windows.window_of(namespace), domain is TimeDomain.EVENT_TIME
        if self._merging is not None:
            state_window = self._merging.of_current_key().state_window(window)
            if state_window is None:
                return  # of a window that has gone: its trigger has not taken the timer back
            contents = self._windows.namespace_of(state_window)
        self._trigger.enter(window, namespace)
        result = self._trigger.on_event_time(timer.time) if is_event else self._trigger.on_processing_time(timer.time)
        if result is not TriggerResult.CONTINUE:
            firing = Firing.EARLY
            if is_event is self._is_event_time and timer.time >= window.max_timestamp():
                firing = Firing.ON_TIME if timer.time == window.max_timestamp() else Firing.LATE
            self._react(result, window, contents, firing, stamp)
        if is_event is self._is_event_time and timer.time == self._cleanup_time(window):
            self._clear(window, namespace, contents)

    def _clear(self, window: Any, namespace: GivenNamespace, contents: GivenNamespace) -> None:
        """A window goes, with all that was kept for it."""
        self._contents.clear(contents)
        self._trigger.enter(window, namespace)
        self._trigger.clear()
        if self._call.wants_clear:
            self._enter(window, Firing.LATE)
            self._call.clear(self._context)
        if self._merging is not None:
            self._merging.of_current_key().retire(window)

    @property
    def _own_timers(self) -> DomainTimers:
        """Those of the time that the windows are of."""
        return self._timers.event if self._is_event_time else self._timers.processing

    def _cleanup_time(self, window: Any) -> int:
        last: int = window.max_timestamp()
        return min(last + self._lateness, MAX_WATERMARK) if self._is_event_time else last

    def _is_late(self, window: Any) -> bool:
        return self._is_event_time and self._cleanup_time(window) <= self._time.watermark

    def _timer_text(self, domain: TimeDomain, timer: Timer) -> str:
        kind = "event" if domain is TimeDomain.EVENT_TIME else "processing"
        window = self._windows.window_of(cast("GivenNamespace", timer.namespace))
        return f"{timer.time} in {kind} time, of key {record_text(timer.entry.key)} and {record_text(window)}"

    # --- results -----------------------------------------------------------------------------------------------------

    def _react(self, result: TriggerResult, window: Any, contents: GivenNamespace, firing: Firing, stamp: int) -> None:
        """Does what the trigger wants; what is emitted is stamped with the watermark ``stamp``."""
        if result.is_fire():
            self._show(window, contents, firing, stamp)
        if result.is_purge():
            self._contents.clear(contents)

    def _show(self, window: Any, contents: GivenNamespace, firing: Firing, stamp: int) -> None:
        """Emits what a window shows of its contents, if it has any."""

        def emit(elements: Sequence[Any]) -> None:
            self._enter(window, firing)
            results = self._call.results(cast("AnyKeyEntry", self._keyed.current), self._context, elements)
            self._collector.collect(results, window.max_timestamp(), stamp)

        self._contents.show(contents, window, emit)

    def _flush(self) -> None:
        """Hands on what was emitted."""
        self._collector.flush(self.output)

    def _enter(self, window: Any, firing: Firing) -> None:
        """What the user's function is to see from now on."""
        if self._merging is None:
            self._keyed.namespace = self._windows.namespace_of(window)
        self._context.enter(window, self._time.watermark, self._time.processing_time, firing)


class _AssignerContext(WindowAssigner.WindowAssignerContext):
    """What an assigner sees: the clock, and state of the current key.

    Args:
        context: the operator.
        time: its time.
    """

    def __init__(self, context: OperatorContext, time: OperatorTime) -> None:
        self._runtime_context = RuntimeContext(context)
        self._time = time

    def get_current_processing_time(self) -> int:
        return self._time.processing_time

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime_context
