"""Errors say what is wrong, where, and what to write."""

from __future__ import annotations

import pytest

from headrace.table.bind import BindContext, SqlValidationError, bind_query
from headrace.table.catalog.manager import CatalogManager
from headrace.table.ddl import execute_ddl
from headrace.table.parse import SqlSource, parse_statement
from headrace.table.parse.tree.definitions import Statement
from headrace.table.parse.tree.statements import QueryStatement

SETUP = (
    "CREATE TABLE bids (id INT, item STRING, price DECIMAL(10, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts)",
    "CREATE TABLE items (item STRING, name STRING)",
)


@pytest.fixture(scope="module")
def catalogs() -> CatalogManager:
    found = CatalogManager()
    for text in SETUP:
        execute_ddl(BindContext(SqlSource(text), found), parse_statement(text))
    return found


def error_of(catalogs: CatalogManager, text: str) -> list[str]:
    with pytest.raises(SqlValidationError) as caught:
        bind(BindContext(SqlSource(text), catalogs), parse_statement(text))
    return str(caught.value).splitlines()


def bind(context: BindContext, statement: Statement) -> None:
    if isinstance(statement, QueryStatement):
        bind_query(context, statement.query)
    else:
        execute_ddl(context, statement)


def test_an_error_shows_its_place(catalogs: CatalogManager) -> None:
    assert error_of(catalogs, "SELECT id,\n  prise FROM bids") == [
        "column 'prise' not found in any table at line 2, column 3",
        "    prise FROM bids",
        "    ^^^^^",
        "Did you mean price?",
    ]


@pytest.mark.parametrize(
    ("text", "reason", "advice"),
    [
        (
            "SELECT * FROM bid",
            "table or view 'default_catalog.default_database.bid' does not exist",
            "Did you mean bids?",
        ),
        ("SELECT ID FROM bids", "column 'ID' not found in any table", "Did you mean id?"),
        ("SELECT b.prise FROM bids b", "column 'prise' not found in table 'b'", "Did you mean price?"),
        ("SELECT i.item FROM bids b", "table 'i' not found", "FROM names b."),
        ("SELECT i.* FROM bids b", "table 'i' not found", "FROM names b."),
        ("SELECT id AS n FROM bids WHERE n = 1", "column 'n' not found in any table", "repeat its expression here"),
        ("SELECT item FROM bids b, items i", "column 'item' is ambiguous", "Write b.item or i.item."),
        ("SELECT UPER(item) FROM bids", "no function 'UPER' is known", "Did you mean UPPER?"),
        ("SELECT LEN(item) FROM bids", "no function 'LEN' is known", "Write CHAR_LENGTH(text)."),
        ("SELECT item + 1 FROM bids", "cannot apply '+' to STRING and INT NOT NULL", "It takes number + number"),
        ("SELECT item, id FROM bids GROUP BY item", "expression 'id' is not being grouped", "or write MAX(id)."),
        ("SELECT id FROM bids WHERE COUNT(*) > 1", "COUNT is an aggregate, which WHERE cannot have", ""),
        ("SELECT id FROM bids WHERE id", "WHERE must be a condition, and not INT", ""),
        ("SELECT NULL", "illegal use of NULL", "Write CAST(NULL AS type)."),
        ("SELECT id FROM bids JOIN items", "INNER JOIN needs ON or USING", "Or write CROSS JOIN."),
        ("SELECT SUM(id) OVER w FROM bids WINDOW v AS ()", "window 'w' not found", ""),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(id), INTERVAL '1' DAY))",
            "TUMBLE requires a column",
            "WATERMARK FOR t.",
        ),
        ("SELECT * FROM TABLE(TUMBLE(bids, DESCRIPTOR(ts), INTERVAL '1' DAY))", "expects TABLE name", "TABLE bids."),
        ("SELECT PERCENTILE(id, 2.0) FROM bids", "PERCENTILE does not take (INT, DECIMAL(2, 1) NOT NULL)", ""),
        ("SELECT * FROM (SELECT id, id FROM bids)", "column 'id' is ambiguous", "other names by AS."),
        ("SELECT * FROM (VALUES (1, 2)) AS t(a, a)", "a column name is given twice", ""),
        ("SELECT SUM(id) OVER (ORDER BY ts ROWS 1.5 PRECEDING) FROM bids", "ROWS counts rows", ""),
        ("SELECT SUM(id) OVER (ORDER BY item RANGE 1 PRECEDING) FROM bids", "ORDER BY of a number or a time", ""),
        ("ALTER VIEW bids RENAME TO b", "view 'default_catalog.default_database.bids' does not exist", ""),
        ("CREATE TABLE x LIKE bids (INCLUDING ALL INCLUDING ALL)", "an option of LIKE is given twice", ""),
        ("CREATE TABLE x (a TEXT)", "unknown type 'TEXT'", "Write STRING."),
        ("CREATE TABLE x (a BIGNIT)", "unknown type 'BIGNIT'", "Did you mean BIGINT?"),
        ("CREATE TABLE x (a INT, WATERMARK FOR b AS a)", "no column 'b' to be the row time", ""),
        (
            "CREATE TABLE x (a BIGINT, WATERMARK FOR a AS a)",
            "a row time is of type",
            "TO_TIMESTAMP_LTZ(milliseconds, 3)",
        ),
        ("CREATE TABLE x (a STRING, WATERMARK FOR a AS a)", "a row time is of type", "TO_TIMESTAMP(text)"),
        ("CREATE TABLE x (a INT, PRIMARY KEY (a))", "PRIMARY KEY is not enforced", "NOT ENFORCED"),
        ("CREATE TABLE bids (a INT)", "'default_catalog.default_database.bids' already exists", "IF NOT EXISTS"),
    ],
)
def test_what_is_wrong_and_what_to_write(catalogs: CatalogManager, text: str, reason: str, advice: str) -> None:
    lines = error_of(catalogs, text)
    assert reason in lines[0]
    assert advice in lines[-1]
