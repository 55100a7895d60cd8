"""Keys, and what is computed for each: process functions, reductions, windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, assert_type

from headrace.common import Types
from headrace.common.types import Row
from headrace.datastream import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    TimeWindow,
    WindowedStream,
    WindowFunction,
)
from headrace.datastream.aggregates import count
from headrace.expressions import col


@dataclass(frozen=True)
class Payment:
    card: str
    amount: float


class ByCard(KeySelector[Payment, str]):
    def get_key(self, value: Payment) -> str:
        return value.card


LARGE = OutputTag("large", float)


class Split(ProcessFunction[Payment, str]):
    def process_element(
        self, value: Payment, ctx: ProcessFunction.Context
    ) -> Iterator[str | tuple[OutputTag[float], float]]:
        assert_type(ctx.timestamp(), int | None)
        yield value.card
        yield LARGE, value.amount


class Plain(ProcessFunction):
    def process_element(self, value: Payment, ctx: ProcessFunction.Context) -> Iterator[float]:
        yield value.amount


class Remember(KeyedProcessFunction[str, Payment, float]):
    def process_element(self, value: Payment, ctx: KeyedProcessFunction.Context[str]) -> Iterator[float]:
        assert_type(ctx.get_current_key(), str)
        ctx.timer_service().register_event_time_timer("soon")  # error: arg-type
        yield value.amount

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[float]:
        yield float(timestamp)


class OfNumbers(KeyedProcessFunction[int, Payment, float]):
    def process_element(self, value: Payment, ctx: KeyedProcessFunction.Context[int]) -> Iterator[float]:
        yield value.amount


class Mean(AggregateFunction[Payment, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Payment, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value.amount, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Total(WindowFunction[Payment, tuple[str, float], str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Payment]) -> Iterable[tuple[str, float]]:
        yield key, sum(payment.amount for payment in inputs)


class Ends(ProcessWindowFunction[float, tuple[str, int], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
    ) -> Iterable[tuple[str, int]]:
        yield key, context.window().end


class Busy(ProcessWindowFunction[Payment, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Payment]
    ) -> Iterator[str | tuple[OutputTag[float], float]]:
        yield key
        yield LARGE, max(payment.amount for payment in elements)


def larger(first: Payment, second: Payment) -> Payment:
    return max(first, second, key=lambda payment: payment.amount)


def keyed(payments: DataStream[Payment]) -> None:
    assert_type(payments.key_by(lambda payment: payment.card), KeyedStream[Payment, str])
    assert_type(payments.key_by(lambda payment: payment.card, key_type=Types.STRING()), KeyedStream[Payment, str])
    assert_type(payments.key_by(lambda payment: payment.card, Types.STRING()), KeyedStream[Payment, str])
    assert_type(payments.key_by(ByCard()), KeyedStream[Payment, str])
    assert_type(payments.key_by("card"), KeyedStream[Payment, Any])
    assert_type(payments.key_by("card", col("amount")), KeyedStream[Payment, Any])
    assert_type(payments.key_by(ByCard()).key_by(lambda payment: payment.amount), KeyedStream[Payment, float])
    payments.key_by(lambda payment: payment.crad)  # error: attr-defined
    payments.map(lambda payment: payment.amount).key_by(ByCard())  # error: arg-type


def processed(payments: DataStream[Payment]) -> None:
    split = payments.process(Split())
    assert_type(split, DataStream[str])
    assert_type(split.get_side_output(LARGE), DataStream[float])
    assert_type(payments.process(Plain()), DataStream[float])
    assert_type(payments.process(Plain(), output_type=Types.DOUBLE()), DataStream[float])
    by_card = payments.key_by(ByCard())
    assert_type(by_card.process(Remember()), DataStream[float])
    assert_type(by_card.process(Plain()), DataStream[float])
    payments.process(Remember())  # error: call-overload
    by_card.process(OfNumbers())  # error: arg-type
    by_card.map(lambda payment: payment.amount).process(Plain())  # error: arg-type
    by_card.process(Total())  # error: call-overload


def reduced(payments: DataStream[Payment]) -> None:
    by_card = payments.key_by(ByCard())
    assert_type(by_card.reduce(larger), DataStream[Payment])
    assert_type(by_card.reduce(lambda first, second: max(first, second, key=str)), DataStream[Payment])
    assert_type(by_card.sum("amount"), DataStream[Payment])
    by_card.reduce(lambda first, second: first.amount)  # error: arg-type, return-value


def windows(windowed: WindowedStream[Payment, str, TimeWindow]) -> None:
    assert_type(windowed.reduce(larger), DataStream[Payment])
    assert_type(windowed.aggregate(Mean()), DataStream[float])
    assert_type(windowed.aggregate(Mean(), Ends()), DataStream[tuple[str, int]])
    assert_type(windowed.aggregate(Mean(), window_function=Ends()), DataStream[tuple[str, int]])
    assert_type(windowed.aggregate(Mean(), output_type=Types.DOUBLE()), DataStream[float])
    assert_type(windowed.aggregate(count()), DataStream[Row])
    assert_type(windowed.apply(Total()), DataStream[tuple[str, float]])
    assert_type(windowed.apply(lambda key, window, payments: [window.end]), DataStream[int])
    assert_type(windowed.reduce(larger, Total()), DataStream[tuple[str, float]])
    assert_type(windowed.apply(Total(), output_type=Types.TUPLE([str, float])), DataStream[tuple[Any, ...]])
    assert_type(windowed.process(Busy()), DataStream[str])
    assert_type(windowed.process(Busy()).get_side_output(LARGE), DataStream[float])
    windowed.process(Ends())  # error: arg-type
    windowed.apply(Ends())  # error: call-overload
    windowed.apply(lambda key, window, payments: [window.last])  # error: attr-defined
    windowed.reduce(larger, Ends())  # error: arg-type
