"""Handlers of dates, times and instants."""

import datetime
import re
from abc import abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.time import NANOS_PER_SECOND, Instant
from headrace.common.values.basic import NONE, BasicHandler, with_nulls
from headrace.common.values.handler import CheckSource, Mask, StoredValue, WrongValueError

Integers = npt.NDArray[np.int32 | np.int64]

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_BELOW_MICROS: Final = re.compile(r"\.\d{6}(\d+)")
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_FIRST_MICROS: Final = (datetime.datetime.min - _EPOCH) // _MICROSECOND
_SECOND_DAY_MICROS: Final = _FIRST_MICROS + 86_400_000_000
_LAST_MICROS: Final = (datetime.datetime.max - _EPOCH) // _MICROSECOND
_FIRST_DAY: Final = (datetime.datetime.min - _EPOCH).days
_LAST_DAY: Final = (datetime.datetime.max - _EPOCH).days
_FIRST_NANOS: Final = -(2**63) + 1  # the smallest number stands for "not a time" in numpy and Arrow
_LAST_NANOS: Final = 2**63 - 1
_LONGEST: Final = datetime.timedelta(microseconds=2**63 - 1)
_LAST_TIME: Final = 24 * 60 * 60 * 1_000_000 - 1
_zone_of: Final = attrgetter("tzinfo")

_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SECONDS: Final = r"(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
_CLOCK: Final = f"[0-9]{{2}}(?::[0-9]{{2}}{_SECONDS})?"
_ZONE: Final = "(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_WITHOUT_ZONE: Final = re.compile(f"{_DAY}(?:[T ]{_CLOCK})?")
_WITH_ZONE: Final = re.compile(f"{_DAY}[T ]{_CLOCK}{_ZONE}")


def _integers(array: pa.Array, width: pa.DataType) -> Integers:
    """The integers that stand behind dates and times; zero for nulls."""
    numbers: Integers = array.view(width).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _naive_array(values: Sequence[object], storage: pa.DataType) -> pa.Array:
    if not set(map(type, map(_zone_of, filter(None, values)))) <= {NONE}:
        raise ValueError("has a time zone")
    return pa.array(values, storage)


def _naive_check(source: CheckSource, value: str, kind: type) -> str:
    first, time = source.bind(value)
    exact = f"type({first}) is {source.name_of(kind)}"
    return f"{exact} and {time}.tzinfo is None and not {time}.fold"


class _BoundedHandler(BasicHandler):
    """Handles what is stored as an integer, of which Python has not all.

    Attributes:
        width: the type of the integers.
        bounds: the first and the last one that Python has; zero is between them.
        unit: that of numpy's datetime64 which shows such integers.
        within: the bounds, for messages.
    """

    __slots__ = ()
    width: ClassVar[pa.DataType] = pa.int64()
    bounds: ClassVar[tuple[int, int]] = (_FIRST_MICROS, _LAST_MICROS)
    unit: ClassVar[str] = "us"
    within: ClassVar[str] = "a time in the years 1 to 9999"

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        first, last = self.bounds
        if _lie_between(array.view(self.width), first, last):
            return None
        numbers = _integers(array, self.width)
        found: Mask = (numbers < first) | (numbers > last)
        return found

    def explained_present(self, array: pa.Array) -> WrongValueError:
        return WrongValueError(StoredValue(self.stored_text(array)), self.within)

    def stored_text(self, array: pa.Array) -> str:
        return str(array.view(self.width).to_numpy().astype(f"datetime64[{self.unit}]")[0])

    def decode(self, array: pa.Array) -> list[Any]:
        if self.unreadable_present(array) is not None:
            raise ValueError(f"values of {self.info} are out of range")
        return with_nulls(self.decode_numbers(_integers(array, self.width)), array)

    @abstractmethod
    def decode_numbers(self, numbers: Integers) -> list[Any]:
        """The values of integers within the bounds."""


