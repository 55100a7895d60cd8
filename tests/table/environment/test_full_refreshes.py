"""Materialized tables that are refreshed as a whole: by schedules, and by hand."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from headrace.client import running
from headrace.common.errors import HeadraceError, InvalidProgramError
from headrace.savepoint.requests import JobProcess
from headrace.table import TableEnvironment
from headrace.table.bind import SqlValidationError
from headrace.table.catalog.materialization import Freshness, FreshnessUnit
from headrace.table.catalog.objects import ObjectPath
from headrace.table.environment.refresh_schedule import RefreshSchedule, ScheduledRefresh
from tests.table.connectors.session import rows, run, session
from tests.table.environment.refreshed_tables import described
from tests.waiting import PATIENCE


def files(path: Path, name: str, partitioned: str = "") -> str:
    return f"{partitioned} WITH ('connector' = 'filesystem', 'path' = '{path}/{name}', 'format' = 'json')"


def days(path: Path, **settings: str) -> TableEnvironment:
    """A session with rows of two days."""
    tables = session(
        f"CREATE TABLE sales (ds STRING, amount INT) {files(path, 'sales')}", is_streaming=False, **settings
    )
    run(tables, "INSERT INTO sales VALUES ('2026-03-01', 1), ('2026-03-01', 2), ('2026-03-02', 5)")
    return tables


SUMS = "SELECT SUM(amount) AS total, ds FROM sales GROUP BY ds"


class Clock:
    """A clock that stands."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 2, 23, 59, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The clock of schedules, whose thread does nothing: tests say when tables are refreshed."""
    standing = Clock()
    made = RefreshSchedule.__init__

    def with_clock(self: RefreshSchedule, refresh: Any, clock: Any = standing) -> None:
        made(self, refresh, clock)

    with patch.object(RefreshSchedule, "__init__", with_clock), patch.object(RefreshSchedule, "_run", lambda _: None):
        yield standing


def test_a_table_is_refreshed_as_a_whole_when_it_is_due(tmp_path: Path, clock: Clock) -> None:
    tables = days(tmp_path)
    tables.execute_sql(
        f"CREATE MATERIALIZED TABLE sums {files(tmp_path, 'sums')} FRESHNESS = INTERVAL '1' HOUR AS {SUMS}"
    )
    (tmp_path / "sums").mkdir(exist_ok=True)
    tables.materialized.run_due()
    assert rows(tables, "SELECT * FROM sums") == []
    clock.now += timedelta(minutes=1)
    tables.materialized.run_due()
    assert sorted(rows(tables, "SELECT * FROM sums")) == [(3, "2026-03-01"), (5, "2026-03-02")]
    run(tables, "INSERT INTO sales VALUES ('2026-03-01', 10)")
    tables.execute_sql("ALTER MATERIALIZED TABLE sums SUSPEND")
    clock.now += timedelta(hours=1)
    tables.materialized.run_due()
    assert sorted(rows(tables, "SELECT * FROM sums")) == [(3, "2026-03-01"), (5, "2026-03-02")]
    tables.execute_sql("ALTER MATERIALIZED TABLE sums RESUME")
    clock.now += timedelta(hours=1)
    tables.materialized.run_due()
    assert sorted(rows(tables, "SELECT * FROM sums")) == [(5, "2026-03-02"), (13, "2026-03-01")]
    tables.execute_sql("DROP MATERIALIZED TABLE sums")
    clock.now += timedelta(hours=1)
    tables.materialized.run_due()
    assert tables.list_materialized_tables() == []


