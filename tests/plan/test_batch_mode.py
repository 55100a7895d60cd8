"""What batch mode changes in the windows of a program."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import count
from headrace.datastream.streams.windowed_stream import WindowedStream
from headrace.graph.window_specs import ColumnarWindowSpec, GlobalAggregateSpec, RowWindowSpec
from headrace.plan.job_plan import JobPlan, PlanSettings
from headrace.plan.planner import plan_job
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.assigners import TumblingEventTimeWindows
from headrace.windowing.trigger import Trigger, TriggerResult
from headrace.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TIMES: WatermarkStrategy[Any] = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1")
LATE = OutputTag("late", PAIR)


@pytest.fixture
def windows() -> WindowedStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    timed = env.from_collection([("a", 1)], PAIR).assign_timestamps_and_watermarks(TIMES)
    return timed.key_by("f0").window(TumblingEventTimeWindows.of(10)).allowed_lateness(5).side_output_late_data(LATE)


def plan(windows: WindowedStream) -> JobPlan:
    env = windows.get_execution_environment()
    return plan_job(env.transformations.next_job(), PlanSettings("job", 2, 128, is_batch=True))


def spec_of(plan: JobPlan, kind: type[Any]) -> Any:
    (found,) = (operator.node.spec for operator in plan.operators() if isinstance(operator.node.spec, kind))
    return found


class AtFirst(ProcessingTimeTrigger):
    """Does something else than the trigger that it is derived from."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE


class Same(ProcessingTimeTrigger):
    """Does the same as the trigger that it is derived from."""


@pytest.mark.parametrize(
    ("trigger", "in_batch_mode"),
    [
        (ContinuousEventTimeTrigger.of(2), EventTimeTrigger()),
        (ContinuousProcessingTimeTrigger.of(2), EventTimeTrigger()),
        (ProcessingTimeTrigger(), EventTimeTrigger()),
        (PurgingTrigger.of(ContinuousEventTimeTrigger.of(2)), PurgingTrigger.of(EventTimeTrigger())),
        (
            ProcessingTimeoutTrigger.of(ContinuousEventTimeTrigger.of(2), 7),
            ProcessingTimeoutTrigger.of(EventTimeTrigger(), 7),
        ),
        (Same(), EventTimeTrigger()),
        *((same, same) for same in (EventTimeTrigger(), EndOfStreamTrigger(), CountTrigger.of(3), AtFirst())),
    ],
    ids=str,
)
def test_triggers_that_only_show_windows_early_give_way(
    windows: WindowedStream, trigger: Trigger[Any, Any], in_batch_mode: Trigger[Any, Any]
) -> None:
    windows.trigger(trigger).reduce(lambda a, b: a).sink_to(CollectSink(list))
    kept = spec_of(plan(windows), RowWindowSpec).definition
    assert (kept.trigger, kept.allowed_lateness, kept.late_tag) == (in_batch_mode, 0, None)


def test_aggregates_are_split_in_two_whatever_is_said_of_late_records(windows: WindowedStream) -> None:
    windows.aggregate(count()).sink_to(CollectSink(list))
    kept = spec_of(plan(windows), GlobalAggregateSpec).aggregate.definition
    assert (kept.allowed_lateness, kept.late_tag) == (0, None)


def test_a_side_output_of_late_records_that_is_read_stays(windows: WindowedStream) -> None:
    counts = windows.aggregate(count())
    counts.sink_to(CollectSink(list))
    counts.get_side_output(LATE).sink_to(CollectSink(list))
    kept = spec_of(plan(windows), ColumnarWindowSpec).definition
    assert (kept.allowed_lateness, kept.late_tag) == (0, LATE)
