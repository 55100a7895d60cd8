"""Whatever user code raises, wherever it is called, is told as a failure of that code, and nothing tries it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.common import Configuration, Encoder, Types, WatermarkStrategy
from headrace.common.errors import FunctionRefusedError, HeadraceError, UserFunctionError
from headrace.common.time import Time
from headrace.connectors.file_system.buckets import BucketContext
from headrace.connectors.ranges import DataGeneratorSource
from headrace.datastream import (
    DataStream,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink
from headrace.datastream.functions import AggregateFunction, MapFunction, ProcessWindowFunction
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.runtime.local import LocalRuntime
from headrace.time.watermark_strategy import ColumnarWatermarkGenerator
from tests.waiting import PATIENCE

LONG = Types.LONG()


class OddError(BaseException):
    """No Exception."""


class MuteError(ValueError):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("mute")

    __repr__ = __str__


RAISED = {
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "generator": GeneratorExit,
    "odd": OddError,
    "stop": lambda: StopIteration("no more"),
    "mute": MuteError,
    "usual": lambda: ValueError("no"),
    "machine": lambda: OSError("away"),
}


class Trap:
    """Raises when it is called."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, *_: Any) -> Any:
        raise RAISED[self.kind]()


class Process(ProcessFunction):
    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value
        self.trap()


class Keyed(KeyedProcessFunction):
    def __init__(self, trap: Trap, *, in_timer: bool = False) -> None:
        self.trap = trap
        self.in_timer = in_timer

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        if not self.in_timer:
            self.trap()
        ctx.timer_service().register_event_time_timer(5)
        return []

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.trap()


class Opened(MapFunction):
    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    def open(self, runtime_context: RuntimeContext) -> None:
        self.trap()

    def map(self, value: Any) -> Any:
        return value


class Closed(MapFunction):
    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        self.trap()


class Aggregate(AggregateFunction):
    def __init__(self, trap: Trap, where: str) -> None:
        self.trap = trap
        self.where = where

    def _at(self, where: str) -> None:
        if where == self.where:
            self.trap()

    def create_accumulator(self) -> int:
        self._at("create")
        return 0

    def add(self, value: int, accumulator: int) -> int:
        self._at("add")
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        self._at("result")
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class Window(ProcessWindowFunction):
    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield from elements
        self.trap()

    def clear(self, context: Any) -> None:
        pass


class Bucket(BucketAssigner):
    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        self.trap()
        return ""


class Generator(ColumnarWatermarkGenerator):
    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    def stamp(self, timestamps: Any, watermark: int) -> tuple[Any, int]:
        self.trap()
        return np.full(len(timestamps), watermark), watermark


def keyed(stream: DataStream) -> Any:
    return stream.key_by(lambda number: number % 2, Types.LONG())


def windows(stream: DataStream) -> Any:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)
    return keyed(stream.assign_timestamps_and_watermarks(times)).window(TumblingEventTimeWindows.of(Time.seconds(1)))


def timed(stream: DataStream, strategy: WatermarkStrategy) -> DataStream:
    return stream.assign_timestamps_and_watermarks(strategy)


def aggregate(stream: DataStream, function: AggregateFunction) -> DataStream:
    return windows(stream).aggregate(function, accumulator_type=LONG, output_type=LONG)


MADE_OTHERWISE = {"process", "window", "window reduce", "aggregate create", "aggregate add"}
"""Where a StopIteration comes out of a generator, Python makes a RuntimeError of it."""

BOUND = WatermarkStrategy.for_monotonous_timestamps()

PLACES: dict[str, Callable[[DataStream, Trap], DataStream]] = {
    "map": lambda s, trap: s.map(trap, LONG),
    "flat_map": lambda s, trap: s.flat_map(trap, LONG),
    "filter": lambda s, trap: s.filter(trap),
    "map_batches": lambda s, trap: s.map_batches(trap, LONG),
    "process": lambda s, trap: s.process(Process(trap), LONG),
    "keyed process": lambda s, trap: keyed(s).process(Keyed(trap), LONG),
    "timer": lambda s, trap: keyed(s).process(Keyed(trap, in_timer=True), LONG),
    "reduce": lambda s, trap: keyed(s).reduce(lambda a, b: trap()),
    "key": lambda s, trap: s.key_by(trap, LONG).process(Keyed(trap), LONG),
    "window reduce": lambda s, trap: windows(s).reduce(lambda a, b: trap()),
    "aggregate create": lambda s, trap: windows(s).aggregate(
        Aggregate(trap, "create"), accumulator_type=LONG, output_type=LONG
    ),
    "aggregate add": lambda s, trap: windows(s).aggregate(
        Aggregate(trap, "add"), accumulator_type=LONG, output_type=LONG
    ),
    "aggregate result": lambda s, trap: windows(s).aggregate(
        Aggregate(trap, "result"), accumulator_type=LONG, output_type=LONG
    ),
    "window": lambda s, trap: windows(s).process(Window(trap), LONG),
    "open": lambda s, trap: s.map(Opened(trap), LONG),
    "close": lambda s, trap: s.map(Closed(trap), LONG),
    "timestamp": lambda s, trap: timed(s, BOUND.with_timestamp_assigner(lambda number, _: trap())),
    "watermark": lambda s, trap: timed(s, WatermarkStrategy.for_generator(Generator(trap))),
}


