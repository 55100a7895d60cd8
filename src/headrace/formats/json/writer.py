"""Rows as lines of JSON, and single values as JSON."""

import base64
import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import valid_mask
from headrace.common.batch import Batch
from headrace.common.columns import array_to_values
from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.common.time import Instant
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    MapTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
    Types,
)
from headrace.common.typeinfo.base import FLOATS, STRINGS, WHOLE_NUMBERS
from headrace.common.values import handler_of
from headrace.formats.file_format import (
    BatchEncoder,
    bytes_of,
    characters_of,
    join_text,
    simple_text,
    whole_number_text,
)

TIMESTAMP_FORMATS: Final = ("ISO-8601", "SQL")


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """Options of how values are written.

    Attributes:
        timestamp_format: what is between day and time: ``T`` in ``ISO-8601``, a blank in ``SQL``.
        ignore_null_fields: whether fields without a value are left out.

    Raises:
        ConfigurationError: when there is no such format.
    """

    timestamp_format: str = "ISO-8601"
    ignore_null_fields: bool = False

    def __post_init__(self) -> None:
        if self.timestamp_format not in TIMESTAMP_FORMATS:
            raise ConfigurationError(
                f"there is no format {self.timestamp_format!r} of timestamps: choose one of "
                f"{', '.join(TIMESTAMP_FORMATS)}"
            )

    @property
    def separator(self) -> str:
        """The separator of day and time."""
        return "T" if self.timestamp_format == "ISO-8601" else " "


USUAL: Final = JsonStyle()


def json_text(value: Any, kind: TypeInformation, style: JsonStyle = USUAL) -> str:
    """A value of a type as JSON.

    Fields without names are called ``f0``, ``f1`` and so on. Times are ISO 8601 strings, bytes are Base64, decimals
    are numbers with all their digits, numbers with a point are spelled as Java does, and those that are not finite are
    the strings ``NaN`` and ``Infinity``.

    Raises:
        InvalidTypeError: when the value has no form in JSON.
    """
    if value is None:
        return "null"
    if isinstance(kind, CompositeTypeInfo):
        return _object_text(value, kind, style)
    if isinstance(kind, SequenceTypeInfo):
        return f"[{','.join([json_text(element, kind.element_type, style) for element in value])}]"
    if isinstance(kind, MapTypeInfo):
        members = [
            f"{_key_text(k, kind.key_type, style)}:{json_text(v, kind.value_type, style)}" for k, v in value.items()
        ]
        return _braced(members)
    return _simple_text(value, kind, style)


def _object_text(value: object, kind: CompositeTypeInfo, style: JsonStyle) -> str:
    triples = zip(kind.field_names, _values(value, kind.field_names), kind.field_types, strict=True)
    return _braced(
        [
            f"{string_text(name)}:{json_text(field, field_kind, style)}"
            for name, field, field_kind in triples
            if field is not None or not style.ignore_null_fields
        ]
    )


def string_text(value: str) -> str:
    """A string as JSON."""
    return json.dumps(value, ensure_ascii=False)


def _braced(members: list[str]) -> str:
    return f"{{{','.join(members)}}}"


def _values(value: object, names: tuple[str, ...]) -> list[Any]:
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    if hasattr(value, "__iter__"):  # tuples and rows
        return list(value)
    return [getattr(value, name) for name in names]


def _key_text(key: object, kind: TypeInformation, style: JsonStyle) -> str:
    if key is None:
        raise InvalidTypeError("a map has no None among its keys")
    text = _simple_text(key, kind, style)
    return text if text.startswith('"') else string_text(text)


def _simple_text(value: object, kind: TypeInformation, style: JsonStyle) -> str:
    if isinstance(value, float):
        return real_text(value, kind)
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else f'"{value}"'
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode("ascii")}"'
    if isinstance(value, datetime.datetime | Instant):
        return f'"{_moment_text(value, style)}"'
    if isinstance(value, datetime.date | datetime.time):
        return f'"{value.isoformat()}"'
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{value!r} has no form in JSON: {error}") from error


