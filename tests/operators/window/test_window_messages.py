"""What messages about mistakes in functions over windows point to, and what to write for names that are not there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from headrace.common import Configuration, Time, Types, WatermarkStrategy
from headrace.common.errors import UserFunctionError
from headrace.datastream import DataStream, KeyedStream, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.functions import (
    AggregateFunction,
    FlatMapFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from headrace.datastream.window import (
    CountTrigger,
    EventTimeTrigger,
    Evictor,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)


@pytest.fixture
def numbers() -> DataStream:
    """Two sevens, which are their timestamps as well."""
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    return env.from_collection([7, 7], Types.LONG()).assign_timestamps_and_watermarks(times)


@pytest.fixture
def keyed(numbers: DataStream) -> KeyedStream:
    return numbers.key_by(lambda value: value)


def failure_of(stream: DataStream) -> str:
    stream.print()
    with pytest.raises(UserFunctionError) as failure:
        stream.get_execution_environment().execute()
    return str(failure.value)


def line_of(function: Callable[..., Any]) -> str:
    return f"{__file__}:{inspect.unwrap(function).__code__.co_firstlineno}"


def text_for(value: Any, other: Any) -> Any:
    return "text"


class Windowed(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Any:
        return 7


class TextOfAWindow(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Any:
        return ["text"]


class Opened(FlatMapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        """So it may ask for state on a keyed stream."""

    def flat_map(self, value: Any) -> Any:
        return value


class AllWindowed(ProcessAllWindowFunction):
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[Any]) -> Any:
        return 7


def one_of_a_window(key: Any, window: Any, elements: Iterable[Any]) -> Any:
    return 7


class TextAtTheEnd(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> Any:
        return "text"

    def merge(self, a: int, b: int) -> int:
        return a + b


class TextAtOnce(TextAtTheEnd):
    def add(self, value: Any, accumulator: int) -> Any:
        return "text"


NO_RESULTS = "'int' object is not iterable"
NO_NUMBER = "got 'text' (str), expected an int"


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), CountTrigger.of(2)], ids=["end", "count"])
@pytest.mark.parametrize(
    ("build", "function", "said"),
    [
        (lambda w: w.process(Windowed(), Types.LONG()), Windowed.process, NO_RESULTS),
        (lambda w: w.apply(one_of_a_window, Types.LONG()), one_of_a_window, NO_RESULTS),
        (lambda w: w.reduce(max, Windowed(), Types.LONG()), Windowed.process, NO_RESULTS),
        (lambda w: w.reduce(text_for), text_for, NO_NUMBER),
        (lambda w: w.reduce(text_for, Windowed(), Types.LONG()), text_for, NO_NUMBER),
        (lambda w: w.aggregate(TextAtTheEnd(), output_type=Types.LONG()), TextAtTheEnd.get_result, NO_NUMBER),
        (lambda w: w.aggregate(TextAtOnce(), None, Types.LONG(), Types.LONG()), TextAtOnce.add, NO_NUMBER),
        (lambda w: w.process(TextOfAWindow(), Types.LONG()), TextOfAWindow.process, NO_NUMBER),
    ],
    ids=["process", "apply", "reduce, process", "reduce", "wrong, process", "result", "accumulator", "type"],
)
def test_a_wrong_result_of_a_window_points_to_the_function(
    keyed: KeyedStream, trigger: Any, build: Any, function: Any, said: str
) -> None:
    message = failure_of(build(keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).trigger(trigger)))
    assert said in message
    assert f"\n  returned by {line_of(function)} in {function.__name__}\n" in message


def test_adapted_functions_are_pointed_to_themselves(numbers: DataStream, keyed: KeyedStream) -> None:
    message = failure_of(numbers.count_window_all(2).process(AllWindowed(), Types.LONG()))
    assert f"\n  returned by {line_of(AllWindowed.process)} in process\n" in message
    message = failure_of(keyed.flat_map(Opened(), Types.LONG()))
    assert f"\n  returned by {line_of(Opened.flat_map)} in flat_map\n" in message


class AsksOfAWindow(ProcessWindowFunction):
    """Evaluates one of the expressions below, which are mistakes."""

    def __init__(self, mistake: str) -> None:
        self.mistake = mistake

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        yield eval(self.mistake)


class AsksInATrigger(Trigger):
    def __init__(self, mistake: str) -> None:
        self.mistake = mistake

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    on_processing_time = on_event_time

    def on_merge(self, window: Any, ctx: Any) -> None:
        """Such windows do not merge."""

    def clear(self, window: Any, ctx: Any) -> None:
        """Nothing is kept."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        return eval(self.mistake)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("context.output('tag', 7)", "ProcessWindowFunction.Context has no 'output': yield the tag and the record"),
        ("context.get_state(None)", r"has no 'get_state': use window_state\(\) or global_state\(\)"),
        ("context.window.end", r"window is a method, which has to be called: window\(\)\.end\n"),
        ("ctx.get_partitioned_state('n')", "get_partitioned_state: expected a state descriptor, got 'n'"),
        ("context.globalState()", r"ProcessWindowFunction.Context has no .*: did you mean global_state\?"),
        ("context.window().get_start()", "TimeWindow has no 'get_start': use start\n"),
        ("context.window().maxTimestamp()", r"TimeWindow has no 'maxTimestamp': did you mean max_timestamp\?"),
        ("ctx.registerEventTimeTimer(7)", r"TriggerContext has no .*: did you mean register_event_time_timer"),
        ("ctx.get_state(None)", r"TriggerContext has no 'get_state': use get_partitioned_state\(descriptor\)"),
    ],
)
def test_what_windows_and_their_contexts_do_not_have(keyed: KeyedStream, mistake: str, said: str) -> None:
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    if mistake.startswith("ctx"):
        windows = windows.trigger(AsksInATrigger(mistake))
    assert re.search(said, failure_of(windows.process(AsksOfAWindow(mistake))))


class AsksOfElements(Evictor[Any, Any]):
    """Asks for what the elements do not have."""

    def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
        return [element for element in elements if element.get_value()]

    def evict_after(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
        return elements


def test_what_elements_in_an_evictor_do_not_have(keyed: KeyedStream) -> None:
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).evictor(AsksOfElements())
    assert "TimestampedValue has no 'get_value': use value\n" in failure_of(windows.reduce(lambda a, b: a))
