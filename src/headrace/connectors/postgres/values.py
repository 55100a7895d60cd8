"""Values of PostgreSQL: from their texts to columns, and from columns to texts."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import BadRecordError, ConfigurationError
from headrace.common.logical_types import MICROSECONDS, ArrayType, AtomicType, LogicalType, RawType, TypeRoot

Convert = Callable[[pa.Array], pa.Array]
"""Makes a column of the texts of its values."""

_ConvertAs = Callable[[pa.Array, LogicalType], pa.Array]
"""Makes a column of a type of the texts of its values."""

_NAMES: Final = {
    16: "boolean",
    17: "bytea",
    20: "bigint",
    21: "smallint",
    23: "integer",
    25: "text",
    26: "oid",
    114: "json",
    142: "xml",
    700: "real",
    701: "double precision",
    790: "money",
    1042: "char",
    1043: "varchar",
    1082: "date",
    1083: "time",
    1114: "timestamp",
    1184: "timestamptz",
    1186: "interval",
    1266: "timetz",
    1700: "numeric",
    2950: "uuid",
    3802: "jsonb",
}
"""The names of PostgreSQL's own types, by their ids, which are the same in all its databases."""

_ELEMENTS: Final = {
    1000: 16,
    1001: 17,
    1016: 20,
    1005: 21,
    1007: 23,
    1009: 25,
    1028: 26,
    199: 114,
    143: 142,
    1021: 700,
    1022: 701,
    791: 790,
    1014: 1042,
    1015: 1043,
    1182: 1082,
    1183: 1083,
    1115: 1114,
    1185: 1184,
    1187: 1186,
    1270: 1266,
    1231: 1700,
    2951: 2950,
    3807: 3802,
}
"""The ids of the types of elements, by those of their arrays."""

_FIRST_OWN: Final = 16_384
"""From here on ids are those of types that users have made, and extensions: enums, domains, composite types."""

_WHOLE: Final = frozenset((20, 21, 23, 26))
_READ_AS: Final[Mapping[TypeRoot, frozenset[int]]] = {
    TypeRoot.BOOLEAN: frozenset((16,)),
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT), _WHOLE),
    **dict.fromkeys((TypeRoot.FLOAT, TypeRoot.DOUBLE), _WHOLE | {700, 701, 1700}),
    TypeRoot.DECIMAL: _WHOLE | {1700},
    **dict.fromkeys((TypeRoot.BINARY, TypeRoot.VARBINARY), frozenset((17,))),
    TypeRoot.DATE: frozenset((1082,)),
    TypeRoot.TIME: frozenset((1083,)),
    TypeRoot.TIMESTAMP: frozenset((1114,)),
    TypeRoot.TIMESTAMP_LTZ: frozenset((1184,)),
}
"""The types that can be read as a type of SQL; a text all can."""

_READ_AS_DIGITS: Final[Mapping[str, frozenset[int]]] = {"int": _WHOLE, "decimal.Decimal": _WHOLE | {1700}}
"""The types that can be read as numbers of any size (``BIG_INT``, ``BIG_DEC``), by the classes of these."""

_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_MOST_DIGITS: Final = 38
_NANOS: Final = 9


def is_number(type_id: int) -> bool:
    """Return whether the values of a type are numbers."""
    return type_id in _READ_AS[TypeRoot.DOUBLE]


def check_type(name: str, kind: LogicalType, type_id: int, table: str = "") -> None:
    """Refuse a type that a column cannot be read as.

    Args:
        name: the column.
        kind: its type in the program.
        type_id: the id of its type in the database.
        table: whose column it is, for messages; empty where they say so already.

    Raises:
        ConfigurationError: naming both, and what to do.
    """
    if isinstance(kind, AtomicType) and kind.root in _TEXTS:
        return
    element = _ELEMENTS.get(type_id)
    if isinstance(kind, ArrayType):
        if element is not None:
            check_type(name, _innermost(kind), element, table)
            return
        is_known = type_id < _FIRST_OWN
    else:
        accepted = _accepted(kind)
        is_known = accepted is None or type_id < _FIRST_OWN
        if accepted is not None and type_id in accepted:
            return
    if is_known:
        shown = f"{_NAMES.get(element)}[]" if element else _NAMES.get(type_id, f"a type with the id {type_id}")
        fitting = [root.name for root, accepted in _READ_AS.items() if (element or type_id) in accepted]
        types = [f"ARRAY<{each}>" if element else each for each in fitting]
        of_table = f"table {table}: " if table else ""
        raise ConfigurationError(
            f"{of_table}column {name!r} is {shown} in PostgreSQL, which cannot be read as {kind}: declare it as "
            f"{' or '.join(filter(None, (', '.join(types), 'STRING')))}"
        )


