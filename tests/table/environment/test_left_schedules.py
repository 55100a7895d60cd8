"""Schedules of full refreshes that programs leave to a dispatcher."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from headrace.common import server_options as options
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.savepoint.requests import JobProcess
from headrace.table import EnvironmentSettings, TableEnvironment
from headrace.table.catalog.objects import CatalogTable, ObjectPath
from headrace.table.environment import refresh_schedule
from headrace.table.environment.dispatched_jobs import StatementDispatcher
from headrace.table.environment.dispatcher_schedules import DispatcherSchedules
from tests.table.connectors.session import rows, run
from tests.table.environment.refreshed_tables import described
from tests.table.environment.test_full_refreshes import SUMS, Clock, clock, files
from tests.table.environment.test_materialized_tables import FakeDispatcher

__all__ = ["clock"]

SUMS_AT = ObjectPath("shop", "default", "sums")


class Cluster:
    """Dispatchers on one storage, of which one leads.

    Args:
        path: where everything is.
    """

    def __init__(self, path: Path) -> None:
        self.store, self.storage, self.leader = path / "store", path / "storage", "one"

    def dispatcher(self, name: str) -> DispatcherSchedules:
        """One of them, in a process of its own as far as the catalog knows."""
        settings = {
            options.CLUSTER_CATALOG_STORE.key: str(self.store),
            options.CLUSTER_DIR.key: str(self.storage),
        }
        configuration = Configuration.from_dict({**settings, "table.local-time-zone": "Asia/Kathmandu"})
        return DispatcherSchedules(configuration, "host:8081", lambda: self.leader == name)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.fixture
def jobs() -> Iterator[FakeDispatcher]:
    """The jobs that the dispatcher is asked to run; each has finished at once."""
    asked = FakeDispatcher()

    def submitted(self: StatementDispatcher, environment: Any, relation: Any, statement: str) -> str:
        asked.asked.append((environment.get_config().get_local_timezone(), statement))
        return "j1"

    with (
        patch.object(StatementDispatcher, "submit", submitted),
        patch.object(StatementDispatcher, "is_running", lambda *_: False),
        patch.object(StatementDispatcher, "failure", lambda *_: None),
    ):
        yield asked


def program(cluster: Cluster, **settings: str) -> TableEnvironment:
    """A session that leaves its schedules to the dispatcher."""
    store = {"table.catalog-store.kind": "file", "table.catalog-store.file.path": str(cluster.store)}
    left = {"materialized-table.dispatcher": "host:8081", "materialized-table.scheduler": "dispatcher"}
    path = cluster.store.parent
    of_jobs = {"headrace.runtime": "local", "parallelism.default": "1", "s3.secret-key": "hidden"}
    configuration = Configuration.from_dict(store | left | of_jobs | settings)
    tables = TableEnvironment.create(EnvironmentSettings(is_streaming=False, configuration=configuration))
    tables.execute_sql(f"CREATE CATALOG IF NOT EXISTS shop WITH ('type' = 'file', 'path' = '{path}/catalog')")
    tables.execute_sql("USE CATALOG shop")
    tables.execute_sql(f"CREATE TABLE IF NOT EXISTS sales (ds STRING, amount INT) {files(path, 'sales')}")
    return tables


@contextmanager
def looks(*dispatchers: DispatcherSchedules) -> Iterator[None]:
    """Dispatchers look for schedules whenever a program asks whether one has taken its own."""
    is_taken = refresh_schedule._is_taken

    def looked(table: object) -> bool:
        for each in dispatchers:
            each.look()
        return is_taken(table)

    with patch.object(refresh_schedule, "_is_taken", looked):
        yield


def create(tables: TableEnvironment, path: Path, *looking: DispatcherSchedules) -> None:
    """Create the table, while dispatchers look."""
    with looks(*looking):
        tables.execute_sql(
            f"CREATE MATERIALIZED TABLE sums {files(path, 'sums')} FRESHNESS = INTERVAL '1' HOUR AS {SUMS}"
        )


def handler(tables: TableEnvironment) -> Any:
    table = tables.catalogs.permanent_table(SUMS_AT)
    assert isinstance(table, CatalogTable)
    assert table.materialization is not None
    return table.materialization.handler


def run_due(dispatcher: DispatcherSchedules) -> None:
    dispatcher._tables.materialized.run_due()


def test_a_dispatcher_has_the_schedules_that_programs_leave(
    tmp_path: Path, clock: Clock, cluster: Cluster, jobs: FakeDispatcher
) -> None:
    one, tables = cluster.dispatcher("one"), program(cluster, **{"table.local-time-zone": "Asia/Kolkata"})
    create(tables, tmp_path, one)
    assert dict(handler(tables).settings)["table.local-time-zone"] == "Asia/Kolkata"
    row = described(tables, "shop.default.sums")
    assert (row.last_refresh, row.next_refresh) == (None, datetime(2026, 3, 3, 0, 30))
    assert "hidden" not in str(handler(tables))
    assert handler(tables).cluster == str(cluster.storage)
    assert tables.scheduled_refresh(SUMS_AT) is None  # the program can end
    tables.keep_refreshing()
    clock.now += timedelta(minutes=31)  # half an hour past the hour of UTC, in India it is the hour
    run_due(one)
    ((zone, statement),) = jobs.asked
    assert (zone, statement.startswith("INSERT OVERWRITE `shop`.`default`.`sums`")) == ("Asia/Kolkata", True)
    with patch.object(JobProcess, "present", lambda: JobProcess.of(os.getppid())):  # a program of another process
        row = described(tables, "shop.default.sums")
    assert (row.is_running, row.last_refresh) == (True, datetime(2026, 3, 3, 0, 30))
    assert row.next_refresh == datetime(2026, 3, 3, 1, 30)
    tables.execute_sql("ALTER MATERIALIZED TABLE sums SUSPEND")
    clock.now += timedelta(hours=1)
    one.look()
    run_due(one)
    assert len(jobs.asked) == 1
    with looks(one):
        program(cluster).execute_sql("ALTER MATERIALIZED TABLE sums RESUME")  # in UTC
    clock.now += timedelta(minutes=30)
    run_due(one)
    assert [zone for zone, _ in jobs.asked] == ["Asia/Kolkata", "UTC"]
    with patch.object(JobProcess, "present", lambda: JobProcess.of(os.getppid())):  # a program of another process
        program(cluster).execute_sql("ALTER MATERIALIZED TABLE sums SET FRESHNESS = INTERVAL '2' HOUR")
    one.look()
    entry = one._tables.materialized.entry(SUMS_AT)
    assert entry is not None
    assert entry.freshness.amount == 2
    tables.execute_sql("DROP MATERIALIZED TABLE sums")
    clock.now += timedelta(hours=3)
    run_due(one)
    assert len(jobs.asked) == 2


def test_the_dispatcher_that_leads_takes_over_and_makes_up_for_what_was_missed(
    tmp_path: Path, clock: Clock, cluster: Cluster, jobs: FakeDispatcher
) -> None:
    one, two = cluster.dispatcher("one"), cluster.dispatcher("two")
    tables = program(cluster)
    create(tables, tmp_path, two, one)  # the one that stands by takes nothing
    first = handler(tables).process
    other = JobProcess.of(os.getppid())
    cluster.leader = "two"
    clock.now += timedelta(hours=3)
    with patch.object(JobProcess, "present", lambda: other):
        two.look()
        run_due(two)
        assert [handler(tables).process == each for each in (first, other)] == [False, True]
        assert (len(jobs.asked), handler(tables).refreshed) == (1, "2026-03-03T02:00:00+00:00")
    one.look()
    clock.now += timedelta(hours=1)
    run_due(one)  # leads no more
    assert len(jobs.asked) == 1


def test_what_programs_have_is_theirs_until_they_have_ended(
    tmp_path: Path, clock: Clock, cluster: Cluster, jobs: FakeDispatcher
) -> None:
    one, alive, gone = cluster.dispatcher("one"), JobProcess.of(os.getppid()), JobProcess("here", 1, "long ago")
    with patch.object(JobProcess, "present", lambda: alive):
        create(program(cluster, **{"materialized-table.scheduler": "program"}), tmp_path)
    one.look()
    assert one._tables.materialized.entry(SUMS_AT) is None
    (tmp_path / "catalog" / "default" / "tables" / "broken.json").write_text("{")
    with patch.object(JobProcess, "is_gone", property(lambda self: self == alive)):
        one.look()
    assert one._tables.materialized.entry(SUMS_AT) is not None
    assert handler(program(cluster)).process not in (alive, gone)
    with patch.object(JobProcess, "present", lambda: alive):
        assert described(program(cluster), "shop.default.sums").is_running


def test_nobody_who_takes_a_schedule_is_told(tmp_path: Path, cluster: Cluster) -> None:
    tables = program(cluster)
    with (
        patch.object(refresh_schedule, "_TAKEN_SECONDS", 0.0),
        pytest.raises(ConfigurationError, match="no dispatcher has adopted the schedule of materialized table shop"),
    ):
        create(tables, tmp_path)
    assert tables.list_materialized_tables() == []
    tables.execute_sql("RESET 'materialized-table.dispatcher'")
    with pytest.raises(ConfigurationError, match=r"none is named: SET 'materialized-table\.dispatcher'"):
        create(tables, tmp_path)
    tables.execute_sql("SET 'materialized-table.dispatcher' = 'host:8081'")
    tables.execute_sql("USE CATALOG default_catalog")
    tables.execute_sql(f"CREATE TABLE sales (ds STRING, amount INT) {files(tmp_path, 'sales')}")
    with pytest.raises(ConfigurationError, match="exists in this program alone"):
        create(tables, tmp_path)
    run(tables, "INSERT INTO shop.`default`.sales VALUES ('a', 1)")
    assert rows(tables, "SELECT amount FROM shop.`default`.sales") == [(1,)]


def test_catalogs_come_and_go(tmp_path: Path, clock: Clock, cluster: Cluster, jobs: FakeDispatcher) -> None:
    one = cluster.dispatcher("one")
    one.look()
    assert list(one._tables.catalogs.descriptions) == []
    tables = program(cluster)
    create(tables, tmp_path, one)
    assert list(one._tables.catalogs.descriptions) == ["shop"]
    tables.execute_sql("USE CATALOG default_catalog")
    tables.execute_sql("DROP CATALOG shop")
    one.look()
    clock.now += timedelta(hours=1)
    run_due(one)
    assert jobs.asked == []
    assert datetime.fromisoformat("2026-03-03T00:59:00+00:00") == clock.now


def test_a_damaged_catalog_is_reported_once_and_others_are_adopted(
    tmp_path: Path, clock: Clock, cluster: Cluster, jobs: FakeDispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.store.mkdir()
    (cluster.store / "odd.json").write_text("{")
    one, ends = cluster.dispatcher("one"), iter([False, False, True])
    with patch.object(one._ends, "wait", lambda _: next(ends)):
        one._run()
    (told,) = caplog.messages
    assert told.startswith("catalog 'odd' is left out of the schedules of materialized tables: ")
    assert "odd.json is damaged" in told
    (cluster.store / "odd.json").rename(tmp_path / "odd.json")
    tables = program(cluster)
    (tmp_path / "odd.json").rename(cluster.store / "odd.json")
    create(tables, tmp_path, one)
    (cluster.store / "shop.json").write_text("{")
    one.look()
    clock.now += timedelta(hours=1)
    run_due(one)
    assert len(jobs.asked) == 1, "a catalog that was open stays so"


def test_the_storage_of_a_cluster_may_be_spelt_in_several_ways(
    tmp_path: Path, clock: Clock, cluster: Cluster, jobs: FakeDispatcher
) -> None:
    one = cluster.dispatcher("one")
    create(program(cluster), tmp_path, one)
    spelt: Any = f"file://{cluster.storage}/"
    cluster.storage = spelt
    other = cluster.dispatcher("one")
    with patch.object(JobProcess, "present", lambda: JobProcess.of(os.getppid())):
        other.look()
    assert other._taken == {SUMS_AT}
