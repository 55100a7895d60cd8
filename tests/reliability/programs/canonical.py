"""The canonical topology, with the faults of a plan.

canonical.py FOLDER PLAN RUNTIME [MASTER [PAUSE]]
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.reliability.support import canonical
from tests.reliability.support.doubles import DyingSink, use_dying_store
from tests.reliability.support.faults import FaultPlan


def main(folder: str, faults: str, runtime: str, master: str = "local[2]", pause: str = "0") -> None:
    plan = FaultPlan(faults)
    use_dying_store(plan)
    settings = canonical.configuration(Path(folder), **{"headrace.runtime": runtime, "headrace.spark.master": master})
    sink = DyingSink(canonical.row_sink(Path(folder) / "output"), plan)
    canonical.build(settings, sink, plan, float(pause)).execute("canonical")


if __name__ == "__main__":
    main(*sys.argv[1:])
