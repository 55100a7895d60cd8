"""Sources whose position is a number: the share of an epoch is a range of numbers, cut evenly into pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.connectors.source import Pending, SplitEnumerator, SplitRead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.connectors.source import Json, ReadBudget

READ_RECORDS = 1 << 15
"""How many records a reader hands over at once."""


def plan_range(
    split_id: str, position: int, available: int | None, budget: ReadBudget, record_bytes: int = 8
) -> SplitRead | None:
    """An epoch's share of the numbers from ``position`` up to ``available``.

    Args:
        split_id: the split.
        position: the next number.
        available: the end of what can be read now; None when there is no end.
        budget: how much the epoch may take.
        record_bytes: what a record is guessed to take.
    """
    count = share(position, available, budget, record_bytes)
    if not count:
        return None
    end = position + count
    pieces = tuple(cut_evenly(position, end, budget.pieces))
    return SplitRead(split_id, position, end, pieces, records=count, bytes=count * record_bytes)


def share(position: int, available: int | None, budget: ReadBudget, record_bytes: int) -> int:
    """How many numbers an epoch takes; the arguments are those of :func:`plan_range`."""
    count = max(1, min(budget.records, budget.bytes // max(record_bytes, 1)))
    return count if available is None else max(0, min(count, available - position))


def pending_numbers(position: int, available: int | None, record_bytes: int = 8) -> Pending:
    """What is beyond ``position``; the arguments are those of :func:`plan_range`."""
    if available is None:
        return Pending()
    records = max(0, available - position)
    return Pending(records, records * record_bytes)


def cut_evenly(start: int, end: int, pieces: int) -> Iterator[list[int]]:
    """``[start, end)`` in at most ``pieces`` ranges of about equal length, none of them empty."""
    pieces = max(1, min(pieces, end - start))
    for index in range(pieces):
        yield [start + (end - start) * index // pieces, start + (end - start) * (index + 1) // pieces]


def runs(piece: Json, length: int = READ_RECORDS) -> Iterator[tuple[int, int]]:
    """The runs of at most ``length`` numbers in which a reader hands a piece over."""
    start, end = piece
    for at in range(start, end, length):
        yield at, min(at + length, end)


class RangeEnumerator(SplitEnumerator):
    """Plans one split of the numbers from 0 up to a known count.

    Args:
        split_id: the name of the split.
        count: how many records there are; None for no end.
        record_bytes: what a record is guessed to take.
    """

    def __init__(self, split_id: str, count: int | None, record_bytes: int = 8) -> None:
        self._split_id = split_id
        self._count = count
        self._record_bytes = record_bytes

    def discover(self, now: int) -> Sequence[str]:
        return (self._split_id,)

    def initial_position(self, split_id: str) -> Json:
        return 0

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        return plan_range(split_id, position, self._count, budget, self._record_bytes)

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        return pending_numbers(position, self._count, self._record_bytes)

    def is_finished(self, split_id: str, position: Json) -> bool:
        return self._count is not None and position >= self._count
