"""Which windows are computed column by column, and what ``explain`` says of the others."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common import Time, Types, WatermarkStrategy
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.window import (
    AccumulationMode,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    CountTumblingWindowAssigner,
    CumulatingEventTimeWindows,
    DeltaEvictor,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from headrace.graph.window_specs import RowWindowSpec
from headrace.plan.explain import plan_diagram, plan_document
from headrace.plan.window_paths import WindowPath, path_of
from headrace.windowing.trigger import PassiveTrigger

ROW = Types.ROW_NAMED(["card", "amount"], [Types.STRING(), Types.LONG()])
TENS = TumblingEventTimeWindows.of(10)


class Odd(TumblingEventTimeWindows):
    """An assigner of a program, which nobody knows."""

    @property
    def regular(self) -> None:
        return None


class Shifting(TumblingProcessingTimeWindows):
    """An assigner of a program by the clock, which puts records into windows of its own."""

    def windows_at(self, time: int, element: Any, context: Any) -> list[TimeWindow]:
        return [TimeWindow(time, time + self.size)]


class Counting(TumblingEventTimeWindows):
    """Windows as they are known, with another trigger."""

    def get_default_trigger(self, env: Any) -> Any:
        return CountTrigger.of(3)


class Shown(EventTimeTrigger):
    """A trigger that is derived from one that is known."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        return TriggerResult.FIRE


class Often(ContinuousEventTimeTrigger):
    """A trigger that is derived from one that shows windows early."""


class Purging(PurgingTrigger[Any, Any]):
    """A trigger that is derived from one that drops what was shown."""


class Own(PassiveTrigger[Any, Any]):
    """A trigger of a program, which shows itself as any object does."""


def explained(env: StreamExecutionEnvironment, define: Any) -> str:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.amount)
    records = env.from_collection([], ROW).assign_timestamps_and_watermarks(times)
    define(records).print()
    return env.explain()


def discarding(windows: Any) -> Any:
    windows.accumulation_mode(AccumulationMode.DISCARDING)
    return windows


