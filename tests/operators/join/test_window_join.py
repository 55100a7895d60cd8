"""Window joins and co-groups: what a function is called for, and what is told of misuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.common import Row, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.window import (
    AccumulationMode,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from headrace.expressions import left, right
from headrace.testing import JobHarness

RECORD = Types.TUPLE([Types.STRING(), Types.INT()])
TEN = TumblingEventTimeWindows.of(10)
LATE = OutputTag("late")


def run(
    build: Callable[[Any, Any], Any], lefts: list[Any], rights: list[Any], types: tuple[Any, Any] = (RECORD, RECORD)
) -> list[Any]:
    """The results, with their times; inputs are pairs of record and time."""

    def job(harness: JobHarness) -> None:
        streams = [harness.add_source(name, type_) for name, type_ in zip(("left", "right"), types, strict=True)]
        harness.add_sink("out", build(*streams))

    with JobHarness(job) as harness:
        for name, records in (("left", lefts), ("right", rights)):
            for record, time in records:
                harness.push(name, record, time)
        harness.finish()
        return harness.results_with_timestamps("out")


def pair(left: Any, right: Any) -> tuple[Any, Any]:
    return (left and left[1], right and right[1])


LEFTS = [(("a", 1), 1), (("a", 2), 8), (("b", 3), 4), (("a", 4), 12)]
RIGHTS = [(("a", 5), 9), (("c", 6), 3), (("a", 7), 2)]


def test_a_join_pairs_all_records_of_a_key_and_window() -> None:
    found = run(lambda a, b: a.join(b).where(0).equal_to(0).window(TEN).apply(pair), LEFTS, RIGHTS)
    assert sorted(found) == [((1, 5), 9), ((1, 7), 9), ((2, 5), 9), ((2, 7), 9)]


@pytest.mark.parametrize(
    ("how", "more"),
    [
        ("left", [((3, None), 9), ((4, None), 19)]),
        ("right", [((None, 6), 9)]),
        ("outer", [((3, None), 9), ((4, None), 19), ((None, 6), 9)]),
    ],
)
def test_outer_joins_show_what_has_no_partner(how: str, more: list[Any]) -> None:
    inner = [((1, 5), 9), ((1, 7), 9), ((2, 5), 9), ((2, 7), 9)]
    found = run(lambda a, b: a.join(b, how).where(0).equal_to(0).window(TEN).apply(pair), LEFTS, RIGHTS)
    assert sorted(found, key=repr) == sorted(inner + more, key=repr)


def test_a_pair_is_in_each_sliding_window_that_holds_both() -> None:
    windows = SlidingEventTimeWindows.of(10, 5)
    joined = run(
        lambda a, b: a.join(b).where(0).equal_to(0).window(windows).apply(pair), [(("a", 1), 6)], [(("a", 2), 8)]
    )
    assert joined == [((1, 2), 9), ((1, 2), 14)]


def test_a_session_has_the_records_of_both_streams() -> None:
    """Those of one stream alone would be two sessions."""
    sessions = EventTimeSessionWindows.with_gap(5)
    lefts, rights = [(("a", 1), 0), (("a", 2), 8)], [(("a", 3), 4), (("a", 4), 20)]
    assert sorted(run(lambda a, b: a.join(b).where(0).equal_to(0).window(sessions).apply(pair), lefts, rights)) == [
        ((1, 3), 12),
        ((2, 3), 12),
    ]


class Sums(CoGroupFunction):
    """The key and the sums of both sides; opened and closed as any function."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = runtime_context.get_task_name()

    def co_group(self, first: Any, second: Any) -> Iterator[tuple[str, int, int]]:
        key = [*first, *second][0][0]
        yield f"{self.name} {key}", sum(value for _, value in first), sum(value for _, value in second)


def test_a_co_group_has_all_records_of_a_key_of_one_stream_too() -> None:
    found = run(lambda a, b: a.co_group(b).where(0).equal_to(0).window(TEN).apply(Sums()), LEFTS, RIGHTS)
    assert sorted(found) == [
        (("CoGroup a", 3, 12), 9),
        (("CoGroup a", 4, 0), 19),
        (("CoGroup b", 3, 0), 9),
        (("CoGroup c", 0, 6), 9),
    ]


def test_keys_may_be_found_differently_and_records_be_of_any_type() -> None:
    row = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    found = run(
        lambda a, b: (
            a.join(b)
            .where("id")
            .equal_to(lambda r: r["of"], key_type=Types.INT())
            .window(TEN)
            .apply(lambda left, right: (left.name, right["x"]))
        ),
        [(Row(id=1, name="one"), 0), (Row(id=2, name="two"), 0)],
        [({"of": 2, "x": None}, 5)],
        (row, Types.PICKLED_BYTE_ARRAY()),
    )
    assert found == [(("two", None), 9)]


