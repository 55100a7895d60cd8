"""The API of tables: names, settings, sets of statements, and what results give."""

from __future__ import annotations

import pytest

from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.table import TableEnvironment
from tests.table.connectors.session import rows, session

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
        ConfigurationError, match=r"table\.exec\.stat\.ttl is no setting .* mean table\.exec\.state\.ttl"
    ):
        tables.execute_sql("SET 'table.exec.stat.ttl' = '1 h'")
    with pytest.raises(ConfigurationError, match=r"table\.optimiser\.x is no setting"):
        tables.get_config().set("table.optimiser.x", "1")
    tables.get_config().set("paralelism.default", "1")
    with pytest.raises(ConfigurationError, match=r"did you mean parallelism\.default"):
        rows(tables, "SELECT 1")


def test_results_are_tables_of_other_libraries() -> None:
    tables = session(NUMBERS, is_streaming=False)
    assert tables.execute_sql("SELECT n FROM numbers").to_arrow().to_pydict() == {"n": [1, 2]}
    assert tables.sql_query("SELECT s FROM numbers").to_pandas()["s"].tolist() == ["a", "b"]
