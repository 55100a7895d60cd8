"""Records and what is known about them, side by side: fields and columns of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.columns import VALUE_COLUMN, layout_of
from headrace.common.typeinfo import CompositeTypeInfo

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.common.typeinfo import TypeInformation


def fields_of(kind: TypeInformation, otherwise: str = VALUE_COLUMN) -> list[tuple[str, TypeInformation]]:
    """The fields of records of a type by name; one that is called ``otherwise`` where it has none."""
    if isinstance(kind, CompositeTypeInfo):
        return list(zip(kind.field_names, kind.field_types, strict=True))
    return [(otherwise, kind)]


def columns_of(columns: pa.RecordBatch | None, rows: list[Any] | None, kind: TypeInformation) -> list[pa.Array]:
    """The columns of records that are columns or rows of a type; what rows do in a changelog comes last, if known."""
    read = layout_of(kind).rows_to_columns(rows or []) if columns is None else columns
    return list(read.columns)
