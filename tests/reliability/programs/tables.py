"""The canonical topology, its keyed state in tables of RocksDB, with the faults of a plan.

tables.py FOLDER PLAN RUNTIME
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.reliability.support import canonical
from tests.reliability.support.doubles import use_dying_store
from tests.reliability.support.dying_tables import use_dying_tables
from tests.reliability.support.faults import FaultPlan


def main(folder: str, faults: str, runtime: str) -> None:
    plan = FaultPlan(faults)
    with pytest.MonkeyPatch.context() as patch:
        use_dying_store(plan)
        use_dying_tables(Path(folder), plan, patch)
        settings = canonical.configuration(
            Path(folder),
            **{
                "headrace.runtime": runtime,
                "headrace.spark.master": "local[2]",
                "headrace.epoch.max-records": str(canonical.COUNT * canonical.SPLITS // 20),
                "headrace.epoch.target-duration": "60s",
                "state.backend.type": "rocksdb",
            },
        )
        canonical.build(settings, canonical.row_sink(Path(folder) / "output"), plan).execute("tables")


if __name__ == "__main__":
    main(*sys.argv[1:])
