"""Rows that are no insertions: every operator keeps or shows their kind, or refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common import Configuration, Encoder, Row, RowKind, Time, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, UserFunctionError
from headrace.connectors.sink import Sink
from headrace.datastream import KeyedProcessFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment
from headrace.datastream.aggregates import count
from headrace.datastream.connectors import BucketAssigner, FileSink
from headrace.datastream.formats.json import JsonLinesEncoder
from headrace.datastream.formats.parquet import ParquetBulkWriters
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import col

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.common.typeinfo import TypeInformation
    from headrace.datastream import DataStream

NAMES, FIELDS = ["key", "value"], [Types.STRING(), Types.LONG()]
PLAIN = Types.ROW_NAMED(NAMES, FIELDS)
DECLARED = Types.ROW_NAMED(NAMES, FIELDS, changelog=True)
UNTYPED = Types.PICKLED_BYTE_ARRAY()
CHANGES = [Row.of_kind(kind, key="ab"[i % 2], value=i) for i, kind in enumerate([*RowKind] * 3)]
SIDE = OutputTag("side", PLAIN)


class Sort(ProcessFunction):
    """Sends deletions to a side output."""

    def process_element(self, value: Row, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield (SIDE, value) if value.get_row_kind() is RowKind.DELETE else value


class Same(KeyedProcessFunction):
    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        yield value


def environment(parallelism: int, records: int) -> StreamExecutionEnvironment:
    settings = {
        "headrace.runtime": "local",
        "parallelism.default": str(parallelism),
        "headrace.epoch.max-records": str(records),
        "headrace.epoch.target-duration": "60s",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


def changes(type_: TypeInformation = PLAIN, parallelism: int = 1, records: int = 1000) -> DataStream:
    return environment(parallelism, records).from_collection(CHANGES, type_)


def sent(stream: DataStream) -> DataStream:
    """The same records behind a shuffle."""
    return stream.key_by(lambda row: row.key, key_type=Types.STRING())


def collected(stream: DataStream) -> list[Row]:
    with stream.execute_and_collect() as results:
        return sorted(results, key=lambda row: row.value)


@pytest.mark.parametrize(("parallelism", "records"), [(1, 1000), (3, 5)])
@pytest.mark.parametrize("type_", [PLAIN, DECLARED, UNTYPED], ids=["plain", "declared", "untyped"])
@pytest.mark.parametrize(
    "build",
    [
        lambda s, _: s,
        lambda s, t: s.map(lambda row: row, t),
        lambda s, t: s.flat_map(lambda row: [row], t),
        lambda s, _: sent(s.filter(lambda row: True)),
        lambda s, t: sent(sent(s).process(Same(), t)),
        lambda s, _: sent(s.filter(lambda row: row.value % 2 == 0).union(s.filter(lambda row: row.value % 2 == 1))),
        lambda s, t: (made := s.process(Sort(), t)).union(made.get_side_output(SIDE).map(lambda row: row, t)),
    ],
    ids=["collect", "map", "flat_map", "filter", "keyed", "fork", "side"],
)
def test_a_row_keeps_its_kind(
    build: Callable[[DataStream, TypeInformation], DataStream], type_: TypeInformation, parallelism: int, records: int
) -> None:
    assert collected(build(changes(type_, parallelism, records), type_)) == CHANGES


@pytest.mark.parametrize("type_", [PLAIN, DECLARED], ids=["plain", "declared"])
def test_columns_that_are_made_of_rows_are_of_their_kind(type_: TypeInformation) -> None:
    made = changes(type_, 2, 5).filter(col("value") > 2).select("key", (col("value") + 0).alias("value"))
    assert collected(sent(made)) == CHANGES[3:]


def test_batches_of_as_many_rows_are_of_their_kinds() -> None:
    assert collected(changes().map_batches(lambda batch: batch, PLAIN)) == CHANGES


def test_batches_of_a_declared_type_have_kinds_as_a_column() -> None:
    def deleted(batch: pa.RecordBatch) -> pa.RecordBatch:
        first = batch.slice(0, 1)
        return first.set_column(2, "__row_kind", pa.array([RowKind.DELETE.value], pa.int8()))

    assert collected(changes(DECLARED).map_batches(deleted, DECLARED)) == [
        Row.of_kind(RowKind.DELETE, key="a", value=0)
    ]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.map_batches(lambda batch: batch.slice(1), PLAIN), "map_batches gave 11 rows for 12"),
        (lambda s: s.map(col("value")), "which only rows can be, and not Long"),
        (lambda s: s.map(lambda row: row, Types.TUPLE(FIELDS)), "expected a tuple of 2 values"),
    ],
)
def test_a_kind_is_not_lost_unseen(build: Callable[[DataStream], DataStream], message: str) -> None:
    with pytest.raises(UserFunctionError, match=message):
        collected(build(changes()))


def _windows(stream: DataStream) -> Any:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.value)
    timed = stream.assign_timestamps_and_watermarks(times)
    return sent(timed).window(TumblingEventTimeWindows.of(Time.seconds(1)))


INSERTIONS_ALONE: dict[str, Callable[[DataStream], Any]] = {
    "reduce": lambda s: s.key_by(lambda row: row.key).reduce(lambda a, b: a).print(),
    "sum": lambda s: s.key_by(lambda row: row.key).sum("value").print(),
    "aggregates": lambda s: _windows(s).aggregate(count()).print(),
    "window": lambda s: _windows(s).reduce(lambda a, b: a).print(),
    "json": lambda s: s.sink_to(FileSink.for_row_format("out", JsonLinesEncoder()).build()),
}


@pytest.mark.parametrize("name", INSERTIONS_ALONE)
def test_a_change_is_refused_where_it_comes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for type_ in [PLAIN, UNTYPED] if name in ("reduce", "window") else [PLAIN]:
        stream = changes(type_, 2, 5)
        INSERTIONS_ALONE[name](stream.map(lambda row: row, type_))
        with pytest.raises(
            InvalidProgramError, match=r"takes insertions alone \(.*\), but a record is -U.*\n  record: -U Row\("
        ):
            stream.get_execution_environment().execute()
    assert not list(Path("out").glob("*/part-*"))


@pytest.mark.parametrize("name", INSERTIONS_ALONE)
def test_changes_that_are_declared_are_refused_in_the_program(name: str) -> None:
    for declared in (changes(DECLARED), changes().map(lambda row: row, DECLARED).select("key", "value")):
        with pytest.raises(
            InvalidProgramError, match=r"takes insertions alone \(.*\), but its records may be updates"
        ) as told:
            INSERTIONS_ALONE[name](declared)
        assert "test_changes.py" in str(told.value)


def test_insertions_that_are_left_are_taken() -> None:
    left = changes(DECLARED).filter(lambda row: row.get_row_kind() is RowKind.INSERT)
    sums = left.key_by("key").sum("value")
    assert [row.value for row in collected(sums)] == [0, 4, 12]


def test_lines_of_text_show_the_kind(tmp_path: Path) -> None:
    stream = changes()
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    stream.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    stream.get_execution_environment().execute()
    (part,) = tmp_path.glob("part-*")
    assert part.read_text().splitlines()[:4] == ["+I[a, 0]", "-U[b, 1]", "+U[a, 2]", "-D[b, 3]"]


def test_parquet_files_have_a_column_of_kinds_where_it_is_declared(tmp_path: Path) -> None:
    sink = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type())
    built = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    stream = changes()
    stream.sink_to(built)
    with pytest.raises(InvalidProgramError, match="takes insertions alone"):
        stream.get_execution_environment().execute()
    stream = changes(DECLARED)
    stream.sink_to(built)
    stream.get_execution_environment().execute()
    (part,) = tmp_path.glob("part-*")
    assert pq.read_table(part).column("__row_kind").to_pylist() == [0, 1, 2, 3] * 3


def test_a_sink_takes_changes_of_declared_types_unless_it_says_otherwise() -> None:
    class Ends(Sink[Row]):
        create_writer = create_committer = None  # type: ignore[assignment]

    assert (Ends().takes_changes(PLAIN), Ends().takes_changes(DECLARED)) == (False, True)
