"""Columns of files that their table does not have: a copy of the rows of the table would lose them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.json

from headrace.common.columns import layout_of
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.logical_types import ArrayType, LogicalType, MapType, RowType
from headrace.formats.avro.files import AvroFormat
from headrace.formats.compression import open_decompressed
from headrace.formats.orc import OrcFormat
from headrace.formats.parquet import ParquetFormat
from headrace.storage.files import InputFile, shown
from headrace.table.catalog.objects import ObjectPath

_READ_BYTES: Final = 1 << 20
_MOST_BYTES: Final = (1 << 31) - 1


def check_columns(
    table: ObjectPath, format_name: str, files: Iterable[InputFile], columns: Mapping[str, LogicalType]
) -> None:
    """Refuse files with other columns than those of their table.

    Args:
        table: the path of the table.
        format_name: the format of the files.
        files: the files.
        columns: the columns of the table that are in files, by name.

    Raises:
        InvalidProgramError: naming a file and a column, or when it is not known which columns files have.
    """
    if format_name in _AS_DECLARED:
        return
    columns_of = _COLUMNS.get(format_name)
    if columns_of is None:
        raise InvalidProgramError(
            f"the files of table {table} have the format {format_name!r}, and whether they have more columns than the "
            f"table, which a copy would lose, is known of {', '.join(sorted((*_AS_DECLARED, *_COLUMNS)))}"
        )
    for file in files:
        try:
            other = next(_others(columns_of(file), columns), None)
        except (pa.ArrowInvalid, InvalidTypeError) as error:
            raise InvalidProgramError(
                f"which columns {shown(file.path)} has is not known, and a copy would lose those that table {table} "
                f"does not have: {error}"
            ) from error
        if other is not None:
            raise InvalidProgramError(
                f"{shown(file.path)} has the column {other!r}, which table {table} does not have, so a copy would "
                "lose it: add it to the table, or take it out of the file"
            )


def _others(found: Iterable[pa.Field], columns: Mapping[str, LogicalType], above: str = "") -> Iterator[str]:
    """The names of columns, and of fields in them, that are not among those of a table."""
    for field in found:
        name = f"{above}{field.name}"
        if field.name in columns:
            yield from _inside(name, field.type, columns[field.name])
        else:
            yield name


def _inside(name: str, found: pa.DataType, kind: LogicalType) -> Iterator[str]:
    if isinstance(kind, RowType) and pa.types.is_struct(found):
        yield from _others(found, dict(zip(kind.names, kind.types, strict=True)), f"{name}.")
    elif isinstance(kind, ArrayType) and _is_list(found):
        yield from _inside(name, found.value_type, kind.element)
    elif isinstance(kind, MapType) and pa.types.is_map(found):
        yield from _inside(name, found.item_type, kind.value)
    elif isinstance(kind, MapType) and pa.types.is_struct(found):  # a JSON object, whose names are keys
        for field in found:
            yield from _inside(f"{name}.{field.name}", field.type, kind.value)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _of_avro(file: InputFile) -> pa.Schema:
    return layout_of(AvroFormat().resolve(lambda: [file]).produced_type).schema


def _of_json(file: InputFile) -> pa.Schema:
    """The names in all objects of a file of lines."""
    with open_decompressed(file) as stream:
        content = b"".join(iter(lambda: stream.read(_READ_BYTES), b""))
    options = pa.json.ReadOptions(use_threads=False, block_size=min(len(content) + 1, _MOST_BYTES))
    return pa.json.read_json(pa.BufferReader(content), read_options=options).schema


_AS_DECLARED: Final = ("csv", "raw")
"""A line with more values than the table has columns cannot be read, so the copy itself fails."""

_COLUMNS: Final[Mapping[str, Callable[[InputFile], pa.Schema]]] = {
    "avro": _of_avro,
    "json": _of_json,
    "orc": OrcFormat().file_schema,
    "parquet": ParquetFormat().file_schema,
}
