"""What tables expect of the rows that they give and take."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common import RowKind
from headrace.common.errors import ConfigurationError, UserFunctionError
from headrace.log import Log
from headrace.table import EnvironmentSettings, TableEnvironment
from headrace.table.logical.errors import PlanningError
from tests.waiting import PATIENCE, wait_for


@pytest.fixture
def tables(tmp_path: Path) -> TableEnvironment:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {"headrace.runtime": "local", "parallelism.default": "1"}.items():
        tables.get_config().set(key, value)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "payments.csv").write_text("a,1,x\nb,-1,y\nc,5,z\nd,,z\n")
    return tables


def create(tables: TableEnvironment, name: str, path: Path, *options: str) -> None:
    given = ", ".join(["'connector' = 'filesystem'", f"'path' = '{path}'", "'format' = 'csv'", *options])
    tables.execute_sql(f"CREATE TABLE {name} (u STRING, amount BIGINT, city STRING) WITH ({given})")


def rows(tables: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    with tables.execute_sql(query).collect() as found:
        return sorted(tuple(row) for row in found)


POSITIVE = "'expect.positive' = 'amount > 0'"
DROP = "'expect.positive.violations' = 'drop'"
FAIL = "'expect.positive.violations' = 'fail'"
HOLD = "'expect.positive.violations' = 'hold'"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT u FROM payments", [("a",), ("c",)]),
        ("SELECT u, city FROM payments WHERE city = 'z'", [("c", "z")]),
        ("SELECT u FROM payments WHERE amount < 3", [("a",)]),
        ("SELECT COUNT(*) FROM payments HAVING COUNT(*) > 1", [(2,)]),
    ],
)
def test_rows_that_are_read(tables: TableEnvironment, tmp_path: Path, query: str, expected: list[object]) -> None:
    create(tables, "payments", tmp_path / "in", POSITIVE, DROP)
    assert rows(tables, query) == expected


def test_rows_are_looked_at_that_the_query_leaves_out(tables: TableEnvironment, tmp_path: Path) -> None:
    create(tables, "payments", tmp_path / "in", POSITIVE, FAIL)
    with pytest.raises(UserFunctionError, match=r"expectation 'positive' is violated: \(amount > 0\) is not true"):
        rows(tables, "SELECT u FROM payments WHERE u = 'a'")


def test_rows_that_are_written(tables: TableEnvironment, tmp_path: Path) -> None:
    create(tables, "payments", tmp_path / "in")
    create(tables, "kept", tmp_path / "kept", POSITIVE, DROP)
    create(tables, "refused", tmp_path / "refused", POSITIVE, FAIL, "'expect.known' = 'city IS NOT NULL'")
    tables.execute_sql("INSERT INTO kept SELECT * FROM payments").wait()
    with pytest.raises(UserFunctionError, match="expectation 'positive'"):
        tables.execute_sql("INSERT INTO refused SELECT * FROM payments").wait()
    assert written(tmp_path / "kept") == ["a,1,x", "c,5,z"]


def written(folder: Path) -> list[str]:
    """The rows that others see in the files of a table."""
    found = (path for path in folder.rglob("*") if path.is_file())
    visible = [path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    return sorted("".join(path.read_text() for path in visible).split())


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "written"])
def test_rows_are_held_back_until_they_are_released(tables: TableEnvironment, tmp_path: Path, is_read: bool) -> None:
    create(tables, "payments", tmp_path / "in", *([POSITIVE, HOLD] if is_read else []))
    create(tables, "kept", tmp_path / "kept", *([] if is_read else [POSITIVE, HOLD]))
    client = tables.execute_sql("INSERT INTO kept SELECT * FROM payments").get_job_client()
    assert client is not None
    held = wait_for(lambda: client.snapshot().held)
    assert "expectation 'positive' is violated" in next(iter(held.violations.values()))
    assert written(tmp_path / "kept") == []
    assert client.release_epoch() == held.epoch
    client.get_job_execution_result().result(timeout=PATIENCE)
    assert written(tmp_path / "kept") == ["a,1,x", "b,-1,y", "c,5,z", "d,,z"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["'expect.p' = 'amount'"], "'expect.p' takes a condition, and 'amount' is BIGINT"),
        (["'expect.p' = 'amuont > 1'"], "payments: 'expect.p' is no condition(.|\n)*Did you mean amount"),
        (["'expect.p' = 'amount >'"], "payments: 'expect.p' is no condition(.|\n)*expected an expression"),
        (["'expect.p' = 'amount > (SELECT AVG(amount) FROM payments)'"], "has a query in it"),
        (["'expect.p.violations' = 'drop'"], "no option 'expect.p' for 'expect.p.violations'"),
        (["'expect.' = 'amount > 1'"], "names no expectation"),
        ([POSITIVE, "'expect.positive.violations' = 'dorp'"], "'hold', not 'dorp'"),
    ],
)
def test_refusals(tables: TableEnvironment, tmp_path: Path, options: list[str], message: str) -> None:
    create(tables, "payments", tmp_path / "in", *options)
    with pytest.raises(ConfigurationError, match=message):
        rows(tables, "SELECT u FROM payments")


def test_conditions_of_the_time(tables: TableEnvironment, tmp_path: Path) -> None:
    past = "'expect.p' = 'CURRENT_TIMESTAMP > TO_TIMESTAMP_LTZ(amount, 3) AND RAND() >= 0'"
    create(tables, "payments", tmp_path / "in", past, "'expect.p.violations' = 'drop'", "'expect.q' = 'amount > 0'")
    assert rows(tables, "SELECT u, city FROM payments") == [("a", "x"), ("b", "y"), ("c", "z")]
    assert "expect=[" in tables.explain_sql("SELECT u FROM payments")


def test_tables_that_are_looked_up(tables: TableEnvironment, tmp_path: Path) -> None:
    create(tables, "payments", tmp_path / "in", POSITIVE)
    tables.execute_sql("CREATE VIEW seen AS SELECT u, PROCTIME() AS now FROM payments")
    with pytest.raises(PlanningError, match=r"'expect.positive'.*which a lookup does not look at"):
        rows(tables, "SELECT p.city FROM seen JOIN payments FOR SYSTEM_TIME AS OF seen.now AS p ON seen.u = p.u")


def test_deletions_among_upserts_pass(tables: TableEnvironment, tmp_path: Path) -> None:
    Log.open(str(tmp_path / "log"), create=True).create_topic("sums", 1)
    create(tables, "payments", tmp_path / "in")
    (tmp_path / "in" / "payments.csv").write_text("a,1,x\nb,2,x\na,1,x\nc,4,x\n")
    tables.get_config().set("headrace.epoch.max-records", "1")
    for name, options in {"all": "", "checked": f", {POSITIVE}, {FAIL}"}.items():
        tables.execute_sql(
            f"CREATE TABLE {name}_sums (u STRING, amount BIGINT, PRIMARY KEY (u) NOT ENFORCED) WITH ("
            f"'connector' = 'upsert-log', 'path' = '{tmp_path / 'log'}', 'topic' = 'sums', 'key.format' = 'json', "
            f"'value.format' = 'json', 'scan.bounded.mode' = 'latest-offset'{options})"
        )
    once = "SELECT u, SUM(amount) FROM payments GROUP BY u HAVING COUNT(*) < 2"
    tables.execute_sql(f"INSERT INTO all_sums {once}").wait()
    with tables.execute_sql("SELECT u, amount FROM checked_sums").collect() as found:
        changes = [(row.get_row_kind(), *row) for row in found]
    assert (RowKind.DELETE, "a", 1) in changes
    assert changes[-1] == (RowKind.INSERT, "c", 4)
