"""``START_MODE`` of materialized tables: from where their jobs read, at first and when the query is changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.common.errors import HeadraceError
from headrace.log import Log
from headrace.table import TableEnvironment
from headrace.table.bind import SqlValidationError
from headrace.table.bind.errors import SqlPlanError
from headrace.table.catalog.materialization import StartMode
from headrace.table.catalog.objects import CatalogTable, ObjectPath
from headrace.table.connectors.table_source import StartPosition
from headrace.table.ddl.materialized import materialized_table
from headrace.table.ddl.text import create_table
from headrace.table.parse import parse_statement
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.definitions import CreateMaterializedTable
from tests.table.connectors.session import rows, run, session
from tests.table.environment.test_materialized_tables import kill_jobs
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def no_jobs() -> Iterator[None]:
    yield
    kill_jobs()


def shop(path: Path, mode: str = "STREAMING", **settings: str) -> TableEnvironment:
    """A session over payments in two topics, each with the time of its message, and a place for results."""
    of_jobs = {
        "execution.checkpointing.dir": f"{path}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"{path}/savepoints",
        "execution.checkpointing.interval": "20 ms",
    }
    tables = session(**{"execution.runtime-mode": mode, **(of_jobs if mode == "STREAMING" else {})} | settings)
    for name in ("payments", "refunds"):
        columns = "amount BIGINT, stamp TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'"
        tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({topic(path, name)})")
    return tables


def topic(path: Path, name: str) -> str:
    log = f"'connector' = 'log', 'path' = '{path}/log', 'auto-create.partitions' = '1', 'format' = 'json'"
    return f"{log}, 'topic' = '{name}'"


def pay(path: Path, *millis: int, table: str = "payments") -> None:
    """Payments whose amount is the time of their message, in milliseconds."""
    values = ", ".join(f"({each}, TO_TIMESTAMP_LTZ({each}, 3))" for each in millis)
    run(shop(path, "BATCH"), f"INSERT INTO {table} VALUES {values}")


def told(path: Path, start: str, query: str = "SELECT amount FROM payments") -> str:
    """The statement that creates or alters the table of results."""
    return (
        f"CREATE OR ALTER MATERIALIZED TABLE told WITH ({topic(path, 'told')}) {start} "
        f"FRESHNESS = INTERVAL '1' SECOND AS {query}"
    )


def seen(path: Path) -> list[int]:
    """The numbers in the topic of results, once no message is missing that was appended."""
    tables = shop(path, "BATCH")
    tables.execute_sql(
        f"CREATE TABLE told (amount BIGINT) WITH ({topic(path, 'told')}, 'scan.bounded.mode' = 'latest-offset')"
    )
    return [amount for (amount,) in rows(tables, "SELECT amount FROM told")]


def emitted(path: Path) -> int:
    log = Log.open(f"{path}/log")
    return sum(log.end_offsets(log.partitions_of("told")).values())


FAR: int = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)


def test_a_changed_query_resumes_or_begins_where_it_is_said(tmp_path: Path) -> None:
    pay(tmp_path, 1000, 2000, 3000)
    pay(tmp_path, 500, 5000, FAR, table="refunds")
    tables = shop(tmp_path)
    tables.execute_sql(told(tmp_path, "START_MODE = FROM_TIMESTAMP(TIMESTAMP '1970-01-01 00:00:02')"))
    wait_for(lambda: emitted(tmp_path) == 2)
    both = "SELECT -amount AS amount FROM payments UNION ALL SELECT amount FROM refunds"
    tables.execute_sql(told(tmp_path, "START_MODE = RESUME_OR_FROM_NOW", both))  # refunds were not read before
    pay(tmp_path, 4000)
    wait_for(lambda: emitted(tmp_path) == 4)
    assert sorted(seen(tmp_path)) == [-4000, 2000, 3000, FAR]
    tables.execute_sql("ALTER MATERIALIZED TABLE told AS SELECT amount + 1 AS amount FROM payments")
    pay(tmp_path, 6000)
    wait_for(lambda: emitted(tmp_path) == 5)
    assert sorted(seen(tmp_path)) == [-4000, 2000, 3000, 6001, FAR]
    tables.execute_sql("ALTER MATERIALIZED TABLE told SUSPEND")
    tables.execute_sql(told(tmp_path, "", "SELECT amount + 2 AS amount FROM payments"))  # from the beginning again
    tables.execute_sql("ALTER MATERIALIZED TABLE told RESUME")
    wait_for(lambda: emitted(tmp_path) == 10)
    assert sorted(seen(tmp_path))[1:9] == [1002, 2000, 2002, 3000, 3002, 4002, 6001, 6002]
    tables.execute_sql("DROP MATERIALIZED TABLE told")
    assert not list((tmp_path / "checkpoints" / "materialized-tables").iterdir())


TOLD = ObjectPath("default_catalog", "default_database", "told")


def start_of(tables: TableEnvironment) -> StartMode:
    table = tables.catalogs.permanent_table(TOLD)
    assert isinstance(table, CatalogTable)
    assert table.materialization is not None
    return table.materialization.start


NOON = datetime(2026, 3, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "since"),
    [
        ("FROM_NOW", "2026-03-31T12:00:00"),
        ("RESUME_OR_FROM_NOW(INTERVAL '90' SECOND)", "2026-03-31T11:58:30"),
        ("FROM_NOW(INTERVAL '2' WEEK)", "2026-03-17T12:00:00"),
        ("FROM_NOW(INTERVAL '1' MONTH)", "2026-02-28T13:00:00"),  # noon in Berlin was at 14:00 in March
        ("FROM_NOW(INTERVAL '1' YEAR)", "2025-03-31T12:00:00"),
        ("FROM_TIMESTAMP(TIMESTAMP '2026-03-01 10:00:00.5')", "2026-03-01T10:00:00.500000"),
        ("FROM_TIMESTAMP(TIMESTAMP '1960-01-01 00:00:00')", "1970-01-01T00:00:00"),
        (
            "RESUME_OR_FROM_TIMESTAMP(TIMESTAMP WITH LOCAL TIME ZONE '2026-03-01 10:00:00')",
            "2026-03-01T09:00:00",
        ),
        ("RESUME_OR_FROM_BEGINNING", None),
    ],
)
def test_positions(tmp_path: Path, written: str, since: str | None) -> None:
    tables = shop(tmp_path, **{"table.local-time-zone": "Europe/Berlin"})
    statement = told(tmp_path, f"START_MODE = {written}")
    node = parse_statement(statement)
    assert isinstance(node, CreateMaterializedTable)
    table = materialized_table(tables.bind_context(SqlSource(statement)), node)
    assert table.materialization is not None
    assert f"\nSTART_MODE = {written}\nFRESHNESS" in create_table(TOLD, table, is_temporary=False)
    position = table.materialization.start.position(NOON, "Europe/Berlin")
    if since is None:
        assert position is None
    else:
        moment = datetime.fromisoformat(since).replace(tzinfo=UTC)
        assert position == StartPosition(round(moment.timestamp() * 1000), is_now=written == "FROM_NOW")
        assert StartPosition.parse(str(position)) == position


def test_the_setting_is_for_tables_that_do_not_say_it(tmp_path: Path) -> None:
    tables = shop(tmp_path, **{"materialized-table.default-start-mode": "FROM_NOW"})
    pay(tmp_path, 1000)
    tables.execute_sql(told(tmp_path, ""))
    pay(tmp_path, FAR)
    wait_for(lambda: emitted(tmp_path) == 1)
    assert seen(tmp_path) == [FAR]
    assert str(start_of(tables)) == "FROM_NOW"


def test_what_cannot_begin_there_is_refused(tmp_path: Path) -> None:
    tables = shop(tmp_path)
    where = f"'connector' = 'filesystem', 'path' = '{tmp_path}/files', 'format' = 'json'"
    tables.execute_sql(f"CREATE TABLE files (amount BIGINT) WITH ({where})")
    tables.execute_sql("CREATE TABLE made (amount BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1')")
    of_files = "SELECT amount FROM files"
    for statement, error, said in (
        (
            told(tmp_path, "START_MODE = FROM_NOW", of_files),
            SqlPlanError,
            r"(?s)files.*filesystem.*only FROM_BEGINNING",
        ),
        (
            told(tmp_path, "START_MODE = FROM_NOW(INTERVAL '1' DAY)", "SELECT amount FROM made"),
            SqlPlanError,
            r"(?s)made.*datagen, cannot begin at a time: START_MODE = FROM_NOW can",
        ),
        (told(tmp_path, "START_MODE = FROM_NOW(TIMESTAMP '2026-01-01 00:00:00')"), SqlValidationError, "an interval"),
        (told(tmp_path, "START_MODE = FROM_NOW(INTERVAL '0' DAY)"), SqlValidationError, "positive interval"),
        (told(tmp_path, "START_MODE = FROM_NOW(INTERVAL '1 2' DAY TO HOUR)"), SqlValidationError, "one unit"),
        (told(tmp_path, "START_MODE = FROM_TIMESTAMP"), SqlValidationError, "takes a TIMESTAMP"),
        (told(tmp_path, "START_MODE = FROM_TIMESTAMP('2026-01-01')"), SqlValidationError, "takes a TIMESTAMP"),
        (told(tmp_path, "START_MODE = FROM_BEGINNING(INTERVAL '1' DAY)"), SqlValidationError, "takes nothing"),
        (
            told(tmp_path, "START_MODE = FROM_NOW").replace("AS SELECT", "REFRESH_MODE = FULL AS SELECT"),
            SqlValidationError,
            "of continuous refreshes",
        ),
    ):
        with pytest.raises(error, match=said) as raised:
            tables.execute_sql(statement)
        assert "START_MODE" in str(raised.value) or "FROM_" in str(raised.value)
        assert "^" in str(raised.value)  # it points into the statement
    tables.execute_sql(told(tmp_path, "START_MODE = FROM_BEGINNING"))
    with pytest.raises(HeadraceError):
        tables.execute_sql(told(tmp_path, "START_MODE = FROM_NOW", of_files))
    assert str(start_of(tables)) == "FROM_BEGINNING"
    assert tables.list_materialized_tables() == ["told"]
