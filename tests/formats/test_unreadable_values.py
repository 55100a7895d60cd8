"""What formats can say and Python cannot hold is a bad record at the source, whatever the format and the policy."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from headrace.common import AvroRowDeserializationSchema, DeserializationSchema, JsonRowDeserializationSchema, Types
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.serialization import DeserializedBatch
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.messages import MessageDecoder, MessageDeserializationSchema, Messages
from headrace.datastream.connectors.file_system import FileSource
from headrace.formats.avro.files import AvroFormat
from headrace.formats.cdc.schemas import DebeziumJsonDeserializationSchema
from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.orc import OrcFormat
from headrace.formats.parquet import ParquetFormat
from tests.connectors.harness import read_all

FAR = 2**62
DAY = 86_400_000_000
YEAR_10000 = 253_402_300_800_000_000
"""Microseconds until then."""

VALUES: dict[str, tuple[TypeInformation, pa.Array, list[bool], str]] = {
    "dates": (
        Types.SQL_DATE(),
        pa.array([-719162, -719163, 2932896, 2932897, None], pa.int32()).view(pa.date32()),
        [True, False, True, False, True],
        "got 0000-12-31, expected a date in the years 1 to 9999",
    ),
    "times": (
        Types.SQL_TIME(),
        pa.array([0, -1, DAY - 1, DAY, None], pa.int64()).view(pa.time64("us")),
        [True, False, True, False, True],
        "got -1 microseconds since midnight, expected a time of day, from 00:00 to 23:59:59.999999",
    ),
    "timestamps": (
        Types.SQL_TIMESTAMP(),
        pa.array([YEAR_10000 - 1, YEAR_10000, -FAR, None], pa.timestamp("us")),
        [True, False, False, True],
        "got 10000-01-01T00:00:00.000000, expected a time in the years 1 to 9999",
    ),
    "moments": (
        Types.TIMESTAMP_LTZ(),
        pa.array([YEAR_10000 - 1, YEAR_10000, None], pa.timestamp("us", "UTC")),
        [True, False, True],
        "got 10000-01-01T00:00:00.000000Z, expected a time in the years 1 to 9999 of UTC",
    ),
    "strings": (
        Types.STRING(),
        pa.Array.from_buffers(
            pa.string(), 4, pa.array([b"a", "\u00fc".encode()[:1], None, b"\xf0\x9f\x98\x80"], pa.binary()).buffers()
        ),
        [True, False, True, True],
        r"got b'\xc3', expected a str that UTF-8 can encode",
    ),
    "characters": (
        Types.CHAR(), pa.array(["a", "ab", "\u00fc", "", None]), [True, False, True, False, True],
        "got 'ab', expected a str of one character",
    ),
    "integers": (
        Types.BIG_INT(), pa.array(["007", "1.5", "0xff", None, "9" * 30, "9" * 5000]),
        [True, False, True, True, True, False], "got '1.5', expected an int",
    ),
    "decimals": (
        Types.BIG_DEC(), pa.array(["1.50", "1,5", "-1e5", "NaN", "nan(7)", None]),
        [True, False, True, True, False, True], "got '1,5', expected a decimal.Decimal or an int",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_columns_say_which_values_are_none_of_their_type(name: str) -> None:
    kind, array, good, reason = VALUES[name]
    layout = layout_of(kind)
    batch = pa.RecordBatch.from_arrays([array], schema=layout.schema)
    found = layout.unreadable(batch)
    assert [index for index, _ in found] == np.flatnonzero(~np.array(good)).tolist()
    assert found[0][1] == f": {reason}"
    kept = batch.filter(pa.array(good))
    assert len(layout.columns_to_rows(kept)) == sum(good)
    assert layout.unreadable(kept) == layout.unreadable(batch.slice(0, 0)) == []
    if name != "characters":  # Python can hold those
        with pytest.raises(InvalidTypeError, match="row 1: got"):
            layout.columns_to_rows(batch)


def test_values_within_others_are_found_and_those_of_missing_ones_are_not_asked() -> None:
    row = Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()])
    kind = Types.ROW_NAMED(
        ["list", "map", "row", "numbers"],
        [Types.LIST(row), Types.MAP(Types.STRING(), Types.LIST(Types.SQL_DATE())), row, Types.PRIMITIVE_ARRAY(int)],
    )
    schema = layout_of(kind).schema
    far, near = {"at": FAR}, {"at": 0}
    stored = pa.struct([("at", pa.int64())])
    lists = pa.array([[near], [near, far], None, [], []], pa.list_(stored))
    hidden = pa.ListArray.from_arrays(lists.offsets, lists.values, mask=pa.array([False, False, True, False, False]))
    maps = pa.array(
        [[("a", [0])], [], [("a", []), ("b", [0, 2**30])], None, []], pa.map_(pa.string(), pa.list_(pa.int32()))
    )
    structs = pa.StructArray.from_arrays(
        [pa.array([0, FAR, 0, FAR, 0])], ["at"], mask=pa.array([False, True, False, False, False])
    )
    numbers = pa.array([[1], None, [2], [3], [4, None]], schema.field("numbers").type)
    arrays = [a.cast(f.type) for a, f in zip([hidden, maps, structs, numbers], schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    wanted = [
        (1, ", field 'list'[1], field 'at': got "),
        (2, ", field 'map', value 1[1]: got 2941775-04-07"),
        (3, ", field 'row', field 'at': got "),
        (4, ", field 'numbers'[1]: got None"),
    ]
    for first in range(5):
        found = layout_of(kind).unreadable(batch.slice(first))
        expected = [(index - first, text) for index, text in wanted if index >= first]
        assert [index for index, _ in found] == [index for index, _ in expected]
        assert all(reason.startswith(text) for (_, reason), (_, text) in zip(found, expected, strict=True))


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "millis", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "micros", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "either", "type": [{"type": "long", "logicalType": "timestamp-micros"}, "string"]},
    ],
}
STORED = json.loads(json.dumps(AVRO).replace("logicalType", "stored"))
GOOD = {"day": 0, "millis": 1, "micros": 2, "at": 3, "either": 4}
BAD: list[tuple[dict[str, Any], str]] = [
    (GOOD | {"day": 2932897}, "field 'day': got 10000-01-01, expected a date in the years 1 to 9999"),
    (
        GOOD | {"millis": 86_400_000},
        "field 'millis': got 86400000000 microseconds since midnight, expected",
    ),
    (GOOD | {"micros": -1}, "field 'micros': got -1 microseconds since midnight, expected a time of day"),
    (GOOD | {"at": YEAR_10000 // 1000}, "field 'at': got 10000-01-01T00:00:00.000000"),
    (GOOD | {"at": 2**63 - 1}, "field 'at': got 9223372036854775807"),
    (GOOD | {"either": YEAR_10000}, "field 'either': got 10000-01-01T00:00:00.000000"),
]


def avro_message(value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(STORED), value)
    return stream.getvalue()


@pytest.mark.parametrize("legacy", [True, False])
def test_messages_of_avro(legacy: bool) -> None:
    schema = AvroRowDeserializationSchema(avro_schema_string=json.dumps(AVRO), legacy_timestamp_mapping=legacy)
    values = [GOOD, *(value for value, _ in BAD), GOOD]
    read = schema.deserialize_batch(pa.array(list(map(avro_message, values))))
    assert read.messages is not None
    assert read.messages.tolist() == [0, len(BAD) + 1]
    for (index, reason), (place, (value, expected)) in zip(read.rejected, enumerate(BAD, 1), strict=True):
        assert index == place
        assert reason.startswith(expected)
        with pytest.raises(BadRecordError) as told:
            schema.deserialize(avro_message(value))
        assert reason in str(told.value)


def test_files_of_avro(tmp_path: Path) -> None:
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(STORED), [GOOD, *(value for value, _ in BAD), GOOD])
    rows, rejected = read_with_dead_letters(AvroFormat(json.dumps(AVRO)), tmp_path)
    assert len(rows) == 2
    assert [reason.startswith(expected) for (_, _, reason), (_, expected) in zip(rejected, BAD, strict=True)] == [
        True
    ] * 6
    with pytest.raises(BadRecordError, match=r"record 1 of the block at byte \d+: field 'day': got 10000-01-01"):
        read_all(FileSource.for_bulk_file_format(AvroFormat(json.dumps(AVRO)), tmp_path).build(), tmp_path / ".state")


def read_with_dead_letters(fmt: Any, path: Path) -> tuple[list[Any], list[tuple[str, str, str]]]:
    from tests.connectors.harness import SourceRun

    make = FileSource.for_record_stream_format if isinstance(fmt, JsonLinesFormat) else FileSource.for_bulk_file_format
    source = make(fmt, path).set_dead_letter(OutputTag("bad", Types.TUPLE([str, str, str]))).build()
    run = SourceRun(source, path / ".state")
    run.to_end()
    return run.rows, run.rejected


def parquet_table(name: str) -> pa.Table:
    return pa.table({"n": pa.array(range(len(VALUES[name][1]))), "value": VALUES[name][1]})


@pytest.mark.parametrize("name", VALUES)
def test_rows_of_parquet(name: str, tmp_path: Path) -> None:
    kind, _, good, reason = VALUES[name]
    pq.write_table(parquet_table(name), tmp_path / "a.parquet")
    fmt: Any = ParquetFormat(type_info=Types.ROW_NAMED(["n", "value"], [Types.LONG(), kind]), batch_size=2)
    rows, rejected = read_with_dead_letters(fmt, tmp_path)
    assert [row.n for row in rows] == np.flatnonzero(good).tolist()
    assert [where.rpartition(": ")[2] for where, _, _ in rejected] == [
        f"row {index} of the file" for index in np.flatnonzero(~np.array(good))
    ]
    assert rejected[0][1].startswith("n=1, value=")
    assert rejected[0][2] == f"field 'value': {reason}"
    with pytest.raises(BadRecordError, match=r"row 1 of the file: field 'value': got .*call set_dead_letter"):
        read_all(FileSource.for_bulk_file_format(fmt, tmp_path).build(), tmp_path / ".other")


def test_rows_of_orc_and_values_that_do_not_fit_the_declared_type(tmp_path: Path) -> None:
    table = pa.table({"day": VALUES["dates"][1], "n": pa.array([1, 2, 2**40, 4, 5])})
    orc.write_table(table, tmp_path / "a.orc")
    fmt = OrcFormat(type_info=Types.ROW_NAMED(["day", "n"], [Types.SQL_DATE(), Types.INT()]))
    rows, rejected = read_with_dead_letters(fmt, tmp_path)
    assert [row.n for row in rows] == [1, 5]
    assert [(where.rpartition(": ")[2], reason) for where, _, reason in rejected] == [
        ("row 1 of stripe 0", "field 'day': got 0000-12-31, expected a date in the years 1 to 9999"),
        (
            "row 2 of stripe 0",
            "field 'n': Integer value 1099511627776 not in range: -2147483648 to 2147483647, expected int32",
        ),
        ("row 3 of stripe 0", "field 'day': got 10000-01-01, expected a date in the years 1 to 9999"),
    ]


def test_moments_of_96_bits_in_parquet_are_read_as_they_are(tmp_path: Path) -> None:
    micros = [YEAR_10000 - 1, -62_135_596_800_000_000, 0]
    table = pa.table({"at": pa.array(micros, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    rows = read_all(FileSource.for_bulk_file_format(ParquetFormat(), tmp_path).build(), tmp_path / ".state")
    assert [str(row.at) for row in rows] == ["9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "1970-01-01 00:00:00"]


ROW = Types.ROW_NAMED(["id", "at"], [Types.INT(), Types.TIMESTAMP_LTZ()])
EARLY = "0001-01-01T00:00:00+01:00"
LATE = "9999-12-31T23:59:59.999999-00:01"
OF_JSON = [f'{{"id": {n}, "at": "{at}"}}'.encode() for n, at in enumerate([EARLY, "0001-01-01T01:00:00+01:00", LATE])]


def debezium(row: bytes) -> bytes:
    return b'{"before": null, "after": %s, "op": "c"}' % row


@pytest.mark.parametrize(
    ("schema", "wrap"),
    [(JsonRowDeserializationSchema(ROW), bytes), (DebeziumJsonDeserializationSchema(ROW), debezium)],
    ids=["json", "debezium-json"],
)
def test_messages_of_json(schema: DeserializationSchema, wrap: Callable[[bytes], bytes]) -> None:
    read = schema.deserialize_batch(pa.array(list(map(wrap, OF_JSON))))
    assert read.columns is not None
    assert read.columns.column("id").to_pylist() == [1]
    assert read.messages is not None
    assert read.messages.tolist() == [1]
    assert [index for index, _ in read.rejected] == [0, 2]
    assert all("at'" in reason and "1 to 9999" in reason for _, reason in read.rejected)


def test_lines_of_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\n".join(OF_JSON))
    rows, rejected = read_with_dead_letters(JsonLinesFormat(ROW), tmp_path)
    assert [row.id for row in rows] == [1]
    assert [where.rpartition(":")[2] for where, _, _ in rejected] == ["1", "3"]
    assert all("at'" in reason and "1 to 9999" in reason for _, _, reason in rejected)


class OwnSchema(DeserializationSchema):
    """A schema of a program, which hands over columns: two records of each message."""

    def deserialize(self, message: bytes) -> Any:
        raise AssertionError("messages are read together")

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        numbers = np.repeat([int(message) for message in messages.to_pylist()], 2)
        numbers[::2] = 0
        column = pa.array(numbers).view(pa.timestamp("us"))
        columns = pa.RecordBatch.from_arrays([column], ["value"])
        return DeserializedBatch(columns, messages=np.repeat(np.arange(len(messages)), 2))

    def get_produced_type(self) -> TypeInformation:
        return Types.SQL_TIMESTAMP()


@pytest.mark.parametrize("metadata", [(), ("offset",)])
def test_a_message_goes_to_the_dead_letters_with_all_its_records(metadata: tuple[str, ...]) -> None:
    decoder = MessageDecoder(MessageDeserializationSchema(OwnSchema(), metadata=metadata), reject=True)
    values = pa.array([b"1", str(FAR).encode(), b"3"], pa.binary())
    records = decoder.decode(Messages("t", 0, np.arange(3), values))
    assert len(records) == 4
    assert [(where, raw) for where, raw, _ in records.rejected] == [("t-0@1", str(FAR))]
    assert "expected a time in the years 1 to 9999" in records.rejected[0][2]


def test_keys_and_timestamps_of_messages() -> None:
    key = JsonRowDeserializationSchema(ROW)
    value = JsonRowDeserializationSchema(Types.ROW_NAMED(["n"], [int]))
    schema = MessageDeserializationSchema(value, key, key_fields_prefix="k_", metadata=["timestamp"])
    values = pa.array([b'{"n": %d}' % n for n in range(5)], pa.binary())
    messages = Messages(
        "t", 0, np.arange(5), values,
        keys=pa.array([OF_JSON[1], OF_JSON[0], OF_JSON[1], OF_JSON[1], None], pa.binary()),
        timestamps=np.array([0, 0, YEAR_10000 // 1000, 2**63 - 1, 0]),
    )  # fmt: skip
    records = MessageDecoder(schema, reject=True).decode(messages)
    assert records.columns is not None
    assert records.columns.column("n").to_pylist() == [0, 4]
    wheres = [where for where, _, _ in records.rejected]
    assert wheres == ["t-0@1", "t-0@2", "t-0@3"]
    assert records.rejected[0][2].startswith("the key: ")
    assert records.rejected[1][2] == (
        "field 'timestamp': got 10000-01-01T00:00:00.000000Z, expected a time in the years 1 to 9999 of UTC"
    )
