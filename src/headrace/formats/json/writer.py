"""Writing lines of JSON."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import array_to_values
from headrace.common.typeinfo import BasicType, BasicTypeInfo
from headrace.common.typeinfo.basic import FLOATS, STRINGS, WHOLE_NUMBERS
from headrace.formats.column_text import bytes_of, join_text, simple_text
from headrace.formats.encoders import BatchEncoder
from headrace.formats.json.values import json_text, string_text

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation

_SPECIAL = r'["\\\x00-\x1f]'

_AS_THEY_ARE = WHOLE_NUMBERS | {BasicType.BOOLEAN, BasicType.BIG_INT}


class JsonLinesEncoder(BatchEncoder):
    """Writes every record as one line of JSON: records with fields as objects, simple ones as they are.

    Simple fields are written column by column, without a loop in Python; lists, maps and times one by one.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.json import JsonLinesEncoder
        >>> sink = FileSink.for_row_format("/data/out", JsonLinesEncoder()).build()
    """

    def encode_batch(self, batch: Batch) -> bytes:
        kind = batch.type
        if kind.arrow_type is None or not kind.is_composite:
            return "".join([f"{json_text(record, kind)}\n" for record in batch.rows]).encode()
        return bytes_of(json_texts(batch.columns, kind, "}\n"))


def json_texts(batch: pa.RecordBatch, kind: TypeInformation, end: str = "}") -> pa.Array:
    """The records of columns as strings of JSON; of values without fields, the values.

    Args:
        batch: the columns, as the layout of ``kind`` has them.
        kind: the type of the records.
        end: what an object ends with.
    """
    if not kind.is_composite:
        return _column_json(batch.column(0), kind)
    columns = zip(kind.field_names, kind.field_types, batch.columns, strict=False)
    members = [("," + string_text(name) + ":", _column_json(array, field)) for name, field, array in columns]
    first, *others = chain.from_iterable(members)
    return join_text(["{" + first[1:], *others, end])


def _column_json(column: pa.Array, kind: TypeInformation) -> pa.Array:
    """The values of a column as JSON; null where they are missing."""
    basic = kind.basic_type if isinstance(kind, BasicTypeInfo) else None
    if basic in _AS_THEY_ARE or (basic in FLOATS and _all_finite(column)):
        texts = simple_text(column)
    elif basic in STRINGS:
        texts = _strings_json(column)
    else:
        texts = pa.array([json_text(value, kind) for value in array_to_values(kind, column)], pa.string())
    return texts.fill_null("null") if texts.null_count else texts


def _all_finite(column: pa.Array) -> bool:
    return pc.all(pc.is_finite(column), min_count=0).as_py() is not False


def _strings_json(column: pa.Array) -> pa.Array:
    special = pc.match_substring_regex(column, _SPECIAL)
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    if not pc.any(special, min_count=0).as_py():
        return quoted
    escaped = pa.array([string_text(text) for text in column.filter(special).to_pylist()], pa.string())
    return pc.replace_with_mask(quoted, special.fill_null(False), escaped)
