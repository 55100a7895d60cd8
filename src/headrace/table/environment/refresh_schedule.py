"""The schedule of full refreshes: which materialized tables are refreshed when, and the thread that does it.

A program may leave it to a dispatcher. Both meet in the catalog: the program writes its table there without a process
that has the schedule, and waits until the dispatcher, which looks for such tables, has written itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headrace.client import running
from headrace.common.configuration import Configuration, is_secret_key
from headrace.common.errors import ConfigurationError
from headrace.common.logs import get_logger
from headrace.common.masking import masked
from headrace.table.catalog.materialization import Freshness, RefreshHandler
from headrace.table.catalog.objects import ObjectPath
from headrace.table.options import CATALOG_STORE_PATH, DISPATCHER, LOCAL_TIME_ZONE, SCHEDULER

if TYPE_CHECKING:
    from headrace.table.environment.session import TableSession

logger = get_logger(__name__)

Refresh = Callable[[ObjectPath, "ScheduledRefresh"], None]
"""Refreshes a table as of the time at which it is due."""

_LONGEST_SLEEP: Final = 60.0
"""The clock of the machine may be set; so it is looked at again after this many seconds."""

_OF_DISPATCHER: Final = ("rest.", "security.ssl.", "table.catalog-store.", "sql-client.", DISPATCHER.key, SCHEDULER.key)
"""The beginnings of the keys that the dispatcher sets itself."""

_TAKEN_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class ScheduledRefresh:
    """The schedule of one table.

    Attributes:
        freshness: how often it is refreshed.
        session: the settings of its jobs, and the time zone whose clock says when they start.
        due: when it is refreshed next.
        last: the time of the refresh before; None for none.
        failure: why that failed; None where it did not.
    """

    freshness: Freshness
    session: TableSession
    due: datetime
    last: datetime | None = None
    failure: str | None = None

    @property
    def zone(self) -> str:
        """The time zone of the session."""
        return self.session.get_config().get_local_timezone()

    def after(self, now: datetime, failure: str | None) -> ScheduledRefresh:
        """The schedule behind a refresh; times that have passed meanwhile are left out."""
        following = self.freshness.next_after(max(now, self.due), self.zone)
        return replace(self, due=following, last=self.due, failure=failure)


class RefreshSchedule:
    """Refreshes tables when they are due, one after the other, on a thread that lives as long as there are any.

    A refresh that fails is logged, and tried again at the next scheduled time. Ctrl-C or SIGTERM, which end the jobs of
    the process, end the schedule.

    Args:
        refresh: refreshes a table, and returns when that is done.
        clock: returns the time.
    """

    def __init__(self, refresh: Refresh, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._refresh, self._clock = refresh, clock
        self._entries: dict[ObjectPath, ScheduledRefresh] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._has_ended = False

    def put(
        self, path: ObjectPath, freshness: Freshness, session: TableSession, refreshed: datetime | None = None
    ) -> None:
        """Schedule a table under the present settings of a session, in place of the schedule that it had.

        Nothing is scheduled any more where all schedules have ended.

        Args:
            path: the table.
            freshness: how often it is refreshed.
            session: its settings.
            refreshed: the time up to which refreshes have been made. Where some have been missed since, the table is
                due at once, as of the last of them.
        """
        kept, now = session.with_settings({}), self._clock()
        zone = kept.get_config().get_local_timezone()
        missed = None if refreshed is None else freshness.last_until(now, zone)
        is_missed = missed is not None and refreshed is not None and missed > refreshed
        due = missed if missed is not None and is_missed else freshness.next_after(now, zone)
        with self._changed:
            if self._has_ended:
                return
            self._entries[path] = ScheduledRefresh(freshness, kept, due)
            self._changed.notify()
            if self._thread is None:
                running.register_schedule(self.end)
                self._thread = threading.Thread(target=self._run, name="headrace-refresh", daemon=True)
                self._thread.start()

    def now(self) -> datetime:
        """The time."""
        return self._clock()

    def remove(self, path: ObjectPath) -> None:
        """Refresh a table no more."""
        with self._changed:
            self._entries.pop(path, None)
            self._changed.notify()

    def end(self) -> None:
        """Refresh no table any more, as the process ends; a refresh that runs is not waited for."""
        with self._changed:
            self._has_ended = True
            self._entries.clear()
            self._changed.notify()

    def entry(self, path: ObjectPath) -> ScheduledRefresh | None:
        """The schedule of a table; None where it has none."""
        with self._changed:
            return self._entries.get(path)

    def wait(self) -> None:
        """Wait until no table is refreshed any more."""
        while (thread := self._thread) is not None:
            thread.join(_LONGEST_SLEEP)

    def run_due(self) -> None:
        """Refresh the tables that are due, the one that has waited longest first."""
        while (found := self._next()) is not None and found[1].due <= self._clock():
            path, entry = found
            failure = self._failure_of(path, entry)
            with self._changed:
                if self._entries.get(path) is entry:
                    self._entries[path] = entry.after(self._clock(), failure)

    def _failure_of(self, path: ObjectPath, entry: ScheduledRefresh) -> str | None:
        try:
            self._refresh(path, entry)
        except Exception as error:  # of the user's query, of a connector: the next refresh may succeed
            logger.exception("materialized table %s could not be refreshed; it is tried again when it is due", path)
            return str(error)
        return None

    def _next(self) -> tuple[ObjectPath, ScheduledRefresh] | None:
        with self._changed:
            return min(self._entries.items(), key=lambda each: (each[1].due, each[0]), default=None)

    def _run(self) -> None:
        while True:
            self.run_due()
            with self._changed:
                if not self._entries:
                    self._thread = None
                    running.unregister_schedule(self.end)
                    return
                due = min(entry.due for entry in self._entries.values())
                seconds = (due - self._clock()).total_seconds()
                if seconds > 0:
                    self._changed.wait(min(seconds, _LONGEST_SLEEP))


# --- left to a dispatcher ---------------------------------------------------------------------------------------------


def leaves_to_dispatcher(tables: TableSession) -> bool:
    """Return whether a session leaves its schedules to the dispatcher."""
    return Configuration.from_dict(tables.session_settings()).get(SCHEDULER) == "dispatcher"


def left_to_dispatcher(handler: RefreshHandler, path: ObjectPath, tables: TableSession) -> RefreshHandler:
    """The handler of a table whose schedule is free, until the dispatcher of the session adopts it.

    Raises:
        ConfigurationError: when the session names no dispatcher, or the catalog ends with the session.
    """
    settings = tables.session_settings()
    address = Configuration.from_dict(settings).get(DISPATCHER)
    if address is None:
        raise ConfigurationError(
            f"{SCHEDULER.key} is dispatcher, and none is named: SET '{DISPATCHER.key}' = 'HOST:PORT'"
        )
    if not tables.catalogs.catalogs[path.catalog].outlasts_session:
        raise ConfigurationError(
            f"materialized table {path} exists in this program alone, and the dispatcher would not find it: create it "
            "in a catalog that outlasts the program (CREATE CATALOG ... WITH ('type' = 'file', ...))"
        )
    settings[LOCAL_TIME_ZONE.key] = tables.get_config().get_local_timezone()  # that of the dispatcher may be another
    kept = tuple(sorted((key, str(value)) for key, value in settings.items() if _is_kept(key, str(value))))
    return replace(handler, process=None, cluster="", dispatcher=address, settings=kept)


def _is_kept(key: str, value: str) -> bool:
    return not key.startswith(_OF_DISPATCHER) and not is_secret_key(key) and masked(key, value) == value


def wait_until_taken(path: ObjectPath, tables: TableSession) -> None:
    """Wait until a dispatcher has adopted the schedule of a table.

    Raises:
        ConfigurationError: when none does.
    """
    until = time.monotonic() + _TAKEN_SECONDS
    while not _is_taken(tables.catalogs.permanent_table(path)):
        if time.monotonic() >= until:
            raise ConfigurationError(
                f"no dispatcher has adopted the schedule of materialized table {path} within {_TAKEN_SECONDS:g} s: "
                f"start one that looks where catalog {path.catalog!r} is, headrace cluster start --catalog-store DIR, "
                f"where DIR is the {CATALOG_STORE_PATH.key} of this session; or set {SCHEDULER.key} to 'program'"
            )
        time.sleep(_POLL_SECONDS)


def _is_taken(table: object) -> bool:
    found = getattr(table, "materialization", None)
    return found is not None and found.handler.process is not None
