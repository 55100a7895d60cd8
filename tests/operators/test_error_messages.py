"""What the message about a mistake in a program points to: the operator, the line of the user, the record."""

from __future__ import annotations

import datetime
import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.errors import UserFunctionError
from headrace.datastream import (
    DataStream,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.functions import FlatMapFunction
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.testing import JobHarness


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def failure_of(stream: DataStream) -> str:
    stream.print()
    with pytest.raises(UserFunctionError) as failure:
        stream.get_execution_environment().execute()
    return str(failure.value)


def line_of(function: Callable[..., Any]) -> str:
    return f"{__file__}:{inspect.unwrap(function).__code__.co_firstlineno}"


def one_result(value: Any, *_: Any) -> Any:
    return value


class OneResult(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return value


class OneProcessed(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        return value


class OneKeyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        return value


class OneOfATimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(10 * value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        return timestamp


@pytest.mark.parametrize(
    ("build", "function"),
    [
        (lambda stream: stream.flat_map(one_result), one_result),
        (lambda stream: stream.flat_map(partial(one_result, 7)), one_result),
        (lambda stream: stream.flat_map(OneResult()), OneResult.flat_map),
        (lambda stream: stream.process(OneProcessed()), OneProcessed.process_element),
        (lambda stream: stream.key_by(lambda v: v).process(OneKeyed()), OneKeyed.process_element),
        (lambda stream: stream.key_by(lambda v: v).process(OneOfATimer()), OneOfATimer.on_timer),
    ],
    ids=["function", "partial", "object", "process", "keyed", "timer"],
)
def test_a_wrong_result_points_to_the_function(env: StreamExecutionEnvironment, build: Any, function: Any) -> None:
    message = failure_of(build(env.from_collection([7], Types.LONG())))
    assert "'int' object is not iterable" in message
    assert f"\n  returned by {line_of(function)} in {function.__name__}\n" in message


class WrongProcessed(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield "text"


class WrongKeyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield "text"


def text_for(value: Any, *_: Any) -> Any:
    return "text"


def texts_for(value: Any) -> Any:
    return ["text"]


@pytest.mark.parametrize(
    ("build", "function"),
    [
        (lambda stream: stream.map(text_for, Types.LONG()), text_for),
        (lambda stream: stream.map(partial(text_for, 7), Types.LONG()), text_for),
        (lambda stream: stream.flat_map(texts_for, Types.LONG()), texts_for),
        (lambda stream: stream.process(WrongProcessed(), Types.LONG()), WrongProcessed.process_element),
        (lambda stream: stream.key_by(lambda v: v).process(WrongKeyed(), Types.LONG()), WrongKeyed.process_element),
        (lambda stream: stream.key_by(lambda v: v).reduce(text_for), text_for),
    ],
    ids=["map", "partial", "flat map", "process", "keyed", "reduce"],
)
def test_a_result_of_another_type_points_to_the_function(
    env: StreamExecutionEnvironment, build: Any, function: Any
) -> None:
    message = failure_of(build(env.from_collection([7, 7], Types.LONG())))
    assert "got 'text' (str), expected an int" in message
    assert f"\n  returned by {line_of(function)} in {function.__name__}\n" in message


def test_a_row_that_does_not_fit_is_shown_as_what_the_function_gave(env: StreamExecutionEnvironment) -> None:
    pair = Types.TUPLE([Types.LONG(), Types.STRING()])
    message = failure_of(env.from_collection([7], Types.LONG()).map(lambda v: ("a", v), pair))
    assert "\n  result: ('a', 7)\n" in message
    assert "record:" not in message


def sometimes(value: Any) -> Any:
    return (value,) if value > 7 else None


def test_none_that_is_no_record_points_to_the_function(env: StreamExecutionEnvironment) -> None:
    made = env.from_collection([8, 7]).map(sometimes, Types.TUPLE([Types.LONG()])).name("made")
    with pytest.raises(UserFunctionError, match="got None, expected a record") as failure:
        made.execute_and_collect(limit=2)
    assert "operator 'made'" in str(failure.value)
    assert f"returned by {line_of(sometimes)} in sometimes" in str(failure.value)


def test_what_came_of_a_filter_is_not_blamed_on_it(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([7], Types.LONG()).map(text_for, Types.LONG())
    message = failure_of(numbers.filter(one_result))
    assert f"returned by {line_of(text_for)}" in message


class AsksForWhatIsNotThere(ProcessFunction):
    def __init__(self, name: str) -> None:
        self.name = name

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield getattr(ctx, self.name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("output", "yield the tag and the record"),
        ("collect", "yield the record"),
        ("get_state", r"declare state in open\(self, runtime_context\)"),
        ("timestmp", r"did you mean timestamp\?"),
    ],
)
@pytest.mark.parametrize("is_keyed", [True, False])
def test_what_a_context_does_not_have(env: StreamExecutionEnvironment, name: str, said: str, is_keyed: bool) -> None:
    numbers = env.from_collection([7], Types.LONG())
    message = failure_of((numbers.key_by(one_result) if is_keyed else numbers).process(AsksForWhatIsNotThere(name)))
    assert re.search(f"ProcessFunction.Context has no '{name}': {said}", message)
    assert message.count(f"{__file__}:{AsksForWhatIsNotThere.process_element.__code__.co_firstlineno + 1}") == 1


class WithStates(KeyedProcessFunction):
    """Runs one of the expressions below, which are mistakes."""

    def __init__(self, mistake: str) -> None:
        self.mistake = mistake

    def open(self, runtime_context: RuntimeContext) -> None:
        self.one = runtime_context.get_state(ValueStateDescriptor("one", Types.LONG()))
        self.many = runtime_context.get_list_state(ListStateDescriptor("many", Types.LONG()))
        self.by_name = runtime_context.get_map_state(MapStateDescriptor("by name", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield eval(self.mistake)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("self.one.get()", r"ValueState has no 'get': use value\(\)"),
        ("self.one.set(1)", r"ValueState has no 'set': use update\(value\)"),
        ("self.many.append(1)", r"ListState has no 'append': use add\(value\)"),
        ("self.by_name.update({})", r"MapState has no 'update': use put_all\(values\)"),
        ("self.by_name.itms()", r"MapState has no 'itms': did you mean items\?"),
        (
            "ctx.timer_service().registerEventTimeTimer(5)",
            r"TimerService has no .*: did you mean register_event_time_timer",
        ),
        (
            "self.one.value() + 1",
            r"and 'int'\n  a state without a value gives None: write \(state.value",
        ),
    ],
)
def test_mistakes_with_states_and_timers(env: StreamExecutionEnvironment, mistake: str, said: str) -> None:
    numbers = env.from_collection([7], Types.LONG())
    assert re.search(said, failure_of(numbers.key_by(one_result).process(WithStates(mistake))))


def test_none_without_a_state_has_no_hint(env: StreamExecutionEnvironment) -> None:
    assert "a state without" not in failure_of(env.from_collection([None]).map(lambda value: value + 1))


class OfAnotherKind(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))  # type: ignore[arg-type]

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value


def test_a_descriptor_of_another_kind(env: StreamExecutionEnvironment) -> None:
    message = failure_of(env.from_collection([7]).key_by(one_result).process(OfAnotherKind()))
    said = "get_state: expected a ValueStateDescriptor, got MapStateDescriptor('m', MapTypeInfo<String, Long>)"
    assert f"{said}\n" in message


def test_a_builtin_has_no_line_to_point_to(env: StreamExecutionEnvironment) -> None:
    assert "returned by" not in failure_of(env.from_collection(["ab"]).flat_map(len))


class FailingTimer(KeyedProcessFunction):
    def __init__(self, domain: str) -> None:
        self.domain = domain

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        getattr(ctx.timer_service(), f"register_{self.domain}_time_timer")(10)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield 1 // 0


@pytest.mark.parametrize("domain", ["event", "processing"])
@pytest.mark.parametrize(("key", "type_"), [("ann", Types.STRING()), (("ann", 1), None)], ids=["plain", "encoded"])
def test_a_failing_timer_is_told_by_time_and_key(domain: str, key: Any, type_: Any) -> None:
    def build(job: JobHarness) -> None:
        keyed = job.add_source("in", Types.PICKLED_BYTE_ARRAY()).key_by(lambda v: v, type_)
        job.add_sink("out", keyed.process(FailingTimer(domain)))

    with JobHarness(build) as job:
        job.push("in", key, 1)
        job.run_epoch()
        job.set_processing_time(50)
        with pytest.raises(UserFunctionError) as failure:
            job.finish()
    assert f"\n  timer: 10 in {domain} time, of key {key!r}\n" in str(failure.value)
    assert "record:" not in str(failure.value)


def stamped(env: StreamExecutionEnvironment, records: list[Any]) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(one_result)
    return env.from_collection(records).assign_timestamps_and_watermarks(strategy)


@pytest.mark.parametrize(
    "wrong",
    [
        "2024-01-01",
        "12",
        None,
        float("nan"),
        float("inf"),
        2.75,
        4.0,
        np.float32(4.0),
        True,
        np.True_,
        1 << 63,
        np.uint64(1 << 63),
        1e300,
        [1],
        [1, 2],
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    ],
    ids=str,
)
def test_a_timestamp_that_is_none(env: StreamExecutionEnvironment, wrong: Any) -> None:
    message = failure_of(stamped(env, [1, wrong, 2]))
    assert re.search(r"InvalidTypeError: a timestamp is an int, the milliseconds since 1970, not ", message)
    assert f"\n  returned by {line_of(one_result)} in one_result\n" in message
    assert f"\n  record: {wrong!r}\n" in message


def test_integers_that_are_timestamps(env: StreamExecutionEnvironment) -> None:
    with env.from_collection([]).execute_and_collect() as nothing:
        assert list(nothing) == []
    seen: list[Any] = []

    def build(job: JobHarness) -> None:
        strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(one_result)
        source = job.add_source("in", Types.PICKLED_BYTE_ARRAY())
        job.add_sink("out", source.assign_timestamps_and_watermarks(strategy))

    with JobHarness(build) as job:
        job.push_all("in", [3, -1, np.int32(7), np.uint8(4), (1 << 63) - 1])
        job.run_epoch()
        seen = [timestamp for _, timestamp in job.results_with_timestamps("out")]
    assert seen == [3, -1, 7, 4, (1 << 63) - 1]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_failing_key_function_is_told_as_key_by(parallelism: int, env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(parallelism)
    made = env.from_collection([{"b": 1}]).map(lambda v: v).name("parse")

    def account(value: Any) -> Any:
        return value["a"] + 1

    message = failure_of(made.key_by(account, Types.LONG()).map(lambda v: v).name("count"))
    assert message.startswith("key_by behind operator 'parse' (uid ")
    assert f"\n  at {__file__}:{account.__code__.co_firstlineno + 1} in account\n" in message
    assert "\n  record: {'b': 1}\n" in message
    assert re.search(rf"\n  key_by called at {re.escape(__file__)}:\d+ in test_a_failing_key_function", message)
    assert "operator defined at" not in message


def test_a_sink_says_what_it_is(env: StreamExecutionEnvironment) -> None:
    sink = env.from_collection([1]).print().name("out")
    assert repr(sink) == "DataStreamSink('out', no uid)"
    assert repr(sink.uid("shown")) == "DataStreamSink('out', uid shown)"


def parsed(value: Any) -> Any:
    try:
        return {}[value]
    except KeyError as error:
        raise ValueError(f"no rate for {value}") from error


def cleaned_up(value: Any) -> Any:
    try:
        raise OSError("away")
    finally:
        raise LookupError("and nothing to close")


def hidden(value: Any) -> Any:
    try:
        return {}[value]
    except KeyError:
        raise ValueError("no rate") from None


def in_circles(value: Any) -> Any:
    first, second = ValueError("first"), ValueError("second")
    try:
        raise second
    except ValueError:
        first.__cause__, second.__cause__ = second, first
        raise first  # noqa: B904 - that is the point


def noted(value: Any) -> Any:
    error = ValueError("no rate")
    error.add_note("rates are loaded at midnight")
    error.__notes__.append(3)  # type: ignore[arg-type]
    raise error


def grouped(value: Any) -> Any:
    raise ExceptionGroup("many", [ValueError(f"number {number}") for number in range(12)])


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (parsed, ["ValueError: no rate for 1", "at +4", "caused by KeyError: 1 at +2"]),
        (cleaned_up, ["LookupError: and nothing to close", "at +4", "caused by OSError: away at +2"]),
        (hidden, ["ValueError: no rate", "at +4"]),
        (in_circles, ["ValueError: first", "at +6", "caused by ValueError: second at +3"]),
        (noted, ["ValueError: no rate", "rates are loaded at midnight", "at +4"]),
        (
            grouped,
            [
                "ExceptionGroup: many (12 sub-exceptions)",
                *(f"- ValueError: number {number}" for number in range(10)),
                "- 2 more",
                "at +1",
            ],
        ),
    ],
)
def test_what_an_exception_came_of_and_what_was_noted(
    env: StreamExecutionEnvironment, function: Callable[[Any], Any], told: list[str]
) -> None:
    lines = failure_of(env.from_collection([1], Types.LONG()).map(function)).splitlines()[1:-2]
    file, first = line_of(function).rsplit(":", 1)
    places = re.compile(re.escape(file) + r":(\d+) in " + function.__name__)
    found = [places.sub(lambda line: f"+{int(line[1]) - int(first)}", line.strip()) for line in lines]
    assert found == told


def test_a_long_text_does_not_hide_the_line(env: StreamExecutionEnvironment) -> None:
    def long(value: Any) -> Any:
        raise ValueError("y" * 1_000_000)

    message = failure_of(env.from_collection([1], Types.LONG()).map(long))
    assert "y ... (990000 characters more)\n  at " in message
    assert len(message) < 11_000
    assert message.splitlines()[-2] == "  record: 1"
