"""Metadata as fields: what a connector knows about a record besides its value, chosen by name as in Flink's SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.common.arguments import refused
from headrace.common.columns import VALUE_COLUMN, layout_of
from headrace.common.other_names import alike
from headrace.common.typeinfo import CompositeTypeInfo, Types

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from headrace.common.typeinfo import TypeInformation


def chosen_metadata(
    chosen: Mapping[str, str] | Sequence[str], known: Mapping[str, TypeInformation], of: str
) -> dict[str, str]:
    """By name of the field, the metadata that it holds.

    Args:
        chosen: names of metadata, or fields by name and the metadata that each holds.
        known: what there is, by name, with the types of such fields.
        of: what it is known of, for errors.

    Raises:
        InvalidProgramError: when there is no such metadata.
    """
    fields = dict(chosen) if isinstance(chosen, Mapping) else {name: name for name in chosen}
    for name in fields.values():
        if name not in known:
            told = alike(name, known) or f": there are {', '.join(known)}"
            raise refused(f"{of} have no metadata {name!r}{told}")
    return fields


def fields_of(kind: TypeInformation, otherwise: str = VALUE_COLUMN) -> list[tuple[str, TypeInformation]]:
    """The fields of records of a type by name; one that is called ``otherwise`` where it has none."""
    if isinstance(kind, CompositeTypeInfo):
        return list(zip(kind.field_names, kind.field_types, strict=True))
    return [(otherwise, kind)]


def row_type(fields: Sequence[tuple[str, TypeInformation]], advice: str, *, changelog: bool) -> TypeInformation:
    """The type of rows of some fields.

    Raises:
        InvalidProgramError: when two have one name; ``advice`` ends the message.
    """
    names = [name for name, _ in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise refused(f"two fields are called {twice!r}: {advice}")
    return Types.ROW_NAMED(names, [of for _, of in fields], changelog=changelog)


def columns_of(columns: pa.RecordBatch | None, rows: list[Any] | None, kind: TypeInformation) -> list[pa.Array]:
    """The columns of records that are columns or rows of a type; what rows do in a changelog comes last, if known."""
    read = layout_of(kind).rows_to_columns(rows or []) if columns is None else columns
    return list(read.columns)
