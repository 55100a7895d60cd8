"""``RuntimeExecutionMode``: whether a job treats its input as bounded."""

from __future__ import annotations

from enum import Enum


class RuntimeExecutionMode(Enum):
    """How a program runs.

    Examples:
        >>> from headrace.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    """

    STREAMING = 0
    """Epoch after epoch, with checkpoints, and results as watermarks pass."""

    BATCH = 1
    """The whole of a bounded input, with final results only."""

    AUTOMATIC = 2
    """``BATCH`` when every source is bounded, else ``STREAMING``."""
