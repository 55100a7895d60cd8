"""Which folder a record goes to: by its event time, its fields, a function."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.batch import Batch
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.serialization import Encoder
from headrace.connectors.file_system.buckets import BucketContext
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig
from headrace.expressions import col
from headrace.formats.parquet import ParquetBulkWriters
from tests.connectors.harness import SinkRun
from tests.draws import draws

ORDER = Types.ROW_NAMED(["country", "paid", "n"], [Types.STRING(), Types.SQL_TIMESTAMP(), Types.LONG()])
NOON = datetime.datetime(2024, 2, 29, 12)


def buckets_of(assigner: BucketAssigner, rows: list[Any], times: Any = None, kind: Any = ORDER) -> list[str]:
    assigner = pickle.loads(pickle.dumps(assigner))
    assigner.validate(kind)
    at = np.full(len(rows), NO_TIMESTAMP) if times is None else times
    found = assigner.bucket_ids(Batch.of_rows(kind, rows, at, np.zeros(len(rows))), 0)
    assert isinstance(found, list)
    return found


@pytest.mark.sampled(10)
@pytest.mark.parametrize("pattern", ["yyyy-MM-dd--HH", "yyyy/'m='MM", "HH:mm", "mm:ss", "ss.SSS", "'all'"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York", "Africa/Monrovia", "GMT+01:07"])
@settings(deadline=None, max_examples=draws(25))
@given(times=st.lists(st.integers(-5_000_000_000_000, 5_000_000_000_000) | st.integers(-90_000, 90_000), min_size=1))
@example(times=[-1, 0, 59_999, 60_000, 94_600_000_000, 94_608_000_000])
def test_event_time_is_named_record_by_record(pattern: str, zone: str, times: list[int]) -> None:
    assigner = BucketAssigner.event_time_bucket_assigner(pattern, zone)
    clock = BucketAssigner.date_time_bucket_assigner(pattern, zone)
    wanted = [clock.get_bucket_id(None, BucketContext(time, 0, None)) for time in times]
    assert buckets_of(assigner, times, times, Types.LONG()) == wanted
    assert [assigner.get_bucket_id(None, BucketContext(0, 0, time)) for time in times] == wanted


@pytest.mark.parametrize(("time", "message"), [(NO_TIMESTAMP, "no event time"), (10**17, "years 1 to 9999")])
def test_event_times_that_name_no_bucket(time: int, message: str) -> None:
    assigner = BucketAssigner.event_time_bucket_assigner()
    with pytest.raises(InvalidProgramError, match=message):
        buckets_of(assigner, [1, 2], [0, time], Types.LONG())


def test_the_default_folders_of_event_time_are_hours_of_utc() -> None:
    assigner = BucketAssigner.event_time_bucket_assigner()
    assert buckets_of(assigner, [1, 2], [0, -1], Types.LONG()) == ["1970-01-01--00", "1969-12-31--23"]


def test_fields_are_folders_as_spark_reads_them() -> None:
    rows = [("DE", NOON, 1), ("a/b=c:d%", NOON, 2), ("DE", None, 1), (None, NOON, 1), ("", NOON, -1), ("Ä x", NOON, 1)]
    assert buckets_of(BucketAssigner.field_bucket_assigner("country", "n"), rows) == [
        "country=DE/n=1",
        "country=a%2Fb%3Dc%3Ad%25/n=2",
        "country=DE/n=1",
        "country=__HIVE_DEFAULT_PARTITION__/n=1",
        "country=__HIVE_DEFAULT_PARTITION__/n=-1",
        "country=Ä x/n=1",
    ]


def test_expressions_are_folders() -> None:
    day = col("paid").cast(Types.SQL_DATE()).alias("day")
    assigner = BucketAssigner.field_bucket_assigner(day, col("paid").hour().alias("hour"))
    assert buckets_of(assigner, [("DE", NOON, 1), ("DE", None, 1)]) == [
        "day=2024-02-29/hour=12",
        "day=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "folder"),
    [
        (Types.BOOLEAN(), True, "true"),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.SQL_TIME(), datetime.time(1, 2, 3), "01%3A02%3A03"),
        (Types.BYTE(), -3, "-3"),
        (Types.DOUBLE(), 0.5, "0.5"),
    ],
)
def test_the_text_of_a_value_is_its_folder(kind: Any, value: Any, folder: str) -> None:
    record = Types.ROW_NAMED(["f"], [kind])
    assert buckets_of(BucketAssigner.field_bucket_assigner("f"), [(value,)], kind=record) == [f"f={folder}"]


def test_many_values_in_several_batches_land_where_they_belong(tmp_path: Path) -> None:
    sink = FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_row_type())
    run = SinkRun(sink.with_bucket_assigner(BucketAssigner.field_bucket_assigner("country", "n")).build(), ORDER)
    rows = [(f"c{number % 3}", NOON, number % 5) for number in range(300)]
    run.run_epoch(rows[:150])
    run.run_epoch(rows[150:])
    run.end()
    files = sorted(path for path in tmp_path.rglob("*.parquet"))
    assert len({file.parent for file in files}) == 15
    for file in files:
        place = dict(part.split("=") for part in file.parent.relative_to(tmp_path).parts)
        content = pq.ParquetFile(file).read().to_pylist()
        assert {(record["country"], str(record["n"])) for record in content} == {(place["country"], place["n"])}
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in files) == 300


def test_what_cannot_be_a_folder_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="takes the names of fields"):
        BucketAssigner.field_bucket_assigner()
    with pytest.raises(InvalidProgramError, match=r'a folder of col\("n"\) \+ 1 needs a name'):
        BucketAssigner.field_bucket_assigner(col("n") + 1)
    with pytest.raises(InvalidTypeError, match="nothing"):
        BucketAssigner.field_bucket_assigner("nothing").validate(ORDER)
    for kind in (Types.LIST(Types.INT()), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PICKLED_BYTE_ARRAY()):
        with pytest.raises(InvalidTypeError, match="cannot be the name of a bucket"):
            BucketAssigner.field_bucket_assigner("f").validate(Types.ROW_NAMED(["f"], [kind]))
    with pytest.raises(InvalidTypeError, match="have no columns"):
        BucketAssigner.field_bucket_assigner("f").validate(Types.PICKLED_BYTE_ARRAY())
    with pytest.raises(NotImplementedError, match="whole batches"):
        BucketAssigner.field_bucket_assigner("f").get_bucket_id(None, BucketContext(0, 0, None))


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "", "../UTC", "GMT+24:00", "UTC-99", "+01:60"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidProgramError, match="unknown time zone"):
        BucketAssigner.event_time_bucket_assigner("yyyy", zone)


def test_a_sink_refuses_records_without_the_field(tmp_path: Path) -> None:
    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
    with pytest.raises(InvalidTypeError, match="country"):
        builder.with_bucket_assigner(BucketAssigner.field_bucket_assigner("country")).build().validate(Types.STRING())


def test_a_function_names_the_bucket() -> None:
    assert buckets_of(BucketAssigner.function_bucket_assigner(first_letter), ["ab", "c"], kind=Types.STRING()) == [
        "letter=a",
        "letter=c",
    ]
    with pytest.raises(InvalidProgramError, match="a bucket is a text, not 7 of type int"):
        buckets_of(BucketAssigner.function_bucket_assigner(len), ["1234567", "c"], kind=Types.STRING())


@pytest.mark.parametrize("pattern", ["'_'yyyy", ".yyyy", "yyyy/'_tmp'", "'lost+found'/yyyy"])
def test_patterns_of_hidden_folders(pattern: str) -> None:
    for assigner in (BucketAssigner.date_time_bucket_assigner, BucketAssigner.event_time_bucket_assigner):
        with pytest.raises(InvalidProgramError, match="are hidden: readers leave out what is in them"):
            assigner(pattern)


@pytest.mark.parametrize("pattern", ["yyyy//MM", "/yyyy", "'..'/yyyy"])
def test_patterns_that_lead_elsewhere(pattern: str) -> None:
    with pytest.raises(InvalidProgramError, match="is not a relative path below the sink's path"):
        BucketAssigner.date_time_bucket_assigner(pattern)


def test_fields_of_hidden_folders() -> None:
    with pytest.raises(InvalidProgramError, match=r"folders that are called like '\.year=' are hidden"):
        BucketAssigner.field_bucket_assigner("country", col("paid").year().alias(".year"))
    assert buckets_of(BucketAssigner.field_bucket_assigner(col("n").alias("_n")), [("de", NOON, 7)]) == ["_n=7"]


@pytest.mark.parametrize(
    ("config", "end"),
    [
        (None, ".parquet"),
        (OutputFileConfig("out"), ".parquet"),
        (OutputFileConfig.builder().with_part_suffix(".pq").build(), ".pq"),
        (OutputFileConfig.builder().with_part_suffix("").build(), "-1"),
    ],
)
def test_parquet_files_are_called_so(tmp_path: Path, config: OutputFileConfig | None, end: str) -> None:
    builder = FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_row_type())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    run = SinkRun((builder if config is None else builder.with_output_file_config(config)).build(), ORDER)
    run.run_epoch([("DE", NOON, 1)])
    run.end()
    (file,) = (path for path in tmp_path.iterdir() if path.is_file())
    assert file.name.endswith(end)


def first_letter(record: str) -> str:
    return f"letter={record[0]}"
