"""The two time lines."""

from __future__ import annotations

import enum


class TimeDomain(enum.Enum):
    """Which time a timer belongs to."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
