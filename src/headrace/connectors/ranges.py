"""Sources whose position is a number, of which an epoch's share is a range: a sequence of numbers, a collection."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.arguments import expect
from headrace.common.columns import infer_from_values, layout_of
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import Types
from headrace.connectors.source import (
    Boundedness,
    Pending,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import EnumeratorContext, Json, ReadBudget


READ_RECORDS = 1 << 15
"""A reader hands over at most so many records at once."""


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
    """The count of numbers that an epoch takes; the arguments are those of :func:`plan_range`."""
    count = max(1, min(budget.records, budget.bytes // max(record_bytes, 1)))
    return count if available is None else max(0, min(count, available - position))


def pending_numbers(position: int, available: int | None, record_bytes: int = 8) -> Pending:
    """The backlog beyond ``position``; the arguments are those of :func:`plan_range`."""
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


_SEQUENCE = "sequence"


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

    boundedness = Boundedness.BOUNDED
    gives_timestamps = False
    reads_in_pieces = True

    def __init__(self, start: int, end: int) -> None:
        self._start = _long(start)
        self._end = _long(end)
        if self._start > self._end + 1:
            raise InvalidProgramError(f"NumberSequenceSource cannot run from {start} down to {end}")

    @property
    def produced_type(self) -> TypeInformation:
        return Types.LONG()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return RangeEnumerator(_SEQUENCE, self._end - self._start + 1)

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


_COLLECTION = "collection"


class CollectionSource(Source[T_co]):
    """A bounded source of the given elements, in their order.

    The elements are checked against the type here, once, and are kept as columns when the type has any
    and all rows are insertions (``RowKind``).

    Args:
        elements: the elements; read once, now.
        type_info: their type, or a class or type hint that stands for one; inferred from the elements when left out.

    Raises:
        InvalidTypeError: when an element does not fit the type, or ``elements`` would give characters, keys or names of
            columns.
    """

    boundedness = Boundedness.BOUNDED
    gives_timestamps = False
    reads_in_pieces = True

    def __init__(self, elements: Iterable[Any], type_info: TypeInformation | type | None = None) -> None:
        _check_rows(elements)
        rows = list(elements)
        self._type = infer_from_values(rows) if type_info is None else Types.of(type_info)
        self._count = len(rows)
        self._rows: list[Any] | None = rows
        self._columns: pa.RecordBatch | None = None
        if self._type.arrow_type is not None:
            columns, kinds = layout_of(self._type).rows_to_columns_and_kinds(rows)
            if kinds is None:
                self._columns, self._rows = columns, None

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        size = 64 if self._columns is None else self._columns.nbytes // max(self._count, 1) + 1
        return RangeEnumerator(_COLLECTION, self._count, size)

    def create_reader(self) -> SourceReader:
        return _CollectionReader(self._rows, self._columns)

    def __repr__(self) -> str:
        return f"CollectionSource({self._count} elements of {self._type})"


def _check_rows(elements: Any) -> None:
    """Refuse what can be iterated, but gives something else than the records that were meant."""
    if isinstance(elements, str | bytes):
        raise InvalidTypeError(f"a collection is a list of elements, not {elements!r}: write [{elements!r}]")
    if isinstance(elements, Mapping):
        raise InvalidTypeError(
            "a collection is a list of elements, and a dict gives its keys only: write list(d.items())"
        )
    if hasattr(elements, "columns"):  # of pandas, Polars, Arrow, Spark
        raise InvalidTypeError(
            f"a collection is a list of elements, and a {type(elements).__name__} gives its columns: write "
            "list(frame.itertuples(index=False, name=None)) of pandas, frame.rows() of Polars, table.to_pylist() of "
            "Arrow, or env.from_dataframe(frame) of Spark"
        )
    expect(elements, Iterable, "from_collection")


class _CollectionReader(SourceReader):
    def __init__(self, rows: list[Any] | None, columns: pa.RecordBatch | None) -> None:
        self._rows = rows
        self._columns = columns

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for start, end in runs(piece):
            if self._columns is not None:
                yield SourceRecords(columns=self._columns.slice(start, end - start))
            else:
                assert self._rows is not None
                yield SourceRecords(rows=self._rows[start:end])
