"""Expressions have the types that they have in Flink 2.3, and are refused where Flink refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.table.bind import BindContext, bind_query, result_schema
from headrace.table.catalog.manager import CatalogManager
from headrace.table.ddl import execute_ddl
from headrace.table.parse import SqlSource, parse_statement
from headrace.table.parse.source import SqlError
from headrace.table.parse.tree.statements import QueryStatement

ANSWERS = Path(__file__).parent / "flink_types.tsv"
"""An expression over the table in a line, and its type; nothing where it is refused."""

TABLE = """CREATE TABLE tt (
    b BOOLEAN, ti TINYINT, si SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m52 DECIMAL(5,2),
    c5 CHAR(5), v7 VARCHAR(7), s STRING, byt BYTES, b3 BINARY(3),
    dt DATE, tm TIME(0), t3 TIMESTAMP(3), t6 TIMESTAMP(6), z3 TIMESTAMP_LTZ(3), z6 TIMESTAMP_LTZ(6),
    ai ARRAY<INT>, an ARRAY<INT NOT NULL> NOT NULL, sa ARRAY<STRING>, mp MAP<STRING, INT>, r ROW<x INT, y STRING>,
    inn INT NOT NULL, lnn BIGINT NOT NULL, dnn DOUBLE NOT NULL, snn STRING NOT NULL, cnn CHAR(3) NOT NULL,
    vnn VARCHAR(4) NOT NULL, tnn TIMESTAMP(3) NOT NULL, dtn DATE NOT NULL, znn TIMESTAMP_LTZ(3) NOT NULL,
    ms MULTISET<STRING>, mnn DECIMAL(10,3) NOT NULL, anr ARRAY<ROW<a INT, b STRING>>, bnn BOOLEAN NOT NULL,
    byn BYTES NOT NULL
)"""


@pytest.fixture(scope="module")
def catalogs() -> CatalogManager:
    found = CatalogManager()
    execute_ddl(BindContext(SqlSource(TABLE), found), parse_statement(TABLE))
    return found


def answers() -> dict[str, str]:
    return dict(line.split("\t") for line in ANSWERS.read_text().splitlines())


def types_of(catalogs: CatalogManager, expressions: Sequence[str]) -> list[str]:
    items = ", ".join(f"{each} AS e{place}" for place, each in enumerate(expressions))
    text = f"SELECT {items} FROM tt"
    statement = parse_statement(text)
    assert isinstance(statement, QueryStatement)
    relation = bind_query(BindContext(SqlSource(text), catalogs), statement.query)
    return [column.type_text for column in result_schema(relation)]


def is_refused(catalogs: CatalogManager, expression: str) -> bool:
    try:
        types_of(catalogs, [expression])
    except SqlError:
        return True
    return False


def test_types_are_those_of_flink(catalogs: CatalogManager) -> None:
    taken = {expression: kind for expression, kind in answers().items() if kind}
    found = dict(zip(taken, types_of(catalogs, list(taken)), strict=True))
    assert {each: kind for each, kind in found.items() if kind != taken[each]} == {}


def test_what_flink_refuses_is_refused(catalogs: CatalogManager) -> None:
    refused = [expression for expression, kind in answers().items() if not kind]
    assert [expression for expression in refused if not is_refused(catalogs, expression)] == []
