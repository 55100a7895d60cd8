"""Functions that do not take what they are called with, or never give anything, are told while the job is built."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from headrace.common import Time, Types, WatermarkStrategy
from headrace.common.errors import FunctionRefusedError, InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.common.types import Row
from headrace.datastream import (
    AggregateFunction,
    AllWindowFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from headrace.datastream.window import (
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
)
from headrace.testing import JobHarness

Build = Callable[[Any], Any]
"""Builds on a stream of numbers."""

TIMES: Any = WatermarkStrategy.for_monotonous_timestamps()


def keyed(stream: Any) -> Any:
    return stream.key_by(lambda value: value)


def windows(stream: Any) -> Any:
    return keyed(stream).window(TumblingEventTimeWindows.of(Time.seconds(1)))


def of_all(stream: Any) -> Any:
    return stream.window_all(TumblingEventTimeWindows.of(Time.seconds(1)))


def built(build: Build, *values: int) -> list[Any]:
    def job(harness: JobHarness) -> None:
        found = build(harness.add_source("in", Types.LONG()))
        harness.add_sink("out", found)

    with JobHarness(job) as harness:
        harness.push_all("in", values)
        harness.run_epoch()
        harness.finish()
        return list(harness.take("out"))


def class_with(base: Any, **methods: Any) -> Any:
    return type("Mine", (base,), methods)()


def of_one(value: Any) -> Any:
    return value


def of_two(value: Any, other: Any) -> Any:
    return [value, other]


def of_three(one: Any, two: Any, three: Any) -> Any:
    return [one, two, three]


def of_four(one: Any, two: Any, three: Any, four: Any) -> Any:
    return [one, two, three, four]


def silent(self: Any, *arguments: Any) -> None:
    self.seen = arguments


WRONG: dict[str, tuple[Build, str]] = {
    "a collector": (
        lambda s: s.process(class_with(ProcessFunction, process_element=of_four)),
        r"write def process_element\(self, value, ctx\), and yield the results: there is no collector",
    ),
    "open": (
        lambda s: s.map(class_with(MapFunction, open=of_one, map=of_two)),
        r"of_one\(value\) .*write def open\(self, runtime_context\)",
    ),
    "no self": (
        lambda s: s.map(class_with(MapFunction, map=lambda: 1)),
        r"write def map\(self, value\)",
    ),
    "close": (
        lambda s: s.map(class_with(MapFunction, close=of_two, map=of_two)),
        r"write def close\(self\)\n",
    ),
    "a timer": (
        lambda s: keyed(s).process(class_with(KeyedProcessFunction, process_element=of_three, on_timer=of_four)),
        r"write def on_timer\(self, timestamp, ctx\), and yield",
    ),
    "a window": (
        lambda s: windows(s).process(class_with(ProcessWindowFunction, process=of_three)),
        r"write def process\(self, key, context, elements\)",
    ),
    "a window behind a reduction": (
        lambda s: windows(s).reduce(of_two, class_with(ProcessWindowFunction, process=of_three)),
        r"write def process\(self, key, context, elements\)",
    ),
    "an aggregation": (
        lambda s: windows(s).aggregate(
            class_with(AggregateFunction, create_accumulator=of_one, add=of_two, get_result=of_two, merge=of_three)
        ),
        r"write def add\(self, value, accumulator\)",
    ),
    "a window of all records": (
        lambda s: windows(s).process(class_with(ProcessAllWindowFunction, process=of_three)),
        r"^expected a ProcessWindowFunction, got a ProcessAllWindowFunction: that is for window_all\(\.\.\.\)\n  at ",
    ),
    "a window of a key": (
        lambda s: s.window_all(TumblingEventTimeWindows.of(5)).apply(class_with(WindowFunction, apply=of_four)),
        r"^expected an AllWindowFunction, got a WindowFunction: that is for key_by\(\.\.\.\)\.window\(\.\.\.\)\n",
    ),
    "a window of all records behind a reduction": (
        lambda s: s.window_all(TumblingEventTimeWindows.of(5)).reduce(
            of_two, class_with(ProcessAllWindowFunction, process=of_four)
        ),
        r"write def process\(self, context, elements\)",
    ),
    "a distance of a trigger": (
        lambda s: DeltaTrigger.of(5, of_one),  # type: ignore[arg-type]
        r"^of_one\(value\) .* what delta_function is called with: write a function of \(last, element\)\n  at ",
    ),
    "a distance of an evictor": (
        lambda s: DeltaEvictor.of(5, of_one),  # type: ignore[arg-type]
        r"write a function of \(element, last\)",
    ),
    "a gap": (
        lambda s: EventTimeSessionWindows.with_dynamic_gap(of_two),  # type: ignore[arg-type]
        r"what extract is called with: write a function of \(element\)",
    ),
    "a function": (lambda s: s.map(of_two), r"^of_two\(value, other\) \(.*write a function of \(value\)\n  at "),
    "a lambda": (lambda s: s.filter(lambda: True), r"write a function of \(value\)"),
    "a reduction": (lambda s: keyed(s).reduce(lambda a: a), r"write a function of \(value1, value2\)"),
    "a key": (lambda s: s.key_by(of_two), r"what get_key is called with: write a function of \(value\)"),
    "a timestamp": (
        lambda s: TIMES.with_timestamp_assigner(of_one),
        r"write a function of \(value, record_timestamp\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parameters_are_refused_with_the_right_ones(case: str) -> None:
    build, said = WRONG[case]
    with pytest.raises(InvalidTypeError, match=said):
        built(build)


def with_another(function: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def call(value: Any) -> Any:
        return function(value, 7)

    return call


class Cached:
    @functools.cache  # noqa: B019
    def map(self, value: Any) -> Any:
        return value


class Dispatching:
    @functools.singledispatchmethod
    def map(self, value: Any) -> Any:
        return value


class Door:
    """Its methods are of its instances, which are the results."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def open(self, key: Any, by: Any) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError

    def map(self) -> None:
        raise AssertionError


