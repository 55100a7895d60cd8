"""Lines with more values than columns, where a column takes those that are left over."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from headrace.common.typeinfo import SequenceTypeInfo

if TYPE_CHECKING:
    from headrace.formats.csv.schema import CsvSchema
    from headrace.formats.lines.blocks import Boundary


class ExtraValues:
    """Puts the last value of such a line into the column that takes it.

    Args:
        schema: says which column that is.
        file_columns: the columns of the file, by name.
    """

    def __init__(self, schema: CsvSchema, file_columns: list[str]) -> None:
        arrays = {column.name for column in schema.columns if isinstance(column.kind, SequenceTypeInfo)}
        name = schema.any_property
        self._taker = file_columns.index(name) if name in file_columns and name not in arrays else None
        self._width = len(file_columns)
        self._delimiter = schema.delimiter.encode()
        self._cell = _cell_of(schema)

    @property
    def are_taken(self) -> bool:
        """Whether there is such a column."""
        return self._taker is not None

    def fold(self, data: bytes, boundary: Boundary) -> bytes:
        """The same lines with no more values than columns."""
        return b"".join(self._fold_line(data[start:end]) for start, end in pairwise([0, *boundary.all(data)]))

    def _fold_line(self, line: bytes) -> bytes:
        values = line.rstrip(b"\r\n")
        cells = self._cell.findall(values)
        if self._taker is None or len(cells) <= self._width:
            return line
        cells[self._taker] = cells[-1]
        return self._delimiter.join(cells[: self._width]) + line[len(values) :]


def _cell_of(schema: CsvSchema) -> re.Pattern[bytes]:
    """Finds the values of a line as they stand there, with their quotes."""
    delimiter, quote, escape = (re.escape(char or "") for char in (schema.delimiter, schema.quote, schema.escape))
    escaped = f"|{escape}." if escape else ""
    quoted = f"(?:{quote}(?:[^{quote}{escape}]|{quote}{quote}{escaped})*{quote})?" if quote else ""
    return re.compile(rf"(?s)(?:\A|{delimiter})({quoted}(?:[^{delimiter}{escape}]{escaped})*)".encode())
