"""Where event time is in a running job: its splits, its operators, and how far groups are apart."""

from __future__ import annotations

from typing import Any

from headrace.client.progress import JobProgress
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.events import EpochStatistics
from headrace.jobmanager.metrics import SplitProgress, WatermarkProgress, by_shown_name
from headrace.jobmanager.status import JobStatusStore
from tests.jobmanager.steady import SHARE, TIMES, Driven, Steady

BACKLOG = 100 * SHARE


def after(epochs: int, *sources: tuple[Steady, WatermarkStrategy], millis: int = 0) -> EpochStatistics:
    job = Driven(*sources)
    job.run(epochs, millis=millis)
    latest = job.manager.status().latest
    assert latest is not None
    return latest


def event_time(statistics: EpochStatistics) -> WatermarkProgress:
    assert statistics.event_time is not None
    return statistics.event_time


def shown(progress: WatermarkProgress) -> dict[str, int]:
    return by_shown_name(progress.metrics(), progress.plan.shown_names())


def test_splits_and_operators_tell_their_watermarks() -> None:
    """Two splits share an epoch evenly; the watermark is a millisecond behind the newest record."""
    latest = after(1, (Steady([(BACKLOG, 1), (BACKLOG, 3)]), TIMES), millis=20_000)
    share = SHARE // 2
    slow, fast = (share - 1) - 1, (share - 1) * 3 - 1
    assert shown(event_time(latest)) == {
        "source 0 Watermarks.currentInputWatermark": MIN_WATERMARK,
        "source 0 Watermarks.currentOutputWatermark": slow,
        "source 0 Watermarks.watermarkLag": 20_000 - slow,
        "Sink: CollectSink.currentInputWatermark": slow,
        "Sink: CollectSink.currentOutputWatermark": slow,
        "Sink: CollectSink.watermarkLag": 20_000 - slow,
        "source 0.0.currentWatermark": slow,
        "source 0.1.currentWatermark": fast,
    }
    assert str(event_time(latest).slowest()) == "source 0[0]"


def test_an_idle_split_has_no_say() -> None:
    silent = Steady([(1, 1), (BACKLOG, 1)], is_bounded=False)
    latest = after(4, (silent, TIMES.with_idleness(20)), millis=10)
    assert [split.is_idle for split in event_time(latest).splits] == [True, False]
    assert str(event_time(latest).slowest()) == "source 0[1]"
    gauges = shown(event_time(latest))
    assert gauges["source 0.0.currentWatermark"] == -1
    assert gauges["source 0 Watermarks.currentOutputWatermark"] == gauges["source 0.1.currentWatermark"] > 0


def test_the_drift_of_a_group_and_who_waits() -> None:
    strategy = TIMES.with_watermark_alignment("all", 1000)
    latest = after(3, (Steady([(BACKLOG, 1000)]), strategy), (Steady([(BACKLOG, 1)]), strategy))
    gauges, splits = shown(event_time(latest)), event_time(latest).splits
    assert [split.is_held_back for split in splits] == [True, False]
    fast, slow = (split.watermark for split in splits)
    assert gauges["source 0 Watermarks.watermarkAlignmentDrift"] == fast - slow > 1000
    assert gauges["source 1 Watermarks.watermarkAlignmentDrift"] == 0
    progress = JobProgress(JobStatusStore("job").snapshot.after(latest, 0))
    assert progress.facts["slowest split"] == "source 1[0]"
    assert progress.facts["waiting splits"] == "1 held back"


def test_without_event_time_there_is_nothing_to_tell_of_splits() -> None:
    latest = after(1, (Steady([(5, 1)]), WatermarkStrategy.no_watermarks()))
    assert event_time(latest).slowest() is None
    assert set(shown(event_time(latest)).values()) == {MIN_WATERMARK}


def test_a_split_shows_itself() -> None:
    assert str(SplitProgress("orders", "3", {"times": 5})) == "orders[3]"


def test_the_client_tells_it_of_every_operator() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    records: list[Any] = [("a", 1_000), ("a", 90_000), ("a", 2_000), ("a", 95_000)]
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1")
    source = env.from_collection(records, Types.TUPLE([Types.STRING(), Types.LONG()]))
    timed = source.assign_timestamps_and_watermarks(times).name("times")
    timed.key_by("f0").sum("f1").name("total").print()
    client = env.execute_async("job")
    client.get_job_execution_result().result()
    metrics = client.get_metrics().result()
    assert metrics["total.numRecordsIn"] == 4
    assert metrics["times.currentInputWatermark"] == MIN_WATERMARK
    assert metrics["times.currentOutputWatermark"] == MAX_WATERMARK
    assert metrics["total.currentInputWatermark"] == MAX_WATERMARK
    assert metrics["total.currentOutputWatermark"] == MAX_WATERMARK
    assert metrics["Print to Std. Out.currentOutputWatermark"] == MAX_WATERMARK
    assert "total.watermarkLag" not in metrics
