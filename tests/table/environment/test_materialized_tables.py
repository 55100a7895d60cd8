"""Materialized tables: what keeps them up to date, through suspension, changes and crashes."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from headrace.client import running
from headrace.common.errors import ConfigurationError, HeadraceError, InvalidProgramError
from headrace.log import Log
from headrace.savepoint.requests import JobProcess
from headrace.server.client import RestClientError
from headrace.table import TableEnvironment
from headrace.table.bind import SqlValidationError
from headrace.table.catalog.materialization import Freshness, FreshnessUnit, RefreshHandler
from headrace.table.catalog.objects import ObjectPath
from headrace.table.ddl.file_catalog import FileCatalog
from headrace.table.environment.continuous_refresh import ContinuousRefresh
from headrace.table.environment.dispatched_jobs import StatementDispatcher
from headrace.table.environment.refresh_schedule import RefreshSchedule, ScheduledRefresh
from headrace.table.logical.errors import PlanningError
from tests.table.connectors.session import rows, run, session

PATIENCE = 180.0


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def no_jobs() -> Iterator[None]:
    yield
    kill_jobs()


def kill_jobs() -> None:
    """End the jobs of this process, as its death would."""
    for job in running.jobs():
        with contextlib.suppress(HeadraceError):
            job.cancel().result()
            job.get_job_execution_result().exception()


def shop(path: Path, **settings: str) -> TableEnvironment:
    """A session over tables that are kept: payments in a log, and totals."""
    log = f"'path' = '{path}/log', 'auto-create.partitions' = '1'"
    return session(
        f"CREATE CATALOG shop WITH ('type' = 'file', 'path' = '{path}/catalog')",
        "USE CATALOG shop",
        f"""CREATE TABLE IF NOT EXISTS payments (card STRING, amount INT, pt AS PROCTIME())
            WITH ('connector' = 'log', 'topic' = 'payments', 'format' = 'json', {log})""",
        **{
            "execution.checkpointing.dir": f"{path}/checkpoints",
            "execution.checkpointing.savepoint-dir": f"{path}/savepoints",
            "execution.checkpointing.interval": "20 ms",
        }
        | settings,
    )


def totals(path: Path) -> str:
    """The statement whose table has a row for each payment, so that what is emitted twice is seen."""
    return f"""
    CREATE MATERIALIZED TABLE totals
    WITH ('connector' = 'log', 'topic' = 'totals', 'format' = 'json', 'path' = '{path}/log',
          'auto-create.partitions' = '1')
    FRESHNESS = INTERVAL '1' SECOND
    AS SELECT card, SUM(amount) OVER (PARTITION BY card ORDER BY pt) AS total FROM payments"""


def pay(path: Path, *payments: tuple[str, int]) -> None:
    tables = shop(path, **{"execution.runtime-mode": "BATCH"})
    tables.get_config().get_configuration().remove_config("execution.checkpointing.dir")
    values = ", ".join(f"('{card}', {amount})" for card, amount in payments)
    run(tables, f"INSERT INTO payments VALUES {values}")


def seen(path: Path, table: str = "totals") -> list[Any]:
    tables = shop(path, **{"execution.runtime-mode": "BATCH"})
    tables.get_config().get_configuration().remove_config("execution.checkpointing.dir")
    return rows(tables, f"SELECT * FROM {table} /*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */")


def emitted(path: Path) -> int:
    """The number of rows in the topic of the table, which costs no job."""
    log = Log.open(f"{path}/log")
    return sum(log.end_offsets(log.partitions_of("totals")).values())


def described(tables: TableEnvironment, name: str = "shop.default.totals") -> Any:
    with tables.execute_sql("CALL shop.sys.materialized_tables()").collect() as found:
        return next(row for row in found if row.table == name)


# --- continuous refresh ----------------------------------------------------------------------------------------------


def test_a_table_is_kept_up_to_date_and_goes_on_where_it_was_suspended(tmp_path: Path) -> None:
    tables = shop(tmp_path)
    tables.execute_sql(totals(tmp_path))
    assert tables.list_materialized_tables() == ["totals"]
    pay(tmp_path, ("a", 1), ("b", 10))
    until(lambda: emitted(tmp_path) == 2)
    assert described(tables).is_running
    with pytest.raises(InvalidProgramError, match="is being refreshed already, by job"):
        tables.execute_sql("ALTER MATERIALIZED TABLE totals RESUME")
    tables.execute_sql("ALTER MATERIALIZED TABLE totals SUSPEND")
    assert running.jobs() == []
    assert (described(tables).refresh_status, described(tables).is_running) == ("SUSPENDED", False)
    with pytest.raises(InvalidProgramError, match="suspended already"):
        tables.execute_sql("ALTER MATERIALIZED TABLE totals SUSPEND")
    pay(tmp_path, ("a", 2))
    later = shop(tmp_path)  # another session, as after a restart of the program
    later.execute_sql("ALTER MATERIALIZED TABLE totals RESUME")
    until(lambda: emitted(tmp_path) == 3)
    kill_jobs()
    pay(tmp_path, ("b", 5))
    shop(tmp_path).execute_sql("ALTER MATERIALIZED TABLE totals RESUME")  # the job is found by its directory
    until(lambda: emitted(tmp_path) == 4)
    assert seen(tmp_path) == [("a", 1), ("b", 10), ("a", 3), ("b", 15)]
    used = tmp_path / "checkpoints" / "materialized-tables"
    assert len(list(used.iterdir())) == 2
    shop(tmp_path).execute_sql("DROP MATERIALIZED TABLE totals")
    assert (running.jobs(), later.list_tables(), list(used.iterdir())) == ([], ["payments"], [])


class Killed(BaseException):
    """The process is killed."""


@pytest.mark.parametrize("statement", ["SUSPEND", "RESUME"])
@pytest.mark.parametrize("writes", [0, 1])
def test_a_crash_between_the_steps_of_a_statement_loses_and_repeats_nothing(
    tmp_path: Path, statement: str, writes: int
) -> None:
    """A crash before a write of the catalog, or behind it; the jobs die with the process."""
    tables = shop(tmp_path)
    tables.execute_sql(totals(tmp_path))
    pay(tmp_path, ("a", 1), ("b", 10))
    until(lambda: emitted(tmp_path) == 2)
    if statement == "RESUME":
        tables.execute_sql("ALTER MATERIALIZED TABLE totals SUSPEND")
        pay(tmp_path, ("a", 2))
    put, left = FileCatalog.put_table, [writes]

    def killed(self: FileCatalog, *given: Any) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        put(self, *given)

    with patch.object(FileCatalog, "put_table", killed), contextlib.suppress(Killed):
        shop(tmp_path).execute_sql(f"ALTER MATERIALIZED TABLE totals {statement}")
    kill_jobs()
    if statement == "SUSPEND":
        pay(tmp_path, ("a", 2))
    shop(tmp_path).execute_sql("ALTER MATERIALIZED TABLE totals RESUME")
    pay(tmp_path, ("b", 5))
    until(lambda: emitted(tmp_path) == 4)
    assert seen(tmp_path) == [("a", 1), ("b", 10), ("a", 3), ("b", 15)]


def test_a_job_that_was_killed_at_its_start_does_not_run(tmp_path: Path) -> None:
    begun = tmp_path / "begun" / "generations"
    begun.mkdir(parents=True)
    (begun / "000000000001").write_text("")
    jobs = ContinuousRefresh(shop(tmp_path), ObjectPath("shop", "default", "totals"))
    assert not jobs.is_running(RefreshHandler(directory=str(begun.parent)))


def test_a_changed_query_begins_anew_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    tables = shop(tmp_path)
    tables.execute_sql(totals(tmp_path))
    pay(tmp_path, ("a", 1))
    until(lambda: emitted(tmp_path) == 1)
    with pytest.raises(SqlValidationError, match="columns are not dropped"):
        tables.execute_sql("ALTER MATERIALIZED TABLE totals AS SELECT card FROM payments")
    shown = rows(tables, "SHOW CREATE MATERIALIZED TABLE totals")
    with pytest.raises(HeadraceError):
        tables.execute_sql("ALTER MATERIALIZED TABLE totals SET ('format' = 'nonsense')")
    assert rows(tables, "SHOW CREATE MATERIALIZED TABLE totals") == shown
    assert described(tables).is_running
    tables.execute_sql("ALTER MATERIALIZED TABLE totals SET ('sink.parallelism' = '1')")
    pay(tmp_path, ("a", 2))
    until(lambda: emitted(tmp_path) == 2)  # it goes on
    more = "SELECT card, amount * 100 AS total, UPPER(card) AS shouted FROM payments"
    tables.execute_sql(f"ALTER MATERIALIZED TABLE totals AS {more}")
    until(lambda: emitted(tmp_path) == 4)  # it begins anew, as in Flink
    assert seen(tmp_path) == [("a", 1, None), ("a", 3, None), ("a", 100, "A"), ("a", 200, "A")]


def test_what_cannot_be_kept_is_not_created(tmp_path: Path) -> None:
    tables = shop(tmp_path)
    bad = "CREATE MATERIALIZED TABLE t WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json') {} AS {}"
    counts = "SELECT card, COUNT(*) AS n FROM payments GROUP BY card"
    with pytest.raises(PlanningError, match=r"doesn't support|does not|cannot"):
        tables.execute_sql(bad.format(tmp_path / "t", "FRESHNESS = INTERVAL '1' SECOND", counts))
    with pytest.raises(PlanningError, match="only adds to them"):
        tables.execute_sql(
            "CREATE MATERIALIZED TABLE t WITH ('connector' = 'print') REFRESH_MODE = FULL AS SELECT 1 AS a"
        )
    with pytest.raises(InvalidProgramError, match="batch mode needs sources that end, but source 'payments'"):
        tables.execute_sql(bad.format(tmp_path / "t", "REFRESH_MODE = FULL", "SELECT card FROM payments"))
    tables.execute_sql("CREATE TEMPORARY TABLE own (card STRING) WITH ('connector' = 'datagen')")
    with pytest.raises(InvalidProgramError, match=r"table shop.default.own exists in this program alone"):
        tables.execute_sql(bad.format(tmp_path / "t", "FRESHNESS = INTERVAL '1' SECOND", "SELECT * FROM own"))
    tables.get_config().get_configuration().remove_config("execution.checkpointing.dir")
    with pytest.raises(ConfigurationError, match=r"outlasts this program.*set execution.checkpointing.dir"):
        tables.execute_sql(totals(tmp_path))
    assert tables.list_tables() == ["own", "payments"]


def test_a_table_is_created_or_altered(tmp_path: Path) -> None:
    tables = shop(tmp_path)
    query = totals(tmp_path).replace("CREATE", "CREATE OR ALTER")
    tables.execute_sql(query)
    tables.execute_sql("ALTER MATERIALIZED TABLE totals SUSPEND")
    tables.execute_sql(query.replace("AS total", "AS total, amount").replace("'1' SECOND", "'5' SECOND"))
    shown = rows(tables, "SHOW CREATE MATERIALIZED TABLE totals")[0][0]
    assert "`amount` INT" in shown
    assert "START_MODE = FROM_BEGINNING\nFRESHNESS = INTERVAL '5' SECOND\nREFRESH_MODE = CONTINUOUS\nAS SELECT" in shown
    assert described(tables).refresh_status == "SUSPENDED"
    for changed, said in (
        (query.replace("AS SELECT", "REFRESH_MODE = FULL AS SELECT"), "refresh mode of a materialized table stays"),
        (query, "columns are not dropped"),
        (query.replace("SELECT card,", "SELECT 1,").replace("AS total", "AS total, card"), "columns are not changed"),
        (query.replace("TABLE totals", "TABLE payments"), "is no materialized table"),
        (query.replace("OR ALTER", ""), "already exists"),
        ("DROP TABLE totals", "Write DROP MATERIALIZED TABLE"),
        ("ALTER TABLE totals SET ('a' = 'b')", "Write ALTER MATERIALIZED TABLE"),
        ("DROP MATERIALIZED TABLE payments", "is a table, and no materialized table"),
        ("ALTER MATERIALIZED TABLE totals ADD (n INT)", "is not in the query of the table"),
        ("ALTER MATERIALIZED TABLE totals DROP card", "comes from the query of the table"),
        ("CREATE TABLE t LIKE totals", "LIKE takes a table"),
    ):
        with pytest.raises(HeadraceError, match=said):
            tables.execute_sql(changed)
    tables.execute_sql("ALTER MATERIALIZED TABLE totals ADD doubled AS amount * 2")
    assert "`doubled` AS `amount` * 2" in rows(tables, "SHOW CREATE MATERIALIZED TABLE totals")[0][0]
    tables.execute_sql("DROP MATERIALIZED TABLE IF EXISTS payments")
    tables.execute_sql("DROP MATERIALIZED TABLE totals")
    assert tables.list_tables() == ["payments"]


def test_waiting_for_refreshes_ends_with_the_first_job_that_fails(tmp_path: Path) -> None:
    tables = shop(tmp_path)
    query = "SELECT 10 / (amount - 7) AS q FROM payments"
    tables.execute_sql(totals(tmp_path).replace("totals", "quotients").partition("AS SELECT")[0] + f"AS {query}")
    tables.execute_sql(totals(tmp_path))  # its job goes on
    pay(tmp_path, ("a", 7))
    with pytest.raises(HeadraceError, match="division by zero"):
        tables.keep_refreshing()
    assert described(tables).is_running
    tables.execute_sql("DROP MATERIALIZED TABLE totals")
    tables.keep_refreshing()  # no job is left


class FakeDispatcher:
    """Answers as a dispatcher that runs one job at a time."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.state = "RUNNING"
        self.script = ""
        self.refused = ""

    def upload(self, program: Path) -> str:
        self.script = program.read_text()
        return "program"

    def get(self, *path: str) -> Any:
        assert path == ("jobs", "overview")
        return {"jobs": [{"jid": "j1", "state": self.state}]}

    def ask(self, method: str, path: tuple[str, ...], query: Any = None, body: Any = None) -> Any:
        self.asked.append((method, path, query, body))
        if method == self.refused:
            raise RestClientError("busy")
        states = {"cancel": "CANCELED", "stop": "FINISHED", "run": "RUNNING"}
        self.state = states.get("cancel" if method == "PATCH" else path[-1], self.state)
        return {"jobid": "j1", "request-id": "r"}

    def outcome(self, *path: str, timeout: float) -> Any:
        assert (path, timeout > 0) == (("jobs", "j1", "savepoints", "r"), True)
        return {"location": "/savepoints/s1"}

    def settings(self) -> dict[str, str]:
        """Those of the job that was submitted last."""
        bodies = [body for _, path, _, body in self.asked if path[-1] == "run"]
        found: dict[str, str] = bodies[-1]["flinkConfiguration"]
        return found


