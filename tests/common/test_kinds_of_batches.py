"""Rows keep what they do in a changelog, whichever face of a batch is used and whatever is done with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.batch import Batch, concat
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row, RowKind
from headrace.exchange.envelope import PayloadDecoder, encode
from tests.draws import draws

PLAIN = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
DECLARED = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()], changelog=True)
UNTYPED = Types.PICKLED_BYTE_ARRAY()

ROWS = st.lists(
    st.builds(
        lambda kind, a, b: Row.of_kind(kind, a=a, b=b),
        st.sampled_from([RowKind.INSERT, RowKind.INSERT, *RowKind]),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.text(max_size=3),
    ),
    min_size=1,
    max_size=8,
)
TYPES = st.sampled_from([PLAIN, DECLARED, UNTYPED])


def batch_of(kind: TypeInformation, rows: list[Row]) -> Batch:
    return Batch.of_rows(kind, list(rows), range(len(rows)), [0] * len(rows))


def kinds(rows: list[Row]) -> list[int] | None:
    found = [row.get_row_kind().value for row in rows]
    return found if any(found) else None


def sent(batch: Batch) -> Batch:
    """A batch behind a shuffle, where two payloads were read together."""
    half = len(batch) // 2
    parts = [batch.slice(0, half), batch.slice(half, len(batch))] if half else [batch]
    return PayloadDecoder(batch.type, None).decode([encode(part, None, None) for part in parts])[0]


def filtered(batch: Batch, rows: list[Row], at: int) -> tuple[Batch, list[Row]]:
    mask = np.array([i == at or row.a is not None for i, row in enumerate(rows)])
    return batch.filter(mask), [row for row, kept in zip(rows, mask.tolist(), strict=True) if kept]


def taken(batch: Batch, rows: list[Row], at: int) -> tuple[Batch, list[Row]]:
    order = [at, *range(len(rows) - 1, -1, -1)]
    return batch.take(np.array(order)), [rows[i] for i in order]


def joined(batch: Batch, rows: list[Row], at: int) -> tuple[Batch, list[Row]]:
    first = batch.slice(0, at + 1)
    return concat([first, batch.without_rows() if at % 2 else batch]), [*rows[: at + 1], *rows]


def looked_at(batch: Batch, rows: list[Row], at: int) -> tuple[Batch, list[Row]]:
    assert batch.rows == rows
    return batch, rows


DONE: dict[str, Callable[[Batch, list[Row], int], tuple[Batch, list[Row]]]] = {
    "columns": lambda batch, rows, at: (batch.without_rows(), rows),
    "rows": looked_at,
    "slice": lambda batch, rows, at: (batch.slice(at, len(rows)), rows[at:]),
    "take": taken,
    "filter": filtered,
    "concat": joined,
    "watermarks": lambda batch, rows, at: (batch.with_watermarks(batch.watermarks + 1), rows),
    "send": lambda batch, rows, at: (sent(batch), rows),
}


@given(
    kind=TYPES,
    rows=ROWS,
    steps=st.lists(st.tuples(st.sampled_from(sorted(DONE)), st.integers(0, 7)), max_size=6),
)
@settings(deadline=None, max_examples=draws(60))
def test_no_step_loses_a_kind(kind: TypeInformation, rows: list[Row], steps: list[tuple[str, int]]) -> None:
    batch, expected = batch_of(kind, rows), rows
    for step, at in steps:
        batch, expected = DONE[step](batch, expected, min(at, len(expected) - 1))
        found = batch.kinds
        assert (None if found is None else found.tolist()) == kinds(expected)
    assert batch.rows == expected


def test_insertions_have_no_kinds_at_all() -> None:
    batch = batch_of(PLAIN, [Row(a=1, b="x"), Row.of_kind(RowKind.DELETE, a=2, b="y"), Row(a=3, b="z")])
    insertion = len(encode(batch.slice(0, 1), None, None))
    assert (len(encode(batch.slice(1, 2), None, None)) - insertion, batch.columns.num_columns) == (1, 2)
    assert [part.kinds_beside_columns is None for part in (batch, batch.slice(0, 1), batch.take(np.array([0, 2])))] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (Row.of_kind(RowKind.DELETE, 1, "x"), Row.of_kind(RowKind.DELETE, a=1, b="x")),
        (Row.of_kind(RowKind.UPDATE_AFTER, b="x", a=1), Row.of_kind(RowKind.UPDATE_AFTER, a=1, b="x")),
        (Row.of_kind(RowKind.UPDATE_BEFORE, a=np.int64(1), b="x"), Row.of_kind(RowKind.UPDATE_BEFORE, a=1, b="x")),
        ((1, "x"), Row(a=1, b="x")),
        ({"a": 1}, Row(a=1, b=None)),
    ],
)
def test_records_that_are_coerced_keep_their_kind(record: Any, expected: Row) -> None:
    assert batch_of(PLAIN, [record]).rows == batch_of(PLAIN, [record]).without_rows().rows == [expected]


def test_what_does_not_fit_is_told_of_the_right_row() -> None:
    rows = [Row.of_kind(RowKind.DELETE, a=1, b="x"), Row.of_kind(RowKind.DELETE, a="1", b="x")]
    for face in (lambda batch: batch.rows, lambda batch: batch.columns):
        with pytest.raises(InvalidTypeError, match="row 1, field 'a': got '1'"):
            face(batch_of(PLAIN, rows))


def test_columns_that_are_made_of_changes_are_of_their_kinds() -> None:
    batch = batch_of(PLAIN, [Row(a=1, b="x"), Row.of_kind(RowKind.DELETE, a=2, b="y")])
    other = Types.ROW_NAMED(["c"], [Types.LONG()])
    made = batch.replaced(other, columns=batch.columns.select(["a"]).rename_columns(["c"]), sources=np.array([1, 0]))
    assert made.rows == [Row.of_kind(RowKind.DELETE, c=1), Row(c=2)]
    with pytest.raises(
        InvalidTypeError, match=r"some records are changes \(-D\), which only rows can be, and not Long"
    ):
        batch.replaced(Types.LONG(), columns=batch.columns.select(["a"]).rename_columns(["value"]))


def test_rows_inside_rows_are_insertions() -> None:
    outer = Types.ROW([PLAIN])
    rows = [Row.of_kind(RowKind.DELETE, Row.of_kind(RowKind.DELETE, a=1, b="x"))]
    with pytest.raises(InvalidTypeError, match=r"row 0, field 'f0'.*an INSERT row"):
        _ = batch_of(outer, rows).columns
