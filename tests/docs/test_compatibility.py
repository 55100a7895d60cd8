"""The list of features is whole, and every test that it names exists."""

from __future__ import annotations

import re
from collections import Counter

from tests.docs import names_table
from tests.docs.documents import DOCS, between, is_test, tables

PAGE = DOCS / "flink-compatibility.md"
COUNTS = {"DS": 66, "WM": 20, "WI": 38, "ST": 28, "CP": 16, "CO": 16, "SQ": 58, "CE": 11, "RT": 22, "TU": 5}
STATUSES = ("done", "partly", "not yet", "not planned")

ROWS = [row for row in tables(PAGE.read_text()) if re.fullmatch(r"[A-Z]{2}-\d\d", row[0])]


def test_every_item_is_there_once_and_in_order() -> None:
    expected = [f"{section}-{number:02}" for section, count in COUNTS.items() for number in range(1, count + 1)]
    assert len(expected) == 280
    assert [row[0] for row in ROWS] == expected


def test_rows_say_what_their_status_asks_for() -> None:
    for item, what, status, note, proofs in ROWS:
        assert what, item
        assert status in STATUSES, item
        assert proofs or status != "done", f"{item}: what is done has a test"
        assert note or status not in ("partly", "not planned"), f"{item} has to say what is missing, or why"


def test_the_tests_exist() -> None:
    named = {(row[0], name) for row in ROWS for name in row[4].strip("`").split("`, `") if name}
    assert len(named) > 100
    assert [pair for pair in sorted(named) if not is_test(pair[1])] == []


def test_the_summary_counts_them() -> None:
    counted = Counter((row[0][:2], row[2]) for row in ROWS)
    *sections, total = tables(between(PAGE.read_text(), "summary"))
    assert {row[0]: row[2:] for row in sections} == {
        section: [str(counted[section, status]) for status in STATUSES] for section in COUNTS
    }
    assert total[2:] == [str(sum(counted[section, status] for section in COUNTS)) for status in STATUSES]


def test_the_names_that_are_missing_are_those_of_the_table() -> None:
    assert between(PAGE.read_text(), names_table.NAME) == names_table.table(), "run `python -m tests.docs.names_table`"
