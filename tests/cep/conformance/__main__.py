"""``python -m tests.cep.conformance``: how many cases of each group are equal; with ids, which are not, and why.

Names are groups or ids of cases.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import Any

from tests.cep.conformance.cases import GROUPS, cases
from tests.cep.conformance.operator_driver import OperatorDriver
from tests.cep.conformance.replay import Drive, difference, is_refused_on_purpose


def told(case: dict[str, Any], drive: Drive = OperatorDriver) -> str | None:
    """What differs; also when something breaks."""
    try:
        return difference(case, drive)
    except Exception as error:  # a fault of the engine is a difference like others
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})"


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for group in GROUPS:
        chosen = [case for case in cases(group) if not names or group in names or case["id"] in names]
        found = {case["id"]: told(case) for case in chosen}
        different = {name: text for name, text in found.items() if text is not None}
        for name, text in different.items() if names else ():
            print(f"{name}: {text}")
        refused = sum(map(is_refused_on_purpose, chosen))
        better = f", {refused} of them refused where Flink hangs, fails or drops what was written" if refused else ""
        if chosen:
            print(f"cep {group}: {len(found) - len(different)} of {len(found)} cases equal{better}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
