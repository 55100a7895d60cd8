"""A state backend whose process dies while tables are made of its state; tables are made of whatever is in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jobmanager import compaction
from headrace.state.backend import ROCKSDB_BACKEND, STATE_BACKENDS
from headrace.state.rocksdb.backend import RocksDBBackend
from headrace.state.rocksdb.table import RocksDBSettings
from tests.reliability.support.faults import FaultPlan, die

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from headrace.common.configuration import Configuration
    from headrace.state.compaction import CompactionResult, CompactionTask
    from headrace.storage.folder import Folder

BEFORE_TABLE: Final = "a table is to be written"
AFTER_TABLE: Final = "a table has been written, and nobody knows it yet"


class DyingTables(RocksDBBackend):
    """It travels to the tasks, so they die as well."""

    def __init__(self, folder: Path, plan: FaultPlan) -> None:
        settings = RocksDBSettings(local_dir=str(folder / "tables"), smallest_table=0, largest_columns=0)
        super().__init__(ROCKSDB_BACKEND, settings)
        self._plan = plan

    def configured(self, configuration: Configuration) -> DyingTables:
        return self

    def run_compaction(self, storage: Folder, work: CompactionTask) -> CompactionResult:
        if self._plan.strikes(BEFORE_TABLE):
            die()
        result = super().run_compaction(storage, work)
        if self._plan.strikes(AFTER_TABLE):
            die()
        return result


def use_dying_tables(folder: Path, plan: FaultPlan, patch: pytest.MonkeyPatch) -> None:
    """Jobs of this process have that backend, and look for something to merge after each epoch."""
    patch.setattr(compaction, "EPOCHS_BETWEEN_LOOKS", 1)
    patch.setattr(type(STATE_BACKENDS), "load", lambda *_: DyingTables(folder, plan))