def retracting(windows: Any) -> Any:
    windows.accumulation_mode(AccumulationMode.ACCUMULATING_AND_RETRACTING)
    return windows


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.mark.parametrize(
    ("windows", "path"),
    [
        (lambda keyed: keyed.window(TENS), "columnar"),
        (lambda keyed: keyed.window(SlidingEventTimeWindows.of(10, 2)), "columnar"),
        (lambda keyed: keyed.window(CumulatingEventTimeWindows.of(10, 2)), "columnar"),
        (lambda keyed: keyed.window(TENS).trigger(EventTimeTrigger.create()), "columnar"),
        (lambda keyed: keyed.window(TENS).trigger(CountTrigger.of(3)), "custom trigger CountTrigger"),
        (
            lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(10)).trigger(ContinuousEventTimeTrigger.of(1)),
            "custom trigger ContinuousEventTimeTrigger",
        ),
        (
            lambda keyed: keyed.window(GlobalWindows.create()).trigger(ContinuousEventTimeTrigger.of(1)),
            "custom trigger ContinuousEventTimeTrigger",
        ),
        (
            lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(10)).trigger(ContinuousEventTimeTrigger.of(1)),
            "custom trigger ContinuousEventTimeTrigger",
        ),
        (lambda keyed: keyed.window(TENS).trigger(Often(1)), "custom trigger Often"),
        (lambda keyed: keyed.window(TENS).trigger(PurgingTrigger.of(EventTimeTrigger.create())), "columnar"),
        (lambda keyed: keyed.window(TENS).trigger(PurgingTrigger.of(Shown())), "custom trigger Shown"),
        (lambda keyed: keyed.window(TENS).trigger(Purging.of(EventTimeTrigger.create())), "custom trigger Purging"),
        (
            lambda keyed: retracting(keyed.window(TENS).trigger(PurgingTrigger.of(EventTimeTrigger.create()))),
            "custom trigger PurgingTrigger",
        ),
        (lambda keyed: keyed.window(TENS).evictor(CountEvictor.of(2)), "an evictor looks at every record"),
        (lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(10)), "columnar"),
        (lambda keyed: keyed.window(SlidingProcessingTimeWindows.of(10, 2)), "columnar"),
        (lambda keyed: keyed.window(GlobalWindows.create_with_end_of_stream_trigger()), "columnar"),
        (lambda keyed: keyed.window(GlobalWindows.create()).trigger(EndOfStreamTrigger.create()), "columnar"),
        (
            lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(10, stagger=WindowStagger.RANDOM)),
            "windows are staggered",
        ),
        (lambda keyed: keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)), "custom trigger CountTrigger"),
        (
            lambda keyed: keyed.window(EventTimeSessionWindows.with_dynamic_gap(lambda row: row.amount)),
            "windows merge",
        ),
        (
            lambda keyed: retracting(keyed.window(EventTimeSessionWindows.with_gap(10)).allowed_lateness(5)),
            "sessions that stay for late records take results back",
        ),
        (
            lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(10)).trigger(CountTrigger.of(3)),
            "custom trigger CountTrigger",
        ),
        (lambda keyed: keyed.count_window(3, 2).trigger(CountTrigger.of(2)), "custom trigger CountTrigger"),
        (lambda keyed: keyed.count_window(3).trigger(CountTrigger.of(2)), "custom trigger CountTrigger"),
        (lambda keyed: keyed.count_window(3).evictor(CountEvictor.of(2)), "an evictor looks at every record"),
        (lambda keyed: keyed.window(GlobalWindows.create()).trigger(NeverTrigger()), "windows never fire"),
        (lambda keyed: keyed.window(Odd(10)), "custom assigner Odd"),
        (lambda keyed: keyed.window(Shifting(10)), "custom assigner Shifting"),
        (lambda keyed: keyed.window(Counting(10)), "custom trigger CountTrigger"),
        (lambda keyed: keyed.window(TENS).trigger(Shown()), "custom trigger Shown"),
    ],
)
def test_the_path_of_built_in_aggregates(env: StreamExecutionEnvironment, windows: Any, path: str) -> None:
    text = explained(env, lambda records: windows(records.key_by("card")).aggregate(count(), sum("amount")))
    if path == "columnar":
        assert "Local Window" in text
        assert text.count("columnar") == 2
        assert "record by record" not in text
    else:
        assert "Local Window" not in text
        assert f"record by record ({path})" in text


def test_windows_of_all_records_are_summed_up_before_they_meet(env: StreamExecutionEnvironment) -> None:
    text = explained(env, lambda records: records.window_all(TENS).aggregate(count()))
    assert "Local Window" in text
    assert "Stage 1, parallelism 1" in text
    assert text.count("columnar") == 2


@pytest.mark.parametrize(
    ("windows", "reason"),
    [
        (lambda keyed: keyed.window(TENS), None),
        (lambda keyed: keyed.window(SlidingEventTimeWindows.of(10, 2)).allowed_lateness(5), None),
        (lambda keyed: keyed.window(TENS).evictor(CountEvictor.of(2)), "an evictor looks at every record"),
        (
            lambda keyed: keyed.window(TENS).accumulation_mode(AccumulationMode.ACCUMULATING_AND_RETRACTING),
            "results are taken back",
        ),
        (lambda keyed: discarding(keyed.window(TENS)), None),
        (lambda keyed: keyed.window(TENS).trigger(PurgingTrigger.of(EventTimeTrigger.create())), None),
        (lambda keyed: discarding(keyed.window(TENS).allowed_lateness(5)), "what was shown is dropped"),
        (
            lambda keyed: keyed.window(TENS).trigger(PurgingTrigger.of(EventTimeTrigger())).allowed_lateness(5),
            "what was shown is dropped",
        ),
        (lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(10)), "windows merge"),
        (lambda keyed: keyed.window(TENS).trigger(CountTrigger.of(3)), "custom trigger CountTrigger"),
        (lambda keyed: keyed.window(TENS).trigger(Shown()), "custom trigger Shown"),
        (
            lambda keyed: keyed.window(CumulatingEventTimeWindows.of(10, 2)),
            "windows of CumulatingEventTimeWindows",
        ),
        (lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(10)), "windows of TumblingProcessingTimeWindows"),
    ],
)
def test_why_the_trigger_is_asked_about_each_record(
    env: StreamExecutionEnvironment, windows: Any, reason: str | None
) -> None:
    explained(env, lambda records: windows(records.key_by("card")).reduce(lambda a, b: a, output_type=ROW))
    specs = [operator.node.spec for operator in env._plan().operators()]
    (spec,) = (each for each in specs if isinstance(each, RowWindowSpec))
    function = "a function of the program"
    assert path_of(spec) == WindowPath("record by record", function if reason is None else f"{function}; {reason}")
    assert (spec.definition.fixed_windows is None) is (reason is not None)


