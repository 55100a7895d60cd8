"""Two streams that one function works on: what programs may write, and what they are told where they must not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from headrace.common import Configuration, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import ValueStateDescriptor
from headrace.graph.process_specs import CoProcessSpec
from headrace.testing import JobHarness

SIDE = OutputTag("side", str)
TOTAL = ValueStateDescriptor("total", Types.LONG())


class Spelled(CoMapFunction):
    def map1(self, value: int) -> str | None:
        return None if value < 0 else f"{value + 1}"

    def map2(self, value: str) -> str:
        return value.upper()


class Parts(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterable[str]:
        return [str(value)] * value

    def flat_map2(self, value: str) -> Iterator[str]:
        yield from value


class Times(CoProcessFunction):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield f"first {value} at {ctx.timestamp()}, {ctx.timer_service().current_watermark()}"
        yield SIDE, f"side {value}"

    def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield f"second {value} at {ctx.timestamp()}, {ctx.timer_service().current_watermark()}"


class Totals(KeyedCoProcessFunction):
    """Of both inputs together."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        self.total.update((self.total.value() or 0) + value)
        yield f"{ctx.get_current_key()}: {self.total.value()}"

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        yield from self.process_element1(10 * len(value), ctx)


class Refused(CoProcessFunction):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[str]:
        raise ValueError("no first")
        yield ""

    def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> Iterator[str]:
        if value:
            ctx.timer_service().register_event_time_timer(1)
        yield ""


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "2"})
    return StreamExecutionEnvironment.get_execution_environment(settings)


def connected(env: StreamExecutionEnvironment) -> ConnectedStreams[int, str]:
    return env.from_collection([1, 2], int).connect(env.from_collection(["ab", "c"], str))


def by_length(streams: ConnectedStreams[int, str]) -> ConnectedStreams[int, str]:
    return streams.key_by(lambda number: number, len, int)


def test_inputs_and_types(env: StreamExecutionEnvironment) -> None:
    streams = connected(env)
    assert (streams.get_type1(), streams.get_type2()) == (Types.LONG(), Types.STRING())
    assert streams.get_first_input().get_type() == Types.LONG()
    assert streams.get_second_input().get_type() == Types.STRING()
    assert streams.get_execution_environment() is env
    assert repr(streams) == "ConnectedStreams(DataStreamSource(Long), DataStreamSource(String))"


def test_map(env: StreamExecutionEnvironment) -> None:
    mapped = connected(env).map(Spelled())
    assert mapped.get_type() == Types.STRING()
    assert mapped.get_name() == "Co-Map"
    assert sorted(mapped.execute_and_collect(limit=10)) == ["2", "3", "AB", "C"]


def test_none_is_no_record_of_a_map(env: StreamExecutionEnvironment) -> None:
    streams = env.from_collection([-1, 1]).connect(env.from_collection(["a"]))
    assert sorted(streams.map(Spelled(), Types.STRING()).execute_and_collect(limit=10)) == ["2", "A"]


def test_flat_map(env: StreamExecutionEnvironment) -> None:
    found = connected(env).flat_map(Parts()).execute_and_collect(limit=10)
    assert sorted(found) == ["1", "2", "2", "a", "b", "c"]


def test_a_map_needs_no_common_time_and_stays_with_its_sources(env: StreamExecutionEnvironment) -> None:
    connected(env).map(Spelled()).print()
    graph = env.transformations.next_job()
    spec = next(node.spec for node in graph if isinstance(node.spec, CoProcessSpec))
    assert spec.ignores_event_time
    assert not spec.requires_aligned_watermark


def job_of_times(harness: JobHarness) -> None:
    streams = harness.add_source("numbers", int).connect(harness.add_source("texts", str))
    told = streams.process(Times(), output_type=str)
    harness.add_sink("told", told)
    harness.add_sink("side", told.get_side_output(SIDE))


def test_event_time_is_the_earlier_one_of_both() -> None:
    with JobHarness(job_of_times) as harness:
        harness.push("numbers", 1, timestamp=100)
        harness.advance_watermark("numbers", 100)
        harness.push("texts", "a", timestamp=50)
        harness.advance_watermark("texts", 50)
        harness.run_epoch()
        harness.push("numbers", 2, timestamp=110)
        harness.push("texts", "b", timestamp=60)
        harness.run_epoch()
        lowest = -(2**63)
        assert sorted(harness.results("told")) == [
            f"first 1 at 100, {lowest}",
            "first 2 at 110, 50",
            f"second a at 50, {lowest}",
            "second b at 60, 50",
        ]
        assert harness.results("side") == ["side 1", "side 2"]


@pytest.mark.parametrize("keyed_before", [False, True])
def test_both_inputs_share_state(keyed_before: bool) -> None:
    def job(harness: JobHarness) -> None:
        numbers, texts = harness.add_source("numbers", int), harness.add_source("texts", str)
        if keyed_before:
            streams = numbers.key_by(lambda number: number, key_type=int).connect(texts.key_by(len, key_type=int))
        else:
            streams = by_length(numbers.connect(texts))
        harness.add_sink("totals", streams.process(Totals(), output_type=str))

    with JobHarness(job) as harness:
        harness.push_all("numbers", [1, 2, 1])
        harness.run_epoch()
        harness.push_all("texts", ["a", "bb"])
        harness.run_epoch()
        harness.push("numbers", 2)
        harness.run_epoch()
        assert sorted(harness.results("totals")) == ["1: 1", "1: 12", "1: 2", "2: 2", "2: 22", "2: 24"]


