"""``BucketAssigner``: which folder below the sink's path a record goes to."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import array_to_values
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import BasicTypeInfo, TypeInformation
from headrace.common.values import handler_of
from headrace.expressions import Bound, Expression, bind, col
from headrace.storage.files import is_hidden

DATE_PATTERN_TOKEN = re.compile(r"''|'((?:[^']|'')+)'|([A-Za-z])\2*|[^A-Za-z']+")
"""The next part of a pattern of Java's ``DateTimeFormatter``: group 1 is quoted text, group 2 a letter of a field."""

_FIELDS = {
    "yyyy": "{0.year:04}",
    "uuuu": "{0.year:04}",
    "yy": "{0:%y}",
    "uu": "{0:%y}",
    "MM": "{0.month:02}",
    "M": "{0.month}",
    "dd": "{0.day:02}",
    "d": "{0.day}",
    "DDD": "{0:%j}",
    "HH": "{0.hour:02}",
    "H": "{0.hour}",
    "mm": "{0.minute:02}",
    "m": "{0.minute}",
    "ss": "{0.second:02}",
    "s": "{0.second}",
    "SSS": "{1:03}",
}

_STEPS = {_FIELDS["SSS"]: 1, "{0.second": 1000}


def _template_of(pattern: str) -> str:
    """A pattern of Java's ``DateTimeFormatter`` as a template of :meth:`str.format`, for a moment and its milliseconds.

    Raises:
        InvalidProgramError: naming what is not supported.
    """
    parts, position = [], 0
    while position < len(pattern):
        token = DATE_PATTERN_TOKEN.match(pattern, position)
        if token is None:
            raise InvalidProgramError(f"the date pattern {pattern!r} has a quote that is not closed")
        parts.append(_template_part(token, pattern))
        position = token.end()
    return "".join(parts)


def _template_part(token: re.Match[str], pattern: str) -> str:
    text = token[0]
    if text == "''":
        return "'"
    if token[1] is not None:
        return _literal(token[1].replace("''", "'"))
    if token[2] is None:
        return _literal(text)
    if text not in _FIELDS:
        known = ", ".join(_FIELDS)
        raise InvalidProgramError(f"the date pattern {pattern!r} holds {text!r}; supported are {known} and 'text'")
    return _FIELDS[text]


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


HIDDEN_FOLDER: Final = ".headrace-"
"""The beginning of the names of the folders in which sinks keep hidden files."""


_LONGEST_NAME: Final = 255
"""Bytes; the limit of all usual file systems."""

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of a field without value, as Hive and Spark call it."""

_ESCAPED: Final = str.maketrans({char: f"%{ord(char):02X}" for char in [*map(chr, range(32)), *"\"#%'*/:=?\\{[]^\x7f"]})
"""The characters that Hive and Spark escape in the folder of a value."""

_OFFSET: Final = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?")

_MINUTE: Final = 60_000

_WHOLE_MINUTES: Final = 3 * 365 * 24 * 60 * _MINUTE
"""Since 1972 all time zones are whole minutes off UTC."""


@dataclass(frozen=True, slots=True)
class BucketContext:
    """The context of a record that is assigned to a bucket.

    Attributes:
        processing_time: the job's clock in milliseconds, the same for all records of an epoch.
        watermark: the watermark that the record meets.
        event_time: the record's timestamp, or None.
    """

    processing_time: int
    watermark: int
    event_time: int | None

    def current_processing_time(self) -> int:
        """The job's clock in milliseconds."""
        return self.processing_time

    def current_watermark(self) -> int:
        """The watermark that the record meets."""
        return self.watermark

    def timestamp(self) -> int | None:
        """The record's timestamp, or None."""
        return self.event_time


