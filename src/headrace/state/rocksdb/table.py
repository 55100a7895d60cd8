"""RocksDB itself: writing a sorted table into a file, making a database of it, reading that.

A database holds one table and is never written again, so any number of processes may have it open at once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common import options
from headrace.common.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.common.configuration import Configuration


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
        with _Told(OSError, path):
            self._writer.open(str(path))
        self.rows = 0

    def write(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Adds rows."""
        put = self._writer.__setitem__
        with _Told(OSError, self._path):
            for key, value in zip(keys, values, strict=True):
                put(key, value)
        self.rows += len(keys)

    def finish(self) -> None:
        """Completes the file, which has at least one row."""
        with _Told(OSError, self._path):
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
    with _Told(OSError, folder):
        database = library.Rdict(str(folder), options, {"default": options})
        try:
            database.ingest_external_file([str(table)], move)
        finally:
            database.close()


class Table:
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
        # Without being told the options of each column family, rocksdict would take those of the file, and a cache of
        # its own for each table.
        families = {"default": options}
        read_only = library.AccessType.read_only(False)
        with _Told(TableDamagedError, folder):
            self._database = library.Rdict(str(folder), options, families, read_only)
            sizes = [file["size"] for file in self._database.live_files()]
        if sizes != [size]:  # of a list of tables that was cut short RocksDB takes what is left, as after a crash
            raise TableDamagedError(f"{folder}: it has tables of {sizes} bytes, and not one of {size}")
        self._folder = folder

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """The value of each key; None for one that is not there."""
        with _Told(TableDamagedError, self._folder):
            values: list[bytes | None] = self._database.get(keys)
        return values

    def scan(self, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values from one key up to another, or to the end."""
        with _Told(TableDamagedError, self._folder):
            rows = self._database.iter()
            rows.seek(start)
            while rows.valid():
                key = rows.key()
                if stop is not None and key >= stop:
                    return
                yield key, rows.value()
                rows.next()
            rows.status()  # a damaged block looks like the end


class _Told:
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
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
    """How tables are written and read.

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
        """Those that the options of a job make."""
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
