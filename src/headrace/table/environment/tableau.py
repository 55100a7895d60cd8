"""Rows of a result as they come from its job, and as a table of text, as Flink prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from unicodedata import east_asian_width

import numpy as np
import pyarrow as pa

from headrace.common.batch import Kinds
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot, string
from headrace.common.types import RowKind
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.logical.scalars import Cast, InputRef
from headrace.table.logical.schema import Schema

_NULL: Final = "<NULL>"
WIDEST: Final = 30
"""The maximum width of a column of texts (Flink's ``table.display.max-column-width``)."""

_WIDTHS: Final = {
    TypeRoot.TINYINT: 4,
    TypeRoot.SMALLINT: 6,
    TypeRoot.INTEGER: 11,
    TypeRoot.BIGINT: 20,
    TypeRoot.BOOLEAN: 5,
    TypeRoot.DATE: len("9999-12-31"),
    TypeRoot.TIME: len("23:59:59"),
    TypeRoot.TIMESTAMP: len("9999-12-31 23:59:59"),
    TypeRoot.TIMESTAMP_LTZ: len("9999-12-31 23:59:59"),
}
"""The width of the longest value of a type, without fractions of seconds."""

_WITH_FRACTIONS: Final = frozenset((TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ))


def tableau(
    schema: Schema, changes: Iterator[ResultChanges], *, has_kinds: bool, widest: int = WIDEST, time_zone: str = "UTC"
) -> Iterator[str]:
    """The lines of the table.

    Args:
        schema: the columns.
        changes: the rows.
        has_kinds: whether to show the kinds of rows, in streaming mode; column widths then depend on types alone.
        widest: the maximum width of columns whose widths depend on their values.
        time_zone: the zone in which instants are shown.
    """
    rows = text_rows(schema, changes, has_kinds=has_kinds, time_zone=time_zone)
    if not has_kinds:
        yield from table_lines(schema.names, list(rows), widest)
        return
    types = zip(schema.names, schema.types, strict=True)
    widths = [2, *(max(_display_width(name), len(_NULL), _width_of(kind)) for name, kind in types)]
    lines = 0
    for line in _bordered(["op", *schema.names], rows, widths):
        lines += 1
        yield line
    yield f"Received a total of {_counted(max(lines - 4, 0))}"


def table_lines(names: Sequence[str], rows: Sequence[Sequence[str]], widest: int = WIDEST) -> Iterator[str]:
    """The lines of a table whose rows are all known."""
    yield from _bordered(names, rows, _widths(names, rows, widest))
    yield f"{_counted(len(rows))} in set"


def _counted(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _bordered(names: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    border = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    yield from (border, _line(names, widths), border)
    is_empty = True
    for row in rows:
        is_empty = False
        yield _line(row, widths)
    if not is_empty:
        yield border


def _width_of(kind: LogicalType) -> int:
    """The width of a column whose values are not known yet: that of the longest value of the type."""
    if not isinstance(kind, AtomicType):
        return WIDEST
    size = kind.size or 0
    if kind.root is TypeRoot.DECIMAL:
        return size + len("-0.")
    width = _WIDTHS.get(kind.root, WIDEST)
    return width + 1 + size if kind.root in _WITH_FRACTIONS and size else width


def _widths(names: Sequence[str], rows: Sequence[Sequence[str]], widest: int) -> list[int]:
    """The width of each column: that of its longest value, up to a limit unless it is the only column."""
    widths = [max(map(_display_width, column)) for column in zip(names, *rows, strict=True)]
    return widths if len(names) == 1 else [min(width, widest) for width in widths]


def text_rows(
    schema: Schema, changes: Iterator[ResultChanges], *, has_kinds: bool, time_zone: str = "UTC"
) -> Iterator[list[str]]:
    """The values of rows as texts, after the row kind."""
    compiler = ExpressionCompiler(lambda _: "a column", time_zone)
    refs = (InputRef(index, type=kind.as_nullable()) for index, kind in enumerate(schema.types))
    texts = [compiler.compile(Cast(ref, type=string())) for ref in refs]
    for part in changes:
        count = part.columns.num_rows
        kinds = np.zeros(count, np.int8) if part.kinds is None else part.kinds
        columns = [text.column(part.columns).fill_null(_NULL).to_pylist() for text in texts]
        symbols = [str(RowKind(kind)) for kind in kinds.tolist()]
        yield from map(list, zip(*([symbols] if has_kinds else []), *columns, strict=True))


def _line(values: Sequence[str], widths: Sequence[int]) -> str:
    shown = (_fitted(value, width) for value, width in zip(values, widths, strict=True))
    return f"| {' | '.join(shown)} |"


def _fitted(text: str, width: int) -> str:
    """The text padded on the left, or cut, to a width in a terminal."""
    shown = _display_width(text)
    if shown <= width:
        return " " * (width - shown) + text
    while _display_width(text) > width - 3:
        text = text[:-1]
    return _fitted(f"{text}...", width)


def _display_width(text: str) -> int:
    return len(text) if text.isascii() else sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


@dataclass(frozen=True, slots=True)
class ResultChanges:
    """Some rows of a result.

    Attributes:
        columns: the rows.
        kinds: their kinds, as values of ``RowKind``; None where all are insertions.
    """

    columns: pa.RecordBatch
    kinds: Kinds | None = None
