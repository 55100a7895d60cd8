"""Functions of the user with state of their subtask: of each kind, beside each other, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Encoder, Types
from headrace.common.batch import Batch
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, StateMigrationError, UserFunctionError
from headrace.connectors.sink import Committer, CommitterContext, Sink, SinkWriter, WriterContext, WriterEpoch
from headrace.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    WindowFunction,
)
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.connectors.number_seq import NumberSequenceSource
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.testing import JobHarness
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.count_assigners import CountTumblingWindowAssigner

NUMBERS = ListStateDescriptor("numbers", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Counting(CheckpointedFunction):
    """Knows how many calls there were in all epochs."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.stored = context.get_operator_state_store().get_list_state(NUMBERS)
        self.calls = sum(self.stored.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update([self.calls])

    def count(self) -> int:
        self.calls += 1
        return self.calls


class Mapped(MapFunction, Counting):
    def map(self, value: Any) -> int:
        return self.count()


class FlatMapped(FlatMapFunction, Counting):
    def flat_map(self, value: Any) -> Iterator[int]:
        yield self.count()


class Filtered(FilterFunction, Counting):
    def filter(self, value: Any) -> bool:
        return self.count() == value


class Processed(ProcessFunction, Counting):
    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        yield self.count()


class KeyedProcessed(KeyedProcessFunction, Counting):
    """With state of the key beside it."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        super().initialize_state(context)
        of_key = ValueStateDescriptor("of-key", Types.LONG())
        self.of_key = context.get_keyed_state_store().get_state(of_key)

    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        self.of_key.update((self.of_key.value() or 0) + 1)
        assert self.of_key.value() == (self.calls + 2) // 2, "the numbers alternate between two keys"
        yield self.count()


class KeyedMapped(Mapped):
    """Gets state of the key without an ``open``."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        super().initialize_state(context)
        self.of_key = context.get_keyed_state_store().get_list_state(ListStateDescriptor("of-key", Types.LONG()))

    def map(self, value: Any) -> int:
        self.of_key.add(value)
        return super().map(value) if value in self.of_key.get() else -1


class CoMapped(CoMapFunction, Counting):
    def map1(self, value: Any) -> int:
        return self.count()

    def map2(self, value: Any) -> None:
        raise AssertionError("nothing comes from there")


class CoProcessed(CoProcessFunction, Counting):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[int]:
        yield self.count()

    def process_element2(self, value: Any, ctx: Any) -> None:
        raise AssertionError("nothing comes from there")


class Broadcast(BroadcastProcessFunction, Counting):
    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        yield self.count()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        raise AssertionError("nothing comes from there")


class Asked(AsyncFunction, Counting):
    async def async_invoke(self, value: Any) -> list[int]:
        return [self.count()]


class Reduced(ReduceFunction, Counting):
    def reduce(self, value1: int, value2: int) -> int:
        return self.count() + 1


class Windowed(WindowFunction, Counting):
    def apply(self, key: Any, window: Any, inputs: Iterable[int]) -> Iterator[int]:
        yield self.count()


def by_parity(numbers: Any) -> Any:
    return numbers.key_by(lambda number: number % 2, Types.LONG())


def all_of(numbers: Any) -> Any:
    return numbers.key_by(lambda number: 0, Types.LONG())


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "map": lambda numbers, other: numbers.map(Mapped(), Types.LONG()),
    "flat map": lambda numbers, other: numbers.flat_map(FlatMapped(), Types.LONG()),
    "filter": lambda numbers, other: numbers.filter(Filtered()),
    "process": lambda numbers, other: numbers.process(Processed(), Types.LONG()),
    "keyed process": lambda numbers, other: by_parity(numbers).process(KeyedProcessed(), Types.LONG()),
    "keyed map": lambda numbers, other: by_parity(numbers).map(KeyedMapped(), Types.LONG()),
    "co-map": lambda numbers, other: numbers.connect(other).map(CoMapped(), Types.LONG()),
    "keyed co-map": lambda numbers, other: by_parity(numbers).connect(by_parity(other)).map(CoMapped(), Types.LONG()),
    "co-process": lambda numbers, other: numbers.connect(other).process(CoProcessed(), Types.LONG()),
    "broadcast": lambda numbers, other: numbers.connect(other.broadcast(RULES)).process(Broadcast(), Types.LONG()),
    "async": lambda numbers, other: AsyncDataStream.ordered_wait(numbers, Asked(), 10_000, 1, Types.LONG()),
    "reduce": lambda numbers, other: all_of(numbers).reduce(Reduced()),
    "window": lambda numbers, other: (
        all_of(numbers).window(CountTumblingWindowAssigner.of(1)).apply(Windowed(), Types.LONG())
    ),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_each_kind(kind: str) -> None:
    """A new instance in each epoch counts on."""

    def build(job: JobHarness) -> None:
        numbers, other = job.add_source("numbers", Types.LONG()), job.add_source("other", Types.LONG())
        job.add_sink("out", KINDS[kind](numbers, other).uid("counting"))

    with JobHarness(build) as job:
        for numbers in ([1, 2], [3], [4, 5]):
            job.push_all("numbers", numbers)
            job.run_epoch()
        checkpoint = job.checkpoint()
        assert job.take("out") == [1, 2, 3, 4, 5]
    with JobHarness(build, restore=checkpoint) as job:
        job.push_all("numbers", [6, 7])
        job.run_epoch()
        assert job.take("out") == [6, 7]


def test_functions_that_are_chained_have_their_own() -> None:
    def build(job: JobHarness) -> None:
        counted = job.add_source("in", Types.LONG()).map(Mapped(), Types.LONG()).uid("first")
        some = counted.filter(lambda number: number % 2 == 0).map(Mapped(), Types.LONG()).uid("second")
        job.add_sink("out", some)

    with JobHarness(build) as job:
        for _ in range(2):
            job.push_all("in", [0, 0, 0, 0, 0])
            job.run_epoch()
        assert job.take("out") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("keyed", [False, True])
def test_operators_with_the_same_object_have_their_own(keyed: bool) -> None:
    def build(job: JobHarness) -> None:
        function: MapFunction = KeyedMapped() if keyed else Mapped()
        for name in ("first", "second"):
            numbers = job.add_source(name, Types.LONG())
            numbers = all_of(numbers) if keyed else numbers
            job.add_sink(f"out of {name}", numbers.map(function, Types.LONG()).uid(f"counting {name}"))

    with JobHarness(build) as job:
        for _ in range(2):
            job.push_all("first", [0, 0])
            job.push_all("second", [0])
            job.run_epoch()
        assert (job.take("out of first"), job.take("out of second")) == ([1, 2, 3, 4], [1, 2])


class Numbered(MapFunction, CheckpointedFunction):
    """Which checkpoints an instance has heard of."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.heard = context.get_operator_state_store().get_list_state(NUMBERS)
        self.restored = context.get_restored_checkpoint_id()

    def map(self, value: Any) -> Any:
        return self.restored, self.heard.get()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        assert context.get_checkpoint_timestamp() == 77
        self.heard.add(context.get_checkpoint_id())


def test_the_number_of_a_checkpoint_comes_back() -> None:
    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", Types.LONG()).map(Numbered()).uid("numbered"))

    with JobHarness(build) as job:
        job.set_processing_time(77)
        for _ in range(3):
            job.push("in", 0)
            job.run_epoch()
        (none, nothing), (second, one), (third, two) = job.take("out")
    assert (none, nothing) == (None, [])
    assert (one, two) == ([second], [second, third])
    assert third == second + 1


def test_in_batch_mode() -> None:
    def build(job: JobHarness) -> None:
        numbers = job.env.from_source(NumberSequenceSource(1, 30_000), WatermarkStrategy.no_watermarks(), "numbers")
        job.add_sink("out", numbers.map(Mapped(), Types.LONG()).uid("counting"))

    batch = {"execution.runtime-mode": "BATCH", "headrace.epoch.max-records": "7000"}
    with JobHarness(build, configuration=batch) as job:
        job.finish()
        assert job.take("out") == list(range(1, 30_001))


class TwoKinds(Mapped):
    """Declares another type, or another kind, under the name that is stored."""

    def __init__(self, method: str, descriptor: Any) -> None:
        self.method, self.descriptor = method, descriptor

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        getattr(context.get_operator_state_store(), self.method)(self.descriptor)


@pytest.mark.parametrize(
    ("method", "descriptor", "message"),
    [
        ("get_list_state", ListStateDescriptor("numbers", Types.STRING()), "numbers"),
        ("get_union_list_state", NUMBERS, "was stored as operator list state and is declared as union list state"),
        ("get_broadcast_state", NUMBERS, "expected a MapStateDescriptor"),
        ("get_list_state", RULES, "expected a ListStateDescriptor"),
    ],
)
def test_another_declaration_is_refused(method: str, descriptor: Any, message: str) -> None:
    def build(function: MapFunction) -> Callable[[JobHarness], None]:
        def job(harness: JobHarness) -> None:
            harness.add_sink("out", harness.add_source("in", Types.LONG()).map(function, Types.LONG()).uid("counting"))

        return job

    with JobHarness(build(Mapped())) as job:
        job.push("in", 0)
        held = job.checkpoint()
    with JobHarness(build(TwoKinds(method, descriptor)), restore=held) as job:
        job.push("in", 0)
        with pytest.raises(UserFunctionError, match=message):
            job.run_epoch()


def test_a_function_that_has_state_no_more(caplog: pytest.LogCaptureFixture) -> None:
    def build(function: Any, uid: str) -> Callable[[JobHarness], None]:
        def job(harness: JobHarness) -> None:
            harness.add_sink("out", harness.add_source("in", Types.LONG()).map(function, Types.LONG()).uid(uid))

        return job

    with JobHarness(build(Mapped(), "counting")) as job:
        job.push("in", 0)
        held = job.checkpoint()
    for function, uid in ((lambda number: number, "counting"), (Mapped(), "another")):
        with pytest.raises(StateMigrationError, match="state of operators with uid counting"):
            JobHarness(build(function, uid), restore=held).run_epoch()
    ignore = {"execution.state-recovery.ignore-unclaimed-state": "true"}
    with (
        caplog.at_level(logging.WARNING),
        JobHarness(build(Mapped(), "another"), restore=held, configuration=ignore) as job,
    ):
        job.push("in", 0)
        job.run_epoch()
        assert job.take("out") == [1]
    assert "leaves behind" in caplog.text


class Lookalike(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def snapshot_state(self, context: Any) -> None:
        raise AssertionError("nobody calls it")


class Awaited(Mapped):
    async def initialize_state(self, context: Any) -> None:  # type: ignore[override]
        raise AssertionError("nobody awaits it")


class WithoutContext(Mapped):
    def initialize_state(self) -> None:  # type: ignore[override]
        raise AssertionError("nobody calls it")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (WithoutContext(), r"WithoutContext.initialize_state\(self\) .* write a function of \(context\)"),
        (Lookalike(), "Lookalike has snapshot_state, which is called of a CheckpointedFunction alone: extend that"),
        (Awaited(), "initialize_state of Awaited is called and not awaited: write def instead of async def"),
    ],
)
def test_what_nobody_would_call_is_refused_when_the_job_is_built(function: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        JobHarness(lambda job: job.add_sink("out", job.add_source("in", Types.LONG()).map(function)))


class WithoutKeys(Mapped):
    def __init__(self, of: str) -> None:
        self.of = of

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        super().initialize_state(context)
        if self.of == "initialize_state":
            context.get_keyed_state_store()

    def open(self, runtime_context: Any) -> None:
        if self.of == "open":
            runtime_context.get_state(ValueStateDescriptor("of-key", Types.LONG()))


@pytest.mark.parametrize("of", ["initialize_state", "open"])
def test_state_of_keys_needs_keys(of: str) -> None:
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", Types.LONG()).map(WithoutKeys(of)))) as job:
        job.push("in", 0)
        with pytest.raises(UserFunctionError, match="keyed state exists only after key_by"):
            job.run_epoch()


class Failing(Mapped):
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        raise ValueError("no room")


def test_a_failure_names_the_operator_and_the_line() -> None:
    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", Types.LONG()).map(Failing()).name("failing"))

    with JobHarness(build) as job:
        job.push("in", 0)
        with pytest.raises(UserFunctionError, match=r"(?s)'failing'.*ValueError: no room\n  at .*snapshot_state"):
            job.run_epoch()


class BufferingSink(Sink, CheckpointedFunction):
    """Sends records to another sink, once it has so many of them."""

    def __init__(self, sink: Sink, threshold: int) -> None:
        self.sink, self.threshold = sink, threshold

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.stored = context.get_operator_state_store().get_list_state(NUMBERS)
        self.buffered = list(self.stored.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update(self.buffered)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return BufferingWriter(self, self.sink.create_writer(context))

    def create_committer(self, context: CommitterContext) -> Committer:
        committer = self.sink.create_committer(context)
        assert committer is not None
        return committer


class BufferingWriter(SinkWriter):
    def __init__(self, sink: BufferingSink, writer: SinkWriter) -> None:
        self.sink, self.writer = sink, writer

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self.writer.begin_epoch(epoch)

    def write(self, batch: Batch) -> None:
        self.sink.buffered += batch.rows
        if len(self.sink.buffered) >= self.sink.threshold:
            rows, self.sink.buffered = self.sink.buffered, []
            times = [NO_TIMESTAMP] * len(rows)
            self.writer.write(Batch.of_rows(Types.LONG(), rows, times, times))

    def prepare_commit(self) -> Sequence[Any]:
        return self.writer.prepare_commit()


def test_a_sink(tmp_path: Path) -> None:
    def build(job: JobHarness) -> None:
        files = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        job.add_source("in", Types.LONG()).sink_to(BufferingSink(files, 3)).uid("buffer")

    def written() -> list[str]:
        files = (path for path in (tmp_path / "out").glob("**/*") if path.is_file() and path.name[0] not in "._")
        return sorted(line for path in files for line in path.read_text().split())

    with JobHarness(build) as job:
        for number in (1, 2):
            job.push("in", number)
            job.run_epoch()
        held = job.checkpoint()
        assert written() == []
    with JobHarness(build, restore=held) as job:
        job.push("in", 3)
        job.finish()
    assert written() == ["1", "2", "3"]


class CheckpointedSource(NumberSequenceSource, CheckpointedFunction):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        raise AssertionError("it has no subtask")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        raise AssertionError("it has no subtask")


def test_a_source_has_its_splits_instead() -> None:
    with pytest.raises(InvalidProgramError, match="what a source knows is in its splits"):
        JobHarness(
            lambda job: job.env.from_source(CheckpointedSource(1, 2), WatermarkStrategy.no_watermarks(), "numbers")
        )
