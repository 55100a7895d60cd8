"""The API of tables: names, settings, sets of statements, and what results give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, HeadraceError, InvalidProgramError
from headrace.table import EnvironmentSettings, TableEnvironment
from tests.table.connectors.session import rows, session

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = "CREATE TEMPORARY VIEW numbers AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, s)"


def printing(name: str) -> str:
    return f"CREATE TABLE {name} (n INT, s STRING) WITH ('connector'='print', 'print-identifier'='{name}')"


def test_what_there_is_is_listed() -> None:
    tables = session(NUMBERS, printing("p"), "CREATE VIEW w AS SELECT 1 AS x")
    assert tables.list_tables() == ["numbers", "p", "w"]
    assert tables.list_views() == ["numbers", "w"]
    assert tables.list_temporary_views() == ["numbers"]
    assert (tables.get_current_catalog(), tables.get_current_database()) == ("default_catalog", "default_database")
    assert tables.list_catalogs() == ["default_catalog"]
    assert tables.list_databases() == ["default_database"]
    assert "UPPER" in {name.upper() for name in tables.list_functions()}
    assert (tables.drop_temporary_view("numbers"), tables.drop_temporary_view("numbers")) == (True, False)
    assert (tables.drop_table("p"), tables.drop_view("w"), tables.list_tables()) == (True, True, [])


def test_tables_are_written_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    tables = session(NUMBERS, printing("p"))
    more = tables.sql_query("SELECT * FROM numbers WHERE n > 1")
    tables.create_temporary_view("more", more)
    tables.from_path("more").execute_insert("p").wait()
    assert capsys.readouterr().out == "p> +I[2, b]\n"
    assert rows(tables, "SELECT COUNT(*) FROM more") == [(1,)]
    with pytest.raises(InvalidProgramError, match=r"there is a table or view .*more already"):
        tables.create_temporary_view("more", more)
    more.print_schema()
    assert capsys.readouterr().out == "(\n  `n` INT NOT NULL,\n  `s` CHAR(1) NOT NULL\n)\n"
    assert "Calc(select=[" in more.explain()


def test_a_statement_set_is_one_job(capsys: pytest.CaptureFixture[str]) -> None:
    tables = session(NUMBERS, printing("p"), printing("q"))
    statements = tables.create_statement_set()
    statements.add_insert_sql("INSERT INTO p SELECT * FROM numbers WHERE n = 1")
    statements.add_insert("q", tables.sql_query("SELECT * FROM numbers WHERE n = 2"))
    result = statements.execute()
    result.wait()
    assert [field.name for field in result.get_resolved_schema()] == ["p", "q"]
    assert sorted(capsys.readouterr().out.splitlines()) == ["p> +I[1, a]", "q> +I[2, b]"]
    with pytest.raises(InvalidProgramError, match="without statements"):
        statements.execute()
    with pytest.raises(InvalidProgramError, match="takes INSERT"):
        statements.add_insert_sql("SELECT 1")


def settings_of(tables: TableEnvironment) -> dict[str, str]:
    return dict(rows(tables, "SET"))


def test_settings_are_set_shown_and_taken_back() -> None:
    tables = session("SET 'table.exec.state.ttl' = '1 h'")
    assert settings_of(tables)["table.exec.state.ttl"] == "1 h"
    tables.execute_sql("RESET 'table.exec.state.ttl'")
    assert "table.exec.state.ttl" not in settings_of(tables)
    tables.execute_sql("RESET")
    assert settings_of(tables) == {}


def test_settings_that_are_not_there_are_told() -> None:
    tables = session()
    with pytest.raises(
        ConfigurationError, match=r"table\.exec\.stat\.ttl is not a table option.* mean table\.exec\.state\.ttl"
    ):
        tables.execute_sql("SET 'table.exec.stat.ttl' = '1 h'")
    with pytest.raises(ConfigurationError, match=r"table\.optimiser\.x is not a table option"):
        tables.get_config().set("table.optimiser.x", "1")
    with pytest.raises(ConfigurationError, match=r"did you mean parallelism\.default"):
        tables.get_config().set("paralelism.default", "1")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("table.exec.state.ttl", "soon"),
        ("table.local-time-zone", "Nowhere/City"),
        ("table.exec.mini-batch.enabled", "maybe"),
        ("table.exec.sink.upsert-materialize", "perhaps"),
        ("table.sql-dialect", "hive"),
        ("execution.runtime-mode", "slow"),
    ],
)
def test_values_that_a_setting_cannot_have_are_told(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{re.escape(key)} = '{value}': expected "):
        session().execute_sql(f"SET '{key}' = '{value}'")
    settings = EnvironmentSettings(configuration=Configuration.from_dict({key: value}))
    with pytest.raises(ConfigurationError, match=rf"^{re.escape(key)} = "):
        TableEnvironment.create(settings)


def test_a_misspelt_connector_is_told() -> None:
    tables = session("CREATE TABLE t (a INT) WITH ('conector' = 'print')")
    with pytest.raises(HeadraceError, match=r"no option 'connector'.*write it instead of 'conector'"):
        tables.execute_sql("INSERT INTO t SELECT 1")


def test_a_session_changes_how_statements_run() -> None:
    tables = session(NUMBERS)
    count = "SELECT COUNT(*) FROM numbers"
    tables.execute_sql("SET 'execution.runtime-mode' = 'batch'")
    assert rows(tables, count) == [(2,)]
    tables.execute_sql("RESET 'execution.runtime-mode'")
    assert rows(tables, count) == [(1,), (1,), (2,)]


def test_the_first_catalog_has_the_name_that_was_given() -> None:
    named = EnvironmentSettings.new_instance().with_built_in_catalog_name("c").with_built_in_database_name("d")
    tables = TableEnvironment.create(named.build())
    assert (tables.list_catalogs(), tables.list_databases(), tables.get_current_database()) == (["c"], ["d"], "d")
    tables.execute_sql(printing("p"))
    assert tables.list_tables() == ["p"]


def test_settings_that_change_results_in_flink_alone_are_told() -> None:
    key = "table.exec.sink.rowtime-inserter"
    with pytest.warns(UserWarning, match=f"{key} has no effect"):
        TableEnvironment.create().get_config().set(key, "DISABLED")


def test_settings_of_a_session_are_those_of_its_configuration() -> None:
    names = {"table.builtin-catalog-name": "c", "table.builtin-database-name": "d"}
    config = Configuration.from_dict({"execution.runtime-mode": "BATCH", **names})
    settings = EnvironmentSettings.new_instance().with_configuration(config)
    tables = TableEnvironment.create(settings.build())
    assert (tables.is_batch, tables.get_current_catalog(), tables.get_current_database()) == (True, "c", "d")
    tables = TableEnvironment.create(settings.in_streaming_mode().with_built_in_catalog_name("e").build())
    assert (tables.is_batch, tables.get_current_catalog(), tables.get_current_database()) == (False, "e", "d")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT /*+ STATE_TTL('number' = '1d') */ COUNT(*) FROM numbers", r"names 'number', which(.|\n)*numbers"),
        ("SELECT /*+ STATE_TTL('numbers' = '1 moon') */ COUNT(*) FROM numbers", "'1 moon' is not a duration"),
        ("SELECT * FROM p /*+ NOPE('a' = 'b') */", "there is no hint NOPE"),
        ("INSERT INTO p /*+ NOPE('a' = 'b') */ SELECT * FROM numbers", "there is no hint NOPE"),
        ("SELECT * FROM numbers /*+ OPTIONS('a' = 'b') */", "'numbers' is not a table with a connector"),
        ("WITH q AS (SELECT 1) SELECT * FROM q /*+ OPTIONS('a' = 'b') */", "'q' is not a table with a connector"),
        ("INSERT INTO p /*+ OPTIONS('nope' = 'b') */ SELECT * FROM numbers", "has no option 'nope'"),
    ],
)
def test_hints_that_nothing_heeds_are_refused(statement: str, told: str) -> None:
    with pytest.raises(HeadraceError, match=told):
        session(NUMBERS, printing("p")).execute_sql(statement)


@pytest.mark.parametrize(
    "query",
    ["WITH ('connector' = 'nope') AS SELECT 1 AS x", "WITH ('connector' = 'print', 'nope' = '1') AS SELECT 1 AS x"],
)
@pytest.mark.parametrize("word", ["CREATE TABLE q", "CREATE OR REPLACE TABLE p"])
def test_no_table_is_left_of_a_query_that_cannot_be_planned(word: str, query: str) -> None:
    tables = session(printing("p"))
    before = rows(tables, "SHOW CREATE TABLE p")
    with pytest.raises(ConfigurationError, match="nope"):
        tables.execute_sql(f"{word} {query}")
    assert tables.list_tables() == ["p"]
    assert rows(tables, "SHOW CREATE TABLE p") == before


def test_options_of_a_table_that_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    insert = "INSERT INTO p /*+ OPTIONS('print-identifier' = 'q') */ SELECT * FROM numbers WHERE n = 1"
    session(NUMBERS, printing("p")).execute_sql(insert).wait()
    assert capsys.readouterr().out == "q> +I[1, a]\n"


def test_results_are_tables_of_other_libraries() -> None:
    tables = session(NUMBERS, is_streaming=False)
    assert tables.execute_sql("SELECT n FROM numbers").to_arrow().to_pydict() == {"n": [1, 2]}
    assert tables.sql_query("SELECT s FROM numbers").to_pandas()["s"].tolist() == ["a", "b"]


@pytest.mark.parametrize("is_streaming", [True, False])
def test_instants_are_shown_in_the_time_zone_of_the_session(
    *, is_streaming: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = session(is_streaming=is_streaming, **{"table.local-time-zone": "Asia/Kolkata"})
    tables.execute_sql("SELECT TO_TIMESTAMP_LTZ(0, 3) AS t").print()
    *lines, end = capsys.readouterr().out.splitlines()
    assert "1970-01-01 05:30:00.000 |" in lines[3]
    assert end == ("Received a total of 1 row" if is_streaming else "1 row in set")


def test_columns_are_as_wide_as_their_types(capsys: pytest.CaptureFixture[str]) -> None:
    query = """SELECT CAST(a AS TINYINT) AS a, b, c, CAST(d AS DECIMAL(5, 2)) AS d, e
    FROM (VALUES (1, '漢字', DATE '2020-01-01', 1.5, TIMESTAMP '2020-01-01 00:00:00'),
           (2, REPEAT('x', 31), DATE '2020-01-02', -100.5, TIMESTAMP '2020-01-01 00:00:01')) AS t(a, b, c, d, e)"""
    session().execute_sql(query).print()
    border, head, _, *lines = capsys.readouterr().out.splitlines()
    assert [len(part) - 2 for part in border.strip("+").split("+")] == [2, 6, 30, 10, 8, 19]
    assert head == f"| op |      a |{'b':>31} |          c |        d |{'e':>20} |"
    assert lines[0] == f"| +I |      1 |{'漢字':>29} | 2020-01-01 |     1.50 | 2020-01-01 00:00:00 |"
    assert f" {'x' * 27}... |" in lines[1]


@pytest.mark.parametrize("key", ["execution.checkpointing.dir", "state.checkpoints.dir"])
def test_a_query_that_is_shown_begins_anew(tmp_path: Path, key: str) -> None:
    tables = session("CREATE TEMPORARY VIEW v AS SELECT * FROM (VALUES ('a', 1), ('a', 2)) AS t(k, n)")
    tables.execute_sql(f"SET '{key}' = '{tmp_path}/checkpoints'")
    for _ in range(2):
        assert rows(tables, "SELECT k, COUNT(*) FROM v GROUP BY k")[-1] == ("a", 2)
    assert rows(tables, "SELECT n FROM v") == [(1,), (2,)]
    assert not (tmp_path / "checkpoints").exists()
