"""The harness as its users meet it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from headrace.common.errors import InvalidProgramError, StateMigrationError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.connectors.ranges import NumberSequenceSource
from headrace.connectors.source import EnumeratorContext, SplitEnumerator
from headrace.datastream.aggregates import count
from headrace.datastream.functions import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor
from headrace.testing import JobHarness
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.assigners import TumblingEventTimeWindows

CLICK = Types.TUPLE([Types.STRING(), Types.INT()])
LATE = OutputTag("late", CLICK)


class CountClicks(KeyedProcessFunction):
    """Counts, and says who was silent for ten seconds, by both clocks."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        timers = ctx.timer_service()
        if ctx.timestamp() is not None:
            timers.register_event_time_timer(ctx.timestamp() + 10_000)
        timers.register_processing_time_timer(timers.current_processing_time() + 10_000)
        yield value[0], total

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield f"{ctx.get_current_key()} {ctx.time_domain().name}", timestamp


def clicks_per_user(job: JobHarness) -> None:
    clicks = job.add_source("clicks", CLICK)
    job.add_sink("counts", clicks.key_by("f0").process(CountClicks(), CLICK).uid("counter"))


def test_records_come_out_when_an_epoch_is_run() -> None:
    with JobHarness(clicks_per_user) as job:
        job.push("clicks", ("ann", 1), timestamp=10)
        assert job.results("counts") == []
        job.run_epoch()
        assert job.results("counts") == [("ann", 1)]
        job.push_all("clicks", [("ann", 2), ("bob", 5)], timestamps=[11, 12])
        job.run_epoch()
        assert job.take("counts") == [("ann", 1), ("ann", 3), ("bob", 5)]
        assert job.take("counts") == []
        assert job.results_with_timestamps("counts")[1:] == [(("ann", 3), 11), (("bob", 5), 12)]


def test_a_watermark_between_records_is_in_force_between_them() -> None:
    with JobHarness(clicks_per_user) as job:
        job.push("clicks", ("ann", 1), timestamp=0)
        job.advance_watermark("clicks", 10_000)
        job.push("clicks", ("ann", 1), timestamp=1)
        job.run_epoch()
        assert job.take("counts") == [("ann", 1), ("ann EVENT_TIME", 10_000), ("ann", 2)]
        assert job.watermark("clicks") == 10_000
        job.advance_watermark("clicks", 10_001)
        job.run_epoch()
        assert job.take("counts") == [("ann EVENT_TIME", 10_001)]


def test_processing_time_is_the_tests() -> None:
    with JobHarness(clicks_per_user, processing_time=500) as job:
        job.push("clicks", ("ann", 1))
        job.run_epoch()
        job.advance_processing_time(9_999)
        job.run_epoch()
        assert job.take("counts") == [("ann", 1)]
        job.set_processing_time(10_500)
        job.run_epoch()
        assert job.take("counts") == [("ann PROCESSING_TIME", 10_500)]
        assert job.processing_time() == 10_500
        with pytest.raises(ValueError, match="cannot go back"):
            job.set_processing_time(1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_a_checkpoint_goes_on_at_another_parallelism(parallelism: int) -> None:
    with JobHarness(clicks_per_user, parallelism=3) as job:
        job.push_all("clicks", [(name, 1) for name in "abcdefgh"], timestamps=range(8))
        checkpoint = job.checkpoint()
        job.push("clicks", ("a", 100))  # the job goes on; the checkpoint does not see it
        job.run_epoch()
    for _ in range(2):
        with JobHarness(clicks_per_user, parallelism=parallelism, restore=checkpoint, processing_time=5) as job:
            job.push_all("clicks", [(name, 1) for name in "abcdefgh"], timestamps=range(8))
            job.run_epoch()
            assert sorted(job.take("counts")) == [(name, 2) for name in "abcdefgh"]
            job.finish()
            timers = sorted(record for record in job.take("counts") if "EVENT" in record[0])
            assert timers == [(f"{name} EVENT_TIME", 10_000 + number) for number, name in enumerate("abcdefgh")]


def test_a_checkpoint_needs_the_same_operators() -> None:
    with JobHarness(clicks_per_user) as job:
        job.push("clicks", ("ann", 1))
        checkpoint = job.checkpoint()

    def renamed(job: JobHarness) -> None:
        job.add_sink("counts", job.add_source("clicks", CLICK).key_by("f0").process(CountClicks(), CLICK).uid("new"))

    with pytest.raises(StateMigrationError, match="uid counter"), JobHarness(renamed, restore=checkpoint):
        pass


def test_the_end_of_input_fires_windows_and_event_timers() -> None:
    def build(job: JobHarness) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        clicks = job.add_source("clicks", CLICK, watermarks=strategy)
        windowed = clicks.key_by("f0").window(TumblingEventTimeWindows.of(10)).side_output_late_data(LATE)
        counts = windowed.aggregate(count())
        job.add_sink("counts", counts)
        job.add_sink("late", counts.get_side_output(LATE))

    with JobHarness(build) as job:
        job.push_all("clicks", [("a", 1), ("a", 2), ("a", 3), ("a", 4)], timestamps=[1, 12, 5, 13])
        job.run_epoch()
        assert [tuple(row) for row in job.take("counts")] == [("a", 0, 10, 1)]
        assert job.take("late") == [("a", 3)]
        job.finish()
        assert [tuple(row) for row in job.take("counts")] == [("a", 10, 20, 2)]
        assert job.watermark("clicks") is None
        with pytest.raises(InvalidProgramError, match="come to its end"):
            job.run_epoch()


def test_several_splits() -> None:
    def build(job: JobHarness) -> None:
        clicks = job.add_source("clicks", CLICK, splits=2)
        job.add_sink("counts", clicks.key_by("f0").process(CountClicks(), CLICK))

    with JobHarness(build, parallelism=2) as job:
        job.push("clicks", ("ann", 1), timestamp=0, split=1)
        job.advance_watermark("clicks", 20_000, split=0)
        job.run_epoch()
        assert job.take("counts") == [("ann", 1)]
        job.advance_watermark("clicks", 20_000)
        job.run_epoch()
        assert job.take("counts") == [("ann EVENT_TIME", 10_000)]
        with pytest.raises(InvalidProgramError, match="splits 0 to 1, there is no split 2"):
            job.push("clicks", ("ann", 1), split=2)


def test_a_field_that_is_used_as_state_is_found_out() -> None:
    class Forgetful(KeyedProcessFunction):
        seen = 0

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
            self.seen += 1
            yield value[0], self.seen

    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("clicks", CLICK).key_by("f0").process(Forgetful(), CLICK))

    for fresh, second in ((True, 1), (False, 2)):
        with JobHarness(build, fresh_functions=fresh) as job:
            for _ in range(2):
                job.push("clicks", ("ann", 1))
                job.run_epoch()
            assert job.results("out") == [("ann", 1), ("ann", second)]


