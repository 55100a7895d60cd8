"""``CheckpointConfig``: the settings of checkpoints."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from headrace.common import options
from headrace.common.errors import InvalidProgramError
from headrace.common.other_names import other_names, without_effect
from headrace.common.public_module import public_module
from headrace.common.time import Duration, Time, to_millis
from headrace.datastream.checkpointing_mode import CheckpointingMode
from headrace.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from headrace.datastream.streams.checks import expect

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.common.configuration import Configuration

__all__ = ["CheckpointConfig"]

public_module(__name__)

_NO_BARRIERS = "no barriers travel among the records: an epoch's end is the checkpoint, so there is nothing to align"
_RETRIED = "an epoch that fails is run again, under the restart strategy of the configuration"


@other_names()
@without_effect(
    {
        "set_min_pause_between_checkpoints": "epochs follow as data arrives; see headrace.epoch.min-interval",
        "set_max_concurrent_checkpoints": "the commit of one epoch overlaps the next one, and no more",
        "set_fail_on_checkpointing_errors": _RETRIED,
        "set_tolerable_checkpoint_failure_number": _RETRIED,
        "enable_unaligned_checkpoints": _NO_BARRIERS,
        "set_aligned_checkpoint_timeout": _NO_BARRIERS,
        "set_alignment_timeout": _NO_BARRIERS,
        "set_force_unaligned_checkpoints": _NO_BARRIERS,
    }
)
class CheckpointConfig:
    """The settings of a job's checkpoints: each is an option of the environment's configuration.

    Every epoch ends in a checkpoint, so the interval that is set here is the longest time between two, not the
    shortest. Where they are kept is ``execution.checkpointing.dir``; without it a job whose process ends begins anew.

    Args:
        configuration: what is read and written.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether the program asked for checkpoints: by an interval, or by a directory for them."""
        return self.get_checkpoint_interval() > 0 or self.is_externalized_checkpoints_enabled()

    def get_checkpoint_interval(self) -> int:
        """The longest time between two checkpoints in milliseconds; -1 when there is no such limit."""
        interval = self._configuration.get(options.CHECKPOINT_INTERVAL)
        return -1 if interval is None else interval

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Sets the longest time between two checkpoints.

        Args:
            checkpoint_interval: milliseconds, above zero.

        Raises:
            InvalidProgramError: when it is not.
        """
        self._configuration.set(options.CHECKPOINT_INTERVAL, _millis("checkpoint interval", checkpoint_interval))
        return self

    def get_checkpoint_timeout(self) -> int:
        """How long an epoch may take, in milliseconds."""
        return self._configuration.get(options.CHECKPOINT_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Sets how long an epoch may take before it is given up and run again; milliseconds, above zero."""
        self._configuration.set(options.CHECKPOINT_TIMEOUT, _millis("checkpoint timeout", checkpoint_timeout))
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The guarantee that the job asks for."""
        return CheckpointingMode[self._configuration.get(options.CHECKPOINT_MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Sets the guarantee that the job asks for; it gets exactly once, which is at least once too.

        Raises:
            InvalidTypeError: when it is no ``CheckpointingMode``.
        """
        expect(checkpointing_mode, CheckpointingMode, "set_checkpointing_mode")
        self._configuration.set(options.CHECKPOINT_MODE, checkpointing_mode)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Accepted; the latest checkpoints stay in their directory, however the job ends."""
        if retention_mode is not ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION:
            warnings.warn(f"{retention_mode} has no effect: the latest checkpoints are always kept", stacklevel=2)
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What becomes of checkpoints: they stay."""
        return ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether checkpoints outlive the job: whether there is a directory for them."""
        return self._configuration.get(options.CHECKPOINT_DIR) is not None

    def get_max_concurrent_checkpoints(self) -> int:
        """One: an epoch ends in one checkpoint."""
        return 1

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Always false: there is nothing to align."""
        return False

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Accepted: there is nothing to align."""
        return self


def _millis(what: str, value: int | Time | Duration | timedelta) -> int:
    millis = to_millis(value)
    if millis <= 0:
        raise InvalidProgramError(f"the {what} is a time above zero, not {millis} ms")
    return millis
