"""``StateBackend``: what keeps the state of operators, as programs declare it for the environment."""

import os
from enum import Enum
from typing import Any
from urllib.parse import unquote, urlsplit

from headrace.common import options
from headrace.common.call_site import warn_caller
from headrace.common.config_options import ConfigOption
from headrace.common.errors import InvalidProgramError
from headrace.common.public_module import public_module

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "PredefinedOptions", "StateBackend"]


class StateBackend:
    """Keeps the state of operators: one of the two classes below.

    Examples:
        >>> from headrace.datastream import HashMapStateBackend, StateBackend
        >>> isinstance(HashMapStateBackend(), StateBackend)
        True
    """

    def settings(self) -> list[tuple[ConfigOption, Any]]:
        """Gives the options that say the same."""
        return [(options.STATE_BACKEND, options.STATE_BACKEND.default)]


class HashMapStateBackend(StateBackend):
    """State in columns, in files that are mapped into memory: ``state.backend.type`` is ``hashmap``.

    Examples:
        >>> from headrace.datastream import HashMapStateBackend, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.set_state_backend(HashMapStateBackend())
    """


class PredefinedOptions(Enum):
    """The hardware that RocksDB is tuned for.

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
    """Disks that turn: nothing here."""

    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    """Disks that turn, and much memory: a cache of 256 mb, and blocks of 128 kb."""

    FLASH_SSD_OPTIMIZED = 3
    """Flash: nothing here."""


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keyed state in tables of RocksDB: ``state.backend.type`` is ``rocksdb``, which needs ``headrace[rocksdb]``.

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

    def settings(self) -> list[tuple[ConfigOption, Any]]:
        """Gives the options that say the same."""
        found: list[tuple[ConfigOption, Any]] = [(options.STATE_BACKEND, "rocksdb")]
        if self._paths:
            found.append((options.ROCKSDB_LOCAL_DIR, self._paths[0]))
        if self._predefined is not PredefinedOptions.DEFAULT:
            found.append((options.ROCKSDB_PREDEFINED, self._predefined.name))
        return found

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Gives back whether a checkpoint is to hold what has changed alone."""
        return self._incremental

    def set_db_storage_paths(self, *paths: str) -> None:
        """Sets where each machine keeps copies of tables; of several the first one, and a warning says so.

        Args:
            paths: absolute ones, or URIs of the scheme ``file``.

        Raises:
            InvalidProgramError: when one is relative, or of another scheme.
        """
        if len(paths) > 1:
            warn_caller(f"{paths[1:]!r} have no effect: copies of tables lie in one folder, {paths[0]!r}")
        self._paths = [_local_folder(path) for path in paths]

    def get_db_storage_paths(self) -> list[str]:
        """Gives back where each machine keeps copies of tables."""
        return list(self._paths)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Sets what RocksDB is tuned for."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Gives back what RocksDB is tuned for."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Keeps the name of the Java class that tunes RocksDB, which has no effect; a warning says so."""
        warn_caller(f"{options_factory_class_name} has no effect: it is a Java class; set state.backend.rocksdb.*")
        self._factory = options_factory_class_name

    def get_options(self) -> str | None:
        """Gives back the name of the Java class that tunes RocksDB."""
        return self._factory

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Keeps how many threads write and read the files of a checkpoint, which has no effect; a warning says so."""
        warn_caller("the number of transfer threads has no effect: each task writes and reads its own files")
        self._threads = number_of_transfering_threads

    def get_number_of_transfer_threads(self) -> int:
        """Gives back how many threads write and read the files of a checkpoint."""
        return self._threads


def _local_folder(path: str) -> str:
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise InvalidProgramError(f"set_db_storage_paths: {path!r} is not on this machine, which the folder has to be")
    folder = os.path.normpath(unquote(parts.path) if parts.scheme else path)
    if not os.path.isabs(folder):
        raise InvalidProgramError(f"set_db_storage_paths takes absolute paths, not {path!r}")
    return folder


public_module(__name__)
