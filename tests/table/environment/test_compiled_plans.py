"""Compiled plans: they are executed by other sessions, and changed statements go on with the state of those before."""

from __future__ import annotations

import json
from pathlib import Path
from time import sleep

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.common.errors import InvalidProgramError, UnsupportedOperationError
from headrace.log import Consumer
from headrace.table import ExplainDetail, PlanReference, TableEnvironment
from headrace.table.environment.compiled_plan import compiled_plan
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Scan
from headrace.table.logical.schema import Schema
from headrace.table.plans.changes import ChangedPlanError, _of_scans
from headrace.table.udf import udf
from tests.table.connectors.session import rows, run, session
from tests.table.statements import STATEMENTS, environment

PAYMENTS = "CREATE TABLE payments (card STRING, amount INT, shop STRING) WITH ({})"
TOTALS = "CREATE TABLE totals (card STRING, n BIGINT{}, PRIMARY KEY (card) NOT ENFORCED) WITH ({})"
SUMS = "INSERT INTO totals SELECT card, SUM(amount) FROM payments GROUP BY card"
RECOMPILE = {"table.plan.force-recompile": "true"}


def planned(*more: str, columns: str = "", **settings: str) -> TableEnvironment:
    """A session in which the tables exist, over connectors that need no files."""
    made = PAYMENTS.format("'connector' = 'datagen'")
    return session(made, TOTALS.format(columns, "'connector' = 'blackhole'"), *more, **settings)


@pytest.mark.parametrize("name", [*STATEMENTS, "totals"])
def test_plans_are_read_as_they_were_written(tmp_path: Path, name: str) -> None:
    tables = environment(tmp_path, "local")
    query = STATEMENTS[name][1] if name in STATEMENTS else "SELECT k, COUNT(*) FROM orders GROUP BY k"
    plan = tables.compile_plan_sql(f"INSERT INTO {name} {query}")
    text = plan.as_json_string()
    loaded = tables.load_plan(PlanReference.from_json_string(text))
    assert loaded.as_json_string() == text
    assert loaded.explain(ExplainDetail.CHANGELOG_MODE) == plan.explain(ExplainDetail.CHANGELOG_MODE)
    graph = tables.new_graph()
    loaded._statements.translated(graph, tables.planner().settings)
    assert [node.uid for node in graph] == [uid for each in json.loads(text)["nodes"] for uid in each.get("uids", ())]


@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_plan_is_executed_without_the_tables(tmp_path: Path, is_streaming: bool) -> None:
    @udf(result_type="INT")
    def twice(n: int) -> int:
        return 2 * n

    where = f"'connector'='filesystem', 'path'='{tmp_path}/doubles', 'format'='csv'"
    out = f"CREATE TABLE doubles (n INT, d DECIMAL(4, 2)) WITH ({where})"
    tables, file = session(out, is_streaming=is_streaming), tmp_path / "plan.json"
    tables.create_temporary_system_function("twice", twice)
    query = "SELECT twice(n), 1.25 FROM (VALUES (1), (2), (3)) AS t(n) WHERE n > 1"
    assert rows(tables, f"COMPILE PLAN '{file}' FOR INSERT INTO doubles {query}") == [("OK",)]
    other = session(is_streaming=is_streaming)
    with pytest.raises(PlanningError, match="the compiled plan calls the function twice, which is not there"):
        other.execute_sql(f"EXECUTE PLAN '{file}'")
    other.create_temporary_system_function("twice", twice)
    other.execute_sql(f"EXECUTE PLAN '{file}'").wait()
    assert sorted(rows(tables, "SELECT n FROM doubles")) == [(4,), (6,)]
    with pytest.raises(InvalidProgramError, match="the session is in"):
        _execute(file, twice, is_streaming=not is_streaming)


def test_a_plan_counts_the_rows_that_there_are_when_it_is_executed(tmp_path: Path) -> None:
    where = f"'connector'='filesystem', 'path'='{tmp_path}/numbers', 'format'='parquet'"
    out = (
        f"CREATE TABLE found (n BIGINT, m INT) WITH ('connector'='filesystem', 'path'='{tmp_path}/out', 'format'='csv')"
    )
    tables = session(f"CREATE TABLE numbers (n INT) WITH ({where})", out, is_streaming=False)
    run(tables, "INSERT INTO numbers VALUES (1), (2)")
    tables.execute_sql(
        f"COMPILE PLAN '{tmp_path}/plan.json' FOR INSERT INTO found SELECT COUNT(*), MAX(n) FROM numbers"
    )
    run(tables, "INSERT INTO numbers VALUES (7)")
    tables.execute_sql(f"EXECUTE PLAN '{tmp_path}/plan.json'").wait()
    assert rows(tables, "SELECT * FROM found") == [(3, 7)]


