"""``ExternalizedCheckpointRetention``: what becomes of checkpoints when a job is cancelled."""

from enum import Enum

from headrace.common.public_module import public_module

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """Says whether a job's checkpoints stay when it ends.

    The checkpoints of a job that was stopped stay, whatever is set: it goes on from them.

    Examples:
        >>> from headrace.datastream import ExternalizedCheckpointRetention, StreamExecutionEnvironment
        >>> config = StreamExecutionEnvironment.get_execution_environment().get_checkpoint_config()
        >>> keep = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
        >>> config.set_externalized_checkpoint_retention(keep).get_externalized_checkpoint_retention()
        <ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: 1>
    """

    DELETE_ON_CANCELLATION = 0
    """They are deleted when the job is cancelled, and stay when it fails or has finished."""

    RETAIN_ON_CANCELLATION = 1
    """They stay, and a later run goes on from them. This is the default."""

    NO_EXTERNALIZED_CHECKPOINTS = 2
    """They are deleted when the job is cancelled, fails or has finished: the same program begins anew then."""


public_module(__name__)
