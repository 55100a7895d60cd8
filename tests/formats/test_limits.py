"""A few bytes that ask for much: they are bad records, or damaged files, and cost no more than they are long."""

from __future__ import annotations

import bz2
import json
import lzma
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from headrace.common import AvroRowDeserializationSchema, Row
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidProgramError
from headrace.datastream.connectors.file_system import FileSource
from headrace.formats.avro import files
from headrace.formats.avro.encoding import write_integer as number
from headrace.formats.avro.files import MAGIC, AvroFormat
from headrace.formats.avro.schema import AvroSchema
from headrace.formats.protobuf.messages import ProtobufRowDeserializationSchema
from tests.connectors.harness import read_all
from tests.formats.protobuf_messages import Order
from tests.formats.test_avro import record

MARKER = bytes(16)
END = number(0) + number(7)
"""Of an array or a map, and a field behind it."""


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """What is allocated meanwhile is at most so many bytes."""
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before < size
    finally:
        tracemalloc.stop()


def avro(kind: Any, *, skipped: bool) -> AvroRowDeserializationSchema:
    whole = json.dumps(record(x=kind, y="int"))
    if not skipped:
        return AvroRowDeserializationSchema(avro_schema_string=whole)
    return AvroRowDeserializationSchema(avro_schema_string=json.dumps(record(y="int")), writer_schema=whole)


EMPTY = record(a="null", b={"type": "fixed", "name": "F", "size": 0}, name="Empty")
FREE: dict[str, Any] = {"null": "null", "empty records": EMPTY, "arrays of null": {"type": "array", "items": "null"}}


@pytest.mark.parametrize("skipped", [False, True])
@pytest.mark.parametrize("count", [2**31, 2**62, -(2**63), -(2**40)])
@pytest.mark.parametrize("items", [*FREE, "long", "map"])
def test_counts_that_no_message_has_room_for(items: str, count: int, skipped: bool) -> None:
    kind: Any = (
        {"type": "map", "values": "null"} if items == "map" else {"type": "array", "items": FREE.get(items, items)}
    )
    size = number(0) if count < 0 else b""
    schema = avro(kind, skipped=skipped)
    with at_most(1 << 20):
        read = schema.deserialize_batch(pa.array([END, number(count) + size + END, END], pa.binary()))
    assert read.messages is not None
    assert read.messages.tolist() == [0, 2]
    ((index, reason),) = read.rejected
    assert index == 1
    assert reason.startswith("field 'x': ")


def test_items_without_bytes_are_read_up_to_a_limit() -> None:
    schema = avro({"type": "array", "items": "null"}, skipped=False)
    room = 64 * (len(number(256)) + len(END))
    message = number(room) + END
    assert schema.deserialize(message) == Row(x=[None] * room, y=7)
    with pytest.raises(BadRecordError, match=f"field 'x': there are {room + 1} items without any bytes, and of"):
        schema.deserialize(number(room + 1) + END)
    nested = avro({"type": "array", "items": {"type": "array", "items": "null"}}, skipped=False)
    inner = number(1000) + number(0)
    with pytest.raises(BadRecordError, match="items without any bytes"):
        nested.deserialize(number(1000) + inner * 1000 + END)


@pytest.mark.parametrize("kind", ["string", "bytes", {"type": "fixed", "name": "F", "size": 2**31 - 1}])
@pytest.mark.parametrize("length", [2**31, 2**62, -1])
def test_lengths_that_no_message_has_room_for(kind: Any, length: int) -> None:
    with at_most(1 << 20), pytest.raises(BadRecordError, match="field 'x': it ends too early"):
        avro(kind, skipped=False).deserialize(number(length) + b"abc")


