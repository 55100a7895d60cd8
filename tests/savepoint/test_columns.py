"""Keys as columns that people read, and back."""

from __future__ import annotations

import enum
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.common import Row, Types
from headrace.savepoint.tables import as_stored, readable
from headrace.state.keys import KeyCodec

UNTYPED_PART = Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()])

KEYS: list[tuple[Any, list[Any]]] = [
    (Types.PICKLED_BYTE_ARRAY(), [1, "a", (1, None), 1 << 70, math.nan, Decimal("NaN"), frozenset([1, 2])]),
    (UNTYPED_PART, [("a", 1), ("b", "x"), ("c", 1.5), ("d", math.nan), ("e", None)]),
    (Types.DOUBLE(), [0.5, -0.0, math.nan, math.inf, -math.inf]),
    (Types.FLOAT(), [0.1, -0.0, math.nan]),
    (Types.BIG_DEC(), [Decimal("1.50"), Decimal("-0"), Decimal("NaN")]),
    (Types.BIG_INT(), [1 << 80, -(1 << 64), 0]),
    (Types.LONG(), [(1 << 63) - 1, -(1 << 63), (1 << 53) + 1]),
    (Types.BOOLEAN(), [True, False]),
    (Types.SQL_TIMESTAMP(), [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]),
    (Types.SQL_DATE(), [date(1, 1, 1)]),
    (Types.ROW_NAMED(["a", "b"], [Types.DOUBLE(), Types.STRING()]), [Row(a=math.nan, b=None), Row(a=-0.0, b="ä")]),
]


def exported(codec: KeyCodec, keys: pa.Array) -> tuple[pa.RecordBatch, dict[str, Any]]:
    """The rows of an exported table of such keys, and what is said of it."""
    return pa.RecordBatch.from_pydict({"key": keys}), {"kind": "value", "keys": codec.to_json()}


@pytest.mark.parametrize(("type_", "keys"), KEYS, ids=lambda given: str(given)[:30])
def test_whatever_is_shown_can_be_given_back(type_: Any, keys: list[Any]) -> None:
    codec = KeyCodec.for_type(type_)
    stored, about = exported(codec, codec.encode(keys).values)
    shown = readable(stored, about)
    assert as_stored(shown, about, stored.schema).equals(stored)
    by_one = [readable(stored.slice(row, 1), about).schema for row in range(len(keys))]
    assert by_one == [shown.schema] * len(keys), "which columns there are follows from the type alone"


def test_keys_that_their_type_cannot_give_back_are_shown_and_kept() -> None:
    """As they would be if they had been stored by another rounding: nothing of them is lost."""
    stored, _ = exported(KeyCodec.for_type(Types.DOUBLE()), KeyCodec.for_type(Types.DOUBLE()).encode([0.1, 0.5]).values)
    _, about = exported(KeyCodec.for_type(Types.FLOAT()), stored.column("key"))
    shown = readable(stored, about)
    assert shown.schema.names == ["key", "key_encoded"]
    assert as_stored(shown, about, stored.schema).equals(stored)


def test_keys_of_classes_that_only_the_program_knows() -> None:
    class Color(enum.Enum):
        RED = 1

    keys = KeyCodec.for_type(UNTYPED_PART, [Color]).encode([("a", Color.RED), ("b", 1)]).values
    stored, about = exported(KeyCodec.for_type(UNTYPED_PART), keys)
    shown = readable(stored, about)
    assert shown.column("key").to_pylist() == [None, "('b', 1)"]
    assert as_stored(shown, about, stored.schema).equals(stored)
