"""Limits of Flink's time line, in milliseconds since the epoch (``Long.MIN_VALUE``, ``Long.MAX_VALUE``)."""

from typing import Final

MIN_WATERMARK: Final = -(2**63)
"""The watermark before any was emitted: nothing is known to have been passed."""

MAX_WATERMARK: Final = 2**63 - 1
"""The watermark at the end of a bounded input: everything has been passed."""

NO_TIMESTAMP: Final = MIN_WATERMARK
"""The timestamp of a record that has none."""

DEFAULT_MAX_PARALLELISM: Final = 128
"""The key groups of a job that does not say otherwise (Flink's lower bound)."""

UPPER_BOUND_MAX_PARALLELISM: Final = 1 << 15
"""The most key groups that Flink allows."""
