"""Time to live of state: how it is configured, and what it means for one element."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

from headrace.common.call_site import warn_caller
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.common.time import Duration, Time, to_millis

Length = Duration | Time | datetime.timedelta | int

TtlScale = Literal[True, "event"]

IN_PROCESSING_TIME: Final[TtlScale] = True
IN_EVENT_TIME: Final[TtlScale] = "event"
"""The values of the time domain of expiries in the ``meta`` of runs."""

DEFAULT_CLEANUP_SIZE: Final = 5
DEFAULT_QUERY_ENTRIES: Final = 1000


class TtlUpdateType(Enum):
    """The accesses that prolong the life of an element."""

    Disabled = 0
    """State does not expire."""

    OnCreateAndWrite = 1
    """Every write."""

    OnReadAndWrite = 2
    """Every write and every read."""


class TtlVisibility(Enum):
    """The visibility of an expired element."""

    ReturnExpiredIfNotCleanedUp = 0
    """It can be read until something has removed it."""

    NeverReturnExpired = 1
    """It is as if it were not there."""


class TtlTimeScale(Enum):
    """The time in which elements age."""

    ProcessingTime = 0
    """The clock, as it stands during an epoch."""

    EventTime = 1
    """The watermark that a record meets, or the time of a timer. Flink has no such scale."""


class CleanupStrategy(Enum):
    """Ways to remove expired elements that are not read."""

    FULL_STATE_SCAN_SNAPSHOT = 0
    INCREMENTAL_CLEANUP = 1
    ROCKSDB_COMPACTION_FILTER = 2


@dataclass(frozen=True, slots=True)
class IncrementalCleanup:
    """Parameters of Flink's incremental cleanup."""

    cleanup_size: int
    run_for_every_record: bool

    def get_cleanup_size(self) -> int:
        """Return how many elements are looked at each time."""
        return self.cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Return whether that happens for every record."""
        return self.run_for_every_record


@dataclass(frozen=True, slots=True)
class CompactFilterCleanup:
    """Parameters of Flink's cleanup during compaction."""

    query_time_after_num_entries: int
    periodic_compaction_time: Length

    def get_query_time_after_num_entries(self) -> int:
        """After how many elements the clock is read again."""
        return self.query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Length:
        """Return how often everything is compacted."""
        return self.periodic_compaction_time


class TtlCleanup:
    """The ways in which expired elements are removed.

    Kept so that programs run unchanged. Here every merge of runs removes what has expired by then, which costs nothing
    more; the strategies do not change that.
    """

    Strategies = CleanupStrategy
    IncrementalCleanupStrategy = IncrementalCleanup
    RocksdbCompactFilterCleanupStrategy = CompactFilterCleanup

    def __init__(self, strategies: dict[CleanupStrategy, Any], is_cleanup_in_background: bool) -> None:
        self._strategies = strategies
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Return whether cleanup in the background was left on."""
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Return whether cleanup at full snapshots was requested."""
        return CleanupStrategy.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanup | None:
        """The parameters of incremental cleanup, the default ones if none were set."""
        default = IncrementalCleanup(DEFAULT_CLEANUP_SIZE, False) if self._is_cleanup_in_background else None
        return self._strategies.get(CleanupStrategy.INCREMENTAL_CLEANUP, default)

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> CompactFilterCleanup | None:
        """The parameters of cleanup during compaction, the default ones if none were set."""
        default = CompactFilterCleanup(DEFAULT_QUERY_ENTRIES, Duration.of_days(30))
        fallback = default if self._is_cleanup_in_background else None
        return self._strategies.get(CleanupStrategy.ROCKSDB_COMPACTION_FILTER, fallback)