class DateHandler(_BoundedHandler):
    """SQL_DATE: dates; a datetime is none."""

    __slots__ = ()
    value_class = datetime.date
    expected = "a datetime.date, not a datetime"
    width = pa.int32()
    bounds = (_FIRST_DAY, _LAST_DAY)
    unit = "D"
    within = "a date in the years 1 to 9999"

    def decode_numbers(self, numbers: Integers) -> list[Any]:
        values: list[Any] = numbers.astype("datetime64[D]").tolist()
        return values

    def text_of_present(self, value: Any) -> str:
        return datetime.date.isoformat(value)

    text_pattern = re.compile(_DAY)
    text_form = "a date such as 2026-01-31, in the years 1 to 9999"

    def parse_matching(self, text: str) -> datetime.date:
        return datetime.date.fromisoformat(text)

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        days = texts.cast(self.storage)
        return days if _lie_between(days.view(pa.int32()), _FIRST_DAY, _LAST_DAY) else _refuse()


class TimeHandler(_BoundedHandler):
    """SQL_TIME: times of day without a zone, to the microsecond."""

    __slots__ = ()
    value_class = datetime.time
    expected = "a datetime.time without time zone"
    class_tells = False
    bounds = (0, _LAST_TIME)
    within = "a time of day, from 00:00 to 23:59:59.999999"

    def encode_exact(self, values: Sequence[object]) -> pa.Array:
        return _naive_array(values, self.storage)

    def stored_text(self, array: pa.Array) -> str:
        return f"{array.view(self.width)[0].as_py()} microseconds since midnight"

    def decode_numbers(self, numbers: Integers) -> list[Any]:
        seconds, micros = np.divmod(numbers, 1_000_000)
        minutes, seconds = np.divmod(seconds, 60)
        hours, minutes = np.divmod(minutes, 60)
        parts = (part.tolist() for part in (hours, minutes, seconds, micros))
        return list(map(datetime.time, *parts))

    def add_check(self, source: CheckSource, value: str) -> str:
        return _naive_check(source, value, datetime.time)

    def text_of_present(self, value: Any) -> str:
        return datetime.time.isoformat(value)

    text_pattern = re.compile(f"[0-9]{{2}}:[0-9]{{2}}{_SECONDS}")
    text_form = "a time such as 12:30:00.5"

    def parse_matching(self, text: str) -> datetime.time:
        return datetime.time.fromisoformat(text)

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        if pc.min(pc.utf8_length(texts)).as_py() == len("12"):
            _refuse()
        moments = pc.binary_join_element_wise("1970-01-01", texts, "T")
        return _to_micros(moments, pa.timestamp("us")).cast(self.storage)


class TimestampHandler(_BoundedHandler):
    """SQL_TIMESTAMP: datetimes without a zone, also numpy's of whole microseconds."""

    __slots__ = ()
    value_class = datetime.datetime
    expected = (
        "a datetime without time zone (for those with one declare Types.TIMESTAMP_LTZ(), in a type hint"
        " Annotated[datetime, Types.TIMESTAMP_LTZ()])"
    )
    class_tells = False

    def convert(self, value: object) -> datetime.datetime:
        if isinstance(value, np.datetime64):
            micros = value.astype("datetime64[us]")
            made = micros.item()
            if micros == value and isinstance(made, datetime.datetime):
                return made
        elif isinstance(value, datetime.datetime) and not getattr(value, "nanosecond", 0):
            clock = value.hour, value.minute, value.second, value.microsecond
            return datetime.datetime(value.year, value.month, value.day, *clock, value.tzinfo, fold=value.fold)
        raise ValueError(value)

    def encode_exact(self, values: Sequence[object]) -> pa.Array:
        return _naive_array(values, self.storage)

    def decode_numbers(self, numbers: Integers) -> list[Any]:
        values: list[Any] = numbers.view("datetime64[us]").tolist()
        return values

    def add_check(self, source: CheckSource, value: str) -> str:
        return _naive_check(source, value, datetime.datetime)

    def text_of_present(self, value: Any) -> str:
        fraction = f"{value.microsecond:06}".rstrip("0") or "0"
        return f"{value.date().isoformat()} {value:%H:%M:%S}.{fraction}"

    text_pattern = _WITHOUT_ZONE
    text_form = "a time without a zone such as 2026-01-31T12:30:00.5, in the years 1 to 9999"

    def parse_matching(self, text: str) -> datetime.datetime:
        return datetime.datetime.fromisoformat(text)

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        moments = _to_micros(texts, self.storage)
        # A zone may lead from the year 0, which Arrow knows, into the first day.
        return moments if _lie_between(moments.view(pa.int64()), _SECOND_DAY_MICROS, _LAST_MICROS) else _refuse()


