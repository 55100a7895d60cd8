"""ORC, read and written."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from headrace.common import Row, Types
from headrace.common.errors import BadRecordError, ConfigurationError, InvalidTypeError
from headrace.connectors.source import ReadBudget
from headrace.datastream import OutputTag
from headrace.datastream.connectors import create_sink, create_source
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.orc import OrcBulkWriters, OrcFormat
from tests.connectors.harness import SinkRun, SourceRun, read_all
from tests.draws import draws
from tests.formats.test_parquet import sink


def source(path: Path, fmt: OrcFormat | None = None) -> FileSource:
    return FileSource.for_bulk_file_format(fmt or OrcFormat(), path).build()


def write(path: Path, stripes: int, rows: int, first: int = 0) -> None:
    """A file of stripes of about so many rows: the library ends one when it is large enough."""
    with orc.ORCWriter(path, stripe_size=1, batch_size=rows) as writer:
        for stripe in range(stripes):
            numbers = range(first + stripe * rows, first + (stripe + 1) * rows)
            writer.write(pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"n{n}" for n in numbers]}))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 30)), min_size=1, max_size=3),
    st.builds(ReadBudget, records=st.integers(1, 40), bytes=st.integers(1, 3000), pieces=st.integers(1, 4)),
)
@settings(deadline=None, max_examples=draws(30))
def test_every_cut_gives_the_same_rows(files: list[tuple[int, int]], budget: ReadBudget) -> None:
    with TemporaryDirectory() as folder:
        total = 0
        for number, (stripes, rows) in enumerate(files):
            write(Path(folder) / f"{number}.orc", stripes, rows, total)
            total += stripes * rows
        fmt = OrcFormat(type_info=Types.ROW_NAMED(["id", "name"], [int, str]))
        run = SourceRun(source(Path(folder), fmt), Path(folder) / ".state")
        run.to_end(budget)
        assert run.rows == [Row(id=number, name=f"n{number}") for number in range(total)]
        if not run.snapshots:  # there were no rows, so no epoch
            return
        run.restart(len(run.snapshots) // 2)
        assert len(run.to_end()) == total


KIND = Types.ROW_NAMED(
    ["id", "when", "local", "day", "dec", "tags", "inner", "raw"],
    [
        Types.SHORT(), Types.TIMESTAMP_LTZ(), Types.SQL_TIMESTAMP(), Types.SQL_DATE(), Types.BIG_DEC(),
        Types.MAP(str, Types.LIST(float)), Types.ROW_NAMED(["x"], [int]), bytes,
    ],
)  # fmt: skip
WHEN = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
ROWS = [
    Row(id=n, when=WHEN.replace(tzinfo=datetime.UTC), local=WHEN, day=WHEN.date(), dec=Decimal(f"{n}.50"),
        tags={"a": [1.5, None]}, inner=Row(x=n), raw=b"\xff")
    for n in range(9)
] + [Row(**dict.fromkeys(KIND.field_names))]  # fmt: skip


@pytest.mark.parametrize("compression", ["none", "ZLIB", "snappy", "LZ4", "zstd"])
def test_a_round_trip(tmp_path: Path, compression: str) -> None:
    factory = OrcBulkWriters.for_row_type(writer_properties={"orc.compress": compression, "orc.stripe.size": "4096"})
    run = SinkRun(sink(tmp_path, factory), KIND)
    run.run_epoch(ROWS[:6])
    run.run_epoch(ROWS[6:])
    run.committer.finish()
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert [path.suffix for path in files] == [".orc"] * 2
    assert sorted(read_all(source(tmp_path, OrcFormat(type_info=KIND)), tmp_path / ".state"), key=repr) == sorted(
        ROWS, key=repr
    )
    chosen = read_all(source(tmp_path, OrcFormat(["raw", "when"])), tmp_path / ".state")
    assert Row(raw=b"\xff", when=ROWS[0].when) in chosen


def test_names_and_types(tmp_path: Path) -> None:
    write(tmp_path / "a.orc", 1, 2)
    state = tmp_path / ".state"
    kind = Types.ROW_NAMED(["NAME", "Id"], [str, Types.INT()])
    assert read_all(source(tmp_path, OrcFormat(type_info=kind, case_sensitive=False)), state)[0] == Row(NAME="n0", Id=0)
    for wrong, message in [
        (kind, "no column 'NAME'"),
        (Types.ROW_NAMED(["name"], [int]), "row 0 of stripe 0: field 'name'"),
    ]:
        with pytest.raises(BadRecordError, match=message):
            read_all(source(tmp_path, OrcFormat(type_info=wrong)), state)
    with pytest.raises(InvalidTypeError, match="no column 'x'"):
        source(tmp_path, OrcFormat(["x"]))
    with pytest.raises(InvalidTypeError, match="needs type_info"):
        _ = OrcFormat().produced_type
    (tmp_path / "a.orc").unlink()
    with pytest.raises(InvalidTypeError, match=r"no ORC file yet .* give type_info"):
        source(tmp_path)


def test_damaged_files_are_told(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(["id", "name"], [int, str])
    whole = tmp_path / "whole"
    write(whole, 1, 100)
    data = whole.read_bytes()
    whole.unlink()
    for damaged in (data[:50], b"no ORC at all", data[:-30]):
        (tmp_path / "a.orc").write_bytes(damaged)
        with pytest.raises(BadRecordError, match=r"a\.orc is "):
            read_all(source(tmp_path, OrcFormat(type_info=kind)), tmp_path / ".state")
    write(tmp_path / "b.orc", 1, 3)
    builder = FileSource.for_bulk_file_format(OrcFormat(type_info=kind), tmp_path).ignore_corrupt_files()
    run = SourceRun(builder.set_dead_letter(OutputTag("bad")).build(), tmp_path / ".state")
    assert [row.id for row in run.to_end()] == [0, 1, 2]
    assert [Path(where).name for where, _, _ in run.rejected] == ["a.orc"]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    factory = OrcBulkWriters.for_row_type()
    for kind, message in [
        (Types.PICKLED_BYTE_ARRAY(), "declare"),
        (Types.ROW_NAMED(["at"], [Types.SQL_TIME()]), "column 'at': ORC has no times of day"),
        (Types.ROW_NAMED(["at"], [Types.LIST(Types.SQL_TIME())]), "column 'at'"),
    ]:
        with pytest.raises(InvalidTypeError, match=message):
            factory.validate(kind)
    with pytest.raises(InvalidTypeError, match="have the columns of"):
        OrcBulkWriters.for_row_type(KIND).validate(Types.TUPLE([int]))
    for properties in ({"orc.compress": "lzo"}, {"orc.stripe.size": "0"}, {"orc.bloom.filter.columns": "id"}):
        with pytest.raises(ConfigurationError, match=r"is no property of ORC files: there are orc\.compress"):
            OrcBulkWriters.for_row_type(writer_properties=properties)
    with pytest.warns(UserWarning, match="hadoop_config has no effect"):
        OrcBulkWriters.for_row_type(hadoop_config=object())


def test_columns_may_be_renamed(tmp_path: Path) -> None:
    kind = Types.ROW_NAMED(["a", "b"], [Types.INT(), str])
    run = SinkRun(sink(tmp_path, OrcBulkWriters.for_row_type(kind)), Types.TUPLE([int, str]))
    run.run_epoch([(1, "x")])
    (path,) = [path for path in tmp_path.iterdir() if path.is_file()]
    assert orc.read_table(path).to_pylist() == [{"a": 1, "b": "x"}]


def test_by_name(tmp_path: Path) -> None:
    write(tmp_path / "a.orc", 1, 2)
    options: dict[str, Any] = {"path": str(tmp_path), "format": "orc"}
    assert create_source("filesystem", options).produced_type == Types.ROW_NAMED(["id", "name"], [int, str])
    assert create_sink("filesystem", {**options, "orc.compress": "zstd"})
