"""Functions of two streams in headrace: with the same keyed state, or with rules that are broadcast.

With the option ``use`` ``co`` the input is halved, and both halves are connected again. With ``rules`` all of it meets
10,000 rules, of which one changes in every other epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.outcome import Assignment, Outcome, median
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, read_files, run_job
from benchmarks.programs.headrace_process import CHECKS, RESULT, CountAndSum
from headrace.common import Row, Types
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    ReadBudget,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)
from headrace.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import MapStateDescriptor
from headrace.expressions import col

RULES = 10_000
WEIGHTS = MapStateDescriptor("weights", Types.LONG(), Types.DOUBLE())
_RULE = Types.TUPLE([Types.LONG(), Types.DOUBLE()])


class OfBoth(KeyedCoProcessFunction):
    """The same as :class:`CountAndSum`, of the records of both streams."""

    open = CountAndSum.open
    process_element1 = process_element2 = CountAndSum.process_element


class Weighted(KeyedBroadcastProcessFunction):
    """The same as :class:`CountAndSum`, each value with the weight that its rule says; all of them are one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counting = CountAndSum()
        self.counting.open(runtime_context)

    def process_element(self, value: Row, ctx: Any) -> Iterator[Row] | None:
        weight = ctx.get_broadcast_state(WEIGHTS).get(value[0] % RULES) or 1.0  # records of the first epoch come first
        return self.counting.process_element(Row(value[0], value[1], value[2] * weight), ctx)

    def process_broadcast_element(self, value: tuple[int, float], ctx: Any) -> None:
        ctx.get_broadcast_state(WEIGHTS).put(*value)


class Rules(Source):
    """All rules at first; then one that has changed, every other time that it is asked.

    Args:
        changes: how many changes there are.
    """

    def __init__(self, changes: int) -> None:
        self._last = RULES + changes

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> Any:
        return _RULE

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return _Changes(self._last)

    def create_reader(self) -> SourceReader:
        return _Reader()


class _Changes(SplitEnumerator):
    def __init__(self, last: int) -> None:
        self._last = last
        self._changes_now = True

    def discover(self, now: int) -> list[str]:
        return ["rules"]

    def initial_position(self, split_id: str) -> int:
        return 0

    def plan(self, split_id: str, position: int, budget: ReadBudget, now: int) -> SplitRead | None:
        end = min(max(RULES, position + 1), self._last)
        self._changes_now = not self._changes_now
        if end == position or (position and self._changes_now):
            return None
        return SplitRead(split_id, position, end, ([position, end],), records=end - position)

    def is_finished(self, split_id: str, position: int) -> bool:
        return position >= self._last


class _Reader(SourceReader):
    def read(self, piece: Sequence[int]) -> Iterator[SourceRecords]:
        yield SourceRecords(rows=[(number % RULES, 1.0) for number in range(*piece)])


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    environment = open_environment(assignment)
    sink = CountingSink(CHECKS)
    events = read_files(environment, assignment, WatermarkStrategy.no_watermarks())
    is_co = assignment.options["use"] == "co"
    results = _of_both(events) if is_co else _weighted(environment, events, assignment.options["changes"])
    results.uid("totals").sink_to(sink)
    times = EpochTimes()
    run_job(environment, times)
    details = times.summary() if is_co else _of_rules(times, assignment)
    return Outcome(tuple(times.epochs), sink.totals, details)


def _of_both(events: DataStream) -> DataStream:
    halves = (events.filter(half).key_by("key") for half in (col("value") < 0.5, col("value") >= 0.5))
    first, second = halves
    return first.connect(second).process(OfBoth(), output_type=RESULT)


def _weighted(environment: StreamExecutionEnvironment, events: DataStream, changes: int) -> DataStream:
    rules = environment.from_source(Rules(changes), WatermarkStrategy.no_watermarks(), "rules").uid("rules")
    return events.key_by("key").connect(rules.broadcast(WEIGHTS)).process(Weighted(), output_type=RESULT)


def _of_rules(times: EpochTimes, assignment: Assignment) -> dict[str, float]:
    """The median times of epochs that change a rule, and of those that change none; the first few do not count."""
    assert assignment.records_per_epoch is not None
    steady = times.epochs[4:]
    by_records = {
        name: [epoch.seconds for epoch in steady if epoch.records == assignment.records_per_epoch + more]
        for name, more in (("no rule", 0), ("one rule", 1))
    }
    return {name: median(seconds) for name, seconds in by_records.items()}
