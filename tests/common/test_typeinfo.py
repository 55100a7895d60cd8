"""What types know about themselves: names, spelling, fields, descriptions."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types, type_from_json

ROW = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])

# Type, Flink's spelling, Arrow type, description, immutable. The descriptions are stored with state: they never change.
GOLDEN: list[tuple[TypeInformation, str, pa.DataType | None, dict[str, Any], bool]] = [
    (Types.STRING(), "String", pa.string(), {"type": "STRING"}, True),
    (Types.BYTE(), "Byte", pa.int8(), {"type": "BYTE"}, True),
    (Types.BOOLEAN(), "Boolean", pa.bool_(), {"type": "BOOLEAN"}, True),
    (Types.SHORT(), "Short", pa.int16(), {"type": "SHORT"}, True),
    (Types.INT(), "Integer", pa.int32(), {"type": "INT"}, True),
    (Types.LONG(), "Long", pa.int64(), {"type": "LONG"}, True),
    (Types.FLOAT(), "Float", pa.float32(), {"type": "FLOAT"}, True),
    (Types.DOUBLE(), "Double", pa.float64(), {"type": "DOUBLE"}, True),
    (Types.CHAR(), "Char", pa.string(), {"type": "CHAR"}, True),
    (Types.BIG_INT(), "BigInteger", pa.string(), {"type": "BIG_INT"}, True),
    (Types.BIG_DEC(), "BigDecimal", pa.string(), {"type": "BIG_DEC"}, True),
    (Types.BYTES(), "PrimitiveArrayTypeInfo<Byte>", pa.binary(), {"type": "BYTES"}, True),
    (Types.INSTANT(), "Instant", pa.timestamp("ns", "UTC"), {"type": "INSTANT"}, True),
    (Types.SQL_DATE(), "DateTypeInfo", pa.date32(), {"type": "SQL_DATE"}, True),
    (Types.SQL_TIME(), "TimeTypeInfo", pa.time64("us"), {"type": "SQL_TIME"}, True),
    (Types.SQL_TIMESTAMP(), "TimestampTypeInfo", pa.timestamp("us"), {"type": "SQL_TIMESTAMP"}, True),
    (Types.TIMESTAMP_LTZ(), "TimestampLtzTypeInfo", pa.timestamp("us", "UTC"), {"type": "TIMESTAMP_LTZ"}, True),
    (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo", None, {"type": "PICKLED_BYTE_ARRAY"}, False),
    (
        Types.LIST(Types.LONG()),
        "ListTypeInfo<Long>",
        pa.list_(pa.int64()),
        {"type": "LIST", "element": {"type": "LONG"}},
        False,
    ),
    (
        Types.PRIMITIVE_ARRAY(Types.INT()),
        "PrimitiveArrayTypeInfo<Integer>",
        pa.list_(pa.int32()),
        {"type": "PRIMITIVE_ARRAY", "element": {"type": "INT"}},
        False,
    ),
    (
        Types.BASIC_ARRAY(Types.STRING()),
        "BasicArrayTypeInfo<String>",
        pa.list_(pa.string()),
        {"type": "BASIC_ARRAY", "element": {"type": "STRING"}},
        False,
    ),
    (
        Types.OBJECT_ARRAY(ROW),
        "ObjectArrayTypeInfo<RowTypeInfo(id: Long, name: String)>",
        pa.list_(pa.struct([("id", pa.int64()), ("name", pa.string())])),
        {
            "type": "OBJECT_ARRAY",
            "element": {
                "type": "ROW",
                "fields": [{"name": "id", "type": {"type": "LONG"}}, {"name": "name", "type": {"type": "STRING"}}],
            },
        },
        False,
    ),
    (
        Types.MAP(Types.STRING(), Types.PICKLED_BYTE_ARRAY()),
        "MapTypeInfo<String, PickledByteArrayTypeInfo>",
        pa.map_(pa.string(), pa.binary()),
        {"type": "MAP", "key": {"type": "STRING"}, "value": {"type": "PICKLED_BYTE_ARRAY"}},
        False,
    ),
    (
        Types.TUPLE([Types.LONG(), Types.STRING()]),
        "TupleTypeInfo(Long, String)",
        pa.struct([("f0", pa.int64()), ("f1", pa.string())]),
        {"type": "TUPLE", "fields": [{"type": "LONG"}, {"type": "STRING"}]},
        True,
    ),
    (
        Types.TUPLE([Types.LIST(Types.LONG())]),
        "TupleTypeInfo(ListTypeInfo<Long>)",
        pa.struct([("f0", pa.list_(pa.int64()))]),
        {"type": "TUPLE", "fields": [{"type": "LIST", "element": {"type": "LONG"}}]},
        False,
    ),
    (
        Types.ROW([Types.LONG()]),
        "RowTypeInfo(Long)",
        pa.struct([("f0", pa.int64())]),
        {"type": "ROW", "fields": [{"type": "LONG"}]},
        False,
    ),
    (
        Types.ROW_NAMED(["id"], [Types.LONG()], changelog=True),
        "RowTypeInfo(id: Long)",
        pa.struct([("id", pa.int64()), ("__row_kind", pa.int8())]),
        {"type": "ROW", "fields": [{"name": "id", "type": {"type": "LONG"}}], "changelog": True},
        False,
    ),
]
IDS = [spelled for _, spelled, *_ in GOLDEN]


@pytest.mark.parametrize(("info", "spelled", "arrow", "described", "immutable"), GOLDEN, ids=IDS)
def test_golden(
    info: TypeInformation, spelled: str, arrow: pa.DataType | None, described: dict[str, Any], immutable: bool
) -> None:
    assert str(info) == spelled
    assert info.arrow_type == arrow
    assert info.to_json() == described
    assert type_from_json(described) == info
    assert info.is_immutable is immutable


@pytest.mark.parametrize("info", [row[0] for row in GOLDEN], ids=IDS)
def test_types_are_values(info: TypeInformation) -> None:
    restored = pickle.loads(pickle.dumps(info))
    assert restored == info
    assert hash(restored) == hash(info)
    assert [other for other, *_ in GOLDEN if other == info] == [info]


def test_record_classes_are_described_by_name_and_fields() -> None:
    from dataclasses import dataclass

    @dataclass
    class Alert:
        id: int
        tags: list[str]

    assert Types.of(Alert).to_json() == {
        "type": "DATACLASS",
        "class": "test_record_classes_are_described_by_name_and_fields.<locals>.Alert",
        "fields": [
            {"name": "id", "type": {"type": "LONG"}},
            {"name": "tags", "type": {"type": "LIST", "element": {"type": "STRING"}}},
        ],
    }


@pytest.mark.parametrize("described", [{}, {"type": "NOPE"}, {"type": "LIST"}, {"type": "ROW", "fields": 3}])
def test_a_wrong_description_is_refused(described: dict[str, Any]) -> None:
    with pytest.raises(InvalidTypeError, match="does not describe a type"):
        type_from_json(described)


@pytest.mark.parametrize(
    ("info", "field", "index"),
    [
        (ROW, "id", 0),
        (ROW, "name", 1),
        (ROW, 1, 1),
        (ROW, -1, 1),
        (Types.TUPLE([int, str]), "f1", 1),
        (Types.ROW([int, str]), "f0", 0),
    ],
)
def test_field_index(info: TypeInformation, field: str | int, index: int) -> None:
    assert info.field_index(field) == index


@pytest.mark.parametrize("field", ["size", 2, -3, True])
def test_a_missing_field_is_told_with_those_that_exist(field: str | int) -> None:
    with pytest.raises(InvalidTypeError, match="its fields are 'id', 'name'"):
        ROW.field_index(field)


def test_a_simple_type_has_no_fields() -> None:
    assert not Types.LONG().is_composite
    assert Types.LONG().field_names == ()
    with pytest.raises(InvalidTypeError, match="Long has no field 'a': it has no fields"):
        Types.LONG().field_index("a")


def test_fields_under_the_names_of_pyflink() -> None:
    assert ROW.get_field_names() == ["id", "name"]
    assert ROW.get_field_types() == [Types.LONG(), Types.STRING()]
    assert ROW.get_field_index("name") == 1
    assert ROW.get_field_index("size") == -1


def test_bytes_are_an_array_of_byte() -> None:
    assert Types.PRIMITIVE_ARRAY(Types.BYTE()) == Types.BYTES()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Types.TUPLE([]), "needs at least one field"),
        (lambda: Types.ROW_NAMED(["a"], [int, str]), "1 field names for 2 field types"),
        (lambda: Types.ROW_NAMED(["a", "a"], [int, str]), "'a' more than once"),
        (lambda: Types.ROW_NAMED([""], [int]), "'' cannot be a field name"),
        (lambda: Types.ROW_NAMED([1], [int]), "1 cannot be a field name"),  # type: ignore[list-item]
        (lambda: Types.ROW_NAMED(["__row_kind"], [int]), "cannot be a field name"),
        (lambda: Types.TUPLE(Types.LONG()), "expected a list of field types"),  # type: ignore[arg-type]
        (lambda: Types.PRIMITIVE_ARRAY(Types.STRING()), "use Types.LIST"),
        (lambda: Types.BASIC_ARRAY(Types.BIG_DEC()), "use Types.LIST"),
    ],
)
def test_what_cannot_be_a_type_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidTypeError, match=message):
        make()


def test_types_made_of_lists_are_those_made_of_tuples() -> None:
    fields = [Types.STRING(), Types.INT()]
    for made, same in (
        (TupleTypeInfo(fields), Types.TUPLE(fields)),
        (RowTypeInfo(fields), Types.ROW(fields)),
        (RowTypeInfo(fields, ["a", "b"]), Types.ROW_NAMED(["a", "b"], fields)),
    ):
        assert made == same
        assert {made: 1}[same] == 1
        assert pickle.loads(pickle.dumps(made)) == same
    assert RowTypeInfo(fields, ["a", "b"]) != RowTypeInfo(fields)
    with pytest.raises(InvalidTypeError, match="'' cannot be a field name"):
        RowTypeInfo(fields, ["a", ""])
    with pytest.raises(InvalidTypeError, match="2 field names for 1 field types"):
        RowTypeInfo(fields[:1], ["a", "b"])
