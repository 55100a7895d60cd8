"""Windows, assigners, triggers and evictors, under PyFlink's module path (evictors are Flink's, PyFlink has none)."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.common.time import Time
from headrace.windowing.accumulation_mode import AccumulationMode
from headrace.windowing.assigner import MergingWindowAssigner, WindowAssigner
from headrace.windowing.assigners.count import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from headrace.windowing.assigners.cumulating import CumulatingEventTimeWindows
from headrace.windowing.assigners.global_windows import GlobalWindows
from headrace.windowing.assigners.sessions import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from headrace.windowing.assigners.sliding import SlidingEventTimeWindows, SlidingProcessingTimeWindows
from headrace.windowing.assigners.tumbling import TumblingEventTimeWindows, TumblingProcessingTimeWindows, WindowStagger
from headrace.windowing.evictor import Evictor, TimestampedValue
from headrace.windowing.evictors.count import CountEvictor
from headrace.windowing.evictors.delta import DeltaEvictor
from headrace.windowing.evictors.time import TimeEvictor
from headrace.windowing.serializers import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer
from headrace.windowing.trigger import Firing, Trigger, TriggerResult
from headrace.windowing.triggers.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from headrace.windowing.triggers.count import CountTrigger
from headrace.windowing.triggers.delta import DeltaTrigger
from headrace.windowing.triggers.end_of_window import EventTimeTrigger, ProcessingTimeTrigger
from headrace.windowing.triggers.never import EndOfStreamTrigger, NeverTrigger
from headrace.windowing.triggers.processing_timeout import ProcessingTimeoutTrigger
from headrace.windowing.triggers.purging import PurgingTrigger
from headrace.windowing.windows import (
    CountWindow,
    GlobalWindow,
    TimeWindow,
    Window,
)

__all__ = [
    "AccumulationMode",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "CumulatingEventTimeWindows",
    "DeltaEvictor",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EndOfStreamTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "Firing",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "Time",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowStagger",
]

public_module(__name__)