def environment(**settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"} | settings)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs that were run."""
    found: list[int] = []
    original = LocalRuntime.run_epoch

    def run_epoch(self: LocalRuntime, context: Any) -> Any:
        found.append(context.epoch)
        return original(self, context)

    monkeypatch.setattr(LocalRuntime, "run_epoch", run_epoch)
    return found


def failure(env: StreamExecutionEnvironment) -> UserFunctionError:
    with pytest.raises(UserFunctionError) as told:
        env.execute_async().get_job_execution_result().result(timeout=PATIENCE)
    return told.value


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("place", PLACES)
def test_it_is_told_as_what_it_is(place: str, kind: str, attempts: list[int]) -> None:
    if kind == "stop" and place in MADE_OTHERWISE:
        kind = "usual"
    env = environment()
    PLACES[place](env.from_sequence(1, 4).uid("numbers"), Trap(kind)).print()
    text = str(failure(env))
    assert f"  {type(RAISED[kind]()).__name__}: " in text
    assert "operator '" in text
    assert "(uid " in text
    assert "test_user_failures.py" in text
    assert attempts == [1], "running it again would fail again"
    if kind == "mute":
        assert "its __str__ raised RuntimeError" in text
    if kind == "exit":
        assert "a function cannot end the process" in text


@pytest.mark.parametrize("kind", sorted(RAISED.keys() - {"machine"}))
@pytest.mark.parametrize("place", ["encoder", "bucket"])
def test_what_a_sink_calls(place: str, kind: str, attempts: list[int], tmp_path: Any) -> None:
    env, trap = environment(), Trap(kind)
    encoder = Encoder(trap) if place == "encoder" else Encoder.simple_string_encoder()
    builder = FileSink.for_row_format(str(tmp_path / "out"), encoder)
    assigner = Bucket(trap) if place == "bucket" else BucketAssigner.base_path_bucket_assigner()
    env.from_sequence(1, 4).sink_to(builder.with_bucket_assigner(assigner).build()).uid("files")
    text = str(failure(env))
    assert f"  {type(RAISED[kind]()).__name__}: " in text
    assert "(uid files" in text
    assert "record: one of 4, the first is 1" in text
    assert attempts == [1]


@pytest.mark.parametrize("kind", sorted(RAISED.keys() - {"machine"}))
def test_a_generator_of_records(kind: str, attempts: list[int]) -> None:
    env = environment()
    source = DataGeneratorSource(Trap(kind), 10, type_info=LONG)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "made").uid("made").print()
    text = str(failure(env))
    assert "operator 'made' (uid made" in text
    assert attempts == [1]


class Shy:
    """A record that cannot be shown."""

    def __repr__(self) -> str:
        raise SystemExit("shown")