def test_a_function_of_the_program_sees_record_by_record(env: StreamExecutionEnvironment) -> None:
    text = explained(env, lambda records: records.key_by("card").window(TENS).reduce(lambda a, b: a))
    assert "record by record (a function of the program)" in text


@pytest.mark.parametrize(
    ("windows", "told"),
    [
        (lambda keyed: keyed.window(TENS), ["TumblingEventTimeWindows(10 ms)"]),
        (lambda keyed: keyed.window(TENS).trigger(EventTimeTrigger.create()), ["TumblingEventTimeWindows(10 ms)"]),
        (
            lambda keyed: keyed.window(TENS).trigger(ProcessingTimeTrigger.create()),
            ["TumblingEventTimeWindows(10 ms)", "trigger ProcessingTimeTrigger()"],
        ),
        (lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(10)), ["TumblingProcessingTimeWindows(10 ms)"]),
        (
            lambda keyed: keyed.window(TENS).allowed_lateness(7).side_output_late_data(OutputTag("late")),
            ["TumblingEventTimeWindows(10 ms)", "allowed lateness 7 ms", "late records to 'late'"],
        ),
        (
            lambda keyed: keyed.window(TENS).accumulation_mode(AccumulationMode.DISCARDING),
            ["TumblingEventTimeWindows(10 ms)", "discarding"],
        ),
        (
            lambda keyed: keyed.window(TENS).accumulation_mode(AccumulationMode.ACCUMULATING_AND_RETRACTING),
            ["TumblingEventTimeWindows(10 ms)", "accumulating and retracting"],
        ),
        (
            lambda keyed: keyed.window(TENS).trigger(PurgingTrigger.of(Own())).evictor(DeltaEvictor.of(2.5, max)),
            ["TumblingEventTimeWindows(10 ms)", "trigger PurgingTrigger(Own)", "evictor DeltaEvictor(2.5)"],
        ),
        (
            lambda keyed: keyed.window(GlobalWindows.create()).trigger(DeltaTrigger.of(2.5, max)),
            ["GlobalWindows", "trigger DeltaTrigger(2.5)"],
        ),
        (
            lambda keyed: keyed.window(GlobalWindows.create()).trigger(
                ProcessingTimeoutTrigger.of(CountTrigger.of(2), 9)
            ),
            ["GlobalWindows", "trigger ProcessingTimeoutTrigger(CountTrigger(window_size=2), 9 ms)"],
        ),
        (
            lambda keyed: keyed.window(EventTimeSessionWindows.with_dynamic_gap(lambda row: row.amount)),
            ["DynamicEventTimeSessionWindows"],
        ),
    ],
)
@pytest.mark.parametrize("by", ["function", "aggregate"])
def test_what_the_windows_are(env: StreamExecutionEnvironment, windows: Any, told: list[str], by: str) -> None:
    def define(records: Any) -> Any:
        windowed = windows(records.key_by("card"))
        return windowed.aggregate(count()) if by == "aggregate" else windowed.reduce(lambda a, b: a)

    explained(env, define)
    boxes = [box for frame in plan_diagram(env._plan()).frames for box in frame.boxes]
    (notes,) = (box.notes for box in boxes if box.name == "Window")
    assert notes[0] == "keyed state"
    assert list(notes[2:]) == told
    assert not [note for box in boxes if box.name == "Local Window" for note in box.notes if note in told]


