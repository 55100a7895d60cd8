"""Handlers of values without parts: what they have in common."""

import base64
import inspect
import pickle
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from decimal import Decimal
from math import isnan
from struct import Struct
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.pickling import PROTOCOL, pickle_by_value
from headrace.common.typeinfo import BasicType, BasicTypeInfo
from headrace.common.values.handler import (
    NOT_COERCED,
    CheckSource,
    Mask,
    StoredValue,
    TypeHandler,
    WrongValueError,
    one_array,
    shown_value,
    valid_mask,
)

NONE: Final = type(None)
ARROW_ERRORS: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What pyarrow raises when a value does not fit (``UnicodeEncodeError`` is a ``ValueError``)."""


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


_BITS: Final = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64, BasicType.MONTHS: 32}
_BITS_AS_DECIMAL: Final = 2048
_EXACT_DOUBLES: Final = 2**53
"""Integers up to this are doubles."""

_DIGITS: Final = re.compile("[+-]?[0-9]+")
MOST_DIGITS_OF_EXPONENT: Final = 1000
"""``1e300000000`` would be three hundred million digits of a file."""

_SINGLE: Final = Struct("<f")
_PLAIN_FROM: Final = Decimal("0.001")
_PLAIN_BELOW: Final = Decimal(10_000_000)
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _integer(value: object) -> int:
    """Integers of numpy and subclasses of ``int``, but not booleans."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise ValueError(value)


class _NumpyHandler(BasicHandler):
    """Handles what numpy makes of an array ten times as fast as pyarrow does, one by one.

    Attributes:
        in_place_of_null: what numpy is given for a missing value.
    """

    __slots__ = ()
    in_place_of_null: ClassVar[Any] = 0

    def decode(self, array: pa.Array) -> list[Any]:
        present = array.fill_null(self.in_place_of_null) if array.null_count else array
        values: list[Any] = present.to_numpy(zero_copy_only=False).tolist()
        return with_nulls(values, array) if array.null_count else values


class BooleanHandler(_NumpyHandler):
    """BOOLEAN: booleans, also numpy's; numbers are not truth values."""

    __slots__ = ()
    value_class = bool
    expected = "a bool"
    from_equal = bool
    in_place_of_null = False

    def convert(self, value: object) -> bool:
        if isinstance(value, np.bool_):
            return bool(value)
        raise ValueError(value)

    def text_of_present(self, value: object) -> str:
        return "true" if value else "false"

    text_pattern = re.compile("(?ia:true|false)")
    text_form = "true or false"

    def parse_matching(self, text: str) -> bool:
        return text.lower() == "true"


class IntegerHandler(_NumpyHandler):
    """BYTE, SHORT, INT, LONG: integers of 8 to 64 bits."""

    __slots__ = ("_high", "_low", "expected", "text_form")
    value_class = int
    class_tells = False

    def __init__(self, info: BasicTypeInfo) -> None:
        bits = _BITS[info.basic_type]
        self._low, self._high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        wider = "Types.LONG()" if bits < _BITS[BasicType.LONG] else "Types.BIG_INT()"
        self.expected = f"an int from {self._low} to {self._high} ({wider} takes larger ones)"
        self.text_form = f"a whole number from {self._low} to {self._high} in decimal digits"
        super().__init__(info)

    def convert(self, value: object) -> int:
        return _integer(value)

    def add_check(self, source: CheckSource, value: str) -> str:
        first, number = source.bind(value)
        return f"type({first}) is int and {self._low} <= {number} <= {self._high}"

    def all_coerced(self, values: Collection[Any]) -> bool:
        only_integers = {int}.issuperset(map(type, values))
        if not values or (only_integers and self._low <= min(values) and max(values) <= self._high):
            return True
        return super().all_coerced(values)

    text_pattern = _DIGITS

    def parse_matching(self, text: str) -> int:
        value = int(text)
        if not self._low <= value <= self._high:
            raise ValueError(value)
        return value

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        if pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py():
            raise pa.ArrowInvalid("may be hexadecimal, which Arrow takes for a number")
        return texts.cast(self.storage)


class DoubleHandler(_NumpyHandler):
    """DOUBLE: floats, also numpy's, and integers that a double holds exactly."""

    __slots__ = ()
    value_class = float
    expected = "a float, or an int that a float holds exactly"
    from_equal = float

    def convert(self, value: object) -> float:
        if isinstance(value, float | np.floating):
            narrowed = float(value)
            if isinstance(value, np.longdouble) and narrowed != value and not np.isnan(value):
                raise ValueError(value)
            return narrowed
        whole = _integer(value)
        if int(float(whole)) != whole:
            raise ValueError(value)
        return float(whole)

    def coerce_fast(self, value: object) -> Any:
        return float(value) if type(value) is int and -_EXACT_DOUBLES <= value <= _EXACT_DOUBLES else NOT_COERCED

    def text_of_present(self, value: Any) -> str:
        return _java_number(repr(float(value)))

    text_form = "a number such as 12.5, NaN or Infinity"

    def parse_matching(self, text: str) -> float:
        value: float = self.cast_texts(pa.array([text])).to_pylist()[0]
        return value

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        """Cast texts, of which a number beyond the largest one is infinite, as in Java."""
        return texts.cast(self.storage)


class FloatHandler(DoubleHandler):
    """FLOAT: floats, rounded to 32 bits."""

    __slots__ = ()
    expected = "a float of 32 bits"
    class_tells = False

    def encode_exact(self, values: Sequence[object]) -> pa.Array:
        wide = pa.array(values, pa.float64())
        narrow = wide.cast(self.storage)
        if pc.sum(pc.is_inf(narrow)) != pc.sum(pc.is_inf(wide)):
            raise ValueError("a finite number is beyond the largest float")
        return narrow

    def add_check(self, source: CheckSource, value: str) -> str:
        return f"{source.name_of(_is_single)}({value})"

    def coerce_fast(self, value: object) -> Any:
        if type(value) is not float:
            return NOT_COERCED
        try:
            return _SINGLE.unpack(_SINGLE.pack(value))[0]
        except OverflowError:
            return NOT_COERCED

    def text_of_present(self, value: Any) -> str:
        return _java_number(str(np.float32(value)))


