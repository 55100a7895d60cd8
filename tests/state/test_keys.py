"""Keys: what Python calls equal is one key, on every path; everything else is told apart or refused."""

from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.logical_types import AtomicType, TypeRoot
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.typeinfo.types import type_of_logical
from headrace.common.types import Row
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.hashing import hash_array
from headrace.state.keys.nullable import NO_INTEGER, NullableKeys, codec_from_json


class Point(NamedTuple):
    x: int
    y: str


@dataclass(frozen=True)
class Place:
    name: str
    code: int


@dataclass
class Unhashable:
    name: str


def decimal(precision: int, scale: int) -> TypeInformation:
    return type_of_logical(AtomicType(TypeRoot.DECIMAL, precision, scale))


class Colour(Enum):
    RED = "r"
    GREEN = "g"


class Level(IntEnum):
    LOW = 1


UTC_PLUS_2 = dt.timezone(dt.timedelta(hours=2))
EQUAL = [
    [1, True, 1.0, Decimal("1.00"), np.int64(1), np.float32(1), np.bool_(True), Level.LOW],
    [0, 0.0, -0.0, False, Decimal("-0"), Decimal("0E+5")],
    [0.5, Decimal("0.5"), Decimal("0.50"), np.float64(0.5)],
    [2**70, float(2**70), Decimal(2**70)],
    [float("nan"), Decimal("NaN"), np.float64("nan")],
    [float("inf"), Decimal("Infinity")],
    [(1, "a"), Point(1, "a"), (1.0, "a")],
    [Decimal("0.1"), Decimal("0.10"), Decimal("1E-1")],
    [dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 14, tzinfo=UTC_PLUS_2)],
    [frozenset([1, 2]), frozenset([2.0, 1.0])],
]
DISTINCT = [
    None,
    0,
    1,
    -1,
    2**63,
    -(2**63) - 1,
    0.1,
    Decimal("0.1"),
    float("inf"),
    float("-inf"),
    "",
    "1",
    "ä",
    "a\ud800",
    b"",
    b"1",
    (),
    (1,),
    ((1,),),
    ("a", "b"),
    ("ab", ""),
    (None,),
    Place("a", 1),
    Colour.RED,
    Colour.GREEN,
    dt.date(2024, 1, 1),
    dt.datetime(2024, 1, 1),
    dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    dt.time(1, 2, 3, 4),
    dt.timedelta(days=-1, microseconds=1),
    UUID(int=7),
    frozenset(),
    frozenset([1]),
    Row(1, 2),
    Row(a=1, b=2),
]


def untyped() -> KeyCodec:
    return KeyCodec.for_type(Types.PICKLED_BYTE_ARRAY())


@pytest.mark.parametrize("keys", EQUAL, ids=str)
def test_equal_keys_are_one_key(keys: list[Any]) -> None:
    for key in keys:  # one by one, so that no answer is taken from an equal key before
        assert untyped().encode([key]).values.to_pylist() == untyped().encode([keys[0]]).values.to_pylist()
    assert len(set(untyped().encode(keys).hashes.tolist())) == 1


def test_different_keys_differ_and_come_back() -> None:
    codec = untyped()
    column = codec.encode(DISTINCT)
    assert len(set(column.values.to_pylist())) == len(DISTINCT)
    decoded = codec.decode(column.values)
    assert decoded == DISTINCT
    assert [type(key) for key in decoded] == [type(key) for key in DISTINCT]


values = st.deferred(
    lambda: (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=5)
        | st.binary(max_size=5)
        | st.decimals(allow_nan=False, min_value=-(10**6), max_value=10**6)
        | st.datetimes()
        | st.dates()
        | st.tuples(values, values)
    )
)


@given(values, values)
def test_bytes_are_equal_when_python_says_so(left: Any, right: Any) -> None:
    codec = untyped()
    (first,), (second,) = codec.encode([left]).values.to_pylist(), untyped().encode([right]).values.to_pylist()
    assert (first == second) == (left == right)
    assert codec.decode(pa.array([first], pa.binary())) == [left]


@pytest.mark.parametrize(
    "key",
    [
        [1],
        {"a": 1},
        {1},
        (1, [2]),
        Unhashable("a"),
        1j,
        object(),
        Decimal("sNaN"),
        Decimal("1E+9999"),
        np.datetime64(0, "s"),
    ],
    ids=lambda key: type(key).__name__,
)
def test_what_cannot_be_a_key_is_refused_by_name(key: Any) -> None:
    with pytest.raises(InvalidTypeError, match="cannot be a key"):
        untyped().encode([key])


