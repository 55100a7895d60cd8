"""Watermark alignment: how far splits get apart, and that those that wait never wait for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoint.temporary_store import TemporaryStore
from headrace.client.submission import blob_of, plan_graph
from headrace.common import Configuration, Duration, WatermarkStrategy
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.connectors.collect import CollectSink
from headrace.connectors.ranges import plan_range
from headrace.connectors.source import Boundedness, ReadBudget, Source, SourceReader, SourceRecords, SplitEnumerator
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.alignment import FIRST_RECORDS
from headrace.jobmanager.job_manager import JobManager
from headrace.jobmanager.restart import NoRestart
from headrace.jobmanager.settings import job_settings
from headrace.runtime.local.runtime import LocalRuntime
from headrace.time.clock import ManualClock

SHARE = 10_000
"""Records an epoch."""

TIMES = WatermarkStrategy.for_monotonous_timestamps()


class Steady(Source):
    """Splits of numbers, each with so many milliseconds from one record to the next.

    Args:
        splits: of each split, how many records it has and how many milliseconds there are between two.
        is_bounded: whether it ends with the last record, or is silent then.
    """

    def __init__(self, splits: Sequence[tuple[int, int]], *, is_bounded: bool = True) -> None:
        self.splits = list(splits)
        self.is_bounded = is_bounded

    boundedness = Boundedness.BOUNDED
    produced_type = Types.LONG()
    reads_in_pieces = True

    def create_enumerator(self, context: Any) -> SplitEnumerator:
        return _Enumerator(self)

    def create_reader(self) -> SourceReader:
        return _Reader(self.splits)


class _Enumerator(SplitEnumerator):
    def __init__(self, source: Steady) -> None:
        self._source = source

    def discover(self, now: int) -> list[str]:
        return [str(number) for number in range(len(self._source.splits))]

    def initial_position(self, split_id: str) -> int:
        return 0

    def plan(self, split_id: str, position: int, budget: ReadBudget, now: int) -> Any:
        read = plan_range(split_id, position, self._source.splits[int(split_id)][0], budget)
        return read and replace(read, pieces=tuple([split_id, *piece] for piece in read.pieces))

    def is_finished(self, split_id: str, position: int) -> bool:
        return self._source.is_bounded and position >= self._source.splits[int(split_id)][0]


class _Reader(SourceReader):
    def __init__(self, splits: list[tuple[int, int]]) -> None:
        self._splits = splits

    def read(self, piece: Any) -> Any:
        split, start, end = piece
        numbers = np.arange(start, end, dtype=np.int64)
        yield SourceRecords(rows=numbers.tolist(), timestamps=numbers * self._splits[int(split)][1])


class Driven:
    """A job with one sink for each source, run epoch by epoch; looks how far its splits are apart.

    Args:
        sources: each with its strategy.
    """

    def __init__(self, *sources: tuple[Steady, WatermarkStrategy]) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(Configuration())
        self.counts = [0] * len(sources)
        for number, (source, strategy) in enumerate(sources):
            stream = env.from_source(source, strategy, f"source {number}").uid(f"source-{number}")
            stream.sink_to(CollectSink(self._counted(number)))
        configuration = env.get_configuration()
        plan = plan_graph(env.transformations.take_next_job(), configuration, "aligned", 1)
        settled = job_settings(configuration, plan)
        settled = replace(
            settled, limits=replace(settled.limits, max_records=SHARE, first_records=SHARE), restart=NoRestart()
        )
        store = TemporaryStore()
        self.clock = ManualClock()
        self.manager = JobManager(plan, blob_of(plan, store.storage), LocalRuntime(), store, settled, clock=self.clock)
        self.largest_drift = 0

    def _counted(self, number: int) -> Callable[[list[Any]], None]:
        def add(records: list[Any]) -> None:
            self.counts[number] += len(records)

        return add

    def run(self, epochs: int = 10_000, *, millis: int = 0, settled_after: int = 0) -> int:
        """Run to the end, or so many epochs, or until nothing happens.

        Args:
            epochs: how many at most.
            millis: how far the clock moves before each.
            settled_after: after how many the drift is looked at.

        Returns:
            The number of epochs that were run.
        """
        self.manager.open()
        try:
            for number in range(epochs):
                self.clock.advance(millis)
                if number == settled_after:
                    self.largest_drift = 0
                if self.manager.run_epoch() is None and not millis:
                    return number
                self._look()
                if self.manager.manifest is not None and self.manager.manifest.finished:
                    return number + 1
            return epochs
        finally:
            self.manager.wait_for_commits()
            self.manager.close()

    def _look(self) -> None:
        assert self.manager.manifest is not None
        reached = [
            watermark
            for source in self.manager.manifest.sources.values()
            for split in source.splits
            if not split.finished
            for watermark in split.watermarks.values()
            if watermark > MIN_WATERMARK
        ]
        self.largest_drift = max([self.largest_drift, *(max(reached) - time for time in reached)])


def aligned(drift: int, group: str = "all") -> WatermarkStrategy:
    return TIMES.with_watermark_alignment(group, Duration.of_millis(drift))


FAST, SLOW = Steady([(20_000, 1000)]), Steady([(1_000_000, 10)])


def test_without_a_group_a_fast_source_runs_away() -> None:
    job = Driven((FAST, TIMES), (SLOW, TIMES))
    job.run(4)
    assert job.largest_drift > 5_000_000


def test_a_fast_source_waits_for_a_slow_one() -> None:
    job = Driven((FAST, aligned(60_000)), (SLOW, aligned(60_000)))
    assert job.run(90) == 90
    assert job.largest_drift <= 60_000 + 2 * FIRST_RECORDS * 1000, "what is read before the pace of a split is known"
    job = Driven((FAST, aligned(60_000)), (SLOW, aligned(60_000)))
    job.run(90, settled_after=10)
    assert job.largest_drift <= 60_000 + 1000, "a record more"
    assert job.counts[1] > 500_000


def test_alignment_does_not_slow_down_sources_of_one_pace() -> None:
    """Each epoch reads a whole share of all, though the drift that is allowed is a millionth of it."""
    splits = [(100_000, 60_000), (100_000, 60_000)]
    apart = Driven((Steady(splits), TIMES)).run()
    assert Driven((Steady(splits), aligned(60_000))).run() <= apart + 3


def test_splits_of_one_source_are_aligned_as_well() -> None:
    job = Driven((Steady([(3_000, 1000), (300_000, 10)]), aligned(500_000)))
    job.run()
    assert job.counts == [303_000]
    assert job.largest_drift <= 500_000 + 2 * FIRST_RECORDS * 1000


def test_groups_do_not_know_of_each_other() -> None:
    job = Driven((FAST, aligned(60_000, "fast")), (SLOW, aligned(60_000, "slow")))
    job.run(6)
    assert job.largest_drift > 5_000_000


def test_a_silent_split_holds_its_group_until_it_is_idle() -> None:
    silent = Steady([(1, 1)], is_bounded=False)
    job = Driven((silent, aligned(1000)), (FAST, aligned(1000)))
    assert job.run() < 10
    assert job.counts == [1, FIRST_RECORDS]
    idle = Driven((silent, aligned(1000).with_idleness(Duration.of_millis(5))), (FAST, aligned(1000)))
    idle.run(30, millis=1)
    assert idle.counts == [1, 20_000]


def test_a_split_that_waits_is_not_idle() -> None:
    patient = aligned(1000).with_idleness(Duration.of_millis(5))
    job = Driven((Steady([(1, 1)], is_bounded=False), aligned(1000)), (FAST, patient))
    job.run(30, millis=1)
    assert job.counts == [1, FIRST_RECORDS]
    assert [split.idle for split in job.manager.source("source-1").unfinished()] == [frozenset()]


def test_empty_and_finished_splits_hold_nobody() -> None:
    job = Driven((Steady([(0, 1), (1, 1), (5_000, 1000)]), aligned(10)), (Steady([(0, 1)]), aligned(10)))
    job.run(30)
    assert job.counts == [5_001, 0]


@settings(max_examples=40, deadline=None)
@given(
    splits=st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 1000)), min_size=1, max_size=4),
    others=st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 1000)), max_size=3),
    drift=st.integers(0, 100_000),
)
def test_any_mix_of_splits_comes_to_its_end_and_stays_together(
    splits: list[tuple[int, int]], others: list[tuple[int, int]], drift: int
) -> None:
    job = Driven((Steady(splits), aligned(drift)), (Steady(others), aligned(drift)))
    job.run()
    assert job.manager.manifest is not None
    assert job.manager.manifest.finished
    assert job.counts == [sum(records for records, _ in splits), sum(records for records, _ in others)]
    fastest = max((millis for _, millis in splits + others), default=0)
    assert job.largest_drift <= drift + 2 * FIRST_RECORDS * fastest + fastest


def test_what_cannot_be_aligned_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="makes none"):
        WatermarkStrategy.no_watermarks().with_watermark_alignment("all", 5)
    with pytest.raises(InvalidProgramError, match="cannot be negative"):
        TIMES.with_watermark_alignment("all", -1)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    numbers = env.from_source(FAST, TIMES, "numbers").key_by(lambda number: number, Types.LONG()).reduce(max)
    numbers.assign_timestamps_and_watermarks(aligned(5)).sink_to(CollectSink(list))
    with pytest.raises(InvalidProgramError, match=r"before the first shuffle only(.|\n)*test_alignment.py"):
        plan_graph(env.transformations.take_next_job(), env.get_configuration(), "late", 1)


def test_an_update_interval_is_told_to_have_no_effect() -> None:
    with pytest.warns(UserWarning, match="before every epoch"):
        strategy = TIMES.with_timestamp_assigner("f0").with_watermark_alignment("all", 5, Duration.of_seconds(2))
    assert strategy.alignment == TIMES.with_watermark_alignment("all", 5).alignment
    assert strategy.timestamp_assigner is not None
