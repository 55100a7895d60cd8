"""State of keys where there are none is told when the program is built, where it is certain; never otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.errors import InvalidProgramError, UserFunctionError
from headrace.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.testing import JobHarness

TOTAL = ValueStateDescriptor("total", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Asks:
    """A function of any kind, which asks for state."""

    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_task_name()
        self.total = runtime_context.get_state(TOTAL)

    def of_record(self, value: Any, *_: Any) -> Any:
        return []

    map = flat_map = filter = map1 = map2 = flat_map1 = flat_map2 = of_record
    process_element = process_element1 = process_element2 = process_broadcast_element = of_record


class AsksMap(Asks, MapFunction):
    pass


class AsksFlatMap(Asks, FlatMapFunction):
    pass


class AsksFilter(Asks, FilterFunction):
    pass


class AsksProcess(Asks, ProcessFunction):
    pass


class AsksCoMap(Asks, CoMapFunction):
    pass


class AsksCoFlatMap(Asks, CoFlatMapFunction):
    pass


class AsksCoProcess(Asks, CoProcessFunction):
    pass


class AsksBroadcast(Asks, BroadcastProcessFunction):
    pass


class AsksAsync(Asks, AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        return [value]


def texts() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection(["a"], str)


def by_itself(stream: Any) -> Any:
    return stream.key_by(str.lower, key_type=str)


WITHOUT_KEYS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda stream: stream.map(AsksMap(), str), r"only after key_by\(...\)"),
    (lambda stream: stream.flat_map(AsksFlatMap(), str), r"only after key_by\(...\)"),
    (lambda stream: stream.filter(AsksFilter()), r"only after key_by\(...\)"),
    (lambda stream: stream.process(AsksProcess(), str), r"only after key_by\(...\)"),
    (lambda stream: stream.connect(stream).map(AsksCoMap(), str), "call key_by.* of the connected streams first"),
    (
        lambda stream: stream.connect(by_itself(stream)).flat_map(AsksCoFlatMap(), str),
        "the first stream has none, so call its key_by",
    ),
    (
        lambda stream: by_itself(stream).connect(stream).process(AsksCoProcess(), str),
        "the second stream has none, so call its key_by",
    ),
    (
        lambda stream: stream.connect(stream.broadcast(RULES)).process(AsksBroadcast(), str),
        r"only after key_by\(...\)",
    ),
    (
        lambda stream: AsyncDataStream.unordered_wait(by_itself(stream), AsksAsync(), 1_000, output_type=str),
        "functions that are awaited have none",
    ),
]


@pytest.mark.parametrize(("build", "said"), WITHOUT_KEYS)
def test_it_is_told_with_its_line(build: Callable[[Any], Any], said: str) -> None:
    line = Asks.open.__code__.co_firstlineno + 2
    with pytest.raises(InvalidProgramError, match=f"^open .*: get_state: .*{said}(.|\n)*at .*in <lambda>$") as told:
        build(texts())
    assert f"test_state_misuse.py:{line}): " in str(told.value)


class AsksForAStore(CheckpointedFunction, MapFunction):
    def initialize_state(self, context: Any) -> None:
        self.many = context.get_keyed_state_store().get_list_state(ListStateDescriptor("many", Types.LONG()))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        return value


def test_a_store_of_keys() -> None:
    with pytest.raises(InvalidProgramError, match=r"^initialize_state .*: get_keyed_state_store: keyed state exists"):
        texts().map(AsksForAStore(), str)
    assert by_itself(texts()).map(AsksForAStore(), str).get_type() == Types.STRING()


class OnCondition(MapFunction):
    """One function for streams with and without keys."""

    def __init__(self, has_keys: bool) -> None:
        self.has_keys = has_keys

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL) if self.has_keys else None

    def map(self, value: Any) -> Any:
        return value


class Tries(OnCondition):
    def open(self, runtime_context: Any) -> None:
        try:
            self.total = runtime_context.get_state(TOTAL)
        except InvalidProgramError:
            self.total = None


class OfItsOwn(OnCondition):
    """What gives it states is no context of a job."""

    def open(self, runtime_context: Any) -> None:
        runtime_context = self
        self.total = runtime_context.get_state(TOTAL)

    def get_state(self, descriptor: Any) -> Any:
        return descriptor


@pytest.mark.parametrize("function", [OnCondition(False), Tries(False), OfItsOwn(False)])
def test_what_need_not_fail_runs(function: Any) -> None:
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", str).map(function, str))) as job:
        job.push("in", "a")
        job.run_epoch()
        assert job.results("out") == ["a"]


def test_what_cannot_be_known_before_is_told_by_the_running_job() -> None:
    """What is wrong, in which operator and line, and what to do."""
    said = (
        r"(?s)'Map' .* failed.*get_state in operator 'Map'.*only after key_by\(...\).*at .*test_state_misuse.*in open"
    )
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", str).map(OnCondition(True), str))) as job:
        job.push("in", "a")
        with pytest.raises(UserFunctionError, match=said):
            job.run_epoch()


class Keyed(Asks, KeyedProcessFunction):
    pass


def test_functions_of_keyed_streams_have_it() -> None:
    keyed = by_itself(texts())
    both = keyed.connect(keyed).flat_map(AsksCoFlatMap(), str)
    for stream in (both, keyed.map(AsksMap(), str), keyed.process(Keyed(), str)):
        assert stream.get_type() == Types.STRING()


@dataclass
class Stats:
    count: int
    total: float


class OfDataclass(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.stats = runtime_context.get_state(ValueStateDescriptor("stats", Types.DATACLASS(Stats)))  # type: ignore[attr-defined]

    def process_element(self, value: Any, ctx: Any) -> Any:
        return []


class Misspelt(OfDataclass):
    def open(self, runtime_context: Any) -> None:
        self.stats = runtime_context.get_state(ValueStateDescriptor("stats", Types.STRNG()))  # type: ignore[attr-defined]


class NotCalled(OfDataclass):
    def open(self, runtime_context: Any) -> None:
        self.stats = runtime_context.get_state(ValueStateDescriptor("stats", Types.LONG))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (OfDataclass(), r"Types has no DATACLASS: .*give the class itself .*Types.of\(Stats\)"),
        (Misspelt(), r"Types has no STRNG: did you mean Types.STRING\?"),
        (NotCalled(), r"Types.LONG is a function: write Types.LONG\(\)"),
    ],
)
def test_types_that_do_not_exist_are_told_with_the_line(function: Any, text: str) -> None:
    keyed = StreamExecutionEnvironment.get_execution_environment().from_collection([1]).key_by(lambda value: value)
    line = type(function).open.__code__.co_firstlineno + 1
    with pytest.raises(InvalidProgramError, match=text) as told:
        keyed.process(function)
    assert f"test_state_misuse.py:{line}): " in str(told.value)


def test_types_by_a_wrong_name_are_told_anywhere() -> None:
    with pytest.raises(AttributeError, match="Types has no DATACLASS: For a dataclass"):
        Types.DATACLASS(Stats)  # type: ignore[attr-defined]
    assert not hasattr(Types, "DATACLASS")
