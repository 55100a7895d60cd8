"""Functions of the user over windows: what operators have in common, and the one for all assigners and triggers.

The way of an element in the general operator: it is put into windows (:mod:`.assigned_windows`); event time advances to
the watermark that it meets; each window that is not late takes it in (:mod:`.contents`) and calls the trigger, which
may have the window fire. The way of time: timers have windows fire, and go.

Contents, the trigger's state and timers are those of a key and a namespace, which is the window. Windows that merge
keep their contents under the first of them, so that what they hold need not be moved each time that they grow.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, cast

from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import TypeInformation
from headrace.metrics.registry import LATE_DROPPED
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext, cannot_go_on
from headrace.operators.collector import RowCollector
from headrace.operators.functions import FunctionOperator
from headrace.operators.timer_service import TimeDomain
from headrace.operators.user_code import NO_RECORD, note_returned, record_text, user_error
from headrace.operators.window.general.assigned_windows import AssignedWindows, KeptWindows, MergingWindows
from headrace.operators.window.general.contents import (
    EmittedResults,
    EvictedContents,
    FoldedContents,
    KeyedContents,
    ListedContents,
    held_by_key,
)
from headrace.operators.window.general.window_functions import (
    OperatorTime,
    WindowCall,
    WindowContext,
    WindowTrigger,
    fold_of,
)
from headrace.operators.window.lateness import check_timestamps
from headrace.operators.window.stored_windows import (
    StoredWindow,
    are_of,
    cannot_move,
    check_has_no_tables,
    count_dropped,
)
from headrace.state.evolution import RenamedFields
from headrace.state.keyed.namespaces import GivenNamespace
from headrace.state.keys.codecs import NO_KEY, KeyEntry
from headrace.state.protocols import DomainTimers
from headrace.state.timers import Timer
from headrace.windowing.assigners import EventTimeAssigner, MergingWindowAssigner
from headrace.windowing.definition import RESULT, ChangedWindows, WindowDefinition, WindowFunctions
from headrace.windowing.intervals import AlignedWindows
from headrace.windowing.trigger import Firing, TriggerResult
from headrace.windowing.windows import Window, WindowSerializer, window_serializer


@dataclass(frozen=True, slots=True)
class CalledWindows:
    """Windows, and the functions of the user that an operator calls over them.

    Attributes:
        definition: the windows.
        functions: the functions.
        input_type: the type of the elements.
        output_type: the type of what is emitted.
        side_types: the types of the side outputs that are read, by tag id.
        is_batch: whether timers in processing time fire when the input has ended, whatever the time.
    """

    definition: WindowDefinition
    functions: WindowFunctions
    input_type: TypeInformation
    output_type: TypeInformation
    side_types: Mapping[str, TypeInformation]
    is_batch: bool = False


class FunctionWindowOperator(KeyedOperator, FunctionOperator):
    """The root of operators that call functions of the user over windows.

    Args:
        windows: the windows, and what is called over them.
    """

    _windows: WindowSerializer

    def __init__(self, windows: CalledWindows) -> None:
        functions = windows.functions
        super().__init__(*functions.objects)
        self._definition, self._user_functions = windows.definition, functions
        self._input_type, self._output_type = windows.input_type, windows.output_type
        self._is_batch = windows.is_batch
        assigner = self._assigner = windows.definition.assigner
        self._is_event_time = assigner.is_event_time()
        self._is_merging = isinstance(assigner, MergingWindowAssigner)
        self._reach = assigner.reach if isinstance(assigner, EventTimeAssigner) else 0
        self._call = WindowCall(functions.window_function, functions.aggregate_function)
        self.maker = self._call.maker
        self._collector = RowCollector(windows.output_type, windows.side_types)
        self._time = OperatorTime()

    def window_of(self, namespace: GivenNamespace) -> Any:
        """The window whose timers are kept in a namespace."""
        return self._windows.window_of(namespace)

    def restore_state(self, context: OperatorContext) -> None:
        self._keyed, self._timers = context.state.keyed, context.state.timers
        self._trigger = WindowTrigger(self._definition.applied_trigger, self._keyed, self._timers, self._time, context)
        self._context = WindowContext(self._keyed, is_merging=self._is_merging)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        if self._is_event_time:
            check_timestamps(batch, self.context, self._reach)
        self._add_all(batch)
        self._time.watermark = self._keyed.event_time = int(batch.watermarks[-1])
        self._flush()

    @abstractmethod
    def _add_all(self, batch: KeyedBatch) -> None:
        """Adds the elements of a batch to their windows, and fires what is due on the way."""

    def _failure(self, error: BaseException, element: object) -> BaseException:
        """The description of an error at an element, or in a window that fired before it."""
        return user_error(error, self.context, element)

    def _flush(self) -> None:
        """Hands on what was emitted."""
        self._collector.flush(self.output, self.context)

    def _enter(self, window: object, firing: Firing) -> None:
        """Set the window and key that the user's function sees from now on."""
        if not self._is_merging:
            self._keyed.namespace = self._windows.namespace_of(window)
        self._context.enter(window, self._time.watermark, self._time.processing_time, firing)

    def _timer_text(self, domain: TimeDomain, time: int, window: object) -> str:
        """A timer in the words of errors."""
        kind, key = "event" if domain is TimeDomain.EVENT_TIME else "processing", self._keyed.current
        of_key = "" if key is NO_KEY else f"key {record_text(key.key)} and "
        return f"{time} in {kind} time, of {of_key}{record_text(window)}"


