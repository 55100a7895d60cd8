"""Formats of messages and files beside row loops, on one core: ``python benchmarks/micro_formats.py [thousands]``.

Records have seven fields. Each line is the best of several runs by turns, in records of a second of CPU time: read into
columns here, read into Python objects by the library that people use for that, and those made columns by Arrow.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import resource
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import orjson
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from headrace.common import (
    AvroRowDeserializationSchema,
    ByteArraySchema,
    CsvRowDeserializationSchema,
    JsonRowDeserializationSchema,
    Types,
)
from headrace.connectors.file_system.paths import InputPaths
from headrace.datastream.formats.avro import AvroFormat, AvroSchema
from headrace.datastream.formats.protobuf import ProtobufRowDeserializationSchema, ProtobufSchema
from headrace.formats.file_format import FileRange
from headrace.storage.files import InputFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.common import DeserializationSchema

RUNS = 5
NAMES = ["id", "card", "amount", "country", "ok", "pieces", "at"]
ORDER = Types.ROW_NAMED(NAMES, [int, str, float, str, bool, Types.INT(), int])
AVRO_TYPES = ["long", "string", "double", "string", "boolean", "int", "long"]
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": name, "type": kind} for name, kind in zip(NAMES, AVRO_TYPES, strict=True)],
}


@dataclass(frozen=True, slots=True)
class Case:
    """One format.

    Attributes:
        name: for people.
        columns: reads all records here; gives how many.
        loop: gives each as Python objects, as the library has them.
        library: the name of this library.
    """

    name: str
    columns: Callable[[], int]
    loop: Callable[[], Iterable[Any]]
    library: str


def orders(count: int) -> list[dict[str, Any]]:
    """Records."""
    start = int(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp() * 1000)
    return [
        dict(zip(NAMES, (n, f"card-{n % 5000}", n * 0.25, "de", n % 2 == 0, n % 100, start + n), strict=True))
        for n in range(count)
    ]


def proto_class() -> Any:
    """The class of a message with the fields of an order."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    types = [kinds.TYPE_INT64, kinds.TYPE_STRING, kinds.TYPE_DOUBLE, kinds.TYPE_STRING, kinds.TYPE_BOOL]
    for number, (name, kind) in enumerate(zip(NAMES, [*types, kinds.TYPE_INT32, kinds.TYPE_INT64], strict=True), 1):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Order"))


def avro_messages(rows: list[dict[str, Any]]) -> list[bytes]:
    """Records as messages of Avro."""
    parsed, messages = fastavro.parse_schema(AVRO), []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        messages.append(out.getvalue())
    return messages


def of_messages(
    name: str, schema: DeserializationSchema, messages: list[bytes], read: Callable[[bytes], Any], library: str
) -> Case:
    """A format of messages."""
    array = pa.array(messages, pa.binary())
    return Case(name, lambda: len(schema.deserialize_batch(array)), lambda: map(read, messages), library)


def cases(rows: list[dict[str, Any]], folder: Path) -> list[Case]:
    """All formats."""
    parsed, proto = fastavro.parse_schema(AVRO), proto_class()
    texts = [json.dumps(row).encode() for row in rows]
    return [
        of_messages("JSON", JsonRowDeserializationSchema(ORDER), texts, orjson.loads, "orjson"),
        of_messages(
            "Avro",
            AvroRowDeserializationSchema(avro_schema_string=json.dumps(AVRO)),
            avro_messages(rows),
            lambda message: fastavro.schemaless_reader(io.BytesIO(message), parsed, None),
            "fastavro",
        ),
        of_messages(
            "Protobuf",
            ProtobufRowDeserializationSchema(ProtobufSchema.of_class(proto)),
            [proto(**row).SerializeToString() for row in rows],
            lambda message: fields_of(proto.FromString(message)),
            "protobuf",
        ),
        of_messages(
            "CSV",
            CsvRowDeserializationSchema.Builder(ORDER).build(),
            csv_lines(rows),
            lambda message: dict(zip(NAMES, typed(next(csv.reader([message.decode()]))), strict=True)),
            "csv",
        ),
        of_messages("raw", ByteArraySchema(), texts, lambda message: {"value": message}, "none"),
        avro_file(rows, folder / "orders.avro"),
    ]


def fields_of(message: Any) -> dict[str, Any]:
    """The fields of a message of Protobuf."""
    return {name: getattr(message, name) for name in NAMES}


def csv_lines(rows: list[dict[str, Any]]) -> list[bytes]:
    """Records as messages of CSV."""
    return [",".join(str(value).lower() for value in row.values()).encode() for row in rows]


def typed(cells: list[str]) -> list[Any]:
    """Values of the cells of a line."""
    number, card, amount, country, ok, pieces, at = cells
    return [int(number), card, float(amount), country, ok == "true", int(pieces), int(at)]


def avro_file(rows: list[dict[str, Any]], path: Path) -> Case:
    """A file of Avro, without compression."""
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(AVRO), rows, sync_interval=64_000)
    file = InputFile(InputPaths((), {}).store_of(str(path)), str(path), path.stat().st_size)
    fmt = AvroFormat(AvroSchema(AVRO))
    part = FileRange(file, 0, file.size)

    def read() -> int:
        return sum(decoded.columns.num_rows for decoded in fmt.read(part, reject=False) if decoded.columns is not None)

    return Case("Avro file", read, lambda: fastavro.reader(path.open("rb")), "fastavro")


def seconds(action: Callable[[], Any]) -> float:
    """CPU time that something takes."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    action()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def times_of(case: Case) -> list[float]:
    """Into columns here, into objects by the library, and these into columns."""
    return [
        seconds(case.columns),
        seconds(lambda: list(case.loop())),
        seconds(lambda: pa.Table.from_pylist(list(case.loop()))),
    ]


def main() -> None:
    """Print the table."""
    count = (int(sys.argv[1]) if len(sys.argv) > 1 else 100) * 1000
    print(f"{'million records a second of CPU':<34}{'columns':>10}{'objects':>10}{'as columns':>12}  by")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(orders(count), Path(folder)):
            assert case.columns() == count
            runs = [times_of(case) for _ in range(RUNS)]
            here, objects, columns = (count / max(min(each), 1e-9) / 1e6 for each in zip(*runs, strict=True))
            print(f"{case.name:<34}{here:>10.2f}{objects:>10.2f}{columns:>12.2f}  {case.library}")


if __name__ == "__main__":
    main()
