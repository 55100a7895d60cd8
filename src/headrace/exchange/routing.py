"""Cutting a batch into one part for each target task."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from headrace.state.key_groups import key_groups, partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.state.keys import KeyColumn

ROUTING_ROWS = 1 << 16
"""Rows routed at a time: a sort of this many one-byte partition numbers stays in the cache (measured)."""


def by_key_group(
    keys: KeyColumn, parallelism: int, max_parallelism: int
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Target and row numbers, in the order of the rows, for each target that gets any."""
    targets = partition_of(key_groups(keys.hashes, max_parallelism), parallelism, max_parallelism)
    narrow = targets.astype(np.uint8 if parallelism <= 1 << 8 else np.uint16)
    order = np.argsort(narrow, kind="stable")
    bounds = np.searchsorted(narrow[order], np.arange(parallelism + 1))
    for target in range(parallelism):
        start, stop = bounds[target], bounds[target + 1]
        if stop > start:
            yield target, order[start:stop]


def evenly(batch: Batch, parallelism: int) -> Iterator[tuple[int, Batch]]:
    """Consecutive slices of a batch, one for each target; the order of records within a target stays."""
    bounds = np.linspace(0, len(batch), parallelism + 1).astype(np.int64).tolist()
    for target, (start, stop) in enumerate(pairwise(bounds)):
        if stop > start:
            yield target, batch.slice(start, stop)
