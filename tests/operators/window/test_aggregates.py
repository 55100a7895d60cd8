"""The built-in aggregates: what they take, what they give, how they treat nulls, whatever the cut."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_harness import Driver
from window_model import MAX, Record

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import Types
from headrace.common.types import Row
from headrace.datastream import aggregates as agg
from headrace.graph.specs import InputSchema
from headrace.graph.window_specs import GroupAggregateSpec
from headrace.operators.aggregates.aggregator import AggregatorList
from headrace.operators.aggregates.exact_sum import IntegerOverflowError
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
from headrace.operators.window.columnar.time_windows import AlignedWindowOperator
from headrace.state.keys import KeyCodec
from headrace.windowing.intervals import AlignedWindows
from tests.draws import draws

LONGS = KeyCodec.for_type(Types.LONG())
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "byte": (Types.BYTE(), [3, -4, None, 3]),
    "short": (Types.SHORT(), [300, -4, None, 3]),
    "int": (Types.INT(), [2**31 - 1, 2**31 - 1, None, 5]),
    "long": (Types.LONG(), [2**53 + 1, 1, None, -7]),
    "float": (Types.FLOAT(), [0.5, -2.25, None, 1.0]),
    "double": (Types.DOUBLE(), [0.1, 0.2, None, 1e16]),
    "string": (Types.STRING(), ["b", "ä", None, "a"]),
    "boolean": (Types.BOOLEAN(), [True, False, None, True]),
    "bytes": (Types.BYTES(), [b"b", b"", None, b"a"]),
    "date": (Types.SQL_DATE(), [dt.date(2024, 1, 2), dt.date(1969, 1, 1), None, dt.date(2024, 1, 1)]),
    "time": (Types.SQL_TIME(), [dt.time(1, 2), dt.time(0, 0, 0, 1), None, dt.time(23)]),
    "timestamp": (
        Types.SQL_TIMESTAMP(),
        [dt.datetime(2024, 1, 1), dt.datetime(1960, 1, 1), None, dt.datetime(2025, 1, 1)],
    ),
}
ALL = [agg.count("v"), agg.min("v"), agg.max("v"), agg.first("v"), agg.last("v")]


def record_type(value_type: Any) -> Any:
    return Types.ROW_NAMED(["k", "v"], [Types.LONG(), value_type])


class ValueDriver(Driver):
    def row(self, record: Record) -> Any:
        return Row(k=record.key, v=record.value)


def computed(value_type: Any, values: list[Any], aggregates: list[Any], epochs: int = 1, key: int = 1) -> list[Any]:
    """The aggregates of one window, whose records come in several epochs."""
    input_type = record_type(value_type)
    layout = ColumnarWindowLayout.of(input_type, LONGS, aggregates, ["k"])
    driver = ValueDriver(lambda: AlignedWindowOperator(layout, AlignedWindows(100, 100)), input_type, LONGS)
    for piece in np.array_split(np.arange(len(values)), epochs):
        driver.run([[Record(key, values[i], 5) for i in piece.tolist()]])
    driver.run([], upto=MAX)
    (row,) = driver.out.rows
    return list(row[5:])


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_order_and_place_of_values_of_every_type(kind: str, epochs: int) -> None:
    value_type, values = VALUES[kind]
    present = [value for value in values if value is not None]
    assert computed(value_type, values, ALL, epochs) == [3, min(present), max(present), present[0], present[-1]]


@pytest.mark.parametrize("kind", ["byte", "short", "int", "long"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_sums_of_integers_are_longs(kind: str, epochs: int) -> None:
    value_type, values = VALUES[kind]
    total = sum(value for value in values if value is not None)
    assert computed(value_type, values, [agg.sum("v"), agg.avg("v")], epochs) == [total, total / 3]


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_sums_of_floats_are_rounded_once(kind: str, epochs: int) -> None:
    value_type, values = VALUES[kind]
    total = math.fsum(value for value in values if value is not None)
    assert computed(value_type, values, [agg.sum("v"), agg.avg("v")], epochs) == [total, total / 3]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("epochs", [1, 2])
def test_no_value_gives_null_and_a_count_of_zero(kind: str, epochs: int) -> None:
    value_type, _ = VALUES[kind]
    assert computed(value_type, [None, None], [*ALL, agg.count()], epochs) == [0, None, None, None, None, 2]


@pytest.mark.parametrize("kind", ["long", "double"])
def test_no_value_gives_no_sum(kind: str) -> None:
    assert computed(VALUES[kind][0], [None, None], [agg.sum("v"), agg.avg("v")], 2) == [None, None]


@pytest.mark.parametrize("epochs", [1, 3])
def test_nan_is_larger_than_any_number(epochs: int) -> None:
    smallest, largest = computed(Types.DOUBLE(), [math.nan, 1.0, math.inf], [agg.min("v"), agg.max("v")], epochs)
    assert smallest == 1.0
    assert math.isnan(largest)
    assert all(map(math.isnan, computed(Types.DOUBLE(), [math.nan] * 3, [agg.min("v"), agg.max("v")], epochs)))


@pytest.mark.parametrize("values", [[math.nan, None], [None, math.nan]])
def test_nan_beside_null(values: list[Any]) -> None:
    assert all(map(math.isnan, computed(Types.DOUBLE(), values, [agg.min("v"), agg.max("v")])))


@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0]])
def test_minus_zero_is_zero(values: list[float]) -> None:
    results = computed(Types.DOUBLE(), values, [agg.min("v"), agg.max("v"), agg.sum("v")], 2)
    assert [math.copysign(1, result) for result in results] == [1, 1, 1]


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_sum_that_does_not_fit_is_refused(epochs: int) -> None:
    with pytest.raises(IntegerOverflowError, match="the sum of 'v'"):
        computed(Types.LONG(), [2**63 - 1, 1], [agg.sum("v")], epochs)


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize(
    "values", [[2**63 - 1, 1], [2**63 - 1] * 5 + [None, 3], [-(2**63)] * 3, [2**62 + 1] * 7, [-(2**63), 5, -(2**63)]]
)
def test_an_average_whose_sum_does_not_fit(values: list[Any], epochs: int) -> None:
    known = [value for value in values if value is not None]
    assert computed(Types.LONG(), values, [agg.avg("v"), agg.count("v")], epochs) == [
        float(sum(known)) / len(known),
        len(known),
    ]


@pytest.mark.parametrize("epochs", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "values",
    [
        [2**63 - 1, 1, -1],
        [-(2**63), -1, 1],
        [2**63 - 1, 2**63 - 1, 2**63 - 1, -(2**63), -(2**63)],
        [-(2**63), -(2**63), None, 2**63 - 1, 2**63 - 1],
    ],
)
def test_partial_sums_may_leave_the_range_and_return(values: list[int | None], epochs: int) -> None:
    total = sum(value for value in values if value is not None)
    assert computed(Types.LONG(), values, [agg.sum("v")], epochs) == [total]


TEXTS = ["b", "a", None, "b"]
EVERY_EPOCH = {
    "variances": (Types.DOUBLE(), [1.0, 4.0, None, 1.0], [agg.var_pop("v"), agg.var_samp("v")], [2.0, 3.0]),
    "deviations": (Types.LONG(), [1, 4, None, 1], [agg.stddev_pop("v"), agg.stddev_samp("v")], [2**0.5, 3**0.5]),
    "truth": (Types.BOOLEAN(), [True, None, False, True], [agg.bool_and("v"), agg.bool_or("v")], [False, True]),
    "distinct": (
        Types.STRING(),
        ["b", "a", None, "b"],
        [agg.count_distinct("v"), agg.collect_set("v")],
        [2, ["a", "b"]],
    ),
    "multiset": (Types.STRING(), TEXTS, [agg.collect_multiset("v")], [{"a": 1, "b": 2}]),
    "lists": (
        Types.STRING(),
        ["b", "a", None, "b"],
        [agg.collect_list("v"), agg.listagg("v")],
        [["b", "a", "b"], "b,a,b"],
    ),
    "top": (Types.LONG(), [2, 9, None, 5], [agg.top_n("v", 2), agg.top_n("v", 1).alias("one")], [[9, 5], [9]]),
    "quantiles": (Types.INT(), [8, 2, None, 4], [agg.quantile("v"), agg.approx_quantile("v", 1)], [4, 8.0]),
    "estimate": (Types.STRING(), TEXTS, [agg.approx_count_distinct("v")], [2]),
    "decimals": (
        Types.BIG_DEC(),
        [Decimal("0.10"), Decimal("2"), None, Decimal("-0.1")],
        [agg.sum("v"), agg.avg("v")],
        [Decimal("2.00"), Decimal("0." + "6" * 37 + "7")],
    ),
}


@pytest.mark.parametrize("name", EVERY_EPOCH)
@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_what_is_kept_from_epoch_to_epoch(name: str, epochs: int) -> None:
    value_type, values, aggregates, expected = EVERY_EPOCH[name]
    assert computed(value_type, values, aggregates, epochs) == expected


def test_all_aggregates_of_one_column_go_together() -> None:
    functions = [getattr(agg, name) for name in agg.__all__ if name.islower() and name not in ("listagg",)]
    numeric = [make("v") for make in functions if "bool" not in make.__name__]
    for retracts in (False, True):
        chosen = [a for a in numeric if not (retracts and a.why_not_retractable)]
        bound = [a.bind(record_type(Types.DOUBLE()), retracts=retracts) for a in chosen]
        kept = dict.fromkeys(aggregator for each in bound for aggregator in each.aggregators)
        names = [name for aggregator in kept for name, _ in aggregator.fields]
        assert len(names) == len(set(names))


@settings(max_examples=draws(60), deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=8), st.integers(1, 4))
def test_text(values: list[Any], epochs: int) -> None:
    present = [value for value in values if value is not None]
    edges = [present[0], present[-1]] if present else [None, None]
    expected = [len(present), min(present, default=None), max(present, default=None), *edges]
    assert computed(Types.STRING(), values, ALL, epochs) == expected


@pytest.mark.parametrize(
    ("aggregate", "value_type", "wanted"),
    [
        (agg.sum("v"), Types.STRING(), "sum.*'v'.*numbers"),
        (agg.avg("v"), Types.SQL_DATE(), "avg.*'v'.*numbers"),
        (agg.sum("v"), Types.BIG_INT(), "numbers of up to 64 bits, or decimals.*BigInteger"),
        (agg.min("v"), Types.LIST(Types.LONG()), "min.*'v'"),
        (agg.max("v"), Types.BIG_INT(), "max.*'v'.*BigInteger"),
        (agg.sum("w"), Types.LONG(), "no field 'w'.*'k', 'v'"),
        (agg.sum(7), Types.LONG(), "no field 7"),
        (agg.sum(), Types.LONG(), "needs a field.*'k', 'v'"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(aggregate: Any, value_type: Any, wanted: str) -> None:
    with pytest.raises(InvalidTypeError, match=wanted):
        aggregate.bind(record_type(value_type))


def test_names_and_types_of_the_output() -> None:
    layout = ColumnarWindowLayout.of(
        record_type(Types.INT()),
        LONGS,
        [agg.count(), agg.count("v"), agg.sum("v"), agg.avg("v"), agg.min(1).alias("low"), agg.last("v")],
        ["k"],
    )
    assert layout.output_schema == pa.schema(
        {
            "k": pa.int64(),
            "window_start": pa.int64(),
            "window_end": pa.int64(),
            "count": pa.int64(),
            "count_v": pa.int64(),
            "sum_v": pa.int64(),
            "avg_v": pa.float64(),
            "low": pa.int32(),
            "last_v": pa.int32(),
        }
    )


def test_the_same_sum_is_kept_once() -> None:
    layout = ColumnarWindowLayout.of(
        record_type(Types.DOUBLE()), LONGS, [agg.avg("v"), agg.sum("v"), agg.count("v")], ["k"]
    )
    assert layout.state_schema.names == [
        "window_end",
        "hash",
        "key",
        "records",
        "sum(v)",
        "sum(v).lo",
        "sum(v).rest",
        "count(v)",
    ]


def test_two_columns_of_the_same_name_are_refused() -> None:
    with pytest.raises(InvalidProgramError, match=r"two columns 'count'.*alias"):
        ColumnarWindowLayout.of(record_type(Types.LONG()), LONGS, [agg.count(), agg.sum("v").alias("count")])


def test_at_least_one_aggregate() -> None:
    with pytest.raises(InvalidProgramError, match="at least one aggregate"):
        GroupAggregateSpec((), update_before=True, retracts=False).layout(InputSchema(record_type(Types.LONG())))


def test_layouts_can_be_pickled() -> None:
    layout = ColumnarWindowLayout.of(record_type(Types.LONG()), LONGS, ALL, ["k"])
    assert pickle.loads(pickle.dumps(layout)).output_schema == layout.output_schema


def test_aggregators_described_as_json_merge_alike() -> None:
    import json

    layout = ColumnarWindowLayout.of(record_type(Types.DOUBLE()), LONGS, [*ALL, agg.sum("v")], ["k"])
    described = json.loads(json.dumps(layout.aggregators.to_json()))
    again = AggregatorList.for_merging(described)
    assert [*map(type, again.aggregators)] == [*map(type, layout.aggregators.aggregators)]
    assert again.to_json() == layout.aggregators.to_json()


def test_names_of_aggregators_are_part_of_the_format() -> None:
    floats = ColumnarWindowLayout.of(
        record_type(Types.DOUBLE()), LONGS, [agg.min("v"), agg.first("v"), agg.avg("v")], ["k", "v"]
    )
    integers = ColumnarWindowLayout.of(record_type(Types.LONG()), LONGS, [agg.sum("v")], ["k"])
    assert {entry["kind"] for layout in (floats, integers) for entry in layout.aggregators.to_json()} == {
        "CountRows",
        "CountValues",
        "Edge",
        "Extreme",
        "KeyField",
        "SumFloats",
        "SumIntegers",
    }


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.INT(), [1, -2]),
        (Types.BOOLEAN(), [True, False]),
        (Types.STRING(), ["a", "ß"]),
        (Types.BYTES(), [b"a", b""]),
        (Types.DOUBLE(), [0.5, -1.0]),
        (Types.SQL_DATE(), [dt.date(2024, 1, 1), dt.date(2023, 1, 1)]),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a"), (2, "b")]),
    ],
)
@pytest.mark.parametrize("has_field", [True, False])
def test_keys_of_every_type_come_back(key_type: Any, keys: list[Any], has_field: bool) -> None:
    type_ = Types.ROW_NAMED(["k", "v"], [key_type, Types.LONG()])
    codec = KeyCodec.for_type(key_type)
    layout = ColumnarWindowLayout.of(type_, codec, [agg.sum("v")], ["k"] if has_field else None)
    driver = ValueDriver(lambda: AlignedWindowOperator(layout, AlignedWindows(10, 10)), type_, codec)
    for _ in range(2):
        driver.run([[Record(key, 4, 3) for key in keys]])
    driver.run([], upto=MAX)
    assert sorted((row[2], row[5]) for row in driver.out.rows) == sorted((key, 8) for key in keys)
    assert layout.output_type.field_names[0] == ("k" if has_field else "key")


def test_keys_of_several_fields_become_columns() -> None:
    type_ = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])
    codec = KeyCodec.for_type(Types.TUPLE([Types.LONG(), Types.STRING()]))
    layout = ColumnarWindowLayout.of(type_, codec, [agg.count()], ["v", "k"])

    class TwoFields(ValueDriver):
        def row(self, record: Record) -> Any:
            return Row(k=record.key[1], v=record.key[0])

    driver = TwoFields(lambda: AlignedWindowOperator(layout, AlignedWindows(10, 10)), type_, codec)
    driver.run([[Record((1, "a"), None, 3), Record((2, "a"), None, 3)], [Record((1, "a"), None, 4)]])
    driver.run([[Record((2, "a"), None, 3)]], upto=MAX)
    assert layout.output_type.field_names[:2] == ("v", "k")
    assert sorted(row[2:4] + row[6:] for row in driver.out.rows) == [(1, "a", 2), (2, "a", 2)]


def test_records_that_are_single_values() -> None:
    class Single(Driver):
        def row(self, record: Record) -> Any:
            return record.value

    layout = ColumnarWindowLayout.of(Types.LONG(), LONGS, [agg.sum(), agg.count().alias("n")])
    driver = Single(lambda: AlignedWindowOperator(layout, AlignedWindows(10, 10)), Types.LONG(), LONGS)
    driver.run([[Record(1, 20, 3), Record(1, 22, 3)]], upto=MAX)
    assert [row[2:] for row in driver.out.rows] == [(1, 0, 10, 42, 2)]


def test_counting_needs_no_columns() -> None:
    class Anything(Driver):
        def row(self, record: Record) -> Any:
            return object()

    pickled = Types.PICKLED_BYTE_ARRAY()
    layout = ColumnarWindowLayout.of(pickled, LONGS, [agg.count()])
    driver = Anything(lambda: AlignedWindowOperator(layout, AlignedWindows(10, 10)), pickled, LONGS)
    driver.run([[Record(1, None, 3), Record(1, None, 3)]], upto=MAX)
    assert [row[2:] for row in driver.out.rows] == [(1, 0, 10, 2)]
