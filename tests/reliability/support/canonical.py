"""The canonical topology of exactly-once tests.

Numbers in splits → a shuffle that keeps the order of every split → a map with state that fails → a shuffle that
distributes every split over all tasks in a way that depends on the data alone → files.

Two functions number what they see in keyed state, so an error in the state shows in the output as well as a record
that is lost, doubled or out of order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common import Configuration, Encoder, Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OnCheckpointRollingPolicy,
    RollingPolicy,
)
from headrace.datastream.state import ValueStateDescriptor
from tests.reliability.support.numbers import NumbersInSplits, split_of
from tests.reliability.support.outputs import Verdict, Verifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.connectors.sink import Sink
    from tests.reliability.support.faults import FaultPlan

SPLITS = 4
COUNT = 8_000
PARALLELISM = 4
EPOCHS = 10
KEYS = 64

FAILING_MAP = "the map raises"
FAILING_NUMBER = COUNT * SPLITS // 4 + 1

OUTPUT = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])

Record = tuple[int, ...]


class FailingMap(KeyedProcessFunction):
    """Numbers the records of each split, and raises at a certain record if that is planned.

    Args:
        plan: the faults.
    """

    def __init__(self, plan: FaultPlan | None) -> None:
        self._plan = plan

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        if value == FAILING_NUMBER and self._plan is not None and self._plan.strikes(FAILING_MAP):
            raise ValueError("this record does not please me")
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        yield value, seen


class Numbering(KeyedProcessFunction):
    """Numbers the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int, int]]:
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        yield value[0], value[1], seen


def key_in_split(number: int) -> int:
    """One of the keys over which the numbers of a split are spread; no two splits share one."""
    return number % (KEYS * SPLITS)


def expected() -> Iterator[Record]:
    """Each number with its place in its split and its place among those with the same key."""
    for number in range(SPLITS * COUNT):
        yield number, number // SPLITS + 1, number // (SPLITS * KEYS) + 1


def verify(folder: Path) -> Verdict:
    """What is wrong with an output of the topology."""
    verifier: Verifier[Record] = Verifier(
        expected(),
        lambda line: tuple(map(int, line.strip("()").split(","))),
        lambda record: (split_of(record[0], SPLITS), record[0]),
    )
    return verifier.verify(folder)


EXACT = Verdict(outputs=SPLITS * COUNT, lost=0, duplicates=0, unknown=0, out_of_order=0)


def row_sink(folder: str | Path, policy: RollingPolicy | None = None) -> FileSink:
    """Lines of text in one folder."""
    return (
        FileSink.for_row_format(folder, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(policy or OnCheckpointRollingPolicy())
        .build()
    )


def configuration(folder: Path, **settings: str) -> Configuration:
    """Settings of a job with many epochs, all of its state in files."""
    chosen = {
        "headrace.runtime": "local",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.data-inline-threshold": "1b",
        "headrace.epoch.max-records": str(COUNT * SPLITS // EPOCHS // PARALLELISM),
        "headrace.epoch.target-duration": "60s",
        "restart-strategy.exponential-delay.initial-backoff": "100ms",
    } | settings
    made = Configuration()
    for key, value in chosen.items():
        made.set_string(key, value)
    return made


def build(
    settings: Configuration, sink: Sink, plan: FaultPlan | None = None, pause: float = 0.0
) -> StreamExecutionEnvironment:
    """An environment in which the topology is ready to be executed."""
    env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(PARALLELISM)
    numbers = env.from_source(NumbersInSplits(SPLITS, COUNT, pause), WatermarkStrategy.no_watermarks(), "numbers")
    mapped = (
        numbers.uid("numbers")
        .key_by(lambda number: split_of(number, SPLITS), Types.LONG())
        .process(FailingMap(plan), Types.TUPLE([Types.LONG(), Types.LONG()]))
        .name("failing map")
        .uid("failing-map")
    )
    numbered = (
        mapped.key_by(lambda pair: key_in_split(pair[0]), Types.LONG())
        .process(Numbering(), OUTPUT)
        .name("numbering")
        .uid("numbering")
    )
    numbered.sink_to(sink).name("files").uid("files")
    return env
