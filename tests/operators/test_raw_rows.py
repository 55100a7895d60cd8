"""Records that a function has made need not look as they will when they have been sent: no result may depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.common import Row, TypeInformation, Types
from headrace.common.columns import layout_of
from headrace.common.errors import HeadraceError
from headrace.datastream import KeyedProcessFunction
from headrace.datastream.aggregates import count
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import col
from headrace.testing import JobHarness

PAIR = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


def turned_around(number: int) -> Row:
    return Row(b=f"b{number}", a="a")


@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("key", ["a", 0, col("a"), col(0), lambda r: r.a, lambda r: r[0], lambda r: r["a"]])
def test_rows_with_fields_in_another_order_go_where_their_key_belongs(key: Any, parallelism: int) -> None:
    def build(job: JobHarness) -> None:
        rows = job.add_source("numbers", Types.LONG()).map(turned_around, PAIR)
        job.add_sink("counts", rows.key_by(key).process(Count()))

    with JobHarness(build, parallelism=parallelism) as job:
        job.push_all("numbers", range(8))
        job.run_epoch()
        assert sorted(job.take("counts")) == [("a", n) for n in range(1, 9)]


@pytest.mark.parametrize("key", ["a", col("a"), lambda r: r[0]])
def test_windows_count_them_by_the_field_that_is_named(key: Any) -> None:
    def build(job: JobHarness) -> None:
        rows = job.add_source("numbers", Types.LONG()).map(turned_around, PAIR)
        counts = rows.key_by(key).window(TumblingEventTimeWindows.of(10)).aggregate(count())
        job.add_sink("counts", counts.map(lambda row: row[-1], Types.LONG()))

    with JobHarness(build, parallelism=2) as job:
        job.push_all("numbers", range(8), [1] * 8)
        job.advance_watermark("numbers", 100)
        job.run_epoch()
        assert job.take("counts") == [8]


def test_a_function_may_pick_a_field_twice() -> None:
    def build(job: JobHarness) -> None:
        numbers = job.add_source("numbers", Types.TUPLE([Types.STRING(), Types.LONG()]))
        windows = numbers.key_by(lambda pair: (pair[0], pair[0])).window(TumblingEventTimeWindows.of(10))
        job.add_sink("counts", windows.aggregate(count()))

    with JobHarness(build) as job:
        job.push_all("numbers", [("a", 1), ("a", 2)], [1, 2])
        job.advance_watermark("numbers", 100)
        job.run_epoch()
        assert [(row[0], row["count"]) for row in job.take("counts")] == [(("a", "a"), 2)]


@pytest.mark.parametrize("epochs", [[[0, 1, 2]], [[0], [1, 2]], [[0], [1], [2]]])
def test_what_a_filter_leaves_is_as_it_was_however_the_input_is_cut(epochs: list[list[int]]) -> None:
    def build(job: JobHarness) -> None:
        doubles = job.add_source("numbers", Types.LONG()).map(lambda number: number, Types.DOUBLE())
        job.add_sink("texts", doubles.filter(col("value") > 0).map(str, Types.STRING()))

    with JobHarness(build) as job:
        for numbers in epochs:
            job.push_all("numbers", numbers)
            job.run_epoch()
        assert job.take("texts") == ["1.0", "2.0"]


CASES: dict[str, tuple[TypeInformation, Callable[[int], Any]]] = {
    "double": (Types.DOUBLE(), lambda number: number),
    "float": (Types.FLOAT(), lambda number: number + 0.1),
    "tuple": (Types.TUPLE([Types.LONG(), Types.DOUBLE()]), lambda number: [number, number]),
    "tuple for a row": (PAIR, lambda number: (None, str(number))),
    "row in another order": (PAIR, turned_around),
    "list": (Types.LIST(Types.LONG()), lambda number: (number, None)),
    "map": (Types.MAP(Types.STRING(), Types.DOUBLE()), lambda number: {"a": number}),
}


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("kind", "make"), CASES.values(), ids=CASES)
def test_a_function_sees_the_same_in_the_task_as_behind_a_shuffle(
    kind: TypeInformation, make: Callable[[int], Any], shuffled: bool
) -> None:
    def build(job: JobHarness) -> None:
        made = job.add_source("numbers", Types.LONG()).map(make, kind)
        made = made.key_by(lambda _: 0) if shuffled else made
        job.add_sink("texts", made.map(repr, Types.STRING()))

    with JobHarness(build) as job:
        job.push_all("numbers", range(3))
        job.run_epoch()
        stored = layout_of(kind).columns_to_rows(layout_of(kind).rows_to_columns([make(n) for n in range(3)]))
        assert sorted(job.take("texts")) == sorted(map(repr, stored))


def test_a_record_that_does_not_fit_is_refused_before_the_next_function_sees_it() -> None:
    def build(job: JobHarness) -> None:
        pairs = job.add_source("numbers", Types.LONG()).map(lambda number: ("a", number), PAIR)
        job.add_sink("texts", pairs.map(str, Types.STRING()))

    with JobHarness(build) as job:
        job.push_all("numbers", range(2))
        with pytest.raises(HeadraceError, match=r"InvalidTypeError: field 'b': got 0 .int., expected a str"):
            job.run_epoch()
