"""Windows and their assigners, under PyFlink's module path."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.common.time import Time
from headrace.windowing.assigner import WindowAssigner
from headrace.windowing.assigners.sliding import SlidingEventTimeWindows
from headrace.windowing.assigners.tumbling import TumblingEventTimeWindows
from headrace.windowing.windows import TimeWindow

__all__ = ["SlidingEventTimeWindows", "Time", "TimeWindow", "TumblingEventTimeWindows", "WindowAssigner"]

public_module(__name__)
