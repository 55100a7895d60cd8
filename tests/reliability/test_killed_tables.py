"""State in tables of RocksDB is exact, whatever dies while they are written, read and adopted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forks import Forks
from tests.reliability.support import canonical, doubles
from tests.reliability.support.dying_tables import AFTER_TABLE, BEFORE_TABLE
from tests.reliability.support.faults import FaultPlan


@pytest.mark.slow
@pytest.mark.long
def test_processes_die_while_tables_are_made(forks: Forks, plan: FaultPlan, tmp_path: Path) -> None:
    plan.arm(doubles.BEFORE_MANIFEST, 4).arm(doubles.AFTER_MANIFEST, 6).arm(BEFORE_TABLE, 3).arm(AFTER_TABLE, 9)
    forks.run_until_it_succeeds("tables", tmp_path, tmp_path / "faults", "local", most=4)
    assert plan.happened == plan.planned
    assert canonical.verify(tmp_path / "output") == canonical.EXACT
    copies = [path.name for path in (tmp_path / "tables").iterdir()]
    assert sum(name.startswith("compacted-") for name in copies) >= 4
