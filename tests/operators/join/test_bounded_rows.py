"""Rows that tasks compute for themselves: they divide the parts, and have the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.parquet import ParquetFormat
from headrace.operators.base import OperatorContext
from headrace.operators.join.bounded_rows import ReadContext, SourceRows, UnitedRows
from headrace.operators.join.divided_work import files_in
from tests.table.connectors.session import rows, session

_ROWS, _GROUP = 400_000, 100_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tables")
    for name, group in (("items", _GROUP), ("whole", _ROWS)):
        table = pa.table(
            {
                "item": pa.array(range(_ROWS), pa.int64()),
                "shop": pa.array([number % 1000 for number in range(_ROWS)], pa.int64()),
                "cost": pa.array([Decimal(number % 97) for number in range(_ROWS)], pa.decimal128(10, 2)),
            }
        )
        (made / name).mkdir()
        pq.write_table(table, made / name / "a.parquet", row_group_size=group)
    return made


def _rows_of(folder: Path) -> SourceRows:
    return SourceRows.of(FileSource.for_bulk_file_format(ParquetFormat(["item"]), folder).build(), {}, "items")


def _context(rows: SourceRows | UnitedRows, machine_folder: Path | None) -> ReadContext:
    operator = OperatorContext("join", "join", 0, 2, 128, UNKNOWN_CALL_SITE, machine_folder=machine_folder)
    return ReadContext(rows, operator, {})


def _items(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def test_parts_are_cut_between_row_groups_alone(folder: Path) -> None:
    assert [piece[0][3:5] for piece in _rows_of(folder / "items").pieces] == [
        [start, start + _GROUP] for start in range(0, _ROWS, _GROUP)
    ]
    assert _rows_of(folder / "whole").parts == 1


def test_tasks_of_one_machine_find_the_parts_of_the_others(folder: Path, tmp_path: Path) -> None:
    source = _rows_of(folder / "items")
    rows = UnitedRows(source.type, (source, _rows_of(folder / "whole"), source))
    expected = list(range(_ROWS)) * 3
    assert _items(_context(rows, None).batches(rows)) == expected
    for _ in range(2):
        assert _items(_context(rows, tmp_path).batches(rows)) == expected
    assert sorted(path.suffix for path in files_in(str(tmp_path))) == [".arrow"] * 9 + [".begun"] * 9


@pytest.mark.spark
def test_joins_with_groups_that_tasks_compute_together(spark: Any, folder: Path) -> None:
    query = (
        "SELECT COUNT(*), SUM(least) FROM items JOIN (SELECT shop, MIN(cost) AS least, COUNT(*) AS n FROM items "
        "GROUP BY shop) AS g ON items.item = g.shop AND n = 400"
    )
    found = []
    for threshold in ("1000000000", "-1"):
        settings = {"headrace.runtime": "spark", "parallelism.default": "2"}
        settings["table.optimizer.join.broadcast-threshold"] = threshold
        tables = session(
            "CREATE TABLE items (item BIGINT, shop BIGINT, cost DECIMAL(10, 2)) WITH "
            f"('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{folder / 'items'}')",
            is_streaming=False,
            **settings,
        )
        found.append(rows(tables, query))
    shops = range(1000)
    assert (
        found
        == [
            [
                (
                    1000,
                    sum((Decimal(min((shop + 1000 * turn) % 97 for turn in range(400))) for shop in shops), Decimal(0)),
                )
            ]
        ]
        * 2
    )