def test_functions_are_those_of_their_database(tmp_path: Path) -> None:
    @udf(result_type="INT")
    def twice(n: int) -> int:
        return 2 * n

    @udf(result_type="INT")
    def thrice(n: int) -> int:
        return 3 * n

    def made() -> TableEnvironment:
        tables = session("CREATE DATABASE other", is_streaming=False)
        tables.create_temporary_function("times", twice)
        tables.create_temporary_function("other.times", thrice)
        return tables

    tables, where = made(), f"'connector'='filesystem', 'path'='{tmp_path}/products', 'format'='csv'"
    tables.execute_sql(f"CREATE TABLE products (a INT, b INT) WITH ({where})")
    plan = tables.compile_plan_sql("INSERT INTO products SELECT times(n), other.times(n) FROM (VALUES (1)) AS t(n)")
    later = made()
    later.use_database("other")
    later.load_plan(PlanReference.from_json_string(plan.as_json_string())).execute().wait()
    assert rows(tables, "SELECT * FROM products") == [(2, 3)]


def _execute(file: Path, function: object, *, is_streaming: bool) -> None:
    other = session(is_streaming=is_streaming)
    other.create_temporary_system_function("twice", function)
    other.execute_sql(f"EXECUTE PLAN '{file}'")


def test_a_file_is_replaced_on_purpose_only(tmp_path: Path) -> None:
    tables, file = planned(), tmp_path / "plan.json"
    tables.execute_sql(f"COMPILE PLAN '{file}' FOR {SUMS}")
    before = file.read_text()
    with pytest.raises(InvalidProgramError, match="Cannot overwrite the plan file"):
        tables.execute_sql(f"COMPILE PLAN 'file://{file}' FOR {SUMS}")
    tables.execute_sql(f"COMPILE PLAN '{file}' IF NOT EXISTS FOR {SUMS.replace('SUM', 'MAX')}")
    tables.compile_plan_sql(SUMS).write_to_file(file, ignore_if_exists=True)
    assert file.read_text() == before
    explained = rows(tables, f"EXPLAIN PLAN FOR EXECUTE PLAN '{file}'")[0][0]
    assert explained == tables.load_plan(PlanReference.from_file(file)).explain()
    assert "GroupAggregate(groupBy=[card], select=[card, SUM(amount) AS EXPR$1])" in explained


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    tables = planned()
    with pytest.raises(InvalidProgramError, match="there is no compiled plan"):
        tables.execute_plan(PlanReference.from_file(tmp_path / "none.json"))
    (tmp_path / "image").write_bytes(b"\xff\xd8")
    for path in (tmp_path, tmp_path / "image"):
        with pytest.raises(PlanningError, match="cannot be read as a compiled plan"):
            tables.load_plan(PlanReference.from_file(path))
    plan = tables.compile_plan_sql(SUMS).as_json_string()
    for text, told in [
        ("{", "it is no compiled plan"),
        ('{"flinkVersion": "2.3", "nodes": []}', "it is one of Flink"),
        (plan.replace('"format": 1', '"format": 99'), "format 99"),
        (plan.replace('"@type": "GroupAggregate"', '"@type": "Unheard"'), "at node 4, Unheard"),
        (plan.replace('"mode"', '"mood"'), "cannot be read: KeyError.'mode'"),
        (plan.replace('"nodes": [', '"nodes": [7, '), "cannot be read: AttributeError"),
        (plan.replace('"settings": {', '"settings": {"execution.runtime-mode": "BATCH"'), "begin with table. alone"),
        ('{"headraceVersion": ' + "[" * 100_000, "it is no compiled plan"),
    ]:
        with pytest.raises(PlanningError, match=told):
            tables.load_plan(PlanReference.from_json_string(text))
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(PlanningError, match=r"other\.json': it is no compiled plan"):
        tables.load_plan(PlanReference.from_file(tmp_path / "other.json"))
    with pytest.raises(UnsupportedOperationError, match="files that the program can open"):
        tables.execute_sql(f"COMPILE PLAN 's3://plans/one.json' FOR {SUMS}")
    local = tables.from_elements([("a", 1)], ["card", "n"])
    with pytest.raises(PlanningError, match="exists in this program alone"):
        compiled_plan(tables, tables.insert_of(local, "totals"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"@type": "server:RestServer", "settings": None}, "has no server:RestServer"),
        ({"@type": "table.environment:TableEnvironment"}, "has no table.environment:TableEnvironment"),
        ({"@type": "table.connectors:TableSource"}, "has no table.connectors:TableSource"),
        ({"@enum": "table.logical:Schema", "@value": "fields"}, "has no table.logical:Schema"),
        ({"@decimal": "ten"}, "at node 1, TableSourceScan: InvalidOperation"),
    ],
)
def test_plans_make_values_alone(tmp_path: Path, given: dict[str, object], told: str) -> None:
    made = PAYMENTS.format(f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}'")
    tables = session(made, TOTALS.format("", "'connector' = 'blackhole'"))
    document = json.loads(tables.compile_plan_sql(SUMS).as_json_string())
    assert document["nodes"][0]["@type"] == "TableSourceScan"
    document["nodes"][0]["scan"] = given
    with pytest.raises(PlanningError, match=told):
        tables.load_plan(PlanReference.from_json_string(json.dumps(document)))