def _accepted(kind: LogicalType) -> frozenset[int] | None:
    """The types that can be read as one that is no text and no array; None where nothing is known of it."""
    if isinstance(kind, RawType):
        return _READ_AS_DIGITS.get(kind.class_name)
    return _READ_AS.get(kind.root) if isinstance(kind, AtomicType) else None


def _innermost(kind: ArrayType) -> LogicalType:
    """The type of the elements; PostgreSQL has one type for arrays of all dimensions."""
    found: LogicalType = kind
    while isinstance(found, ArrayType):
        found = found.element
    return found


def converter_of(name: str, kind: LogicalType) -> Convert:
    """The function that makes a column of the texts of its values.

    Args:
        name: of the column, for messages.
        kind: its type.

    Raises:
        ConfigurationError: when there is no such type in PostgreSQL.
    """
    if isinstance(kind, ArrayType):
        return _Arrays(name, kind, converter_of(name, kind.element))
    found = _CONVERTERS.get(kind.root) if isinstance(kind, AtomicType) else None
    if isinstance(kind, RawType) and kind.class_name in _READ_AS_DIGITS:
        found = _same
    if found is None:
        raise ConfigurationError(
            f"column {name!r}: PostgreSQL has nothing that can be read as {kind}; declare it as STRING"
        )
    return partial(_converted, name, kind, found)


def _converted(name: str, kind: LogicalType, convert: _ConvertAs, texts: pa.Array) -> pa.Array:
    try:
        return convert(texts, kind)
    except (pa.ArrowInvalid, ArithmeticError, ValueError):
        raise BadRecordError(_first_bad(name, kind, convert, texts)) from None