def test_the_newest_partition_is_refreshed_and_others_by_hand(tmp_path: Path, clock: Clock) -> None:
    tables = days(tmp_path)
    where = files(tmp_path, "sums", "PARTITIONED BY (ds)").replace(
        "'format'", "'partition.fields.ds.date-formatter' = 'yyyy-MM-dd', 'format'"
    )
    tables.execute_sql(f"CREATE MATERIALIZED TABLE sums {where} FRESHNESS = INTERVAL '1' DAY AS {SUMS}")
    clock.now += timedelta(minutes=1)  # at midnight it is the day before that has come to its end
    tables.materialized.run_due()
    assert rows(tables, "SELECT * FROM sums") == [(5, "2026-03-02")]
    tables.execute_sql("ALTER MATERIALIZED TABLE sums REFRESH PARTITION (ds = '2026-03-01')").wait()
    assert sorted(rows(tables, "SELECT * FROM sums")) == [(3, "2026-03-01"), (5, "2026-03-02")]
    run(tables, "INSERT INTO sales VALUES ('2026-03-01', 10), ('2026-03-02', 10)")
    tables.execute_sql("ALTER MATERIALIZED TABLE sums REFRESH PARTITION (ds = '2026-03-02')").wait()
    assert sorted(rows(tables, "SELECT * FROM sums")) == [(3, "2026-03-01"), (15, "2026-03-02")]
    result = tables.execute_sql("ALTER MATERIALIZED TABLE sums REFRESH")
    result.wait()
    assert sorted(rows(tables, "SELECT * FROM sums")) == [(13, "2026-03-01"), (15, "2026-03-02")]
    with pytest.raises(SqlValidationError, match="'total' is no partition column"):
        tables.execute_sql("ALTER MATERIALIZED TABLE sums REFRESH PARTITION (total = '1')")


def test_scheduled_refreshes_have_the_settings_with_which_they_were_scheduled(tmp_path: Path, clock: Clock) -> None:
    clock.now = datetime(2026, 3, 29, 21, 59, tzinfo=UTC)
    tables = days(tmp_path, **{"table.local-time-zone": "Europe/Berlin"})
    run(tables, "INSERT INTO sales VALUES ('2026-03-28', 6), ('2026-03-29', 7), ('2026-03-30', 8)")
    where = files(tmp_path, "sums", "PARTITIONED BY (ds)").replace(
        "'format'", "'partition.fields.ds.date-formatter' = 'yyyy-MM-dd', 'format'"
    )
    tables.execute_sql(f"CREATE MATERIALIZED TABLE sums {where} FRESHNESS = INTERVAL '1' DAY AS {SUMS}")
    tables.execute_sql("SET 'table.local-time-zone' = 'America/Los_Angeles'")
    tables.execute_sql("SET 'materialized-table.dispatcher' = 'localhost:1'")
    clock.now += timedelta(minutes=1)  # a day of 23 hours has ended
    tables.materialized.run_due()
    assert rows(tables, "SELECT * FROM sums") == [(7, "2026-03-29")]


def test_a_refresh_that_fails_leaves_the_rows_and_is_tried_again(tmp_path: Path, clock: Clock) -> None:
    tables = days(tmp_path)
    quotients = "SELECT 10 / (amount - 7) AS q, ds FROM sales"
    tables.execute_sql(
        f"CREATE MATERIALIZED TABLE quotients {files(tmp_path, 'q')} FRESHNESS = INTERVAL '1' HOUR AS {quotients}"
    )
    clock.now += timedelta(hours=1)
    tables.materialized.run_due()
    before = sorted(rows(tables, "SELECT * FROM quotients"))
    run(tables, "INSERT INTO sales VALUES ('2026-03-03', 7)")
    clock.now += timedelta(hours=1)
    tables.materialized.run_due()
    assert sorted(rows(tables, "SELECT * FROM quotients")) == before
    path = ObjectPath("default_catalog", "default_database", "quotients")
    entry = tables.materialized.entry(path)
    assert entry is not None
    assert "division by zero" in (entry.failure or "")
    tables.execute_sql("ALTER MATERIALIZED TABLE quotients AS SELECT amount AS q, ds FROM sales")
    clock.now += timedelta(hours=1)
    tables.materialized.run_due()
    assert (7, "2026-03-03") in rows(tables, "SELECT * FROM quotients")