class BucketAssigner:
    """Assigns every record to a bucket, a folder below the sink's path; picklable.

    Override :meth:`get_bucket_id` to look at records one by one, or :meth:`bucket_ids` to look at a whole batch.

    Examples:
        >>> from headrace.datastream.connectors import BucketAssigner
        >>> class ByCountry(BucketAssigner):
        ...     def get_bucket_id(self, element, context):
        ...         return f"country={element['country']}"
        >>> ByCountry().get_bucket_id({"country": "ch"}, None)
        'country=ch'
        >>> hourly = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "UTC")
    """

    def validate(self, input_type: TypeInformation) -> None:
        """Refuse a record type.

        Raises:
            InvalidTypeError: naming the type and what would fit.
        """

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """The record's bucket: a relative path, empty for the sink's path itself. It must not depend on chance."""
        raise NotImplementedError(f"{type(self).__name__} finds the buckets of whole batches: call bucket_ids()")

    def bucket_ids(self, batch: Batch, processing_time: int) -> str | list[str]:
        """The bucket of every record, or the one bucket of all."""
        times = zip(batch.rows, batch.timestamps.tolist(), batch.watermarks.tolist(), strict=True)
        buckets = [
            self.get_bucket_id(row, BucketContext(processing_time, watermark, None if time == NO_TIMESTAMP else time))
            for row, time, watermark in times
        ]
        for bucket in buckets:
            if not isinstance(bucket, str):
                raise InvalidProgramError(f"a bucket is a text, not {bucket!r} of type {type(bucket).__name__}")
        return buckets

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Put all files into the sink's path itself."""
        return _BasePath()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Folders by processing time.

        Args:
            format_str: a pattern of Java's ``DateTimeFormatter``, made of ``yyyy``, ``MM``, ``dd``, ``HH``, ``mm``,
                ``ss``, ``SSS``, quoted text and other characters that are no letters; ``/`` makes nested folders.
            timezone_id: ``Europe/Berlin``, ``GMT-08:00`` and so on; the machine's time zone when left out.

        Raises:
            InvalidProgramError: when the pattern or the time zone is unknown, or folders would be hidden.
        """
        return _ByTime(_template_of(format_str), timezone_id, is_event_time=False)

    @staticmethod
    def event_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str = "UTC") -> BucketAssigner:
        """Folders by the timestamps of the records; a record without one ends the job.

        Args:
            format_str: a pattern as for :meth:`date_time_bucket_assigner`.
            timezone_id: ``Europe/Berlin``, ``GMT-08:00`` and so on.

        Raises:
            InvalidProgramError: when the pattern or the time zone is unknown, or folders would be hidden.
        """
        return _ByTime(_template_of(format_str), timezone_id, is_event_time=True)

    @staticmethod
    def field_bucket_assigner(*fields: str | Expression, no_value: str = NO_VALUE) -> BucketAssigner:
        """Folders ``field=value``, one in the other, as Hive and Spark lay out partitions and read them.

        Values are spelled and escaped as there; a missing value and an empty text have the folder
        ``field=__HIVE_DEFAULT_PARTITION__``, by default. The fields stay in the files as well.

        Args:
            fields: names of fields, and expressions, which need a name: ``col("paid").year().alias("year")``.
            no_value: stands for a value that is missing, and for an empty text.

        Raises:
            InvalidProgramError: when there is no field, or an expression has no name, or one that begins with a dot.
        """
        return _Fields(tuple(col(field) if isinstance(field, str) else field for field in fields), no_value)

    @staticmethod
    def function_bucket_assigner(function: Callable[[Any], str]) -> BucketAssigner:
        """Folders by a function of the record: ``lambda order: f"{order.country}/{order.day:%Y-%m}"``."""
        return _Function(function)


class _BasePath(BucketAssigner):
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        return ""

    def bucket_ids(self, batch: Batch, processing_time: int) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class _ByTime(BucketAssigner):
    """Names folders after moments: those of the records, or that of the epoch, in which the clock stands still.

    Attributes:
        template: a template of :meth:`str.format`, for a moment and its milliseconds.
        zone: the time zone of moments; None for the machine's.
        is_event_time: whether the moments are those of the records.
    """

    template: str
    zone: str | None
    is_event_time: bool

    def __post_init__(self) -> None:
        self._time_zone()
        _check_visible(check_bucket(self._name(0)))  # numbers aside, all moments have the same name

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        if not self.is_event_time:
            return self._name(context.processing_time)
        return self._names(np.array([NO_TIMESTAMP if context.event_time is None else context.event_time]))[0]

    def bucket_ids(self, batch: Batch, processing_time: int) -> str | list[str]:
        return self._names(batch.timestamps) if self.is_event_time else self._name(processing_time)

    def _name(self, millis: int) -> str:
        seconds, rest = divmod(millis, 1000)
        try:
            moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(microsecond=rest * 1000)
            return self.template.format(moment.astimezone(self._time_zone()), rest)
        except (ValueError, OverflowError) as error:
            raise InvalidProgramError(
                f"{millis} ms is not within the years 1 to 9999, so it names no bucket"
            ) from error

    def _names(self, times: npt.NDArray[np.int64]) -> list[str]:
        if (times == NO_TIMESTAMP).any():
            raise InvalidProgramError(
                "a record has no event time, after which its bucket is named: call assign_timestamps_and_watermarks() "
                "before sink_to()"
            )
        steps, which = np.unique(times // (step := self._step(times)), return_inverse=True)
        names = np.array([self._name(number * step) for number in steps.tolist()], dtype=object)
        found: list[str] = names[which].tolist()
        return found

    def _step(self, times: npt.NDArray[np.int64]) -> int:
        """The milliseconds that share a name at least: zones are whole minutes off UTC, except long ago."""
        of_template = next((step for field, step in _STEPS.items() if field in self.template), _MINUTE)
        return min(of_template, _MINUTE if int(times.min()) >= _WHOLE_MINUTES else 1000)

    def _time_zone(self) -> datetime.tzinfo | None:
        return None if self.zone is None else time_zone(self.zone)


@dataclass(frozen=True, slots=True)
class _Function(BucketAssigner):
    function: Callable[[Any], str]

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        return self.function(element)


@dataclass(frozen=True, slots=True, eq=False)
class _Fields(BucketAssigner):
    fields: tuple[Expression, ...]
    no_value: str

    def __post_init__(self) -> None:
        if not self.fields:
            raise InvalidProgramError("field_bucket_assigner() takes the names of fields, or expressions")
        for field in self.fields:
            if field.name is None:
                raise InvalidProgramError(f"a folder of {field!r} needs a name: call alias(...)")
            _check_visible(f"{_escaped(field.name)}=")

    def validate(self, input_type: TypeInformation) -> None:
        for name, bound in self._bound(input_type):
            if not isinstance(bound.type, BasicTypeInfo) or pa.types.is_binary(bound.type.storage_type):
                raise InvalidTypeError(f"the field {name!r} is {bound.type}, which cannot be the name of a bucket")

    def bucket_ids(self, batch: Batch, processing_time: int) -> list[str]:
        names = np.array([""], dtype=object)
        which = np.zeros(len(batch), dtype=np.int64)
        for field, bound in self._bound(batch.type):
            values, positions = _distinct(bound.type, bound.column(batch.columns))
            folders = [f"{field}={_escaped(value or self.no_value)}" for value in values]
            pairs, which = np.unique(which * len(folders) + positions, return_inverse=True)
            joined = [divmod(pair, len(folders)) for pair in pairs.tolist()]
            names = np.array([f"{names[outer]}/{folders[inner]}".lstrip("/") for outer, inner in joined], dtype=object)
        found: list[str] = names[which].tolist()
        return found

    def _bound(self, record_type: TypeInformation) -> list[tuple[str, Bound]]:
        return [(_escaped(field.name or ""), bind(field, record_type)) for field in self.fields]


def _distinct(kind: TypeInformation, column: pa.Array) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """The texts of a column's values, and which of them each row has."""
    encoded = column.dictionary_encode(null_encoding="encode")
    text = handler_of(kind).text
    values = array_to_values(kind, encoded.dictionary)
    return [None if value is None else text(value) for value in values], encoded.indices.to_numpy().astype(np.int64)


