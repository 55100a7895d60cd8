"""Rows as a table of text, as Flink prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from headrace.common.logical_types import string
from headrace.common.types import RowKind
from headrace.table.environment.changes import ResultChanges
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.logical.scalars import Cast, InputRef
from headrace.table.logical.schema import Schema

_NULL: Final = "<NULL>"
_WIDEST: Final = 30
"""The maximum width of a column (Flink's ``table.display.max-column-width``)."""


def tableau(schema: Schema, changes: Iterator[ResultChanges], *, has_kinds: bool) -> Iterator[str]:
    """The lines of the table.

    Args:
        schema: the columns.
        changes: the rows.
        has_kinds: whether to show the kinds of rows, in streaming mode; column widths then depend on types alone.
    """
    rows = text_rows(schema, changes, has_kinds=has_kinds)
    if not has_kinds:
        yield from table_lines(schema.names, list(rows))
        return
    widths = [2, *(max(len(name), _WIDEST) for name in schema.names)]
    count = 0
    for line in _bordered(["op", *schema.names], rows, widths):
        count += 1
        yield line
    yield f"Received a total of {max(count - 4, 0)} rows"


def table_lines(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table with all rows known."""
    yield from _bordered(names, rows, _widths(names, rows))
    yield f"{len(rows)} row{'' if len(rows) == 1 else 's'} in set"


def _bordered(names: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    border = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    yield from (border, _line(names, widths), border)
    is_empty = True
    for row in rows:
        is_empty = False
        yield _line(row, widths)
    if not is_empty:
        yield border


def _widths(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column: that of its longest value, up to a limit unless it is the only column."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return widths if len(names) == 1 else [min(width, _WIDEST) for width in widths]


def text_rows(schema: Schema, changes: Iterator[ResultChanges], *, has_kinds: bool) -> Iterator[list[str]]:
    """The values of rows as texts, after the row kind."""
    compiler = ExpressionCompiler(lambda _: "a column")
    refs = (InputRef(index, type=kind.as_nullable()) for index, kind in enumerate(schema.types))
    texts = [compiler.compile(Cast(ref, type=string())) for ref in refs]
    for part in changes:
        count = part.columns.num_rows
        kinds = np.zeros(count, np.int8) if part.kinds is None else part.kinds
        columns = [text.column(part.columns).fill_null(_NULL).to_pylist() for text in texts]
        symbols = [str(RowKind(kind)) for kind in kinds.tolist()]
        yield from map(list, zip(*([symbols] if has_kinds else []), *columns, strict=True))


def _line(values: Sequence[str], widths: Sequence[int]) -> str:
    shown = (_cut(value, width) for value, width in zip(values, widths, strict=True))
    return f"| {' | '.join(text.rjust(width) for text, width in zip(shown, widths, strict=True))} |"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
