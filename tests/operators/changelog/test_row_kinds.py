"""What records do in a changelog, as a column of theirs, and back."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common import Types
from headrace.common.errors import HeadraceError
from headrace.common.types import RowKind
from headrace.graph.row_specs import ColumnToKindsSpec, KindsToColumnSpec
from tests.operators.changelog.driven import run

PLAIN = Types.ROW_NAMED(["id", "item"], [Types.INT(), Types.STRING()])
SAID = Types.ROW_NAMED(["op", "id", "item"], [Types.STRING(), Types.INT(), Types.STRING()])

CHANGES: list[Any] = [("+I", (1, "a")), ("-U", (1, "a")), ("+U", (1, "b")), ("-D", (1, None))]
ROWS: list[Any] = [
    ("+I", ("INSERT", 1, "a")),
    ("+I", ("UPDATE_BEFORE", 1, "a")),
    ("+I", ("UPDATE_AFTER", 1, "b")),
    ("+I", ("DELETE", 1, None)),
]


def test_every_change_becomes_a_row() -> None:
    assert run(KindsToColumnSpec(SAID), PLAIN, (), CHANGES, cuts=[1, 3]) == ROWS


def test_rows_become_the_changes_that_they_say() -> None:
    assert run(ColumnToKindsSpec(0, PLAIN), SAID, (), ROWS, cuts=[2]) == CHANGES


def test_kinds_have_codes() -> None:
    codes = ((RowKind.INSERT, "i"), (RowKind.UPDATE_AFTER, "u"), (RowKind.UPDATE_AFTER, "r"))
    rows: list[Any] = [("+I", ("i", 1, "a")), ("+I", ("r", 1, "b"))]
    assert run(KindsToColumnSpec(SAID, codes), PLAIN, (), CHANGES, cuts=[1, 3]) == rows
    assert run(ColumnToKindsSpec(0, PLAIN, codes), SAID, (), rows, cuts=[1]) == [CHANGES[0], CHANGES[2]]


def test_a_text_that_is_no_kind_is_told() -> None:
    with pytest.raises(HeadraceError, match="'UPSERT' is no kind of change: there are INSERT, UPDATE_BEFORE"):
        run(ColumnToKindsSpec(0, PLAIN), SAID, (), [("+I", ("UPSERT", 1, "a"))])
