"""Functions of all kinds are closed once, also when that fails, and whatever else fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Types
from headrace.common.batch import Batch
from headrace.common.errors import UserFunctionError
from headrace.connectors.sink import SinkWriter, WriterContext, WriterEpoch
from headrace.connectors.source import SourceReader, SourceRecords
from headrace.datastream import (
    AggregateFunction,
    AsyncBatchFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import MapStateDescriptor
from headrace.testing import JobHarness
from headrace.testing.pushed import ManualSource, RecordingSink
from headrace.windowing.count_assigners import CountTumblingWindowAssigner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = Types.LONG()
RULES = MapStateDescriptor("rules", LONG, LONG)

noted: list[str] = []


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    noted.clear()


class Unclosable:
    """Notes that it is closed, and cannot be."""

    def close(self) -> Any:
        noted.append(type(self).__name__)
        raise ValueError(f"{type(self).__name__} cannot be closed")


class Mapped(Unclosable, MapFunction):
    def map(self, value: int) -> int:
        return value


class FlatMapped(Unclosable, FlatMapFunction):
    def flat_map(self, value: int) -> list[int]:
        return [value]


class Filtered(Unclosable, FilterFunction):
    def filter(self, value: int) -> bool:
        return True


class Processed(Unclosable, ProcessFunction):
    def process_element(self, value: int, ctx: Any) -> list[int]:
        return [value]


class KeyedProcessed(Unclosable, KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> list[int]:
        return [value]


class CoMapped(Unclosable, CoMapFunction):
    def map1(self, value: int) -> int:
        return value

    map2 = map1


class CoProcessed(Unclosable, CoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> list[int]:
        return [value]

    process_element2 = process_element1


class KeyedCoProcessed(Unclosable, KeyedCoProcessFunction):
    def process_element1(self, value: int, ctx: Any) -> list[int]:
        return [value]

    process_element2 = process_element1


class Broadcast(Unclosable, BroadcastProcessFunction):
    def process_element(self, value: int, ctx: Any) -> list[int]:
        return [value]

    process_broadcast_element = process_element


class Asked(Unclosable, AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        return [value]


class AwaitedClose(Asked):
    async def close(self) -> None:
        super().close()


class AskedTogether(Unclosable, AsyncBatchFunction):
    async def async_invoke_batch(self, inputs: list[int]) -> list[int]:
        return inputs


class LookedUp(Unclosable):
    def __call__(self, key: int) -> int:
        return key


class LookedUpLater(Unclosable):
    async def __call__(self, key: int) -> int:
        return key


class Reduced(Unclosable, ReduceFunction):
    def reduce(self, value1: int, value2: int) -> int:
        return value2


class Windowed(Unclosable, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[int]) -> Iterable[int]:
        return elements


class Aggregated(Unclosable, AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class Writer(Unclosable, SinkWriter):
    def begin_epoch(self, epoch: WriterEpoch) -> None:
        pass

    def write(self, batch: Batch) -> None:
        pass

    def prepare_commit(self) -> Sequence[Any]:
        return []


class Written(RecordingSink):
    def create_writer(self, context: WriterContext) -> SinkWriter:
        return Writer()


def same(numbers: Any) -> Any:
    return numbers.key_by(lambda number: 0, LONG)


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "Mapped": lambda numbers, other: numbers.map(Mapped(), LONG),
    "FlatMapped": lambda numbers, other: numbers.flat_map(FlatMapped(), LONG),
    "Filtered": lambda numbers, other: numbers.filter(Filtered()),
    "Processed": lambda numbers, other: numbers.process(Processed(), LONG),
    "KeyedProcessed": lambda numbers, other: same(numbers).process(KeyedProcessed(), LONG),
    "CoMapped": lambda numbers, other: numbers.connect(other).map(CoMapped(), LONG),
    "CoProcessed": lambda numbers, other: numbers.connect(other).process(CoProcessed(), LONG),
    "KeyedCoProcessed": lambda numbers, other: same(numbers).connect(same(other)).process(KeyedCoProcessed(), LONG),
    "Broadcast": lambda numbers, other: numbers.connect(other.broadcast(RULES)).process(Broadcast(), LONG),
    "Asked": lambda numbers, other: AsyncDataStream.ordered_wait(numbers, Asked(), 10_000, 1, LONG),
    "AwaitedClose": lambda numbers, other: AsyncDataStream.unordered_wait(numbers, AwaitedClose(), 10_000, 1, LONG),
    "AskedTogether": lambda numbers, other: AsyncDataStream.unordered_wait_batch(
        numbers, AskedTogether(), 10_000, 2, output_type=LONG
    ),
    "LookedUp": lambda numbers, other: numbers.enrich(LookedUp(), lambda number: number),
    "LookedUpLater": lambda numbers, other: numbers.enrich(LookedUpLater(), lambda number: number),
    "Reduced": lambda numbers, other: same(numbers).reduce(Reduced()),
    "Windowed": lambda numbers, other: (
        same(numbers).window(CountTumblingWindowAssigner.of(1)).process(Windowed(), LONG)
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_cannot_be_closed_is_told_and_closed_once(kind: str) -> None:
    def build(job: JobHarness) -> None:
        numbers, other = job.add_source("numbers", LONG), job.add_source("other", LONG)
        job.add_sink("out", KINDS[kind](numbers, other).uid("it"))

    with JobHarness(build) as job:
        job.push("numbers", 1)
        with pytest.raises(UserFunctionError, match=rf"(?s)uid it.*{kind} cannot be closed.*test_closing.py:\d+ in"):
            job.run_epoch()
    assert noted == [kind]


def test_a_writer_that_cannot_be_closed_is_told_and_closed_once() -> None:
    def build(job: JobHarness) -> None:
        job.add_source("numbers", LONG).sink_to(Written()).uid("it")

    with JobHarness(build) as job:
        job.push("numbers", 1)
        with pytest.raises(UserFunctionError, match=r"(?s)uid it.*Writer cannot be closed"):
            job.run_epoch()
    assert noted == ["Writer"]


class Reader(Unclosable, SourceReader):
    def read(self, piece: Any) -> Iterator[SourceRecords]:
        yield from ()


def test_a_reader_that_cannot_be_closed_is_told_and_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ManualSource, "create_reader", lambda source: Reader())
    with JobHarness(lambda job: job.add_sink("out", job.add_source("numbers", LONG))) as job:
        job.push("numbers", 1)
        with pytest.raises(UserFunctionError, match=r"(?s)source 'numbers' failed.*Reader cannot be closed"):
            job.run_epoch()
    assert noted == ["Reader"]


def test_functions_are_closed_whatever_others_fail_with(caplog: pytest.LogCaptureFixture) -> None:
    """Of those of a window, too."""

    def build(job: JobHarness) -> None:
        window = same(job.add_source("numbers", LONG)).window(CountTumblingWindowAssigner.of(1))
        totals = window.aggregate(Aggregated(), Windowed(), LONG, LONG).uid("window")
        job.add_sink("out", totals.map(Mapped(), LONG).uid("map"))

    with JobHarness(build) as job:
        job.push("numbers", 1)
        with pytest.raises(UserFunctionError, match=r"(?s)uid map.*Mapped cannot be closed"):
            job.run_epoch()
    assert noted == ["Mapped", "Aggregated", "Windowed"]
    logged = [str(record.exc_info) for record in caplog.records if "closing something else" in record.getMessage()]
    assert ["Windowed" in logged[0], "Aggregated" in logged[1], len(logged)] == [True, True, 2]


class Opened(MapFunction):
    """Notes what becomes of it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        noted.append("opened")

    def map(self, value: int) -> int:
        return value

    def close(self) -> None:
        noted.append("closed")