class Doubled(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterator[int]:
        yield first[1]
        yield second[1]


def yields(first: Any, second: Any) -> Iterator[int]:
    yield from Doubled().join(first, second)


class Yields:
    def __call__(self, first: Any, second: Any) -> Iterator[int]:
        yield from yields(first, second)


@pytest.mark.parametrize("function", [Doubled(), yields, Yields()])
def test_a_flat_join_gives_any_number_of_records(function: Any) -> None:
    found = run(
        lambda a, b: a.join(b).where(0).equal_to(0).window(TEN).apply(function, output_type=int),
        [(("a", 1), 1)],
        [(("a", 2), 2)],
    )
    assert found == [(1, 9), (2, 9)]


class First(JoinFunction):
    def join(self, first: tuple[str, int], second: tuple[str, int]) -> int:
        return first[1]


def test_records_that_a_function_changes_and_returns_are_those_of_one_pair() -> None:
    order = Types.ROW_NAMED(["id", "paid"], [Types.STRING(), Types.LIST(Types.INT())])

    def pay(left: Row, right: Row) -> Row:
        left.paid.extend(right.paid)
        right.paid.clear()
        return left

    lefts = [(Row(id="a", paid=[]), 1), (Row(id="a", paid=[0]), 2)]
    rights = [(Row(id="a", paid=[5]), 3), (Row(id="a", paid=[6]), 4)]
    join = lambda a, b: a.join(b).where("id").equal_to("id").window(TEN).apply(pay, output_type=order)  # noqa: E731
    found = run(join, lefts, rights, (order, order))
    assert [row.paid for row, _ in found] == [[5], [6], [0, 5], [0, 6]]


def test_settings_are_those_of_windows() -> None:
    """A trigger, an evictor and lateness go by the tagged records of both streams; late ones say which they are."""

    def job(harness: JobHarness) -> None:
        left, right = (harness.add_source(name, RECORD) for name in ("left", "right"))
        windows = left.join(right).where(0).equal_to(0).window(TEN).allowed_lateness(5).side_output_late_data(LATE)
        joined = windows.apply(First())
        harness.add_sink("out", joined)
        harness.add_sink("late", joined.get_side_output(LATE))
        every = left.join(right).where(0).equal_to(0).window(TEN)
        every.trigger(PurgingTrigger.of(CountTrigger.of(2))).evictor(CountEvictor.of(2))
        harness.add_sink("every", every.apply(pair).name("every"))

    with JobHarness(job) as harness:
        harness.push("left", ("a", 1), 1)
        harness.push("right", ("a", 2), 2)
        harness.run_epoch()
        assert (harness.take("every"), harness.take("out")) == ([(1, 2)], [])
        for watermark in (12, 20):
            for name in ("left", "right"):
                harness.advance_watermark(name, watermark)
            harness.push("right", ("a", watermark), 3)
            harness.run_epoch()
        assert harness.results("out") == [1, 1, 1]
        assert harness.results("late") == [(False, None, ("a", 20))]


def test_an_outer_join_takes_back_that_there_was_no_partner() -> None:
    def job(harness: JobHarness) -> None:
        left, right = (harness.add_source(name, RECORD) for name in ("left", "right"))
        windows = left.join(right, "left").where(0).equal_to(0).window(TEN).allowed_lateness(5)
        windows.accumulation_mode(AccumulationMode.ACCUMULATING_AND_RETRACTING)
        rows = Types.ROW_NAMED(["left", "right"], [Types.INT(), Types.INT()])
        harness.add_sink("out", windows.apply(lambda left, right: Row(*pair(left, right)), output_type=rows))

    with JobHarness(job) as harness:
        harness.push("left", ("a", 1), 1)
        for name in ("left", "right"):
            harness.advance_watermark(name, 9)
        harness.push("right", ("a", 2), 2)
        harness.run_epoch()
        shown = [(row.get_row_kind().name, row[0], row[1]) for row in harness.results("out")]
    assert shown == [("INSERT", 1, None), ("UPDATE_BEFORE", 1, None), ("UPDATE_AFTER", 1, 2)]


def test_a_function_that_fails_is_told() -> None:
    def fails(left: Any, right: Any) -> Any:
        return left[1] / 0

    with pytest.raises(UserFunctionError, match=r"(?s)Join.*ZeroDivisionError.*test_window_join\.py"):
        run(lambda a, b: a.join(b).where(0).equal_to(0).window(TEN).apply(fails), LEFTS, RIGHTS)


def streams() -> tuple[Any, Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([("a", 1)], type_info=RECORD), env.from_collection([("a", 1)], type_info=RECORD)


@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        (lambda a, b: a.join("b"), InvalidTypeError, "join takes a Stream"),
        (lambda a, b: a.join(b, how="cross"), InvalidProgramError, "'inner', 'left', 'right', 'outer'"),
        (lambda a, b: a.join(b, how="left_outer"), InvalidProgramError, "not 'left_outer': write how='left'"),
        (lambda a, b: a.join(b, left(0) == right(0)), InvalidTypeError, r"the keys are told by where\(...\).equal_to"),
        (lambda a, b: a.join(b).where(0).equal_to(1), InvalidTypeError, "keys of the same type"),
        (lambda a, b: a.co_group(b).where(0).equal_to(0).window(10), InvalidTypeError, "window takes"),
        (lambda a, b: a.join(b).where(0).equal_to(0).window(TEN).apply(First), InvalidTypeError, r"First\(\)"),
        (lambda a, b: a.join(b).where(0).equal_to(0).window(TEN).apply(Doubled), InvalidTypeError, r"Doubled\(\)"),
        (lambda a, b: a.co_group(b).where(0).equal_to(0).window(TEN).apply(len), InvalidTypeError, "co_group"),
        (lambda a, b: a.join(b).where(0).equal_to(0).window(TEN).apply(lambda x: x), InvalidTypeError, "first, second"),
    ],
)
def test_misuse_is_told_where_it_is(program: Callable[[Any, Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as failure:
        program(*streams())
    assert __file__ in str(failure.value)
