"""Statements of SQL from a topic of the embedded log to others, as one job.

statements.py FOLDER RUNTIME PARALLELISM PLAN
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.killed_logs import DRIVER, end_at_steps
from tests.table.statements import STATEMENTS, environment, insert


def main(where: str, runtime: str, parallelism: str, faults: str) -> None:
    settings = {
        "parallelism.default": parallelism,
        "headrace.epoch.max-records": str(20 // int(parallelism)),
        "headrace.epoch.target-duration": "60s",
    }
    tables = environment(Path(where), runtime, **settings)
    end_at_steps(FaultPlan(faults), DRIVER)
    insert(tables, STATEMENTS).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
