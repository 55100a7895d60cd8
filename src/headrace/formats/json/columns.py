"""Values of JSON as columns of their types: one rule for each type, whatever has parsed the documents.

Arrow's reader parses what it can, and gives *raw* columns; else documents are Python objects. The reader of a type
makes the same column of both: where Arrow takes a value, documents give the same one, and what Arrow refuses, documents
decide.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
    Types,
)
from headrace.common.typeinfo.base import FLOATS, STRINGS, WHOLE_NUMBERS
from headrace.common.values import handler_of
from headrace.common.values.basic import BasicHandler
from headrace.common.values.handler import WrongValueError
from headrace.formats.bad_records import BadValueError
from headrace.formats.lines import BOM

MAX_DEPTH: Final = 200
"""The deepest nesting of lists and objects in a document; whatever follows them down has a stack of 1,000 calls."""

BLANKS: Final = b" \t\r\n"
NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_ODD_NUMBER: Final = re.compile(rf"{_STRING.pattern.decode()}|(-?)(Inf|(?<=-)NaN)(?![A-Za-z])", re.DOTALL)
_STEPS: Final = bytes({**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", 255)}.get(byte, 0) for byte in range(256))


class JsonNumber(str):
    """The characters of a number, which only the type of its field turns into one."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=JsonNumber)


def document_of(message: bytes) -> Any:
    """The document that a message holds. Of a field that comes twice the last one counts.

    Raises:
        ValueError: when it is no document of JSON, or nested too deep.
    """
    refuse_deep(message)
    text = str(message.removeprefix(BOM), "utf-8")
    try:
        return _DECODER.decode(text)
    except ValueError as error:
        usual = _ODD_NUMBER.sub(_in_full, text)
        if usual != text:
            return document_of(usual.encode())
        raise ValueError(f"the text is not one document of JSON: {error}") from None


def _in_full(found: re.Match[str]) -> str:
    """``Inf`` and ``-NaN``, which Arrow's reader takes, as other readers know them; strings stay as they are."""
    if found[2] is None:
        return found[0]
    return f"{found[1]}Infinity" if found[2] == "Inf" else "NaN"


def refuse_deep(message: bytes) -> None:
    """Refuse a document that is nested too deep, before anything follows it down.

    Raises:
        ValueError: naming the limit.
    """
    if message.count(b"[") + message.count(b"{") <= MAX_DEPTH:
        return
    steps = np.frombuffer(_STRING.sub(b"", message).translate(_STEPS), np.int8)
    if np.cumsum(steps, dtype=np.int64).max(initial=0) > MAX_DEPTH:
        raise ValueError(f"the document has more than {MAX_DEPTH} levels of lists and objects")


def is_spelled_whole(number: str) -> bool:
    """Return whether a number has neither a fraction nor an exponent."""
    return number.removeprefix("-").isdigit()


def text_of(value: object) -> str:
    """A value of a document as compact JSON, numbers as they were spelled."""
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(text_of, value))}]"
    if isinstance(value, dict):
        names = (f"{json.dumps(name, ensure_ascii=False)}:" for name in value)
        return f"{{{','.join(map(str.__add__, names, map(text_of, value.values())))}}}"
    return json.dumps(value, ensure_ascii=False)


def plain(value: object) -> Any:
    """A value of a document without a type: whole numbers as ``int``, those with a fraction as ``Decimal``.

    Raises:
        ValueError: when a number has more digits than are read.
    """
    if isinstance(value, JsonNumber):
        if value in NOT_FINITE:
            return float(value)
        return int(value) if is_spelled_whole(value) else handler_of(Types.BIG_DEC()).parse(value)
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, dict):
        return dict(zip(value, map(plain, value.values()), strict=True))
    return value


_MOST_DIGITS: Final = 1000
"""A whole number that is spelled with an exponent has no more digits."""


class ColumnReader(ABC):
    """Reads the values of one type.

    Attributes:
        kind: the type.
        raw: the type of the columns that Arrow's reader is to give; None where it cannot give any.
        is_raw: whether such a column is the one that is meant.
    """

    raw: pa.DataType | None = None
    is_raw = False

    def __init__(self, kind: TypeInformation) -> None:
        self.kind = kind

    @abstractmethod
    def of_documents(self, values: Sequence[object]) -> pa.Array:
        """The column of values of documents, ``None`` among them.

        Raises:
            BadValueError: when one is no value of the type. Of a single value or document, it says which.
        """

    def of_raw(self, raw: pa.Array) -> pa.Array:
        """The column of what Arrow has read.

        Raises:
            ValueError: when a value may be none of the type.
        """
        return raw


@lru_cache(maxsize=1024)
def reader_of(kind: TypeInformation) -> ColumnReader:
    """Reads the values of one type."""
    if isinstance(kind, CompositeTypeInfo):
        return RecordReader(kind)
    if isinstance(kind, SequenceTypeInfo):
        return _ListReader(kind)
    if isinstance(kind, MapTypeInfo):
        return _MapReader(kind)
    if isinstance(kind, BasicTypeInfo):
        return _BasicReader(kind)
    return _AnyReader(kind)


