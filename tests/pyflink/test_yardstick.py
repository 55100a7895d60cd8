"""The table of PyFlink's examples and tests is whole, and none of its rows is out of date."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.documents import DOCS, is_test, tables
from tests.names.test_table import TABLE
from tests.pyflink.yardstick import DIFFERS, HOLDS, NEEDS

PROGRAMS = Path(__file__).parent / "programs"
DIFFERENCES = [row for row in tables((DOCS / "flink-compatibility.md").read_text()) if row[0].startswith("P-")]


def test_every_example_and_test_has_one_row() -> None:
    rows = [(file, name) for table in (HOLDS, NEEDS, DIFFERS) for file, names in table.items() for name in names]
    assert len(rows) == len(set(rows)) > 100


def test_what_holds_is_shown_by_a_test() -> None:
    assert [test for tests in HOLDS.values() for test in tests.values() if not is_test(test)] == []


def test_what_others_need_is_still_missing() -> None:
    assert {name for needs in NEEDS.values() for name in needs.values() if name not in TABLE} == set()


def test_differences_are_documented() -> None:
    documented = [row[0] for row in DIFFERENCES]
    assert documented == [f"P-{number:02}" for number in range(1, len(documented) + 1)]
    assert {row for rows in DIFFERS.values() for row in rows.values()} <= set(documented)
    for row in DIFFERENCES:
        assert all(row[1:]), row
        assert all(is_test(test) for test in re.findall(r"`(tests/[^`]+)`", row[4])), row
        assert "::" in row[4], row


def test_all_programs_that_can_run_are_here() -> None:
    programs = {path.stem for path in PROGRAMS.glob("*.py")}
    assert programs == HOLDS["examples"].keys() | DIFFERS["examples"].keys()
