"""``BucketAssigner``: which folder below the sink's path a record goes to."""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError
from headrace.connectors.file_system.date_pattern import DatePattern
from headrace.connectors.file_system.staging import HIDDEN_FOLDER

if TYPE_CHECKING:
    from headrace.common.batch import Batch

_LONGEST_NAME: Final = 255
"""Bytes; the limit of all usual file systems."""

_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@dataclass(frozen=True, slots=True)
class BucketContext:
    """What is known besides the record.

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


class BucketAssigner(ABC):
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

    @abstractmethod
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """The record's bucket: a relative path, empty for the sink's path itself. It must not depend on chance."""

    def bucket_ids(self, batch: Batch, processing_time: int) -> str | list[str]:
        """The bucket of every record, or the one bucket of all."""
        times = zip(batch.rows, batch.timestamps.tolist(), batch.watermarks.tolist(), strict=True)
        return [
            self.get_bucket_id(row, BucketContext(processing_time, watermark, None if time == NO_TIMESTAMP else time))
            for row, time, watermark in times
        ]

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """All files in the sink's path itself."""
        return _BasePath()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Folders by processing time.

        Args:
            format_str: a pattern of Java's ``DateTimeFormatter``, made of ``yyyy``, ``MM``, ``dd``, ``HH``, ``mm``,
                ``ss``, ``SSS``, quoted text and other characters that are no letters; ``/`` makes nested folders.
            timezone_id: ``Europe/Berlin``, ``GMT-08:00`` and so on; the machine's time zone when left out.

        Raises:
            InvalidProgramError: when the pattern or the time zone is unknown.
        """
        return _ProcessingTime(DatePattern.parse(format_str), timezone_id)


class _BasePath(BucketAssigner):
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        return ""

    def bucket_ids(self, batch: Batch, processing_time: int) -> str:
        return ""


class _ProcessingTime(BucketAssigner):
    """All records of an epoch go to one bucket, since the clock stands still during an epoch."""

    def __init__(self, pattern: DatePattern, zone: str | None) -> None:
        self._pattern = pattern
        self._zone = None if zone is None else time_zone(zone)

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        return self._bucket(context.processing_time)

    def bucket_ids(self, batch: Batch, processing_time: int) -> str:
        return self._bucket(processing_time)

    def _bucket(self, millis: int) -> str:
        seconds, rest = divmod(millis, 1000)
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(microsecond=rest * 1000)
        return self._pattern.format(moment.astimezone(self._zone))


def time_zone(name: str) -> datetime.tzinfo:
    """A time zone by the name of a place, or as an offset such as ``GMT-08:00``.

    Raises:
        InvalidProgramError: when it is unknown.
    """
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign = -1 if offset[1] == "-" else 1
        return datetime.timezone(sign * datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidProgramError(
            f"unknown time zone {name!r}: use a name such as Europe/Berlin or GMT+01:00"
        ) from error


def check_bucket(bucket: str) -> str:
    """Refuse a bucket that is not a folder below the sink's path.

    Raises:
        InvalidProgramError: naming the bucket.
    """
    parts = bucket.split("/") if bucket else []
    if any(part in ("", ".", "..") for part in parts) or "\0" in bucket:
        raise InvalidProgramError(f"the bucket {bucket!r} is not a relative path below the sink's path")
    if any(part.startswith(HIDDEN_FOLDER) for part in parts):
        raise InvalidProgramError(f"the bucket {bucket!r} has the name of a folder in which sinks keep what is hidden")
    if any(len(part.encode(errors="surrogatepass")) > _LONGEST_NAME for part in parts):
        raise InvalidProgramError(f"the bucket {bucket!r} has a folder whose name is longer than {_LONGEST_NAME} bytes")
    return bucket
