"""Merging runs in the background: what a task does for it on every runtime."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import headrace.operators.window.merging  # noqa: F401 - tells compaction how runs of windows are merged
from headrace.common.errors import StateCorruptedError

if TYPE_CHECKING:
    from headrace.state.backend import CompactionOutcome, CompactionWork, StateBackend
    from headrace.storage.folder import Folder

logger = logging.getLogger(__name__)


def compact(backend: StateBackend, storage: Folder, work: CompactionWork) -> CompactionOutcome | None:
    """Do what the backend has planned; None when the files have gone meanwhile, so that it is of no use any more."""
    try:
        return backend.run_compaction(storage, work)
    except StateCorruptedError as error:
        # A file that is really damaged is found by the epoch that needs it, and fails the job there.
        logger.info("compaction of partition %d of stage %d is given up: %s", work.partition, work.stage, error)
        return None
