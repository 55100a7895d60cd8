"""The options of the state backend ``rocksdb``: those of Flink's that have something to act on, and one of our own."""

from __future__ import annotations

from typing import Any, Final

from headrace.common.config_options import ConfigOption
from headrace.common.config_values import boolean, choice, memory_size, number

_PREFIX: Final = "state.backend.rocksdb."

LOCAL_DIR: Final = ConfigOption[str | None](
    f"{_PREFIX}localdir",
    str,
    None,
    "Where each machine keeps copies of the tables that its tasks read; a folder of the user's in the one for "
    "temporary files when not set.",
)
LOCAL_SIZE: Final = ConfigOption(
    "headrace.state.rocksdb.local-size",
    memory_size,
    20 << 30,
    "How much these copies may take on a machine. Those that were used longest ago go first, and are fetched again "
    "when they are needed.",
)
PREDEFINED: Final = ConfigOption(
    f"{_PREFIX}predefined-options",
    choice("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"),
    "DEFAULT",
    "`SPINNING_DISK_OPTIMIZED_HIGH_MEM` stands for a cache of 256 mb and blocks of 128 kb, as in Flink, where these "
    "options are not set themselves; the others change nothing here.",
)
FIXED_MEMORY: Final = ConfigOption[int | None](
    f"{_PREFIX}memory.fixed-per-slot",
    memory_size,
    None,
    "How much of its tables a process of tasks keeps in memory, indexes and filters included. It goes before the size "
    "of the cache.",
)
CACHE_SIZE: Final = ConfigOption(
    f"{_PREFIX}block.cache-size",
    memory_size,
    64 << 20,
    "The same, where that is not set.",
)
BLOCK_SIZE: Final = ConfigOption(
    f"{_PREFIX}block.blocksize",
    memory_size,
    4 << 10,
    "How much of a table is compressed, checked and read together.",
)
USES_FILTERS: Final = ConfigOption(
    f"{_PREFIX}use-bloom-filter",
    boolean,
    True,
    "Whether tables have filters, so that most keys that are not there are known without reading a block.",
)
FILTER_BITS: Final = ConfigOption(
    f"{_PREFIX}bloom-filter.bits-per-key",
    number(above=0),
    10.0,
    "How large these are: with 10 bits a key, one key in a hundred is looked for in vain.",
)
PARTITIONED: Final = ConfigOption(
    f"{_PREFIX}memory.partitioned-index-filters",
    boolean,
    True,
    "Whether indexes and filters are read in parts. Else a table's whole filter, a megabyte for a million keys, has to "
    "fit one of the 64 parts of the cache, or is read anew for each key.",
)

ROCKSDB_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    LOCAL_DIR,
    LOCAL_SIZE,
    PREDEFINED,
    FIXED_MEMORY,
    CACHE_SIZE,
    BLOCK_SIZE,
    USES_FILTERS,
    FILTER_BITS,
    PARTITIONED,
)
"""All of them; without effect on other backends."""