class WindowOperator(FunctionWindowOperator):
    """Functions of the user over windows of any assigner, trigger and evictor: Flink's rules, element by element.

    Args:
        windows: the windows, and what is called over them.
    """

    def __init__(self, windows: CalledWindows) -> None:
        super().__init__(windows)
        self._windows = window_serializer(self._assigner.get_window_serializer())
        self._merging: MergingWindows | None = None
        self._may_have_former = False

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """The contents of windows, read by an operator that is not open. See :class:`.WindowStateReader`."""
        self.restore_state(context)
        self._time.watermark = watermark
        return held_by_key(self._contents, self._keyed, self._window_of_contents)

    def _window_of_contents(self, namespace: GivenNamespace) -> Any:
        """The window of the current key whose contents are in a namespace."""
        window = self.window_of(namespace)
        if self._merging is None:
            return window
        mapping = self._merging.of_current_key().mapping
        return next((actual for actual, kept_under in mapping.items() if kept_under == window), window)

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        of_results = context.renamed_fields.of_parts({"": RESULT})
        retracts = self._definition.accumulation_mode.retracts
        self._former = self._new_former_results(of_results) if retracts else None
        check_has_no_tables(context)
        self._may_have_former = context.changed_windows is not ChangedWindows.FAIL
        kept = KeptWindows(self._assigner, self._windows)
        if isinstance(self._assigner, MergingWindowAssigner):
            self._merging = MergingWindows(self._assigner, self._windows, kept, self._keyed)
        self._contents = self._keyed_contents(context.renamed_fields)
        self._own_timers = self._timers.event if self._is_event_time else self._timers.processing
        self._assigned = AssignedWindows(context, self._assigner, kept, self._time)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._time.watermark, self._time.processing_time = scope.watermark, scope.processing_time
        if self._merging is not None:
            self._merging.begin_epoch()
        if self._may_have_former:
            self._may_have_former = False
            self._drop_former()
        if not self._is_batch:
            self._fire_processing_time(scope.processing_time, scope.watermark)
            self._flush()

    def advance_watermark(self, watermark: int) -> None:
        reached = self._time.watermark
        if watermark > reached:
            self._advance(watermark)
            if self._is_batch and watermark == MAX_WATERMARK:  # the clock comes to its end behind event time
                self._time.clock_has_ended = True
                self._fire_processing_time(MAX_WATERMARK, reached)
            self._flush()
        super().advance_watermark(self._time.watermark)

    def end_epoch(self) -> None:
        self._contents.end_epoch()
        if self._merging is not None:
            self._merging.end_epoch()

    def _drop_former(self) -> None:
        """Drops windows that the assigner does not have any more; of unknown ones, all come to their own ends."""
        regular = self._assigner.regular
        if not isinstance(regular, AlignedWindows):
            return
        held = [(key, self.window_of(namespace), namespace) for key, namespace in self._contents.stored()]
        former = [each for each in held if not are_of(regular, each[1].start, each[1].end)]
        if former and self.context.changed_windows is ChangedWindows.REAGGREGATE:
            reason = "they have a trigger, evictor or clock of their own, so some were shown"
            raise cannot_go_on(self.context, cannot_move(self.context, reason))
        for key, window, namespace in former:
            self._keyed.current = key
            self._clear(window, namespace, namespace)
            self._own_timers.delete(self._cleanup_time(window), namespace)
        self._keyed.current = NO_KEY
        count_dropped(self, len(former))

    def _keyed_contents(self, renamed: RenamedFields) -> KeyedContents:
        """The store of windows in state of key and window."""
        kind, type_, functions = self._definition.kind, self._input_type, self._user_functions
        fold, evictor = fold_of(functions, type_), self._definition.evictor
        if evictor is not None:
            return EvictedContents(self._keyed, kind, type_, evictor, self._time, fold, renamed)
        if fold is not None:
            return FoldedContents(self._keyed, kind, fold, renamed)
        return ListedContents(self._keyed, kind, type_, renamed)

    def _new_former_results(self, renamed: RenamedFields) -> EmittedResults:
        """The store of the results that windows have emitted."""
        return EmittedResults(self._keyed, self._output_type, renamed)

    # --- elements ----------------------------------------------------------------------------------------------------

    def _add_all(self, batch: KeyedBatch) -> None:
        entries, element = self._keyed.bind(batch.keys), cast("Any", NO_RECORD)
        timestamps, watermarks = batch.timestamps.tolist(), batch.watermarks.tolist()
        try:
            assigned = self._assigned.of(batch, timestamps, entries)
            self._expect(entries, assigned, watermarks[-1])
            steps = zip(batch.rows, timestamps, watermarks, entries, assigned, strict=True)
            for element, timestamp, watermark, entry, windows in steps:
                if watermark != self._time.watermark:
                    self._advance(watermark)
                self._keyed.current = entry
                self._add(element, timestamp, windows)
        except BaseException as error:
            raise self._failure(error, element) from error
        finally:
            self._keyed.current = NO_KEY

    def _expect(self, entries: Sequence[KeyEntry], assigned: Sequence[Collection[object]], watermark: int) -> None:
        """Says what elements will need until event time has come to ``watermark``: it is read together."""
        due = self._timers.event.foresee(watermark)
        namespace_of = self._windows.namespace_of
        pairs = zip(entries, assigned, strict=True)
        self._keyed.expect((entry, namespace_of(window)) for entry, windows in pairs for window in windows)
        if self._merging is not None:
            self._merging.expect(chain(entries, (entry for entry, _ in due)))
            self._keyed.expect(self._merging.foreseen(entries, assigned))

    def _add(self, element: object, timestamp: int, windows: Collection[object]) -> None:
        """Adds an element to its windows; one that is too late for all of them is sent away."""
        add = self._add_to_window if self._merging is None else self._merge_into_window
        is_taken = False
        for window in windows:
            is_taken |= add(window, element, timestamp)
        last = min(timestamp + self._definition.allowed_lateness, MAX_WATERMARK)
        if is_taken or not self._is_over(last):
            return
        if (late_tag := self._definition.late_tag) is None:
            self.count(LATE_DROPPED)
        else:
            self._collector.collect_side(late_tag, element, timestamp, self._time.watermark)

    def _add_to_window(self, window: Any, element: Any, timestamp: int) -> bool:
        """Adds an element to a window; not to one that is late."""
        end = self._cleanup_time(window)
        if self._is_over(end):
            return False
        namespace = self._windows.namespace_of(window)
        self._put(window, namespace, namespace, element, timestamp)
        self._keep_until(end, namespace)
        return True

    def _merge_into_window(self, window: object, element: object, timestamp: int) -> bool:
        """Adds an element to the window that its own becomes; judged late or not when it is merged, as in Flink."""
        assert self._merging is not None
        windows = self._merging.of_current_key()
        actual = windows.add(window, self._merge)
        end = self._cleanup_time(actual)
        if self._is_over(end):
            windows.retire(actual)
            return False
        namespace_of = self._windows.namespace_of
        namespace = namespace_of(actual)
        self._put(actual, namespace, namespace_of(windows.mapping[actual]), element, timestamp)
        self._keep_until(end, namespace)
        return True

    def _cleanup_time(self, window: Window) -> int:
        """Return when a window goes, in its own time; ``MAX_WATERMARK`` where that is never."""
        last: int = window.max_timestamp()
        return min(last + self._definition.allowed_lateness, MAX_WATERMARK) if self._is_event_time else last

    def _is_over(self, end: int) -> bool:
        """Return whether a window that goes at ``end`` takes no more elements; windows of the clock are never late."""
        return self._is_event_time and end <= self._time.watermark

    def _keep_until(self, end: int, namespace: GivenNamespace) -> None:
        """The current key has something in a window, which goes at ``end``."""
        if end < MAX_WATERMARK:  # what is kept until the end of time needs no timer
            self._own_timers.register(end, namespace)

    def _put(
        self, window: Any, namespace: GivenNamespace, contents: GivenNamespace, element: Any, timestamp: int
    ) -> None:
        """Adds an element to a window whose contents are in the namespace ``contents``, and calls the trigger."""
        self._contents.add(contents, element, timestamp)
        self._trigger.enter(window, namespace)
        result = self._trigger.on_element(element, timestamp)
        if result is not TriggerResult.CONTINUE:
            is_late = self._is_event_time and window.max_timestamp() <= self._time.watermark
            firing = Firing.LATE if is_late else Firing.EARLY
            self._react(result, window, contents, firing, self._time.watermark)

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
            target, sources = namespace_of(state_window), [namespace_of(window) for window in merged_states]
            self._contents.merge(target, sources)
            if self._former is not None:
                self._former.merge(target, sources)

    def _check_not_late(self, window: Any) -> None:
        now = self._time.watermark if self._is_event_time else self._time.processing_time
        if self._cleanup_time(window) <= now:
            name = "event time" if self._is_event_time else "processing time"
            raise InvalidProgramError(
                f"windows were merged into {window!r}, which is over already: the {name} is {now}. The window that "
                f"{type(self._assigner).__name__}.merge_windows gives must not end before those that it is made of"
            )

    # --- time --------------------------------------------------------------------------------------------------------

    def _advance(self, watermark: int) -> None:
        """Fires what the advance makes due; what it emits still meets the watermark before."""
        reached, self._time.watermark = self._time.watermark, watermark
        if self._timers.event.next_due <= watermark:
            self._fire(TimeDomain.EVENT_TIME, self._due(self._timers.event, watermark), reached)
        self._keyed.event_time = watermark

    def _fire_processing_time(self, now: int, stamp: int) -> None:
        self._fire(TimeDomain.PROCESSING_TIME, self._due(self._timers.processing, now), stamp)

    def _due(self, timers: DomainTimers, now: int) -> Iterator[Timer]:
        """The timers that are due; what windows of their keys hold is read together."""
        due = timers.foresee(now)
        if due and self._merging is not None:
            self._merging.expect(entry for entry, _ in due)
        return timers.pop_due(now)

    def _fire(self, domain: TimeDomain, due: Iterable[Timer], stamp: int) -> None:
        timer = None
        try:
            for timer in due:
                self._keyed.current = timer.entry
                if domain is TimeDomain.EVENT_TIME:
                    self._keyed.event_time = max(stamp, timer.time)
                self._on_timer(domain, timer, stamp)
        except BaseException as error:
            window = None if timer is None else self._windows.window_of(cast("GivenNamespace", timer.namespace))
            timer_text = "" if timer is None else self._timer_text(domain, timer.time, window)
            raise user_error(error, self.context, timer=timer_text) from error
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

    def _clear(self, window: object, namespace: GivenNamespace, contents: GivenNamespace) -> None:
        """A window goes, with all that was kept for it."""
        self._contents.clear(contents)
        if self._former is not None:
            self._former.clear(contents)
        self._trigger.enter(window, namespace)
        self._trigger.clear()
        if self._call.wants_clear:
            self._enter(window, Firing.LATE)
            self._call.clear(self._context)
        if self._merging is not None:
            self._merging.of_current_key().retire(window)

    # --- results -----------------------------------------------------------------------------------------------------

    def _react(
        self, result: TriggerResult, window: object, contents: GivenNamespace, firing: Firing, stamp: int
    ) -> None:
        """Executes the trigger's decision; what is emitted is stamped with the watermark ``stamp``."""
        if result.is_fire():
            elements = self._contents.elements(contents, window)
            if elements is not None:
                self._emit_result(elements, window, contents, firing, stamp)
            self._contents.after_firing(contents, window)
        if result.is_purge():
            self._contents.clear(contents)

    def _emit_result(
        self, elements: Sequence[Any], window: Any, contents: GivenNamespace, firing: Firing, stamp: int
    ) -> None:
        """Emits the result of a window for the current key, by the accumulation mode."""
        results: Iterable[Any] = ()
        if elements or self._user_functions.reduce_function is None:  # else an evictor has left nothing to reduce
            self._enter(window, firing)
            results = self._call.results(self._keyed.current, self._context, elements)
        if self._former is None:
            self._collector.collect(results, window.max_timestamp(), stamp)
        else:
            take_back = partial(self._take_back, contents)
            self._collector.collect_changed(results, window.max_timestamp(), stamp, take_back)

    def _take_back(self, contents: GivenNamespace, results: list[Any]) -> list[Any]:
        """The output of a window that retracts its earlier results."""
        assert self._former is not None
        try:
            return self._former.changes(contents, results)
        except InvalidTypeError as error:
            note_returned(error, self.maker)
            raise