def test_a_record_that_cannot_be_shown(attempts: list[int]) -> None:
    env = environment()
    env.from_sequence(1, 4).map(lambda number: Shy()).filter(lambda record: 1 // 0).print()
    assert "record: <Shy whose __repr__ raised SystemExit>" in str(failure(env))
    assert attempts == [1]


class Unpicklable:
    def __reduce__(self) -> Any:
        raise SystemExit("not me")


def test_a_record_that_ends_the_process_when_it_is_sent(attempts: list[int]) -> None:
    env = environment()
    made = env.from_sequence(1, 4).map(lambda number: Unpicklable())
    made.key_by(lambda record: 1, LONG).process(Keyed(Trap("usual"))).print()
    with pytest.raises(HeadraceError, match="not me"):
        env.execute_async().get_job_execution_result().result(timeout=PATIENCE)
    assert attempts == [1]


READERS: dict[str, Callable[[DataStream], DataStream]] = {
    "a function": lambda made: made.map(lambda number: number + 1, LONG),
    "a sink": lambda made: made,
    "columns": lambda made: made.map_batches(lambda batch: batch, LONG),
    "a key function": lambda made: made.key_by(lambda number: number, LONG).sum(),
    "behind one that hands them on": lambda made: made.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps()
    ).map(lambda number: number, LONG),
    "where branches merge": lambda made: made.union(made.filter(lambda number: True)).map(lambda number: number, LONG),
    "where streams are joined for a shuffle": lambda made: (
        made.union(made.map(lambda number: 1, LONG)).key_by(lambda number: number, LONG).sum()
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_result_that_does_not_fit_is_told_of_the_function_that_gave_it(reader: str, attempts: list[int]) -> None:
    """Whoever is the first to look at it."""
    env = environment()
    made = env.from_sequence(1, 4).map(lambda number: "three" if number == 3 else number, LONG)
    READERS[reader](made.name("maker").uid("made")).print()
    told = str(failure(env))
    assert told.startswith("operator 'maker' (uid made, subtask ")
    assert "got 'three' (str), expected an int" in told
    assert "record: None" not in told
    assert attempts == [1]


def test_a_stopped_iteration_does_not_swallow_other_keys(attempts: list[int]) -> None:
    class Stops(AggregateFunction):
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: int, accumulator: int) -> int:
            return accumulator + value

        def get_result(self, accumulator: int) -> int:
            return next(iter(()))

        def merge(self, a: int, b: int) -> int:
            return a + b

    env = environment()
    aggregate(env.from_sequence(1, 4), Stops()).print()
    assert "StopIteration" in str(failure(env))


def test_what_map_batches_gives_that_is_no_batch(attempts: list[int]) -> None:
    env = environment()
    env.from_sequence(1, 4).map_batches(lambda batch: pa.array([1]), LONG).print()
    with pytest.raises(HeadraceError, match="does not fit its output type"):
        env.execute_async().get_job_execution_result().result(timeout=PATIENCE)
    assert attempts == [1]


# --- restart strategies ----------------------------------------------------------------------------------------------

SET = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "5",
    "restart-strategy.fixed-delay.delay": "1 ms",
}

_away = {"left": 0}


def asks_a_service(number: int) -> int:
    """Local functions live in this process, so a test can say how often the service is away."""
    if number == 3 and _away["left"]:
        _away["left"] -= 1
        raise ConnectionError("the service is away")
    return number


def sums(env: StreamExecutionEnvironment) -> list[int]:
    numbers = env.from_sequence(1, 8).map(asks_a_service, LONG)
    return list(numbers.key_by(lambda number: 0, LONG).sum().execute_and_collect())


def test_a_strategy_that_was_set_restarts_on_failures_of_functions(attempts: list[int]) -> None:
    _away["left"] = 3
    found = sums(environment(**SET, **{"headrace.epoch.max-records": "1", "headrace.epoch.target-duration": "60s"}))
    assert found == [1, 3, 6, 10, 15, 21, 28, 36]
    assert _away["left"] == 0
    assert len(attempts) >= 8 + 3


def test_it_gives_up_when_the_service_stays_away(attempts: list[int]) -> None:
    _away["left"] = 100
    with pytest.raises(UserFunctionError, match="the service is away"):
        sums(environment(**SET))
    assert len(attempts) == 6


def test_without_a_strategy_a_function_fails_the_job_at_once(attempts: list[int], tmp_path: Any) -> None:
    _away["left"] = 1
    with pytest.raises(UserFunctionError, match="the service is away"):
        sums(environment(**{"execution.checkpointing.dir": str(tmp_path)}))
    assert len(attempts) == 1


def test_what_headrace_refuses_stops_the_job_under_any_strategy(attempts: list[int]) -> None:
    class Refused(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.state = runtime_context.get_state(ValueStateDescriptor("state", LONG))

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[int]:
            self.state.update("no number")  # type: ignore[arg-type]
            return []

    env = environment(**SET)
    keyed(env.from_sequence(1, 4)).process(Refused(), LONG).print()
    assert isinstance(failure(env), FunctionRefusedError)
    assert attempts == [1]


def test_a_bad_record_stops_the_job_under_any_strategy(attempts: list[int]) -> None:
    env = environment(**SET)
    env.from_sequence(1, 4).map(lambda number: "no number", LONG).key_by(lambda number: 0, LONG).sum().print()
    with pytest.raises(HeadraceError):
        env.execute_async().get_job_execution_result().result(timeout=PATIENCE)
    assert attempts == [1]
