"""Decimals of Parquet files read as integers are those that Arrow reads."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats.parquet_decimals import GroupColumns
from tests.draws import draws

ROWS = 50
BATCH = 16


def digits(precision: int) -> st.SearchStrategy[int]:
    return st.integers(-(10**precision) + 1, 10**precision - 1)


def table_of(values: list[int | None], precision: int, scale: int) -> pa.Table:
    kind = pa.decimal128(precision, scale)
    decimals = [None if value is None else Decimal(value).scaleb(-scale) for value in values]
    return pa.table({"n": pa.array(range(len(values)), pa.int64()), "d": pa.array(decimals, kind), "e": decimals[::-1]})


def written(table: pa.Table, **options: Any) -> pa.Buffer:
    out = pa.BufferOutputStream()
    pq.write_table(table, out, **{"row_group_size": ROWS, **options})
    return out.getvalue()


def read(content: pa.Buffer, names: list[str]) -> pa.Table:
    stream = pa.BufferReader(content)
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    columns = GroupColumns(stream, file, names, BATCH)
    batches = [batch for group in range(file.num_row_groups) for batch in columns.batches(group)]
    assert all(batch.num_rows <= BATCH for batch in batches)
    return pa.Table.from_batches(batches).select(names)


def chunks_of(content: pa.Buffer, name: str) -> list[bool]:
    """Of each row group, whether a column is read as integers."""
    stream = pa.BufferReader(content)
    file = pq.ParquetFile(stream)
    columns = GroupColumns(stream, file, [name], BATCH)
    place = columns._decimals.get(name)
    groups = range(file.num_row_groups)
    return [place is not None and columns._chunk(group, place, name) is not None for group in groups]


@settings(max_examples=draws(40))
@given(st.data(), st.integers(1, 18), st.sampled_from(["snappy", "zstd", "gzip", "brotli", "none"]), st.booleans())
def test_decimals_are_those_of_arrow(data: st.DataObject, precision: int, compression: str, has_nulls: bool) -> None:
    scale = data.draw(st.integers(0, precision))
    value = st.none() | digits(precision) if has_nulls else digits(precision)
    table = table_of(data.draw(st.lists(value, min_size=1, max_size=2 * ROWS + 7)), precision, scale)
    version, checksum = data.draw(st.sampled_from(["1.0", "2.0"])), data.draw(st.booleans())

    content = written(table, compression=compression, data_page_version=version, write_page_checksum=checksum)

    file = pq.ParquetFile(pa.BufferReader(content))
    for names in (["d"], ["n", "d"], ["e", "n", "d"]):
        assert read(content, names).equals(file.read(names).select(names))
    assert all(chunks_of(content, "d"))


def test_the_lowest_and_the_highest_of_each_length() -> None:
    for precision in range(1, 19):
        table = table_of([10**precision - 1, 1 - 10**precision, 0, -1, 1], precision, 0)
        assert read(written(table), ["d"]).equals(table.select(["d"]))


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False},
        {"dictionary_pagesize_limit": 64},
        {"compression": "lz4"},
        {"store_decimal_as_integer": True},
    ],
)
def test_arrow_reads_what_is_in_no_dictionary(options: dict[str, Any]) -> None:
    table = table_of(list(range(ROWS)), 15, 2)
    content = written(table, write_batch_size=4, **options)
    assert chunks_of(content, "d") == [False]
    assert read(content, ["e", "d"]).equals(pq.read_table(pa.BufferReader(content), columns=["e", "d"]))


def test_decimals_of_more_digits_and_inside_of_records_are_left_to_arrow() -> None:
    long = table_of([1, 2], 19, 2)
    assert chunks_of(written(long), "d") == [False]
    inside = pa.table({"r": pa.array([{"d": Decimal("1.25")}], pa.struct({"d": pa.decimal128(9, 2)}))})
    content = written(inside)
    assert read(content, ["r"]).equals(inside)


def test_damage_is_told_by_arrow() -> None:
    table = table_of(list(range(ROWS)), 15, 2)
    content = bytearray(written(table, write_page_checksum=True, compression="none"))
    chunk = pq.ParquetFile(pa.BufferReader(bytes(content))).metadata.row_group(0).column(1)
    for place in (chunk.dictionary_page_offset + 40, chunk.data_page_offset + chunk.total_compressed_size // 8):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises((pa.ArrowException, OSError)):
            read(pa.py_buffer(bytes(damaged)), ["d"])
