"""``CheckpointConfig``: the settings of checkpoints."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace.common import flink_options, options
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidProgramError, expect
from headrace.common.flink_options import FlinkOption
from headrace.common.public_module import public_module
from headrace.common.time import Duration, Time, to_millis
from headrace.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage
from headrace.datastream.checkpointing_mode import CheckpointingMode
from headrace.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["CheckpointConfig"]


class CheckpointConfig:
    """The settings of a job's checkpoints: each is an option of the environment's configuration.

    Every epoch ends in a checkpoint, so the interval that is set here is the longest time between two, not the
    shortest. Where they are kept is ``execution.checkpointing.dir``; without it a job whose process ends begins anew.

    Args:
        configuration: what is read and written.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> config = env.enable_checkpointing(10_000).get_checkpoint_config()
        >>> _ = config.set_checkpoint_storage_dir("/data/checkpoints/spending")
        >>> config.get_checkpoint_interval(), config.is_checkpointing_enabled()
        (10000, True)
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Return whether the program enables checkpoints: by an interval, or by a directory for them."""
        return self.get_checkpoint_interval() > 0 or self._configuration.get(options.CHECKPOINT_DIR) is not None

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
        """Return how long an epoch may take, in milliseconds."""
        return self._configuration.get(options.CHECKPOINT_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Sets how long an epoch may take before it is given up and run again; milliseconds, above zero."""
        self._configuration.set(options.CHECKPOINT_TIMEOUT, _millis("checkpoint timeout", checkpoint_timeout))
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The guarantee that the job requests."""
        return CheckpointingMode[self._configuration.get(options.CHECKPOINT_MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Sets the guarantee that the job requests; it gets exactly once, which is at least once too.

        Raises:
            InvalidTypeError: when it is no ``CheckpointingMode``.
        """
        expect(checkpointing_mode, CheckpointingMode, "set_checkpointing_mode")
        self._configuration.set(options.CHECKPOINT_MODE, checkpointing_mode)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints in a directory may outlive the job, which they do by default."""
        mode = self.get_externalized_checkpoint_retention()
        return mode is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Sets where checkpoints are kept; without a directory they last as long as the job runs.

        Raises:
            InvalidTypeError: when it is no ``CheckpointStorage``.
        """
        expect(storage, CheckpointStorage, "set_checkpoint_storage")
        path = storage.get_checkpoint_path()
        for key in (options.CHECKPOINT_DIR.key, *options.CHECKPOINT_DIR.deprecated_keys):
            self._configuration.remove_config(key)
        if path is not None:
            self._configuration.set(options.CHECKPOINT_DIR, path)
        if isinstance(storage, FileSystemCheckpointStorage):
            self._configuration.set(options.CHECKPOINT_INLINE_THRESHOLD, storage.get_min_file_size_threshold())
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Sets the directory of the checkpoints: a path, or the URI of an object store."""
        expect(checkpoint_path, str, "set_checkpoint_storage_dir")
        self._configuration.set(options.CHECKPOINT_DIR, checkpoint_path)
        return self

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Return where checkpoints are kept; None where there is no directory for them."""
        path = self._configuration.get(options.CHECKPOINT_DIR)
        threshold = self._configuration.get(options.CHECKPOINT_INLINE_THRESHOLD)
        return None if path is None else FileSystemCheckpointStorage(path, threshold)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Sets when checkpoints are deleted: never, which is the default, or when the job ends.

        Raises:
            InvalidTypeError: when it is no ``ExternalizedCheckpointRetention``.
        """
        expect(retention_mode, ExternalizedCheckpointRetention, "set_externalized_checkpoint_retention")
        self._configuration.set(options.CHECKPOINT_RETENTION, retention_mode)
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return when checkpoints are deleted."""
        return ExternalizedCheckpointRetention[self._configuration.get(options.CHECKPOINT_RETENTION)]

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Sets how long the work between two checkpoints takes at least, in milliseconds."""
        expect(min_pause_between_checkpoints, int, "set_min_pause_between_checkpoints")
        self._configuration.set_checked(options.MIN_PAUSE, min_pause_between_checkpoints)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Return how long the work between two checkpoints takes at least, in milliseconds."""
        return self._configuration.get(options.MIN_PAUSE)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Sets how many checkpoints in a row may fail before the restart strategy decides."""
        expect(tolerable_checkpoint_failure_number, int, "set_tolerable_checkpoint_failure_number")
        self._configuration.set_checked(options.TOLERABLE_FAILED_CHECKPOINTS, tolerable_checkpoint_failure_number)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many checkpoints in a row may fail before the restart strategy decides."""
        return self._configuration.get(options.TOLERABLE_FAILED_CHECKPOINTS)

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Sets that the restart strategy decides on every failed checkpoint, or that all may fail."""
        expect(fail_on_checkpointing_errors, bool, "set_fail_on_checkpointing_errors")
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether the restart strategy decides whenever a checkpoint fails."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    # --- without effect, with a warning that says why ----------------------------------------------------------------

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Keeps how many checkpoints may be under way; without effect."""
        expect(max_concurrent_checkpoints, int, "set_max_concurrent_checkpoints")
        return self._keep(flink_options.MAX_CONCURRENT_CHECKPOINTS, max_concurrent_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """Gives how many checkpoints may be under way back."""
        return int(self._configuration.get(flink_options.MAX_CONCURRENT_CHECKPOINTS))

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Keeps whether checkpoints are to be unaligned; without effect."""
        expect(enabled, bool, "enable_unaligned_checkpoints")
        return self._keep(flink_options.UNALIGNED, enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Keeps the opposite of :meth:`enable_unaligned_checkpoints`; without effect."""
        return self.enable_unaligned_checkpoints(False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Gives back whether checkpoints are to be unaligned."""
        return bool(self._configuration.get(flink_options.UNALIGNED))

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Keeps whether checkpoints are to be unaligned in loops, too; without effect."""
        expect(force_unaligned_checkpoints, bool, "set_force_unaligned_checkpoints")
        return self._keep(flink_options.FORCE_UNALIGNED, force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Gives back whether checkpoints are to be unaligned in loops, too."""
        return bool(self._configuration.get(flink_options.FORCE_UNALIGNED))

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Keeps how long checkpoints may be aligned; without effect."""
        expect(alignment_timeout, Duration, "set_aligned_checkpoint_timeout")
        return self._keep(flink_options.ALIGNED_TIMEOUT, alignment_timeout)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Gives back how long checkpoints may be aligned."""
        return Duration.of_millis(self._configuration.get(flink_options.ALIGNED_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Return the same as :meth:`set_aligned_checkpoint_timeout`, under its older name."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Return the same as :meth:`get_aligned_checkpoint_timeout`, under its older name."""
        return self.get_aligned_checkpoint_timeout()

    def _keep(self, option: FlinkOption, value: Any) -> CheckpointConfig:
        self._configuration.set_checked(option, value)
        return self


def _millis(what: str, value: int | Time | Duration | timedelta) -> int:
    millis = to_millis(value)
    if millis <= 0:
        raise InvalidProgramError(f"the {what} is a time above zero, not {millis} ms")
    return millis


public_module(__name__)
