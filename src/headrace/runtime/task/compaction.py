"""Merging runs in the background: what a task does for it on every runtime."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import headrace.operators.window.mergers  # noqa: F401 - tells compaction how runs of windows are merged
from headrace.common.errors import StateCorruptedError
from headrace.state.compaction import run_compaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.state.compaction import CompactionResult, CompactionTask
    from headrace.storage.folder import Folder

logger = logging.getLogger(__name__)


def compact(storage: Folder, tasks: Iterable[CompactionTask]) -> list[CompactionResult]:
    """Merge runs; a task whose files have gone meanwhile is of no use any more and is left out."""
    results = []
    for task in tasks:
        try:
            results.append(run_compaction(storage, task))
        except StateCorruptedError as error:
            # A file that is really damaged is found by the epoch that needs it, and fails the job there.
            logger.info("compaction of %s of operator %s is given up: %s", task.store, task.uid, error)
    return results
