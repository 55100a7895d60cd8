"""A job with every kind of state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.common import Time, Types, WatermarkStrategy
from headrace.datastream import (
    AggregateFunction,
    CheckpointedFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
)
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.testing import JobHarness
from headrace.time.watermark_strategy import TimestampAssigner

KEYS = 10
VISIT = Types.ROW_NAMED(["user", "count"], [str, int])
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
VALUE = ValueStateDescriptor("value", VISIT)
LIST = ListStateDescriptor("list", Types.LONG())
MAP = MapStateDescriptor("map", Types.STRING(), Types.LONG())
REDUCING = ReducingStateDescriptor("reducing", max, Types.LONG())
UNTYPED = ValueStateDescriptor("untyped")


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


MEAN = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))


class All(KeyedProcessFunction):
    """Every kind of state of keys."""

    def open(self, context: Any) -> None:
        self.value, self.untyped = context.get_state(VALUE), context.get_state(UNTYPED)
        self.list, self.map = context.get_list_state(LIST), context.get_map_state(MAP)
        self.reducing, self.mean = context.get_reducing_state(REDUCING), context.get_aggregating_state(MEAN)

    def process_element(self, number: int, ctx: Any) -> Iterator[int]:
        self.value.update((f"user {number % KEYS}", number))
        self.untyped.update({"number": number})
        self.list.add(number)
        self.map.put(str(number), number)
        self.reducing.add(number)
        self.mean.add(number)
        ctx.timer_service().register_event_time_timer(1_000_000 + number)
        ctx.timer_service().register_processing_time_timer(1_000_000 + number)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[int]:
        yield timestamp


class Held(FlatMapFunction, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.even = store.get_list_state(ListStateDescriptor("even", Types.LONG()))
        self.union = store.get_union_list_state(ListStateDescriptor("union", Types.LONG()))

    def snapshot_state(self, context: Any) -> None:
        pass

    def flat_map(self, number: int) -> Iterator[int]:
        (self.even if number % 2 else self.union).add(number)
        yield from ()


class Ruled(KeyedBroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        yield from ()

    def process_broadcast_element(self, value: str, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, len(value))


class Seen(ProcessWindowFunction):
    """Remembers something of each window."""

    def process(self, key: int, context: Any, elements: Any) -> Iterator[int]:
        context.window_state().get_state(ValueStateDescriptor("seen", Types.LONG())).update(sum(elements))
        yield from ()


class At(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


def job(harness: JobHarness) -> None:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    numbers = harness.add_source("numbers", Types.LONG(), watermarks=times)
    rules = harness.add_source("rules", Types.STRING())
    keyed = numbers.key_by(lambda number: number % KEYS, Types.LONG())
    harness.add_sink("a", keyed.process(All(), Types.LONG()).uid("all"))
    harness.add_sink("b", numbers.rebalance().flat_map(Held(), Types.LONG()).uid("held"))
    harness.add_sink("c", keyed.connect(rules.broadcast(RULES)).process(Ruled(), Types.LONG()).uid("ruled"))
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(50))).allowed_lateness(1_000)
    harness.add_sink("d", windows.process(Seen(), Types.LONG()).uid("windows"))
