"""``CALL``: arguments, results, and the procedures that are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import pytest

from headrace.common.errors import HeadraceError, InvalidProgramError
from headrace.table import TableEnvironment
from headrace.table.bind import SqlValidationError
from headrace.table.environment import procedures
from headrace.table.environment.compaction import _Compaction
from tests.table.connectors.session import rows, run, session


class Pair(NamedTuple):
    name: str
    n: int | None


@dataclass
class Sum:
    total: Decimal


def pairs(tables: TableEnvironment, name: str, n: int | None = None, times: int = 1) -> list[Pair]:
    assert isinstance(tables, TableEnvironment)
    return [Pair(name, n)] * times


def sums(a: Decimal, b: float = 0.5) -> Sum:
    return Sum(a + Decimal(str(b)))


def nothing(flag: bool) -> None:
    assert flag in (True, False)


def numbers(count: int) -> list[int]:
    return list(range(count))


def many(count: int) -> Sequence[int]:
    return tuple(range(count))


def few(count: int) -> tuple[Pair, ...] | None:
    return (Pair("few", count),) * count if count else None


def maybe(n: int) -> int | None:
    return n or None


def lazily(count: int) -> Iterator[Pair | None]:
    yield from (Pair("lazily", each) for each in range(count))


def wrong(n: int) -> list[Pair]:
    return (None, [None], ["a"])[n]  # type: ignore[return-value]


@pytest.fixture
def tables() -> TableEnvironment:
    made = session("CREATE DATABASE more")
    for function in (pairs, sums, nothing, numbers, many, few, maybe, lazily, wrong):
        made.create_procedure(function.__name__, function)
    made.create_procedure("more.numbers", numbers)
    return made


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("pairs('a')", [("a", None)]),
        ("pairs('a', 7, 2)", [("a", 7), ("a", 7)]),
        ("pairs(times => 1 + 1, name => UPPER('a'))", [("A", None), ("A", None)]),
        ("PAIRS(name => 'a', n => NULL, times => DEFAULT)", [("a", None)]),
        ("`default_catalog`.default_database.pairs('it''s')", [("it's", None)]),
        ("sums(1.25)", [(Decimal("1.75"),)]),
        ("sums(1, 2)", [(Decimal("3.0"),)]),
        ("nothing(1 > 2)", [("OK",)]),
        ("more.numbers(3)", [(0,), (1,), (2,)]),
        ("numbers(0)", []),
        ("many(2)", [(0,), (1,)]),
        ("few(2)", [("few", 2), ("few", 2)]),
        ("few(0)", []),
        ("maybe(1)", [(1,)]),
        ("maybe(0)", [(None,)]),
        ("lazily(2)", [("lazily", 0), ("lazily", 1)]),
    ],
)
def test_arguments_are_given_by_position_or_name(tables: TableEnvironment, call: str, given: list[object]) -> None:
    assert rows(tables, f"CALL {call}") == given


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("wrong(0)", "has given None, and its annotation says rows or values"),
        ("wrong(1)", "has given None for a row, and its annotation says 2 values"),
        ("wrong(2)", "has given 'a' for a row"),
    ],
)
def test_results_are_what_annotations_say(tables: TableEnvironment, call: str, said: str) -> None:
    with pytest.raises(InvalidProgramError, match=said):
        rows(tables, f"CALL {call}")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("pears('a')", r"procedure 'default_catalog.default_database.pears' does not exist.*did you mean"),
        ("list_catalogs()", r"does not exist.*CALL default_catalog.sys.list_catalogs"),
        ("nope.sys.list_catalogs()", "catalog 'nope' does not exist"),
        ("a.b.c.d()", "more than a catalog, a database and a name"),
        ("pairs()", r"argument 'name' is missing.*pairs\(name STRING, \[n BIGINT\], \[times BIGINT\]\)"),
        ("pairs('a', 1, 1, 1)", "4 arguments are given, and 3 are taken"),
        ("pairs('a', times => 1)", "all by name, or all by position"),
        ("pairs(nam => 'a')", r"has no parameter 'nam'.*did you mean"),
        ("pairs(name => 'a', NAME => 'b')", "'NAME' is given twice"),
        ("pairs(name => NULL)", "argument 'name' must not be NULL"),
        ("numbers('many')", "argument 'count' is CHAR.4., and takes BIGINT"),
        ("numbers(x)", "x"),
        ("numbers((SELECT 1))", "argument 'count' is no constant"),
    ],
)
def test_unknown_procedures_and_arguments_are_refused(tables: TableEnvironment, call: str, said: str) -> None:
    with pytest.raises(SqlValidationError, match=f"(?is){said}"):
        tables.execute_sql(f"CALL {call}")
    with pytest.raises(SqlValidationError):
        tables.validate_sql(f"CALL {call}")


def test_procedures_are_shown(tables: TableEnvironment) -> None:
    names = ("few", "lazily", "many", "maybe", "nothing", "numbers", "pairs", "sums", "wrong")
    assert rows(tables, "SHOW PROCEDURES") == [(name,) for name in names]
    assert rows(tables, "SHOW PROCEDURES NOT ILIKE 'N%'") == [(name,) for name in names if name[0] != "n"]
    assert rows(tables, "SHOW PROCEDURES IN more LIKE 'num%'") == [("numbers",)]
    assert ("compact",) in rows(tables, "SHOW PROCEDURES FROM default_catalog.sys")
    with pytest.raises(SqlValidationError, match=r"database 'default_catalog.nope' does not exist"):
        tables.execute_sql("SHOW PROCEDURES FROM nope")
    assert (tables.drop_procedure("more.numbers"), tables.drop_procedure("more.numbers")) == (True, False)
    assert rows(tables, "SHOW PROCEDURES FROM more") == []


def test_functions_that_are_no_procedures_are_refused(tables: TableEnvironment) -> None:
    def untyped(a) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        del a

    def several(*names: str) -> None: ...

    for function, said in ((untyped, "needs an annotation"), (several, "has a position"), (Pair, "is a function")):
        with pytest.raises(InvalidProgramError, match=said):
            tables.create_procedure("p", function)
    with pytest.raises(InvalidProgramError, match="exists already"):
        tables.create_procedure("pairs", pairs)
    with pytest.raises(InvalidProgramError, match="does not exist"):
        tables.create_procedure("nope.pairs", pairs)


def test_other_distributions_bring_procedures(tables: TableEnvironment) -> None:
    def broken() -> object:
        raise ImportError("no acme")

    entries = {
        "Numbers": SimpleNamespace(name="Numbers", value="acme:numbers", load=lambda: numbers),
        "broken": SimpleNamespace(name="broken", value="acme:broken", load=broken),
    }
    with patch.object(procedures, "installed_in", {procedures.GROUP: entries}.__getitem__):
        assert ("numbers",) in rows(tables, "SHOW PROCEDURES FROM sys")
        assert rows(tables, "CALL sys.numbers(2)") == [(0,), (1,)]
        with pytest.raises(SqlValidationError, match="cannot be loaded from acme:broken: ImportError: no acme"):
            tables.execute_sql("CALL sys.broken()")


# --- those that are there --------------------------------------------------------------------------------------------


def sales(path: Path, form: str, *more: str) -> str:
    options = ", ".join([f"'connector' = 'filesystem', 'path' = '{path}/sales', 'format' = '{form}'", *more])
    return f"CREATE TABLE sales (n INT, ds STRING) PARTITIONED BY (ds) WITH ({options})"


def visible(path: Path) -> list[str]:
    found = (file.relative_to(path / "sales") for file in (path / "sales").rglob("*") if file.is_file())
    return sorted(str(file.parent) for file in found if not any(part[0] in "._" for part in file.parts))


@pytest.mark.parametrize("form", ["json", "parquet", "csv"])
def test_files_are_compacted(tmp_path: Path, form: str) -> None:
    tables = session(sales(tmp_path, form), is_streaming=False)
    for n in range(3):
        run(tables, f"INSERT INTO sales VALUES ({n}, 'a'), ({n}, 'b b')")
    run(tables, "INSERT INTO sales VALUES (9, 'alone')")
    before = sorted(rows(tables, "SELECT * FROM sales"))
    ((files_before, files_after, bytes_before, bytes_after),) = rows(tables, "CALL sys.compact('sales')")
    assert (files_before, files_after) == (6, 2)
    assert bytes_before > 0
    assert bytes_after > 0
    assert sorted(rows(tables, "SELECT * FROM sales")) == before
    assert len(visible(tmp_path)) == 3
    assert not list((tmp_path / "sales").glob(".headrace-compaction*"))
    assert rows(tables, "CALL sys.compact(table_name => 'sales', file_size => '1 kb')") == [(0, 0, 0, 0)]


def test_what_is_overwritten_while_it_is_compacted_stays(tmp_path: Path) -> None:
    tables = session(sales(tmp_path, "json"), is_streaming=False)
    for n in range(2):
        run(tables, f"INSERT INTO sales VALUES ({n}, 'a')")
    copied = _Compaction._copy

    def overwritten(self: _Compaction, *given: object) -> None:
        copied(self, *given)  # type: ignore[arg-type]
        run(tables, "INSERT OVERWRITE sales VALUES (7, 'a')")

    with patch.object(_Compaction, "_copy", overwritten), pytest.raises(HeadraceError, match="was overwritten while"):
        tables.execute_sql("CALL sys.compact('sales')")
    assert rows(tables, "SELECT * FROM sales") == [(7, "a")]


def test_topics_are_compacted(tmp_path: Path) -> None:
    log = f"'connector' = 'log', 'path' = '{tmp_path}/log', 'topic' = 't', 'format' = 'json'"
    tables = session(f"CREATE TABLE t (n INT) WITH ({log}, 'auto-create.partitions' = '1')", is_streaming=False)
    for n in range(3):
        run(tables, f"INSERT INTO t VALUES ({n})")
    (found,) = rows(tables, "CALL sys.compact_topics('t')")
    assert found[2] > 0
    with pytest.raises(HeadraceError, match="is no table of files: its connector is 'log'"):
        tables.execute_sql("CALL sys.compact('t')")


def test_savepoints_are_triggered_listed_and_disposed_of(tmp_path: Path) -> None:
    log = f"'connector' = 'log', 'path' = '{tmp_path}/log', 'topic' = 't', 'format' = 'json'"
    tables = session(
        f"CREATE TABLE t (n INT) WITH ({log}, 'auto-create.partitions' = '1')",
        "CREATE TABLE u (n INT) WITH ('connector' = 'blackhole')",
        **{"execution.checkpointing.dir": f"{tmp_path}/checkpoints"},
    )
    job = tables.execute_sql("INSERT INTO u SELECT * FROM t").get_job_client()
    assert job is not None
    try:
        with pytest.raises(HeadraceError, match="where is the savepoint to be"):
            tables.execute_sql(f"CALL sys.trigger_savepoint('{job.get_job_id()}')")
        tables.get_config().set("execution.checkpointing.savepoint-dir", f"{tmp_path}/savepoints")
        assert rows(tables, "CALL sys.list_savepoints()") == []
        with pytest.raises(HeadraceError, match=r"there is no folder .*elsewhere"):
            tables.execute_sql(f"CALL sys.list_savepoints('{tmp_path}/elsewhere')")
        told = f"'abc' is neither the id of a job of this program, nor a checkpoint .*this program: {job.get_job_id()}"
        with pytest.raises(HeadraceError, match=told):
            tables.execute_sql("CALL sys.trigger_savepoint('abc')")
        ((first,),) = rows(tables, f"CALL sys.trigger_savepoint('{job.get_job_id()}')")
        ((second,),) = rows(
            tables, f"CALL sys.trigger_savepoint(job => '{tmp_path}/checkpoints', format_type => 'native')"
        )
    finally:
        job.cancel().result()
    listed = rows(tables, "CALL sys.list_savepoints()")
    assert {(row[0], row[1], row[4]) for row in listed} == {
        (first, str(job.get_job_id()), "canonical"),
        (second, str(job.get_job_id()), "native"),
    }
    assert rows(tables, f"CALL sys.dispose_savepoint('{first}')") == [("OK",)]
    assert [row[0] for row in rows(tables, f"CALL sys.list_savepoints('{tmp_path}/savepoints')")] == [second]


def test_catalogs_are_listed_and_checked(tmp_path: Path) -> None:
    tables = session(
        f"CREATE CATALOG shop WITH ('type' = 'file', 'path' = '{tmp_path}')",
        "CREATE TABLE shop.`default`.t (n INT) WITH ('connector' = 'blackhole')",
    )
    assert rows(tables, "CALL sys.list_catalogs()") == [
        ("default_catalog", "generic_in_memory", "default_database", 1, 0, False),
        ("shop", "file", "default", 1, 1, True),
    ]
    assert rows(tables, "CALL sys.check_catalog('shop')") == []
    (tmp_path / "default" / "tables" / "t.json").write_text("{")
    ((damaged, problem),) = rows(tables, "CALL shop.sys.check_catalog('shop')")
    assert (damaged, "is damaged" in problem) == ("shop.default.t", True)
