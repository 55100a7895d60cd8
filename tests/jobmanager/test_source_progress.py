"""How far sources are behind, and what that does to epochs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.common import Configuration, WatermarkStrategy
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.typeinfo import Types
from headrace.connectors.hybrid import HybridSource
from headrace.connectors.ranges import NumberSequenceSource
from headrace.connectors.source import Pending
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.epoch_plan import EpochSizer
from headrace.jobmanager.events import EpochStatistics
from headrace.jobmanager.metrics import ReadingHistory, SourceProgress, by_shown_name
from headrace.jobmanager.settings import EpochLimits, job_settings
from headrace.testing import JobHarness
from tests.jobmanager.steady import TIMES, Driven, Steady

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def test_a_source_tells_records_and_times() -> None:
    progress = SourceProgress("in", Pending(7, 700), 1_000, 4_000, True, (1_100, 2_100), uid="orders")
    assert by_shown_name(progress.metrics(5_000), {"orders": "in"}) == {
        "in.pendingRecords": 7,
        "in.pendingBytes": 700,
        "in.currentFetchEventTimeLag": 1_100,
        "in.currentEmitEventTimeLag": 2_100,
        "in.watermarkLag": 4_000,
        "in.sourceIdleTime": 1_000,
        "in.isProcessingBacklog": 1,
    }


def test_what_is_not_known_is_not_told() -> None:
    progress = SourceProgress("in", Pending(), -(2**63), 0, uid="orders")
    assert by_shown_name(progress.metrics(5), {"orders": "in"}) == {"in.sourceIdleTime": 5, "in.isProcessingBacklog": 0}


@pytest.mark.parametrize(
    ("splits", "total"),
    [
        ([], Pending(0, 0)),
        ([Pending(1, 10), Pending(2, 20)], Pending(3, 30)),
        ([Pending(1), Pending(2)], Pending(3)),
        ([Pending(bytes=50), Pending(bytes=30)], Pending(8, 80)),
        ([Pending(), Pending(1, 2)], Pending()),
        ([Pending(bytes=0)], Pending(0, 0)),
    ],
)
def test_splits_are_added_up_and_records_follow_from_bytes(splits: list[Pending], total: Pending) -> None:
    history = ReadingHistory(0)
    history.add(10, 100, [], 0, 0)
    assert history.total(splits) == total


def test_the_split_that_is_furthest_behind_counts() -> None:
    history = ReadingHistory(5)
    history.add(0, 0, [7], 10, 11)
    assert (history.lags, history.idle_since) == (None, 5)
    history.add(2, 0, [NO_TIMESTAMP, 30, 20, None], 40, 41)
    assert (history.lags, history.idle_since) == ((20, 21), 41)
    assert history.total([Pending(bytes=1)]) == Pending(None, 1), "no bytes were told, so nothing can be estimated"


def gauges(job: Driven) -> dict[str, int]:
    return {name.removeprefix("source 0."): value for name, value in job.manager.shown_metrics().items()}


@pytest.fixture
def steady() -> Iterator[Driven]:
    """Two splits of 30,000 records, one a millisecond, the other one every two; the clock stands at 100,000."""
    job = Driven((Steady([(30_000, 1), (30_000, 2)], is_bounded=False), TIMES))
    job.clock.set(100_000)
    job.manager.open()
    yield job
    job.manager.close()


def test_a_job_tells_how_old_records_are(steady: Driven) -> None:
    assert steady.manager.metrics() == {}
    steady.manager.run_epoch()  # 5,000 records of each split
    found = gauges(steady)
    assert found["currentFetchEventTimeLag"] == found["currentEmitEventTimeLag"] == 100_000 - 4_999
    assert found["watermarkLag"] == 100_000 - 4_998
    assert found["sourceIdleTime"] == 0
    steady.clock.set(100_700)
    assert gauges(steady)["sourceIdleTime"] == 700


def test_pending_records_are_those_that_the_sources_have() -> None:
    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", PAIR, splits=2))
        job.add_sink("other", job.add_source("more", PAIR))

    with JobHarness(build) as job:
        job.push_all("in", [("a", 1), ("a", 2)])
        job.run_epoch()
        latest = job._manager.status().latest
        assert latest is not None
        assert latest.pending_records == 0
        assert [source.pending for source in latest.sources] == [Pending(0), Pending(0)]


def test_records_are_pending_only_where_all_sources_know() -> None:
    def statistics(*pending: Pending) -> EpochStatistics:
        sources = tuple(SourceProgress("in", each, 0, 0) for each in pending)
        return EpochStatistics(1, 0, 0, 0, 0, 0, 0, 0, sources=sources)

    assert statistics().pending_records is None
    assert statistics(Pending(2), Pending(3)).pending_records == 5
    assert statistics(Pending(2), Pending()).pending_records is None


def test_a_watermark_far_behind_is_a_backlog(steady: Driven) -> None:
    steady.manager.run_epoch()
    source = steady.manager.source("source-0")
    assert not source.is_processing_backlog(100_000, None)
    assert source.is_processing_backlog(100_000, 95_001)
    assert not source.is_processing_backlog(100_000, 95_002)


def test_epochs_are_longer_during_a_backlog_and_short_at_once_after_it() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0, backlog_seconds=8.0))

    def run(epochs: int, *, is_backlog: bool) -> list[float]:
        times = []
        for _ in range(epochs):
            sizer.aim(is_backlog=is_backlog)
            records = sizer.budget().records
            times.append(0.1 + records / 1_000_000)
            sizer.observe(records, times[-1])
        return times

    assert max(run(10, is_backlog=False)[-3:]) < 1.2
    assert min(run(10, is_backlog=True)[-3:]) > 6.0
    assert max(run(10, is_backlog=False)) < 1.3


def test_a_shorter_interval_during_a_backlog_has_no_effect() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0, backlog_seconds=0.1))
    before = sizer.budget()
    sizer.aim(is_backlog=True)
    assert sizer.budget() == before


def test_the_options_of_a_backlog() -> None:
    job = Driven((Steady([(1, 1)]), WatermarkStrategy.no_watermarks()))
    plan = job.manager.plan
    assert job_settings(Configuration(), plan).limits.backlog_seconds == 10.0
    assert job_settings(Configuration(), plan).backlog_lag is None
    given = {
        "execution.checkpointing.interval-during-backlog": "30 s",
        "pipeline.backlog.watermark-lag-threshold": "5 min",
    }
    settings = job_settings(Configuration.from_dict(given), plan)
    assert (settings.limits.backlog_seconds, settings.backlog_lag) == (30.0, 300_000)
    without = Configuration.from_dict({"execution.checkpointing.interval-during-backlog": "0"})
    assert job_settings(without, plan).limits.backlog_seconds == 60.0
    job.manager.close()


def test_the_client_tells_it() -> None:
    settings = {
        "headrace.runtime": "local",
        "parallelism.default": "1",
        "headrace.epoch.max-records": "4",
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, before: number)
    env.from_source(NumberSequenceSource(1, 10), times, "numbers").print()
    client = env.execute_async()
    client.get_job_execution_result().result()
    metrics = client.get_metrics().result()
    assert (metrics["numbers.pendingRecords"], metrics["numbers.pendingBytes"]) == (0, 0)
    assert metrics["numbers.currentEmitEventTimeLag"] >= metrics["numbers.currentFetchEventTimeLag"] > 10**12
    assert metrics["numbers.isProcessingBacklog"] == 0
    assert "numbers.watermarkLag" not in metrics, "the input has ended"


def test_the_first_epoch_after_history_is_short_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    monkeypatch.setattr(EpochSizer, "aim", lambda self, *, is_backlog: said.append(is_backlog))
    settings = {"headrace.runtime": "local", "parallelism.default": "1"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = HybridSource.builder(NumberSequenceSource(1, 10)).add_source(NumberSequenceSource(11, 20)).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").print()
    assert env.execute().get_accumulator_result("numEpochs") == 2
    assert said == [True, False]