def test_functions_of_single_records_may_have_state_where_both_streams_are_keyed() -> None:
    class Latest(CoMapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.STRING()))

        def map1(self, value: int) -> str:
            return f"{value}: {self.latest.value()}"

        def map2(self, value: str) -> None:
            self.latest.update(value)

    def job(harness: JobHarness) -> None:
        streams = by_length(harness.add_source("numbers", int).connect(harness.add_source("texts", str)))
        harness.add_sink("latest", streams.map(Latest(), output_type=str))

    with JobHarness(job) as harness:
        harness.push_all("texts", ["a", "b", "cc"])
        harness.run_epoch()
        harness.push_all("numbers", [1, 2, 3])
        harness.run_epoch()
        assert sorted(harness.results("latest")) == ["1: b", "2: cc", "3: None"]


def test_keys_of_different_types(env: StreamExecutionEnvironment) -> None:
    numbers, texts = env.from_collection([1], int), env.from_collection(["a"], str)
    with pytest.raises(
        InvalidTypeError, match=r"keys of the same type, not Long and String(.|\n)*at .*test_connected_streams"
    ):
        numbers.connect(texts).key_by(int, str)
    keyed = numbers.key_by(int).connect(texts.key_by(str))
    with pytest.raises(InvalidTypeError, match="keys of the same type"):
        keyed.process(Totals(), output_type=str)


def test_timers_and_keys_need_both_streams_keyed(env: StreamExecutionEnvironment) -> None:
    numbers, texts = env.from_collection([1], int), env.from_collection(["a"], str)
    for streams in (numbers.connect(texts), numbers.key_by(lambda number: number).connect(texts)):
        with pytest.raises(InvalidProgramError, match="Totals wants keys"):
            streams.process(Totals(), output_type=str)

    class Plain:
        def process_element1(self, value: Any, ctx: Any) -> list[Any]:
            return []

        def process_element2(self, value: Any, ctx: Any) -> list[Any]:
            return []

        def on_timer(self, timestamp: int, ctx: Any) -> list[Any]:
            return []

    with pytest.raises(InvalidProgramError, match="Plain has timers, which belong to keys"):
        numbers.connect(texts).process(Plain(), output_type=str)  # type: ignore[arg-type]


def test_what_is_no_function_of_two_streams(env: StreamExecutionEnvironment) -> None:
    streams: Any = connected(env)

    class Single(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> list[Any]:
            return []

    class Half(CoMapFunction):
        def map1(self, value: Any) -> int:
            return 1

        def map2(self) -> int:  # type: ignore[override]
            return 2

    write = "write a class derived from it, with process_element1 and process_element2"
    for function, got in ((Single(), f"a Single: {write}"), (Times, ".*"), (lambda value: value, f"a lambda: {write}")):
        with pytest.raises(InvalidTypeError, match=f"expected a CoProcessFunction, got {got}"):
            streams.process(function)
    with pytest.raises(InvalidTypeError, match=r"write def map2\(self, value\)"):
        streams.map(Half())
    with pytest.raises(InvalidTypeError, match="expected a CoFlatMapFunction"):
        streams.flat_map(Spelled())


def test_what_cannot_be_connected(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1])
    with pytest.raises(InvalidTypeError, match="connect takes a DataStream, not 3"):
        numbers.connect(3)  # type: ignore[call-overload]
    with pytest.raises(InvalidProgramError, match="of the same environment"):
        numbers.connect(StreamExecutionEnvironment.get_execution_environment().from_collection([1]))


def test_names_of_streams_are_explained_behind_connect(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(AttributeError, match="say first what becomes of the records of both"):
        _ = connected(env).print  # type: ignore[attr-defined]


@pytest.mark.parametrize(("number", "said"), [(1, "no first"), (2, "only on a keyed stream.* KeyedCoProcessFunction")])
def test_an_error_names_the_method_and_the_record(env: StreamExecutionEnvironment, number: int, said: str) -> None:
    streams = env.from_collection([7][: 2 - number], int).connect(env.from_collection(["x"][: number - 1], str))
    with pytest.raises(UserFunctionError, match=said) as found:
        streams.process(Refused(), output_type=str).execute_and_collect(limit=1)
    text = str(found.value)
    assert f"process_element{number}" in text
    assert ("record: 7" if number == 1 else "record: 'x'") in text


def test_a_stream_with_itself() -> None:
    def job(harness: JobHarness) -> None:
        numbers = harness.add_source("numbers", int).key_by(lambda number: number)
        streams = numbers.connect(numbers)

        class Twice(KeyedCoProcessFunction):
            def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
                yield f"first {value}"

            def process_element2(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
                yield f"second {value}"

        harness.add_sink("twice", streams.process(Twice(), output_type=str))

    with JobHarness(job) as harness:
        harness.push_all("numbers", [1, 2])
        harness.run_epoch()
        assert sorted(harness.results("twice")) == ["first 1", "first 2", "second 1", "second 2"]


def test_results_keep_timestamps() -> None:
    with JobHarness(job_of_times) as harness:
        harness.push("numbers", 1, timestamp=100)
        harness.run_epoch()
        assert [timestamp for _, timestamp in harness.results_with_timestamps("told")] == [100]
