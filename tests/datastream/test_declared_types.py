"""A value that is not of the type that is declared for it ends the job, whoever reads it, and if nobody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial, wraps
from typing import Any

import pytest

from headrace.common import Configuration, Row, Time, Types, WatermarkStrategy
from headrace.common.errors import FunctionRefusedError, InvalidProgramError, InvalidTypeError
from headrace.common.logical_types import RowType, decimal, string
from headrace.datastream import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.window import TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
INT = Types.INT()
AT_ZERO = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: 0)


class First(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value[0]


class FirstOfKey(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value[0]


OPERATORS: dict[str, Callable[[DataStream], DataStream]] = {
    "map": lambda pairs: pairs.map(lambda pair: pair[0], output_type=INT),
    "flat_map": lambda pairs: pairs.flat_map(lambda pair: [pair[0]], output_type=INT),
    "process": lambda pairs: pairs.process(First(), output_type=INT),
    "keyed process": lambda pairs: pairs.key_by(0).process(FirstOfKey(), output_type=INT),
    "window": lambda pairs: (
        pairs.assign_timestamps_and_watermarks(AT_ZERO)
        .key_by(0)
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .apply(lambda key, window, records: [key], output_type=INT)
    ),
}

READERS: dict[str, Callable[[DataStream], object]] = {
    "print": lambda stream: stream.print(),
    "text": lambda stream: stream.map(str).print(),
    "nobody": lambda stream: stream.filter(lambda value: False).print(),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_a_value_of_another_type_is_refused(
    operator: Callable[[DataStream], DataStream], reader: Callable[[DataStream], object]
) -> None:
    configuration = Configuration().set_string("headrace.runtime", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    reader(operator(env.from_collection([("seven", 7)], PAIR)).name("typed"))
    with pytest.raises(FunctionRefusedError) as refusal:
        env.execute()
    text = str(refusal.value)
    assert "operator 'typed'" in text
    assert "got 'seven' (str), expected an int from -2147483648 to 2147483647" in text
    assert f"operator defined at {__file__}:" in text


def local() -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def test_a_wrong_field_is_shown_with_the_result_and_who_returned_it() -> None:
    env = local()
    env.from_collection([("a", 1), ("b", 2)]).map(lambda pair: (pair[0], pair[0]), output_type=PAIR).print()
    with pytest.raises(FunctionRefusedError) as refused:
        env.execute()
    lines = str(refused.value).splitlines()
    wanted = "an int from -2147483648 to 2147483647 (Types.LONG() takes larger ones)"
    assert lines[1] == f"  InvalidTypeError: field 'f1': got 'a' (str), expected {wanted}"
    assert lines[2].startswith(f"  returned by {__file__}:")
    assert lines[3] == "  result: ('a', 'a')"


def test_a_key_of_another_type_is_told_of_key_by_and_its_record() -> None:
    env = local()
    pairs = env.from_collection([(1, "a"), ("b", "b")], Types.PICKLED_BYTE_ARRAY())
    pairs.key_by(lambda pair: pair[0], key_type=INT).map(lambda pair: pair).print()
    with pytest.raises(FunctionRefusedError) as refused:
        env.execute()
    lines = str(refused.value).splitlines()
    assert lines[0].startswith("key_by behind operator 'Collection Source' (uid ")
    assert lines[1] == "  InvalidTypeError: the key 'b' of type str does not fit the declared key type Integer"
    assert lines[2] == "  record: ('b', 'b')"
    assert lines[3].startswith(f"  key_by called at {__file__}:")


def forgetful(value: int) -> int:  # type: ignore[return]
    value + 1


def giving_its_argument(function: Callable[[int], Any]) -> Callable[[int], int]:
    @wraps(function)
    def call(value: int) -> int:
        function(value)
        return value

    return call


def forgetful_at_times(value: int) -> int | None:
    if value < 0:
        return value
    return None


def raises(value: int) -> int:
    raise ValueError(value)


class Forgetful(MapFunction):
    def map(self, value: Any) -> Any:
        value + 1


class ForgetfulKey(KeySelector):
    def get_key(self, value: Any) -> Any:
        value + 1


class ForgetfulSum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:  # type: ignore[return]
        accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


def forgetful_of_two(a: int, b: int) -> int:  # type: ignore[return]
    a + b


def windowed(stream: Any) -> Any:
    return stream.key_by(str).window(TumblingEventTimeWindows.of(Time.seconds(1)))


@pytest.mark.parametrize(
    "build",
    [
        lambda stream: stream.map(forgetful),
        lambda stream: stream.map(partial(forgetful)),
        lambda stream: stream.map(Forgetful(), Types.LONG()),
        lambda stream: stream.filter(forgetful),
        lambda stream: stream.key_by(forgetful),
        lambda stream: stream.key_by(ForgetfulKey()),
        lambda stream: stream.key_by(str).reduce(forgetful_of_two),
        lambda stream: windowed(stream).reduce(forgetful_of_two),
        lambda stream: windowed(stream).aggregate(ForgetfulSum()),
    ],
)
def test_a_function_without_return_is_refused(build: Any) -> None:
    with pytest.raises(
        InvalidProgramError, match=r"^\w+ \(.*:\d+\) never returns a value, .*: return the result\n  at "
    ):
        build(local().from_collection([1]))


@pytest.mark.parametrize(
    "build",
    [
        lambda stream: stream.map(Forgetful()),  # nothing says that there is to be a value
        lambda stream: stream.map(lambda value: None, Types.LONG()),
        lambda stream: stream.map(forgetful_at_times, Types.LONG()),
        lambda stream: stream.map(raises, Types.LONG()),
        lambda stream: stream.map(giving_its_argument(forgetful), Types.LONG()),
        lambda stream: stream.map(str, Types.STRING()),
        lambda stream: stream.filter(bool),
    ],
)
def test_what_may_return_something_is_not(build: Any) -> None:
    build(local().from_collection([1]))


def test_types_of_sql_travel_and_are_keys() -> None:
    prices = Types.of(RowType(("item", "price"), (string().not_null(), decimal(5, 2))))
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    rows = [Row("tea", Decimal("1.5")), Row("jam", Decimal("1.50"))]
    dearest = env.from_collection(rows, prices).key_by("price").reduce(lambda former, _: former)
    assert list(dearest.execute_and_collect()) == [Row(item="tea", price=Decimal("1.50"))] * 2
    with pytest.raises(InvalidTypeError, match=r"field 'item': got None .* expected a value of type String NOT NULL"):
        env.from_collection([Row(None, Decimal(1))], prices)