def test_values_of_secret_options_are_not_told() -> None:
    password = ("password", "hunter2"), ("password", "tr0ub4dor")
    before, after = (Scan(("c", "d", "payments"), Schema(()), (each,)) for each in password)
    assert list(_of_scans(before, after)) == ["the option 'password' of table c.d.payments has another value"]


DATABASE = "'connector' = 'jdbc', 'url' = 'jdbc:postgresql://db/shop', 'table-name' = 'totals', 'password' = '{}'"


def test_secrets_are_no_part_of_plans() -> None:
    made = PAYMENTS.format("'connector' = 'datagen'")
    tables = session(made, TOTALS.format("", DATABASE.format("hunter2")))
    plan = tables.compile_plan_sql(SUMS).as_json_string()
    assert "hunter2" not in plan
    loaded = tables.load_plan(PlanReference.from_json_string(plan))
    assert dict(loaded._statements.roots[0].target.options)["password"] == "hunter2"  # type: ignore[attr-defined]
    with pytest.raises(PlanningError, match=r"not hold the secret 'password' of table default_catalog.*{env:NAME}"):
        session().load_plan(PlanReference.from_json_string(plan))
    referring = session(made, TOTALS.format("", DATABASE.format("${env:PG_PASSWORD}")))
    text = referring.compile_plan_sql(SUMS).as_json_string()
    assert session().load_plan(PlanReference.from_json_string(text)).as_json_string() == text
    hinted = SUMS.replace("totals SELECT", "totals /*+ OPTIONS('password' = 'hunter3') */ SELECT")
    with pytest.raises(PlanningError, match="the statement has a secret in it, the option 'password'"):
        tables.compile_plan_sql(hinted)
    followed = "'connector' = 'postgres-cdc', 'hostname' = 'db', 'database-name' = 'shop', 'table-name' = 'orders'"
    tables.execute_sql(f"CREATE TABLE orders (id INT) WITH ({followed}, 'slot.name' = 'orders')")
    shown = tables.explain_sql("SELECT id FROM orders /*+ OPTIONS('password' = 'hunter4') */")
    assert ("password=******" in shown, "hunter4" in shown) == (True, False)


@pytest.mark.parametrize(
    ("before", "after", "columns", "changes"),
    [
        (SUMS, SUMS.replace("GROUP", "WHERE amount > 1 GROUP"), "", ["rows are filtered by [>(amount, 1)]"]),
        (SUMS, SUMS.replace("SUM(amount)", "SUM(amount) AS total"), "", []),
        (
            SUMS,
            "INSERT INTO totals SELECT card, SUM(amount), UPPER(card) FROM payments GROUP BY card",
            ", up STRING",
            ["the columns are"],
        ),
    ],
)
def test_changed_statements_keep_uids(before: str, after: str, columns: str, changes: list[str]) -> None:
    first = planned().compile_plan_sql(before)
    tables = planned(columns=columns)
    relations = tables.create_statement_set().add_insert_sql(after)._relations
    second = compiled_plan(tables, relations, first.as_json_string())
    kept = {uid for uid in _uids(second.as_json_string()) if "Calc" not in uid and "Filter" not in uid}
    assert kept <= set(_uids(first.as_json_string()))
    assert len(kept) >= 3


