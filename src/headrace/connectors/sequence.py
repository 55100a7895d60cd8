"""``NumberSequenceSource``: consecutive numbers."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import InvalidProgramError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.common.typeinfo import Types
from headrace.connectors.ranges import RangeEnumerator, runs
from headrace.connectors.source import Boundedness, Source, SourceReader, SourceRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import EnumeratorContext, Json, SplitEnumerator

_SPLIT = "sequence"


@hides_engine_of_methods
class NumberSequenceSource(Source[int]):
    """The numbers from ``start`` to ``end``, both included, as ``LONG`` records in rising order.

    Flink cuts the sequence into one split per reader, so that order and watermarks depend on the parallelism. Here it
    is one split that is read in pieces: in order, whatever the parallelism.

    Args:
        start: the first number.
        end: the last number; one less than ``start`` for no numbers.

    Raises:
        InvalidProgramError: when the bounds are no longs or the wrong way round.

    Examples:
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import NumberSequenceSource
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_source(NumberSequenceSource(1, 5), WatermarkStrategy.no_watermarks(), "numbers")
        >>> sorted(numbers.execute_and_collect(limit=10))
        [1, 2, 3, 4, 5]
    """

    def __init__(self, start: int, end: int) -> None:
        self._start = _long(start)
        self._end = _long(end)
        if self._start > self._end + 1:
            raise InvalidProgramError(f"NumberSequenceSource cannot run from {start} down to {end}")

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> TypeInformation:
        return Types.LONG()

    @property
    def gives_timestamps(self) -> bool:
        return False

    @property
    def reads_in_pieces(self) -> bool:
        return True

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return RangeEnumerator(_SPLIT, self._end - self._start + 1)

    def create_reader(self) -> SourceReader:
        return _SequenceReader(self._start)

    def __repr__(self) -> str:
        return f"NumberSequenceSource({self._start}, {self._end})"


def _long(bound: int) -> int:
    try:
        number = operator.index(bound)
    except TypeError:
        raise InvalidProgramError(f"NumberSequenceSource needs whole numbers as its bounds, not {bound!r}") from None
    if not -(2**63) <= number < 2**63:
        raise InvalidProgramError(f"NumberSequenceSource needs bounds of 64 bits, not {bound!r}")
    return number


class _SequenceReader(SourceReader):
    def __init__(self, first: int) -> None:
        self._first = first
        self._schema = layout_of(Types.LONG()).schema

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for start, end in runs(piece):
            # The offset is added to an array that starts at 0: the end may be the largest long.
            numbers = np.arange(end - start, dtype=np.int64) + np.int64(self._first + start)
            yield SourceRecords(columns=pa.RecordBatch.from_arrays([pa.array(numbers)], schema=self._schema))
