"""Conditions and limits in scans: what is read, what plans show, and that results stay what they are."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common.errors import HeadraceError
from headrace.formats.parquet import ParquetFormat
from headrace.formats.statistics import Statistics
from headrace.storage.files import InputFile
from headrace.table import TableEnvironment
from headrace.table.environment.statements import bound_statements
from headrace.table.parse.parser import parse_statement
from headrace.table.parse.source import SqlSource
from headrace.table.physical.basic import TableSourceScan
from tests.table.connectors.session import rows, run, session


def partitioned(path: Path, fmt: str = "parquet", **settings: bool) -> TableEnvironment:
    tables = session(
        "CREATE TABLE t (a INT, b STRING, d STRING, h INT) PARTITIONED BY (d, h) WITH ("
        f"'connector'='filesystem', 'path'='{path}', 'format'='{fmt}')",
        **settings,
    )
    run(
        tables,
        "INSERT INTO t VALUES (1, 'x', 'p', 1), (2, 'y', 'p', 2), (3, 'z', 'q', 1), (4, 'z', CAST(NULL AS STRING), 1)",
    )
    return tables


def scans(tables: TableEnvironment, query: str) -> list[str]:
    """What the scans of a plan are told, as real Flink shows it."""
    start = "TableSourceScan(table=[[default_catalog, default_database, "
    physical = tables.explain_sql(query).split("== Optimized")[1]
    return [line.split(start)[1].split("]], fields=")[0] + "]" for line in physical.splitlines() if start in line]


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize(
    ("condition", "partitions", "told", "found"),
    [
        ("d = 'p'", ["d=p/h=1", "d=p/h=2"], "partitions=[{d=p, h=1}, {d=p, h=2}], project=[a], metadata=[]", [1, 2]),
        (
            "d IN ('p', 'q') AND h > 1 AND a + 1 > 1",
            ["d=p/h=2"],
            "partitions=[{d=p, h=2}], filter=[>(+(a, 1), 1)]",
            [2],
        ),
        ("d IS NULL", ["d=__HIVE_DEFAULT_PARTITION__/h=1"], "partitions=[{d=null, h=1}]", [4]),
        ("d = 'p' AND h = 2 AND d = b", ["d=p/h=2"], "partitions=[{d=p, h=2}], filter=[=(d, b)]", []),
    ],
)
def test_partitions_are_pruned(
    tmp_path: Path, condition: str, partitions: list[str], told: str, found: list[int], is_streaming: bool
) -> None:
    tables = partitioned(tmp_path, is_streaming=is_streaming)
    for file in tmp_path.rglob("part*"):
        if str(file.parent.relative_to(tmp_path)) not in partitions:
            file.write_bytes(b"nobody reads it")
    query = f"SELECT a FROM t WHERE {condition}"
    assert scans(tables, query)[0].startswith(f"t, {told}")
    assert sorted(rows(tables, query)) == [(each,) for each in found]


def test_partitions_of_several_scans_and_of_none(tmp_path: Path) -> None:
    tables = partitioned(tmp_path, "csv")
    both = "SELECT a FROM t WHERE d = 'p' AND h = 1 UNION ALL SELECT a FROM t WHERE d = 'q'"
    assert scans(tables, both) == ["t, partitions=[{d=p, h=1}, {d=q, h=1}], project=[a, d, h], metadata=[]]"] * 2
    assert sorted(rows(tables, both)) == [(1,), (3,)]
    assert scans(tables, "SELECT a FROM t WHERE d = 'r'") == []
    assert rows(tables, "SELECT a FROM t WHERE d = 'r'") == []
    assert rows(tables, "SELECT t.a FROM t JOIN t AS u ON t.a = u.a WHERE t.d = 'q' AND u.h = 1") == [(3,)]


GROUPS = [(number, f"{number:02}", number / 4 if number % 3 else None) for number in range(40)]


def in_groups(path: Path, *, breaks: int = -1) -> TableEnvironment:
    """A table of one file with ten rows in a row group, one of which may be broken."""
    ids, names, prices = zip(*GROUPS, strict=True)
    columns = {"id": pa.array(ids, pa.int32()), "name": pa.array(names), "price": pa.array(prices, pa.float64())}
    pq.write_table(pa.table(columns), path / "one.parquet", row_group_size=10, compression="none")
    if breaks >= 0:
        metadata = pq.read_metadata(path / "one.parquet").row_group(breaks).column(0)
        content = bytearray((path / "one.parquet").read_bytes())
        place = metadata.dictionary_page_offset or metadata.data_page_offset
        content[place : place + metadata.total_compressed_size] = b"\xff" * metadata.total_compressed_size
        (path / "one.parquet").write_bytes(content)
    where = f"'connector'='filesystem', 'path'='{path}', 'format'='parquet'"
    return session(f"CREATE TABLE t (id INT, name STRING, price DOUBLE) WITH ({where})")


@pytest.mark.parametrize(
    ("condition", "is_read"),
    [
        ("id >= 20", False),
        ("name < '10' AND id + 1 > 5", False),
        ("id IN (3, 33)", False),
        ("id < 3 OR id = 39 AND price IS NOT NULL", False),
        ("price > 5", False),
        ("NOT (id < 30)", False),
        ("id < 30 OR name LIKE '3%'", True),
        ("CAST(id AS STRING) = '39'", True),
        ("price <> 3.5 AND id > 3", True),
    ],
)
def test_row_groups_are_skipped_by_their_statistics(tmp_path: Path, condition: str, is_read: bool) -> None:
    tables = in_groups(tmp_path, breaks=1)
    query = f"SELECT COUNT(*) FROM t WHERE {condition}"
    if is_read:
        with pytest.raises(HeadraceError, match=r"one\.parquet"):
            rows(tables, query)
    else:
        assert rows(tables, query)
    assert len(scans(tables, query)) == 1
    tables.get_config().set("table.optimizer.source.predicate-pushdown-enabled", "false")
    assert "filter" not in scans(tables, query)[0]
    tables.get_config().set("table.optimizer.source.predicate-pushdown-enabled", "true")
    assert ", filter=[" in scans(tables, query)[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_conditions_give_the_same_rows_with_and_without_statistics(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    values = {"id": range(-1, 41), "name": [f"'{number:02}'" for number in range(0, 40, 7)], "price": [0, 2.5, 9.75]}

    def condition(depth: int) -> str:
        kind = chance.randrange(5 if depth else 2)
        if kind >= 2:
            parts = (condition(depth - 1), condition(depth - 1))
            return ["NOT ({0})", "({0} AND {1})", "({0} OR {1})"][kind - 2].format(*parts)
        column = chance.choice(sorted(values))
        if kind == 1:
            return f"{column} IS {chance.choice(['', 'NOT '])}NULL"
        return f"{column} {chance.choice(['=', '<>', '<', '<=', '>', '>='])} {chance.choice(list(values[column]))}"

    tables = in_groups(tmp_path)
    text = condition(3)
    everything = ", ".join(
        f"({id}, '{name}', {'CAST(NULL AS DOUBLE)' if price is None else f'CAST({price} AS DOUBLE)'})"
        for id, name, price in GROUPS
    )
    expected = rows(tables, f"SELECT id FROM (VALUES {everything}) AS t(id, name, price) WHERE {text}")
    assert sorted(rows(tables, f"SELECT id FROM t WHERE {text}")) == sorted(expected)


@pytest.mark.parametrize(
    ("columns", "condition", "stored"),
    [
        ("size BIGINT METADATA FROM 'file.size'", "size > 9", pa.array([1, 2])),
        ("size FLOAT", "size = CAST(0.1 AS FLOAT)", pa.array([0.1, 0.2])),
    ],
)
def test_statistics_of_other_values_than_a_query_sees_skip_nothing(
    tmp_path: Path, columns: str, condition: str, stored: pa.Array
) -> None:
    pq.write_table(pa.table({"id": [1, 2], "size": stored}), tmp_path / "one.parquet", row_group_size=1)
    where = f"'connector'='filesystem', 'path'='{tmp_path}', 'format'='parquet'"
    tables = session(f"CREATE TABLE t (id BIGINT, {columns}) WITH ({where})")
    assert (1,) in rows(tables, f"SELECT id FROM t WHERE {condition}")


def test_a_limit_ends_reading(tmp_path: Path) -> None:
    tables = in_groups(tmp_path, breaks=2)
    query = "SELECT id FROM t LIMIT 3 OFFSET 2"
    assert scans(tables, query) == ["t, project=[id], metadata=[], limit=[5]]"]
    assert len(rows(tables, query)) == 3
    assert "limit" not in scans(tables, "SELECT id FROM t WHERE id > 3 LIMIT 3")[0]
    tables.execute_sql("CREATE TABLE g (a INT) WITH ('connector'='datagen', 'number-of-rows'='1000000000')")
    assert scans(tables, "SELECT a FROM g LIMIT 3") == ["g, limit=[3]]"]
    assert len(rows(tables, "SELECT a FROM g LIMIT 3")) == 3


def test_files_are_chosen_by_their_paths(tmp_path: Path) -> None:
    for name in ("old.csv", "new.csv", "new.txt"):
        (tmp_path / name).write_text(f"{name}\n")
    where = f"'connector'='filesystem', 'path'='{tmp_path}', 'format'='csv', 'source.path.regex-pattern'="
    tables = session(
        f"CREATE TABLE t (a STRING) WITH ({where}'.*/new.*csv')", f"CREATE TABLE u (a INT) WITH ({where}'(')"
    )
    assert rows(tables, "SELECT a FROM t") == [("new.csv",)]
    with pytest.raises(HeadraceError, match="a regular expression"):
        rows(tables, "SELECT a FROM u")


WHOLE = "SELECT COUNT(*), COUNT(n), MIN(n), MAX(n), MAX(d) FROM t"


@pytest.mark.parametrize(
    ("query", "is_read"),
    [
        (WHOLE, False),
        ("SELECT COUNT(*) + 1, 'x' FROM (SELECT n AS m, s FROM t)", False),
        ("SELECT MAX(s) FROM t", True),
        ("SELECT MAX(n + 1) FROM t", True),
        ("SELECT SUM(n) FROM t", True),
        ("SELECT COUNT(DISTINCT n) FROM t", True),
        ("SELECT COUNT(*) FILTER (WHERE n > 1) FROM t", True),
        ("SELECT COUNT(*) FROM t WHERE n > 1", True),
        ("SELECT n, COUNT(*) FROM t GROUP BY n", True),
    ],
)
def test_aggregates_of_whole_tables_are_taken_from_statistics(tmp_path: Path, query: str, is_read: bool) -> None:
    days = [date(2024, 1, day) for day in (3, 1, 2)]
    columns = {"n": pa.array([3, None, 7]), "s": pa.array(["b", "a", None]), "d": pa.array(days)}
    for name in ("a", "b"):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    where = f"'connector'='filesystem', 'path'='{tmp_path}', 'format'='parquet'"
    tables = session(f"CREATE TABLE t (n BIGINT, s STRING, d DATE) WITH ({where})", is_streaming=False)
    expected = rows(tables, query)
    if query == WHOLE:
        assert expected == [(6, 4, 3, 7, date(2024, 1, 3))]
    tables.get_config().set("table.optimizer.source.aggregate-pushdown-enabled", "false")
    assert rows(tables, query) == expected
    tables.get_config().set("table.optimizer.source.aggregate-pushdown-enabled", "true")
    source = SqlSource(query)
    (plan,) = tables.planner().plan(bound_statements(tables, parse_statement(source.text), source))
    assert any(isinstance(node, TableSourceScan) for node in plan.walk()) is is_read


def test_the_footers_of_a_table_are_read_once_for_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3], "b": [1, 1, 2]}), tmp_path / "rows.parquet")
    tables = session(
        f"CREATE TABLE t (a BIGINT, b BIGINT) WITH ('connector'='filesystem', 'path'='{tmp_path}', 'format'='parquet')",
        is_streaming=False,
    )
    asked, statistics = list[str](), ParquetFormat.statistics

    def counted(self: ParquetFormat, file: InputFile) -> Statistics:
        asked.append(file.path)
        return statistics(self, file)

    monkeypatch.setattr(ParquetFormat, "statistics", counted)
    query = "SELECT x.a, y.b FROM t AS x JOIN t AS y ON x.a = y.b WHERE x.b = 1 AND y.a > 1"
    assert sorted(rows(tables, query)) == [(1, 1), (2, 2)]
    assert len(asked) == 1


@pytest.mark.parametrize("left_out", [(7,), (7, 8, 9), tuple(range(6, 30)), ()])
def test_rows_are_the_same_whether_few_or_nearly_all_meet_a_condition(
    tmp_path: Path, left_out: tuple[int, ...]
) -> None:
    numbers = range(50)
    texts = [None if number % 5 == 0 else "x" * (number % 3) for number in numbers]
    prices = [Decimal(number).scaleb(-2) for number in numbers]
    table = pa.table({"n": pa.array(numbers, pa.int64()), "s": texts, "d": pa.array(prices, pa.decimal128(9, 2))})
    pq.write_table(table, tmp_path / "rows.parquet")
    tables = session(
        "CREATE TABLE t (n BIGINT, s STRING, d DECIMAL(9, 2)) WITH ("
        f"'connector'='filesystem', 'path'='{tmp_path}', 'format'='parquet')"
    )
    condition = f"n NOT IN ({', '.join(map(str, (99, *left_out)))})"
    found = rows(tables, f"SELECT d, CHAR_LENGTH(s) AS c, s FROM t WHERE {condition}")
    kept = [number for number in numbers if number not in left_out]
    lengths = [None if (text := texts[number]) is None else len(text) for number in kept]
    assert found == [(prices[number], length, texts[number]) for number, length in zip(kept, lengths, strict=True)]
