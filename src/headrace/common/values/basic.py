"""Handlers of values without parts: what they have in common."""

import base64
import inspect
import pickle
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import valid_mask
from headrace.common.pickling import PROTOCOL, pickle_by_value
from headrace.common.typeinfo import BasicTypeInfo
from headrace.common.values.handler import (
    CheckSource,
    Mask,
    StoredValue,
    TypeHandler,
    WrongValueError,
    one_array,
    shown_value,
)

NONE: Final = type(None)
ARROW_ERRORS: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""The errors of pyarrow when a value does not fit (``UnicodeEncodeError`` is a ``ValueError``)."""


class BasicHandler(TypeHandler):
    """Handles the values of a basic type.

    Attributes:
        value_class: the class of which the values come back; its instances go to Arrow as they are.
        expected: what the values have to be, for error messages.
        class_tells: whether every instance of the class is a coerced value.
        text_pattern: what a text of such a value looks like; what looks so may still be beyond the type.
        text_form: the same in words, for error messages.
        from_equal: the class that makes a value of one that Python calls equal, since keys are stored as such (``1``
            for ``1.0``); None where equal values are alike.
    """

    __slots__ = ("_coerced", "_exact")

    info: BasicTypeInfo
    value_class: ClassVar[type]
    expected: str
    class_tells: ClassVar[bool] = True
    text_pattern: ClassVar[re.Pattern[str]] = re.compile("(?s).*")
    text_form: str
    from_equal: ClassVar[type | None] = None

    def __init__(self, info: BasicTypeInfo) -> None:
        super().__init__(info)
        self._exact = frozenset({self.value_class, NONE})
        self._coerced = self._exact if info.nullable else frozenset({self.value_class})

    def encode_nullable(self, values: Sequence[object]) -> pa.Array:
        # Arrow itself takes bytes for text, an aware time for a naive one and a datetime for a date: so the classes
        # are looked at first, which costs little, since `map(type, ...)` stays within C.
        exact = self._exact
        try:
            if not exact.issuperset(set(map(type, values))):
                values = [value if type(value) in exact else self.convert(value) for value in values]
            array = self.encode_exact(values)
        except ARROW_ERRORS as error:
            raise WrongValueError(values[0] if values else None, self.expected) from error
        return one_array(array, values)

    def convert(self, value: object) -> Any:
        """A value of another class as one of :attr:`value_class`, where nothing is lost by it.

        Raises:
            ValueError: when it is none; then nothing but the class itself will do.
        """
        raise ValueError(value)

    def encode_exact(self, values: Sequence[object]) -> pa.Array:
        """The array of instances of :attr:`value_class` and ``None``; what pyarrow raises is wrapped by the caller."""
        return pa.array(values, self.storage)

    def decode(self, array: pa.Array) -> list[Any]:
        values: list[Any] = array.to_pylist()
        return values

    def explained_present(self, array: pa.Array) -> WrongValueError:
        return WrongValueError(StoredValue(self.stored_text(array)), self.expected)

    def stored_text(self, array: pa.Array) -> str:
        """The only value of an array, which is unreadable, for people."""
        raise NotImplementedError(self.info)

    def add_check(self, source: CheckSource, value: str) -> str:
        return f"type({value}) is {source.name_of(self.value_class)}"

    def all_coerced(self, values: Collection[object]) -> bool:
        if self.class_tells:  # stays within C
            return self._coerced.issuperset(map(type, values))
        return super().all_coerced(values)

    def parse(self, text: str) -> Any:
        if self.text_pattern.fullmatch(text) is not None:
            with suppress(ValueError, ArithmeticError):
                return self.parse_matching(text)
        raise ValueError(f"{shown_value(text)} is not {self.text_form}")

    def parse_matching(self, text: str) -> Any:
        """A value from a text that looks like one.

        Raises:
            ValueError: when there is no such value.
            ArithmeticError: likewise.
        """
        raise ValueError(text)

    def parse_all(self, texts: pa.Array) -> pa.Array:
        try:
            return self.cast_texts(texts)
        except pa.ArrowInvalid:
            return super().parse_all(texts)

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        """Do what :meth:`parse_all` does without a loop in Python, for texts in their usual form.

        Raises:
            ArrowInvalid: when one of them has another form, or is no value of this type.
        """
        raise pa.ArrowInvalid("has no usual form")


def refused_by(convert: Callable[[Any], object], array: pa.Array) -> Mask | None:
    """Return a mask of the values that a function refuses, called one by one, or None."""
    mask = np.fromiter((not _is_taken(convert, value) for value in array.to_pylist()), np.bool_, len(array))
    return mask if mask.any() else None


def stored_text(array: pa.Array) -> str:
    """The only string of an array, whose bytes may be none of UTF-8, for people."""
    data = array.cast(pa.binary())[0].as_py()
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return repr(data)


def _is_taken(convert: Callable[[Any], object], value: object) -> bool:
    try:
        if value is not None:
            convert(value)
    except (ValueError, ArithmeticError):
        return False
    return True


def with_nulls(values: list[Any], array: pa.Array) -> list[Any]:
    """The values with ``None`` where the array has nulls; numpy itself would make floats of integers with nulls."""
    for position in np.flatnonzero(~valid_mask(array)).tolist():
        values[position] = None
    return values


_ASCII: Final = 128


class StringHandler(BasicHandler):
    """STRING: the characters of strings, whatever the ``__str__`` of a subclass makes of them."""

    __slots__ = ()
    value_class = str
    expected = "a str that UTF-8 can encode"

    def convert(self, value: object) -> str:
        if isinstance(value, str):
            return str.__str__(value)
        raise ValueError(value)

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        if _is_ascii(array):
            return None
        try:
            array.cast(pa.binary()).cast(self.storage)  # which looks at the bytes
        except pa.ArrowInvalid:
            return refused_by(bytes.decode, array.cast(pa.binary()))
        return None

    def stored_text(self, array: pa.Array) -> str:
        return stored_text(array)

    text_form = "a string"

    def parse_matching(self, text: str) -> str:
        return text

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        return texts.cast(self.storage)


class CharHandler(StringHandler):
    """CHAR: strings of one character."""

    __slots__ = ()
    expected = "a str of one character"
    class_tells = False
    text_pattern = re.compile("(?s:.)")
    text_form = "one character"

    def encode_exact(self, values: Sequence[object]) -> pa.Array:
        array = super().encode_exact(values)
        if _lengths(array) - {1, None}:
            raise ValueError("not one character")
        return array

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        if super().unreadable_present(array) is None and not _lengths(array) - {1, None}:
            return None
        return refused_by(_character, array.cast(pa.binary()))

    def add_check(self, source: CheckSource, value: str) -> str:
        first, character = source.bind(value)
        return f"type({first}) is str and len({character}) == 1"

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        if pc.any(pc.not_equal(pc.utf8_length(texts), 1)).as_py():
            raise pa.ArrowInvalid("not one character")
        return super().cast_texts(texts)


def _is_ascii(array: pa.Array) -> bool:
    """Return whether all bytes are ASCII."""
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return True
    first, last = np.frombuffer(offsets, np.int32)[[array.offset, array.offset + len(array)]]
    return bool(first == last or np.frombuffer(data, np.uint8)[first:last].max() < _ASCII)


def _lengths(array: pa.Array) -> set[int | None]:
    """The smallest and the largest number of characters; None where there is no value."""
    return set(pc.min_max(pc.utf8_length(array)).as_py().values())


def _character(data: bytes) -> str:
    text = data.decode()
    if len(text) != 1:
        raise ValueError(text)
    return text


class NullHandler(BasicHandler):
    """NULL: nothing but ``None``."""

    __slots__ = ()
    value_class = NONE
    expected = "None"
    text_form = "a value: there is none of type NULL"


class BytesHandler(BasicHandler):
    """BYTES: anything made of bytes; in text they are Base64."""

    __slots__ = ()
    value_class = bytes
    expected = "bytes"

    def convert(self, value: object) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise ValueError(value)

    text_form = "bytes in Base64"

    def parse_matching(self, text: str) -> bytes:
        return base64.b64decode(text, validate=True)


_MAIN: Final = b"__main__"


def dump(value: object) -> bytes:
    """The pickle of a value.

    What belongs to the user's main module is pickled by value, since workers have another main module. That is slow
    and large; a class with a declared type, or one that is imported, is neither.

    Raises:
        WrongValueError: when it cannot be pickled.
    """
    try:
        data = pickle.dumps(value, PROTOCOL)
    except Exception:  # a __reduce__ may raise anything
        return _by_value(value)
    return _by_value(value) if _MAIN in data else data


def _by_value(value: object) -> bytes:
    try:
        return pickle_by_value(value)
    except Exception as error:
        if inspect.isawaitable(value):
            raise WrongValueError(value, "a value, and not what gives one when it is awaited: write await") from error
        raise WrongValueError(value, f"an object that can be pickled ({error})") from error


class PickleHandler(TypeHandler):
    """Any object, stored as its pickle; every value comes back as it is, so nothing has to be coerced."""

    __slots__ = ()
    none_text = "None"

    def encode_nullable(self, values: Sequence[object]) -> pa.Array:
        pickles = [None if value is None else dump(value) for value in values]
        return one_array(pa.array(pickles, self.storage), values)

    def decode(self, array: pa.Array) -> list[Any]:
        # These are bytes that headrace wrote itself, in a stream or a state of this very job.
        return [None if data is None else pickle.loads(data) for data in array.to_pylist()]

    def all_coerced(self, values: Collection[object]) -> bool:
        return self.info.nullable or super().all_coerced(values)

    def add_check(self, source: CheckSource, value: str) -> str:
        return "True" if self.info.nullable else f"{value} is not None"