def test_a_class_that_is_not_known_is_named() -> None:
    stored = untyped().encode([Place("a", 1)]).values
    hidden = pa.array([stored[0].as_py().replace(b"Place", b"Plane")], pa.binary())
    with pytest.raises(InvalidTypeError, match="Plane"):
        untyped().decode(hidden)


def test_classes_can_be_given_and_travel_with_the_codec() -> None:
    @dataclass(frozen=True)
    class Local:
        name: str

    stored = untyped().encode([Local("a")]).values
    with pytest.raises(InvalidTypeError, match="Local"):
        untyped().decode(stored)
    assert KeyCodec.for_type(Types.PICKLED_BYTE_ARRAY(), classes=[Local]).decode(stored) == [Local("a")]
    known = KeyCodec.for_type(Types.PICKLED_BYTE_ARRAY(), classes=[Place])
    assert pickle.loads(pickle.dumps(known)).decode(known.encode([Place("b", 2)]).values) == [Place("b", 2)]


TYPED: list[tuple[TypeInformation, list[Any]]] = [
    (Types.LONG(), [0, -1, 2**63 - 1, -(2**63)]),
    (Types.INT(), [1, 2]),
    (Types.BOOLEAN(), [True, False]),
    (Types.STRING(), ["", "ä", "a" * 100]),
    (Types.BYTES(), [b"", b"\0"]),
    (Types.DOUBLE(), [1.0, -0.5, float("inf")]),
    (Types.FLOAT(), [1.0, 0.5]),
    (Types.BIG_INT(), [10**30, 0]),
    (Types.BIG_DEC(), [Decimal("1.5"), Decimal(3)]),
    (Types.SQL_DATE(), [dt.date(2024, 1, 1)]),
    (Types.SQL_TIMESTAMP(), [dt.datetime(2024, 1, 1, 1, 2, 3, 4)]),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a"), (-1, ""), (2, "ä")]),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, None), (None, "")]),
    (Types.TUPLE([Types.DOUBLE(), Types.BOOLEAN()]), [(1.0, True)]),
    (Types.TUPLE([Types.TUPLE([Types.INT(), Types.BYTES()]), Types.STRING()]), [((1, b"x"), "a")]),
    (Types.ROW([Types.INT(), Types.STRING()]), [Row(1, "a")]),
    (Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()]), [Row(n=1, s="a")]),
    (Types.of(Point), [Point(1, "a"), Point(2, "b")]),
    (Types.of(Place), [Place("a", 1)]),
    (Types.of(tuple[Place, int]), [(Place("a", 1), 2)]),
]


@pytest.mark.parametrize(("type_", "keys"), TYPED, ids=lambda value: str(value)[:60])
def test_typed_keys_are_the_same_from_objects_and_from_columns(type_: TypeInformation, keys: list[Any]) -> None:
    codec = pickle.loads(pickle.dumps(KeyCodec.for_type(type_)))
    column = codec.encode(keys)
    array = values_to_array(type_, keys)
    from_column = codec.from_array(array)
    assert column.values.equals(from_column.values)
    assert column.hashes.tolist() == from_column.hashes.tolist()
    assert column.values.type == codec.arrow_type
    decoded = codec.decode(column.values)
    assert decoded == keys
    assert [type(key) for key in decoded] == [type(key) for key in keys]
    assert codec.from_array(array.slice(len(keys) - 1)).values.to_pylist() == column.values.to_pylist()[-1:]


_NUMBERS = [int(number) for number in np.random.default_rng(1).integers(-(10**11), 10**11, 200)]
_DECIMALS = ("1", "0.5", "-0.25", "0.10", "1.20", "1e9", "-3", "0", "1234.56")

