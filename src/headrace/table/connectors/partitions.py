"""The partitions of tables in files: their names, their times, and the options of their commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Final
from urllib.parse import unquote

from headrace.common.config_options import ConfigOption, choice, duration
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.connectors.file_system.buckets import DATE_PATTERN_TOKEN, time_zone
from headrace.connectors.file_system.partition_commit import PartitionCommit, PartitionTrigger, SuccessFile
from headrace.connectors.file_system.paths import InputPaths, resolved
from headrace.table.connectors.factory import TableContext
from headrace.table.connectors.table_source import Partition

_POLICIES: Final = {
    "metastore": "it is of tables of Hive",
    "custom": "write the program that reads the partitions so that it looks for '_SUCCESS', and use 'success-file'",
}
_EXTRACTORS: Final = {
    "custom": "say by 'partition.time-extractor.timestamp-pattern' how a time is put together of the partition columns"
}


def _built_in(known: str, others: dict[str, str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in others:
            raise ValueError(f"{known!r}, as there is no {text!r} here: {others[text]}")
        return choice(known)(text)

    return read


def _policies(text: str) -> str:
    read = _built_in("success-file", _POLICIES)
    return ",".join(dict.fromkeys(read(name.strip()) for name in text.split(",")))


def _zone(text: str) -> str:
    try:
        time_zone(text)
    except InvalidProgramError:
        raise ValueError("a time zone, such as UTC, Europe/Berlin or GMT+08:00") from None
    return text


POLICIES: Final = ConfigOption[str | None](
    "sink.partition-commit.policy.kind", _policies, None, "What becomes of a partition that is complete."
)
TRIGGER: Final = ConfigOption(
    "sink.partition-commit.trigger",
    choice("process-time", "partition-time"),
    "process-time",
    "Whether a partition is complete by the clock, or when the watermark has passed its time.",
)
DELAY: Final = ConfigOption("sink.partition-commit.delay", duration, 0, "How long after its time it is complete.")
ZONE: Final = ConfigOption(
    "sink.partition-commit.watermark-time-zone", _zone, "UTC", "The time zone of the times of partitions."
)
SUCCESS_FILE: Final = ConfigOption(
    "sink.partition-commit.success-file.name", str, "_SUCCESS", "The file that says that a partition is complete."
)
EXTRACTOR: Final = ConfigOption(
    "partition.time-extractor.kind", _built_in("default", _EXTRACTORS), "default", "How the time is found."
)
TIME_PATTERN: Final = ConfigOption(
    "partition.time-extractor.timestamp-pattern",
    str,
    "",
    "How partition columns make a time: '$day $hour:00:00'; the first column, unless given.",
)
TIME_FORMATTER: Final = ConfigOption(
    "partition.time-extractor.timestamp-formatter", str, "", "The pattern of that time: 'yyyyMMdd HH'."
)
_COMMIT: Final = (TRIGGER, DELAY, ZONE, SUCCESS_FILE)
COMMIT_OPTIONS: Final = (POLICIES, *_COMMIT, EXTRACTOR, TIME_PATTERN, TIME_FORMATTER)


def pattern(text: str) -> re.Pattern[str]:
    """Read a regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None


def partition_of(path: str, keys: Sequence[str], no_value: str) -> Partition:
    """The partition of a file: the values of the partition columns in the names of its folders."""
    folders = (part.partition("=") for part in path.split("/")[:-1])
    found = {unquote(name): unquote(value) for name, is_there, value in folders if is_there}
    values = (found.get(key) for key in keys)
    return tuple(None if value == no_value else value for value in values)


def partitions_below(path: str, keys: Sequence[str], no_value: str) -> list[Partition]:
    """The partitions of which there are files."""
    files = InputPaths([resolved(path)], {}).find()
    return list(dict.fromkeys(partition_of(file.path, keys, no_value) for file in files))


@dataclass(frozen=True)
class PathFilter:
    """Decides which files of a table are read.

    Attributes:
        pattern: a regular expression that the whole path matches; None for any.
        keys: the partition columns.
        partitions: the partitions that are read; None for all.
        no_value: the name of the partition whose value is null.
    """

    pattern: re.Pattern[str] | None
    keys: tuple[str, ...]
    partitions: frozenset[Partition] | None
    no_value: str

    def __call__(self, path: str) -> bool:
        """Return whether the file is read."""
        if self.pattern is not None and not self.pattern.fullmatch(path):
            return False
        return self.partitions is None or partition_of(path, self.keys, self.no_value) in self.partitions


def partition_commit(context: TableContext, options: Configuration) -> PartitionCommit | None:
    """Return how partitions of a table are committed; None where they are not.

    Raises:
        ConfigurationError: when options do not fit each other, or the table.
    """
    if options.get(POLICIES) is None:
        for option in _COMMIT:
            if options.contains_key(option.key):
                raise ConfigurationError(f"{option.key!r} needs {POLICIES.key!r}, such as 'success-file'")
        return None
    if not context.partition_keys:
        raise ConfigurationError(f"{POLICIES.key!r} is of tables with PARTITIONED BY")
    pattern = options.get(TIME_PATTERN) or f"${context.partition_keys[0]}"
    times = PartitionTimes(context.partition_keys, pattern, options.get(TIME_FORMATTER), options.get(ZONE))
    reader(times.formatter)
    by_time = options.get(TRIGGER) == "partition-time"
    trigger = PartitionTrigger(options.get(DELAY), times if by_time else None, is_at_end=context.is_batch)
    return PartitionCommit(trigger, (SuccessFile(options.get(SUCCESS_FILE)),))


@dataclass(frozen=True)
class PartitionTimes:
    """Finds the time of a partition, as Flink's default extractor does.

    Attributes:
        keys: the partition columns.
        pattern: the text of the time, with ``$`` before the names of columns.
        formatter: the pattern of Java's ``DateTimeFormatter`` for that text; that of SQL if it is empty.
        zone: the time zone.
    """

    keys: tuple[str, ...]
    pattern: str
    formatter: str
    zone: str

    def __call__(self, bucket: str) -> int:
        """The milliseconds since 1970.

        Raises:
            InvalidProgramError: when its name has no time.
        """
        values = [unquote(part.partition("=")[2]) for part in bucket.split("/")]
        text = self.pattern
        for key, value in zip(self.keys, values, strict=True):
            text = text.replace(f"${key}", value)
        time = _time_of(text, reader(self.formatter) if self.formatter else _DEFAULT)
        if time is None:
            advice = self.formatter or "yyyy-MM-dd, or yyyy-MM-dd HH:mm:ss"
            raise InvalidProgramError(
                f"the partition {bucket!r} has no time: {text!r} is not of the form {advice}. Set "
                f"{TIME_PATTERN.key!r} and {TIME_FORMATTER.key!r}"
            )
        return round(time.replace(tzinfo=time_zone(self.zone)).timestamp() * 1000)


_DEFAULT: Final = re.compile(
    r"(?P<year>\d{1,4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?: (?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(?:\.\d{0,9})?)?"
)
_UNITS: Final = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}


@cache
def reader(pattern: str) -> re.Pattern[str]:
    """The regular expression of a pattern of Java's ``DateTimeFormatter``.

    Raises:
        ConfigurationError: naming what is not supported.
    """
    parts = []
    for token in DATE_PATTERN_TOKEN.finditer(pattern):
        unit = _UNITS.get(token[2] or "")
        if token[2] and (unit is None or len(token[0]) != (4 if unit == "year" else min(len(token[0]), 2))):
            known = ", ".join(("yyyy", "MM", "dd", "HH", "mm", "ss"))
            raise ConfigurationError(f"{TIME_FORMATTER.key!r} holds {token[0]!r}; supported are {known} and 'text'")
        literal = re.escape((token[1] or token[0]).replace("''", "'"))
        digits = "1,2" if len(token[0]) == 1 else len(token[0])
        parts.append(rf"(?P<{unit}>\d{{{digits}}})" if unit else literal)
    return re.compile("".join(parts))


def _time_of(text: str, pattern: re.Pattern[str]) -> datetime | None:
    found = pattern.fullmatch(text)
    if found is None:
        return None
    fields = {"month": 1, "day": 1} | {unit: int(value) for unit, value in found.groupdict().items() if value}
    try:
        return datetime(**fields)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