def test_the_size_of_a_block_of_an_array_has_to_be_right() -> None:
    schema = avro({"type": "array", "items": "string"}, skipped=False)
    good = number(-2) + number(4) + b"\x02a\x02b" + END
    lying = number(-2) + number(5) + b"\x02a\x02b" + END
    others = [number(1) + b"\x02c" + END] * 200
    for messages in ([good, lying], [good, *others, lying]):
        read = schema.deserialize_batch(pa.array(messages, pa.binary()))
        assert [index for index, _ in read.rejected] == [len(messages) - 1]
        assert "does not have the size that it says" in read.rejected[0][1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "item", "value"),
    [
        ("null", b"", None),
        ("boolean", b"\x01", True),
        ("long", b"\x80\x01", 64),
        ("string", b"\x02a", "a"),
        (["null", "double"], b"\x02" + bytes(8), 0.0),
        ({"type": "array", "items": "string"}, b"\x02\x02b" * 20 + b"\x00", ["b"] * 20),
        (record(s="string", n="int", name="I"), b"\x02c\x04", Row(s="c", n=2)),
    ],
)
def test_arrays_of_many_blocks(kind: Any, item: bytes, value: Any) -> None:
    """A step for each block of a message would take minutes for one of a megabyte."""
    schema = avro({"type": "array", "items": kind}, skipped=False)
    plain, sized = number(1) + item, number(-2) + number(2 * len(item)) + 2 * item
    lying = number(-2) + number(2 * len(item) + 1) + 2 * item
    good = (plain + sized) * 10 + END
    bad = [plain * 20 + lying + plain + END, plain * 20, plain * 20 + number(-1) + number(-5) + item + END]
    short = plain + END
    messages = [good, *bad, short, good]
    for batch in (messages, [*messages, *[short] * 100]):
        read = schema.deserialize_batch(pa.array(batch, pa.binary()))
        assert [index for index, _ in read.rejected] == [1, 2, 3]
        assert read.columns is not None
        rows = layout_of(schema.get_produced_type()).columns_to_rows(read.columns)
        assert rows[:3] == [Row(x=[value] * 30, y=7), Row(x=[value], y=7), Row(x=[value] * 30, y=7)]
        assert rows[3:] == [Row(x=[value], y=7)] * (len(batch) - len(messages))


@pytest.mark.slow
def test_one_large_message_is_read_as_many_small_ones_are() -> None:
    """Elements of a message alone are found first, those of many are read one of each at a time."""
    kind = {"type": "array", "items": {"type": "map", "values": ["null", record(d="double", s="string", name="I")]}}
    schema = avro(kind, skipped=False)
    value = b"\x04\x02a\x00\x02b\x02" + bytes(8) + b"\x02z\x00"
    message = number(300) + value * 300 + number(-1) + number(len(value)) + value + END
    alone = schema.deserialize(message)
    assert alone == Row(x=[{"a": None, "b": Row(d=0.0, s="z")}] * 301, y=7)
    read = schema.deserialize_batch(pa.array([message] * 100, pa.binary()))
    assert read.columns is not None
    assert read.columns.column("x").to_pylist()[99] == read.columns.column("x").to_pylist()[0]
    assert not read.rejected


def test_numbers_of_more_bytes_than_they_need() -> None:
    """Legal, if odd: in a block of a file as well as in a message."""
    schema = avro({"type": "array", "items": ["null", "string"]}, skipped=False)
    message = b"\x84\x00" + b"\x82\x80\x00" + b"\x82\x00a" + b"\x80\x00" + END
    assert schema.deserialize(message) == Row(x=["a", None], y=7)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"type":"array","items":' * 150 + '"int"' + "}" * 150,
        {"type": "record", "name": 5, "fields": 7},
        {"type": "enum", "name": "E", "symbols": 5},
        {"type": "fixed", "name": "F", "size": 2**40},
    ],
    ids=["brackets", "levels", "no names", "no symbols", "no size"],
)
def test_schemas_of_hostile_files(text: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError):
        AvroSchema(text)
    schema = text if isinstance(text, str) else json.dumps(text)
    (tmp_path / "a.avro").write_bytes(avro_file(b"", schema=schema))
    with pytest.raises(BadRecordError, match=r"a\.avro"):
        read_all(source(tmp_path), tmp_path / ".state")


def test_a_schema_that_doubles_with_every_name() -> None:
    text: Any = record(a="int", name="R0")
    for level in range(1, 40):
        text = record(a=text, b=f"R{level - 1}", name=f"R{level}")
    with pytest.raises(InvalidProgramError, match="too large: it has more than 20000 parts"):
        AvroSchema(text)


def source(path: Path) -> FileSource:
    return FileSource.for_bulk_file_format(AvroFormat(json.dumps(record(y=["null", "int"]))), path).build()


