"""``CheckpointStorage``: where checkpoints are kept, as programs declare it for ``CheckpointConfig``."""

from typing import Final

from headrace.common import options
from headrace.common.public_module import public_module

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]

_MIN_BUFFER: Final = 4096


def _without_last_slash(path: str) -> str:
    """A path as Flink gives it back; that of a root keeps its slash."""
    shorter = path.rstrip("/")
    return path if not shorter or shorter.endswith(":") else shorter


class CheckpointStorage:
    """Keeps checkpoints: one of the two classes below.

    Examples:
        >>> from headrace.datastream import FileSystemCheckpointStorage, StreamExecutionEnvironment
        >>> config = StreamExecutionEnvironment.get_execution_environment().get_checkpoint_config()
        >>> _ = config.set_checkpoint_storage(FileSystemCheckpointStorage("/data/checkpoints"))
        >>> config.get_checkpoint_storage().get_checkpoint_path()
        '/data/checkpoints'
    """

    def get_checkpoint_path(self) -> str | None:
        """The directory of the checkpoints."""
        raise NotImplementedError

    def get_savepoint_path(self) -> str | None:
        """Always None: ``execution.checkpointing.savepoint-dir`` says it."""
        return None


class FileSystemCheckpointStorage(CheckpointStorage):
    """A directory: ``execution.checkpointing.dir``.

    Args:
        checkpoint_path: a path, or the URI of an object store.
        file_state_size_threshold: states up to this size, in bytes, travel within the manifest
            (``execution.checkpointing.data-inline-threshold``); the option's default when left out, or negative.
        write_buffer_size: kept without effect, in bytes.

    Examples:
        >>> from headrace.datastream import FileSystemCheckpointStorage
        >>> FileSystemCheckpointStorage("s3://bucket/checkpoints").get_checkpoint_path()
        's3://bucket/checkpoints'
    """

    MAX_FILE_STATE_THRESHOLD: Final = 1024 * 1024

    def __init__(
        self, checkpoint_path: str, file_state_size_threshold: int | None = None, write_buffer_size: int = -1
    ) -> None:
        default = options.CHECKPOINT_INLINE_THRESHOLD.default
        given = -1 if file_state_size_threshold is None else file_state_size_threshold
        self._path = _without_last_slash(checkpoint_path)
        self._threshold = default if given < 0 else given
        self._buffer = max(_MIN_BUFFER, self._threshold) if write_buffer_size < 0 else write_buffer_size

    def get_checkpoint_path(self) -> str:
        """The directory of the checkpoints."""
        return self._path

    def get_min_file_size_threshold(self) -> int:
        """Up to how many bytes states travel within the manifest."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Gives back the size of a buffer, in bytes."""
        return self._buffer


class JobManagerCheckpointStorage(CheckpointStorage):
    """The driver's memory, in Flink. Here a job without a directory keeps its checkpoints for as long as it runs.

    Args:
        checkpoint_path: a directory all the same.
        max_state_size: kept without effect, in bytes.

    Examples:
        >>> from headrace.datastream import JobManagerCheckpointStorage
        >>> JobManagerCheckpointStorage("/data/checkpoints").get_checkpoint_path()
        '/data/checkpoints'
    """

    DEFAULT_MAX_STATE_SIZE: Final = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._path = checkpoint_path
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    def get_checkpoint_path(self) -> str | None:
        """The directory of the checkpoints."""
        return self._path

    def get_max_state_size(self) -> int:
        """Gives back how large a state may be, in bytes."""
        return self._max_state_size


public_module(__name__)
