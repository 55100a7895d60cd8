"""A source of rows that are columns in the program already."""

from functools import partial

import pyarrow as pa

from headrace.common.batch import Kinds
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.ranges import RangeEnumerator, reader_of_ranges
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
)

_SPLIT = "columns"


class ColumnsSource(Source[object]):
    """A bounded source of the rows of a batch, in their order.

    Args:
        type_info: their type.
        columns: the rows, under the schema of the type.
        kinds: what they do in a changelog; None where all are insertions.
    """

    boundedness = Boundedness.BOUNDED
    gives_timestamps = False

    def __init__(self, type_info: TypeInformation, columns: pa.RecordBatch, kinds: Kinds | None = None) -> None:
        self._type = type_info
        self._columns = columns
        self._kinds = kinds

    @property
    def produced_type(self) -> TypeInformation[object]:
        return self._type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        size = self._columns.nbytes // max(self._columns.num_rows, 1) + 1
        return RangeEnumerator(_SPLIT, self._columns.num_rows, size)

    def create_reader(self) -> SourceReader:
        return reader_of_ranges(partial(_part_of, self._columns, self._kinds))

    def __repr__(self) -> str:
        return f"ColumnsSource({self._columns.num_rows} rows of {self._type})"


def _part_of(columns: pa.RecordBatch, kinds: Kinds | None, start: int, end: int) -> SourceRecords:
    return SourceRecords(columns=columns.slice(start, end - start), kinds=None if kinds is None else kinds[start:end])