NULLS = json.dumps(record(x="null"))


def avro_file(block: bytes, count: int = 1, *, codec: str = "null", schema: str = NULLS) -> bytes:
    pairs = [b"avro.codec", codec.encode(), b"avro.schema", schema.encode()]
    header = MAGIC + number(2) + b"".join(number(len(part)) + part for part in pairs) + number(0) + MARKER
    return header + number(count) + number(len(block)) + block + MARKER


def read_null(path: Path) -> list[Any]:
    return read_all(FileSource.for_bulk_file_format(AvroFormat(NULLS), path).build(), path / ".state")


@pytest.mark.parametrize("count", [2**31, 2**62, -1])
def test_blocks_of_records_without_any_bytes(count: int, tmp_path: Path) -> None:
    (tmp_path / "a.avro").write_bytes(avro_file(b"", count))
    with at_most(1 << 20), pytest.raises(BadRecordError, match=r"a\.avro is damaged: in the block at byte"):
        read_null(tmp_path)
    (tmp_path / "a.avro").write_bytes(avro_file(b"", 1000))
    assert read_null(tmp_path) == [Row(x=None)] * 1000


ZEROS = bytes(2 << 20)


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard", "snappy", "lz4"])
def test_blocks_that_grow_beyond_measure(codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_BYTES", 1 << 20)
    stored = {
        "deflate": lambda: zlib.compress(ZEROS, wbits=-15),
        "bzip2": lambda: bz2.compress(ZEROS),
        "xz": lambda: lzma.compress(ZEROS),
        "zstandard": lambda: pa.Codec("zstd").compress(ZEROS, asbytes=True),
        "snappy": lambda: b"\xff\xff\xff\xff\x07" + bytes(10),
        "lz4": lambda: b"\xff\xff\xff\xff" + bytes(10),
    }[codec]()
    (tmp_path / "a.avro").write_bytes(avro_file(stored, codec=codec))
    with pytest.raises(BadRecordError, match=r"a\.avro is damaged: .*it has more than 1048576 bytes"):
        read_null(tmp_path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tag", [b"\x12", b"\x3a", b"\x42", b"\x4a", b"\x8a\x01", b"\xfa\x06", b"\xfa\x86\x00"])
def test_lengths_of_protobuf_that_lead_back(tag: bytes) -> None:
    """In 64 bits what is behind them is before them, of fields that are known, unknown or within others."""
    schema = ProtobufRowDeserializationSchema(Order)
    good = Order(id=-1, b=-2, ns=[-1] * 3, counts={"ü" * 12: -1}).SerializeToString()
    for back in range(1, 16):
        length = bytes([0x80 | (2**64 - back >> 7 * place) & 0x7F for place in range(9)]) + b"\x01"
        bad = b"\x08\x05" + tag + length + b"abc"
        read = schema.deserialize_batch(pa.array([good, bad, good], pa.binary()))
        assert [index for index, _ in read.rejected] == [1]
        assert read.columns is not None
        assert read.columns.column("id").to_pylist() == [-1, -1]
        assert read.columns.column("counts").to_pylist() == [[("ü" * 12, -1)]] * 2


def test_groups_of_protobuf_within_groups() -> None:
    schema = ProtobufRowDeserializationSchema(Timestamp)
    deep, flat = b"\x23" * 150_000 + b"\x24" * 150_000, b"\x23\x24" * 5000
    text = b"\x1a\xd0\x8c\x01" + b"k" * 18_000
    messages = [
        b"\x08\x05",
        deep,
        b"\x23" * 150_000,
        b"\x08\x06" + flat,
        b"\x08\x07" + text,
        b"\x23" * 101 + b"\x24" * 101,
    ]
    for batch in ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]):
        read = schema.deserialize_batch(pa.array([messages[index] for index in batch], pa.binary()))
        assert [batch[index] for index, _ in read.rejected] == [index for index in batch if index in (1, 2, 5)]
        assert read.columns is not None
        assert sorted(read.columns.column("seconds").to_pylist()) == [5, 6, 7]
    for message in (deep, messages[5]):
        with pytest.raises(BadRecordError, match="it was cut, damaged or written as another message"):
            schema.deserialize(message)