def real_text(value: float, kind: TypeInformation) -> str:
    """A number with a point: ``46.0``, ``1.0E10``."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    return handler_of(kind if kind == Types.FLOAT() else Types.DOUBLE()).text(value)


def _moment_text(value: datetime.datetime | Instant, style: JsonStyle) -> str:
    if isinstance(value, Instant):
        moment = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC).replace(tzinfo=None)
        return f"{moment.isoformat(style.separator)}.{value.nanos:09}Z"
    if value.tzinfo is None:
        return value.isoformat(style.separator)
    return f"{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(style.separator)}Z"


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
        return _null_filled(_with_quotes(*_column_json(batch.column(0), kind, style)))
    columns = zip(kind.field_names, kind.field_types, batch.columns, strict=False)
    members = [(string_text(name) + ":", *_column_json(array, field, style)) for name, field, array in columns]
    if style.ignore_null_fields and any(texts.null_count for _, texts, _ in members):
        return _without_nulls(members, end)
    parts, before = [], "{"
    for name, texts, quote in members:
        parts += [before + name + quote, _null_filled(texts)]
        before = quote + ","
    return join_text([*parts, before.removesuffix(",") + end])


def _without_nulls(members: Sequence[tuple[str, pa.Array, str]], end: str) -> pa.Array:
    """Objects with those members that have a value."""
    there = [
        pc.binary_join_element_wise("," + name, _with_quotes(texts, quote), "", null_handling="emit_null")
        for name, texts, quote in members
    ]
    body = join_text([part.fill_null("") for part in there])
    return join_text(["{", pc.utf8_slice_codeunits(body, 1), end])


def _null_filled(texts: pa.Array) -> pa.Array:
    return texts.fill_null("null") if texts.null_count else texts


_JsonColumn = tuple[pa.Array, str]
"""The values of a column as strings of JSON, null for what is missing, and what belongs before and behind each.

The latter is cheaper as part of what else is there. It is empty where something is missing.
"""


def _with_quotes(texts: pa.Array, quote: str) -> pa.Array:
    return _quoted(texts) if quote else texts


def _column_json(column: pa.Array, kind: TypeInformation, style: JsonStyle) -> _JsonColumn:
    basic = kind.basic_type if isinstance(kind, BasicTypeInfo) else None
    if basic in STRINGS:
        return _strings_json(column)
    if basic == BasicType.BOOLEAN:
        return simple_text(column), ""
    if basic in _INTEGERS:
        return whole_number_text(column), ""
    if basic in FLOATS:
        return _reals_json(column, kind), ""
    values = array_to_values(kind, column)
    texts = [None if value is None else json_text(value, kind, style) for value in values]
    return pa.array(texts, pa.string()), ""


def _reals_json(column: pa.Array, kind: TypeInformation) -> pa.Array:
    """Numbers with a point, as :func:`~headrace.formats.json.writer.real_text` has them one by one."""
    texts, values = column.cast(pa.string()), column.to_numpy(zero_copy_only=False)
    size = np.abs(values)
    is_plain = (size >= _LEAST_PLAIN) & (size < _LEAST_WITH_EXPONENT) | (size == 0)
    if not is_plain.all():
        others = pa.array(~is_plain & valid_mask(column))
        spelled = [real_text(value, kind) for value in column.filter(others).to_pylist()]
        texts = pc.replace_with_mask(texts, others, pa.array(spelled, pa.string()))
    is_whole = is_plain & (np.floor(values) == values)
    if not is_whole.any():
        return texts
    whole = pa.array(is_whole)
    return pc.replace_with_mask(texts, whole, join_text([texts.filter(whole), ".0"]))


def _strings_json(column: pa.Array) -> _JsonColumn:
    if not _has_special(characters_of(column)):
        return (_quoted(column), "") if column.null_count else (column, _QUOTE)
    special = pc.match_substring_regex(column, _SPECIAL)
    escaped = pa.array([string_text(text) for text in column.filter(special).to_pylist()], pa.string())
    return pc.replace_with_mask(_quoted(column), special.fill_null(False), escaped), ""


def _quoted(column: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_QUOTE, column, _QUOTE, "")


def _has_special(characters: npt.NDArray[np.uint8]) -> bool:
    """Tell whether there is a character that :data:`_SPECIAL` has; every byte of a longer one is above 127."""
    return bool((characters < ord(" ")).any() or (characters == ord(_QUOTE)).any() or (characters == ord("\\")).any())
