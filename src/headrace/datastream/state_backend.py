"""``StateBackend``: what keeps the state of operators, as programs declare it for the environment."""

from __future__ import annotations

from enum import Enum

from headrace.common.public_module import public_module
from headrace.common.tracebacks import hides_engine_of_methods

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "PredefinedOptions", "StateBackend"]

public_module(__name__)


class StateBackend:
    """What keeps the state of operators: one of the two classes below, which both stand for headrace's own.

    Examples:
        >>> from headrace.datastream import HashMapStateBackend, StateBackend
        >>> isinstance(HashMapStateBackend(), StateBackend)
        True
    """


class HashMapStateBackend(StateBackend):
    """State in columns, in files that are mapped into memory: ``state.backend.type`` is ``hashmap``.

    Examples:
        >>> from headrace.datastream import HashMapStateBackend, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.set_state_backend(HashMapStateBackend())
    """


class PredefinedOptions(Enum):
    """What RocksDB is tuned for.

    Examples:
        >>> from headrace.datastream import EmbeddedRocksDBStateBackend, PredefinedOptions
        >>> backend = EmbeddedRocksDBStateBackend()
        >>> backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
        >>> backend.get_predefined_options()
        <PredefinedOptions.FLASH_SSD_OPTIMIZED: 3>
    """

    DEFAULT = 0
    """Nothing."""

    SPINNING_DISK_OPTIMIZED = 1
    """Disks that turn."""

    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    """Disks that turn, and much memory."""

    FLASH_SSD_OPTIMIZED = 3
    """Flash."""


@hides_engine_of_methods
class EmbeddedRocksDBStateBackend(StateBackend):
    """RocksDB, in Flink. Its settings are kept without effect: headrace's own state may be larger than memory, too.

    Args:
        enable_incremental_checkpointing: whether a checkpoint is to hold what has changed alone, which it always does.

    Examples:
        >>> from headrace.datastream import EmbeddedRocksDBStateBackend
        >>> backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
        >>> backend.is_incremental_checkpoints_enabled()
        True
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        self._incremental = bool(enable_incremental_checkpointing)
        self._paths: list[str] = []
        self._predefined = PredefinedOptions.DEFAULT
        self._factory: str | None = None
        self._threads = 4

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Gives back whether a checkpoint is to hold what has changed alone."""
        return self._incremental

    def set_db_storage_paths(self, *paths: str) -> None:
        """Keeps the directories of RocksDB's files."""
        self._paths = list(paths)

    def get_db_storage_paths(self) -> list[str]:
        """Gives back the directories of RocksDB's files."""
        return list(self._paths)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Keeps what RocksDB is tuned for."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Gives back what RocksDB is tuned for."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Keeps the name of the Java class that tunes RocksDB."""
        self._factory = options_factory_class_name

    def get_options(self) -> str | None:
        """Gives back the name of the Java class that tunes RocksDB."""
        return self._factory

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Keeps how many threads write and read the files of a checkpoint."""
        self._threads = number_of_transfering_threads

    def get_number_of_transfer_threads(self) -> int:
        """Gives back how many threads write and read the files of a checkpoint."""
        return self._threads
