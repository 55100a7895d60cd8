"""Watermark alignment: how far splits get apart, and that those that wait never wait for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.submission import plan_graph
from headrace.common import Configuration, Duration, WatermarkStrategy
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.sources import FIRST_RECORDS
from tests.draws import draws
from tests.jobmanager.steady import TIMES, Driven, Steady


def aligned(drift: int, group: str = "all") -> WatermarkStrategy:
    return TIMES.with_watermark_alignment(group, Duration.of_millis(drift))


FAST, SLOW = Steady([(20_000, 1000)]), Steady([(1_000_000, 10)])


def test_without_a_group_a_fast_source_runs_away() -> None:
    job = Driven((FAST, TIMES), (SLOW, TIMES))
    job.run(4)
    assert job.largest_drift > 5_000_000


@pytest.mark.slow
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


@settings(max_examples=draws(10), deadline=None)
@given(
    splits=st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 1000)), min_size=1, max_size=4),
    others=st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 1000)), max_size=3),
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
    with pytest.warns(UserWarning, match="alignment has no effect: the strategy makes no watermarks"):
        strategy = WatermarkStrategy.no_watermarks().with_watermark_alignment("all", 5)
    assert strategy.alignment is None
    with pytest.raises(InvalidProgramError, match="cannot be negative"):
        TIMES.with_watermark_alignment("all", -1)
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    numbers = env.from_source(FAST, TIMES, "numbers").key_by(lambda number: number, Types.LONG()).reduce(max)
    numbers.assign_timestamps_and_watermarks(aligned(5)).sink_to(CollectSink(list))
    with pytest.raises(InvalidProgramError, match=r"before the first shuffle only(.|\n)*test_alignment.py"):
        plan_graph(env.transformations.take_next_job(), env.get_configuration(), "late", 1)


def test_idleness_behind_a_shuffle_is_told_to_have_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    strategy = TIMES.with_idleness(5)
    numbers = env.from_source(FAST, strategy, "numbers").key_by(lambda number: number, Types.LONG()).reduce(max)
    numbers.assign_timestamps_and_watermarks(strategy).uid("behind").sink_to(CollectSink(list))
    plan_graph(env.transformations.take_next_job(), env.get_configuration(), "late", 1)
    told = [record.getMessage() for record in caplog.records if "no effect" in record.getMessage()]
    assert len(told) == 1
    assert "uid behind" in told[0]
    assert "test_alignment.py" in told[0]


def test_an_update_interval_is_told_to_have_no_effect() -> None:
    with pytest.warns(UserWarning, match="before every epoch"):
        strategy = TIMES.with_timestamp_assigner("f0").with_watermark_alignment("all", 5, Duration.of_seconds(2))
    assert strategy.alignment == TIMES.with_watermark_alignment("all", 5).alignment
    assert strategy.timestamp_assigner is not None