def _escaped(text: str) -> str:
    return text.translate(_ESCAPED)


def time_zone(name: str) -> datetime.tzinfo:
    """A time zone by the name of a place, or as an offset such as ``GMT-08:00``.

    Raises:
        InvalidProgramError: when it is unknown.
    """
    offset = _OFFSET.fullmatch(name)
    try:
        if offset is None:
            return ZoneInfo(name)
        sign = -1 if offset[1] == "-" else 1
        return datetime.timezone(sign * datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)))
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidProgramError(
            f"unknown time zone {name!r}: use a name such as Europe/Berlin or GMT+01:00"
        ) from error


def _check_visible(bucket: str) -> None:
    """Refuse folders that readers take for hidden, where the program says how all are called."""
    hidden = [part for part in bucket.split("/") if is_hidden(part)]
    if hidden:
        raise InvalidProgramError(
            f"folders that are called like {hidden[0]!r} are hidden: readers leave out what is in them; begin the name "
            "with a letter or a digit"
        )


def check_bucket(bucket: str) -> str:
    """Refuse a bucket that is not a folder below the sink's path.

    Raises:
        InvalidProgramError: naming the bucket.
    """
    for part in bucket.split("/") if bucket else ():
        if part in ("", ".", "..") or "\0" in part:
            raise InvalidProgramError(f"the bucket {bucket!r} is not a relative path below the sink's path")
        if part.startswith(HIDDEN_FOLDER):
            raise InvalidProgramError(
                f"the bucket {bucket!r} has the name of a folder in which sinks keep what is hidden"
            )
        if len(part.encode(errors="surrogatepass")) > _LONGEST_NAME:
            raise InvalidProgramError(
                f"the bucket {bucket!r} has a folder whose name is longer than {_LONGEST_NAME} bytes"
            )
    return bucket


BY_HOUR: Final = BucketAssigner.date_time_bucket_assigner()
"""The assigner of sinks for which the program chooses none."""
