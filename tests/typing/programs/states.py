"""States have the types of their descriptors."""

from __future__ import annotations

from typing import Any, assert_type

from headrace.common import Types
from headrace.datastream import AggregateFunction, RuntimeContext
from headrace.datastream.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)


class Count(AggregateFunction[str, int, float]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: str, accumulator: int) -> int:
        return accumulator + len(value)

    def get_result(self, accumulator: int) -> float:
        return accumulator / 2

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def values(context: RuntimeContext) -> None:
    state = context.get_state(ValueStateDescriptor("count", int))
    assert_type(state, ValueState[int])
    assert_type(state.value(), int | None)
    state.update(3)
    state.update(None)
    state.update("3")  # error: arg-type
    state.update(state.value() + 1)  # error: operator
    assert_type(context.get_state(ValueStateDescriptor("text", Types.STRING())), ValueState[str])
    assert_type(context.get_state(ValueStateDescriptor("anything")), ValueState[Any])
    assert_type(context.get_state(ValueStateDescriptor("pair", Types.TUPLE([int, str]))), ValueState[tuple[Any, ...]])


def lists(context: RuntimeContext) -> None:
    state = context.get_list_state(ListStateDescriptor("texts", Types.STRING()))
    assert_type(state, ListState[str])
    assert_type(list(state), list[str])
    assert_type(state.get(), list[str])
    state.add("a")
    state.add(1)  # error: arg-type
    state.update([1.5])  # error: list-item
    assert_type(context.get_list_state(ListStateDescriptor("anything")), ListState[Any])


def maps(context: RuntimeContext) -> None:
    state = context.get_map_state(MapStateDescriptor("sums", Types.STRING(), float))
    assert_type(state, MapState[str, float])
    assert_type(state["a"], float | None)
    assert_type(list(state.items()), list[tuple[str, float]])
    state["a"] = 1.5
    state.put("a", "b")  # error: arg-type
    state[1] = 1.5  # error: index
    assert_type(context.get_map_state(MapStateDescriptor("anything")), MapState[Any, Any])


def folds(context: RuntimeContext) -> None:
    reducing = context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, int))
    assert_type(reducing, ReducingState[int])
    assert_type(reducing.get(), int | None)
    reducing.add("3")  # error: arg-type
    aggregating = context.get_aggregating_state(AggregatingStateDescriptor("mean", Count(), int))
    assert_type(aggregating, AggregatingState[str, float])
    assert_type(aggregating.get(), float | None)
    aggregating.add(3)  # error: arg-type


def kinds(context: RuntimeContext) -> None:
    context.get_state(ListStateDescriptor("texts", str))  # error: arg-type
    context.get_map_state(ValueStateDescriptor("count", int))  # error: arg-type
