"""Writing lines of JSON."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import array_to_values
from headrace.common.typeinfo import BasicType, BasicTypeInfo
from headrace.common.typeinfo.basic import FLOATS, STRINGS, WHOLE_NUMBERS
from headrace.formats.column_text import bytes_of, join_text, simple_text, whole_number_text
from headrace.formats.encoders import BatchEncoder
from headrace.formats.json.values import USUAL, JsonStyle, json_text, real_text, string_text

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation

_SPECIAL = r'["\\\x00-\x1f]'

_LEAST_PLAIN, _LEAST_WITH_EXPONENT = 1e-3, 1e7
"""Between these two Java writes numbers without an exponent."""

_INTEGERS = WHOLE_NUMBERS | {BasicType.BIG_INT}


class JsonLinesEncoder(BatchEncoder):
    """Writes every record as one line of JSON: records with fields as objects, simple ones as they are.

    Simple fields are written column by column, without a loop in Python; lists, maps and times one by one.

    Args:
        timestamp_format: how moments are written: ``ISO-8601``, or ``SQL``, which has a blank in place of the ``T``.
        ignore_null_fields: whether fields without a value are left out.

    Raises:
        ConfigurationError: when there is no such format.

    Examples:
        >>> from headrace.datastream.connectors import FileSink
        >>> from headrace.datastream.formats.json import JsonLinesEncoder
        >>> sink = FileSink.for_row_format("/data/out", JsonLinesEncoder()).build()
    """

    def __init__(self, *, timestamp_format: str = "ISO-8601", ignore_null_fields: bool = False) -> None:
        self._style = JsonStyle(timestamp_format, ignore_null_fields)

    def encode_batch(self, batch: Batch) -> bytes:
        kind = batch.type
        if kind.arrow_type is None or not kind.is_composite:
            return "".join([f"{json_text(record, kind, self._style)}\n" for record in batch.rows]).encode()
        return bytes_of(json_texts(batch.columns, kind, "}\n", self._style))


def json_texts(batch: pa.RecordBatch, kind: TypeInformation, end: str = "}", style: JsonStyle = USUAL) -> pa.Array:
    """The records of columns as strings of JSON; of values without fields, the values.

    Args:
        batch: the columns, as the layout of ``kind`` has them.
        kind: the type of the records.
        end: what an object ends with.
        style: how values are written.
    """
    if not kind.is_composite:
        return _null_filled(_column_json(batch.column(0), kind, style))
    columns = zip(kind.field_names, kind.field_types, batch.columns, strict=False)
    members = [("," + string_text(name) + ":", _column_json(array, field, style)) for name, field, array in columns]
    if style.ignore_null_fields and any(texts.null_count for _, texts in members):
        return _without_nulls(members, end)
    first, *others = chain.from_iterable((name, _null_filled(texts)) for name, texts in members)
    return join_text(["{" + first[1:], *others, end])


def _without_nulls(members: list[tuple[str, pa.Array]], end: str) -> pa.Array:
    """Objects with those members that have a value."""
    there = [pc.binary_join_element_wise(name, texts, "", null_handling="emit_null") for name, texts in members]
    body = join_text([part.fill_null("") for part in there])
    return join_text(["{", pc.utf8_slice_codeunits(body, 1), end])


def _null_filled(texts: pa.Array) -> pa.Array:
    return texts.fill_null("null") if texts.null_count else texts


def _column_json(column: pa.Array, kind: TypeInformation, style: JsonStyle) -> pa.Array:
    """The values of a column as JSON, those that are missing as null."""
    basic = kind.basic_type if isinstance(kind, BasicTypeInfo) else None
    if basic == BasicType.BOOLEAN:
        return simple_text(column)
    if basic in _INTEGERS:
        return whole_number_text(column)
    if basic in FLOATS:
        return _reals_json(column, kind)
    if basic in STRINGS:
        return _strings_json(column)
    values = array_to_values(kind, column)
    return pa.array([None if value is None else json_text(value, kind, style) for value in values], pa.string())


def _reals_json(column: pa.Array, kind: TypeInformation) -> pa.Array:
    """Numbers with a point, as :func:`~headrace.formats.json.values.real_text` has them one by one."""
    texts = column.cast(pa.string())
    texts = pc.if_else(pc.equal(pc.floor(column), column), pc.binary_join_element_wise(texts, ".0", ""), texts)
    size = pc.abs(column)
    is_plain = pc.and_(pc.greater_equal(size, _LEAST_PLAIN), pc.less(size, _LEAST_WITH_EXPONENT))
    others = pc.invert(pc.or_(is_plain, pc.equal(size, 0))).fill_null(False)
    if not pc.any(others, min_count=0).as_py():
        return texts
    spelled = [real_text(value, kind) for value in column.filter(others).to_pylist()]
    return pc.replace_with_mask(texts, others, pa.array(spelled, pa.string()))


def _strings_json(column: pa.Array) -> pa.Array:
    special = pc.match_substring_regex(column, _SPECIAL)
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    if not pc.any(special, min_count=0).as_py():
        return quoted
    escaped = pa.array([string_text(text) for text in column.filter(special).to_pylist()], pa.string())
    return pc.replace_with_mask(quoted, special.fill_null(False), escaped)
