"""Functions give what Flink 2.3 gives for the rows of tables, with odd values and in two time zones.

``rows.jsonl.gz`` has the tables, and then expressions over one of them with their types and values in each row.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.table.bind import BindContext
from headrace.table.bind.queries import QueryBinder
from headrace.table.catalog.manager import CatalogManager
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.functions.types import to_external
from headrace.table.logical.schema import Field, Schema
from headrace.table.parse.parser import parse_type
from headrace.table.parse.source import SqlSource
from tests.table.conformance.values import array_of, json_of

LINES = [
    json.loads(line) for line in gzip.decompress((Path(__file__).parent / "rows.jsonl.gz").read_bytes()).splitlines()
]
TABLES, CASES = LINES[0]["tables"], LINES[1:]


@cache
def table(name: str) -> tuple[Schema, pa.RecordBatch]:
    binder = BindContext(SqlSource(""), CatalogManager()).types
    fields = [Field(column, binder.bind(parse_type(text))) for column, text in TABLES[name]["columns"]]
    values = zip(*TABLES[name]["rows"], strict=True)
    arrays = [array_of(list(column), field.type) for column, field in zip(values, fields, strict=True)]
    return Schema.of(fields), pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])


def _float(value: Any) -> str | None:
    """A float of 32 bits, which Java and Python write with other digits."""
    return None if value is None else str(np.float32(value))


@pytest.mark.parametrize("part", range(6))
def test_functions_give_what_flink_gives(part: int) -> None:
    different: dict[str, Any] = {}
    for case in CASES[part::6]:
        schema, batch = table(case["table"])
        for place, text in enumerate(case["expressions"]):
            scalar = QueryBinder(BindContext(SqlSource(text), CatalogManager())).bound_text(text, schema)
            column = ExpressionCompiler(lambda _, text=text: text, case["zone"]).compile(scalar).column(batch)
            kind = to_external(scalar.type)
            found, expected = json_of(column, kind), [row[place] for row in case["rows"]]
            if str(kind).startswith("FLOAT"):
                found, expected = ([_float(value) for value in values] for values in (found, expected))
            if found != expected or str(kind) != case["types"][place]:
                different[f"{text} ({case['zone']})"] = kind, found, expected
    assert not different