def test_what_the_windows_are_for_other_programs(env: StreamExecutionEnvironment) -> None:
    def define(records: Any) -> Any:
        windows = records.key_by("card").window(TENS).trigger(Own()).allowed_lateness(7)
        return windows.side_output_late_data(OutputTag("late")).evictor(CountEvictor.of(2)).aggregate(count())

    explained(env, define)
    operators = [each for stage in plan_document(env._plan())["stages"] for each in stage["operators"]]
    assert [each["windows"] for each in operators if each["name"] != "Window"] == [None] * 3
    (windows,) = (each["windows"] for each in operators if each["name"] == "Window")
    assert windows == {
        "assigner": "TumblingEventTimeWindows(10 ms)",
        "trigger": "Own",
        "evictor": "CountEvictor(max_count=2, do_evict_after=False)",
        "allowed_lateness": 7,
        "late_output": "late",
        "accumulation_mode": "ACCUMULATING",
    }


@pytest.mark.parametrize("mode", [AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING])
@pytest.mark.parametrize("lateness", [0, 5])
def test_sessions_are_columnar_and_not_split(
    env: StreamExecutionEnvironment, lateness: int, mode: AccumulationMode
) -> None:
    """Which records are of one session is known where all of a key are."""

    def define(records: Any) -> Any:
        sessions = records.key_by("card").window(EventTimeSessionWindows.with_gap(10)).allowed_lateness(lateness)
        sessions.accumulation_mode(mode)
        return sessions.aggregate(count(), sum("amount"))

    text = explained(env, define)
    assert text.count("columnar") == 1
    assert "Local Window" not in text


@pytest.mark.parametrize(
    "windows",
    [
        lambda records: records.key_by("card").count_window(3),
        lambda records: records.count_window_all(3),
        lambda records: records.key_by("card").window(CountTumblingWindowAssigner.of(3)),
        lambda records: records.key_by("card").count_window(3, 2),
        lambda records: records.count_window_all(3, 2),
    ],
)
def test_count_windows_are_columnar_and_not_split(env: StreamExecutionEnvironment, windows: Any) -> None:
    """Which records are of one window is known where all of a key are."""
    text = explained(env, lambda records: windows(records).aggregate(count(), sum("amount")))
    assert text.count("columnar") == 1
    assert "record by record" not in text
    assert "Local Window" not in text


BY_THE_CLOCK = TumblingProcessingTimeWindows.of(10)
SECOND = ContinuousEventTimeTrigger.of(Time.seconds(1))
SECOND_OF_THE_CLOCK = ContinuousProcessingTimeTrigger.of(Time.seconds(1))


@pytest.mark.parametrize(
    "windows",
    [
        lambda records: records.key_by("card").window(TENS).trigger(SECOND),
        lambda records: records.key_by("card").window(SlidingEventTimeWindows.of(10, 2)).trigger(SECOND),
        lambda records: records.key_by("card").window(CumulatingEventTimeWindows.of(10, 2)).trigger(SECOND),
        lambda records: records.window_all(TENS).trigger(SECOND),
        lambda records: records.key_by("card").window(TENS).trigger(PurgingTrigger.of(SECOND)),
        lambda records: records.key_by("card").window(TENS).trigger(SECOND_OF_THE_CLOCK),
        lambda records: (
            records.key_by("card").window(TumblingProcessingTimeWindows.of(10)).trigger(SECOND_OF_THE_CLOCK)
        ),
        lambda records: records.window_all(SlidingProcessingTimeWindows.of(10, 2)).trigger(SECOND_OF_THE_CLOCK),
    ],
)
def test_windows_that_are_shown_early_are_columnar_and_not_split(env: StreamExecutionEnvironment, windows: Any) -> None:
    """What is shown depends on which records have come before it."""
    text = explained(env, lambda records: windows(records).aggregate(count(), sum("amount")))
    assert text.count("columnar") == 1
    assert "record by record" not in text
    assert "Local Window" not in text
