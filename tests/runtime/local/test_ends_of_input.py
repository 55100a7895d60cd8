"""Sources that end, that go on, and that wait for their first split, in one job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.common.typeinfo import Types
from headrace.connectors.source import EnumeratorContext, SplitEnumerator
from headrace.datastream.aggregates import count
from headrace.datastream.streams.data_stream import DataStream
from headrace.testing import JobHarness
from headrace.testing.pushed import Feed, ManualSource
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.assigners import TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
BY_SECOND_FIELD = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1")


def counted(stream: DataStream) -> DataStream:
    return stream.key_by("f0").window(TumblingEventTimeWindows.of(10)).aggregate(count())


def rows(job: JobHarness, sink: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in job.take(sink))


class Discovering(ManualSource):
    """A watched folder, say: it may find splits at any time, and has none at first."""

    def __init__(self, *, is_complete: bool = False) -> None:
        super().__init__(PAIR, 0)
        self.is_complete = is_complete

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        made = super().create_enumerator(context)
        made.is_complete = lambda: self.is_complete  # type: ignore[method-assign]
        return made

    def find(self, split: str, records: Sequence[tuple[str, int]], *, ends: bool = False) -> None:
        self.feeds[split] = Feed([(record, record[1]) for record in records], is_finished=ends)


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_part_of_the_job_that_ends_does_not_wait_for_another(is_complete: bool) -> None:
    other = Discovering(is_complete=is_complete)

    def build(job: JobHarness) -> None:
        bounded = job.env.from_collection([("a", 1), ("a", 12)], PAIR)
        job.add_sink("counts", counted(bounded.assign_timestamps_and_watermarks(BY_SECOND_FIELD)))
        job.add_sink("other", counted(job.env.from_source(other, BY_SECOND_FIELD, "other")))

    other.find("0", [("b", 5)])
    with JobHarness(build, parallelism=2) as job:
        job.run_epoch()
        assert rows(job, "counts") == [("a", 0, 10, 1), ("a", 10, 20, 1)]
        assert rows(job, "other") == []


def test_a_source_without_a_split_holds_event_time() -> None:
    watched = Discovering()

    def build(job: JobHarness) -> None:
        clicks = job.add_source("clicks", PAIR, watermarks=BY_SECOND_FIELD)
        union = clicks.union(job.env.from_source(watched, BY_SECOND_FIELD, "watched").uid("watched"))
        job.add_sink("counts", counted(union))

    with JobHarness(build) as job:
        job.push_all("clicks", [("a", 1), ("a", 100)])
        job.run_epoch()
        assert rows(job, "counts") == [], "the first file may hold records of any time"
        watched.find("1", [("a", 2), ("a", 50)])
        job.run_epoch()
        assert rows(job, "counts") == [("a", 0, 10, 2)]
        watched.feeds["1"].is_finished = True
        job.run_epoch()
        assert rows(job, "counts") == [], "the next file may hold records from 50 on"
        watched.find("2", [("a", 55), ("a", 99)], ends=True)
        job.run_epoch()
        watched.is_complete = True
        job.run_epoch()
        assert rows(job, "counts") == [("a", 50, 60, 2), ("a", 90, 100, 1)]


def test_splits_that_end_no_longer_count() -> None:
    def build(job: JobHarness) -> None:
        clicks = job.add_source("clicks", PAIR, watermarks=BY_SECOND_FIELD, splits=2)
        job.add_sink("counts", counted(clicks))
        job.add_sink("all", clicks)

    with JobHarness(build, parallelism=2) as job:
        job.push("clicks", ("a", 5), split=0)
        job.push("clicks", ("a", 100), split=1)
        job.run_epoch()
        assert rows(job, "counts") == []
        job.end_split("clicks", 0)
        job.run_epoch()
        assert rows(job, "counts") == [("a", 0, 10, 1)]
        job.finish()
        assert rows(job, "counts") == [("a", 100, 110, 1)]
        assert sorted(job.results("all")) == [("a", 5), ("a", 100)]


def test_a_job_whose_sources_are_empty_ends() -> None:
    def build(job: JobHarness) -> None:
        empty = job.env.from_collection([], PAIR).assign_timestamps_and_watermarks(BY_SECOND_FIELD)
        job.add_sink("counts", counted(empty))

    with JobHarness(build, parallelism=3) as job:
        job.finish()
        assert job.results("counts") == []