def test_a_refresh_by_hand_that_fails_is_listed(tmp_path: Path, clock: Clock) -> None:
    tables = days(tmp_path)
    tables.execute_sql(
        f"CREATE MATERIALIZED TABLE q {files(tmp_path, 'q')} FRESHNESS = INTERVAL '1' HOUR "
        "AS SELECT 10 / (amount - 5) AS q FROM sales"
    )
    failed = tables.execute_sql("ALTER MATERIALIZED TABLE q REFRESH")
    with pytest.raises(HeadraceError):
        failed.wait()
    with tables.execute_sql("CALL sys.materialized_tables()").collect() as found:
        (row,) = found
    assert (row.last_refresh, "division by zero" in row.failure) == (clock.now.replace(tzinfo=None), True)
    tables.execute_sql("ALTER MATERIALIZED TABLE q AS SELECT amount AS q FROM sales")
    tables.execute_sql("ALTER MATERIALIZED TABLE q REFRESH").wait()
    with tables.execute_sql("CALL sys.materialized_tables()").collect() as found:
        assert next(found).failure is None


def kept(path: Path) -> TableEnvironment:
    """A program over tables that are kept: sales and their sums."""
    tables = session(
        f"CREATE CATALOG shop WITH ('type' = 'file', 'path' = '{path}/catalog')", "USE CATALOG shop", is_streaming=False
    )
    tables.execute_sql(f"CREATE TABLE IF NOT EXISTS sales (ds STRING, amount INT) {files(path, 'sales')}")
    return tables


def summed(path: Path) -> str:
    return f"CREATE OR ALTER MATERIALIZED TABLE sums {files(path, 'sums')} FRESHNESS = INTERVAL '1' HOUR AS {SUMS}"


def test_a_program_that_starts_again_goes_on_with_its_schedules(tmp_path: Path, clock: Clock) -> None:
    first = kept(tmp_path)
    first.execute_sql(summed(tmp_path))
    run(first, "INSERT INTO sales VALUES ('2026-03-01', 1)")
    clock.now += timedelta(minutes=1)
    first.materialized.run_due()
    clock.now += timedelta(hours=3, minutes=1)  # the program has ended, and three refreshes are missed
    run(first, "INSERT INTO sales VALUES ('2026-03-01', 2)")
    later = kept(tmp_path)
    assert described(later, "shop.default.sums").is_running is False
    assert rows(later, "CALL sys.resume_refreshes()") == [("shop.default.sums", "FULL", None)]
    assert rows(later, "CALL sys.resume_refreshes()") == []
    later.materialized.run_due()
    assert rows(later, "SELECT total FROM sums") == [(3,)]
    row = described(later, "shop.default.sums")
    assert (row.last_refresh, row.next_refresh) == (datetime(2026, 3, 3, 3), datetime(2026, 3, 3, 4))
    again = kept(tmp_path)  # nothing is missed
    again.execute_sql(summed(tmp_path))
    assert described(again, "shop.default.sums").next_refresh == datetime(2026, 3, 3, 4)


def test_one_program_refreshes_a_table(tmp_path: Path, clock: Clock) -> None:
    first, path = kept(tmp_path), ObjectPath("shop", "default", "sums")
    first.execute_sql(summed(tmp_path))
    other = JobProcess.of(os.getppid())
    with patch.object(JobProcess, "present", lambda: other):
        second = kept(tmp_path)
        assert described(second, "shop.default.sums").is_running is True
        with pytest.raises(InvalidProgramError, match=f"being refreshed already, by process {os.getpid()} of machine"):
            second.execute_sql("ALTER MATERIALIZED TABLE sums RESUME")
        second.execute_sql(summed(tmp_path))
        assert (rows(second, "CALL sys.resume_refreshes()"), second.materialized.entry(path)) == ([], None)
        second.execute_sql("ALTER MATERIALIZED TABLE sums SUSPEND")
        second.execute_sql("ALTER MATERIALIZED TABLE sums RESUME")
        assert second.materialized.entry(path) is not None
    clock.now += timedelta(hours=1)
    first.materialized.run_due()
    assert first.materialized.entry(path) is None
    assert not (tmp_path / "sums").exists()


def test_the_thread_of_a_schedule_refreshes_and_ends() -> None:
    refreshed: list[ObjectPath] = []
    path, now = ObjectPath("c", "d", "t"), [datetime(2026, 1, 1, 0, 0, 0, tzinfo=UTC)]

    def refresh(found: ObjectPath, entry: ScheduledRefresh) -> None:
        refreshed.append(found)
        schedule.remove(found)

    def clock() -> datetime:
        now[0] += timedelta(seconds=1)
        return now[0]

    schedule = RefreshSchedule(refresh, clock)
    schedule.put(path, Freshness(1, FreshnessUnit.SECOND), session())
    schedule.wait()
    assert (refreshed, schedule.entry(path)) == ([path], None)


