"""``python -m tests.table.conformance``: how many cases of each group are equal; with names, which are not, and why.

Names are groups or ids of cases. ``--update`` writes down which cases are not equal, which the tests then let be.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import Any

from tests.table.conformance.cases import cases, groups, write_known_differences
from tests.table.conformance.replay import difference


def told(case: dict[str, Any]) -> str | None:
    """What differs; also when something breaks."""
    try:
        return difference(case)
    except Exception as error:  # a fault of the engine is a difference like others
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})"


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    update = "--update" in names
    names = [name for name in names if not name.startswith("--")]
    for group in groups():
        chosen = [case for case in cases() if case["group"] == group]
        is_shown = group in names
        if names and not is_shown:
            chosen = [case for case in chosen if case["id"] in names]
        if not chosen:
            continue
        found = {case["id"]: told(case) for case in chosen}
        different = {name: text for name, text in found.items() if text is not None}
        for name, text in different.items() if names else ():
            print(f"{name}: {text}")
        print(f"sql {group}: {len(found) - len(different)} of {len(found)} cases equal", flush=True)
        if update and len(chosen) == sum(case["group"] == group for case in cases()):
            write_known_differences(group, list(different))


if __name__ == "__main__":
    main(sys.argv[1:])