class Anything:
    """Answers for whatever is asked, as objects that stand for remote ones do."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__reduce"):
            raise AttributeError(name)
        return str


FINE: dict[str, Build] = {
    "more parameters, with defaults": lambda s: s.map(lambda value, more=1: value + more),
    "any parameters": lambda s: s.map(lambda *values: values[0]),
    "a partial": lambda s: s.map(functools.partial(of_two, 1)),
    "written in C": lambda s: s.map(json.dumps).map(int).map(operator.neg),
    "a class": lambda s: s.map(str),
    "a class with methods of these names": lambda s: s.map(Door).map(lambda door: door.value),
    "a decorator that adds a parameter": lambda s: s.map(with_another(of_two)),
    "a method with a cache": lambda s: s.map(Cached()),
    "a method for each type": lambda s: s.map(Dispatching()),
    "what answers for something else": lambda s: s.map(Anything()),
    "a reduction written in C": lambda s: keyed(s).reduce(max),
    "a reduction of numpy": lambda s: keyed(s).reduce(numpy.maximum),
    "an assigner": lambda s: s.assign_timestamps_and_watermarks(TIMES.with_timestamp_assigner(max)),
}


@pytest.mark.parametrize("case", FINE)
def test_whatever_takes_the_call_is_taken(case: str) -> None:
    assert len(built(FINE[case], 1)) == 1


def one_or_none(value: Any) -> Any:
    return value or None


def none_or_one(value: Any) -> Any:
    return value and None


def one_if(value: Any) -> Any:
    return [value] if value > 3 else None


@pytest.mark.parametrize("function", [one_or_none, none_or_one, one_if])
def test_a_value_or_none_is_a_result(function: Callable[[Any], Any]) -> None:
    built(lambda s: s.flat_map(function))
    built(lambda s: s.filter(function), 1, 7)
    built(lambda s: s.key_by(function))


def test_a_flat_map_without_results_is_refused() -> None:
    def forgets(value: int) -> None:
        _ = [value]

    for function in (forgets, class_with(FlatMapFunction, flat_map=silent)):
        with pytest.raises(InvalidProgramError, match=r"neither yields nor returns anything.*return a list of them"):
            built(lambda s, function=function: s.flat_map(function))  # type: ignore[misc]
    assert built(lambda s: s.flat_map(lambda value: None), 1) == []


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.process(class_with(ProcessFunction, process_element=silent)),
        lambda s: keyed(s).process(class_with(KeyedProcessFunction, process_element=silent)),
        lambda s: keyed(s).process(class_with(KeyedProcessFunction, process_element=silent, on_timer=silent)),
        lambda s: windows(s).process(class_with(ProcessWindowFunction, process=silent)),
        lambda s: windows(s).reduce(of_two, class_with(ProcessWindowFunction, process=silent)),
        lambda s: of_all(s).process(class_with(ProcessAllWindowFunction, process=silent)),
        lambda s: of_all(s).apply(class_with(AllWindowFunction, apply=silent)),
        lambda s: of_all(s).reduce(of_two, class_with(AllWindowFunction, apply=silent)),
    ],
)
def test_a_process_function_without_results_is_warned_of(build: Build) -> None:
    with pytest.warns(UserWarning, match=rf"^silent \({__file__}:\d+\) neither yields nor returns anything") as warned:
        built(build)
    assert [warning.filename for warning in warned] == [__file__]


def test_results_by_timers_or_a_list_are_results() -> None:
    def timed(self: Any, timestamp: int, ctx: Any) -> Any:
        yield timestamp

    built(lambda s: keyed(s).process(class_with(KeyedProcessFunction, process_element=silent, on_timer=timed)))
    built(lambda s: s.process(class_with(ProcessFunction, process_element=lambda self, value, ctx: [])))


def returns_two(self: Any, value: Any, ctx: Any) -> Any:
    return value, "seven"


def returns_two_in_a_list(self: Any, value: Any, ctx: Any) -> Any:
    return [value, "seven"]


@pytest.mark.parametrize(("give", "is_told"), [(returns_two, True), (returns_two_in_a_list, False)])
def test_a_tuple_that_is_returned_is_told_to_be_several_results(give: Any, is_told: bool) -> None:
    pairs = Types.TUPLE([Types.LONG(), Types.STRING()])
    with pytest.raises(FunctionRefusedError, match="expected a tuple of 2 values") as failure:
        built(lambda s: s.process(class_with(ProcessFunction, process_element=give), pairs), 7)
    assert ("is taken for several results: yield it where it is one" in str(failure.value)) == is_told


@pytest.mark.parametrize(("returned", "parts"), [("text", "characters"), (b"bytes", "bytes"), (Row(1, 2), "fields")])
@pytest.mark.parametrize("kind", ["flat map", "process", "keyed process", "timer", "window"])
def test_one_record_is_not_taken_apart(returned: Any, parts: str, kind: str) -> None:
    def give(*_: Any) -> Any:
        return returned

    def later(self: Any, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(5)
        return []

    builds: dict[str, Build] = {
        "flat map": lambda s: s.flat_map(lambda value: returned),
        "process": lambda s: s.process(class_with(ProcessFunction, process_element=give)),
        "keyed process": lambda s: keyed(s).process(class_with(KeyedProcessFunction, process_element=give)),
        "timer": lambda s: keyed(s).process(class_with(KeyedProcessFunction, process_element=later, on_timer=give)),
        "window": lambda s: windows(
            s.assign_timestamps_and_watermarks(TIMES.with_timestamp_assigner(lambda value, before: value))
        ).apply(lambda key, window, values: returned),
    }
    with pytest.raises(
        FunctionRefusedError, match=rf"returned for the results, and its {parts} are none: yield"
    ) as told:
        built(builds[kind], 7)
    assert f"  returned by {__file__}:" in str(told.value)
    assert "  record: 7\n" in str(told.value) or kind in ("timer", "window")


def test_a_calculation_without_timestamps_says_how_to_get_some() -> None:
    def later(self: Any, value: Any, ctx: Any) -> Any:
        yield ctx.timestamp() + 1

    def timed(self: Any, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        return []

    builds: list[Build] = [
        lambda s: s.process(class_with(ProcessFunction, process_element=later)),
        lambda s: keyed(s).process(class_with(KeyedProcessFunction, process_element=later)),
        lambda s: keyed(s).process(class_with(KeyedProcessFunction, process_element=timed)),
    ]
    for build in builds:
        with pytest.raises(UserFunctionError, match=r"no timestamps; call assign_timestamps_and_watermarks"):
            built(build, 7)


def test_another_none_is_not_taken_for_a_timestamp() -> None:
    def wrong(self: Any, value: Any, ctx: Any) -> Any:
        yield None + value  # type: ignore[operator]

    with pytest.raises(UserFunctionError, match="NoneType") as told:
        built(lambda s: s.process(class_with(ProcessFunction, process_element=wrong)), 7)
    assert "timestamps" not in str(told.value)


async def later(value: Any, *_: Any) -> Any:
    return value


async def later_method(self: Any, value: Any, ctx: Any) -> Any:
    return value


async def later_ones(value: Any, *_: Any) -> Any:
    yield value


@pytest.mark.parametrize(
    ("method", "build", "function"),
    [
        ("map", lambda stream: stream.map(later), later),
        ("filter", lambda stream: stream.filter(later), later),
        ("flat_map", lambda stream: stream.flat_map(later_ones), later_ones),
        (
            "process",
            lambda stream: stream.process(class_with(ProcessFunction, process_element=later_method)),
            later_method,
        ),
    ],
)
def test_a_coroutine_is_refused(method: str, build: Build, function: Any) -> None:
    line = function.__code__.co_firstlineno
    said = r"is called and not awaited: write def instead of async def(, or use AsyncDataStream)? "
    with pytest.raises(InvalidTypeError, match=rf"{said}\({__file__}:{line} in {function.__name__}\)") as raised:
        built(build)
    assert ("or use AsyncDataStream" in str(raised.value)) is (method in ("map", "flat_map"))


class Opener:
    """What it opens is its own matter: key selectors are not opened."""

    def open(self) -> None:
        raise AssertionError

    def __call__(self, value: tuple[int, int]) -> int:
        return value[0]


def test_a_key_selector_may_have_an_open_of_its_own() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([(1, 2)]).key_by(Opener())