class StateTtlConfigBuilder:
    """Makes a :class:`StateTtlConfig`."""

    def __init__(self, ttl: Length) -> None:
        self._ttl = ttl
        self._update_type = TtlUpdateType.OnCreateAndWrite
        self._state_visibility = TtlVisibility.NeverReturnExpired
        self._ttl_time_characteristic = TtlTimeScale.ProcessingTime
        self._is_cleanup_in_background = True
        self._strategies: dict[CleanupStrategy, Any] = {}

    def set_update_type(self, update_type: TtlUpdateType) -> StateTtlConfigBuilder:
        """Sets what prolongs the life of an element."""
        self._update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> StateTtlConfigBuilder:
        """Only writing prolongs it: the default."""
        return self.set_update_type(TtlUpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> StateTtlConfigBuilder:
        """Reading prolongs it, too."""
        return self.set_update_type(TtlUpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: TtlVisibility) -> StateTtlConfigBuilder:
        """Sets whether an expired element can still be seen."""
        self._state_visibility = state_visibility
        return self

    def return_expired_if_not_cleaned_up(self) -> StateTtlConfigBuilder:
        """An expired element can be read until something has removed it."""
        return self.set_state_visibility(TtlVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> StateTtlConfigBuilder:
        """An expired element is as if it were not there: the default."""
        return self.set_state_visibility(TtlVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: TtlTimeScale) -> StateTtlConfigBuilder:
        """Sets the time scale."""
        self._ttl_time_characteristic = ttl_time_characteristic
        return self

    def use_processing_time(self) -> StateTtlConfigBuilder:
        """Elements age in processing time: the default."""
        return self.set_ttl_time_characteristic(TtlTimeScale.ProcessingTime)

    def use_event_time(self) -> StateTtlConfigBuilder:
        """Elements age in event time, as watermarks say: the same input gives the same results, whenever it is read.

        An element that is written before there is a watermark does not age until it is written again.
        """
        return self.set_ttl_time_characteristic(TtlTimeScale.EventTime)

    def cleanup_full_snapshot(self) -> StateTtlConfigBuilder:
        """Kept, with a warning; see :class:`TtlCleanup`."""
        _warn("cleanup_full_snapshot")
        self._strategies[CleanupStrategy.FULL_STATE_SCAN_SNAPSHOT] = True
        return self

    def cleanup_incrementally(
        self, cleanup_size: int, run_cleanup_for_every_record: bool = False
    ) -> StateTtlConfigBuilder:
        """Kept, with a warning; see :class:`TtlCleanup`."""
        _warn("cleanup_incrementally")
        strategy = IncrementalCleanup(cleanup_size, run_cleanup_for_every_record)
        self._strategies[CleanupStrategy.INCREMENTAL_CLEANUP] = strategy
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Length | None = None
    ) -> StateTtlConfigBuilder:
        """Kept, with a warning; see :class:`TtlCleanup`."""
        _warn("cleanup_in_rocksdb_compact_filter")
        period = Duration.of_days(30) if periodic_compaction_time is None else periodic_compaction_time
        strategy = CompactFilterCleanup(query_time_after_num_entries, period)
        self._strategies[CleanupStrategy.ROCKSDB_COMPACTION_FILTER] = strategy
        return self

    def disable_cleanup_in_background(self) -> StateTtlConfigBuilder:
        """Kept, with a warning; see :class:`TtlCleanup`."""
        _warn("disable_cleanup_in_background")
        self._is_cleanup_in_background = False
        return self

    def set_ttl(self, ttl: Length) -> StateTtlConfigBuilder:
        """Sets how long elements live."""
        self._ttl = ttl
        return self

    def build(self) -> StateTtlConfig:
        """The configuration.

        Raises:
            InvalidProgramError: when the time to live is not positive, or a setting is none of its kind.
        """
        cleanup = TtlCleanup(dict(self._strategies), self._is_cleanup_in_background)
        return StateTtlConfig(
            self._update_type, self._state_visibility, self._ttl_time_characteristic, self._ttl, cleanup
        )


class StateTtlConfig:
    """The time to live of elements of a state, made by :meth:`new_builder`.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.state import StateTtlConfig
        >>> day = StateTtlConfig.new_builder(Time.days(1)).update_ttl_on_read_and_write().build()
        >>> day.is_enabled(), day.get_ttl().to_milliseconds()
        (True, 86400000)
    """

    Builder = StateTtlConfigBuilder

    UpdateType = TtlUpdateType
    StateVisibility = TtlVisibility
    TtlTimeCharacteristic = TtlTimeScale
    CleanupStrategies = TtlCleanup

    def __init__(
        self,
        update_type: TtlUpdateType,
        state_visibility: TtlVisibility,
        ttl_time_characteristic: TtlTimeScale,
        ttl: Length,
        cleanup_strategies: TtlCleanup,
    ) -> None:
        if to_millis(ttl) <= 0:
            raise InvalidProgramError(f"the time to live must be positive, not {ttl}")
        _check("update type", update_type, TtlUpdateType, "UpdateType")
        _check("visibility", state_visibility, TtlVisibility, "StateVisibility")
        _check("time characteristic", ttl_time_characteristic, TtlTimeScale, "TtlTimeCharacteristic")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Length) -> StateTtlConfigBuilder:
        """Begins a configuration with elements that live that long."""
        return StateTtlConfigBuilder(ttl)

    def get_update_type(self) -> TtlUpdateType:
        """The accesses that prolong the life of an element."""
        return self._update_type

    def get_state_visibility(self) -> TtlVisibility:
        """Return whether an expired element can still be seen."""
        return self._state_visibility

    def get_ttl(self) -> Length:
        """Return how long elements live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeScale:
        """The time scale."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Return whether elements expire at all."""
        return self._update_type is not TtlUpdateType.Disabled

    def get_cleanup_strategies(self) -> TtlCleanup:
        """Return how expired elements are removed."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, state_visibility={self._state_visibility}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic}, ttl={self._ttl}>"
        )


def _check(what: str, given: object, expected: type[Enum], name: str) -> None:
    if not isinstance(given, expected):
        known = ", ".join(f"StateTtlConfig.{name}.{member.name}" for member in expected)
        raise InvalidProgramError(f"the {what} of a time to live must be one of {known}, not {given!r}")


def _warn(setting: str) -> None:
    warn_caller(f"{setting}() has no effect: every merge of state drops what has expired, and runs of it are merged")


@dataclass(frozen=True, slots=True)
class TtlPolicy:
    """A configuration, ready for use.

    Attributes:
        millis: how long an element lives after it was last written (or read).
        on_read: whether reading prolongs its life.
        return_expired: whether an expired element can still be seen.
        is_in_event_time: whether elements age in event time.
    """

    millis: int
    on_read: bool
    return_expired: bool
    is_in_event_time: bool = False

    @staticmethod
    def of(config: StateTtlConfig | None) -> TtlPolicy | None:
        """The policy of a configuration; None when elements do not expire."""
        if config is None or not config.is_enabled():
            return None
        return TtlPolicy(
            to_millis(config.get_ttl()),
            config.get_update_type() is TtlUpdateType.OnReadAndWrite,
            config.get_state_visibility() is TtlVisibility.ReturnExpiredIfNotCleanedUp,
            config.get_ttl_time_characteristic() is TtlTimeScale.EventTime,
        )

    @property
    def scale(self) -> TtlScale:
        """The time domain of the expiries, as the ``meta`` of runs has it."""
        return IN_EVENT_TIME if self.is_in_event_time else IN_PROCESSING_TIME

    def expiry(self, now: int) -> int | None:
        """Return when an element that is written now will expire, in milliseconds.

        None, which is never, while there is no event time to count from, and where that is beyond the end of time: a
        timer at the end of the input finds what it has written.
        """
        expiry = now + self.millis
        return None if now == MIN_WATERMARK or expiry > MAX_WATERMARK else expiry