def _first_bad(name: str, kind: LogicalType, convert: _ConvertAs, texts: pa.Array) -> str:
    """The message about the first text that is no such value."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(texts.slice(low, middle - low), kind)
            low = middle
        except (pa.ArrowInvalid, ArithmeticError, ValueError):
            high = middle
    return (
        f"column {name!r}: {str(texts[low].as_py())[:80]!r} cannot be read as {kind}. A wider type may hold it; STRING "
        "holds every value, and DOUBLE also NaN and infinity"
    )


def _cast(texts: pa.Array, kind: LogicalType) -> pa.Array:
    return texts.cast(kind.arrow_type)


def _booleans(texts: pa.Array, _: LogicalType) -> pa.Array:
    return pc.equal(texts, "t")


def _decimals(texts: pa.Array, kind: LogicalType) -> pa.Array:
    """Decimals, rounded half up where there are more digits than in the type, as Flink rounds."""
    try:
        return texts.cast(kind.arrow_type)
    except pa.ArrowInvalid:
        assert isinstance(kind, AtomicType)
        step = Decimal(1).scaleb(-(kind.scale or 0))
        values = [None if text is None else _rounded(text, step) for text in texts.to_pylist()]
        return pa.array(values, kind.arrow_type)


def _rounded(text: str, step: Decimal) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(text)
    with localcontext(prec=max(_MOST_DIGITS, len(value.as_tuple().digits)) + _MOST_DIGITS):
        return value.quantize(step, ROUND_HALF_UP)


def _times(texts: pa.Array, kind: LogicalType) -> pa.Array:
    days = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, " ")
    return days.cast(pa.timestamp("us")).cast(kind.arrow_type)


def _moments(texts: pa.Array, kind: LogicalType) -> pa.Array:
    """Points in time; digits beyond those of the type are cut off."""
    assert isinstance(kind, AtomicType)
    assert kind.size is not None
    found = texts.cast(kind.arrow_type)
    step = 10 ** max(0, (_NANOS if kind.has_nanoseconds else MICROSECONDS) - kind.size)
    if step == 1:
        return found
    numbers = found.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(numbers // step * step, mask=found.is_null().to_numpy(zero_copy_only=False)).cast(kind.arrow_type)


def _bytes(texts: pa.Array, kind: LogicalType) -> pa.Array:
    r"""Byte strings, which are hexadecimal digits behind ``\x``."""
    found = [None if text is None else binascii.unhexlify(text[2:]) for text in texts.to_pylist()]
    return pa.array(found, kind.arrow_type)


def _same(texts: pa.Array, _: LogicalType) -> pa.Array:
    return texts


_CONVERTERS: Final[Mapping[TypeRoot, _ConvertAs]] = {
    **dict.fromkeys(_TEXTS, _same),
    TypeRoot.BOOLEAN: _booleans,
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT), _cast),
    **dict.fromkeys((TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE), _cast),
    TypeRoot.TIME: _times,
    TypeRoot.DECIMAL: _decimals,
    **dict.fromkeys((TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ), _moments),
    **dict.fromkeys((TypeRoot.BINARY, TypeRoot.VARBINARY), _bytes),
}


# --- arrays ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Arrays:
    """Makes a column of arrays: their elements are one column of texts, converted at once.

    Attributes:
        name: of the column.
        kind: its type.
        elements: makes the column of the elements.
    """

    name: str
    kind: ArrayType
    elements: Convert

    def __call__(self, texts: pa.Array) -> pa.Array:
        parsed = [None if text is None else list(_elements(text)) for text in texts.to_pylist()]
        offsets: list[int] = [0]
        flat: list[str | None] = []
        for items in parsed:
            flat += items or ()
            offsets.append(len(flat))
        made = self.elements(pa.array(flat, pa.string()))
        is_null = np.array([items is None for items in parsed] + [False])
        places = pa.array(np.array(offsets, np.int32), mask=is_null if is_null.any() else None)
        return pa.ListArray.from_arrays(places, made).cast(self.kind.arrow_type)


def _elements(text: str) -> Iterator[str | None]:
    """The texts of the elements of an array; those of an array of arrays are arrays again."""
    place = text.index("{") + 1  # behind bounds such as [0:2]=
    while text[place] != "}":
        if text[place] == '"':
            element, place = _in_quotes(text, place + 1)
            yield element
        elif text[place] == "{":
            end = _end_of_array(text, place)
            yield text[place:end]
            place = end
        else:
            end = min(found for found in (text.find(",", place), text.find("}", place)) if found >= 0)
            yield None if text[place:end] == "NULL" else text[place:end]
            place = end
        if text[place] == ",":
            place += 1


def _in_quotes(text: str, place: int) -> tuple[str, int]:
    found = []
    while text[place] != '"':
        if text[place] == "\\":
            place += 1
        found.append(text[place])
        place += 1
    return "".join(found), place + 1


def _end_of_array(text: str, place: int) -> int:
    """The place behind the array that begins somewhere."""
    depth = 0
    while True:
        if text[place] == '"':
            _, place = _in_quotes(text, place + 1)
            continue
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        place += 1
        if depth == 0:
            return place


# --- from columns to texts -------------------------------------------------------------------------------------------


def as_texts(column: pa.Array) -> pa.Array:
    """A column in which PostgreSQL reads the values that CSV cannot say: byte strings and arrays become texts."""
    kind = column.type
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else "\\x" + value.hex() for value in column.to_pylist()], pa.string())
    if pa.types.is_list(kind):
        return pa.array([None if value is None else _array_text(value) for value in column.to_pylist()], pa.string())
    if pa.types.is_nested(kind):
        raise ConfigurationError(f"PostgreSQL has no column for {kind}: make a text of it, by JSON_OBJECT or CAST")
    return column


def _array_text(items: list[Any]) -> str:
    return "{" + ",".join(map(_element_text, items)) + "}"


def _element_text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return _array_text(value)
    text = "\\x" + value.hex() if isinstance(value, bytes) else str(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
