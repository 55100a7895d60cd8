"""Whatever fits a type comes back equal and of the same class: through columns, and through one column."""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.columns import array_to_values, layout_of, values_to_array
from headrace.common.time import Instant
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row, RowKind
from tests.draws import draws

UTC = datetime.UTC
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ZONES = st.sampled_from(
    [UTC, datetime.timezone(datetime.timedelta(hours=-5, minutes=-30)), datetime.timezone(datetime.timedelta(hours=14))]
)
DAY = datetime.timedelta(days=1)


def integers(bits: int) -> st.SearchStrategy[int]:
    edges = st.sampled_from([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1])
    return edges | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


SIMPLE: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.STRING(), TEXT),
    (Types.BYTE(), integers(8)),
    (Types.BOOLEAN(), st.booleans()),
    (Types.SHORT(), integers(16)),
    (Types.INT(), integers(32)),
    (Types.LONG(), integers(64)),
    (Types.FLOAT(), st.floats(width=32)),
    (Types.DOUBLE(), st.floats()),
    (Types.CHAR(), st.characters(exclude_categories=["Cs"])),
    (Types.BIG_INT(), st.integers() | st.sampled_from([10**300, 2**2048, 2**63])),
    (Types.BIG_DEC(), st.decimals() | st.sampled_from([Decimal("1.00"), Decimal("-0E-7"), Decimal(10) ** 40 + 1])),
    (Types.BYTES(), st.binary(max_size=8)),
    (
        Types.INSTANT(),
        st.builds(Instant, st.integers(-9_223_372_036, 9_223_372_035), st.integers(0, 999_999_999)),
    ),
    (Types.SQL_DATE(), st.dates()),
    # `fold` says which of two equal wall clock times is meant; it takes no part in equality and is not kept.
    (Types.SQL_TIME(), st.times().map(lambda time: time.replace(fold=0))),
    (Types.SQL_TIMESTAMP(), st.datetimes().map(lambda moment: moment.replace(fold=0))),
    (
        Types.TIMESTAMP_LTZ(),
        st.datetimes(datetime.datetime.min + DAY, datetime.datetime.max - DAY, timezones=ZONES),
    ),
    (Types.PICKLED_BYTE_ARRAY(), st.dictionaries(TEXT, st.lists(st.integers() | TEXT, max_size=2), max_size=2)),
]


