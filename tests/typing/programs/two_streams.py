"""Two streams that one function works on: connected, broadcast, joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_type

from headrace.common import Types
from headrace.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedStream,
    OutputTag,
    ProcessJoinFunction,
)
from headrace.datastream.state import MapStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows


@dataclass(frozen=True)
class Order:
    card: str


@dataclass(frozen=True)
class Limit:
    card: str
    amount: float


LARGE = OutputTag("large", float)
LIMITS = MapStateDescriptor[str, float]("limits", Types.STRING(), Types.DOUBLE())


class Cards(CoMapFunction[Order, Limit, str]):
    def map1(self, value: Order) -> str | None:
        return value.card

    def map2(self, value: Limit) -> str | None:
        return value.card


class Amounts(CoFlatMapFunction[Order, Limit, float]):
    def flat_map1(self, value: Order) -> Iterator[float]:
        yield 0.0

    def flat_map2(self, value: Limit) -> Iterator[float]:
        yield value.amount


class Both(CoProcessFunction[Order, Limit, str]):
    def process_element1(self, value: Order, ctx: CoProcessFunction.Context) -> Iterator[str]:
        assert_type(ctx.timestamp(), int | None)
        ctx.get_current_key()  # error: attr-defined
        yield value.card

    def process_element2(
        self, value: Limit, ctx: CoProcessFunction.Context
    ) -> Iterator[str | tuple[OutputTag[float], float]]:
        yield LARGE, value.amount


class ByCard(KeyedCoProcessFunction[str, Order, Limit, str]):
    def process_element1(self, value: Order, ctx: KeyedCoProcessFunction.Context[str]) -> Iterator[str]:
        yield self.told(ctx)

    def process_element2(self, value: Limit, ctx: KeyedCoProcessFunction.Context[str]) -> Iterator[str]:
        ctx.timer_service().register_event_time_timer("soon")  # error: arg-type
        yield self.told(ctx)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext[str]) -> Iterator[str]:
        yield self.told(ctx) + ctx.time_domain().name

    def told(self, ctx: KeyedCoProcessFunction.Context[str]) -> str:
        return assert_type(ctx.get_current_key(), str)


class Limited(BroadcastProcessFunction[Order, Limit, str]):
    def process_element(self, value: Order, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        limits = ctx.get_broadcast_state(LIMITS)
        assert_type(limits[value.card], float | None)
        limits.put(value.card, 1.0)  # error: attr-defined
        yield value.card

    def process_broadcast_element(self, value: Limit, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(LIMITS)[value.card] = "many"  # error: assignment


class LimitedByCard(KeyedBroadcastProcessFunction[str, Order, Limit, float]):
    def process_element(self, value: Order, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[str]) -> Iterator[float]:
        yield ctx.get_broadcast_state(LIMITS).get(assert_type(ctx.get_current_key(), str)) or 0.0

    def process_broadcast_element(self, value: Limit, ctx: KeyedBroadcastProcessFunction.Context[str]) -> None:
        ctx.get_broadcast_state(LIMITS).put(value.card, value.amount)


class Pair(ProcessJoinFunction[Order, Limit, float]):
    def process_element(self, left: Order, right: Limit, ctx: ProcessJoinFunction.Context) -> Iterator[float]:
        assert_type(ctx.get_left_timestamp(), int)
        yield right.amount


def connected(orders: DataStream[Order], limits: DataStream[Limit]) -> None:
    both = orders.connect(limits)
    assert_type(both.map(Cards()), DataStream[str])
    assert_type(both.flat_map(Amounts()), DataStream[float])
    assert_type(both.process(Both()), DataStream[str])
    assert_type(both.process(Both(), output_type=str), DataStream[str])
    limits.connect(orders).map(Cards())  # error: arg-type


def connected_by_key(orders: KeyedStream[Order, str], limits: KeyedStream[Limit, str]) -> None:
    assert_type(orders.connect(limits).process(ByCard()), DataStream[str])
    assert_type(orders.connect(limits).in_event_time_order().process(ByCard()), DataStream[str])
    limits.connect(orders).process(ByCard())  # error: arg-type


def broadcast(orders: DataStream[Order], limits: DataStream[Limit]) -> None:
    rules = limits.broadcast(LIMITS)
    assert_type(orders.connect(rules).process(Limited()), DataStream[str])
    assert_type(orders.key_by(lambda order: order.card).connect(rules).process(LimitedByCard()), DataStream[float])
    limits.connect(rules).process(Limited())  # error: arg-type


def joined(orders: DataStream[Order], limits: DataStream[Limit]) -> None:
    by_card = orders.key_by(lambda order: order.card)
    near = by_card.interval_join(limits.key_by(lambda limit: limit.card)).between(-5, 5)
    assert_type(near.process(Pair()), DataStream[float])
    same = orders.join(limits).where("card").equal_to("card").window(TumblingEventTimeWindows.of(1_000))
    assert_type(same.apply(lambda order, limit: limit.amount, float), DataStream[float])
