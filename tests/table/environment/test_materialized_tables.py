"""Materialized tables: what keeps them up to date, through suspension, changes and crashes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from headrace.client import running
from headrace.common.errors import ConfigurationError, HeadraceError, InvalidProgramError
from headrace.log import Log
from headrace.server.client import RestClientError
from headrace.table import TableEnvironment
from headrace.table.bind import SqlValidationError
from headrace.table.catalog.materialization import RefreshHandler
from headrace.table.catalog.objects import ObjectPath
from headrace.table.ddl.file_catalog import FileCatalog
from headrace.table.environment.continuous_refresh import ContinuousRefresh
from headrace.table.environment.dispatched_jobs import StatementDispatcher
from headrace.table.logical.errors import PlanningError
from tests.table.connectors.session import rows, run, session
from tests.table.environment.refreshed_tables import described
from tests.waiting import wait_for


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


def test_a_table_is_kept_up_to_date_and_goes_on_where_it_was_suspended(tmp_path: Path) -> None:
    tables = shop(tmp_path)
    tables.execute_sql(totals(tmp_path))
    assert tables.list_materialized_tables() == ["totals"]
    pay(tmp_path, ("a", 1), ("b", 10))
    wait_for(lambda: emitted(tmp_path) == 2)
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
    wait_for(lambda: emitted(tmp_path) == 3)
    kill_jobs()
    pay(tmp_path, ("b", 5))
    shop(tmp_path).execute_sql("ALTER MATERIALIZED TABLE totals RESUME")  # the job is found by its directory
    wait_for(lambda: emitted(tmp_path) == 4)
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
    wait_for(lambda: emitted(tmp_path) == 2)
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
    wait_for(lambda: emitted(tmp_path) == 4)
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
    wait_for(lambda: emitted(tmp_path) == 1)
    with pytest.raises(SqlValidationError, match="columns are not dropped"):
        tables.execute_sql("ALTER MATERIALIZED TABLE totals AS SELECT card FROM payments")
    shown = rows(tables, "SHOW CREATE MATERIALIZED TABLE totals")
    with pytest.raises(HeadraceError):
        tables.execute_sql("ALTER MATERIALIZED TABLE totals SET ('format' = 'nonsense')")
    assert rows(tables, "SHOW CREATE MATERIALIZED TABLE totals") == shown
    assert described(tables).is_running
    tables.execute_sql("ALTER MATERIALIZED TABLE totals SET ('sink.parallelism' = '1')")
    pay(tmp_path, ("a", 2))
    wait_for(lambda: emitted(tmp_path) == 2)  # it goes on
    more = "SELECT card, amount * 100 AS total, UPPER(card) AS shouted FROM payments"
    tables.execute_sql(f"ALTER MATERIALIZED TABLE totals AS {more}")
    wait_for(lambda: emitted(tmp_path) == 4)  # it begins anew, as in Flink
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
