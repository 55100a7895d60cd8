"""What the list of features promises of time and no test elsewhere shows; each job runs on the local runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.common import (
    ColumnarWatermarkGenerator,
    Duration,
    IngestionTimeAssigner,
    TimestampAssigner,
    Types,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from headrace.common.constants import MIN_WATERMARK
from headrace.datastream import (
    KeyedProcessFunction,
    ProcessFunction,
    TimeWindow,
)
from headrace.testing import JobHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TEXT = Types.STRING()


class SecondField(TimestampAssigner):
    """Adds the timestamp that the record has already, when it has one."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1]) + max(record_timestamp, 0)


ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


class Lateness(ProcessFunction):
    """Whether a record is behind the watermark."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value[1], ctx.timestamp(), (ctx.timestamp() or 0) <= ctx.timer_service().current_watermark()


def lateness(job: JobHarness) -> None:
    job.add_sink("out", job.add_source("in", PAIR, watermarks=ASCENDING).process(Lateness()))


def test_equal_timestamps_are_never_late() -> None:
    with JobHarness(lateness) as job:
        job.push_all("in", [("a", 5), ("a", 5), ("a", 4), ("a", 5)])
        job.push("in", ("a", 1), 4)
        job.run_epoch()
        assert job.take("out") == [(5, 5, False), (5, 5, False), (4, 4, True), (5, 5, False), (1, 5, False)]


@dataclass(frozen=True)
class Multiples(ColumnarWatermarkGenerator):
    """A generator of one's own: only timestamps that are multiples of ten make a watermark."""

    def stamp(self, timestamps: npt.NDArray[np.int64], watermark: int) -> tuple[npt.NDArray[np.int64], int]:
        made = np.where(timestamps % 10 == 0, timestamps, MIN_WATERMARK)
        stamps = np.maximum.accumulate(np.concatenate([[watermark], made]))
        return stamps[:-1], int(stamps[-1])


def test_a_columnar_watermark_generator_of_ones_own() -> None:
    strategy = WatermarkStrategy.for_generator(Multiples()).with_timestamp_assigner(lambda value, _: value[1])
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", PAIR, watermarks=strategy))) as job:
        for time, watermark in ((13, MIN_WATERMARK), (20, 20), (10, 20), (39, 20), (40, 40)):
            job.push("in", ("a", time))
            job.run_epoch()
            assert job.watermark("in") == watermark


@dataclass
class Kinds(WatermarkGenerator):
    """A generator of one's own, which looks into records: "end" is a watermark."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event[0] == "end":
            output.emit_watermark(event_timestamp)


def test_a_watermark_generator_of_ones_own() -> None:
    strategy = WatermarkStrategy.for_generator(Kinds).with_timestamp_assigner(lambda value, _: value[1])
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", PAIR, watermarks=strategy))) as job:
        for kind, time, watermark in (("a", 13, MIN_WATERMARK), ("end", 20, 20), ("end", 10, 20), ("a", 39, 20)):
            job.push("in", (kind, time))
            job.run_epoch()
            assert job.watermark("in") == watermark


def ingestion(job: JobHarness) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(IngestionTimeAssigner())
    job.add_sink("out", job.add_source("in", PAIR, watermarks=strategy).process(Lateness()))


def test_ingestion_time_is_the_clock_of_the_epoch_that_reads_a_record() -> None:
    with JobHarness(ingestion, processing_time=5) as job:
        job.push_all("in", [("a", 1), ("a", 2)])
        job.run_epoch()
        job.set_processing_time(8)
        job.push("in", ("a", 3), 99)
        job.run_epoch()
        assert job.take("out") == [(1, 5, False), (2, 5, False), (3, 8, False)]
        assert job.watermark("in") == 7


class Reminds(KeyedProcessFunction):
    """A timer at every value."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"{ctx.get_current_key()} {timestamp} {ctx.timer_service().current_watermark()}"


def idle_job(job: JobHarness) -> None:
    """The assigner is given first: idleness does not drop it."""
    strategy = ASCENDING.with_idleness(Duration.of_millis(100))
    stream = job.add_source("in", PAIR, watermarks=strategy, splits=2)
    job.add_sink("out", stream.key_by(0).process(Reminds(), TEXT))


def test_a_silent_split_holds_event_time_until_it_is_idle() -> None:
    with JobHarness(idle_job) as job:
        job.push("in", ("a", 10), split=0)
        job.push("in", ("b", 50), split=1)
        job.run_epoch()
        job.push("in", ("b", 60), split=1)
        job.set_processing_time(5)
        job.run_epoch()
        assert job.take("out") == []
        assert job.watermark("in") == 9
        job.set_processing_time(104)
        job.push("in", ("b", 61), split=1)
        job.run_epoch()
        assert job.watermark("in") == 60
        assert job.take("out") == ["a 10 59", "b 50 59", "b 60 60"]
        job.push("in", ("a", 70), split=0)
        job.push("in", ("b", 100), split=1)
        job.run_epoch()
        assert job.watermark("in") == 69, "the split is back, and holds event time again"


def test_time_windows() -> None:
    window = TimeWindow(0, 5)
    assert window.max_timestamp() == 4
    assert window.intersects(TimeWindow(4, 9))
    assert window.intersects(TimeWindow(5, 9)), "they touch"
    assert not window.intersects(TimeWindow(6, 9))
    assert window.cover(TimeWindow(7, 9)) == TimeWindow(0, 9)
