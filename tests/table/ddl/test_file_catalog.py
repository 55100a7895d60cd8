"""Catalogs in files: what is kept, by whom it is seen, and what is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.table import EnvironmentSettings, TableEnvironment
from headrace.table.bind import SqlValidationError
from headrace.table.ddl.file_catalog import CatalogError
from tests.table.connectors.session import rows, session

TABLE = """
CREATE TABLE `odd name` (
    id BIGINT NOT NULL COMMENT 'a key', price DECIMAL(10, 2), at_ TIMESTAMP(3),
    tags ARRAY<ROW<a INT, b STRING NOT NULL>>,
    part MAP<STRING, INT>, double_price AS price * 2, `offset` BIGINT METADATA VIRTUAL,
    zoned TIMESTAMP_LTZ(3) METADATA FROM 't',
    WATERMARK FOR at_ AS at_ - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'odd' PARTITIONED BY (price) WITH ('connector' = 'blackhole', 'x' = 'a''b')
"""


def catalog(path: Path) -> str:
    return f"CREATE CATALOG shop WITH ('type' = 'file', 'path' = '{path}/shop')"


def test_objects_outlast_the_session(tmp_path: Path) -> None:
    first = session(
        catalog(tmp_path), "USE CATALOG shop", "CREATE DATABASE more COMMENT 'm' WITH ('a' = 'b')", "USE more"
    )
    for statement in (
        TABLE,
        "CREATE VIEW v AS SELECT id FROM `odd name`",
        "CREATE FUNCTION F AS 'm.f' LANGUAGE PYTHON",
    ):
        first.execute_sql(statement)
    second = session(catalog(tmp_path), "USE CATALOG shop")
    assert second.list_databases() == ["default", "more"]
    second.use_database("more")
    assert (second.list_tables(), second.list_views()) == (["odd name", "v"], ["v"])
    for show in ("SHOW CREATE TABLE `odd name`", "SHOW CREATE VIEW v", "DESCRIBE `odd name`", "SHOW USER FUNCTIONS"):
        assert rows(second, show) == rows(first, show)
    second.execute_sql("ALTER TABLE `odd name` SET ('y' = '1')")
    second.execute_sql("DROP VIEW v")
    second.execute_sql("DROP FUNCTION f")
    assert first.list_tables() == ["odd name"]
    assert first.list_user_defined_functions() == []
    assert "'y' = '1'" in rows(first, "SHOW CREATE TABLE `odd name`")[0][0]
    first.use_database("default")
    first.execute_sql("DROP DATABASE more CASCADE")
    assert second.list_databases() == ["default"]


def test_of_two_that_create_a_table_one_is_refused(tmp_path: Path) -> None:
    one, other = (session(catalog(tmp_path), "USE CATALOG shop") for _ in range(2))
    kept = one.catalogs.catalogs["shop"], other.catalogs.catalogs["shop"]
    assert [each.table("default", "t") for each in kept] == [None, None]
    one.execute_sql("CREATE TABLE t (n INT) WITH ('connector' = 'blackhole')")
    found = kept[0].table("default", "t")
    assert found is not None
    with pytest.raises(CatalogError, match="t has just been created by another process"):
        kept[1].put_table("default", "t", found)
    with pytest.raises(SqlValidationError, match="already exists"):
        other.execute_sql("CREATE TABLE t (n INT) WITH ('connector' = 'blackhole')")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is damaged"),
        (b"\xff\xfe\0", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b'{"format": 1, "object": {"is": "CatalogTable"}}', "is damaged"),
        (
            b'{"format": 1, "object": {"is": "Database"}}',
            "is damaged .*a Database, and not a CatalogTable or CatalogView",
        ),
        (b'{"format": 2}', "has format 2, and this version reads format 1"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, content: bytes, told: str) -> None:
    tables = session(catalog(tmp_path), "USE CATALOG shop", "CREATE TABLE t (n INT) WITH ('connector' = 'blackhole')")
    (file,) = tmp_path.glob("shop/default/tables/t.json")
    file.write_bytes(content)
    with pytest.raises(CatalogError, match=rf"t\.json {told}"):
        tables.execute_sql("DESCRIBE t")


@pytest.mark.parametrize("name", ["..", ".", "...", "a/b", "%2E", "ü 漢", "t.json"])
def test_whatever_the_name_files_are_in_the_folder(tmp_path: Path, name: str) -> None:
    one, other = (session(catalog(tmp_path), "USE CATALOG shop") for _ in range(2))
    one.execute_sql(f"CREATE DATABASE `{name}`")
    one.execute_sql(f"CREATE TABLE `{name}`.`{name}` (n INT) WITH ('connector' = 'blackhole')")
    assert [file.name for file in tmp_path.iterdir()] == ["shop"]
    assert set(other.list_databases()) == {"default", name}
    other.use_database(name)
    assert other.list_tables() == [name]
    one.execute_sql(f"DROP DATABASE `{name}` CASCADE")
    assert [file.name for file in tmp_path.glob("shop/*")] == ["default"]


def test_what_a_crash_leaves_of_a_database_comes_to_light_or_goes_with_it(tmp_path: Path) -> None:
    tables = session(catalog(tmp_path), "USE CATALOG shop", "CREATE DATABASE more")
    tables.execute_sql("CREATE TABLE more.t (n INT) WITH ('connector' = 'blackhole')")
    unfinished = tmp_path / "shop/more/tables" / f".u.json.{'0' * 32}.tmp"
    unfinished.write_text("{")
    dying = patch("headrace.table.ddl.file_catalog.remove", side_effect=[True, KeyboardInterrupt])
    with dying, pytest.raises(KeyboardInterrupt):
        tables.execute_sql("DROP DATABASE more CASCADE")
    assert tables.list_databases() == ["default", "more"]
    tables.execute_sql("DROP DATABASE more CASCADE")
    tables.execute_sql("CREATE DATABASE more")
    tables.use_database("more")
    assert tables.list_tables() == []


def test_a_session_begins_with_the_catalogs_of_the_one_before(tmp_path: Path) -> None:
    settings = {"table.catalog-store.kind": "file", "table.catalog-store.file.path": f"{tmp_path}/store"}

    def begun() -> TableEnvironment:
        return TableEnvironment.create(EnvironmentSettings(configuration=Configuration.from_dict(settings)))

    first = begun()
    first.execute_sql(catalog(tmp_path))
    first.execute_sql("CREATE TABLE shop.`default`.t (n INT) WITH ('connector' = 'blackhole')")
    second = begun()
    assert second.list_catalogs() == ["default_catalog", "shop"]
    second.use_catalog("shop")
    assert second.list_tables() == ["t"]
    first.execute_sql("DROP CATALOG shop")
    assert begun().list_catalogs() == ["default_catalog"]
    foreign = {"is": "CatalogDescription", "options": [["type", "jdbc"]]}
    (tmp_path / "store/x.json").write_text(json.dumps({"format": 1, "object": foreign}))
    with pytest.raises(ConfigurationError, match="catalog 'x' of the catalog store is of type 'jdbc'"):
        begun()
    del settings["table.catalog-store.file.path"]
    with pytest.raises(ConfigurationError, match=r"set table\.catalog-store\.file\.path"):
        begun()


def test_wrong_catalogs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SqlValidationError, match=r"needs a folder(.|\n)*CREATE CATALOG"):
        session("CREATE CATALOG c WITH ('type' = 'file')")
    tables = session(catalog(tmp_path), "USE CATALOG shop")
    (tmp_path / "file").touch()
    with pytest.raises(CatalogError, match="cannot be written"):
        session(f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{tmp_path}/file')")
    with pytest.raises(CatalogError, match="make it temporary"):
        tables.create_view("w", tables.sql_query("SELECT 1 AS n"))
