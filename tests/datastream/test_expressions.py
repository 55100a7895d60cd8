"""Jobs with expressions give what the same jobs give with functions, however their input is cut."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Instant, Row, Time, TypeInformation, Types, WatermarkStrategy
from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream.aggregates import avg, count, first, max, sum
from headrace.datastream.streams.keying import key_of
from headrace.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.exchange.sender import keys_of
from headrace.expressions import coalesce, col, concat, left, lit, when
from headrace.graph import specs
from headrace.testing import JobHarness
from tests.draws import draws

if TYPE_CHECKING:
    from headrace.datastream import DataStream, StreamExecutionEnvironment
    from headrace.graph.stream_graph import StreamGraph

PAYMENT = Types.ROW_NAMED(["user", "amount", "at"], [Types.STRING(), Types.LONG(), Types.LONG()])
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TOTAL = Types.ROW_NAMED(["user", "double"], [Types.STRING(), Types.LONG()])


@dataclass
class Payment:
    user: str
    amount: int
    at: int


def by_functions(payments: DataStream) -> dict[str, DataStream]:
    timed = payments.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner(lambda p, _: p.at // 10)
    )
    spent = timed.map(lambda p: Row(user=p.user, spent=p.amount * (p.at + 1)), _ROW_SPENT)
    return {
        "filter": payments.filter(lambda p: p.amount is not None and p.amount > 1),
        "map": payments.map(lambda p: None if p.amount is None else p.amount * 2, Types.LONG()),
        "select": payments.map(lambda p: Row(user=p.user, double=(p.amount or 0) * 2), TOTAL),
        "key": timed.key_by(lambda p: p.user).sum("at"),
        "keys": timed.key_by(lambda p: (p.user, p.at)).max("at"),
        "made": timed.key_by(lambda p: p.user.upper(), Types.STRING()).max("at"),
        "window": spent.key_by(lambda p: p.user)
        .window(TumblingEventTimeWindows.of(20))
        .aggregate(count(), sum("spent"), max("spent")),
        "ordered": spent.key_by("user")
        .window(SlidingEventTimeWindows.of(20, 10))
        .aggregate(first("spent"), avg("spent")),
    }


def by_expressions(payments: DataStream) -> dict[str, DataStream]:
    times = WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner(col("at") // 10)
    timed = payments.assign_timestamps_and_watermarks(times)
    spent = (col("amount") * (col("at") + 1)).alias("spent")
    tumbling = timed.key_by(col("user")).window(TumblingEventTimeWindows.of(20))
    sliding = timed.key_by(col("user")).window(SlidingEventTimeWindows.of(20, 10))
    return {
        "filter": payments.filter(col("amount") > 1),
        "map": payments.map(col("amount") * 2),
        "select": payments.select("user", (coalesce(col("amount"), 0) * 2).alias("double")),
        "key": timed.key_by(col("user")).sum(col("at")),
        "keys": timed.key_by(col("user"), col("at")).max("at"),
        "made": timed.key_by(col("user").upper()).max("at"),
        "window": tumbling.aggregate(count(), sum(spent), max(spent)),
        "ordered": sliding.aggregate(first(spent), avg(spent)),
    }


_ROW_SPENT = Types.ROW_NAMED(["user", "spent"], [Types.STRING(), Types.LONG()])
OUTPUTS = ["filter", "map", "select", "key", "keys", "made", "window", "ordered"]

ROWS = st.builds(
    lambda user, amount, at: Row(user=user, amount=amount, at=at),
    st.sampled_from(["ann", "bob", "Ann", "élan"]),
    st.integers(-5, 5),
    st.integers(-50, 300),
)


def run(build: Any, rows: list[Row], cuts: list[int], parallelism: int) -> dict[str, list[Any]]:
    def job(harness: JobHarness) -> None:
        for name, stream in build(harness.add_source("payments", PAYMENT)).items():
            harness.add_sink(name, stream)

    found: dict[str, list[Any]] = {}
    with JobHarness(job, parallelism=parallelism) as harness:
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            harness.push_all("payments", rows[start:stop])
            harness.run_epoch()
        harness.finish()
        for name in OUTPUTS:
            found[name] = harness.take(name)
    return found


@settings(deadline=None, max_examples=draws(24))
@given(rows=st.lists(ROWS, max_size=25), data=st.data(), parallelism=st.integers(1, 2))
def test_as_with_functions(rows: list[Row], data: st.DataObject, parallelism: int) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=2)))
    expected = run(by_functions, rows, cuts, parallelism)
    assert run(by_expressions, rows, cuts, parallelism) == expected


def test_nulls() -> None:
    def job(harness: JobHarness) -> None:
        payments = harness.add_source("payments", PAYMENT)
        harness.add_sink("filter", payments.filter(~(col("amount") > 1)))
        harness.add_sink("map", payments.map(col("amount") + 1))
        harness.add_sink("select", payments.select("user", when(col("amount") > 1).then("much").alias("how")))

    with JobHarness(job) as harness:
        harness.push_all("payments", [Row("a", 1, 0), Row("b", None, 0), Row(None, 2, 0)])
        harness.run_epoch()
        assert harness.take("filter") == [Row(user="a", amount=1, at=0)]
        assert harness.take("map") == [2, None, 3]
        assert harness.take("select") == [Row(user="a", how=None), Row(user="b", how=None), Row(user=None, how="much")]


def test_a_chain_of_expressions_stays_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    def job(harness: JobHarness) -> None:
        pairs = harness.add_source("pairs", PAIR).filter(col("f1") > 0)
        harness.add_sink("out", pairs.select("f0", (col("f1") * 2).alias("twice")).filter(col("twice") < 8).map(col(1)))

    with JobHarness(job) as harness:
        harness.push_all("pairs", [("a", 1), ("b", -1), ("c", 3), ("d", 4)])
        real = Batch.columns.fget
        assert real is not None
        asked: list[bool] = []
        monkeypatch.setattr(Batch, "columns", property(lambda batch: asked.append(batch.is_columnar) or real(batch)))
        harness.run_epoch()
        assert harness.take("out") == [2, 6]
        assert asked[1:] == [True] * len(asked[1:])  # rows that come in are made columns once


def test_a_record_without_a_value_is_told() -> None:
    def job(harness: JobHarness) -> None:
        pairs = harness.add_source("pairs", PAIR)
        harness.add_sink("out", pairs.map(10 // col("f1")).name("shares"))

    with JobHarness(job) as harness:
        harness.push_all("pairs", [("a", 1), ("b", 0), ("c", 0)])
        with pytest.raises(UserFunctionError) as raised:
            harness.run_epoch()
    text = str(raised.value)
    assert "operator 'shares'" in text
    assert 'EvaluationError: 10 // col("f1"): division by zero' in text
    assert "record: ('b', 0)" in text
    assert "in job" in text


def test_a_key_without_a_value_is_told() -> None:
    def job(harness: JobHarness) -> None:
        harness.add_sink("out", harness.add_source("pairs", PAIR).key_by(10 // col("f1")).sum("f1"))

    with JobHarness(job) as harness:
        harness.push_all("pairs", [("a", 1), ("b", 0)])
        with pytest.raises(UserFunctionError, match=r"(?s)10 // col\(\"f1\"\): division by zero.*record: \('b', 0\)"):
            harness.run_epoch()


def test_an_aggregate_without_a_value_is_told() -> None:
    def job(harness: JobHarness) -> None:
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(col("f1"))
        keyed = harness.add_source("pairs", PAIR).assign_timestamps_and_watermarks(times).key_by(col(0))
        windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
        harness.add_sink("out", windows.aggregate(sum(10 // col("f1")).alias("shares")))

    with JobHarness(job) as harness:
        harness.push_all("pairs", [("a", 1), ("b", 0)])
        with pytest.raises(UserFunctionError, match=r"(?s)division by zero.*record: \('b', 0\)"):
            harness.run_epoch()


def test_state_is_found_again_when_a_function_becomes_an_expression() -> None:
    def with_functions(harness: JobHarness) -> None:
        pairs = harness.add_source("pairs", PAIR).filter(lambda pair: pair[1] > 0)
        rows = pairs.map(lambda pair: Row(user=pair[0], double=pair[1] * 2), TOTAL)
        harness.add_sink("out", rows.key_by(lambda row: row.user).sum("double"))

    def with_expressions(harness: JobHarness) -> None:
        pairs = harness.add_source("pairs", PAIR).filter(col(1) > 0)
        rows = pairs.select(col("f0").alias("user"), (col("f1") * 2).alias("double"))
        harness.add_sink("out", rows.key_by(col("user")).sum("double"))

    with JobHarness(with_functions) as harness:
        harness.push_all("pairs", [("a", 1), ("b", -1)])
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    with JobHarness(with_expressions, restore=checkpoint) as harness:
        harness.push_all("pairs", [("a", 2), ("b", 5)])
        harness.run_epoch()
        assert harness.take("out") == [Row(user="a", double=6), Row(user="b", double=10)]


def test_types_and_names(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    pairs = env.from_collection([("a", 1)], PAIR)
    mapped = pairs.map(col("f1") * 2)
    assert (mapped.get_type(), mapped.get_name()) == (Types.LONG(), 'Map: col("f1") * 2')
    filtered = pairs.filter(col(1) > 1)
    assert (filtered.get_type(), filtered.get_name()) == (PAIR, "Filter: col(1) > 1")
    chosen = pairs.select("f0", 1, (col("f1") / 2).alias("half"))
    names, types = ["f0", "f1", "half"], [Types.STRING(), Types.LONG(), Types.DOUBLE()]
    assert chosen.get_type() == Types.ROW_NAMED(names, types)
    assert chosen.get_name() == 'Select: col("f0"), col(1), (col("f1") / 2).alias("half")'
    assert len(pairs.filter(col(1).is_in(range(1000))).get_name()) < 120
    assert isinstance(graph[1].spec, specs.SelectSpec)
    assert isinstance(graph[2].spec, specs.ColumnFilterSpec)


def test_records_that_are_columns_of_others(env: StreamExecutionEnvironment) -> None:
    nested = Types.TUPLE([Types.of(Payment), Types.LONG()])
    assert env.from_collection([(Payment("a", 1, 2), 3)], nested).map(col("f0")).get_type() == Types.of(Payment)

    def job(harness: JobHarness) -> None:
        harness.add_sink("out", harness.add_source("in", nested).map(col("f0")).filter(col("amount") > 0))

    with JobHarness(job) as harness:
        harness.push_all("in", [(Payment("a", 1, 2), 3), (Payment("b", 0, 2), 3)])
        harness.run_epoch()
        assert harness.take("out") == [Payment("a", 1, 2)]
        harness.push_all("in", [(None, 3)])
        with pytest.raises(UserFunctionError, match=r'col\("f0"\) is null: a record has to be there'):
            harness.run_epoch()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.filter(col("f1")), 'filter takes a condition, but col\\("f1"\\) is of type Long'),
        (lambda s: s.filter(col("x") > 1), "filter: .* has no field 'x': its fields are 'f0', 'f1'"),
        (lambda s: s.map(col("f0") * 2), "map: .* is String"),
        (lambda s: s.map(col("f1"), Types.INT()), r'map: col\("f1"\) is of type Long, not Integer: write .cast'),
        (lambda s: s.map(lambda p: p).filter(col("f0") == "a"), "records are pickled objects and have no columns"),
        (lambda s: s.select(col("f1") * 2), r'say what col\("f1"\) \* 2 is called: \(col\("f1"\) \* 2\)\.alias'),
        (lambda s: s.select("f0", 0), "two columns are called 'f0'"),
        (lambda s: s.select(), "say which columns"),
        (lambda s: s.select(left("f0")), r"select: left\(\) is a record of a pair, in a join"),
        (lambda s: s.select(1.5), "select takes expressions and names of fields, not 1.5"),
        (lambda s: s.key_by(col("f0"), Types.LONG()), "key_by takes fields and expressions together with others"),
        (lambda s: s.key_by("f0", "f1", "f2"), "key_by: .*has no field 'f2'"),
        (lambda s: s.key_by("f0", Types.INT(), Types.INT()), "behind a function the type of the key"),
        (lambda s: s.key_by(col("f1") + 1, key_type=Types.INT()), "is of type Long, not Integer"),
        (lambda s: s.key_by(0).sum(col("f1") * 2), r"make it a field with select\(...\) first"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_line(env: StreamExecutionEnvironment, build: Any, message: str) -> None:
    stream = env.from_collection([("a", 1)], PAIR)
    with pytest.raises(InvalidProgramError, match=message) as raised:
        build(stream)
    assert __file__ in str(raised.value)


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (sum(col("f1") * 2), r'say what sum\(col\("f1"\) \* 2\) is called in the output'),
        (
            sum(concat(col("f0"), "x")).alias("n"),
            r"takes numbers of up to 64 bits, or decimals, but that is of type String",
        ),
        (sum(col("x")), "has no field 'x'"),
    ],
)
def test_aggregates_that_do_not_fit(env: StreamExecutionEnvironment, aggregate: Any, message: str) -> None:
    windows = env.from_collection([("a", 1)], PAIR).key_by(0).window(TumblingEventTimeWindows.of(10))
    with pytest.raises(InvalidTypeError, match=message):
        windows.aggregate(aggregate)


def test_plain_columns_are_the_fields(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection([("a", 1)], PAIR)
    for keyed in (pairs.key_by(col("f0")), pairs.key_by(col(0)), pairs.key_by("f0")):
        assert keyed._key.fields in (("f0",), (0,))
        assert keyed._key.expression is None
        assert keyed.get_key_type() == Types.STRING()
    both = pairs.key_by(col("f0"), col("f1"))._key
    assert (both.fields, both.is_single, both.codec.type) == (("f0", "f1"), False, PAIR)
    made = pairs.key_by(col("f0").upper().alias("name"))._key
    assert (made.fields, made.names, made.codec.type) == (None, ("name",), Types.STRING())
    whole = env.from_sequence(1, 3).key_by(col("value") % 2)._key
    assert (whole.fields, whole.names, whole.codec.type) == (None, None, Types.LONG())


KEY_FIELDS = Types.TUPLE(
    [Types.STRING(), Types.FLOAT(), Types.PICKLED_BYTE_ARRAY(), Types.SQL_DATE(), Types.TUPLE([Types.LONG()]), PAIR]
)
KEYS = [
    ("a", 0.1, (1, None), datetime.date(2020, 1, 1), (1,), ("x", None)),
    ("é", -0.0, "b", datetime.date(1, 1, 1), (-1,), ("", 2)),
    (None, None, None, None, None, None),
]


@pytest.mark.parametrize("fields", [(0, 1), (2, 3), (4, 5), (0, 1, 2, 3, 4, 5)])
def test_keys_of_several_fields_are_the_same_by_columns_and_by_records(fields: tuple[int, ...]) -> None:
    key = key_of(KEY_FIELDS, itemgetter(*fields), (), None)
    assert key.fields == fields
    times = np.arange(len(KEYS))
    columns = layout_of(KEY_FIELDS).rows_to_columns(KEYS)
    by_columns = keys_of(Batch(KEY_FIELDS, times, times, columns=columns), key)
    by_records = keys_of(Batch(KEY_FIELDS, times, times, rows=layout_of(KEY_FIELDS).columns_to_rows(columns)), key)
    by_expressions = keys_of(
        Batch(KEY_FIELDS, times, times, rows=KEYS),
        key_of(KEY_FIELDS, col(fields[0]), tuple(map(col, fields[1:])), None),
    )
    assert by_columns.values.equals(by_records.values)
    assert by_columns.values.equals(by_expressions.values)
    assert by_columns.hashes.tolist() == by_records.hashes.tolist() == by_expressions.hashes.tolist()


def test_a_key_that_is_null_is_told() -> None:
    def job(harness: JobHarness) -> None:
        harness.add_sink("out", harness.add_source("pairs", PAIR).key_by(col("f0").upper()).sum("f1"))

    with JobHarness(job) as harness:
        harness.push_all("pairs", [("a", 1), (None, 0)])
        with pytest.raises(UserFunctionError, match="key"):
            harness.run_epoch()


def test_a_record_without_a_time_is_told() -> None:
    def job(harness: JobHarness) -> None:
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(col("f1") * 1000)
        harness.add_sink("out", harness.add_source("pairs", PAIR).assign_timestamps_and_watermarks(times))

    with JobHarness(job) as harness:
        harness.push_all("pairs", [("a", 1)])
        harness.run_epoch()
        assert harness.results_with_timestamps("out") == [(("a", 1), 1000)]
        harness.push_all("pairs", [("b", None)])
        with pytest.raises(BadRecordError, match=r"col\(\"f1\"\) \* 1000 holds no timestamp in record \('b', None\)"):
            harness.run_epoch()


@pytest.mark.parametrize(
    ("type_info", "moment"),
    [
        (Types.SQL_TIMESTAMP(), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        (Types.TIMESTAMP_LTZ(), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_001, tzinfo=datetime.UTC)),
        (Types.INSTANT(), Instant(-1, 999_999_999)),
    ],
)
def test_a_moment_before_1970_is_rounded_down_as_epoch_millis_does(type_info: TypeInformation, moment: Any) -> None:
    def job(harness: JobHarness) -> None:
        moments = harness.add_source("moments", type_info)
        for name, assigner in (("field", col("value")), ("millis", col("value").epoch_millis())):
            times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
            harness.add_sink(name, moments.assign_timestamps_and_watermarks(times))

    with JobHarness(job) as harness:
        harness.push_all("moments", [moment])
        harness.run_epoch()
        assert harness.results_with_timestamps("field") == [(moment, -1)] == harness.results_with_timestamps("millis")


def test_the_key_of_a_constant(env: StreamExecutionEnvironment) -> None:
    assert env.from_sequence(1, 3).key_by(lit(0)).get_key_type() == Types.LONG()


def test_observed_types_hold_where_the_key_is_computed(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection([("a", 1)]).key_by(col("f1") % 2)
    assert pairs.reduce(lambda one, _: one).get_type() == PAIR


def test_times_that_are_none(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(col("f0").upper())
    with pytest.raises(InvalidTypeError, match=r'event time from col\("f0"\).upper\(\): expected milliseconds'):
        env.from_collection([("a", 1)], PAIR).assign_timestamps_and_watermarks(strategy)


def test_project() -> None:
    def job(harness: JobHarness) -> None:
        projected = harness.add_source("pairs", PAIR).project(1, 0, 1)
        assert projected.get_type() == Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])
        harness.add_sink("out", projected)

    with JobHarness(job) as harness:
        harness.push_all("pairs", [("a", 1), ("b", None)])
        harness.run_epoch()
        assert harness.take("out") == [(1, "a", 1), (None, "b", None)]


@pytest.mark.parametrize(
    ("type_info", "positions", "message"),
    [
        (PAYMENT, (0,), "project is for tuples"),
        (Types.PICKLED_BYTE_ARRAY(), (0,), "project is for tuples"),
        (PAIR, (2,), "has no field 2"),
        (PAIR, ("f0",), "project takes positions of fields"),
        (PAIR, (), "say which fields"),
        (PAIR, ([0, 1],), "one by one"),
    ],
)
def test_what_cannot_be_projected(
    env: StreamExecutionEnvironment, type_info: Any, positions: Any, message: str
) -> None:
    with pytest.raises(InvalidTypeError, match=message):
        env.from_collection([], type_info).project(*positions)