def test_a_dispatcher_runs_the_jobs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables, dispatcher = shop(tmp_path, **{"materialized-table.dispatcher": "host:8081"}), FakeDispatcher()
    with patch.object(StatementDispatcher, "_client", dispatcher):
        tables.execute_sql(totals(tmp_path))
        assert dispatcher.script.startswith("CREATE CATALOG `shop`\nWITH (")
        assert "INSERT INTO `shop`.`default`.`totals`\nSELECT" in dispatcher.script
        directory = dispatcher.settings()["execution.checkpointing.dir"]
        assert directory.startswith(f"{tmp_path}/checkpoints/materialized-tables/shop.default.totals-")
        with pytest.raises(InvalidProgramError, match="is being refreshed already, by job j1"):
            tables.execute_sql("ALTER MATERIALIZED TABLE totals RESUME")
        tables.execute_sql("ALTER MATERIALIZED TABLE totals SUSPEND")
        assert dispatcher.asked[-1][:2] == ("POST", ("jobs", "j1", "stop"))
        dispatcher.refused = "DELETE"  # the program of the job stays there, and its id is known all the same
        tables.execute_sql("ALTER MATERIALIZED TABLE totals RESUME")
        assert "program program stays at the dispatcher" in caplog.text
        assert dispatcher.settings()["execution.state-recovery.path"] == "/savepoints/s1"
        assert dispatcher.settings()["execution.checkpointing.dir"] != directory
        other = shop(tmp_path)  # without the option, and at first without a place for the next job
        other.get_config().get_configuration().remove_config("execution.checkpointing.dir")
        with pytest.raises(ConfigurationError, match=r"outlasts this program.*set execution.checkpointing.dir"):
            other.execute_sql("ALTER MATERIALIZED TABLE totals SUSPEND")
        assert (dispatcher.state, described(tables).refresh_status) == ("RUNNING", "ACTIVATED")
        other.get_config().set("execution.checkpointing.dir", f"{tmp_path}/checkpoints")
        other.execute_sql("ALTER MATERIALIZED TABLE totals SUSPEND")
        assert (dispatcher.state, described(tables).savepoint) == ("FINISHED", "/savepoints/s1")
        other.execute_sql("ALTER MATERIALIZED TABLE totals RESUME")
        assert dispatcher.state == "RUNNING"
        tables.execute_sql("DROP MATERIALIZED TABLE totals")
        assert dispatcher.asked[-1] == ("PATCH", ("jobs", "j1"), {"mode": "cancel"}, None)
    assert running.jobs() == []


def test_what_is_not_known_of_a_table_hides_no_others(tmp_path: Path) -> None:
    tables, dispatcher = shop(tmp_path, **{"materialized-table.dispatcher": "host:8081"}), FakeDispatcher()
    with patch.object(StatementDispatcher, "_client", dispatcher):
        tables.execute_sql(totals(tmp_path))
        tables.execute_sql(totals(tmp_path).replace("totals", "others"))
        (tmp_path / "catalog" / "default" / "tables" / "others.json").write_text("{")
        with patch.object(dispatcher, "get", side_effect=RestClientError("host:8081 does not answer")):
            silent, damaged = described(tables), described(tables, "shop.default.others")
        assert (silent.is_running, silent.job_id, silent.refresh_mode) == (None, "j1", "CONTINUOUS")
        assert silent.failure == "whether the job runs is not known: host:8081 does not answer"
        assert (damaged.is_running, damaged.refresh_mode) == (None, None)
        assert "is damaged" in damaged.failure
        assert (described(tables).is_running, described(tables).failure) == (True, None)


# --- full refresh ----------------------------------------------------------------------------------------------------


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