COLUMNS: list[tuple[TypeInformation, list[Any]]] = [
    (Types.LONG(), [0, -1, 2**63 - 1, -(2**63)]),
    (Types.BOOLEAN(), [True, False]),
    (Types.STRING(), ["", "ä", "a" * 100]),
    (Types.BYTES(), [b"", b"\0"]),
    (Types.DOUBLE(), [0.0, -0.0, 1.5, -3.0, 2.0**62, float("nan"), float("-inf"), 5e-324, *(n / 64 for n in _NUMBERS)]),
    (Types.DOUBLE(), [1.5, 1e300, 2.0**63, -(2.0**63)]),
    (Types.FLOAT(), [0.5, -7.0, 1e30]),
    (decimal(12, 2), [Decimal(n).scaleb(-2) for n in _NUMBERS if abs(n) < 10**10] + [*map(Decimal, _DECIMALS)]),
    (decimal(38, 4), [Decimal(10**33), Decimal("0.0001")]),
    (decimal(18, 18), [Decimal("0.125"), Decimal("0.1"), Decimal("0." + "9" * 18), Decimal(2).scaleb(-18)]),
    (decimal(10, 0), [Decimal(7), Decimal(-7)]),
    (Types.SQL_DATE(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    (Types.SQL_TIME(), [dt.time(0), dt.time(23, 59, 59, 999_999)]),
    (Types.SQL_TIMESTAMP(), [dt.datetime(1, 1, 1), dt.datetime(2024, 1, 1, 1, 2, 3, 4)]),
    (Types.TIMESTAMP_LTZ(), [dt.datetime(2024, 1, 1, 1, 2, 3, 4, dt.UTC), dt.datetime(1, 1, 1, tzinfo=dt.UTC)]),
]


@pytest.mark.parametrize("has_nulls", [False, True], ids=["", "with nulls"])
@pytest.mark.parametrize(("type_", "values"), COLUMNS, ids=lambda value: str(value)[:40])
def test_columns_have_the_same_bytes_as_objects(type_: TypeInformation, values: list[Any], has_nulls: bool) -> None:
    of_tuples = Types.TUPLE([type_, Types.STRING(), type_])
    found = [*values, None, values[0]] if has_nulls else values
    array = values_to_array(of_tuples, [(value, "x", other) for value, other in zip(found, found[::-1], strict=True)])
    codec = KeyCodec.for_type(of_tuples)
    expected = untyped().encode(array_to_values(of_tuples, array)).values.to_pylist()
    assert codec.from_array(array).values.to_pylist() == expected
    assert codec.from_array(array.slice(1)).values.to_pylist() == expected[1:]
    repeats = -(-4096 // len(array))  # of so many rows the different keys are encoded once
    many = codec.from_array(pa.concat_arrays([array] * repeats))
    assert many.values.to_pylist() == expected * repeats
    assert many.hashes.tolist() == hash_array(many.values).tolist()


@pytest.mark.parametrize("texts", [["A", "N", "R", "A"], ["A", "ä", ""], ["a", "bc", ""], ["x", None, "y"]])
def test_many_keys_of_short_texts_are_those_of_few(texts: list[str | None]) -> None:
    numbers = [len(text or "") for text in texts]
    fields = [
        pa.array(texts * 2000),
        pa.array([each and each.encode() for each in texts] * 2000),
        pa.array(numbers * 2000),
    ]
    columns = pa.StructArray.from_arrays(fields, names=["f0", "f1", "f2"]).slice(3)
    codec = KeyCodec.for_type(Types.TUPLE([Types.STRING(), Types.BYTES(), Types.LONG()]))
    many = codec.from_array(columns)
    few = [codec.from_array(columns.slice(start, 1000)).values for start in range(0, len(columns), 1000)]
    assert many.values.equals(pa.concat_arrays(few))
    assert many.hashes.tolist() == hash_array(many.values).tolist()


@pytest.mark.parametrize(
    ("type_", "bad"),
    [
        (Types.LONG(), 1.0),
        (Types.LONG(), None),
        (Types.LONG(), "1"),
        (Types.LONG(), 2**63),
        (Types.STRING(), b"a"),
        (Types.STRING(), None),
        (Types.STRING(), "a\ud800"),
        (Types.BYTES(), "a"),
        (Types.BYTES(), 3),
    ],
)
def test_what_does_not_fit_the_declared_type_is_refused(type_: TypeInformation, bad: Any) -> None:
    good: Any = {"Long": 1, "String": "a"}.get(str(type_), b"a")
    with pytest.raises(InvalidTypeError, match="does not fit"):
        KeyCodec.for_type(type_).encode([good, bad])


def test_integers_of_all_kinds_are_integers() -> None:
    codec = KeyCodec.for_type(Types.LONG())
    assert codec.encode([1, np.int8(1), np.uint64(1), True]).values.to_pylist() == [1] * 4


@pytest.mark.parametrize("type_", [Types.LIST(Types.LONG()), Types.MAP(Types.LONG(), Types.LONG())], ids=str)
def test_types_that_are_not_hashable_are_refused(type_: TypeInformation) -> None:
    for wrapped in (type_, Types.TUPLE([type_])):
        with pytest.raises(InvalidTypeError, match=r"not hashable; make tuples of .* key_by\(lambda record: tuple"):
            KeyCodec.for_type(wrapped)


def test_columns_can_be_cut_and_joined() -> None:
    codec = KeyCodec.for_type(Types.STRING())
    column = codec.encode(["a", "b", "c"])
    joined = KeyColumn.concat([column.slice(2, 3), column.take(np.array([1, 0]))])
    assert codec.decode(joined.values) == ["c", "b", "a"]
    assert joined.hashes.tolist() == codec.encode(["c", "b", "a"]).hashes.tolist()
    assert len(joined) == 3


@pytest.mark.parametrize(
    ("key", "declaration"),
    [
        ([1, "a"], "Types.TUPLE([Types.LONG(), Types.STRING()])"),
        ((1, [2.0, True]), "Types.TUPLE([Types.LONG(), Types.TUPLE([Types.DOUBLE(), Types.BOOLEAN()])])"),
        ({"a": 1, "b": [b"x"]}, "Types.ROW_NAMED(['a', 'b'], [Types.LONG(), Types.TUPLE([Types.BYTES()])])"),
        ([{1, 2}], None),
        ([], None),
        ({1: 2}, None),
        ([[]], None),
    ],
)
def test_a_key_that_is_not_hashable_is_refused_with_the_type_to_declare(key: Any, declaration: str | None) -> None:
    with pytest.raises(InvalidTypeError, match=r"it is not hashable; (use|make)") as caught:
        untyped().encode([key])
    if declaration is None:
        assert "key_type=" not in str(caught.value)
    else:
        assert str(caught.value).endswith(f"key_by(..., key_type={declaration})")
        assert len(KeyCodec.for_type(eval(declaration)).encode([key, key]).values.unique()) == 1


@pytest.mark.parametrize(
    ("key", "instead", "key_instead"),
    [
        ([1, 2], "make it a tuple", (1, 2)),
        ({1, 2}, "make it a frozenset", frozenset({1, 2})),
        (bytearray(b"a"), "make it bytes", b"a"),
        ({"a": 1}, "make it a tuple of its items", (("a", 1),)),
        ((1, [2]), "use tuples instead of lists", (1, (2,))),
    ],
)
def test_what_a_key_that_is_not_hashable_can_be_made(key: Any, instead: str, key_instead: Any) -> None:
    with pytest.raises(InvalidTypeError, match=rf"it is not hashable; {instead}"):
        untyped().encode([key])
    assert untyped().decode(untyped().encode([key_instead]).values) == [key_instead]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (Types.LONG(), [1, None, 0, -(2**63), 1]),
        (Types.BYTE(), [1, None, -128]),
        (Types.BOOLEAN(), [True, False, None]),
        (Types.SQL_DATE(), [dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
        (Types.SQL_TIME(), [dt.time(1, 2, 3), None]),
        (Types.SQL_TIMESTAMP(), [dt.datetime(2024, 2, 29, 1), None, dt.datetime(1, 1, 1)]),
        (Types.STRING(), ["a", "", None, "\u00ff"]),
    ],
    ids=str,
)
def test_keys_of_a_column_may_be_null(type_: TypeInformation, values: list[Any]) -> None:
    codec = NullableKeys.of_column(type_)
    assert codec is not None
    column = pa.array(values, type_.storage_type)
    keys = codec.from_array(column)
    assert not keys.values.null_count
    assert len(set(keys.values.to_pylist())) == len(set(values))
    assert codec.to_array(keys.values).equals(column)
    assert codec.encode(codec.decode(keys.values)).values.equals(keys.values)
    assert codec_from_json(codec.to_json()).to_array(keys.values).equals(column)


def test_the_integer_that_stands_for_null_is_no_key() -> None:
    codec = NullableKeys.of_column(Types.LONG())
    assert codec is not None
    with pytest.raises(InvalidTypeError, match="stands for NULL"):
        codec.from_array(pa.array([1, NO_INTEGER, None]))
