"""What messages of changes say besides rows, as columns: when, of which table, by which key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import MapTypeInfo, TypeInformation, Types
from headrace.formats.json.decoders import decoder_of

_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True)
class MetadataField:
    """One thing that messages of a format say.

    Attributes:
        path: where it stands in the document.
        kind: the type of the field.
        stored: the type of what stands there.
        unit: of what stands there in numbers or texts and is a moment: ``s``, ``ms`` or ``us``.
    """

    path: tuple[str, ...]
    kind: TypeInformation
    stored: TypeInformation
    unit: str | None = None


def text(*path: str) -> MetadataField:
    """A string; anything else as its text of JSON."""
    return MetadataField(path, Types.STRING(), Types.STRING())


def texts(*path: str) -> MetadataField:
    """A list of strings."""
    return MetadataField(path, Types.LIST(Types.STRING()), Types.LIST(Types.STRING()))


def moment(*path: str, unit: str) -> MetadataField:
    """A number of seconds or milliseconds since 1970."""
    return MetadataField(path, Types.TIMESTAMP_LTZ(), Types.LONG(), unit)


def time_of_utc(*path: str) -> MetadataField:
    """A text of day and time without a zone, which is UTC."""
    return MetadataField(path, Types.TIMESTAMP_LTZ(), Types.SQL_TIMESTAMP(), "us")


def numbers(*path: str) -> MetadataField:
    """Numbers by name."""
    kind = Types.MAP(Types.STRING(), Types.INT())
    return MetadataField(path, kind, kind)


def properties(*path: str) -> MetadataField:
    """Whatever stands there, by name, as texts."""
    kind = Types.MAP(Types.STRING(), Types.STRING())
    return MetadataField(path, kind, kind)


def metadata_columns(fields: Sequence[MetadataField], messages: pa.Array) -> list[pa.Array]:
    """What messages say, a column for each field.

    Raises:
        ValueError: when a message cannot be read.
    """
    alone = [field for field in fields if isinstance(field.kind, MapTypeInfo)]  # others may be within it
    read = {field: column for field in alone for column in _read([field], messages)}
    together = [field for field in fields if field not in read]
    read |= zip(together, _read(together, messages), strict=True)
    return [read[field] for field in fields]


def _read(fields: Sequence[MetadataField], messages: pa.Array) -> list[pa.Array]:
    if not fields:
        return []
    tree: dict[str, Any] = {}
    for field in fields:
        *outer, last = field.path
        node = tree
        for name in outer:
            node = node.setdefault(name, {})
        node[last] = field.stored
    batch = decoder_of(_row_of(tree)).messages(messages)
    return [_typed(field, _found(batch, field.path)) for field in fields]


def _row_of(tree: Mapping[str, Any]) -> TypeInformation:
    kinds = [_row_of(inner) if isinstance(inner, dict) else inner for inner in tree.values()]
    return Types.ROW_NAMED(list(tree), kinds)


def _found(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    array = batch.column(path[0])
    return pc.struct_field(array, list(path[1:])) if len(path) > 1 else array


def _typed(field: MetadataField, array: pa.Array) -> pa.Array:
    if field.unit is None:
        return array
    micros = pc.multiply_checked(array.view(pa.int64()), _MICROS[field.unit])
    return micros.view(field.kind.storage_type)
