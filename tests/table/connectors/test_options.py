"""Options that Flink has: each has an effect, or is refused with what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.table.connectors import TABLE_CONNECTORS
from headrace.table.connectors.formats import TABLE_FORMATS
from tests.table.connectors.session import rows, run, session

FLINK = {
    "filesystem": "path format partition.default-name source.monitor-interval source.report-statistics "
    "source.path.regex-pattern sink.rolling-policy.file-size sink.rolling-policy.rollover-interval "
    "sink.rolling-policy.inactivity-interval sink.rolling-policy.check-interval sink.shuffle-by-partition.enable "
    "sink.parallelism partition.time-extractor.kind partition.time-extractor.class "
    "partition.time-extractor.timestamp-pattern partition.time-extractor.timestamp-formatter "
    "sink.partition-commit.trigger sink.partition-commit.delay sink.partition-commit.watermark-time-zone "
    "sink.partition-commit.policy.kind sink.partition-commit.policy.class "
    "sink.partition-commit.policy.class.parameters sink.partition-commit.success-file.name auto-compaction "
    "compaction.file-size compaction.parallelism",
    "kafka": "topic topic-pattern format key.format key.fields key.fields-prefix value.format value.fields-include "
    "scan.startup.mode scan.startup.specific-offsets scan.startup.timestamp-millis scan.bounded.mode "
    "scan.bounded.specific-offsets scan.bounded.timestamp-millis scan.topic-partition-discovery.interval "
    "scan.parallelism sink.partitioner sink.delivery-guarantee sink.transactional-id-prefix "
    "sink.transaction-naming-strategy sink.parallelism sink.semantic",
    "upsert-kafka": "topic topic-pattern key.format key.fields-prefix value.format value.fields-include "
    "scan.bounded.mode scan.bounded.specific-offsets scan.bounded.timestamp-millis scan.parallelism "
    "sink.parallelism sink.buffer-flush.max-rows sink.buffer-flush.interval sink.delivery-guarantee "
    "sink.transactional-id-prefix sink.partitioner",
    "datagen": "rows-per-second number-of-rows scan.parallelism",
    "print": "print-identifier standard-error sink.parallelism",
    "csv": "allow-comments allow-trailing-comma array-element-delimiter disable-quote-character empty-string-as-null "
    "escape-character fail-on-missing-columns field-delimiter ignore-parse-errors ignore-trailing-unmappable "
    "null-literal quote-character trim-spaces write-bigdecimal-in-scientific-notation",
    "json": "decode.json-parser.enabled encode.decimal-as-plain-number encode.ignore-null-fields "
    "fail-on-missing-field ignore-parse-errors map-null-key.literal map-null-key.mode timestamp-format.standard",
    "debezium-json": "schema-include ignore-parse-errors timestamp-format.standard map-null-key.mode "
    "map-null-key.literal encode.decimal-as-plain-number encode.ignore-null-fields",
    "canal-json": "ignore-parse-errors timestamp-format.standard map-null-key.mode map-null-key.literal "
    "encode.decimal-as-plain-number encode.ignore-null-fields database.include table.include",
    "maxwell-json": "ignore-parse-errors timestamp-format.standard map-null-key.mode map-null-key.literal "
    "encode.decimal-as-plain-number encode.ignore-null-fields",
    "ogg-json": "ignore-parse-errors timestamp-format.standard map-null-key.mode map-null-key.literal "
    "encode.decimal-as-plain-number encode.ignore-null-fields",
    "avro": "codec encoding timestamp_mapping.legacy",
    "raw": "charset endianness",
    "parquet": "utc-timezone batch-size write.int64.timestamp timestamp.time.unit",
}


@pytest.mark.parametrize("name", FLINK)
def test_options_of_flink_are_known(name: str) -> None:
    plugin = (TABLE_CONNECTORS if name in TABLE_CONNECTORS.names() else TABLE_FORMATS).load(name)
    known = {option.key for option in (*plugin.required_options, *plugin.optional_options)}
    assert set(FLINK[name].split()) <= known | set(plugin.other_options)
    assert not known & set(plugin.other_options)


@pytest.mark.parametrize(
    ("fmt", "options", "said"),
    [
        ("parquet", "'parquet.utc-timezone'='false'", "utc-timezone = 'false': expected true: times"),
        ("avro", "'avro.timestamp_mapping.legacy'='true'", "timestamp_mapping.legacy = 'true': expected false"),
        ("csv", "'csv.trim-spaces'='true'", r"has no option 'trim-spaces': write TRIM\(column\)"),
        ("json", "'json.map-null-key.mode'='DROP'", "map-null-key.mode = 'DROP': expected FAIL: a NULL key"),
        ("json", "'json.fail-on-missing-field'='true'", "'fail-on-missing-field' means nothing for files"),
        ("csv", "'scan.parallelism'='2'", "as many tasks as a job has, 'parallelism.default'"),
        ("csv", "'csv.field-delimiter'=';;'", "^table .*: the delimiter of CSV"),
    ],
)
def test_what_would_have_no_effect_is_refused(tmp_path: Path, fmt: str, options: str, said: str) -> None:
    where = f"'connector'='filesystem', 'path'='{tmp_path}', 'format'='{fmt}', {options}"
    tables = session(f"CREATE TABLE t (a INT) WITH ({where})")
    with pytest.raises(HeadraceError, match=said):
        rows(tables, "SELECT * FROM t")


def test_options_of_files_are_refused_for_messages(tmp_path: Path) -> None:
    where = f"'connector'='log', 'path'='{tmp_path}', 'topic'='t', 'format'='avro', 'avro.codec'='snappy'"
    tables = session(f"CREATE TABLE t (a INT) WITH ({where}, 'auto-create.partitions'='1')")
    with pytest.raises(ConfigurationError, match="'codec' means nothing for messages"):
        run(tables, "INSERT INTO t VALUES (1)")
