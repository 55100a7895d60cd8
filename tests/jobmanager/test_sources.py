"""Splits as the driver sees them, through jobs that are driven by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.common.constants import MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.connectors.source import EnumeratorContext, ReadBudget, SplitEnumerator
from headrace.datastream.functions import KeyedProcessFunction
from headrace.jobmanager.sources import SourceCoordinator
from headrace.storage.folder import posix_folder
from headrace.testing import JobHarness
from headrace.testing.pushed import Feed, ManualSource
from headrace.time.watermark_strategy import WatermarkStrategy

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Watermarks(KeyedProcessFunction):
    """Tells the watermark of each record."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value[0], ctx.timer_service().current_watermark()


def told(strategy: WatermarkStrategy | None = None, splits: int = 2) -> Any:
    def build(job: JobHarness) -> None:
        stream = job.add_source("in", PAIR, watermarks=strategy, splits=splits)
        job.add_sink("out", stream.key_by("f0").process(Watermarks(), PAIR))

    return build


def test_the_slowest_split_counts() -> None:
    with JobHarness(told()) as job:
        job.advance_watermark("in", 50, split=0)
        job.push("in", ("a", 1))
        job.run_epoch()
        job.advance_watermark("in", 20, split=1)
        job.push("in", ("a", 1))
        job.run_epoch()
        assert job.take("out") == [("a", MIN_WATERMARK), ("a", 20)]
        assert job.watermark("in") == 20


def test_a_silent_split_no_longer_counts_after_its_idle_timeout() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1").with_idleness(1000)
    with JobHarness(told(strategy)) as job:
        job.push_all("in", [("a", 10), ("a", 20)], split=0)
        job.run_epoch()
        assert {watermark for _, watermark in job.take("out")} == {MIN_WATERMARK}
        job.advance_processing_time(999)
        job.push("in", ("a", 30), split=0)
        job.run_epoch()
        assert job.take("out") == [("a", MIN_WATERMARK)]
        job.advance_processing_time(1)  # the other one has been silent for a second
        job.push_all("in", [("a", 40), ("a", 50)], split=0)
        job.run_epoch()
        assert job.take("out") == [("a", 29), ("a", 39)]
        job.push("in", ("a", 5), split=1)  # it is back, and behind: time stands still, it does not go back
        job.push("in", ("a", 60), split=0)
        job.run_epoch()
        assert job.take("out") == [("a", 49), ("a", 49)]
        assert job.watermark("in") == 4


def test_when_all_splits_are_idle_the_furthest_counts() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1").with_idleness(1000)
    with JobHarness(told(strategy)) as job:
        job.push("in", ("a", 100), split=0)
        job.push("in", ("a", 50), split=1)
        job.run_epoch()
        job.take("out")
        job.advance_processing_time(1000)
        job.run_epoch()
        assert job.watermark("in") == 99  # and not the end of input
        job.push("in", ("a", 70), split=1)
        job.run_epoch()
        assert job.take("out") == [("a", 99)]


def test_positions_and_watermarks_survive_a_restart() -> None:
    with JobHarness(told()) as job:
        job.push_all("in", [("a", 1), ("b", 2)])
        job.advance_watermark("in", 33)
        checkpoint = job.checkpoint()
    with JobHarness(told(), restore=checkpoint, parallelism=3) as job:
        assert job.watermark("in") == 33
        job.push("in", ("a", 3))
        job.run_epoch()
        assert job.take("out") == [("a", 33)]
        assert job.counters()["numRecordsRead"] == 3


class _Hungry(ManualSource):
    """Splits that have as much as is asked for."""

    def __init__(self, splits: int) -> None:
        super().__init__(PAIR, splits)
        self.asked: list[tuple[str, ReadBudget]] = []

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        made = super().create_enumerator(context)
        plan = made.plan

        def planned(split_id: str, position: Any, budget: ReadBudget, now: int) -> Any:
            self.asked.append((split_id, budget))
            self.feeds[split_id] = Feed([(("a", 1), 1)] * budget.records)
            return plan(split_id, position, budget, now)

        made.plan = planned  # type: ignore[method-assign]
        return made


def coordinator(source: ManualSource) -> SourceCoordinator:
    from headrace.connectors.driver_sink import CollectSink
    from headrace.datastream import StreamExecutionEnvironment
    from headrace.plan.job_plan import PlanSettings
    from headrace.plan.planner import plan_job

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "in").sink_to(CollectSink(list))
    job = plan_job(env.transformations.next_job(), PlanSettings("job", 2, 128))
    planned = next(operator for operator in job.operators() if not operator.node.inputs)
    context = EnumeratorContext(planned.parallelism, posix_folder(Path("/nowhere")))
    return SourceCoordinator(planned, job, context, None, iter(range(10)), 0)


def test_the_split_that_lags_behind_is_read_first_and_the_budget_is_shared() -> None:
    source = _Hungry(3)
    found = coordinator(source)
    for split, watermark in (("0", 30), ("1", 10), ("2", 20)):
        found.advance_watermark(split, watermark, 0)
    plans = found.plan(ReadBudget(300, 1 << 30), 0)
    assert [split for split, _ in source.asked] == ["1", "2", "0"]
    assert [budget.records for _, budget in source.asked] == [100, 100, 100]
    assert sum(planned.read.records for planned in plans if planned.read is not None) == 300


@pytest.mark.parametrize("records", [1, 2])
def test_every_split_gets_something(records: int) -> None:
    source = _Hungry(3)
    found = coordinator(source)
    found.discover(0)
    found.plan(ReadBudget(records, 1 << 30), 0)
    assert all(budget.records >= 1 for _, budget in source.asked)


def test_a_split_ends_once() -> None:
    source = ManualSource(PAIR)
    found = coordinator(source)
    source.feeds["0"].is_finished = True
    found.discover(0)
    (planned,) = found.plan(ReadBudget(10, 10), 0)
    assert planned.ends
    assert planned.changes_something
    found.completed([planned], {}, 0)
    assert found.plan(ReadBudget(10, 10), 0) == []
    assert [split.finished for split in found.snapshot().splits] == [True]
