"""Functions give the types and the values that Flink 2.3 gives: ``answers.txt`` has an expression, its type and value.

The expressions are over the one row of a table, below. Nothing of a job runs: they are bound, and evaluated.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.table.bind import BindContext
from headrace.table.bind.queries import QueryBinder
from headrace.table.catalog.manager import CatalogManager
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.functions.types import to_external
from headrace.table.logical.scalars import InputRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema
from headrace.table.parse.parser import parse_type
from headrace.table.parse.source import SqlSource
from tests.table.conformance.values import array_of, json_of

COLUMNS: dict[str, tuple[str, Any]] = {
    "i": ("INT", 5),
    "l": ("BIGINT", 7),
    "ti": ("TINYINT", 3),
    "d": ("DOUBLE", 2.5),
    "f": ("FLOAT", 1.5),
    "m": ("DECIMAL(10, 3)", "12.345"),
    "s": ("STRING", "a1,b=2"),
    "c5": ("CHAR(5)", "ab   "),
    "v7": ("VARCHAR(7)", "vwx"),
    "dt": ("DATE", "2024-02-29"),
    "t3": ("TIMESTAMP(3)", "2024-02-29 10:11:12.345"),
    "z3": ("TIMESTAMP_LTZ(3)", "2024-02-29 10:11:12.345Z"),
    "tm": ("TIME(0)", "10:11:12"),
    "b": ("BOOLEAN", True),
    "ai": ("ARRAY<INT>", [3, 1, 2]),
    "az": ("ARRAY<STRING>", ["x", None, "y"]),
    "mp": ("MAP<STRING, INT>", {"a": 1}),
    "r": ("ROW<p INT, q STRING>", {"p": 1, "q": "u"}),
    "inn": ("INT NOT NULL", 5),
    "lnn": ("BIGINT NOT NULL", 7),
    "dnn": ("DOUBLE NOT NULL", 2.5),
    "mnn": ("DECIMAL(10, 3) NOT NULL", "12.345"),
    "snn": ("STRING NOT NULL", "a1,b=2"),
    "cnn": ("CHAR(5) NOT NULL", "abcde"),
    "bnn": ("BOOLEAN NOT NULL", True),
    "dtnn": ("DATE NOT NULL", "2024-02-29"),
    "tnn": ("TIMESTAMP(3) NOT NULL", "2024-02-29 10:11:12.345"),
    "ann": ("ARRAY<INT NOT NULL> NOT NULL", [3, 1, 2]),
    "znn": ("ARRAY<STRING NOT NULL> NOT NULL", ["x", "y"]),
    "mnn2": ("MAP<STRING NOT NULL, INT NOT NULL> NOT NULL", {"a": 1}),
}
OF_CONSTANTS = ("OBJECT_OF", "OBJECT_UPDATE", "TYPEOF", "JSON_OBJECT", "MAP[", "MAP_FROM")
"""Functions some of whose arguments are constants always, or never NULL."""

ANSWERS = [line.split("\t") for line in (Path(__file__).parent / "answers.txt").read_text().splitlines()]


@cache
def table() -> tuple[Schema, pa.RecordBatch]:
    binder = BindContext(SqlSource(""), CatalogManager()).types
    kinds = {name: binder.bind(parse_type(text)) for name, (text, _) in COLUMNS.items()}
    arrays = [array_of([value], kinds[name]) for name, (_, value) in COLUMNS.items()]
    return Schema.of(Field(name, kind) for name, kind in kinds.items()), pa.RecordBatch.from_arrays(
        arrays, list(COLUMNS)
    )


def bound_scalar(expression: str) -> Scalar:
    binder = QueryBinder(BindContext(SqlSource(expression), CatalogManager()))
    return binder.bound_text(expression, table()[0])


def evaluated(expression: str, scalar: Scalar, batch: pa.RecordBatch) -> tuple[str, list[Any]]:
    """The type and the values of an expression."""
    bound = ExpressionCompiler(lambda _: expression).compile(scalar)
    kind = to_external(scalar.type)
    return str(kind), json_of(bound.column(batch), kind)


def with_nulls(column: pa.Array) -> pa.Array:
    """The value of a column twice, and NULL between."""
    return column.take(pa.array([0, None, 0], pa.int32()))


def by_columns(scalar: Scalar, batch: pa.RecordBatch) -> tuple[Scalar, pa.RecordBatch]:
    """An expression with columns in place of constants; in one row all columns are NULL."""
    columns = [with_nulls(column) for column in batch.columns]

    def column_of(node: Scalar) -> Scalar:
        if not isinstance(node, Literal):
            return node
        columns.append(with_nulls(pa.array([node.value], node.type.arrow_type)))
        return InputRef(len(columns) - 1, type=node.type)

    made = scalar.transform(column_of)
    return made, pa.RecordBatch.from_arrays(columns, [str(index) for index in range(len(columns))])


@pytest.mark.parametrize("part", range(8))
def test_functions_give_what_flink_gives(part: int) -> None:
    different = {}
    for expression, kind, value in ANSWERS[part::8]:
        found = evaluated(expression, bound_scalar(expression), table()[1])
        if found != (kind, [json.loads(value)]):
            different[expression] = found, (kind, value)
    assert not different


@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", range(8))
def test_columns_give_what_constants_give(part: int) -> None:
    different = {}
    for expression, _, value in ANSWERS[part::8]:
        if not any(name in expression for name in OF_CONSTANTS):
            _, (first, _, last) = evaluated(expression, *by_columns(bound_scalar(expression), table()[1]))
            if first != json.loads(value) or last != first:
                different[expression] = first, last, value
    assert not different


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("i IN (1, 2, 5, 7, 9)", True),
        ("i NOT IN (1, 2, 5, 7, 9)", False),
        ("i IN (1, 2, 3, 4, CAST(NULL AS INT))", None),
        ("i NOT IN (1, 2, 3, 4, CAST(NULL AS INT))", None),
        ("i NOT IN (1, 2, 3, 4)", True),
        ("s IN ('a', 'b', 'c', 'd', 'a1,b=2')", True),
        ("d IN (2.5E0, 1E0, 2E0, 3E0)", True),
        ("NULLIF(i, 5) IN (1, 2, 3, 4)", None),
        ("i = 1 OR i = 2 OR i = 3 OR l = 7", True),
    ],
)
def test_long_lists_are_looked_up(expression: str, value: bool | None) -> None:
    assert evaluated(expression, bound_scalar(expression), table()[1])[1] == [value]
