"""Records of two inputs that wait: when they are many, and what is taken."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common import Types
from headrace.common.batch import Batch
from headrace.common.typeinfo import TypeInformation
from headrace.operators.waiting import WaitingBatches

TEXTS, OBJECTS = Types.STRING(), Types.PICKLED_BYTE_ARRAY()


def batch_of(type_: TypeInformation, *rows: Any) -> Batch:
    return Batch.of_rows(type_, list(rows), range(len(rows)), [7] * len(rows))


def in_columns(batch: Batch) -> Batch:
    return batch.replaced(batch.type, columns=batch.columns)


def test_so_many_rows_are_many() -> None:
    waiting = WaitingBatches[Batch](3)
    assert [waiting.add(0, batch_of(TEXTS, "a")) for _ in range(4)] == [False, False, True, True]
    waiting.take()
    assert not waiting.add(0, batch_of(TEXTS, "a"))


def test_they_come_in_the_order_in_which_they_came() -> None:
    waiting = WaitingBatches[Batch](100)
    for side, rows in ((1, "ab"), (0, "c"), (1, "d")):
        waiting.add(side, batch_of(TEXTS, *rows))
    taken = waiting.take()
    assert (taken.sides.tolist(), taken.watermarks.tolist()) == ([1, 1, 0, 1], [7] * 4)
    assert [own.rows for side in (0, 1) if (own := taken.of(side)) is not None] == [["c"], ["a", "b", "d"]]
    assert waiting.take().batches == []
    assert waiting.take().of(0) is None


@pytest.mark.parametrize("type_", [TEXTS, OBJECTS], ids=["columns", "objects"])
@pytest.mark.parametrize("size", [1, 2])
def test_so_many_bytes_are_many_however_few_rows(
    type_: TypeInformation, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty-four records are weighed together; a kibibyte each is too much at the second time, two at the first."""
    monkeypatch.setattr("headrace.operators.waiting._MOST_BYTES", 100 * 1024)
    waiting = WaitingBatches[Batch](1 << 20, are_stored=True)
    batch = batch_of(type_, *["x" * 1024 * size] * 16)
    batch = in_columns(batch) if type_ == TEXTS else batch
    assert [waiting.add(0, batch) for _ in range(8)].index(True) == 8 // size - 1


def test_objects_that_are_not_stored_are_not_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They need not be anything that can be."""
    monkeypatch.setattr("headrace.operators.waiting._MOST_BYTES", 1)
    waiting = WaitingBatches[Batch](1 << 20)
    assert not waiting.add(0, batch_of(OBJECTS, *[lambda: None] * 100))
