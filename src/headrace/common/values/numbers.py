"""Values of numbers and truth: each type with its range, its text, and what it is converted from."""

import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from math import isnan
from struct import Struct
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import BasicType, BasicTypeInfo
from headrace.common.values.basic import BasicHandler, refused_by, stored_text, with_nulls
from headrace.common.values.handler import NOT_COERCED, CheckSource, Mask

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