class NeverOpen(Opened):
    def open(self, runtime_context: RuntimeContext) -> None:
        raise ValueError("there is no server")


def test_when_one_cannot_be_opened_those_before_it_are_closed() -> None:
    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("numbers", LONG).map(Opened(), LONG).map(NeverOpen(), LONG))

    with JobHarness(build) as job, pytest.raises(UserFunctionError, match="there is no server"):
        job.run_epoch()
    assert noted == ["opened", "closed"]


class Leaves(MapFunction):
    """Notes in a folder, since it is in another process, that it is closed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def map(self, value: int) -> int:
        return value

    def close(self) -> None:
        (self._folder / f"closed-{len([*self._folder.iterdir()])}").touch()
        raise ValueError("it cannot be closed")


class LeavesLater(AsyncFunction):
    """The same, awaited."""

    def __init__(self, folder: Path) -> None:
        self._leaves = Leaves(folder)

    async def async_invoke(self, value: int) -> list[int]:
        return [value]

    async def close(self) -> None:
        self._leaves.close()


@pytest.mark.spark
@pytest.mark.parametrize(
    "apply",
    [
        lambda numbers, folder: numbers.map(Leaves(folder), LONG),
        lambda numbers, folder: AsyncDataStream.ordered_wait(numbers, LeavesLater(folder), 10_000, 1, LONG),
    ],
    ids=["map", "async"],
)
def test_on_spark_they_are_closed_once_and_told_as_well(
    spark: SparkSession, tmp_path: Path, apply: Callable[[Any, Path], Any]
) -> None:
    settings = Configuration.from_dict({"headrace.runtime": "spark", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    found: Iterator[Any]
    with (
        pytest.raises(UserFunctionError, match="it cannot be closed"),
        apply(env.from_sequence(1, 2), tmp_path).execute_and_collect() as found,
    ):
        list(found)
    assert [file.name for file in tmp_path.iterdir()] == ["closed-0"]
