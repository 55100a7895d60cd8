"""A batch is the same on the other side of a shuffle, whatever its records and keys are."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row
from headrace.exchange.envelope import (
    Envelope,
    EnvelopeKind,
    PayloadDecoder,
    encode,
    from_record_batch,
    to_record_batch,
)
from headrace.exchange.sender import keys_of
from headrace.graph.partitioning import KeySelection
from headrace.operators.base import KeyedBatch
from headrace.operators.user_code import RecordError
from headrace.state.keys import KeyCodec


@dataclass
class Click:
    user: str
    times: list[int]
    score: float | None


class Point(NamedTuple):
    x: int
    y: int


class Untyped:
    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Untyped) and other.value == self.value

    def __hash__(self) -> int:
        return self.value


RECORDS: list[tuple[TypeInformation, list[Any]]] = [
    (Types.STRING(), ["", "a", "äß\U0001f600", None]),
    (Types.LONG(), [0, -(2**63), 2**63 - 1, None]),
    (Types.DOUBLE(), [0.0, -0.0, float("inf"), 1e-300]),
    (Types.BOOLEAN(), [True, False, None]),
    (Types.BYTES(), [b"", b"\0\xff"]),
    (Types.BIG_DEC(), [Decimal("1.50"), Decimal(-3)]),
    (Types.SQL_DATE(), [datetime.date(1969, 12, 31), None]),
    (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 1), ("b", None)]),
    (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.STRING())]), [Row(a=1, b=["x", None]), Row(a=2, b=[])]),
    (Types.LIST(Types.LONG()), [[1, 2], [], None]),
    (Types.MAP(Types.STRING(), Types.LONG()), [{"a": 1}, {}]),
    (Types.of(Click), [Click("ann", [1, 2], None), Click("bob", [], 0.5)]),
    (Types.of(Point), [Point(1, 2), Point(3, 4)]),
    (Types.PICKLED_BYTE_ARRAY(), [Untyped(1), None, {"a": [1]}, (1, "x")]),
]


def decode(payload: bytes, record_type: TypeInformation, key: KeySelection | None) -> Batch:
    return PayloadDecoder(record_type, key).decode([payload])[0]


def batch_of(type_: TypeInformation, rows: list[Any]) -> Batch:
    times = [NO_TIMESTAMP, -5, 10, 10, MAX_WATERMARK][: len(rows)]
    watermarks = [MIN_WATERMARK, MIN_WATERMARK, 7, 7, MAX_WATERMARK][: len(rows)]
    return Batch.of_rows(type_, rows, times, watermarks)


def key_of(
    type_: TypeInformation, selector: Any, fields: tuple[str, ...] | None = None, **changes: Any
) -> KeySelection:
    return KeySelection(KeyCodec.for_type(type_), selector, fields, **changes)


@pytest.mark.parametrize(("type_", "rows"), RECORDS, ids=lambda value: str(value)[:40])
def test_records_of_every_type(type_: TypeInformation, rows: list[Any]) -> None:
    batch = batch_of(type_, rows)
    found = decode(encode(batch, None, None), type_, None)
    assert found.rows == rows
    assert found.timestamps.tolist() == batch.timestamps.tolist()
    assert found.watermarks.tolist() == batch.watermarks.tolist()


@pytest.mark.parametrize(("type_", "rows"), RECORDS, ids=lambda value: str(value)[:40])
def test_several_payloads_as_one_batch(type_: TypeInformation, rows: list[Any]) -> None:
    batch = batch_of(type_, rows)
    if type_.arrow_type is not None:
        assert batch.columns.num_rows == len(rows)
    parts = [batch.slice(0, 1), batch.slice(1, len(rows)), batch]
    found, lengths = PayloadDecoder(type_, None).decode([encode(part, None, None) for part in parts])
    assert found.rows == rows * 2
    assert lengths == [1, len(rows) - 1, len(rows)]
    assert found.timestamps.tolist() == batch.timestamps.tolist() * 2
    assert found.watermarks.tolist() == batch.watermarks.tolist() * 2


def test_columns_that_are_a_slice() -> None:
    type_ = Types.TUPLE([Types.STRING(), Types.LONG()])
    batch = batch_of(type_, [("a", 1), ("b", None), (None, 3), ("d", 4)])
    assert batch.columns.num_rows == 4
    found = decode(encode(batch.slice(1, 3), None, None), type_, None)
    assert found.rows == [("b", None), (None, 3)]
    assert found.watermarks.tolist() == [MIN_WATERMARK, 7]


def test_records_of_a_class_that_no_module_has() -> None:
    module = ModuleType("__main__")
    exec("class Local:\n    def __init__(self, value):\n        self.value = value", module.__dict__)
    rows = [module.Local(3)]  # pickle looks for __main__.Local, and does not find it
    found = decode(encode(batch_of(Types.PICKLED_BYTE_ARRAY(), rows), None, None), Types.PICKLED_BYTE_ARRAY(), None)
    assert found.rows[0].value == 3


KEYS: list[tuple[TypeInformation, list[Any]]] = [
    (Types.STRING(), ["a", ""]),
    (Types.LONG(), [1, -1]),
    (Types.BOOLEAN(), [True, False]),
    (Types.BYTES(), [b"\0", b""]),
    (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 1), ("b", 2)]),
    (Types.of(Point), [Point(1, 2), Point(3, 4)]),
    (Types.PICKLED_BYTE_ARRAY(), [("a", None), 3]),
]


@pytest.mark.parametrize(("type_", "keys"), KEYS, ids=lambda value: str(value)[:30])
def test_keys_of_every_type(type_: TypeInformation, keys: list[Any]) -> None:
    batch = batch_of(Types.LONG(), [0, 1])
    plan = key_of(type_, lambda row: keys[row])
    column = keys_of(batch, plan)
    found = decode(encode(batch, column, plan), Types.LONG(), plan)
    assert isinstance(found, KeyedBatch)
    assert found.keys.hashes.tolist() == column.hashes.tolist()
    assert plan.codec.decode(found.keys.values) == plan.codec.decode(column.values)


def test_a_key_that_is_a_column_is_not_sent_twice() -> None:
    type_ = Types.TUPLE([Types.STRING(), Types.LONG()])
    batch = batch_of(type_, [("a" * 1000, 1), ("b" * 1000, 2)])
    selected = key_of(Types.STRING(), lambda row: row[0])
    column = key_of(Types.STRING(), lambda row: row[0], ("f0",))
    twice, once = encode(batch, keys_of(batch, selected), selected), encode(batch, keys_of(batch, column), column)
    assert len(once) < len(twice) - 1000
    found = decode(once, type_, column)
    assert isinstance(found, KeyedBatch)
    assert found.keys.hashes.tolist() == keys_of(batch, selected).hashes.tolist()


def test_keys_that_only_route_stay_behind() -> None:
    plan = key_of(Types.STRING(), str, only_routes=True)
    batch = batch_of(Types.LONG(), [1, 2])
    assert not isinstance(decode(encode(batch, keys_of(batch, plan), plan), Types.LONG(), plan), KeyedBatch)


def test_a_failing_key_function_names_the_record() -> None:
    with pytest.raises(RecordError) as caught:
        keys_of(batch_of(Types.LONG(), [1, 0, 2]), key_of(Types.LONG(), lambda row: 1 // row))
    assert caught.value.record == 0
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_envelopes_as_arrow() -> None:
    envelopes = [
        Envelope(1, 2, -1, MIN_WATERMARK, 3, 4, 5, EnvelopeKind.SUMMARY, b"summary"),
        Envelope(2, 0, 7, MAX_WATERMARK, 0, 9, 2**40, EnvelopeKind.DATA, b""),
    ]
    found = list(from_record_batch(to_record_batch(envelopes)))
    assert [(*envelope[:-1], bytes(envelope.payload)) for envelope in found] == [tuple(e) for e in envelopes]
    again = list(from_record_batch(to_record_batch(found)))  # what skips a stage is sent on as it came
    assert [bytes(envelope.payload) for envelope in again] == [b"summary", b""]
    assert np.iinfo(np.int64).max == again[1].watermark
