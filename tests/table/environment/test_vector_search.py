"""``VECTOR_SEARCH`` over tables that are read as a whole: rows, plans as Flink shows them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.table import TableEnvironment
from headrace.table.logical.errors import PlanningError, TableDefinitionError
from headrace.table.parse.source import SqlError
from tests.table.connectors.session import rows, session

QUERIES = (
    "CREATE TEMPORARY VIEW q AS SELECT * FROM (VALUES (1, ARRAY[CAST(1 AS FLOAT), CAST(0.5 AS FLOAT)]), "
    "(2, CAST(NULL AS ARRAY<FLOAT>))) AS t(a, d)"
)
SEARCH = "LATERAL TABLE(VECTOR_SEARCH(TABLE v, DESCRIPTOR(g), {}, {}))"
BY_ROW = SEARCH.format("q.d", 2)


@pytest.fixture
def tables(tmp_path: Path) -> TableEnvironment:
    lines = ['{"e":1,"g":[1,0]}', '{"e":2,"g":[0,1]}', '{"e":3,"g":[1,1]}', '{"e":4,"g":null}']
    (tmp_path / "v.json").write_text("\n".join(lines))
    options = f"WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path / 'v.json'}')"
    return session(
        f"CREATE TABLE v (e INT, g ARRAY<FLOAT>) {options}",
        "CREATE TABLE k (e INT, g ARRAY<FLOAT>, PRIMARY KEY (e) NOT ENFORCED) "
        "WITH ('connector' = 'database', 'connect' = 'sqlite3.connect', 'table-name' = 't')",
        "CREATE TABLE u (e INT, g AS ARRAY[CAST(e AS FLOAT)]) WITH ('connector' = 'datagen')",
        QUERIES,
    )


BY_NAME = (
    "TABLE(VECTOR_SEARCH(TOP_K => 2, COLUMN_TO_QUERY => ARRAY[0.5, 2.0], SEARCH_TABLE => TABLE v, "
    "COLUMN_TO_SEARCH => DESCRIPTOR(g), CONFIG => MAP['metric', 'dot-product', 'async', 'false']))"
)
OF_QUERY = "VECTOR_SEARCH((SELECT e + 1 AS e1, g FROM v WHERE e > 1), DESCRIPTOR(g), ARRAY[0.5, 2.0], 2)"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (f"SELECT a, e, score FROM q LEFT JOIN {BY_ROW} ON TRUE", [(1, 3, 0.94868), (1, 1, 0.89443), (2, None, None)]),
        (f"SELECT a, e, score FROM q LEFT JOIN {BY_ROW} ON e < 3", [(1, 1, 0.89443), (2, None, None)]),
        (f"SELECT a, e, score FROM q, {BY_ROW} WHERE score > 0.9", [(1, 3, 0.94868)]),
        (
            f"SELECT a, e, score FROM q, {SEARCH.format('ARRAY[q.a, 2]', '2, MAP[$metric$, $euclidean$]')}",
            [(1, 3, 0.5), (1, 2, 1 / 3), (2, 3, 1 / 3), (2, 1, 1 / 6)],
        ),
        (f"SELECT e, score FROM {BY_NAME}", [(3, 2.5), (2, 2.0)]),
        (f"SELECT e1, score FROM {OF_QUERY}", [(3, 0.97014), (4, 0.85749)]),
        (f"SELECT e FROM q, {SEARCH.format('ARRAY[0.5, 2.0]', 1)}", [(2,), (2,)]),
    ],
)
def test_the_most_similar_rows_are_found(tables: TableEnvironment, query: str, wanted: list[Any]) -> None:
    found = rows(tables, query.replace("$", "'"))
    assert [tuple(map(_rounded, row)) for row in found] == [tuple(map(_rounded, row)) for row in wanted]


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


PLANS = {
    f"SELECT * FROM q, {BY_ROW[:-2]}, MAP['metric', 'cosine']))": """
