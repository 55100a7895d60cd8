"""A source of numbers that tell which split they are of and which place they have in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.typeinfo import Types
from headrace.connectors.ranges import RangeEnumerator, plan_range, runs
from headrace.connectors.source import Boundedness, Source, SourceReader, SourceRecords

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import EnumeratorContext, Json, ReadBudget, SplitEnumerator, SplitRead

BATCH = 500


def split_of(number: int, splits: int) -> int:
    """The split that a number is of."""
    return number % splits


class NumbersInSplits(Source):
    """Longs that are unique, and rise by the same step within each split: split ``s`` holds ``s, s + n, s + 2n, …``.

    Args:
        splits: how many splits.
        count: how many numbers there are in each.
        pause: seconds that reading a piece takes longer than it has to.
    """

    def __init__(self, splits: int, count: int, pause: float = 0.0) -> None:
        self._splits = splits
        self._count = count
        self._pause = pause

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> TypeInformation:
        return Types.LONG()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return _Enumerator(self._splits, self._count)

    def create_reader(self) -> SourceReader:
        return _Reader(self._splits, self._pause)


class _Enumerator(RangeEnumerator):
    def __init__(self, splits: int, count: int) -> None:
        super().__init__("", count)
        self._splits = splits
        self._each = count

    def discover(self, now: int) -> Sequence[str]:
        return [str(split) for split in range(self._splits)]

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        read = plan_range(split_id, position, self._each, budget)
        if read is None:
            return None
        ((start, end),) = read.pieces
        return type(read)(split_id, position, read.end, ([int(split_id), start, end],), read.records, read.bytes)


class _Reader(SourceReader):
    def __init__(self, splits: int, pause: float) -> None:
        self._splits = splits
        self._pause = pause
        self._schema = layout_of(Types.LONG()).schema

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        split, start, end = piece
        time.sleep(self._pause)
        for first, stop in runs([start, end], BATCH):
            numbers = np.arange(first, stop, dtype=np.int64) * self._splits + split
            yield SourceRecords(columns=pa.RecordBatch.from_arrays([pa.array(numbers)], schema=self._schema))
