"""Lookups in tables by a key, and their options."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.config_options import ConfigOption, boolean, choice, integer, positive_duration
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError

if TYPE_CHECKING:
    from headrace.operators.lookup.readers import CacheSettings, LookupReader, ReloadTrigger, TableReader

_TIME: Final = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?:Z|([+-])(\d\d):(\d\d))?")


def _time_of_day(text: str) -> int:
    """The milliseconds of a day, in UTC."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError("a time of the day, such as 10:15, 10:15Z or 10:15+01:00")
    hours, minutes, seconds, sign, ahead, more = found.groups()
    offset = (int(ahead or 0) * 60 + int(more or 0)) * (-1 if sign == "-" else 1)
    return ((int(hours) * 60 + int(minutes) - offset) * 60 + int(seconds or 0)) * 1000 % 86_400_000


CACHE: Final = ConfigOption(
    "lookup.cache", choice("NONE", "PARTIAL", "FULL"), "NONE", "What is kept of the table in memory."
)
MAX_RETRIES: Final = ConfigOption(
    "lookup.max-retries", integer(0, 1_000), 3, "How often a request is made again that has failed."
)
ASYNC: Final = ConfigOption[bool | None]("lookup.async", boolean, None, "Whether many requests are made at a time.")
MAX_ROWS: Final = ConfigOption[int | None](
    "lookup.partial-cache.max-rows", integer(1, 2**63 - 1), None, "How many keys are kept, at most."
)
EXPIRE_AFTER_WRITE: Final = ConfigOption[int | None](
    "lookup.partial-cache.expire-after-write", positive_duration, None, "How long a key is kept after it was found."
)
EXPIRE_AFTER_ACCESS: Final = ConfigOption[int | None](
    "lookup.partial-cache.expire-after-access", positive_duration, None, "How long a key is kept that is not used."
)
CACHE_MISSING: Final = ConfigOption(
    "lookup.partial-cache.cache-missing-key", boolean, True, "Whether it is kept that a key is not there."
)
RELOAD_STRATEGY: Final = ConfigOption(
    "lookup.full-cache.reload-strategy", choice("PERIODIC", "TIMED"), "PERIODIC", "When the table is read again."
)
RELOAD_INTERVAL: Final = ConfigOption[int | None](
    "lookup.full-cache.periodic-reload.interval", positive_duration, None, "How often; never where it is not set."
)
RELOAD_MODE: Final = ConfigOption(
    "lookup.full-cache.periodic-reload.schedule-mode",
    choice("FIXED_DELAY", "FIXED_RATE"),
    "FIXED_DELAY",
    "No difference: no time passes by the clock of a job while it reads.",
)
RELOAD_TIME: Final = ConfigOption[int | None](
    "lookup.full-cache.timed-reload.iso-time", _time_of_day, None, "At what time of the day, in UTC."
)
RELOAD_DAYS: Final = ConfigOption(
    "lookup.full-cache.timed-reload.interval-in-days", integer(1, 36_500), 1, "After how many days."
)

PARTIAL_OPTIONS: Final = (MAX_ROWS, EXPIRE_AFTER_WRITE, EXPIRE_AFTER_ACCESS, CACHE_MISSING)
FULL_OPTIONS: Final = (RELOAD_STRATEGY, RELOAD_INTERVAL, RELOAD_MODE, RELOAD_TIME, RELOAD_DAYS)


@dataclass(frozen=True)
class TableLookup:
    """A provider of lookups in a table (Flink's ``LookupRuntimeProvider``).

    Attributes:
        reader: answers requests for keys, or reads the whole table.
        keys: the columns of the keys; a subset of those that the join compares.
        cache: the settings of a partial cache; None for no cache.
        reload: the trigger of reloads of a whole table; None to read it once.
        is_async: whether many requests are made at a time.
        max_retries: how often a failed request is made again.
    """

    reader: LookupReader | TableReader
    keys: tuple[str, ...]
    cache: CacheSettings | None = None
    reload: ReloadTrigger | None = None
    is_async: bool = False
    max_retries: int = 0


def cache_of(options: Configuration) -> CacheSettings | None:
    """The settings of a partial cache; None where there is none.

    Raises:
        ConfigurationError: when options of another cache are set.
    """
    from headrace.operators.lookup.readers import CacheSettings

    kind = options.get(CACHE)
    _refuse_others(options, kind)
    if kind != "PARTIAL":
        return None
    return CacheSettings(
        options.get(MAX_ROWS) or sys.maxsize,
        options.get(EXPIRE_AFTER_WRITE),
        options.get(CACHE_MISSING),
        options.get(EXPIRE_AFTER_ACCESS),
    )


def reload_trigger(options: Configuration) -> ReloadTrigger:
    """The trigger of reloads of a whole table.

    Raises:
        ConfigurationError: when an option is missing, or options of another strategy are set.
    """
    from headrace.operators.lookup.readers import ReloadTrigger

    is_timed = options.get(RELOAD_STRATEGY) == "TIMED"
    others = (RELOAD_INTERVAL, RELOAD_MODE) if is_timed else (RELOAD_TIME, RELOAD_DAYS)
    for option in others:
        if options.contains_key(option.key):
            name = options.get(RELOAD_STRATEGY)
            raise ConfigurationError(f"'{option.key}' has no effect with '{RELOAD_STRATEGY.key}' = '{name}'")
    if not is_timed:
        return ReloadTrigger(options.get(RELOAD_INTERVAL))
    if options.get(RELOAD_TIME) is None:
        raise ConfigurationError(f"'{RELOAD_STRATEGY.key}' = 'TIMED' needs '{RELOAD_TIME.key}'")
    return ReloadTrigger(options.get(RELOAD_DAYS) * 86_400_000, options.get(RELOAD_TIME))


def _refuse_others(options: Configuration, kind: str) -> None:
    """Refuse options of a cache that is not used."""
    others: list[ConfigOption[Any]] = [] if kind == "PARTIAL" else [*PARTIAL_OPTIONS]
    others += [] if kind == "FULL" else [*FULL_OPTIONS]
    for option in others:
        if options.contains_key(option.key):
            raise ConfigurationError(f"'{option.key}' has no effect with '{CACHE.key}' = '{kind}'")


def refuse_partial(options: Configuration, connector: object) -> None:
    """Refuse caches other than ``FULL``, for tables that are read as a whole.

    Raises:
        ConfigurationError: when another is set.
    """
    if options.contains_key(CACHE.key) and options.get(CACHE) != "FULL":
        raise ConfigurationError(
            f"{connector} cannot look up single keys: '{CACHE.key}' can only be 'FULL', which reads all rows"
        )
