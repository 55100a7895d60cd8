"""Jobs of two streams that must give the same on every runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessJoinFunction,
    RuntimeContext,
)
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.expressions import left, right
from headrace.windowing.assigners import TumblingEventTimeWindows
from tests.differential.events import RESULT, Event, Streams, events

NUMBERS = MapStateDescriptor("numbers", Types.STRING(), Types.LONG())
ASKED = ValueStateDescriptor("asked", Types.LONG())


def joins(env: StreamExecutionEnvironment) -> Streams:
    """Two streams by time and by window; late records of several splits would depend on the cut, so none is late."""
    first, second = (events(env, seed, bound=301) for seed in (1, 2))
    near = first.key_by("f0").interval_join(second.key_by("f0")).between(-40, 25)
    columns = (left("f0"), left("f1"), (left("f3") + right("f3")).alias("sum"))
    nearer = first.key_by("f0").interval_join(second.key_by("f0"), "outer").between(-4, 3)
    tumbling = TumblingEventTimeWindows.of(70)
    windows = first.join(second, "outer").where("f0").equal_to("f0").window(tumbling)
    groups = first.co_group(second).where("f0").equal_to("f0").window(tumbling)
    return {
        "near": near.select(*columns),
        "called": near.process(Both(), RESULT),
        "nearer": nearer.select(*columns),
        "same window": windows.select(*columns),
        "groups": groups.apply(sizes, RESULT),
    }


def sizes(first: list[Event], second: list[Event]) -> Iterator[Any]:
    """How many records each side of a group has."""
    yield (first or second)[0][0], f"{len(first)} and {len(second)}", sum(event[1] for event in [*first, *second])


class Both(ProcessJoinFunction):
    def process_element(self, left: Event, right: Event, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left[0], str(right[1]), ctx.get_timestamp() - ctx.get_left_timestamp()


class _Seen(KeyedCoProcessFunction):
    """At each record's timer: how many records of either stream its key has had by then."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.times = [
            runtime_context.get_list_state(ListStateDescriptor(name, Types.LONG())) for name in ("first", "second")
        ]

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> list[Any]:
        return self._note(0, value, ctx)

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> list[Any]:
        return self._note(1, value, ctx)

    def _note(self, number: int, value: Event, ctx: KeyedCoProcessFunction.Context) -> list[Any]:
        self.times[number].add(value[2])
        ctx.timer_service().register_event_time_timer(value[2])
        return []

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[tuple[str, str, int]]:
        first, second = (len([time for time in times.get() if time <= timestamp]) for times in self.times)
        yield ctx.get_current_key(), f"{first} and {second}", timestamp


class _Limited(KeyedBroadcastProcessFunction):
    """At each record's timer: how many were broadcast by then, and how many of them since its key was there."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.asked = runtime_context.get_state(ASKED)

    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> list[Any]:
        self.asked.update(self.asked.value() or 0)
        ctx.timer_service().register_event_time_timer(value[2] + 5)
        return []

    def process_broadcast_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.Context) -> list[Any]:
        numbers = ctx.get_broadcast_state(NUMBERS)
        numbers.put("all", (numbers.get("all") or 0) + 1)
        ctx.apply_to_keyed_state(ASKED, lambda key, asked: asked.update(asked.value() + 1))
        return []

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), str(ctx.get_broadcast_state(NUMBERS).get("all")), self.asked.value()


class _Listed(BroadcastProcessFunction):
    """Every record of both streams."""

    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield value[0], "record", value[1]

    def process_broadcast_element(self, value: Event, ctx: BroadcastProcessFunction.Context) -> Iterator[Any]:
        numbers = ctx.get_broadcast_state(NUMBERS)
        numbers.put(value[0], (numbers.get(value[0]) or 0) + 1)
        yield value[0], "rule", numbers.get(value[0])


def two_streams(env: StreamExecutionEnvironment) -> Streams:
    """Both as one function sees them; none of their records is late."""
    first, second = events(env, 1, bound=300), events(env, 2, bound=300)
    keyed = first.connect(second).key_by(lambda event: event[0], lambda event: event[0], Types.STRING())
    with_broadcast = first.connect(second.broadcast(NUMBERS))
    listed = with_broadcast.process(_Listed(), RESULT)
    listed_in_order = with_broadcast.in_event_time_order().process(_Listed(), RESULT)
    ordered = keyed.in_event_time_order().process(_Seen(), RESULT)
    keyed_with_broadcast = first.key_by("f0").connect(second.broadcast(NUMBERS)).in_event_time_order()
    return {
        "seen": keyed.process(_Seen(), RESULT),
        "ordered": ordered,
        "listed": listed,
        "listed in order": listed_in_order,
        "limited": keyed_with_broadcast.process(_Limited(), RESULT),
    }
