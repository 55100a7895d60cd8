"""Functions of single records: what they are given, what they give, and functions that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, assert_type

from headrace.common import Types
from headrace.common.types import Row
from headrace.datastream import (
    DataStream,
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from headrace.expressions import col


@dataclass(frozen=True)
class Payment:
    card: str
    amount: float
    items: list[str]


class Amount(MapFunction):
    def map(self, value: Payment) -> float:
        return value.amount


class Card(MapFunction[Payment, str]):
    def map(self, value: Payment) -> str:
        return value.card


class Length(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return len(value)


class Items(FlatMapFunction[Payment, str]):
    def flat_map(self, value: Payment) -> Iterator[str]:
        yield from value.items


class Large(FilterFunction[Payment]):
    def filter(self, value: Payment) -> bool:
        return value.amount > 100


class Strange(MapFunction[Payment, str]):
    def map(self, value: Payment) -> int:  # error: override
        return len(value.items)


def doubled(number: int) -> int:
    return number * 2


def words(text: str) -> list[str]:
    return text.split()


def from_collections(env: StreamExecutionEnvironment) -> None:
    assert_type(env.from_collection([1, 2]), DataStream[int])
    assert_type(env.from_collection(["a"], Types.STRING()), DataStream[str])
    assert_type(
        env.from_collection([(1, 2.0)], Types.TUPLE([Types.INT(), Types.DOUBLE()])), DataStream[tuple[Any, ...]]
    )
    assert_type(env.from_collection([{"card": "a"}], Payment), DataStream[Payment])
    assert_type(env.from_collection([Row(1)], [Types.INT()]), DataStream[Any])
    assert_type(env.from_sequence(1, 3), DataStream[int])


def lambdas(payments: DataStream[Payment], numbers: DataStream[int]) -> None:
    assert_type(payments.map(lambda payment: payment.card), DataStream[str])
    assert_type(payments.map(lambda payment: (payment.card, payment.amount)), DataStream[tuple[str, float]])
    assert_type(payments.flat_map(lambda payment: payment.items), DataStream[str])
    assert_type(payments.filter(lambda payment: payment.amount > 10), DataStream[Payment])
    assert_type(payments.filter(col("amount") > 10), DataStream[Payment])
    assert_type(payments.select("card"), DataStream[Row])
    payments.map(lambda payment: payment.crad)  # error: attr-defined
    payments.map(lambda payment: payment.crad, output_type=str)  # error: attr-defined
    payments.filter(lambda payment: payment.amuont > 10)  # error: attr-defined
    payments.flat_map(lambda payment: payment.itmes)  # error: attr-defined
    payments.flat_map(lambda payment: payment.amount)  # error: arg-type, return-value
    numbers.map(lambda number: number + "1")  # error: operator
    numbers.map(str).map(lambda text: text + 1)  # error: operator


def functions(payments: DataStream[Payment], numbers: DataStream[int], texts: DataStream[str]) -> None:
    assert_type(numbers.map(doubled), DataStream[int])
    assert_type(numbers.map(str), DataStream[str])
    assert_type(texts.flat_map(words), DataStream[str])
    assert_type(payments.map(Amount()), DataStream[float])
    assert_type(payments.map(Card()), DataStream[str])
    assert_type(payments.map(Card()).map(Length()), DataStream[int])
    assert_type(payments.flat_map(Items()), DataStream[str])
    assert_type(payments.filter(Large()), DataStream[Payment])
    texts.map(doubled)  # error: arg-type
    payments.map(Length())  # error: arg-type
    payments.map(Items())  # error: call-overload
    payments.flat_map(Card())  # error: call-overload
    payments.filter(Amount())  # error: arg-type
    payments.map(Card)  # error: arg-type
    payments.map("card")  # error: call-overload


def declared_types(payments: DataStream[Payment]) -> None:
    assert_type(payments.map(lambda payment: payment.amount, output_type=Types.DOUBLE()), DataStream[float])
    assert_type(payments.map(lambda payment: payment.amount, float), DataStream[float])
    assert_type(payments.map(lambda payment: payment.items, Types.LIST(Types.STRING())), DataStream[list[str]])
    assert_type(payments.map(lambda payment: payment.items, list[str]), DataStream[list[str]])
    assert_type(payments.flat_map(lambda payment: payment.items, output_type=Types.STRING()), DataStream[str])
    assert_type(payments.map(lambda payment: Row(payment.card), [Types.STRING()]), DataStream[Any])
    assert_type(payments.map(col("amount") * 2), DataStream[Any])
    assert_type(payments.map(col("amount") * 2, output_type=Types.DOUBLE()), DataStream[float])
    payments.map(lambda payment: payment.amount, output_type=8)  # error: call-overload


def several_streams(payments: DataStream[Payment], numbers: DataStream[int], flags: DataStream[bool]) -> None:
    assert_type(numbers.union(numbers, flags), DataStream[int])
    numbers.union(payments)  # error: arg-type


def collected(payments: DataStream[Payment]) -> None:
    assert_type(payments.execute_and_collect(limit=3), list[Payment])
    with payments.map(lambda payment: payment.amount).execute_and_collect() as amounts:
        for amount in amounts:
            assert_type(amount, float)
            amount.upper()  # error: attr-defined


def without_parameters(stream: DataStream) -> Iterable[object]:
    """As in PyFlink; strict settings have nothing against it."""
    assert_type(stream, DataStream[Any])
    return stream.map(lambda record: record.whatever).execute_and_collect()
