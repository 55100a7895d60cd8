"""Writing lines of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import array_to_values
from headrace.common.typeinfo import BasicType, BasicTypeInfo
from headrace.common.typeinfo.basic import FLOATS, STRINGS, WHOLE_NUMBERS
from headrace.formats.column_text import bytes_of, characters_of, join_text, simple_text, whole_number_text
from headrace.formats.encoders import BatchEncoder
from headrace.formats.json.values import USUAL, JsonStyle, json_text, real_text, string_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation

_QUOTE = '"'
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
        return _null_filled(_column_json(batch.column(0), kind, style).quoted())
    columns = zip(kind.field_names, kind.field_types, batch.columns, strict=False)
    members = [(string_text(name) + ":", _column_json(array, field, style)) for name, field, array in columns]
    if style.ignore_null_fields and any(values.texts.null_count for _, values in members):
        return _without_nulls(members, end)
    parts, before = [], "{"
    for name, values in members:
        parts += [before + name + values.quote, _null_filled(values.texts)]
        before = values.quote + ","
    return join_text([*parts, before.removesuffix(",") + end])


def _without_nulls(members: Sequence[tuple[str, _Values]], end: str) -> pa.Array:
    """Objects with those members that have a value."""
    there = [
        pc.binary_join_element_wise("," + name, values.quoted(), "", null_handling="emit_null")
        for name, values in members
    ]
    body = join_text([part.fill_null("") for part in there])
    return join_text(["{", pc.utf8_slice_codeunits(body, 1), end])


def _null_filled(texts: pa.Array) -> pa.Array:
    return texts.fill_null("null") if texts.null_count else texts


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of a column as JSON.

    Attributes:
        texts: strings, null for what is missing.
        quote: what belongs before and behind each of them: it is cheaper as part of what else is there. Empty where
            something is missing.
    """

    texts: pa.Array
    quote: str = ""

    def quoted(self) -> pa.Array:
        """The strings with what belongs around them."""
        return _quoted(self.texts) if self.quote else self.texts


def _column_json(column: pa.Array, kind: TypeInformation, style: JsonStyle) -> _Values:
    basic = kind.basic_type if isinstance(kind, BasicTypeInfo) else None
    if basic in STRINGS:
        return _strings_json(column)
    if basic == BasicType.BOOLEAN:
        return _Values(simple_text(column))
    if basic in _INTEGERS:
        return _Values(whole_number_text(column))
    if basic in FLOATS:
        return _Values(_reals_json(column, kind))
    values = array_to_values(kind, column)
    texts = [None if value is None else json_text(value, kind, style) for value in values]
    return _Values(pa.array(texts, pa.string()))


def _reals_json(column: pa.Array, kind: TypeInformation) -> pa.Array:
    """Numbers with a point, as :func:`~headrace.formats.json.values.real_text` has them one by one."""
    texts, values = column.cast(pa.string()), column.to_numpy(zero_copy_only=False)
    size = np.abs(values)
    is_plain = (size >= _LEAST_PLAIN) & (size < _LEAST_WITH_EXPONENT) | (size == 0)
    if not is_plain.all():
        others = pa.array(~is_plain & column.is_valid().to_numpy(zero_copy_only=False))
        spelled = [real_text(value, kind) for value in column.filter(others).to_pylist()]
        texts = pc.replace_with_mask(texts, others, pa.array(spelled, pa.string()))
    is_whole = is_plain & (np.floor(values) == values)
    if not is_whole.any():
        return texts
    whole = pa.array(is_whole)
    return pc.replace_with_mask(texts, whole, join_text([texts.filter(whole), ".0"]))


def _strings_json(column: pa.Array) -> _Values:
    if not _has_special(characters_of(column)):
        return _Values(_quoted(column)) if column.null_count else _Values(column, _QUOTE)
    special = pc.match_substring_regex(column, _SPECIAL)
    escaped = pa.array([string_text(text) for text in column.filter(special).to_pylist()], pa.string())
    return _Values(pc.replace_with_mask(_quoted(column), special.fill_null(False), escaped))


def _quoted(column: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_QUOTE, column, _QUOTE, "")


def _has_special(characters: npt.NDArray[np.uint8]) -> bool:
    """Whether there is a character that :data:`_SPECIAL` has; every byte of a longer one is above 127."""
    return bool((characters < ord(" ")).any() or (characters == ord(_QUOTE)).any() or (characters == ord("\\")).any())