def test_mistakes_are_named() -> None:
    with JobHarness(clicks_per_user) as job:
        with pytest.raises(InvalidProgramError, match=r"no source 'click'; it has 'clicks'"):
            job.push("click", ("ann", 1))
        with pytest.raises(InvalidProgramError, match=r"no sink 'count'; it has 'counts'"):
            job.results("count")

    def twice(job: JobHarness) -> None:
        job.add_source("clicks", CLICK)
        job.add_source("clicks", CLICK)

    with pytest.raises(InvalidProgramError, match="two sources of the name 'clicks'"):
        JobHarness(twice)

    def automatic(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("clicks", CLICK, watermarks=WatermarkStrategy.for_monotonous_timestamps()))

    with JobHarness(automatic) as job, pytest.raises(InvalidProgramError, match="makes watermarks of its records"):
        job.advance_watermark("clicks", 1)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda job: job.push("clicks", ("ann", 1), timestamp=1.5), r"a timestamp is an int, .*, not 1\.5\n  at "),
        (lambda job: job.push("clicks", ("ann", 1), timestamp="1"), "a timestamp is an int, .*, not '1'"),
        (lambda job: job.push_all("clicks", [("ann", 1)], 7), "a list of timestamps, one for each record, not 7"),
        (lambda job: job.push_all("clicks", [("ann", 1)], [7, 8]), "1 records and 2 timestamps: each record has its"),
        (lambda job: job.advance_watermark("clicks", "5"), "a watermark is an int, .*, not '5'"),
        (lambda job: job.window("counts", "ann", (0, 10)), r"window takes a Window, not \(0, 10\)"),
    ],
)
def test_moments_that_are_none_are_refused(mistake: Callable[[JobHarness], Any], said: str) -> None:
    with JobHarness(clicks_per_user) as job, pytest.raises(InvalidProgramError, match=said):
        mistake(job)


def test_timestamps_may_be_those_of_numpy() -> None:
    with JobHarness(clicks_per_user) as job:
        job.push_all("clicks", [("ann", 1), ("ann", 2)], np.array([5, 6]))
        job.run_epoch()
        assert [timestamp for _, timestamp in job.results_with_timestamps("counts")] == [5, 6]


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with JobHarness(clicks_per_user) as job:
        job.push("clicks", ("ann", 1))
        checkpoint = job.checkpoint()
    assert list(tmp_path.iterdir()) == [checkpoint.directory]
    del checkpoint
    assert list(tmp_path.iterdir()) == []


def test_counters_and_configuration() -> None:
    with JobHarness(clicks_per_user, configuration={"pipeline.max-parallelism": "16"}) as job:
        job.push("clicks", ("ann", 1))
        job.run_epoch()
        assert job.counters()["numRecordsRead"] == 1
        assert job.env.get_max_parallelism() == 16


class StorageAsked(NumberSequenceSource):
    """Says how it may reach storage."""

    options: ClassVar[list[Mapping[str, str]]] = []

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        self.options.append(context.storage_options)
        return super().create_enumerator(context)


def test_sources_reach_storage_as_the_configuration_says() -> None:
    def build(job: JobHarness) -> None:
        job.add_sink("numbers", job.env.from_source(StorageAsked(1, 3), WatermarkStrategy.no_watermarks(), "numbers"))

    with JobHarness(build, configuration={"headrace.storage.endpoint": "http://127.0.0.1:9"}) as job:
        job.run_epoch()
        assert job.take("numbers") == [1, 2, 3]
    assert [options["endpoint"] for options in StorageAsked.options] == ["http://127.0.0.1:9"]


def test_a_source_an_operator_and_a_sink_of_the_same_name() -> None:
    def build(job: JobHarness) -> None:
        doubled = job.add_source("numbers", Types.LONG()).map(lambda number: 2 * number, Types.LONG()).uid("doubled")
        job.add_sink("doubled", doubled)
        job.add_sink("numbers", doubled)

    with JobHarness(build) as job:
        job.push("numbers", 4)
        job.run_epoch()
        assert (job.take("doubled"), job.take("numbers")) == ([8], [8])


def test_a_job_may_end_before_anything_was_pushed() -> None:
    """Without an epoch before, and without a with statement."""

    def job(harness: JobHarness) -> None:
        harness.add_sink("out", harness.add_source("words", str))

    harness = JobHarness(job)
    harness.finish()
    assert harness.results("out") == []
    harness.close()
