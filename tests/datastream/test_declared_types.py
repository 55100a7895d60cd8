"""A value that is not of the type that is declared for it ends the job, whoever reads it, and if nobody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.common import Configuration, Time, Types, WatermarkStrategy
from headrace.common.errors import FunctionRefusedError
from headrace.datastream import DataStream, KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment
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
