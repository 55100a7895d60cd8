"""The names of PyFlink that are missing, on the page on compatibility; ``python -m tests.docs.names_table`` writes it.

Names with one answer share a row.
"""

from __future__ import annotations

from headrace.common.pyflink_names import MEMBERS, MODULES, NAMES, PLAIN, Missing
from tests.docs.documents import DOCS

PAGE = DOCS / "flink-compatibility.md"
NAME = "names"
HEADING = ["| of | names | status | instead, or why not | id |", "|---|---|---|---|---|"]


def table() -> str:
    """One row for each module or class, and answer."""
    groups: dict[tuple[str, Missing], list[str]] = {}
    for owner, name, missing in _names():
        groups.setdefault((owner, missing), []).append(name)
    rows = [_row(owner, missing, names) for (owner, missing), names in groups.items()]
    return "\n".join([*HEADING, *rows]) + "\n"


def _names() -> list[tuple[str, str, Missing]]:
    modules = [("", path, missing) for path, missing in MODULES.items()]
    placed = [(module, name, missing) for module, names in NAMES.items() for name, missing in names.items()]
    owned = [(owner, name, missing) for owner, names in MEMBERS.items() for name, missing in names.items()]
    plain = [("", name, missing) for name, missing in PLAIN.items()]
    return [*modules, *placed, *owned, *plain]


def _row(owner: str, missing: Missing, names: list[str]) -> str:
    of = f"`{owner}`" if owner else "modules" if names[0][0].islower() else "classes"
    status = "not yet" if missing.planned else "not planned"
    return f"| {of} | {', '.join(f'`{name}`' for name in names)} | {status} | {missing.advice} | {missing.item} |"


def main() -> None:
    before, rest = PAGE.read_text().split(f"<!-- {NAME} -->\n", 1)
    _, after = rest.split(f"<!-- /{NAME} -->", 1)
    PAGE.write_text(f"{before}<!-- {NAME} -->\n{table()}<!-- /{NAME} -->{after}")


if __name__ == "__main__":
    main()
