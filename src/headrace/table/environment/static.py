"""Results without a job: lists, descriptions, plans, and ``OK``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot, string
from headrace.table.environment.table_result import ResultKind, TableResult
from headrace.table.environment.tableau import ResultChanges
from headrace.table.logical.schema import Field, Schema
from headrace.table.physical.translation import record_type

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient

STRING: Final = string()
BOOLEAN: Final = AtomicType(TypeRoot.BOOLEAN)
BIGINT: Final = AtomicType(TypeRoot.BIGINT)


def static_result(
    columns: Sequence[tuple[str, LogicalType]],
    rows: Iterable[Sequence[object]],
    kind: ResultKind = ResultKind.SUCCESS_WITH_CONTENT,
    client: JobClient | None = None,
) -> TableResult:
    """A result of some rows.

    Args:
        columns: names and types.
        rows: the rows.
        kind: the kind of the result.
        client: the client of the job, if one was started.
    """
    schema = Schema(tuple(Field(name, kind) for name, kind in columns))
    type_ = record_type(schema)
    given = [list(row) for row in rows]
    layout = layout_of(type_)
    arrays = [pa.array([row[index] for row in given], field.type) for index, field in enumerate(layout.schema)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=layout.schema)
    return TableResult(schema, type_, iter([ResultChanges(batch)]), kind=kind, client=client)


def done() -> TableResult:
    """The result ``OK``."""
    return static_result([("result", STRING)], [("OK",)], ResultKind.SUCCESS)


def text_result(text: str) -> TableResult:
    """A result with one text."""
    return static_result([("result", STRING)], [(text,)])
