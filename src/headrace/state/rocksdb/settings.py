"""``RocksDBSettings``: how tables are written and read, and which of Flink's options say so."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    cache_size: int = 64 << 20
    block_size: int = 4 << 10
    bloom_bits: float = 10.0
    has_partitioned_filters: bool = False
    local_dir: str = ""
    local_size: int = 20 << 30
    open_tables: int = 256
