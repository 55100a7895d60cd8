"""Messages and files as other libraries read and write them: Google's of Protobuf, Python's csv, xz, gzip and bzip2."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import struct
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from headrace.common import CsvRowDeserializationSchema, CsvRowSerializationSchema, Row, Types
from headrace.common.typeinfo import RowTypeInfo
from headrace.datastream.formats.schema_registry import ConfluentRegistryAvroDeserializationSchema
from headrace.formats.avro.schema import avro_schema_of
from headrace.formats.csv.reader import CsvFormat
from headrace.formats.protobuf.messages import ProtobufRowDeserializationSchema, ProtobufRowSerializationSchema
from tests.connectors.harness import batch_of
from tests.formats.fuzz.message_formats import FORMATS
from tests.formats.fuzz.reading_damage import records_of
from tests.formats.fuzz.test_fuzzed_messages import verdicts, written
from tests.formats.fuzz.values import TEXTS, damaged, fuzzing
from tests.formats.protobuf_messages import class_of, file_of
from tests.formats.registry_server import Registry, serving


def _whole(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.sampled_from([low, 0, 1, high]) | st.integers(low, high)


_REALS: Final = [0.0, -0.0, 1.5, float("inf"), float("-inf")]
SCALARS: Final[dict[str, st.SearchStrategy[Any]]] = {
    **dict.fromkeys(["int32", "sint32", "sfixed32"], _whole(32, True)),
    **dict.fromkeys(["int64", "sint64", "sfixed64"], _whole(64, True)),
    **dict.fromkeys(["uint32", "fixed32"], _whole(32, False)),
    **dict.fromkeys(["uint64", "fixed64"], _whole(64, False)),
    "float": st.sampled_from(_REALS) | st.floats(width=32, allow_nan=False),
    "double": st.sampled_from(_REALS) | st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": TEXTS,
    "bytes": st.binary(max_size=9),
    "enum Kind": st.sampled_from([0, 1, -2]),
}
KEYS: Final = ["int32", "sint64", "uint64", "bool", "string", "fixed32"]
MESSAGES: Final = [".shop.Sub", ".google.protobuf.Timestamp"]


@dataclass(frozen=True)
class Drawn:
    """A field of a message: its label, its kind, and where it is a map, the kind of its keys."""

    number: int
    label: str
    kind: str
    key: str = "string"

    def text(self, proto2: bool) -> str:
        label = "oneof either" if self.label == "oneof" else self.label
        if label == "map":
            return f"{self.number} map<{self.key},{self.kind}> f{self.number}"
        return f"{self.number} {label or ('optional' if proto2 else '')} {self.kind} f{self.number}"


@st.composite
def fields(draw: st.DrawFn) -> list[Drawn]:
    found = []
    for number in sorted(draw(st.sets(st.sampled_from([1, 2, 3, 4, 15, 16, 2047, 2048]), min_size=1, max_size=5))):
        label = draw(st.sampled_from(["", "optional", "oneof", "oneof", "repeated", "packed", "map"]))
        kind = draw(st.sampled_from([*SCALARS, *MESSAGES, *MESSAGES]))
        if label == "packed" and kind in ("string", "bytes", *MESSAGES):
            label = "repeated"
        if label == "map" and kind == "enum Kind":
            kind = "int32"
        found.append(Drawn(number, label, kind, draw(st.sampled_from(KEYS))))
    return found


def message_class(drawn: list[Drawn], proto2: bool) -> Any:
    file = file_of(
        ("Sub", "1 int32 a" if not proto2 else "1 optional int32 a", "2 repeated string b"),
        ("M", *(field.text(proto2) for field in sorted(drawn, key=lambda field: field.label != "oneof"))),
        syntax="proto2" if proto2 else "proto3",
        imports=("google/protobuf/timestamp.proto",),
        Kind={"UNKNOWN": 0, "CARD": 1, "CASH": -2},
    )
    return class_of("M", file)


@st.composite
def filled(draw: st.DrawFn, made: Any, drawn: list[Drawn]) -> Any:
    """A message of a class, of which some fields have values."""
    message = made()
    for field in drawn:
        if draw(st.integers(0, 3)) == 0:
            continue
        name = f"f{field.number}"
        if field.label == "map":
            for key in draw(st.lists(SCALARS[field.key], max_size=3)):
                if field.kind in MESSAGES:
                    _fill(draw, getattr(message, name)[key])
                else:
                    getattr(message, name)[key] = draw(SCALARS[field.kind])
        elif field.label in ("repeated", "packed"):
            for _ in range(draw(st.integers(0, 3))):
                if field.kind in MESSAGES:
                    _fill(draw, getattr(message, name).add())
                else:
                    getattr(message, name).append(draw(SCALARS[field.kind]))
        elif field.kind in MESSAGES:
            _fill(draw, getattr(message, name))
        else:
            setattr(message, name, draw(SCALARS[field.kind]))
    return message


def _fill(draw: st.DrawFn, inner: Any) -> None:
    inner.SetInParent()
    if inner.DESCRIPTOR.name == "Timestamp":
        inner.seconds = draw(SCALARS["int64"])
        inner.nanos = draw(SCALARS["int32"])
        return
    inner.a = draw(SCALARS["int32"])
    inner.b.extend(draw(st.lists(TEXTS, max_size=2)))


def row_of(message: Any, defaults: bool) -> Row:
    """The row that a message is to be; ``LookupError`` where an enum has no such value."""
    return Row(**{field.name: _value(message, field, defaults) for field in message.DESCRIPTOR.fields})


def _value(message: Any, field: Any, defaults: bool) -> Any:
    value = getattr(message, field.name)
    entry = field.message_type if field.message_type is not None and field.message_type.GetOptions().map_entry else None
    if entry is not None:
        of = entry.fields_by_name["value"]
        return {key: _single(value[key], of, defaults) for key in value} or ({} if defaults else None)
    if field.is_repeated:
        return [_single(each, field, defaults) for each in value] or ([] if defaults else None)
    if field.has_presence and not message.HasField(field.name) and not defaults:
        return None
    return _single(value, field, defaults)


def _single(value: Any, field: Any, defaults: bool) -> Any:
    if field.message_type is not None:
        return row_of(value, defaults)
    return field.enum_type.values_by_number[value].name if field.enum_type is not None else value


def _normal(value: Any) -> Any:
    """With maps in an order of their own."""
    if isinstance(value, Row):
        return [_normal(each) for each in value]
    if isinstance(value, dict):
        return sorted((repr(key), repr(_normal(each))) for key, each in value.items())
    return [_normal(each) for each in value] if isinstance(value, list) else repr(value)


UNKNOWN: Final = [
    b"\xc0\x3e\x05", b"\xc1\x3e" + struct.pack("<d", 1.0), b"\xc2\x3e\x03abc", b"\xc5\x3e\0\0\0\0", b"\xc3\x3e\xc4\x3e",
]  # fmt: skip
"""Fields of the number 1000, of every wire type."""


@given(data=st.data(), proto2=st.booleans(), defaults=st.booleans())
@fuzzing(12)
def test_protobuf_beside_googles_library(data: st.DataObject, proto2: bool, defaults: bool) -> None:
    drawn = data.draw(fields())
    other = [Drawn(f.number, f.label, data.draw(st.sampled_from([f.kind, *SCALARS])), f.key) for f in drawn]
    other = [f if f.label not in ("packed", "map") else g for f, g in zip(other, drawn, strict=True)]
    made, twin = message_class(drawn, proto2), message_class(other, proto2)
    pieces = [data.draw(filled(made, drawn)).SerializeToString() for _ in range(3)]
    pieces += [data.draw(filled(twin, other)).SerializeToString(), data.draw(st.sampled_from(UNKNOWN))]
    messages = [b"".join(data.draw(st.permutations(pieces))[: data.draw(st.integers(0, 4))]) for _ in range(4)]
    messages += [pieces[0], pieces[1], *(data.draw(damaged(message)) for message in messages[:2])]
    reader = ProtobufRowDeserializationSchema(made, read_default_values=defaults)
    found = verdicts(reader, messages, text=_normal)
    for message, (records, reason) in zip(messages, found, strict=True):
        try:
            expected = row_of(made.FromString(message), defaults)
        except (DecodeError, LookupError):
            assert reason is not None, message
            continue
        assert (records, reason) == ([_normal(expected)], None), message


@given(data=st.data(), proto2=st.booleans())
@fuzzing(6)
def test_googles_library_reads_protobuf_as_it_is_written(data: st.DataObject, proto2: bool) -> None:
    drawn = data.draw(fields())
    made = message_class(drawn, proto2)
    messages = [data.draw(filled(made, drawn)) for _ in range(3)]
    kind = ProtobufRowDeserializationSchema(made).get_produced_type()
    rows = [row_of(message, False) for message in messages]
    written = ProtobufRowSerializationSchema(made).serialize_batch(batch_of(kind, rows)).to_pylist()
    assert [_normal(row_of(made.FromString(each), False)) for each in written] == [_normal(row) for row in rows]


_PIECES: Final = st.sampled_from(
    ['"', '"', ",", ",", "a", "b ", " ", "\n", "\r\n", "\r", "é", "1", '""', '","', '"\n"']
)
CSV_TEXTS: Final = TEXTS.filter(lambda text: not {"\x00", "\ufeff"} & {*text}) | st.lists(_PIECES, max_size=5).map(
    "".join
)


def _strings(count: int) -> RowTypeInfo:
    kind = Types.ROW_NAMED([f"f{number}" for number in range(count)], [Types.STRING()] * count)
    assert isinstance(kind, RowTypeInfo)
    return kind


def _theirs(text: str) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


@given(data=st.data(), count=st.integers(1, 4))
@fuzzing(10)
def test_csv_messages_beside_pythons_csv(data: st.DataObject, count: int) -> None:
    rows = data.draw(st.lists(st.lists(CSV_TEXTS, min_size=count, max_size=count), min_size=1, max_size=5))
    kind = _strings(count)
    reader = CsvRowDeserializationSchema.Builder(kind).build()
    out = [io.StringIO(newline="") for _ in rows]
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    for row, each in zip(rows, out, strict=True):
        csv.writer(each, quoting=quoting).writerow(row)
    expected = [([repr(Row(**dict(zip(kind.field_names, row, strict=True))))], None) for row in rows]
    assert verdicts(reader, [each.getvalue().removesuffix("\r\n").encode() for each in out]) == expected
    written = CsvRowSerializationSchema.Builder(kind).build().serialize_batch(batch_of(kind, list(map(_row, rows))))
    assert [_theirs(each.decode()) for each in written.to_pylist()] == [[row] for row in rows]


def _row(values: list[str]) -> Row:
    return Row(**{f"f{number}": value for number, value in enumerate(values)})


@given(message=st.lists(_PIECES, min_size=1, max_size=9).map("".join), count=st.integers(1, 3))
@fuzzing(20)
def test_odd_csv_beside_pythons_csv(message: str, count: int) -> None:
    ((records, reason),) = verdicts(CsvRowDeserializationSchema.Builder(_strings(count)).build(), [message.encode()])
    theirs = _theirs(message)
    if records:
        assert [repr(_row(row)) for row in theirs] == records
    else:
        assert reason is None or len(theirs) != 1 or len(theirs[0]) != count or {*'\r\n"'} & {*message}


@pytest.mark.parametrize("suffix", ["", ".xz"])
@given(data=st.data(), count=st.integers(1, 3), parts=st.integers(1, 4))
@fuzzing(6)
def test_csv_files_of_several_lines_a_record_beside_pythons_csv(
    suffix: str, data: st.DataObject, count: int, parts: int
) -> None:
    rows = data.draw(st.lists(st.lists(CSV_TEXTS, min_size=count, max_size=count), min_size=1, max_size=6))
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=data.draw(st.sampled_from(["\n", "\r\n"]))).writerows(rows)
    text = out.getvalue() if data.draw(st.booleans()) else out.getvalue().rstrip("\r\n")
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a.csv{suffix}"
        path.write_bytes(lzma.compress(text.encode()) if suffix else text.encode())
        found, rejected, damage = records_of(path, parts, CsvFormat(_strings(count), multiline=True))
    assert (list(map(repr, found)), rejected, damage) == ([repr(_row(row)) for row in rows], [], [])


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz"])
@given(lines=st.lists(TEXTS.filter(lambda text: not {*"\r\n"} & {*text})), parts=st.integers(1, 4))
@fuzzing(6)
def test_lines_of_text_are_those_of_python(suffix: str, lines: list[str], parts: int) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    compress: Any = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a.txt{suffix}"
        path.write_bytes(compress(text))
        found, rejected, damage = records_of(path, parts)
    expected = [line.removeprefix("\ufeff") if number == 0 else line for number, line in enumerate(lines)]
    assert (found, rejected, damage) == (expected, [], [])


@given(data=st.data())
@fuzzing(6)
def test_messages_with_a_schema_of_a_registry_are_those_of_avro(data: st.DataObject) -> None:
    fmt = FORMATS["avro"]
    kind, _, messages = data.draw(written(fmt))
    with serving(Registry()) as registry:
        number = registry.register("fuzz", str(avro_schema_of(kind)))
        reader = ConfluentRegistryAvroDeserializationSchema(registry.url, avro_schema_of(kind))
        framed = [b"\x00" + number.to_bytes(4, "big") + message for message in messages]
        plain = verdicts(fmt.reader(kind), messages)
        assert [len(records) for records, _ in verdicts(reader, framed)] == [len(records) for records, _ in plain]
        odd = [data.draw(damaged(message)) for message in framed]
        each = [verdicts(reader, [message])[0] for message in [*odd, *framed]]
        assert verdicts(reader, [*odd, *framed] * 2) == each * 2
        for message, (records, reason) in zip(odd, each, strict=False):
            assert bool(records) != bool(reason)
            if message[:5] != framed[0][:5]:
                assert reason is not None or message[:1] == b"\x00"
