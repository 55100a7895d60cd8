"""Messages of Protobuf for tests, described without its compiler."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP


def file_of(
    *messages: tuple[str, ...],
    name: str = "shop.proto",
    syntax: str = "proto3",
    imports: tuple[str, ...] = (),
    **enums: Any,
) -> FileDescriptorProto:
    """A file of the package ``shop``.

    Args:
        messages: each a name and fields: ``"1 int64 id"``, ``"2 repeated string tags"``, ``"3 optional .shop.P p"``,
            ``"4 map<string,int64> counts"``, ``"5 oneof how string a"``, ``"6 int32 n = 7"``, ``"7 enum Kind kind"``.
        name: its path.
        syntax: ``proto2`` or ``proto3``.
        imports: paths of other files.
        enums: by name their values.
    """
    file = FileDescriptorProto(name=name, package="shop", syntax=syntax, dependency=imports)
    for enum, values in enums.items():
        made = file.enum_type.add(name=enum)
        for value, number in values.items():
            made.value.add(name=value, number=number)
    for message, *fields in messages:
        into = file.message_type.add(name=message)
        for field in fields:
            _add(into, field.split(), syntax)
    return file


def _add(message: Any, words: list[str], syntax: str) -> None:
    number, *words = words
    made = message.field.add(number=int(number), label=FieldDescriptorProto.LABEL_OPTIONAL)
    words = _labelled(message, made, words, syntax)
    if words[0].startswith("map<"):
        made.label = made.LABEL_REPEATED
        words[0] = _entry(message, words[0][4:-1].split(","), words[1], syntax)
    made.json_name = made.name = words[1 + (words[0] == "enum")]
    if words[0] == "enum":
        made.type, made.type_name = made.TYPE_ENUM, f".shop.{words[1]}"
    elif words[0].startswith("."):
        made.type, made.type_name = made.TYPE_MESSAGE, words[0]
    else:
        made.type = getattr(made, f"TYPE_{words[0].upper()}")
    if "=" in words:  # only in proto2
        made.default_value = words[-1]


def _labelled(message: Any, made: Any, words: list[str], syntax: str) -> list[str]:
    """What is left of the words when the label is taken off."""
    label, *rest = words
    if label == "required":
        made.label = made.LABEL_REQUIRED
    elif label in ("repeated", "packed"):
        made.label = made.LABEL_REPEATED
        made.options.packed = label == "packed"
    elif label == "optional":
        made.proto3_optional = syntax == "proto3"
        _join(message, made, f"_{rest[1]}")
    elif label == "oneof":
        _join(message, made, rest.pop(0))
    else:
        return words
    return rest


def _join(message: Any, made: Any, oneof: str) -> None:
    names = [each.name for each in message.oneof_decl]
    if oneof not in names:
        message.oneof_decl.add(name=oneof)
        names.append(oneof)
    made.oneof_index = names.index(oneof)


def _entry(message: Any, kinds: list[str], field: str, syntax: str) -> str:
    entry = message.nested_type.add(name=f"{field.capitalize()}Entry")
    entry.options.map_entry = True
    for number, (kind, name) in enumerate(zip(kinds, ("key", "value"), strict=True), 1):
        _add(entry, [str(number), kind, name], syntax)
    return f".shop.{message.name}.{entry.name}"


def class_of(message: str, *files: FileDescriptorProto) -> Any:
    """The class of a message of the last one of some files."""
    pool = DescriptorPool()
    pool.Add(FileDescriptorProto.FromString(TIMESTAMP.serialized_pb))
    for file in files:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"shop.{message}"))


PLACE = ("Place", "1 string city", "2 int32 zip")
ORDER = (
    "Order", "1 int64 id", "2 string card", "3 double amount", "4 bool paid", "5 enum Kind kind", "6 .shop.Place place",
    "7 repeated string tags", "8 packed sint32 ns", "9 map<string,int64> counts", "10 repeated .shop.Place places",
    "11 oneof how string a", "12 oneof how int32 b", "13 oneof how .shop.Place c", "14 optional int32 maybe",
    "15 uint64 u", "16 fixed32 f", "17 bytes raw", "18 float real", "19 repeated enum Kind kinds", "20 uint32 v",
    "21 map<int32,.shop.Place> at", "22 sfixed64 w", "23 .google.protobuf.Timestamp moment",
)  # fmt: skip
KIND = {"UNKNOWN": 0, "CARD": 1, "CASH": -2}
SHOP = file_of(PLACE, ORDER, imports=("google/protobuf/timestamp.proto",), Kind=KIND)
Order = class_of("Order", SHOP)

OLD = file_of(
    ("Old", "1 required int64 id", "2 string name = nobody", "3 int32 n = 7", "4 repeated int32 xs",
     "5 packed int32 ps", "6 enum Level level = HIGH", "7 repeated enum Level levels", "8 .shop.Sub sub",
     "9 bytes raw = ab", "10 uint64 u = 5"),
    ("Sub", "1 uint32 v"),
    syntax="proto2", name="old.proto", Level={"LOW": 1, "HIGH": 3},
)  # fmt: skip
Old = class_of("Old", OLD)