def grow(kind: tuple[TypeInformation, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """A strategy of types that contain ``kind``, each with a strategy of its values."""
    info, present = kind
    values = present | st.none()
    lists = st.lists(values, max_size=3)
    number = st.integers(-5, 5)
    return st.sampled_from(
        [
            (Types.LIST(info), lists),
            (Types.OBJECT_ARRAY(info), lists),
            (Types.MAP(Types.STRING(), info), st.dictionaries(TEXT, values, max_size=3)),
            (Types.TUPLE([info]), st.tuples(values)),
            (Types.TUPLE([Types.LONG(), info]), st.tuples(number | st.none(), values)),
            (Types.ROW([info, Types.LONG()]), st.builds(Row, values, number)),
            (Types.ROW_NAMED(["a", "b"], [info, Types.LONG()]), st.builds(Row, a=values, b=number)),
            (
                Types.ROW_NAMED(["a"], [info], changelog=True),
                st.builds(lambda kind, value: Row.of_kind(kind, a=value), st.sampled_from(RowKind), values),
            ),
        ]
    )


KINDS = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: inner.flatmap(grow),
    max_leaves=4,
)


def same(left: Any, right: Any) -> bool:
    """Equality that tells classes apart, -0.0 from 0.0, and for which a NaN is a NaN."""
    return type(left) is type(right) and _COMPARED.get(type(left), operator.eq)(left, right)


def same_float(left: float, right: float) -> bool:
    both_nan = math.isnan(left) and math.isnan(right)
    return both_nan or (left == right and math.copysign(1, left) == math.copysign(1, right))


def same_row(left: Row, right: Row) -> bool:
    by_position = left._is_by_position() and right._is_by_position()
    alike = (by_position or left._fields == right._fields) and left.get_row_kind() is right.get_row_kind()
    return alike and same([*left], [*right])


def same_items(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(map(same, left, right))


_COMPARED: dict[type, Callable[[Any, Any], bool]] = {
    float: same_float,
    Decimal: lambda left, right: str(left) == str(right),
    Row: same_row,
    list: same_items,
    tuple: same_items,
    dict: lambda left, right: same_items([*left.items()], [*right.items()]),
}


@settings(max_examples=draws(120), deadline=None)
@given(st.data())
def test_every_type_round_trips(data: st.DataObject) -> None:
    info, present = data.draw(KINDS)
    values = data.draw(st.lists(present | st.none(), max_size=5))
    array = values_to_array(info, values)
    array.validate(full=True)
    assert array.type == info.storage_type
    assert same(array_to_values(info, array), values)

    layout = layout_of(info)
    rows = [value for value in values if value is not None] if info.is_composite else values
    batch = layout.rows_to_columns(rows)
    batch.validate(full=True)
    assert batch.schema == layout.schema
    assert same(layout.columns_to_rows(batch), rows)


@pytest.mark.parametrize(("info", "present"), SIMPLE, ids=[str(info) for info, _ in SIMPLE])
def test_each_simple_type_round_trips(info: TypeInformation, present: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=draws(20), deadline=None)
    @given(st.lists(present | st.none(), max_size=6))
    def check(values: list[Any]) -> None:
        assert same(array_to_values(info, values_to_array(info, values)), values)

    check()


@settings(max_examples=draws(60), deadline=None)
@given(st.data())
def test_slices_round_trip(data: st.DataObject) -> None:
    info, present = data.draw(KINDS)
    values = data.draw(st.lists(present | st.none(), min_size=1, max_size=6))
    start = data.draw(st.integers(0, len(values)))
    array = values_to_array(info, values)
    assert same(array_to_values(info, array.slice(start, 2)), values[start : start + 2])
    chunked = pa.chunked_array([array.slice(0, start), array.slice(start)])
    assert same(array_to_values(info, chunked), values)


@settings(max_examples=draws(40), deadline=None)
@given(st.data())
def test_ipc_round_trips(data: st.DataObject) -> None:
    info, present = data.draw(KINDS)
    rows = data.draw(st.lists(present, max_size=4))
    layout = layout_of(info)
    buffer = layout.rows_to_columns(rows).serialize()
    assert same(layout.columns_to_rows(pa.ipc.read_record_batch(buffer, layout.schema)), rows)


def test_integers_with_nulls_do_not_become_floats() -> None:
    values = [2**53 + 1, None, -(2**63), 2**63 - 1]
    assert array_to_values(Types.LONG(), values_to_array(Types.LONG(), values)) == values


def test_integers_of_thousands_of_digits() -> None:
    values = [10**5000, -(10**5000), 0]
    assert array_to_values(Types.BIG_INT(), values_to_array(Types.BIG_INT(), values)) == values


def test_wall_clock_times_that_come_twice_are_told_apart() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    twice = [datetime.datetime(2024, 10, 27, 2, 30, tzinfo=berlin, fold=fold) for fold in (0, 1)]
    restored = array_to_values(Types.TIMESTAMP_LTZ(), values_to_array(Types.TIMESTAMP_LTZ(), twice))
    assert restored == [datetime.datetime(2024, 10, 27, hour, 30, tzinfo=UTC) for hour in (0, 1)]


def test_zoned_datetimes_come_back_in_utc() -> None:
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, datetime.timezone(datetime.timedelta(hours=-8)))
    (restored,) = array_to_values(Types.TIMESTAMP_LTZ(), values_to_array(Types.TIMESTAMP_LTZ(), [moment]))
    assert restored == moment
    assert restored.tzinfo is UTC