class TimestampLtzHandler(TimestampHandler):
    """TIMESTAMP_LTZ: datetimes with a zone, given back in UTC."""

    __slots__ = ()
    expected = (
        "a datetime with a time zone, in the years 1 to 9999 of UTC (for those without a zone declare"
        " Types.SQL_TIMESTAMP())"
    )
    within = "a time in the years 1 to 9999 of UTC"

    def encode_exact(self, values: Sequence[object]) -> pa.Array:
        if None in map(_zone_of, filter(None, values)):
            raise ValueError("has no time zone")
        array = pa.array(values, self.storage)
        if self.unreadable_present(array) is not None:
            raise ValueError("is in UTC before the year 1 or after 9999")
        return array

    def stored_text(self, array: pa.Array) -> str:
        return f"{super().stored_text(array)}Z"

    def decode_numbers(self, numbers: Integers) -> list[Any]:
        # Adding to an aware moment makes aware moments in C; replacing the zone of naive ones takes five times as long.
        return list(map(_EPOCH_UTC.__add__, numbers.view("timedelta64[us]").tolist()))

    def add_check(self, source: CheckSource, value: str) -> str:
        first, moment = source.bind(value)
        exact = f"type({first}) is {source.name_of(datetime.datetime)}"
        return f"{exact} and {moment}.tzinfo is {source.name_of(datetime.UTC)} and not {moment}.fold"

    def text_of_present(self, value: object) -> str:
        return str(value)

    text_pattern = _WITH_ZONE
    text_form = "a time with a zone such as 2026-01-31T12:30:00.5Z, in the years 1 to 9999 of UTC"

    def parse_matching(self, text: str) -> datetime.datetime:
        return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)


