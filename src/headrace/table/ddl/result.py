"""Results of statements other than queries."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.common.logical_types import LogicalType
from headrace.table.functions.types import BOOLEAN, STRING
from headrace.table.logical.schema import Field, Schema


@dataclass(frozen=True)
class StatementResult:
    """The rows of a statement that runs no job.

    Attributes:
        schema: their columns.
        rows: the values.
    """

    schema: Schema
    rows: tuple[tuple[Any, ...], ...]


OK = StatementResult(Schema((Field("result", STRING),)), (("OK",),))
"""The result of statements that change something."""


def one_column(name: str, values: Iterable[str]) -> StatementResult:
    """A result with one column of text."""
    return StatementResult(Schema((Field(name, STRING),)), tuple((value,) for value in values))


def columns(names: Sequence[str], rows: Iterable[tuple[Any, ...]], flags: Sequence[str] = ()) -> StatementResult:
    """A result with columns of text, some of them boolean."""
    kinds: list[LogicalType] = [BOOLEAN if name in flags else STRING for name in names]
    return StatementResult(Schema(tuple(map(Field, names, kinds))), tuple(rows))
