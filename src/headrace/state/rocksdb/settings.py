"""``RocksDBSettings``: how tables are written and read, and which of Flink's options say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.common import rocksdb_options as options

if TYPE_CHECKING:
    from headrace.common.configuration import Configuration

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
        has_memory = configuration.get(options.PREDEFINED) == _HIGH_MEMORY
        cache = configuration.get(options.CACHE_SIZE, (256 << 20) if has_memory else options.CACHE_SIZE.default)
        return RocksDBSettings(
            cache_size=configuration.get(options.FIXED_MEMORY) or cache,
            block_size=configuration.get(options.BLOCK_SIZE, (128 << 10) if has_memory else options.BLOCK_SIZE.default),
            bloom_bits=configuration.get(options.FILTER_BITS) if configuration.get(options.USES_FILTERS) else 0,
            has_partitioned_filters=configuration.get(options.PARTITIONED),
            local_dir=configuration.get(options.LOCAL_DIR) or "",
            local_size=configuration.get(options.LOCAL_SIZE),
        )
