"""Flink's window operator as a plain program: one record, one timer at a time, with dictionaries for state.

It follows Flink's rules step by step and knows nothing of batches, epochs or columns; operators are compared with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.metrics.metricbase import MetricGroup
from headrace.metrics.registry import MetricRegistry
from headrace.windowing.assigners import MergingWindowAssigner, WindowAssigner
from headrace.windowing.evictors import Evictor, TimestampedValue
from headrace.windowing.trigger import Trigger, TriggerResult
from headrace.windowing.windows import MergeCallback, Window, window_serializer

Key = Any
Namespace = tuple[Key, Hashable]


class LateMergeError(Exception):
    """Windows were merged into one that is late already."""


@dataclass(frozen=True)
class Fired:
    """A window as its function sees it.

    Attributes:
        key: the key.
        window: the window.
        values: its elements, in the order in which they came.
        stamp: the watermark under which the result leaves: that of the element, or the one before the timer's.
    """

    key: Key
    window: Window
    values: tuple[Any, ...]
    stamp: int


class Cell:
    """State of any kind, of one key and namespace, over a dictionary."""

    def __init__(self, descriptor: Any, held: dict[Any, Any], place: Hashable) -> None:
        self._descriptor = descriptor
        self._held = held
        self._place = place

    def value(self) -> Any:
        return self._held.get(self._place)

    get = value

    def update(self, value: Any) -> None:
        self._held[self._place] = value

    def add(self, value: Any) -> None:
        before = self._held.get(self._place)
        self._held[self._place] = value if before is None else self._descriptor.reduce(before, value)

    def clear(self) -> None:
        self._held.pop(self._place, None)


class Timers:
    """Timers of one time domain; one for each time, key and window.

    Args:
        rank: orders the keys whose timers are due at one time, which Flink leaves open.
    """

    def __init__(self, rank: Callable[[Key], Any]) -> None:
        self.pending: set[tuple[int, Key, Window]] = set()
        self._rank = rank

    def pop_due(self, time: int) -> Iterable[tuple[int, Key, Window]]:
        while due := [timer for timer in self.pending if timer[0] <= time]:
            first = min(due, key=lambda timer: (timer[0], self._rank(timer[1]), timer[2]))
            self.pending.remove(first)
            yield first


class Context(Trigger.OnMergeContext, WindowAssigner.WindowAssignerContext, Evictor.EvictorContext):
    """What triggers, assigners and evictors see, of the model's current key and window.

    Attributes:
        key: the current key.
        window: the current window.
        merged: the windows that have become ``window``, during ``on_merge``.
        stamp: the watermark under which results leave.
    """

    def __init__(self, rank: Callable[[Key], Any] = repr) -> None:
        self.now = 0
        self.watermark = self.stamp = MIN_WATERMARK
        self.key: Key = None
        self.window: Any = None
        self.merged: list[Any] = []
        self.event = Timers(rank)
        self.processing = Timers(rank)
        self.states: dict[str, dict[Any, Any]] = defaultdict(dict)

    def get_current_processing_time(self) -> int:
        return self.now

    def get_current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self.processing.pending.add((time, self.key, self.window))

    def register_event_time_timer(self, time: int) -> None:
        self.event.pending.add((time, self.key, self.window))

    def delete_processing_time_timer(self, time: int) -> None:
        self.processing.pending.discard((time, self.key, self.window))

    def delete_event_time_timer(self, time: int) -> None:
        self.event.pending.discard((time, self.key, self.window))

    def get_partitioned_state(self, state_descriptor: Any) -> Cell:
        return self._cell(state_descriptor, self.window)

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        held = self.states[state_descriptor.name]
        for window in self.merged:
            value = held.pop((self.key, window), None)
            if value is not None:
                self.get_partitioned_state(state_descriptor).add(value)

    def get_metric_group(self) -> MetricGroup:
        return MetricGroup(MetricRegistry())

    def get_runtime_context(self) -> Context:
        return self

    def get_index_of_this_subtask(self) -> int:
        return 0

    def get_state(self, state_descriptor: Any) -> Cell:
        return self._cell(state_descriptor, None)

    def _cell(self, descriptor: Any, window: Any) -> Cell:
        return Cell(descriptor, self.states[descriptor.name], (self.key, window))


class MergingWindows(MergeCallback[Any]):
    """The windows of a key that merges its windows, and the window under which the contents of each are kept."""

    def __init__(self, assigner: MergingWindowAssigner[Any, Any]) -> None:
        self._assigner = assigner
        self._results: list[tuple[list[Any], Any]] = []
        self.state_windows: dict[Any, Any] = {}

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self._results.append((list(to_be_merged), merge_result))

    def add(self, new: Any, merged: Callable[[Any, list[Any], Any, list[Any]], None]) -> Any:
        """A window is added; gives what it has become.

        Args:
            new: the window.
            merged: is called with the result of a merge, the windows merged, and the same for where contents are.
        """
        self._results = []
        self._assigner.merge_windows([*self.state_windows, new], self)
        result = new
        for windows, covering in self._results:
            if new in windows:
                result = covering
            old = [window for window in windows if window in self.state_windows]
            if old == [covering]:
                continue  # the new one lies within one that is there
            kept, *others = [self.state_windows.pop(window) for window in old]
            self.state_windows[covering] = kept
            merged(covering, old, kept, others)
        self.state_windows.setdefault(result, result)
        return result


@dataclass
class WindowModel:
    """Windows with every part that Flink has.

    Attributes:
        assigner: puts elements into windows.
        trigger: says when they fire; that of the assigner when left out.
        evictor: drops elements when they fire.
        lateness: how long windows stay after their end, in milliseconds.
        rank: orders keys whose timers are due at one time.
        fired: what the window function was called with, in order.
        late: the elements that came too late for all their windows.
        cleared: keys and windows whose contents went for good, in order.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any] = None  # type: ignore[assignment]
    evictor: Evictor[Any, Any] | None = None
    lateness: int = 0
    rank: Callable[[Key], Any] = repr
    fired: list[Fired] = field(default_factory=list)
    late: list[Any] = field(default_factory=list)
    cleared: list[tuple[Key, Window]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trigger = self.trigger or self.assigner.get_default_trigger(None)
        self.context = Context(self.rank)
        self.contents: dict[tuple[Key, Any], list[TimestampedValue[Any]]] = {}
        self._merging: dict[Key, MergingWindows] = {}
        self._serializer = window_serializer(self.assigner.get_window_serializer())

    # --- what comes ---------------------------------------------------------------------------------------------------

    def element(self, key: Key, value: Any, timestamp: int) -> None:
        """A record comes."""
        context = self.context
        context.key = key
        is_skipped = True
        for assigned in self.assigner.assign_windows(value, timestamp, context):
            assert self._serializer.window_of(self._serializer.namespace_of(assigned)) == assigned
            window = self._merged(key, assigned) if self._merges else assigned
            if self.assigner.is_event_time() and self._cleanup_time(window) <= context.watermark:
                if self._merges:
                    del self._merging[key].state_windows[window]
                continue
            is_skipped = False
            self.contents.setdefault(self._place(key, window), []).append(TimestampedValue(value, timestamp))
            context.window = window
            self._obey(self.trigger.on_element(value, timestamp, window, context))
            self._timer_of_cleanup(window, add=True)
        if is_skipped and self.assigner.is_event_time() and timestamp + self.lateness <= context.watermark:
            self.late.append(value)

    def advance_watermark(self, time: int) -> None:
        """Event time goes on; a timer for a time that has been passed waits for that, too."""
        if time <= self.context.watermark:
            return
        self.context.watermark = time
        for timer in self.context.event.pop_due(time):
            self._on_timer(timer, self.trigger.on_event_time, of_event_time=True)
        self.context.stamp = time

    def advance_processing_time(self, time: int) -> None:
        """The clock goes on."""
        self.context.now = max(time, self.context.now)
        for timer in self.context.processing.pop_due(time):
            self._on_timer(timer, self.trigger.on_processing_time, of_event_time=False)

    @property
    def held(self) -> list[tuple[Key, Any, list[Any]]]:
        """Keys and windows with the elements that they hold."""
        return [
            (key, self._window_at(key, place), [e.value for e in held]) for (key, place), held in self.contents.items()
        ]

    # --- Flink's rules ------------------------------------------------------------------------------------------------

    @property
    def _merges(self) -> bool:
        return isinstance(self.assigner, MergingWindowAssigner)

    def _on_timer(self, timer: tuple[int, Key, Any], call: Callable[..., TriggerResult], of_event_time: bool) -> None:
        time, key, window = timer
        if self._merges and window not in self._merging[key].state_windows:
            return
        self.context.key, self.context.window = key, window
        self._obey(call(time, window, self.context))
        if self.assigner.is_event_time() == of_event_time and time == self._cleanup_time(window):
            self._clear_all(key, window)

    def _obey(self, result: TriggerResult) -> None:
        key, window = self.context.key, self.context.window
        place = self._place(key, window)
        if result.is_fire() and place in self.contents:
            self._fire(key, window, place)
        if result.is_purge():
            self.contents.pop(place, None)

    def _fire(self, key: Key, window: Any, place: tuple[Key, Any]) -> None:
        held = self.contents[place]
        if self.evictor is not None:
            held = list(self.evictor.evict_before(list(held), len(held), window, self.context))
        self.fired.append(Fired(key, window, tuple(each.value for each in held), self.context.stamp))
        if self.evictor is not None:
            held = list(self.evictor.evict_after(list(held), len(held), window, self.context))
            self.contents[place] = held
            if not held:
                del self.contents[place]

    def _merged(self, key: Key, window: Any) -> Any:
        merging = self._merging.setdefault(key, MergingWindows(self.assigner))  # type: ignore[arg-type]
        return merging.add(window, self._on_merge)

    def _on_merge(self, result: Any, windows: list[Any], kept: Any, others: list[Any]) -> None:
        context, key = self.context, self.context.key
        reached = context.watermark if self.assigner.is_event_time() else context.now
        if self._cleanup_time(result) <= reached:
            raise LateMergeError(f"{result} at {reached}")
        context.window, context.merged = result, windows
        self.trigger.on_merge(result, context)
        for window in windows:
            context.window = window
            self.trigger.clear(window, context)
            self._timer_of_cleanup(window, add=False)
        for other in others:
            moved = self.contents.pop((key, other), [])
            if moved:
                self.contents.setdefault((key, kept), []).extend(moved)

    def _clear_all(self, key: Key, window: Any) -> None:
        self.contents.pop(self._place(key, window), None)
        self.trigger.clear(window, self.context)
        self.cleared.append((key, window))
        if self._merges:
            del self._merging[key].state_windows[window]

    def _place(self, key: Key, window: Any) -> tuple[Key, Any]:
        return key, self._merging[key].state_windows[window] if self._merges else window

    def _window_at(self, key: Key, place: Any) -> Any:
        if not self._merges:
            return place
        return next(window for window, kept in self._merging[key].state_windows.items() if kept == place)

    def _cleanup_time(self, window: Any) -> int:
        last: int = window.max_timestamp()
        return min(last + self.lateness, MAX_WATERMARK) if self.assigner.is_event_time() else last

    def _timer_of_cleanup(self, window: Any, add: bool) -> None:
        time = self._cleanup_time(window)
        timers = self.context.event if self.assigner.is_event_time() else self.context.processing
        if time < MAX_WATERMARK:
            (timers.pending.add if add else timers.pending.discard)((time, self.context.key, window))
