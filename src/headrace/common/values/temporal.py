"""Handlers of dates, times and instants."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.time import NANOS_PER_SECOND, Instant
from headrace.common.values.basic import NONE, BasicHandler, with_nulls

if TYPE_CHECKING:
    from headrace.common.values.checks import CheckSource

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_BELOW_MICROS: Final = re.compile(r"[.,]\d{6}(\d+)")
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_FIRST_MICROS: Final = (datetime.datetime.min - _EPOCH) // _MICROSECOND
_LAST_MICROS: Final = (datetime.datetime.max - _EPOCH) // _MICROSECOND
_zone_of: Final = attrgetter("tzinfo")


def _integers(array: pa.Array, width: pa.DataType) -> np.ndarray[Any, Any]:
    """The integers that stand behind dates and times; zero for nulls."""
    numbers: np.ndarray[Any, Any] = array.view(width).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _naive_array(values: Sequence[Any], storage: pa.DataType) -> pa.Array:
    if not set(map(type, map(_zone_of, filter(None, values)))) <= {NONE}:
        raise ValueError("has a time zone")
    return pa.array(values, storage)


def _naive_check(source: CheckSource, value: str, kind: type) -> str:
    first, time = source.bind(value)
    exact = f"type({first}) is {source.name_of(kind)}"
    return f"{exact} and {time}.tzinfo is None and not {time}.fold"


class DateHandler(BasicHandler):
    """SQL_DATE: dates; a datetime is none."""

    __slots__ = ()
    value_class = datetime.date
    expected = "a datetime.date, not a datetime"
    json_as_string = True

    def decode(self, array: pa.Array) -> list[Any]:
        return with_nulls(_integers(array, pa.int32()).astype("datetime64[D]").tolist(), array)

    def text_of_present(self, value: Any) -> str:
        return datetime.date.isoformat(value)

    def parse(self, text: str) -> datetime.date:
        return datetime.date.fromisoformat(text)


class TimeHandler(BasicHandler):
    """SQL_TIME: times of day without a zone, to the microsecond."""

    __slots__ = ()
    value_class = datetime.time
    expected = "a datetime.time without time zone"
    json_as_string = True
    class_tells = False

    def encode_exact(self, values: Sequence[Any]) -> pa.Array:
        return _naive_array(values, self.storage)

    def decode(self, array: pa.Array) -> list[Any]:
        seconds, micros = np.divmod(_integers(array, pa.int64()), 1_000_000)
        minutes, seconds = np.divmod(seconds, 60)
        hours, minutes = np.divmod(minutes, 60)
        parts = (part.tolist() for part in (hours, minutes, seconds, micros))
        return with_nulls(list(map(datetime.time, *parts)), array)

    def add_check(self, source: CheckSource, value: str) -> str:
        return _naive_check(source, value, datetime.time)

    def text_of_present(self, value: Any) -> str:
        return datetime.time.isoformat(value)

    def parse(self, text: str) -> datetime.time:
        return datetime.time.fromisoformat(text)


class TimestampHandler(BasicHandler):
    """SQL_TIMESTAMP: datetimes without a zone, also numpy's of whole microseconds."""

    __slots__ = ()
    value_class = datetime.datetime
    expected = (
        "a datetime without time zone (for those with one declare Types.TIMESTAMP_LTZ(), in a type hint"
        " Annotated[datetime, Types.TIMESTAMP_LTZ()])"
    )
    json_as_string = True
    class_tells = False

    def convert(self, value: Any) -> datetime.datetime:
        if isinstance(value, np.datetime64):
            micros = value.astype("datetime64[us]")
            made = micros.item()
            if micros == value and isinstance(made, datetime.datetime):
                return made
        elif isinstance(value, datetime.datetime) and not getattr(value, "nanosecond", 0):
            clock = value.hour, value.minute, value.second, value.microsecond
            return datetime.datetime(value.year, value.month, value.day, *clock, value.tzinfo, fold=value.fold)
        raise ValueError(value)

    def encode_exact(self, values: Sequence[Any]) -> pa.Array:
        return _naive_array(values, self.storage)

    def decode(self, array: pa.Array) -> list[Any]:
        return with_nulls(_integers(array, pa.int64()).view("datetime64[us]").tolist(), array)

    def add_check(self, source: CheckSource, value: str) -> str:
        return _naive_check(source, value, datetime.datetime)

    def text_of_present(self, value: Any) -> str:
        fraction = f"{value.microsecond:06}".rstrip("0") or "0"
        return f"{value.date().isoformat()} {value:%H:%M:%S}.{fraction}"

    def parse(self, text: str) -> datetime.datetime:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            raise ValueError(f"{text!r} has a time zone")
        return moment


class TimestampLtzHandler(TimestampHandler):
    """TIMESTAMP_LTZ: datetimes with a zone, given back in UTC."""

    __slots__ = ()
    expected = (
        "a datetime with a time zone, in the years 1 to 9999 of UTC (for those without a zone declare"
        " Types.SQL_TIMESTAMP())"
    )

    def encode_exact(self, values: Sequence[Any]) -> pa.Array:
        if None in map(_zone_of, filter(None, values)):
            raise ValueError("has no time zone")
        array = pa.array(values, self.storage)
        bounds = pc.min_max(array.cast(pa.int64()))
        if (
            bounds["min"].is_valid
            and not _FIRST_MICROS <= bounds["min"].as_py() <= bounds["max"].as_py() <= _LAST_MICROS
        ):
            raise ValueError("is in UTC before the year 1 or after 9999")
        return array

    def decode(self, array: pa.Array) -> list[Any]:
        # Adding to an aware moment makes aware moments in C; replacing the zone of naive ones takes five times as long.
        since_epoch = _integers(array, pa.int64()).view("timedelta64[us]").tolist()
        return with_nulls(list(map(_EPOCH_UTC.__add__, since_epoch)), array)

    def add_check(self, source: CheckSource, value: str) -> str:
        first, moment = source.bind(value)
        exact = f"type({first}) is {source.name_of(datetime.datetime)}"
        return f"{exact} and {moment}.tzinfo is {source.name_of(datetime.UTC)} and not {moment}.fold"

    def text_of_present(self, value: Any) -> str:
        return str(value)

    def parse(self, text: str) -> datetime.datetime:
        return _parsed_with_zone(text)


class InstantHandler(BasicHandler):
    """INSTANT: points in time, to the nanosecond."""

    __slots__ = ()
    value_class = Instant
    expected = "a headrace.common.time.Instant from the years 1678 to 2261"
    json_as_string = True

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

    def parse(self, text: str) -> Instant:
        micros = (_parsed_with_zone(text) - _EPOCH_UTC) // _MICROSECOND
        nanos = _BELOW_MICROS.search(text)  # which Python leaves out
        more = 0 if nanos is None else int(nanos[1].ljust(3, "0")[:3])
        return Instant(micros // 1_000_000, micros % 1_000_000 * 1000 + more)


def _parsed_with_zone(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment
