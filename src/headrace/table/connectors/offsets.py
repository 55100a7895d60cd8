"""Starting and ending offsets of a table's topics: Flink's ``scan.startup.*`` and ``scan.bounded.*``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from headrace.common.config_options import ConfigOption, choice, integer
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.messages import TopicPartition
from headrace.connectors.partitions import OffsetResetStrategy, OffsetsInitializer

_MODES: Final = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_MILLIS: Final = integer(0, 2**62)

STARTUP_MODE: Final = ConfigOption(
    "scan.startup.mode", choice(*_MODES), "earliest-offset", "Where partitions are read from at the first start."
)
STARTUP_OFFSETS: Final = ConfigOption(
    "scan.startup.specific-offsets", str, "", "Offsets to start from: 'partition:0,offset:42;partition:1,offset:300'."
)
STARTUP_MILLIS: Final = ConfigOption[int | None](
    "scan.startup.timestamp-millis", _MILLIS, None, "The time to start from, in milliseconds."
)
STARTUP: Final = (STARTUP_MODE, STARTUP_OFFSETS, STARTUP_MILLIS)

BOUNDED_MODE: Final = ConfigOption(
    "scan.bounded.mode",
    choice("unbounded", *_MODES[1:]),
    "unbounded",
    "Where the table ends; it does not unless that is said.",
)
BOUNDED_OFFSETS: Final = ConfigOption(
    "scan.bounded.specific-offsets", str, "", "Offsets to end before, as for 'scan.startup.specific-offsets'."
)
BOUNDED_MILLIS: Final = ConfigOption[int | None](
    "scan.bounded.timestamp-millis", _MILLIS, None, "The time to end at, in milliseconds."
)
BOUNDED: Final = (BOUNDED_MODE, BOUNDED_OFFSETS, BOUNDED_MILLIS)

Offsets = Callable[[Sequence[str]], OffsetsInitializer]
"""Computes the offsets of topics."""

_SPECIFIC: Final = re.compile(r"\s*partition:(\d+),\s*offset:(\d+)\s*")


def starting_offsets(options: Configuration) -> Offsets:
    """The offsets from which the partitions of topics are read.

    Raises:
        ConfigurationError: when the mode needs another option.
    """
    return _offsets(options, STARTUP)


def bounded_offsets(options: Configuration) -> Offsets | None:
    """The offsets at which the partitions of topics end; None when they are unbounded.

    Raises:
        ConfigurationError: when the mode needs another option.
    """
    return None if options.get(BOUNDED_MODE) == "unbounded" else _offsets(options, BOUNDED)


def _offsets(
    options: Configuration, known: tuple[ConfigOption[str], ConfigOption[str], ConfigOption[int | None]]
) -> Offsets:
    mode, specific, millis = known
    match options.get(mode):
        case "earliest-offset":
            return lambda _: OffsetsInitializer.earliest()
        case "latest-offset":
            return lambda _: OffsetsInitializer.latest()
        case "group-offsets":
            return lambda _: OffsetsInitializer.committed_offsets()
        case "timestamp":
            since = options.get(millis)
            if since is None:
                raise ConfigurationError(f"{mode.key!r} = 'timestamp' needs {millis.key!r}")
            return lambda _: OffsetsInitializer.timestamp(since)
    places = _specific(options, mode, specific)
    return lambda topics: _of_topic(topics, places, mode)


def _specific(options: Configuration, mode: ConfigOption[str], specific: ConfigOption[str]) -> dict[int, int]:
    text = options.get(specific)
    parts = [_SPECIFIC.fullmatch(part) for part in text.strip().rstrip(";").split(";")]
    found = {int(part[1]): int(part[2]) for part in parts if part is not None}
    if len(found) != len(parts):
        raise ConfigurationError(
            f"{mode.key!r} = 'specific-offsets' needs {specific.key!r} such as 'partition:0,offset:42;"
            f"partition:1,offset:300', not {text!r}"
        )
    return found


def _of_topic(topics: Sequence[str], places: dict[int, int], mode: ConfigOption[str]) -> OffsetsInitializer:
    if len(topics) != 1:
        raise ConfigurationError(f"{mode.key!r} = 'specific-offsets' needs exactly one topic")
    given = {TopicPartition(topics[0], partition): offset for partition, offset in places.items()}
    return OffsetsInitializer.offsets(given, OffsetResetStrategy.EARLIEST)
