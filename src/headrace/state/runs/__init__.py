"""Runs: sorted, immutable Arrow tables, their bytes in state files, looking keys up in them, merging them."""

from headrace.state.runs.layout import ELEMENT_COUNT, HASH, SORT
from headrace.state.runs.run import ALL_HASHES, HashRange, Run, RunStore

__all__ = ["ALL_HASHES", "ELEMENT_COUNT", "HASH", "SORT", "HashRange", "Run", "RunStore"]