def _uids(plan: str) -> list[str]:
    return [uid for node in json.loads(plan)["nodes"] for uid in node.get("uids", ())]


JOIN = "INSERT INTO totals SELECT p.card, q.amount FROM payments p JOIN payments q ON p.card = q.card"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (SUMS, SUMS.replace("SUM", "MAX"), "its calls would be others"),
        (SUMS, SUMS.replace("SUM(amount)", "SUM(amount + 1)"), r"the columns are \[card STRING, \+\(amount, 1\) INT\]"),
        (SUMS, "INSERT INTO totals SELECT card, amount FROM payments", "GroupAggregate would become TableSourceScan"),
        (SUMS, SUMS.replace("payments", "payments /*+ OPTIONS('rows-per-second' = '5') */"), "table .* is '5', before"),
        (JOIN, JOIN.replace("p.card = q.card", "p.shop = q.shop"), "its keys would be others"),
        (JOIN, JOIN.replace("JOIN", "LEFT JOIN"), "its kind would be others"),
    ],
)
def test_what_cannot_go_on_is_refused_with_the_difference(before: str, after: str, told: str) -> None:
    tables = planned(**{"table.exec.sink.require-on-conflict": "false"})
    first = tables.compile_plan_sql(before).as_json_string()
    with pytest.raises(ChangedPlanError, match=told) as raised:
        compiled_plan(tables, tables.create_statement_set().add_insert_sql(after)._relations, first)
    assert "INSERT INTO default_catalog.default_database.totals: " in str(raised.value)


def test_state_goes_on_under_a_changed_statement(tmp_path: Path) -> None:
    path = f"'path'='{tmp_path}/log', 'auto-create.partitions'='1'"
    log = f"'connector'='log', 'topic'='payments', 'format'='json', {path}"
    upserts = f"'connector'='upsert-log', 'topic'='totals', 'key.format'='json', 'value.format'='json', {path}"

    def job(statement: str, columns: str, wanted: int, **settings: str) -> str:
        tables = session(PAYMENTS.format(log), TOTALS.format(columns, upserts), **RECOMPILE, **settings)
        result = tables.execute_sql(f"COMPILE AND EXECUTE PLAN '{tmp_path}/plan.json' FOR {statement}")
        client = result.get_job_client()
        assert client is not None
        while len(_values(tmp_path)) < wanted:
            sleep(0.02)
        return client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result()

    run(session(PAYMENTS.format(log)), "INSERT INTO payments VALUES ('ann', 1, 'x'), ('bob', 5, 'x')")
    savepoint = job(SUMS, "", 2)
    run(session(PAYMENTS.format(log)), "INSERT INTO payments VALUES ('ann', 1000, 'x'), ('ann', 10, 'x')")
    changed = "INSERT INTO totals SELECT card, SUM(amount), UPPER(card) FROM payments WHERE amount < 100 GROUP BY card"
    job(changed, ", up STRING", 3, **{"execution.state-recovery.path": savepoint})
    assert [(each["card"], each["n"], each.get("up")) for each in _values(tmp_path)] == [
        ("ann", 1, None),
        ("bob", 5, None),
        ("ann", 11, "ANN"),
    ]
    listed = ["state", "list", savepoint, "--plan"]
    told = CliRunner().invoke(app, [*listed, f"{tmp_path}/plan.json"], env={"COLUMNS": "900"})
    group = "GroupAggregate(groupBy=[card], select=[card, SUM(amount) AS EXPR$1])"
    assert f"INSERT INTO totals: {group} of payments" in told.output
    told = CliRunner().invoke(app, [*listed, f"{tmp_path}/none.json"], env={"COLUMNS": "900"})
    assert told.exit_code == 2
    assert "none.json cannot be read" in told.stderr


def _values(folder: Path) -> list[dict[str, object]]:
    with Consumer(f"{folder}/log", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["totals"])
        return [json.loads(record.value) for record in consumer.poll(0)]
