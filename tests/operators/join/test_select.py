"""Results of joins without a function: expressions over pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.common import Row, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.streams import adapters
from headrace.datastream.streams.checks import selected
from headrace.datastream.window import CountEvictor, EventTimeTrigger, TumblingEventTimeWindows
from headrace.expressions import col, evaluate, left, right
from headrace.operators.join import find_pairs
from headrace.operators.join.results import INNER
from headrace.testing import JobHarness

ORDER = Types.ROW_NAMED(["id", "amount"], [Types.STRING(), Types.LONG()])
PAYMENT = Types.TUPLE([Types.STRING(), Types.LONG()])
COLUMNS = (left("id"), (left("amount") - right("f1")).alias("open"))
TEN = TumblingEventTimeWindows.of(10)


def by_interval(orders: Any, payments: Any) -> Any:
    return orders.key_by("id").interval_join(payments.key_by(0)).between(0, 10)


def by_window(orders: Any, payments: Any, how: str = "inner") -> Any:
    return orders.join(payments, how).where("id").equal_to(0).window(TEN)


def results(build: Callable[[Any, Any], Any]) -> list[Any]:
    def job(harness: JobHarness) -> None:
        harness.add_sink("out", build(harness.add_source("orders", ORDER), harness.add_source("payments", PAYMENT)))

    with JobHarness(job) as harness:
        for order, time in [(Row("a", 20), 1), (Row("b", 5), 2), (Row("a", None), 3)]:
            harness.push("orders", order, time)
        harness.run_epoch()
        for payment, time in [(("a", 15), 4), (("c", 1), 4)]:
            harness.push("payments", payment, time)
        harness.finish()
        return harness.results_with_timestamps("out")


def test_rows_of_an_interval_join() -> None:
    rows = results(lambda orders, payments: by_interval(orders, payments).select(*COLUMNS))
    assert rows == [(Row(id="a", open=5), 4), (Row(id="a", open=None), 4)]


def test_rows_of_a_window_join() -> None:
    rows = results(lambda orders, payments: by_window(orders, payments).select(*COLUMNS))
    assert rows == [(Row(id="a", open=5), 9), (Row(id="a", open=None), 9)]


@pytest.mark.parametrize(
    "settle",
    [
        lambda windows: windows.allowed_lateness(5),
        lambda windows: windows.evictor(CountEvictor.of(10)),
        lambda windows: windows.trigger(EagerAtEnd()),
    ],
)
def test_windows_that_are_looked_at_before_their_ends_show_the_same(settle: Callable[[Any], Any]) -> None:
    columns = (left("id"), right("f0").alias("paid"), (left("amount") - right("f1")).alias("open"))
    plain = results(lambda orders, payments: by_window(orders, payments, "outer").select(*columns))
    other = results(lambda orders, payments: settle(by_window(orders, payments, "outer")).select(*columns))
    assert sorted(map(str, other)) == sorted(map(str, plain))


class EagerAtEnd(EventTimeTrigger):
    """Does what it extends, but nobody can know that."""

    @property
    def fires_only_at_end(self) -> bool:
        return False


def test_fields_of_a_record_that_is_not_there_are_null() -> None:
    columns = (left("id"), right("f0").alias("paid"), right().is_null().alias("is open"))
    rows = results(lambda orders, payments: by_window(orders, payments, "outer").select(*columns))
    assert sorted((tuple(row) for row, _ in rows), key=str) == [
        ("a", "a", False),
        ("a", "a", False),
        ("b", None, True),
        (None, "c", False),
    ]


@pytest.mark.parametrize(
    "join", [by_interval, by_window, lambda orders, payments: by_window(orders, payments).allowed_lateness(5)]
)
def test_a_pair_without_a_value_is_told(join: Callable[[Any, Any], Any]) -> None:
    too_much = (left("amount").cast(Types.BYTE()) * 100).cast(Types.BYTE()).alias("n")
    with pytest.raises(UserFunctionError, match=r"(?s)Join.*EvaluationError.*record: .*amount=20.*'a', 15"):
        results(lambda orders, payments: join(orders, payments).select(too_much))


def test_many_pairs_are_computed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_pairs, "PAIRS", 3)
    sizes: list[int] = []

    def evaluated(columns: Any, batch: Any) -> Any:
        sizes.append(batch.num_rows)
        return evaluate(columns, batch)

    monkeypatch.setattr(adapters, "evaluate", evaluated)
    inputs: list[Any] = [(True, ("a", number), None) for number in range(2)]
    inputs += [(False, None, ("b", number)) for number in range(4)]
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    columns, _ = selected((left("f1").alias("l"), right("f1").alias("r")), pair, pair)
    select = adapters.SelectApply(columns, (pair, pair), INNER)
    assert [*select.apply("a", None, inputs)] == [Row(one, other) for one in range(2) for other in range(4)]
    assert sizes == [3, 3, 2]


@pytest.mark.parametrize("join", [by_interval, by_window])
@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ((left("id"), right("none")), InvalidTypeError, "none"),
        (("id",), InvalidTypeError, "left\\('id'\\) or right\\('id'\\)"),
        ((left("id"), right("f0").alias("id")), InvalidProgramError, "two columns are called 'id'"),
        ((left("amount") + 1,), InvalidProgramError, "alias"),
        ((col("id"),), InvalidTypeError, "left\\('id'\\) or right\\('id'\\) say, not col"),
        ((lambda order, payment: order,), InvalidTypeError, "left\\('id'\\) or right\\('id'\\) say, not a lambda"),
        ((left("none").alias("n"),), InvalidTypeError, 'select: left\\("none"\\): .* has no field'),
        ((), InvalidProgramError, "say which columns"),
    ],
)
def test_misuse_is_told_where_it_is(join: Any, columns: Any, kind: type[Exception], message: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    orders, payments = env.from_collection([], ORDER), env.from_collection([], PAYMENT)
    with pytest.raises(kind, match=message) as failure:
        join(orders, payments).select(*columns)
    assert __file__ in str(failure.value)


def test_records_without_columns_are_told() -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1]).map(lambda number: {"id": 1})
    keyed = stream.key_by(lambda record: record["id"])
    with pytest.raises(InvalidTypeError, match=r'left\("id"\): left\(\) is a pickled object, which has no columns'):
        keyed.interval_join(keyed).between(0, 1).select(left("id"))
