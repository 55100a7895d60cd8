"""Windows of any kind: functions are checked against the windows that the assigner gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_type

from headrace.datastream import DataStream, KeyedStream, ProcessWindowFunction, WindowFunction
from headrace.datastream.window import (
    CountEvictor,
    CountTrigger,
    CountWindow,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    MergingWindowAssigner,
    PurgingTrigger,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
    WindowAssigner,
)

Pair = tuple[str, int]


class Number(WindowFunction[Pair, int, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs: Iterable[Pair]) -> Iterable[int]:
        yield window.id


class Shown(ProcessWindowFunction[Pair, float, str, GlobalWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[GlobalWindow], elements: Iterable[Pair]
    ) -> Iterable[float]:
        yield float(context.window().max_timestamp())


class OnEven(Trigger[Pair, TimeWindow]):
    def on_element(
        self, element: Pair, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.FIRE if element[1] % 2 == 0 else TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        pass

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        pass


class Sessions(MergingWindowAssigner[Pair, TimeWindow]):
    def assign_windows(
        self, element: Pair, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + element[1])]

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger.create()

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


def windows(pairs: KeyedStream[Pair, str]) -> None:
    assert_type(pairs.count_window(3).apply(Number()), DataStream[int])
    every_third = pairs.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3)))
    assert_type(every_third.process(Shown()), DataStream[float])
    sessions = pairs.window(EventTimeSessionWindows.with_dynamic_gap(lambda pair: pair[1]))
    assert_type(sessions.evictor(CountEvictor.of(3)).reduce(max), DataStream[Pair])
    own = pairs.window(Sessions()).trigger(OnEven())
    assert_type(own.apply(lambda key, window, inputs: [window.end]), DataStream[int])
    own.apply(Number())  # error: arg-type
    own.apply(lambda key, window, inputs: [window.id])  # error: attr-defined
    pairs.count_window(3).process(Shown())  # error: arg-type