def _is_single(value: object) -> bool:
    if type(value) is not float:
        return False
    try:
        return isnan(value) or bool(_SINGLE.unpack(_SINGLE.pack(value))[0] == value)
    except OverflowError:
        return False


class BigIntHandler(BasicHandler):
    """BIG_INT: integers of any size, stored as their digits."""

    __slots__ = ()
    value_class = int
    expected = "an int"

    def convert(self, value: object) -> int:
        return _integer(value)

    def encode_exact(self, values: Sequence[object]) -> pa.Array:
        return pa.array(_each(_digits, values), self.storage)

    def decode(self, array: pa.Array) -> list[Any]:
        return _each(_integer_of, array.to_pylist())

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        try:
            array.cast(pa.int64())  # quick, for most integers have few digits
        except pa.ArrowInvalid:
            return refused_by(_integer_of_bytes, array.cast(pa.binary()))
        return None

    def stored_text(self, array: pa.Array) -> str:
        return stored_text(array)

    text_pattern = _DIGITS
    text_form = "a whole number in decimal digits, 4,300 at most"

    def parse_matching(self, text: str) -> int:
        return int(text)


def _integer_of(digits: str) -> int:
    return int(digits, 16 if "x" in digits else 10)


def _integer_of_bytes(digits: bytes) -> int:
    return _integer_of(digits.decode())


def _decimal_of_bytes(digits: bytes) -> Decimal:
    return Decimal(digits.decode())


def _digits(value: int) -> str:
    # Python may refuse to write or read integers of more than 640 digits in base 10, but not in base 16.
    return str(value) if value.bit_length() <= _BITS_AS_DECIMAL else hex(value)


class BigDecHandler(BasicHandler):
    """BIG_DEC: decimals, stored digit by digit, and integers; a float has been rounded already and is none."""

    __slots__ = ()
    value_class = Decimal
    expected = "a decimal.Decimal or an int"
    from_equal = Decimal

    def convert(self, value: object) -> Decimal:
        return Decimal(value) if isinstance(value, Decimal) else Decimal(_integer(value))

    def encode_exact(self, values: Sequence[object]) -> pa.Array:
        return pa.array(_each(str, values), self.storage)

    def decode(self, array: pa.Array) -> list[Any]:
        return _each(Decimal, array.to_pylist())

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        try:
            array.cast(pa.float64())  # quick, and takes nothing that is none, but for the letters of NaN(...)
        except pa.ArrowInvalid:
            return refused_by(_decimal_of_bytes, array.cast(pa.binary()))
        return refused_by(Decimal, array) if pc.any(pc.match_substring(array, "(")).as_py() else None

    def stored_text(self, array: pa.Array) -> str:
        return stored_text(array)

    text_pattern = re.compile(r"(?ia:[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan[0-9]*|inf(?:inity)?))")
    text_form = "a decimal number such as 12.5, whose exponent stands for 1,000 digits at most"

    def parse_matching(self, text: str) -> Decimal:
        value = Decimal(text)
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int):  # of a finite number, which without an exponent has so many digits
            digits = max(value.adjusted(), 0) + max(-exponent, 0)
            if digits > len(text) + MOST_DIGITS_OF_EXPONENT:
                raise ValueError(text)
        return value


class DecimalHandler(BasicHandler):
    """DECIMAL: decimals of a fixed number of digits behind the point, and others of which no digit is lost by it."""

    __slots__ = ("_digits", "_scale", "expected", "text_form")
    value_class = Decimal
    class_tells = False
    from_equal = Decimal

    def __init__(self, info: BasicTypeInfo) -> None:
        storage = info.storage_type
        self._digits, self._scale = storage.precision, storage.scale
        self.text_form = f"a decimal number that {info} holds digit by digit"
        self.expected = f"a decimal.Decimal or an int that {info} holds digit by digit"
        super().__init__(info)

    def convert(self, value: object) -> Decimal:
        return Decimal(value) if isinstance(value, Decimal) else Decimal(_integer(value))

    def add_check(self, source: CheckSource, value: str) -> str:
        return f"{source.name_of(self._is_of_scale)}({value})"

    def _is_of_scale(self, value: object) -> bool:
        if type(value) is not Decimal:
            return False
        _, digits, exponent = value.as_tuple()
        return bool(exponent == -self._scale and len(digits) <= self._digits)

    def text_of_present(self, value: object) -> str:
        return f"{value:f}"

    def parse_matching(self, text: str) -> Decimal:
        value: Decimal = self.cast_texts(pa.array([text])).to_pylist()[0]
        return value

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        return texts.cast(self.storage)


def _each(convert: Callable[[Any], object], values: Sequence[object]) -> list[Any]:
    """Return what becomes of each value that is there."""
    return [None if value is None else convert(value) for value in values]


def _java_number(digits: str) -> str:
    """The shortest digits of a number as Java writes them: with an exponent below 0.001 and from ten million on."""
    if digits in _NOT_FINITE:
        return _NOT_FINITE[digits]
    number = Decimal(digits)
    if not number or _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        plain = f"{number:f}"
        return plain if "." in plain else f"{plain}.0"
    sign, figures, _ = number.normalize().as_tuple()
    rest = "".join(map(str, figures[1:])) or "0"
    return f"{'-' if sign else ''}{figures[0]}.{rest}E{number.adjusted()}"