class InstantHandler(BasicHandler):
    """INSTANT: points in time, to the nanosecond."""

    __slots__ = ()
    value_class = Instant
    expected = "a headrace.common.time.Instant from the years 1678 to 2261"

    def encode_exact(self, values: Sequence[Any]) -> pa.Array:
        nanos = [None if value is None else value.seconds * NANOS_PER_SECOND + value.nanos for value in values]
        return pa.array(nanos, pa.int64()).view(self.storage)

    def decode(self, array: pa.Array) -> list[Any]:
        seconds, nanos = np.divmod(_integers(array, pa.int64()), NANOS_PER_SECOND)
        return with_nulls(list(map(Instant, seconds.tolist(), nanos.tolist())), array)

    def text_of_present(self, value: Any) -> str:
        whole = _EPOCH + datetime.timedelta(seconds=value.seconds)
        nanos = f"{value.nanos:09}"
        while nanos.endswith("000"):
            nanos = nanos[:-3]
        return f"{whole.isoformat()}{'.' if nanos else ''}{nanos}Z"

    text_pattern = _WITH_ZONE
    text_form = "a time with a zone such as 2026-01-31T12:30:00.5Z, in the years 1678 to 2261"

    def parse_matching(self, text: str) -> Instant:
        micros = (datetime.datetime.fromisoformat(text) - _EPOCH_UTC) // _MICROSECOND
        nanos = _BELOW_MICROS.search(text)  # which Python leaves out
        more = 0 if nanos is None else int(nanos[1].ljust(3, "0"))
        if not _FIRST_NANOS <= micros * 1000 + more <= _LAST_NANOS:
            raise ValueError(text)
        return Instant(micros // 1_000_000, micros % 1_000_000 * 1000 + more)

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        return texts.cast(self.storage)


class TimestampNanosHandler(BasicHandler):
    """TIMESTAMP of more than six digits: points in time without a zone as numpy has them, to the nanosecond."""

    __slots__ = ()
    value_class = np.datetime64
    expected = "a numpy.datetime64 or a datetime without time zone, from the years 1678 to 2261"
    class_tells = False

    def encode_exact(self, values: Sequence[Any]) -> pa.Array:
        numbers = [None if value is None else self._nanos(value) for value in values]
        return pa.array(numbers, pa.int64()).view(self.storage)

    def _nanos(self, value: np.datetime64) -> int:
        nanos = value.astype("datetime64[ns]")
        if nanos.astype(value.dtype) != value:  # it is no time, or out of range, of which numpy does not tell
            raise ValueError(value)
        return int(nanos.astype(np.int64))

    def convert(self, value: object) -> np.datetime64:
        if isinstance(value, datetime.datetime) and value.tzinfo is None:
            return np.datetime64(value, "us")
        raise ValueError(value)

    def decode(self, array: pa.Array) -> list[Any]:
        return with_nulls(list(_integers(array, pa.int64()).view("datetime64[ns]")), array)

    def add_check(self, source: CheckSource, value: str) -> str:
        return f"{source.name_of(_is_of_nanoseconds)}({value})"

    def text_of_present(self, value: object) -> str:
        day, _, clock = str(value).partition("T")
        return f"{day} {clock.rstrip('0')}{'0' if clock.endswith('.000000000') else ''}"

    text_pattern = _WITHOUT_ZONE
    text_form = "a time without a zone such as 2026-01-31T12:30:00.5, in the years 1678 to 2261"

    def parse_matching(self, text: str) -> np.datetime64:
        value: np.datetime64 = self.decode(self.cast_texts(pa.array([text])))[0]
        return value

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        return texts.cast(self.storage)


def _is_of_nanoseconds(value: object) -> bool:
    return type(value) is np.datetime64 and value.dtype.str == "<M8[ns]" and not np.isnat(value)


class TimedeltaHandler(BasicHandler):
    """INTERVAL of days and seconds: lengths of time, to the microsecond."""

    __slots__ = ()
    value_class = datetime.timedelta
    expected = "a datetime.timedelta of less than 292,471 years"
    class_tells = False

    def add_check(self, source: CheckSource, value: str) -> str:
        first, length = source.bind(value)
        most = source.name_of(_LONGEST)
        return f"type({first}) is {source.name_of(datetime.timedelta)} and -{most} <= {length} <= {most}"

    text_pattern = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,6})?")
    text_form = "a length of time in seconds, such as 90.5"

    def parse_matching(self, text: str) -> datetime.timedelta:
        length = int(Decimal(text).scaleb(6)) * _MICROSECOND
        if abs(length) > _LONGEST:
            raise ValueError(text)
        return length


def _to_micros(texts: pa.Array, storage: pa.DataType) -> pa.Array:
    """Moments of texts that may have nine digits behind the second, of which six are kept, as Flink's types do."""
    try:
        return texts.cast(storage)
    except pa.ArrowInvalid:  # it is for Arrow to be fast in the usual case, where there are no more digits
        return pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]{1,3}(Z|[+-].*)?$", r"\1\2").cast(storage)


def _lie_between(numbers: pa.Array, first: int, last: int) -> bool:
    bounds = pc.min_max(numbers)
    return not bounds["min"].is_valid or bool(first <= bounds["min"].as_py() <= bounds["max"].as_py() <= last)


def _refuse() -> Any:
    raise pa.ArrowInvalid("there is a moment that Python cannot hold, or one in another form")
