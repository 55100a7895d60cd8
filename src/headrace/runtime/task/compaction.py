"""Merging runs in the background: what a task does for it on every runtime."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import headrace.operators.window.merging  # noqa: F401 - tells compaction how runs of windows are merged
from headrace.common.errors import StateCorruptedError
from headrace.state.compaction import run_compaction

if TYPE_CHECKING:
    from headrace.state.compaction import CompactionResult, CompactionTask
    from headrace.storage.folder import Folder

logger = logging.getLogger(__name__)


def compact(storage: Folder, task: CompactionTask) -> CompactionResult | None:
    """Merge runs; None when their files have gone meanwhile, so that it is of no use any more."""
    try:
        return run_compaction(storage, task)
    except StateCorruptedError as error:
        # A file that is really damaged is found by the epoch that needs it, and fails the job there.
        logger.info("compaction of %s of operator %s is given up: %s", task.store, task.uid, error)
        return None