class _BasicReader(ColumnReader):
    """Reads values without parts: by their text, where the form of the value fits the type."""

    kind: BasicTypeInfo

    def __init__(self, kind: BasicTypeInfo) -> None:
        super().__init__(kind)
        handler = handler_of(kind)
        assert isinstance(handler, BasicHandler)
        self._handler = handler
        basic = kind.basic_type
        self.is_raw = basic in _TYPED_BY_ARROW
        if basic not in _BIG:
            self.raw = kind.storage_type if self.is_raw else pa.string()
        self._text = _TEXTS.get(basic, _text_of_string)

    def of_documents(self, values: Sequence[object]) -> pa.Array:
        texts = [None if value is None else self._text(value) for value in values]
        if texts.count(None) != values.count(None):
            wrong = next(v for v, text in zip(values, texts, strict=True) if text is None and v is not None)
            raise BadValueError(text_of(wrong), self._handler.text_form)
        return self._parsed(texts)

    def _parsed(self, texts: list[str | None]) -> pa.Array:
        try:
            return self._handler.parse_all(pa.array(texts, pa.string()))
        except UnicodeEncodeError as error:
            raise BadValueError(repr(error.object), "a string that UTF-8 can encode") from error
        except (ValueError, WrongValueError) as error:
            wrong = next(text for text in texts if text is not None)
            raise BadValueError(repr(wrong), self._handler.text_form) from error

    def of_raw(self, raw: pa.Array) -> pa.Array:
        return raw if self.is_raw else self._handler.parse_all(raw)


class RecordReader(ColumnReader):
    """Reads objects as records: by the names of fields; what a type does not have is left out."""

    kind: CompositeTypeInfo

    def __init__(self, kind: CompositeTypeInfo) -> None:
        super().__init__(kind)
        self.fields = {name: reader_of(field) for name, field in zip(kind.field_names, kind.field_types, strict=True)}
        readers = self.fields.values()
        self._has_kinds = len(kind.storage_type) > len(readers)
        if readers and not self._has_kinds and all(reader.raw is not None for reader in readers):
            self.raw = pa.struct([(name, reader.raw) for name, reader in self.fields.items()])
            self.is_raw = all(reader.is_raw for reader in readers)

    def of_documents(self, values: Sequence[object]) -> pa.Array:
        for value in values:
            if value is not None and not isinstance(value, dict):
                raise BadValueError(text_of(value), f"an object, for {self.kind}")
        columns = [self._field(name, reader, values) for name, reader in self.fields.items()]
        if self._has_kinds:
            columns.append(pa.array(np.zeros(len(values), np.int8)))  # each is an insertion
        mask = np.fromiter((value is None for value in values), np.bool_, len(values))
        return self._struct(columns, pa.array(mask))

    def _field(self, name: str, reader: ColumnReader, values: Sequence[Any]) -> pa.Array:
        try:
            return reader.of_documents([None if value is None else value.get(name) for value in values])
        except BadValueError as error:
            raise error.inside(name) from error

    def of_raw(self, raw: pa.Array) -> pa.Array:
        if self.is_raw:
            return raw
        fields = zip(self.fields.values(), raw.flatten(), strict=True)
        return self._struct([reader.of_raw(field) for reader, field in fields], raw.is_null())

    def _struct(self, columns: list[pa.Array], mask: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays(columns, fields=list(self.kind.storage_type), mask=mask)


class _ListReader(ColumnReader):
    kind: SequenceTypeInfo

    def __init__(self, kind: SequenceTypeInfo) -> None:
        super().__init__(kind)
        self._elements = reader_of(kind.element_type)
        if self._elements.raw is not None and kind.nullable_elements:
            self.raw = pa.list_(self._elements.raw)
            self.is_raw = self._elements.is_raw

    def of_documents(self, values: Sequence[Any]) -> pa.Array:
        for value in values:
            if value is not None and not isinstance(value, list):
                raise BadValueError(text_of(value), f"a list, for {self.kind}")
        flat = [element for value in values if value is not None for element in value]
        elements = _located(self._read_elements, flat, is_single=len(values) == 1)
        return pa.ListArray.from_arrays(_offsets(values), elements, type=self.kind.storage_type)

    def _read_elements(self, values: Sequence[object]) -> pa.Array:
        if not self.kind.nullable_elements and None in values:
            raise BadValueError("null", f"a value: {self.kind} has no missing elements")
        return self._elements.of_documents(values)

    def of_raw(self, raw: pa.Array) -> pa.Array:
        if self.is_raw:
            return raw
        elements = self._elements.of_raw(raw.values)
        return pa.ListArray.from_arrays(raw.offsets, elements, type=self.kind.storage_type, mask=raw.is_null())


class _MapReader(ColumnReader):
    """Reads objects as maps, whose keys are values by their texts."""

    kind: MapTypeInfo

    def __init__(self, kind: MapTypeInfo) -> None:
        super().__init__(kind)
        self._items = reader_of(kind.value_type)
        self._key_handler = handler_of(kind.key_type)

    def of_documents(self, values: Sequence[Any]) -> pa.Array:
        for value in values:
            if value is not None and not isinstance(value, dict):
                raise BadValueError(text_of(value), f"an object, for {self.kind}")
        names = [name for value in values if value is not None for name in value]
        items = [item for value in values if value is not None for item in value.values()]
        keys = self._keys(names)
        located = _located(self._items.of_documents, items, is_single=len(values) == 1, names=names)
        return pa.MapArray.from_arrays(_offsets(values), keys, located, type=self.kind.storage_type)

    def _keys(self, names: list[str]) -> pa.Array:
        try:
            return self._key_handler.parse_all(pa.array(names, pa.string()))
        except (ValueError, WrongValueError) as error:
            raise BadValueError(f"a key of {names!r:.200}", f"{self.kind.key_type}") from error


class _AnyReader(ColumnReader):
    """Reads what has no declared type."""

    kind: PickledBytesTypeInfo

    def of_documents(self, values: Sequence[object]) -> pa.Array:
        try:
            return handler_of(self.kind).encode(list(map(plain, values)))
        except (ValueError, WrongValueError) as error:
            wrong = next(value for value in values if value is not None)
            raise BadValueError(text_of(wrong), f"what can be kept: {error}") from error


def _located(
    read: Callable[[Sequence[Any]], pa.Array], values: Sequence[object], *, is_single: bool, names: Sequence[str] = ()
) -> pa.Array:
    """The column of the parts of values; of a single value, what cannot be read is looked for."""
    try:
        return read(values)
    except BadValueError:
        if not is_single:
            raise
    first, last = 0, len(values)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            read(values[first:middle])
            first = middle
        except BadValueError:
            last = middle
    try:
        return read(values[first:last])
    except BadValueError as error:
        raise error.inside(f"[{names[first] if names else first}]") from error


def _offsets(values: Sequence[Any]) -> pa.Array:
    """The offsets of the parts of each value; null where there is no value."""
    lengths = np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    return pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32(), mask=np.append(missing, False))


