"""RocksDB itself: writing a sorted table into a file, making a database of it, reading that.

A database holds one table and is never written again, so any number of processes may have it open at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InfrastructureError, StateCorruptedError
from headrace.state.state_file import SUFFIX, CompactedName
from headrace.storage.folder import Folder


class TableDamagedError(Exception):
    """A table on this machine's disk cannot be read: blocks of it are damaged, or files are missing."""


def rocksdict() -> Any:
    """The library.

    Raises:
        ConfigurationError: when it is not installed.
    """
    try:
        import rocksdict
    except ImportError as error:
        raise ConfigurationError(
            "the state backend 'rocksdb' needs the package rocksdict, here and where tasks run: install "
            "headrace[rocksdb]"
        ) from error
    return rocksdict


class TableWriter:
    """Writes rows, which come in the order of their keys, into a new table.

    Args:
        path: the file.
        settings: what its blocks are like.

    All methods raise an ``OSError`` when the file cannot be written.
    """

    def __init__(self, path: Path, settings: RocksDBSettings) -> None:
        self._path = path
        self._writer = rocksdict().SstFileWriter(_options(settings))
        with _Raising(OSError, path):
            self._writer.open(str(path))
        self.rows = 0

    def write(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Adds rows."""
        put = self._writer.__setitem__
        with _Raising(OSError, self._path):
            for key, value in zip(keys, values, strict=True):
                put(key, value)
        self.rows += len(keys)

    def finish(self) -> None:
        """Completes the file, which has at least one row."""
        with _Raising(OSError, self._path):
            self._writer.finish()


def make_database(folder: Path, table: Path, settings: RocksDBSettings) -> None:
    """Makes a database that holds a table, whose file becomes part of it.

    Raises:
        OSError: when it cannot be written.
    """
    library = rocksdict()
    options = _options(settings)
    options.create_if_missing(True)
    move = library.IngestExternalFileOptions()
    move.set_move_files(True)
    with _Raising(OSError, folder):
        database = library.Rdict(str(folder), options, {"default": options})
        try:
            database.ingest_external_file([str(table)], move)
        finally:
            database.close()


class RocksTable:
    """A table that is open for reading.

    Args:
        folder: its database.
        settings: how much of it is kept in memory.
        size: how many bytes its file has.

    Raises:
        TableDamagedError: when it cannot be opened.
    """

    def __init__(self, folder: Path, settings: RocksDBSettings, size: int) -> None:
        library = rocksdict()
        options = _options(settings)
        # Without the options of each column family, rocksdict would take those of the file, and a cache of
        # its own for each table.
        families = {"default": options}
        read_only = library.AccessType.read_only(False)
        with _Raising(TableDamagedError, folder):
            self._database = library.Rdict(str(folder), options, families, read_only)
            sizes = [file["size"] for file in self._database.live_files()]
        if sizes != [size]:  # of a list of tables that was cut short RocksDB takes what is left, as after a crash
            raise TableDamagedError(f"{folder}: it has tables of {sizes} bytes, and not one of {size}")
        self._folder = folder

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """The value of each key; None for one that is not there."""
        with _Raising(TableDamagedError, self._folder):
            values: list[bytes | None] = self._database.get(keys)
        return values

    def scan(self, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values from one key up to another, or to the end."""
        with _Raising(TableDamagedError, self._folder):
            rows = self._database.iter()
            rows.seek(start)
            while rows.valid():
                key = rows.key()
                if stop is not None and key >= stop:
                    return
                yield key, rows.value()
                rows.next()
            rows.status()  # a damaged block looks like the end


class _Raising:
    """Makes an error that tells the place of what RocksDB raises, which is of no class of its own.

    Args:
        kind: what is made of it.
        place: file or folder.
    """

    def __init__(self, kind: type[Exception], place: Path) -> None:
        self._kind = kind
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is Exception:
            raise self._kind(f"{self._place}: {error}") from error


def _options(settings: RocksDBSettings) -> Any:
    library = rocksdict()
    blocks = library.BlockBasedOptions()
    blocks.set_block_cache(_cache(settings.cache_size))
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_block_size(settings.block_size)
    blocks.set_checksum_type(library.ChecksumType.xxh3())
    if settings.bloom_bits:
        blocks.set_bloom_filter(settings.bloom_bits, False)
    if settings.has_partitioned_filters:
        blocks.set_index_type(library.BlockBasedIndexType.two_level_index_search())
        blocks.set_partition_filters(bool(settings.bloom_bits))
        blocks.set_pin_top_level_index_and_filter(True)
    options = library.Options(raw_mode=True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(library.DBCompressionType.lz4())
    options.set_max_open_files(-1)  # open at once and for good: the file may be removed meanwhile
    return options


_caches: dict[int, Any] = {}
_lock = threading.Lock()


def _cache(size: int) -> Any:
    """The cache of blocks that all tables of this process share."""
    with _lock:
        if size not in _caches:
            _caches[size] = rocksdict().Cache(size)
        return _caches[size]


_HIGH_MEMORY: Final = "SPINNING_DISK_OPTIMIZED_HIGH_MEM"


@dataclass(frozen=True, slots=True)
class RocksDBSettings:
    """The options with which tables are written and read.

    Attributes:
        cache_size: bytes of blocks that a process keeps in memory, indexes and filters among them.
        block_size: bytes of rows that are compressed, checked and read together.
        bloom_bits: bits of a filter for each key; 0 for no filters.
        has_partitioned_filters: whether indexes and filters are read in parts, rather than as a whole.
        local_dir: where copies of tables lie on each machine; the folder for temporary files where it is empty.
        local_size: how many bytes they may take.
        open_tables: how many tables a process keeps open.
        smallest_table: bytes of runs that are worth a table when they are merged; what is smaller stays in columns.
        largest_columns: runs of columns of so many bytes become a table, also where nothing is to be merged.
    """

    cache_size: int = 64 << 20
    block_size: int = 4 << 10
    bloom_bits: float = 10.0
    has_partitioned_filters: bool = True
    local_dir: str = ""
    local_size: int = 20 << 30
    open_tables: int = 256
    smallest_table: int = 1 << 20
    largest_columns: int = 16 << 20

    @staticmethod
    def of(configuration: Configuration) -> RocksDBSettings:
        """The options that the configuration of a job makes."""
        read = configuration.get
        has_memory = read(options.ROCKSDB_PREDEFINED) == _HIGH_MEMORY
        cache = read(options.ROCKSDB_CACHE_SIZE, (256 << 20) if has_memory else options.ROCKSDB_CACHE_SIZE.default)
        block = (128 << 10) if has_memory else options.ROCKSDB_BLOCK_SIZE.default
        return RocksDBSettings(
            cache_size=read(options.ROCKSDB_FIXED_MEMORY) or cache,
            block_size=read(options.ROCKSDB_BLOCK_SIZE, block),
            bloom_bits=read(options.ROCKSDB_FILTER_BITS) if read(options.ROCKSDB_USES_FILTERS) else 0,
            has_partitioned_filters=read(options.ROCKSDB_PARTITIONED),
            local_dir=read(options.ROCKSDB_LOCAL_DIR) or "",
            local_size=read(options.ROCKSDB_LOCAL_SIZE),
        )


T = TypeVar("T")

PIECE: Final = 8 << 20
"""Bytes that are fetched at once."""

_ABANDONED_S: Final = 3600
"""The age from which on an unfinished copy is of a process that has died."""

_UNFINISHED: Final = "unfinished-"
_WHERE: Final = "set state.backend.rocksdb.localdir to a folder of your own on a disk with room"


class LocalTables:
    """The tables of a checkpoint directory, as processes of this machine read them.

    Args:
        storage: where state files are.
        settings: where copies lie, how many there may be, and how they are read.
    """

    def __init__(self, storage: Folder, settings: RocksDBSettings) -> None:
        self._storage = storage
        self._settings = settings
        self._folder = Path(settings.local_dir or Path(tempfile.gettempdir()) / f"headrace-tables-{os.getuid()}")

    def read(self, name: str, size: int, ask: Callable[[RocksTable], T]) -> T:
        """The result of ``ask``, which is called once more when the copy was damaged.

        Args:
            name: the state file.
            size: how many bytes it has.
            ask: reads from the table.

        Raises:
            StateCorruptedError: when the state file is missing or damaged; the message names it.
            InfrastructureError: when it cannot be fetched.
        """
        try:
            return ask(self._open(name, size))
        except TableDamagedError:
            self._forget(name)
        try:
            return ask(self._open(name, size))
        except TableDamagedError as error:
            raise InfrastructureError(f"a copy of the state file {name} cannot be read: {error}; {_WHERE}") from error

    @contextlib.contextmanager
    def new_file(self) -> Iterator[Path]:
        """A path for a new table, which is gone afterwards.

        Raises:
            InfrastructureError: when this machine's disk refuses it.
        """
        folder = self._unfinished()
        try:
            yield folder / "table"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _open(self, name: str, size: int) -> RocksTable:
        folder = self._folder / name.removesuffix(SUFFIX)
        table = _OPEN.get(folder)
        if table is None:
            if not folder.is_dir():
                self._fetch(name, size, folder)
            table = _OPEN.put(folder, RocksTable(folder, self._settings, size), self._settings.open_tables)
            with contextlib.suppress(OSError):
                os.utime(folder)  # those that were used last are kept
        return table

    def _forget(self, name: str) -> None:
        folder = self._folder / name.removesuffix(SUFFIX)
        _OPEN.drop(folder)
        _remove(folder)

    def _fetch(self, name: str, size: int, folder: Path) -> None:
        with self.new_file() as path:
            try:
                self._copy(name, size, path)
                make_database(path.with_name("database"), path, self._settings)
            except OSError as error:
                raise InfrastructureError(f"{self._folder} cannot be written: {error}; {_WHERE}") from error
            with contextlib.suppress(OSError):  # another process was faster
                path.with_name("database").rename(folder)
        if not folder.is_dir():
            raise InfrastructureError(f"{folder} cannot be made: something is in its place; {_WHERE}")
        self._make_room(folder)

    def _copy(self, name: str, size: int, path: Path) -> None:
        digest = blake2b(digest_size=8)
        with path.open("xb") as file:
            for start in range(0, size, PIECE):
                piece = self._piece(name, start, min(PIECE, size - start))
                digest.update(piece)
                file.write(piece)
        parsed = CompactedName.parse(name)
        if parsed is None or digest.hexdigest() != parsed.digest:
            raise StateCorruptedError(f"the state file {name} is damaged")

    def _piece(self, name: str, start: int, length: int) -> bytes:
        try:
            return self._storage.read_range(name, start, length)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise StateCorruptedError(f"the state file {name} is missing") from error
        except OSError as error:
            raise InfrastructureError(f"the state file {name} cannot be read: {error}") from error

    def _unfinished(self) -> Path:
        """A new folder beside those of the tables."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            about = self._folder.stat()
            if about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise InfrastructureError(f"others may write in {self._folder}: {_WHERE}")
            return Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._folder))
        except OSError as error:
            raise InfrastructureError(f"{self._folder} cannot be written: {error}; {_WHERE}") from error

    def _make_room(self, newest: Path) -> None:
        """Removes what will not be finished, and the copies that were used longest ago, down to the limit."""
        copies = []
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):  # another process removes as well
                used = path.stat().st_mtime
                if not path.name.startswith(_UNFINISHED):
                    copies.append((used, path, sum(file.stat().st_size for file in path.iterdir())))
                elif used < time.time() - _ABANDONED_S:
                    shutil.rmtree(path, ignore_errors=True)
        surplus = sum(size for *_, size in copies) - self._settings.local_size
        for _, path, size in sorted(copies):
            if surplus <= 0:
                return
            if path != newest:
                _OPEN.drop(path)
                _remove(path)
                surplus -= size


class _OpenTables:
    """The tables that this process has open; when there are too many, those that were used longest ago are closed."""

    def __init__(self) -> None:
        self._tables: OrderedDict[Path, RocksTable] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, folder: Path) -> RocksTable | None:
        with self._lock:
            if folder in self._tables:
                self._tables.move_to_end(folder)
            return self._tables.get(folder)

    def put(self, folder: Path, table: RocksTable, limit: int) -> RocksTable:
        with self._lock:
            self._tables[folder] = table
            while len(self._tables) > limit:
                self._tables.popitem(last=False)  # closed when it is not read any more
        return table

    def drop(self, folder: Path) -> None:
        with self._lock:
            self._tables.pop(folder, None)


_OPEN: Final = _OpenTables()


def _remove(folder: Path) -> None:
    """Removes a copy in one step, so that no process finds half of it."""
    with contextlib.suppress(OSError):
        gone = folder.with_name(f"{_UNFINISHED}{uuid.uuid4().hex}")
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
