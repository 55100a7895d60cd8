"""Joins with an input that each task has whole give what joins of shuffled inputs give."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common.errors import ConfigurationError
from headrace.table import TableEnvironment
from headrace.table.environment.statements import bound_statements
from headrace.table.parse.parser import parse_statement
from headrace.table.parse.source import SqlSource
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.broadcast_joins import BroadcastJoin
from headrace.table.physical.joins import AnyJoin, HashJoin
from headrace.table.physical.node import PhysicalNode
from headrace.table.udf import udf
from tests.table.connectors.session import rows, session

THRESHOLD, FILTER = "table.optimizer.join.broadcast-threshold", "table.optimizer.runtime-filter.enabled"
DEFINITIONS = {
    "sales": "id BIGINT, item BIGINT, shop STRING, price DECIMAL(10, 2)",
    "items": "item BIGINT, name STRING, shop STRING, cost DECIMAL(10, 2)",
}
QUERIES = {
    "inner": "SELECT id, name FROM sales JOIN items ON sales.item = items.item",
    "inner with a condition": "SELECT id, name FROM sales JOIN items ON sales.item = items.item AND price > cost",
    "of texts": "SELECT id, name FROM sales JOIN items ON sales.shop = items.shop AND sales.item = items.item",
    "of decimals": "SELECT id, name FROM sales JOIN items ON price = cost",
    "left": "SELECT id, name FROM sales LEFT JOIN items ON sales.item = items.item AND price > cost",
    "right": "SELECT id, name FROM sales RIGHT JOIN items ON sales.item = items.item",
    "full": "SELECT id, name FROM sales FULL JOIN items ON sales.item = items.item",
    "semi": "SELECT id FROM sales WHERE EXISTS (SELECT * FROM items WHERE item = sales.item AND cost < price)",
    "anti": "SELECT id FROM sales WHERE NOT EXISTS (SELECT * FROM items WHERE item = sales.item)",
    "in": "SELECT id FROM sales WHERE item IN (SELECT item FROM items WHERE name LIKE 'tea%')",
    "not in": "SELECT id FROM sales WHERE item NOT IN (SELECT item FROM items)",
    "of one row": "SELECT id FROM sales WHERE price > (SELECT AVG(cost) FROM items)",
    "of no row": "SELECT id, m FROM sales LEFT JOIN (SELECT MAX(cost) AS m FROM items WHERE item > 99) AS x ON TRUE",
    "without keys": "SELECT id, name FROM sales JOIN items ON price > cost",
    "of groups": (
        "SELECT id, total FROM sales JOIN (SELECT item, SUM(cost) AS total, COUNT(*) FROM items GROUP BY item) AS g "
        "ON sales.item = g.item AND price < total"
    ),
    "with itself": "SELECT a.id, b.id FROM sales AS a JOIN sales AS b ON a.item = b.item AND a.id <> b.id",
    "of three": (
        "SELECT a.id, name, b.price FROM sales AS a, items, sales AS b "
        "WHERE a.item = items.item AND items.shop = b.shop AND b.price > 2"
    ),
    "of groups above": (
        "SELECT name, SUM(price), COUNT(*) FROM sales JOIN items ON sales.item = items.item GROUP BY name"
    ),
    "of a union": (
        "SELECT id, name FROM sales JOIN (SELECT item, name FROM items UNION ALL SELECT 7, 'seven') AS u "
        "ON sales.item = u.item"
    ),
    "not distinct": "SELECT id, name FROM sales JOIN items ON sales.item IS NOT DISTINCT FROM items.item",
}
COUNTED = {
    "cross": ("sales, items", 360),
    "without keys": ("sales JOIN items ON price > cost", 120),
    "inner": ("sales JOIN items ON sales.item = items.item", 36),
    "inner with a condition": ("sales JOIN items ON sales.item = items.item AND price > cost", 10),
    "left": ("sales LEFT JOIN items USING (item)", 68),
    "left without keys": ("sales LEFT JOIN items ON price > cost", 135),
    "right": ("sales RIGHT JOIN items ON sales.item = items.item", 37),
    "right without keys": ("sales RIGHT JOIN items ON price > cost", 122),
    "full": ("sales FULL JOIN items ON sales.item = items.item", 69),
    "semi": ("sales WHERE EXISTS (SELECT * FROM items WHERE item = sales.item)", 28),
    "semi without keys": ("sales WHERE EXISTS (SELECT * FROM items WHERE cost < sales.price)", 45),
    "semi with all rows": ("sales WHERE EXISTS (SELECT * FROM items)", 60),
    "anti": ("sales WHERE NOT EXISTS (SELECT * FROM items WHERE item = sales.item)", 32),
    "anti with all rows": ("sales WHERE NOT EXISTS (SELECT * FROM items WHERE item > 99)", 60),
    "of three": ("sales, items, (SELECT item AS i FROM items) AS others WHERE i = 2", 720),
    "of joined rows": ("sales, (SELECT 1 FROM items AS a, items AS b) AS pairs", 2160),
}
"""What follows ``FROM``, and the number of its rows; nothing else is read from it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tables")
    money = pa.decimal128(10, 2)
    numbers = [number % 7 if number % 5 else None for number in range(60)]
    sales = pa.table(
        {
            "id": pa.array(range(60), pa.int64()),
            "item": pa.array(numbers, pa.int64()),
            "shop": pa.array([("north", "south", None)[number % 3] for number in range(60)]),
            "price": pa.array([Decimal(number % 4) for number in range(60)], money),
        }
    )
    items = pa.table(
        {
            "item": pa.array([0, 1, 2, 2, None, 5], pa.int64()),
            "name": pa.array(["tea", "tea bag", "cake", None, "nothing", "milk"]),
            "shop": pa.array(["north", "south", "north", "north", "south", None]),
            "cost": pa.array([Decimal(1), Decimal(2), Decimal(0), Decimal(3), Decimal(1), None], money),
        }
    )
    for name, table in (("sales", sales), ("items", items)):
        (made / name).mkdir()
        pq.write_table(table.slice(0, len(table) // 2), made / name / "a.parquet")
        pq.write_table(table.slice(len(table) // 2), made / name / "b.parquet")
    return made


def tables_in(folder: Path, *, is_streaming: bool = False, **settings: str) -> TableEnvironment:
    statements = [
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{folder / name}')"
        for name, columns in DEFINITIONS.items()
    ]
    return session(*statements, is_streaming=is_streaming, **settings)


def plan_of(tables: TableEnvironment, query: str) -> PhysicalNode:
    """The plan by which a query is executed."""
    source = SqlSource(query)
    (plan,) = tables.planner().plan(bound_statements(tables, parse_statement(query), source))
    return plan


def kinds_in(tables: TableEnvironment, query: str) -> set[type[PhysicalNode]]:
    return {type(node) for node in plan_of(tables, query).walk()}


@pytest.fixture(scope="module")
def shuffling(folder: Path) -> TableEnvironment:
    return tables_in(folder, **{THRESHOLD: "-1"})


@pytest.fixture(scope="module")
def streaming(folder: Path) -> TableEnvironment:
    return tables_in(folder, is_streaming=True)


@pytest.mark.parametrize("name", QUERIES)
def test_joins_give_what_joins_of_shuffled_inputs_give(name: str, folder: Path, shuffling: TableEnvironment) -> None:
    query = QUERIES[name]
    expected = Counter(rows(shuffling, query))
    assert BroadcastJoin not in kinds_in(shuffling, query)
    for parallelism in ("1", "2"):
        tables = tables_in(folder, **{"parallelism.default": parallelism})
        assert Counter(rows(tables, query)) == expected
    assert (BroadcastJoin in kinds_in(tables, query)) is (name not in ("full", "not distinct"))


@pytest.mark.parametrize("name", COUNTED)
def test_joins_of_which_no_column_is_read_give_their_rows(
    name: str, folder: Path, shuffling: TableEnvironment, streaming: TableEnvironment
) -> None:
    clause, number = COUNTED[name]
    broadcasting = tables_in(folder)
    assert (BroadcastJoin in kinds_in(broadcasting, f"SELECT COUNT(*) FROM {clause}")) is (name != "full")
    for tables in (broadcasting, shuffling, streaming):
        assert rows(tables, f"SELECT COUNT(*) FROM {clause}")[-1] == (number,)
    for tables in (broadcasting, shuffling):
        assert rows(tables, f"SELECT 1 FROM {clause}") == [(1,)] * number


def test_what_is_too_large_is_shuffled(folder: Path) -> None:
    query = QUERIES["inner"]
    assert BroadcastJoin in kinds_in(tables_in(folder, **{THRESHOLD: "200"}), query)
    assert HashJoin in kinds_in(tables_in(folder, **{THRESHOLD: "100"}), query)
    with pytest.raises(ConfigurationError, match="-1"):
        tables_in(folder, **{THRESHOLD: "-2"})


def test_many_tasks_do_not_compute_what_costs_more_than_a_shuffle(folder: Path) -> None:
    tables = tables_in(folder, **{"parallelism.default": "32768"})
    assert BroadcastJoin not in kinds_in(tables, QUERIES["with itself"])


@pytest.mark.parametrize(
    ("hint", "tasks", "is_broadcast"),
    [("BROADCAST(a)", "32768", True), ("SHUFFLE_HASH(a)", "1", False), ("SHUFFLE_MERGE(a)", "1", False)],
)
def test_hints_say_whether_every_task_has_an_input_whole(
    folder: Path, hint: str, tasks: str, is_broadcast: bool
) -> None:
    tables = tables_in(folder, **{"parallelism.default": tasks})
    plain = QUERIES["with itself"]
    hinted = plain.replace("SELECT", f"SELECT /*+ {hint} */")
    assert [BroadcastJoin in kinds_in(tables, each) for each in (plain, hinted)] == [not is_broadcast, is_broadcast]


def is_before(one: int | None, other: int | None) -> bool | None:
    return None if one is None or other is None else one < other


def test_no_task_computes_a_build_side_that_calls_functions_of_the_user(folder: Path) -> None:
    tables = tables_in(folder)
    tables.create_temporary_function("is_before", udf(is_before, result_type="BOOLEAN"))
    query = (
        "SELECT id, name FROM sales JOIN (SELECT a.item, b.name FROM items AS a JOIN items AS b "
        "ON a.shop = b.shop AND {}) AS x ON sales.item = x.item"
    )
    plain, called = query.format("a.item < b.item"), query.format("is_before(a.item, b.item)")
    assert [_joins_of_build_sides(tables, each) for each in (plain, called)] == [1, 0]
    assert Counter(rows(tables, called)) == Counter(rows(tables, plain)) != Counter()


def _joins_of_build_sides(tables: TableEnvironment, query: str) -> int:
    joins = [node for node in plan_of(tables, query).walk() if isinstance(node, BroadcastJoin)]
    return sum(isinstance(node, AnyJoin | BroadcastJoin) for join in joins for node in join.build.node.walk())


def test_rows_are_filtered_by_a_part_of_their_key_before_they_are_grouped(tmp_path: Path) -> None:
    count = 120_000
    offers = {"part": [n // 4 for n in range(count)], "supplier": [n % 7 for n in range(count)], "stock": [9] * count}
    lines = {"part": [n % 30_000 for n in range(count)], "supplier": [n % 7 for n in range(count)], "sold": [1] * count}
    parts = {"part": list(range(30_000)), "name": [f"{('tea', 'cup')[n % 50 > 0]} {n}" for n in range(30_000)]}
    statements = []
    for name, columns in (("offers", offers), ("lines", lines), ("parts", parts)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns), tmp_path / name / "a.parquet")
        fields = ", ".join(f"{each} {'STRING' if each == 'name' else 'BIGINT'}" for each in columns)
        statements.append(
            f"CREATE TABLE {name} ({fields}) WITH "
            f"('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path / name}')"
        )
    query = (
        "SELECT part, supplier FROM offers WHERE part IN (SELECT part FROM parts WHERE name LIKE 'tea%') AND stock > "
        "(SELECT 2 * SUM(sold) FROM lines WHERE lines.part = offers.part AND lines.supplier = offers.supplier)"
    )
    filtering, plain = (
        session(*statements, is_streaming=False, **{FILTER: setting, "parallelism.default": "2"})
        for setting in ("true", "false")
    )
    assert [_filtered_groups(each, query) for each in (filtering, plain)] == [1, 0]
    assert Counter(rows(filtering, query)) == Counter(rows(plain, query)) != Counter()


def _filtered_groups(tables: TableEnvironment, query: str) -> int:
    groups = [node for node in plan_of(tables, query).walk() if isinstance(node, GroupAggregate)]
    return sum(isinstance(node, BroadcastJoin) for group in groups for node in group.inputs[0].walk())
