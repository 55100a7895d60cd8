"""``CheckpointingMode``: what a failure may do to results."""

from enum import Enum

from headrace.common.public_module import public_module

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """The guarantee that a job requests; what it gets is exactly once in both modes.

    Examples:
        >>> from headrace.datastream import CheckpointingMode, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.enable_checkpointing(10_000, CheckpointingMode.EXACTLY_ONCE).get_checkpointing_mode()
        <CheckpointingMode.EXACTLY_ONCE: 0>
    """

    EXACTLY_ONCE = 0
    """Every record counts once, failures or not."""

    AT_LEAST_ONCE = 1
    """After a failure records may count again; headrace meets it by doing more."""


public_module(__name__)