def test_a_signal_ends_schedules_that_sleep_and_that_refresh() -> None:
    tables, refreshed = session(), list[ObjectPath]()
    has_begun, may_end = threading.Event(), threading.Event()
    path, every, now = ObjectPath("c", "d", "t"), Freshness(1, FreshnessUnit.SECOND), [datetime(2026, 1, 1, tzinfo=UTC)]

    def refresh(found: ObjectPath, entry: ScheduledRefresh) -> None:
        refreshed.append(found)
        has_begun.set()
        assert may_end.wait(PATIENCE)
        busy.put(path, every, tables)  # as where another session has changed the table

    def clock() -> datetime:
        now[0] += timedelta(seconds=1)
        return now[0]

    busy, asleep = RefreshSchedule(refresh, clock), RefreshSchedule(refresh, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    asleep.put(path, every, tables)
    busy.put(path, every, tables)
    assert has_begun.wait(PATIENCE)
    running.end_all(1, "send it again", lambda text: None)
    asleep.wait()
    may_end.set()
    busy.wait()
    assert (refreshed, busy.entry(path), asleep.entry(path)) == ([path], None, None)


@pytest.mark.parametrize(
    ("amount", "unit", "zone", "now", "due"),
    [
        (15, FreshnessUnit.SECOND, "UTC", "2026-03-01T10:00:44+00:00", "2026-03-01T10:00:45+00:00"),
        (15, FreshnessUnit.SECOND, "UTC", "2026-03-01T10:00:45+00:00", "2026-03-01T10:01:00+00:00"),
        (20, FreshnessUnit.MINUTE, "UTC", "2026-03-01T10:41:00+00:00", "2026-03-01T11:00:00+00:00"),
        (6, FreshnessUnit.HOUR, "Asia/Kolkata", "2026-03-01T10:00:00+00:00", "2026-03-01T12:30:00+00:00"),
        (1, FreshnessUnit.DAY, "Europe/Berlin", "2026-03-28T23:00:00+00:00", "2026-03-29T22:00:00+00:00"),
        (1, FreshnessUnit.HOUR, "Europe/Berlin", "2026-10-25T00:30:00+00:00", "2026-10-25T01:00:00+00:00"),
        (5, FreshnessUnit.MINUTE, "Europe/Berlin", "2026-10-25T00:55:00+00:00", "2026-10-25T01:00:00+00:00"),
        (5, FreshnessUnit.MINUTE, "Europe/Berlin", "2026-10-25T01:02:03+00:00", "2026-10-25T01:05:00+00:00"),
        (2, FreshnessUnit.HOUR, "Europe/Berlin", "2026-03-28T23:30:00+00:00", "2026-03-29T01:00:00+00:00"),
        (1, FreshnessUnit.HOUR, "Australia/Lord_Howe", "2026-04-04T14:10:00+00:00", "2026-04-04T15:30:00+00:00"),
        (1, FreshnessUnit.HOUR, "GMT+05:07", "2026-03-01T10:00:00+00:00", "2026-03-01T10:53:00+00:00"),
        (1, FreshnessUnit.DAY, "America/Santiago", "2026-09-05T12:00:00+00:00", "2026-09-06T04:00:00+00:00"),
        (1, FreshnessUnit.DAY, "America/Havana", "2026-11-01T04:00:00+00:00", "2026-11-02T05:00:00+00:00"),
    ],
)
def test_schedules_follow_the_clock_of_the_session(
    amount: int, unit: FreshnessUnit, zone: str, now: str, due: str
) -> None:
    freshness, began, following = Freshness(amount, unit), datetime.fromisoformat(now), datetime.fromisoformat(due)
    assert freshness.next_after(began, zone) == following
    assert freshness.last_until(following, zone) == following
    last = freshness.last_until(following - timedelta(seconds=1), zone)
    assert last <= began
    assert freshness.next_after(last, zone) == following