+- LogicalTableFunctionScan(invocation=[VECTOR_SEARCH(TABLE(#0), DESCRIPTOR(_UTF-16LE'g'), $cor0.d, 2, \
MAP(_UTF-16LE'metric', _UTF-16LE'cosine'))], rowType=[RecordType(INTEGER e, FLOAT ARRAY g, DOUBLE score)])
---
VectorSearchTableFunction(table=[default_catalog.default_database.v], joinType=[InnerJoin], columnToSearch=[g], \
columnToQuery=[EXPR$1], topK=[2], config=[{metric=cosine}], select=[EXPR$0, EXPR$1, e, g, score])
""",
    "SELECT * FROM VECTOR_SEARCH(TABLE v, DESCRIPTOR(g), ARRAY[1.5, 2.0], 10)": """
VECTOR_SEARCH(TABLE(#0), DESCRIPTOR(_UTF-16LE'g'), ARRAY(1.5:DECIMAL(2, 1), 2.0:DECIMAL(2, 1)), 10)
---
Calc(select=[e, g, score])
+- VectorSearchTableFunction(table=[default_catalog.default_database.v], joinType=[InnerJoin], columnToSearch=[g], \
columnToQuery=[$f0], topK=[10], select=[$f0, e, g, score])
   +- Calc(select=[ARRAY(1.5:DECIMAL(2, 1), 2.0:DECIMAL(2, 1)) AS $f0])
      +- Values(type=[RecordType(INTEGER ZERO)], tuples=[[{ 0 }]])
""",
}


@pytest.mark.parametrize("query", PLANS)
def test_plans_are_those_of_flink(tables: TableEnvironment, query: str) -> None:
    told = tables.explain_sql(query)
    for part in PLANS[query].split("---"):
        assert part.strip() in told


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("TABLE v, q.d, DESCRIPTOR(g), 2", "VECTOR_SEARCH expects DESCRIPTOR(column) here at line 1, column 55"),
        ("TABLE v, DESCRIPTOR(x), q.d, 2", "column 'x' not found"),
        ("TABLE v, DESCRIPTOR(e), q.d, 2", "search column 'e' has to be ARRAY<FLOAT> or ARRAY<DOUBLE>, and it is INT"),
        ("TABLE v, DESCRIPTOR(e, g), q.d, 2", "COLUMN_TO_SEARCH of VECTOR_SEARCH is one column, and here are 2"),
        ("TABLE v, DESCRIPTOR(g), 'x', 2", "the query column is CHAR(1) NOT NULL, which is not cast to ARRAY<FLOAT>"),
        ("TABLE v, DESCRIPTOR(g), q.d, 0", "TOP_K of VECTOR_SEARCH has to be greater than 0, and it is 0"),
        ("TABLE v, DESCRIPTOR(g), q.d, q.a", "TOP_K of VECTOR_SEARCH has to be an INT NOT NULL literal"),
        ("TABLE v, DESCRIPTOR(g), q.d, 1.0", "literal, and it is DECIMAL(2, 1) NOT NULL"),
        ("TABLE v, DESCRIPTOR(g), q.d", "VECTOR_SEARCH needs TOP_K"),
        ("TABLE v, DESCRIPTOR(g), q.d, 2, MAP['metrik', 'x']", "has no option 'metrik'"),
        (
            "TABLE v, DESCRIPTOR(g), q.d, 2, MAP['metric', 'x']",
            "'metric' of VECTOR_SEARCH is 'x', and has to be one of",
        ),
        ("TABLE v, DESCRIPTOR(g), q.d, 2, MAP['async', 'true']", "requires asynchronous searches, and tables are"),
        ("TABLE v, DESCRIPTOR(g), q.d, 2, MAP['timeout', '1 s']", "'timeout' of VECTOR_SEARCH has no effect"),
    ],
)
def test_mistakes_are_told_at_their_place(tables: TableEnvironment, call: str, told: str) -> None:
    with pytest.raises(SqlError) as error:
        rows(tables, f"SELECT * FROM q, LATERAL TABLE(VECTOR_SEARCH({call}))")
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("TABLE k", "set its option 'lookup.cache' = 'FULL'"),
        ("TABLE u", "cannot be looked up, only scanned"),
        ("(SELECT e, g FROM v LIMIT 3)", "searches a table, and columns computed from it"),
        ("(SELECT e, ARRAY[CAST(e AS FLOAT)] AS g FROM v)", "searches a column of a table, and no computed one"),
    ],
)
def test_tables_that_cannot_be_searched_are_refused(tables: TableEnvironment, table: str, told: str) -> None:
    with pytest.raises((PlanningError, TableDefinitionError)) as error:
        rows(tables, f"SELECT * FROM q, LATERAL TABLE(VECTOR_SEARCH({table}, DESCRIPTOR(g), q.d, 2))")
    assert told in str(error.value)


def test_rows_that_change_are_refused_as_in_flink(tables: TableEnvironment) -> None:
    counted = "(SELECT d, COUNT(*) AS n FROM q GROUP BY d)"
    with pytest.raises(PlanningError, match="VectorSearchTableFunction"):
        rows(tables, f"SELECT * FROM {counted} AS c, LATERAL TABLE(VECTOR_SEARCH(TABLE v, DESCRIPTOR(g), c.d, 2))")
