"""What a harness shows of a job between epochs: windows, timers, event time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.common import Row, Time, Types
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.datastream import AggregateFunction, KeyedProcessFunction, TimeDomain, aggregates
from headrace.datastream.streams.windowed_stream import WindowedStream
from headrace.datastream.window import (
    CountEvictor,
    CountTrigger,
    CountWindow,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from headrace.testing import JobHarness, PendingTimer, StoredWindow

CLICK = Types.TUPLE([Types.STRING(), Types.LONG()])
CLICKS = [("ann", 1), ("bob", 2), ("ann", 3), ("ann", 4)]
TIMES = [1, 2, 12, 5]
FIRST, SECOND = TimeWindow(0, 10), TimeWindow(10, 20)
TENS = TumblingEventTimeWindows.of(10)
Build = Callable[[WindowedStream], Any]


def of(assigner: Any, finish: Build) -> Callable[[JobHarness], None]:
    def build(job: JobHarness) -> None:
        windows = job.add_source("clicks", CLICK).key_by(lambda click: click[0], Types.STRING()).window(assigner)
        job.add_sink("out", finish(windows).uid("w"))

    return build


def added(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1]


def counted(stream: WindowedStream) -> Any:
    return stream.aggregate(aggregates.count().alias("n"), aggregates.sum("f1").alias("total"))


def elements(stream: WindowedStream) -> Any:
    return stream.apply(lambda key, window, values: [len(values)], Types.INT())


def row(key: str, window: TimeWindow, n: int, total: int) -> Row:
    return Row(f0=key, window_start=window.start, window_end=window.end, n=n, total=total)


LISTED = [("ann", FIRST, [("ann", 1), ("ann", 4)]), ("bob", FIRST, [("bob", 2)]), ("ann", SECOND, [("ann", 3)])]
REDUCED = [("ann", FIRST, [("ann", 5)]), ("bob", FIRST, [("bob", 2)]), ("ann", SECOND, [("ann", 3)])]
COUNTED = [
    ("ann", FIRST, [row("ann", FIRST, 2, 5)]),
    ("bob", FIRST, [row("bob", FIRST, 1, 2)]),
    ("ann", SECOND, [row("ann", SECOND, 1, 3)]),
]
OWN_TRIGGER: Build = lambda stream: stream.trigger(CountTrigger.of(99))  # noqa: E731


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        (elements, LISTED),
        (lambda s: s.reduce(added), REDUCED),
        (counted, COUNTED),
        (lambda s: elements(OWN_TRIGGER(s)), LISTED),
        (lambda s: OWN_TRIGGER(s).reduce(added), REDUCED),
        (lambda s: counted(OWN_TRIGGER(s)), COUNTED),
        (lambda s: elements(s.evictor(CountEvictor.of(1))), LISTED),
    ],
    ids=["elements", "reduce", "aggregates", "elements-own", "reduce-own", "aggregates-own", "evictor"],
)
def test_windows_of_every_way_of_keeping_them(finish: Build, expected: list[Any], parallelism: int) -> None:
    with JobHarness(of(TENS, finish), parallelism=parallelism) as job:
        assert job.windows("w") == []
        job.push_all("clicks", CLICKS[:2], TIMES[:2])
        job.run_epoch()
        job.push_all("clicks", CLICKS[2:], TIMES[2:])
        checkpoint = job.checkpoint()
        assert job.windows("w") == expected
        assert job.windows("w") == expected
        assert job.window("w", "bob", FIRST) == expected[1][2]
        assert job.window("w", "eve", FIRST) == []
        job.finish()
        assert job.windows("w") == []
    with JobHarness(of(TENS, finish), parallelism=2, restore=checkpoint) as job:
        assert job.windows("w") == expected


class Longest(AggregateFunction):
    """Counts how often it is opened."""

    opened = 0

    def open(self, runtime_context: Any) -> None:
        Longest.opened += 1

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return max(value[1], accumulator)

    def get_result(self, accumulator: int) -> str:
        return f"at most {accumulator}"

    def merge(self, a: int, b: int) -> int:
        return max(a, b)


@pytest.mark.parametrize("has_own_trigger", [False, True])
def test_functions_stay_closed_while_somebody_looks(has_own_trigger: bool) -> None:
    def aggregated(stream: WindowedStream) -> Any:
        stream = OWN_TRIGGER(stream) if has_own_trigger else stream
        return stream.aggregate(Longest(), output_type=Types.STRING())

    with JobHarness(of(TENS, aggregated)) as job:
        job.push_all("clicks", CLICKS, TIMES)
        job.run_epoch()
        before = Longest.opened
        assert before > 0
        assert job.windows("w")[0] == StoredWindow("ann", FIRST, ["at most 4"])
        assert Longest.opened == before


def test_what_has_fired_is_shown_as_long_as_it_takes_late_records() -> None:
    for finish in (elements, counted):
        with JobHarness(of(TENS, lambda s, end=finish: end(s.allowed_lateness(5)))) as job:
            job.push("clicks", ("ann", 1), timestamp=1)
            job.advance_watermark("clicks", 13)
            job.run_epoch()
            assert len(job.take("out")) == 1
            assert [(held.key, held.window) for held in job.windows("w")] == [("ann", FIRST)]
            job.advance_watermark("clicks", 14)
            job.run_epoch()
            assert job.windows("w") == []


@pytest.mark.parametrize("finish", [elements, counted, lambda s: counted(s.trigger(CountTrigger.of(9)))])
def test_sessions_are_shown_as_they_are_merged(finish: Build) -> None:
    with JobHarness(of(EventTimeSessionWindows.with_gap(Time.milliseconds(5)), finish)) as job:
        for timestamp, starts in ((1, [1]), (9, [1, 9]), (5, [1])):
            job.push("clicks", ("ann", timestamp), timestamp=timestamp)
            job.run_epoch()
            assert [held.window.start for held in job.windows("w")] == starts
        [held] = job.windows("w")
        assert held.window == TimeWindow(1, 14)
        [contents] = [held.contents] if finish is elements else [held.contents[0]]
        assert (contents == [("ann", 1), ("ann", 9), ("ann", 5)]) if finish is elements else (contents.total == 15)


def test_overlapping_windows_and_windows_without_an_end() -> None:
    with JobHarness(of(SlidingEventTimeWindows.of(10, 5), counted)) as job:
        job.push_all("clicks", CLICKS, TIMES)
        job.run_epoch()
        starts = [(held.key, held.window.start, held.contents[0].total) for held in job.windows("w")]
        assert starts == [("ann", -5, 1), ("bob", -5, 2), ("ann", 0, 5), ("bob", 0, 2), ("ann", 5, 7), ("ann", 10, 3)]

    def endless(job: JobHarness) -> None:
        keyed = job.add_source("clicks", CLICK).key_by(lambda click: click[0], Types.STRING())
        job.add_sink("out", keyed.count_window(3).reduce(added).uid("w"))

    with JobHarness(endless) as job:
        job.push_all("clicks", CLICKS[:3])
        job.run_epoch()
        assert job.windows("w") == [("ann", CountWindow(0), [("ann", 4)]), ("bob", CountWindow(0), [("bob", 2)])]


def test_timers_of_functions_in_both_times() -> None:
    class Both(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[Any]:
            timers = ctx.timer_service()
            timers.register_event_time_timer(value[1])
            timers.register_processing_time_timer(100 + value[1])
            if value[1] == 4:
                timers.delete_event_time_timer(1)
            return []

    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("clicks", CLICK).key_by("f0").process(Both(), CLICK).uid("timers"))

    event, clock = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
    with JobHarness(build, parallelism=2) as job:
        job.push_all("clicks", CLICKS)
        job.run_epoch()
        assert job.timers("timers") == [
            (2, event, "bob", None),
            (3, event, "ann", None),
            (4, event, "ann", None),
            *((100 + number, clock, key, None) for key, number in CLICKS),
        ]
        job.advance_watermark("clicks", 3)
        job.set_processing_time(103)
        job.run_epoch()
        assert job.timers("timers") == [PendingTimer(4, event, "ann"), PendingTimer(104, clock, "ann")]


def test_windows_of_the_clock_and_global_windows_in_columns() -> None:
    with JobHarness(of(TumblingProcessingTimeWindows.of(10), counted), parallelism=2, processing_time=12) as job:
        job.push_all("clicks", CLICKS)
        job.run_epoch()
        assert job.windows("w") == [
            ("ann", SECOND, [row("ann", SECOND, 3, 8)]),
            ("bob", SECOND, [row("bob", SECOND, 1, 2)]),
        ]
        job.set_processing_time(19)
        job.run_epoch()
        assert len(job.take("out")) == 2
        assert job.windows("w") == []
    with JobHarness(of(GlobalWindows.create(), lambda s: counted(s.trigger(EndOfStreamTrigger())))) as job:
        job.push_all("clicks", CLICKS[:2])
        job.run_epoch()
        ann, bob = Row(f0="ann", n=1, total=1), Row(f0="bob", n=1, total=2)
        assert job.windows("w") == [("ann", GlobalWindow(), [ann]), ("bob", GlobalWindow(), [bob])]


def test_timers_of_windows_name_them() -> None:
    with JobHarness(of(TumblingProcessingTimeWindows.of(10), lambda s: s.reduce(added)), processing_time=3) as job:
        job.push("clicks", ("ann", 1))
        job.run_epoch()
        assert job.timers("w") == [(9, TimeDomain.PROCESSING_TIME, "ann", FIRST)]
        assert job.windows("w") == [("ann", FIRST, [("ann", 1)])]


def test_event_time_of_an_operator() -> None:
    with JobHarness(of(TENS, elements)) as job:
        job.push("clicks", ("ann", 1), timestamp=1)
        assert "Watermark:" not in job.summary()
        assert job.watermark("w") == MIN_WATERMARK
        job.advance_watermark("clicks", 7)
        job.run_epoch()
        assert (job.watermark("clicks"), job.watermark("w")) == (7, 7)
        assert "clicks.0.currentWatermark: 7" in job.summary()
        job.finish()
        assert job.watermark("w") is None


def test_mistakes_are_named() -> None:
    def build(job: JobHarness) -> None:
        clicks = job.add_source("clicks", CLICK)
        job.add_sink("out", clicks.map(lambda click: click, CLICK).uid("same").key_by("f0").reduce(added).uid("sum"))

    with JobHarness(build) as job:
        with pytest.raises(InvalidProgramError, match=r"no operator with the uid 'w'; those with keys are 'sum'"):
            job.windows("w")
        with pytest.raises(InvalidProgramError, match=r"\(uid sum\) has no windows"):
            job.windows("sum")
        with pytest.raises(InvalidProgramError, match=r"\(uid same\) has neither keys nor windows nor timers"):
            job.timers("same")
        with pytest.raises(InvalidProgramError, match="no source or operator 'click'"):
            job.watermark("click")
