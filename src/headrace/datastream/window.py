"""Windows and their assigners, under PyFlink's module path."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.common.time import Time
from headrace.time.windows import SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows, WindowAssigner

__all__ = ["SlidingEventTimeWindows", "Time", "TimeWindow", "TumblingEventTimeWindows", "WindowAssigner"]

public_module(__name__)
