"""What PyFlink's own tests of files ask for: CSV from files through a job into files, a sink that joins its files."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Configuration, Encoder, Time, Types, WatermarkStrategy
from headrace.common.errors import InvalidTypeError
from headrace.datastream import SlotSharingGroup, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSplitAssignerProvider,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from headrace.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from headrace.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from headrace.datastream.state import StateTtlConfig
from headrace.table import DataTypes
from tests.pyflink.jobs import PAIR, environment


def _numbers() -> CsvSchema:
    builder = (
        CsvSchema.builder().add_number_column("tinyint", DataTypes.TINYINT()).add_number_column("int", DataTypes.INT())
    )
    builder.add_number_column("bigint").add_number_column("float", Types.FLOAT())
    builder.add_number_column("double", Types.DOUBLE()).add_number_column("decimal", Types.BIG_DEC())
    return builder.add_boolean_column("boolean").add_string_column("string").build()


def _two_texts() -> Any:
    return CsvSchema.builder().add_string_column("one").add_string_column("two")


def _arrays() -> CsvSchema:
    builder = CsvSchema.builder().add_array_column("numbers", separator=";", element_type=DataTypes.INT())
    builder.add_array_column("booleans", separator=":", element_type=DataTypes.BOOLEAN())
    builder.add_array_column("texts", separator=",", element_type=DataTypes.STRING())
    return builder.set_column_separator("|").disable_quote_char().build()


def _named() -> Any:
    return CsvSchema.builder().add_string_column("string").add_number_column("number").set_use_header()


NUMBERS = (127, 2147483647, -9223372036854775808, 0.5, 2e-308, Decimal("1.5"), True, "string")
LINE = "127,2147483647,-9223372036854775808,0.5,2e-308,1.5,true,string\n"


@pytest.mark.parametrize(
    ("schema", "text", "records", "written"),
    [
        pytest.param(_numbers(), LINE, [NUMBERS], LINE, id="primitive_column"),
        pytest.param(
            CsvSchema.builder().add_columns_from(_numbers()).build(), LINE, [NUMBERS], LINE, id="add_columns_from"
        ),
        pytest.param(
            _arrays(),
            "1;2;3|true:false|a,b,c\n",
            [([1, 2, 3], [True, False], ["a", "b", "c"])],
            "1;2;3|true:false|a,b,c\n",
            id="array_column",
        ),
        pytest.param(
            CsvSchema.builder().add_string_column("string").set_allow_comments().build(),
            "a\n# this is a comment\nb\n",
            [("a",), ("b",)],
            "a\nb\n",
            id="allow_comments",
        ),
        pytest.param(
            _named().build(), "h1,h2\nstring,123\n", [("string", 123)], "string,number\nstring,123\n", id="use_header"
        ),
        pytest.param(
            _named().set_strict_headers().build(),
            "string,number\nstring,123\n",
            [("string", 123)],
            "string,number\nstring,123\n",
            id="strict_headers",
        ),
        pytest.param(
            _two_texts().set_column_separator("|").build(),
            '"a"|"b|c"\n',
            [("a", "b|c")],
            'a|"b|c"\n',
            id="default_quote_char",
        ),
        pytest.param(
            _two_texts().set_column_separator("|").set_quote_char("`").build(),
            "`a`|`b|c`\n",
            [("a", "b|c")],
            "a|`b|c`\n",
            id="customize_quote_char",
        ),
        pytest.param(
            _two_texts().set_escape_char("\\").build(),
            '"string,","\\"string2\\""\n',
            [("string,", '"string2"')],
            '"string,","""string2"""\n',
            id="use_escape_char",
        ),
    ],
)
def test_csv(tmp_path: Path, schema: CsvSchema, text: str, records: list[Any], written: str) -> None:
    (tmp_path / "in.csv").write_text(text)
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path / "in.csv")).build()
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "csv-source")
    found = rows.map(lambda row: row, output_type=Types.PICKLED_BYTE_ARRAY()).execute_and_collect(limit=10)
    assert [tuple(row) for row in found] == records
    rows.sink_to(FileSink.for_bulk_format(tmp_path / "out", CsvBulkWriters.for_schema(schema)).build())
    env.execute()
    (file,) = (tmp_path / "out").glob("*/part-*")
    assert file.read_text() == written


def test_a_file_sink_with_all_settings(tmp_path: Path) -> None:
    strategy = (
        FileCompactStrategy.builder()
        .enable_compaction_on_checkpoint(3)
        .set_size_threshold(1024)
        .set_num_compact_threads(2)
        .build()
    )
    sink = (
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
        .with_bucket_check_interval(1000)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix("suf").build())
        .enable_compact(strategy, FileCompactor.concat_file_compactor(b"--\n"))
        .build()
    )
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_collection(["a", "b"], Types.STRING()).sink_to(sink)
    env.execute()
    (file,) = tmp_path.glob("compacted-pre-*suf")
    assert file.read_text() == "a\nb\n"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (JsonRowSerializationSchema.Builder().with_type_info(PAIR), JsonRowSerializationSchema),
        (JsonRowDeserializationSchema.Builder().type_info(PAIR), JsonRowDeserializationSchema),
        (CsvRowSerializationSchema.Builder(PAIR), CsvRowSerializationSchema),
        (CsvRowDeserializationSchema.Builder(PAIR), CsvRowDeserializationSchema),
        (FileCompactStrategy.Builder().set_size_threshold(1), FileCompactStrategy),
        (OutputFileConfig.OutputFileConfigBuilder(), OutputFileConfig),
        (StateTtlConfig.Builder(Time.days(1)), StateTtlConfig),
        (SlotSharingGroup.Builder("group"), SlotSharingGroup),
    ],
)
def test_builders_are_called_by_name(made: Any, expected: type) -> None:
    assert type(made.build()) is expected


def test_a_split_assigner_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in.txt"))
    builder.set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator())
    with pytest.warns(UserWarning, match="set_split_assigner has no effect: the planner assigns"):
        builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner())
    with pytest.raises(InvalidTypeError, match="set_dead_letter takes an OutputTag, not 'bad'"):
        builder.set_dead_letter("bad")  # type: ignore[arg-type]
    lines = environment().from_source(builder.build(), WatermarkStrategy.no_watermarks(), "lines")
    assert lines.execute_and_collect(limit=2) == ["a"]
