"""The definition of a materialized table: its query, its freshness, and the refreshes that maintain it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from headrace.savepoint.requests import JobProcess
from headrace.table.connectors.table_source import StartPosition
from headrace.table.functions.kernels.calendar import last_day
from headrace.table.functions.kernels.zones import zone_of
from headrace.table.options import LOCAL_TIME_ZONE
from headrace.table.parse.tree.definitions import RefreshMode, StartModeKind

PARTITION_FIELDS: Final = "partition.fields."
DATE_FORMATTER: Final = ".date-formatter"


class RefreshStatus(Enum):
    """The status of the refreshes of a materialized table, by Flink's names."""

    ACTIVATED = "ACTIVATED"
    SUSPENDED = "SUSPENDED"


class FreshnessUnit(Enum):
    """The units of freshness; the value is the number of milliseconds."""

    SECOND = 1_000
    MINUTE = 60_000
    HOUR = 3_600_000
    DAY = 86_400_000

    @property
    def cycle(self) -> int:
        """The number of units after which a schedule begins anew."""
        return _CYCLES[self]


_CYCLES: Final = {FreshnessUnit.SECOND: 60, FreshnessUnit.MINUTE: 60, FreshnessUnit.HOUR: 24, FreshnessUnit.DAY: 1}
_CRONS: Final = {
    FreshnessUnit.SECOND: "0/{} * * * * ? *",
    FreshnessUnit.MINUTE: "0 0/{} * * * ? *",
    FreshnessUnit.HOUR: "0 0 0/{} * * ? *",
    FreshnessUnit.DAY: "0 0 0 * * ? *",
}
_ZERO: Final = datetime(1, 1, 1)
_QUARTER: Final = timedelta(minutes=15)
"""Offsets from UTC change by multiples of it, at multiples of it."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """``FRESHNESS = INTERVAL 'amount' unit``: how far a table may be behind its sources."""

    amount: int
    unit: FreshnessUnit

    @staticmethod
    def of_milliseconds(duration: int) -> "Freshness":
        """The freshness of a setting, in the largest unit of which it is a whole number."""
        units = sorted(FreshnessUnit, key=lambda each: -each.value)
        unit = next((each for each in units if duration % each.value == 0), FreshnessUnit.SECOND)
        return Freshness(max(duration // unit.value, 1), unit)

    @property
    def milliseconds(self) -> int:
        """Its length."""
        return self.amount * self.unit.value

    @property
    def cron(self) -> str:
        """The schedule of full refreshes, as Flink writes it."""
        return _CRONS[self.unit].format(self.amount)

    @property
    def reason_against_schedule(self) -> str | None:
        """The reason why it makes no schedule of full refreshes; None where it makes one."""
        cycle, name = self.unit.cycle, self.unit.name
        if self.unit is FreshnessUnit.DAY:
            return None if self.amount == 1 else "in full refresh mode, freshness in days is 1 DAY"
        if self.amount >= cycle:
            return f"in full refresh mode, freshness is less than {cycle} {name}"
        if cycle % self.amount:
            return f"in full refresh mode, freshness is a part of {cycle} {name}: {self.amount} does not divide it"
        return None

    def next_after(self, moment: datetime, zone: str) -> datetime:
        """The time of the first scheduled refresh after a moment: the clock of a time zone comes to a multiple of it.

        Where the clock is put forward over a multiple, the refresh is due at once. Where it is put back, what it shows
        again is scheduled again; but a day begins once.
        """
        found, step = moment.astimezone(UTC), min(timedelta(milliseconds=self.unit.value), _QUARTER)
        found -= (_local_time(found, zone) - _ZERO) % step
        while True:
            before, found = found, found + step
            if self._is_scheduled(_local_time(before, zone), _local_time(found, zone)):
                return found

    def last_until(self, moment: datetime, zone: str) -> datetime:
        """The time of the last scheduled refresh up to a moment; see :meth:`next_after`."""
        step = min(timedelta(milliseconds=self.unit.value), _QUARTER)
        found = moment.astimezone(UTC)
        found -= (_local_time(found, zone) - _ZERO) % step
        while not self._is_scheduled(_local_time(found - step, zone), _local_time(found, zone)):
            found -= step
        return found

    def _is_scheduled(self, before: datetime, shown: datetime) -> bool:
        """Return whether a clock that has shown one time comes to a multiple with another, or over it."""
        length = timedelta(milliseconds=self.milliseconds)
        number, rest = divmod(shown - _ZERO, length)
        return number > (before - _ZERO) // length or (not rest and self.unit is not FreshnessUnit.DAY)

    def before(self, due: datetime, zone: str) -> datetime:
        """The time a freshness before a scheduled refresh; a day is one of the clock, which may have 23 or 25 hours."""
        if self.unit is FreshnessUnit.DAY:
            return due.astimezone(zone_of(zone)) - timedelta(days=self.amount)
        return due - timedelta(milliseconds=self.milliseconds)

    def __str__(self) -> str:
        return f"INTERVAL '{self.amount}' {self.unit.name}"


def _local_time(moment: datetime, zone: str) -> datetime:
    """The time on the clock of a zone."""
    return moment.astimezone(zone_of(zone)).replace(tzinfo=None)


_TIMELESS: Final = frozenset({StartModeKind.FROM_BEGINNING, StartModeKind.RESUME_OR_FROM_BEGINNING})
_RESUMING: Final = frozenset(
    {
        StartModeKind.RESUME_OR_FROM_BEGINNING,
        StartModeKind.RESUME_OR_FROM_NOW,
        StartModeKind.RESUME_OR_FROM_TIMESTAMP,
    }
)


@dataclass(frozen=True, slots=True)
class StartMode:
    """``START_MODE``: from where sources are read when the streaming job begins without state.

    Attributes:
        kind: as it is written.
        argument: the interval or the time, as ``SHOW CREATE`` writes it; empty for none.
        months: how many months of the calendar before the present.
        milliseconds: how much more before the present; or the time itself, since 1970.
    """

    kind: StartModeKind = StartModeKind.FROM_BEGINNING
    argument: str = ""
    months: int = 0
    milliseconds: int = 0

    @property
    def is_timeless(self) -> bool:
        """Return whether sources begin where they say themselves."""
        return self.kind in _TIMELESS

    @property
    def resumes(self) -> bool:
        """Return whether sources go on where the job before has come to, as far as that has read them."""
        return self.kind in _RESUMING

    def position(self, now: datetime, zone: str) -> StartPosition | None:
        """The position of sources that do not go on; None where they begin where they say themselves.

        Args:
            now: the present.
            zone: the time zone by whose calendar months are counted.
        """
        if self.is_timeless:
            return None
        if self.kind in (StartModeKind.FROM_TIMESTAMP, StartModeKind.RESUME_OR_FROM_TIMESTAMP):
            return StartPosition(max(0, self.milliseconds))
        begin = _months_before(now.astimezone(zone_of(zone)), self.months) if self.months else now
        since = round(begin.timestamp() * 1000) - self.milliseconds
        return StartPosition(max(0, since), is_now=not self.argument)

    def __str__(self) -> str:
        return f"{self.kind.value}({self.argument})" if self.argument else self.kind.value


def _months_before(moment: datetime, months: int) -> datetime:
    """The same time of the same day of an earlier month, or of the last day where that month is shorter."""
    year, month = divmod(max(12, moment.year * 12 + moment.month - 1 - months), 12)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last_day(year, month + 1)))


@dataclass(frozen=True, slots=True)
class RefreshHandler:
    """The refresh handler of a materialized table, as the catalog stores it.

    Attributes:
        job_id: the id of the streaming job; empty where none has been started, and for full refreshes.
        directory: the checkpoint directory of the streaming job; empty where it has none.
        savepoint: the savepoint, or the checkpoint directory of the job before, from which the job begins where nothing
            is in its directory yet; empty for none.
        dispatcher: the address of the dispatcher that runs the jobs; empty for the program itself.
        former: the checkpoint directories of the streaming jobs before.
        process: the process with the schedule of full refreshes; None where none has it.
        refreshed: the time up to which scheduled refreshes have been made, as ISO 8601 writes it: that of the last one,
            or when the schedule began. Empty where it is not known.
        takes_positions: whether the job takes of the savepoint only how far sources have been read.
        begins: the position of sources that the savepoint does not have, as text; empty for where they say themselves.
        cluster: the storage of the dispatchers of which one has the schedule; empty where a program has it.
        settings: those of the session that has left the schedule to a dispatcher, without secrets.
    """

    job_id: str = ""
    directory: str = ""
    savepoint: str = ""
    dispatcher: str = ""
    former: tuple[str, ...] = ()
    process: JobProcess | None = None
    refreshed: str = ""
    takes_positions: bool = False
    begins: str = ""
    cluster: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def directories(self) -> tuple[str, ...]:
        """All checkpoint directories of its streaming jobs."""
        return (*self.former, self.directory) if self.directory else self.former

    @property
    def refreshed_at(self) -> datetime | None:
        """The time up to which scheduled refreshes have been made; None where it is not known."""
        return datetime.fromisoformat(self.refreshed) if self.refreshed else None

    @property
    def scheduled_elsewhere(self) -> JobProcess | None:
        """Another process that has the schedule, and is not known to have ended; None where there is none."""
        process = self.process
        return None if process is None or process == JobProcess.present() or process.is_gone else process


@dataclass(frozen=True, slots=True)
class Materialization:
    """The definition of a materialized table, beside its columns and options, and the state of its refresh.

    Attributes:
        query: its expanded text, with full and quoted names.
        original: its text as written.
        columns: the columns of the table that it gives, in its order.
        freshness: how far the table may be behind its sources.
        mode: how it is refreshed.
        status: whether it is.
        handler: what does it.
        start: from where sources are read when a streaming job begins without state.
    """

    query: str
    original: str
    columns: tuple[str, ...]
    freshness: Freshness
    mode: RefreshMode
    status: RefreshStatus = RefreshStatus.ACTIVATED
    handler: RefreshHandler = field(default_factory=RefreshHandler)
    start: StartMode = field(default_factory=StartMode)

    @property
    def is_scheduled(self) -> bool:
        """Return whether the table is refreshed as a whole when it is due."""
        return self.mode is RefreshMode.FULL and self.status is RefreshStatus.ACTIVATED

    def times_of_dispatcher(self) -> tuple[datetime | None, datetime | None]:
        """The times of the last and of the next refresh, where a dispatcher has the schedule; None where unknown."""
        reached = self.handler.refreshed_at
        if reached is None:
            return None, None
        zone = dict(self.handler.settings).get(LOCAL_TIME_ZONE.key, LOCAL_TIME_ZONE.default)
        # A schedule that has just begun has come to a moment at which nothing was due
        is_due_time = self.freshness.last_until(reached, zone) == reached
        return (reached if is_due_time else None), self.freshness.next_after(reached, zone)


def partition_formatters(options: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The patterns of partition columns that are times, by column: ``partition.fields.<column>.date-formatter``."""
    return {
        key.removeprefix(PARTITION_FIELDS).removesuffix(DATE_FORMATTER): value
        for key, value in options
        if is_of_partitions(key)
    }


def is_of_partitions(key: str) -> bool:
    """Return whether an option is of a materialized table, and not of its connector."""
    return key.startswith(PARTITION_FIELDS) and key.endswith(DATE_FORMATTER)