def with_whole_numbers(texts: pa.Array) -> pa.Array:
    """Texts, of which numbers such as ``1.0`` and ``1e2`` are replaced by their digits where they are whole."""
    is_spelled_otherwise = pc.match_substring_regex(texts, _POINT_OR_EXPONENT).fill_null(False)
    if not pc.any(is_spelled_otherwise, min_count=0).as_py():
        return texts
    digits = [_text_of_whole(JsonNumber(text)) or text for text in texts.filter(is_spelled_otherwise).to_pylist()]
    return pc.replace_with_mask(texts, is_spelled_otherwise, pa.array(digits, pa.string()))


def _text_of_string(value: object) -> str | None:
    return value if isinstance(value, str) and not isinstance(value, JsonNumber) else None


def _text_of_anything(value: object) -> str:
    return value if isinstance(value, str) else text_of(value)


def _text_of_truth(value: object) -> str | None:
    return text_of(value) if isinstance(value, bool) else None


def _text_of_real(value: object) -> str | None:
    return value if isinstance(value, JsonNumber) or (isinstance(value, str) and value in NOT_FINITE) else None


def _text_of_decimal(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _text_of_whole(value: object) -> str | None:
    """The digits of a number, ``1.0`` and ``1e2`` among them."""
    if not isinstance(value, JsonNumber) or value in NOT_FINITE:
        return None
    if is_spelled_whole(value):
        return value
    try:
        number = Decimal(value)
    except ArithmeticError:  # an exponent of twenty digits
        return None
    if not number:
        return "0"
    is_whole = number.adjusted() < _MOST_DIGITS and number == number.to_integral_value()
    return f"{number:.0f}" if is_whole else None


_POINT_OR_EXPONENT: Final = r"^-?[0-9]+(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)$"
_BIG: Final = frozenset({BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.DECIMAL})
_TYPED_BY_ARROW: Final = WHOLE_NUMBERS | FLOATS | {BasicType.BOOLEAN, BasicType.STRING}
_TEXTS: Final[dict[BasicType, Callable[[Any], str | None]]] = {
    **dict.fromkeys(STRINGS, _text_of_anything),
    **dict.fromkeys(WHOLE_NUMBERS | {BasicType.BIG_INT}, _text_of_whole),
    **dict.fromkeys(FLOATS, _text_of_real),
    BasicType.BOOLEAN: _text_of_truth,
    **dict.fromkeys((BasicType.BIG_DEC, BasicType.DECIMAL), _text_of_decimal),
}
