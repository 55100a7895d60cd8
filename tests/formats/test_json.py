"""Lines of JSON, read and written."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import BadRecordError, InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.time import Instant
from headrace.common.typeinfo import Types
from headrace.common.types import Row
from headrace.connectors.source import ReadBudget
from headrace.datastream.connectors.file_system import FileSource
from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.json.writer import JsonLinesEncoder
from tests.connectors.harness import PLENTY, SourceRun, batch_of

budgets = st.builds(ReadBudget, records=st.integers(1, 30), bytes=st.integers(1, 60), pieces=st.integers(1, 4))
PAIR = Types.ROW_NAMED(["id", "name"], [int, str])


@dataclass
class Point:
    x: int
    y: float | None


def run(path: Path, fmt: Any, *, reject: bool = False) -> SourceRun:
    builder = FileSource.for_record_stream_format(fmt, path)
    if reject:
        builder.set_dead_letter(OutputTag("rejected"))
    return SourceRun(builder.build(), path / ".state")


def read(tmp_path: Path, data: str, kind: Any = None, budget: ReadBudget = PLENTY) -> list[Any]:
    (tmp_path / "a.json").write_bytes(data.encode())
    return run(tmp_path, JsonLinesFormat(kind)).to_end(budget)


def test_documents_without_a_type(tmp_path: Path) -> None:
    data = '{"a": [1, {"b": null}]}\r\n\n  \n"text"\n5\nnull'
    assert read(tmp_path, data) == [{"a": [1, {"b": None}]}, "text", 5, None]


def test_named_rows(tmp_path: Path) -> None:
    data = '{"id": 1, "name": "é", "other": {"x": [null]}}\n\n{"name": null}\r\n  {}\n'
    for budget in (PLENTY, ReadBudget(1, 1)):
        assert read(tmp_path, data, PAIR, budget) == [
            Row(id=1, name="é"),
            Row(id=None, name=None),
            Row(id=None, name=None),
        ]


NESTED = Types.ROW_NAMED(
    ["point", "tags", "map", "big", "dec", "date", "time", "stamp", "zoned", "instant", "bytes", "inner"],
    [
        Point, Types.LIST(str), Types.MAP(int, float), Types.BIG_INT(), Types.BIG_DEC(), Types.SQL_DATE(),
        Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.TIMESTAMP_LTZ(), Types.INSTANT(), bytes,
        Types.ROW_NAMED(["day"], [Types.SQL_DATE()]),
    ],
)  # fmt: skip
NESTED_ROW = Row(
    point=Point(1, 2.5), tags=["a", None], map={1: 1.5}, big=10**30, dec=Decimal("1.00"),
    date=datetime.date(2020, 1, 2),
    time=datetime.time(1, 2, 3, 4),
    stamp=datetime.datetime(2020, 1, 2, 3, 4, 5),
    zoned=datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), instant=Instant(1, 2000), bytes=b"\xff",
    inner=Row(day=datetime.date(2020, 1, 2)),
)  # fmt: skip


def test_a_type_may_be_the_fields_by_name() -> None:
    assert JsonLinesFormat({"id": int, "name": str}).produced_type == Types.ROW_NAMED(["id", "name"], [int, str])


def test_nested_records_of_every_type(tmp_path: Path) -> None:
    line = JsonLinesEncoder().encode_batch(batch_of(NESTED, [NESTED_ROW])).decode()
    assert json.loads(line)["dec"] == 1.0
    assert '"dec":1.00' in line
    empty = Row(**dict.fromkeys(NESTED.field_names))
    assert read(tmp_path, f"{line}{{}}\n", NESTED) == [NESTED_ROW, empty]


def test_nested_records_that_arrow_reads(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(["p", "l", "d", "t"], [Point, Types.LIST(Point), Types.SQL_DATE(), Types.SQL_TIME()])
    data = '{"p":{"x":1},"l":[{"x":1,"y":2},null],"d":"2020-01-02","t":"01:02:03"}\n{"p":null}\n'
    assert read(tmp_path, data, kind) == [
        Row(p=Point(1, None), l=[Point(1, 2.0), None], d=datetime.date(2020, 1, 2), t=datetime.time(1, 2, 3)),
        Row(p=None, l=None, d=None, t=None),
    ]


def test_what_looks_like_a_null_after_an_object(tmp_path: Path) -> None:
    lines = ['{"id": 1, "name": "} null"}', '{"name": null, "id": 2}', '  {"id": 3, "x": {}, "y": null}'] * 20
    for budget in (PLENTY, ReadBudget(5, 100)):
        rows = read(tmp_path, "\n \n".join(["", *lines]), PAIR, budget)
        assert [row.id for row in rows] == [1, 2, 3] * 20
        assert rows[0].name == "} null"


def test_values_without_fields(tmp_path: Path) -> None:
    assert read(tmp_path, "1\n2\n", int) == [1, 2]
    assert read(tmp_path, '{"a":1}\n{}\n', Types.MAP(str, int)) == [{"a": 1}, {}]


BAD_LINES = [
    "null", "[1]", "5", '{"id": "1"}', '{"id": 1.5}', '{"id": 1', '{"id": 1}{"id": 2}', '{"id": 1} null',
    '{"name": "\udcff"}', "{'id': 1}", '{"id": 99999999999999999999}',
]  # fmt: skip


@given(st.lists(st.sampled_from(['{"id": 7}', *BAD_LINES]), max_size=12), budgets)
@settings(deadline=None)
def test_bad_lines_are_put_aside_whatever_the_cut(lines: list[str], budget: ReadBudget) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
        job = run(Path(folder), JsonLinesFormat(PAIR), reject=True)
        assert job.to_end(budget) == [Row(id=7, name=None)] * lines.count('{"id": 7}')
        assert [where for where, _, _ in job.rejected] == [
            f"{path}:{number}" for number, line in enumerate(lines, 1) if line in BAD_LINES
        ]


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_fails_the_job(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.json").write_bytes(f'{{"id": 1}}\n{line}\n'.encode(errors="surrogateescape"))
    with pytest.raises(BadRecordError, match=r"a\.json:2: ") as caught:
        run(tmp_path, JsonLinesFormat(PAIR)).to_end()
    assert "in row 0" not in str(caught.value), "a place beside that of the line misleads"


values = st.one_of(st.none(), st.text(max_size=5), st.sampled_from(['"', "\\", "\n", "\x00", "é", "😀\x1f"]))


@given(
    st.lists(
        st.tuples(st.none() | st.integers(-9, 9), values, st.none() | st.floats(width=64), st.booleans()), min_size=1
    )
)
@settings(deadline=None)
def test_what_is_written_is_json(rows: list[tuple[Any, ...]]) -> None:
    kind = Types.ROW_NAMED(["id", 'a "name"', "price", "ok"], [int, str, float, bool])
    batch = batch_of(kind, rows)
    batch.columns  # noqa: B018 (a part of them is written below)
    data = JsonLinesEncoder().encode_batch(batch)
    lines = data.decode().removesuffix("\n").split("\n")
    assert JsonLinesEncoder().encode_batch(batch.slice(1, len(rows))).decode() == "".join(f"{x}\n" for x in lines[1:])
    documents = [list(json.loads(line).values()) for line in lines]
    odd = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    expected = [
        [number, name, "NaN" if price is not None and math.isnan(price) else odd.get(price, price), ok]
        for number, name, price, ok in rows
    ]
    assert documents == expected


def test_records_of_other_kinds_are_written() -> None:
    encode = JsonLinesEncoder().encode_batch
    assert encode(batch_of(Types.LONG(), [1, None])) == b"1\nnull\n"
    assert encode(batch_of(Types.PICKLED_BYTE_ARRAY(), [{"a": [1]}, "é"])) == '{"a":[1]}\n"é"\n'.encode()
    assert encode(batch_of(Types.TUPLE([int, Types.LIST(int)]), [(1, [2])])) == b'{"f0":1,"f1":[2]}\n'
    assert encode(batch_of(Types.of(Point), [Point(1, None)])) == b'{"x":1,"y":null}\n'
    with pytest.raises(InvalidTypeError, match="no form in JSON"):
        encode(batch_of(Types.PICKLED_BYTE_ARRAY(), [object()]))
