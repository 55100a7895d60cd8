"""Outer interval joins: which records are shown without a partner, when, and against a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.common import Row, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, StateMigrationError, UserFunctionError
from headrace.datastream import OutputTag, ProcessFunction, ProcessJoinFunction, StreamExecutionEnvironment
from headrace.expressions import left, right
from headrace.operators.join import find_pairs, interval_join
from headrace.state.keys import codecs
from headrace.testing import JobHarness
from tests.draws import draws
from tests.operators.join.join_model import LEFT, RIGHT, Arrival, late_of, lonely_of, pairs_of

RECORD = Types.TUPLE([Types.STRING(), Types.INT()])
NUMBERS = Types.TUPLE([Types.INT(), Types.INT()])
SOURCES = ("left", "right")
HOWS = {"inner": (), "left": (LEFT,), "right": (RIGHT,), "outer": (LEFT, RIGHT)}


@pytest.fixture(params=["as it is", "little at a time", "one hash for all"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches and portions of a few records show the same as large ones; and so do keys whose hashes are the same."""
    if request.param == "little at a time":
        monkeypatch.setattr(find_pairs, "PAIRS", 3)
        monkeypatch.setattr(interval_join, "_MOST_ROWS", 4)
    if request.param == "one hash for all":
        monkeypatch.setattr(codecs, "hash_array", lambda keys: np.full(len(keys), 7, np.uint64))


class Numbers(ProcessJoinFunction):
    """The numbers of both records, or of one."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left and left[1], right and right[1]


class OnTime(ProcessFunction):
    """Whoever comes after a join finds none of its results late."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        assert ctx.timestamp() >= ctx.timer_service().current_watermark(), value
        yield value


def job_of(lower: int, upper: int, how: str, late: tuple[OutputTag, ...] = ()) -> Callable[[JobHarness], None]:
    def build(job: JobHarness) -> None:
        first, second = (job.add_source(name, RECORD).key_by(0) for name in SOURCES)
        joined = first.interval_join(second, how).between(lower, upper)
        if late:
            joined.side_output_left_late_data(late[0]).side_output_right_late_data(late[1])
        pairs = joined.process(Numbers(), output_type=NUMBERS).uid("join")
        job.add_sink("pairs", pairs.process(OnTime(), output_type=NUMBERS))
        for tag in late:
            job.add_sink(tag.tag_id, pairs.get_side_output(tag))

    return build


def push(job: JobHarness, side: int, key: str, number: int, time: int) -> None:
    job.push(SOURCES[side], (key, number), time)


def advance(job: JobHarness, watermark: int) -> None:
    for name in SOURCES:
        job.advance_watermark(name, watermark)


@pytest.mark.parametrize(
    ("how", "lonely"),
    [
        ("inner", []),
        ("left", [((2, None), 120)]),
        ("right", [((None, 4), 115)]),
        ("outer", [((None, 4), 115), ((2, None), 120)]),
    ],
)
def test_records_without_a_partner_come_when_none_can_come_any_more(how: str, lonely: list[Any]) -> None:
    with JobHarness(job_of(-10, 20, how)) as job:
        push(job, LEFT, "a", 1, 100)
        push(job, LEFT, "b", 2, 100)
        push(job, RIGHT, "a", 3, 120)
        push(job, RIGHT, "c", 4, 105)
        job.run_epoch()
        shown = [((1, 3), 120)]
        assert job.results_with_timestamps("pairs") == shown
        for watermark in (114, 115, 119, 120, 200):
            advance(job, watermark)
            job.run_epoch()
            shown += [result for result in lonely if shown.count(result) == 0 and result[1] <= watermark]
            assert job.results_with_timestamps("pairs") == shown
        job.finish()
        assert len(job.results("pairs")) == 1 + len(lonely)


def test_a_partner_in_a_later_epoch_takes_a_record_back() -> None:
    with JobHarness(job_of(0, 10, "left")) as job:
        push(job, LEFT, "a", 1, 100)
        push(job, LEFT, "a", 2, 101)
        job.run_epoch()
        advance(job, 99)
        job.run_epoch()
        push(job, RIGHT, "a", 3, 100)
        job.run_epoch()
        job.finish()
        assert job.results_with_timestamps("pairs") == [((1, 3), 100), ((2, None), 111)]


def test_late_records_are_not_shown() -> None:
    tags = (OutputTag("late-left"), OutputTag("late-right"))
    with JobHarness(job_of(0, 10, "outer", tags)) as job:
        advance(job, 100)
        push(job, LEFT, "a", 1, 99)
        push(job, RIGHT, "a", 2, 98)
        job.finish()
        assert job.results("pairs") == []
        assert (job.results("late-left"), job.results("late-right")) == ([("a", 1)], [("a", 2)])


def test_a_record_that_came_at_its_time_finds_what_an_equal_one_did_not() -> None:
    """Its like came before the watermark was there, and had a partner, which has gone meanwhile."""
    with JobHarness(job_of(-5, 10, "left")) as job:
        advance(job, 50)
        push(job, LEFT, "a", 1, 100)
        push(job, RIGHT, "a", 2, 95)
        job.run_epoch()
        advance(job, 100)
        push(job, LEFT, "a", 3, 100)
        job.run_epoch()
        job.finish()
        assert job.results_with_timestamps("pairs") == [((1, 2), 100), ((3, None), 110)]


steps_of_a_job = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(SOURCES), st.sampled_from("ab"), st.integers(4, 20)),
        st.tuples(st.just("advance"), st.just(""), st.integers(1, 12)),
        st.tuples(st.just("epoch"), st.just(""), st.just(0)),
        st.tuples(st.just("restart"), st.just(""), st.integers(1, 3)),
    ),
    max_size=40,
)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("ways")
@settings(max_examples=draws(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=steps_of_a_job, bounds=st.tuples(st.integers(-8, 8), st.integers(-8, 8)), how=st.sampled_from(sorted(HOWS))
)
def test_operator_equals_model(steps: list[tuple[str, str, int]], bounds: tuple[int, int], how: str) -> None:
    """Whatever the watermarks, epochs, restarts at other parallelisms; times lie about the watermark."""
    lower, upper = sorted(bounds)
    late = (OutputTag("late-left"), OutputTag("late-right"))
    build, watermark = job_of(lower, upper, how, late), None
    arrivals: list[Arrival] = []
    found: dict[str, list[Any]] = {name: [] for name in ("pairs", "late-left", "late-right")}
    job = JobHarness(build)
    try:
        for number, (what, key, amount) in enumerate([*steps, ("epoch", "", 0)], start=1):
            if what in SOURCES:
                side, time = SOURCES.index(what), (watermark or 0) + amount - 6
                known = {} if watermark is None else {"watermark": watermark}
                arrivals.append(Arrival(side, key, number, time, **known))
                push(job, side, key, number, time)
            elif what == "advance":
                watermark = (watermark or 0) + amount
                advance(job, watermark)
            else:
                job.run_epoch()
                if what == "restart":
                    checkpoint = job.checkpoint()
                    collect(job, found)
                    job.close()
                    job = JobHarness(build, parallelism=amount, restore=checkpoint)
        job.finish()
        collect(job, found)
    finally:
        job.close()
    expected = [((left, right), time) for left, right, time in pairs_of(arrivals, lower, upper)]
    for side in HOWS[how]:
        lonely = lonely_of(arrivals, side, lower, upper)
        expected += [((number, None) if side == LEFT else (None, number), time) for number, time in lonely]
    assert sorted(found["pairs"], key=repr) == sorted(expected, key=repr)
    assert [sorted(record[1] for record, _ in found[tag.tag_id]) for tag in late] == [
        late_of(arrivals, LEFT),
        late_of(arrivals, RIGHT),
    ]


def collect(job: JobHarness, found: dict[str, list[Any]]) -> None:
    for name, records in found.items():
        records.extend(job.results_with_timestamps(name))


def test_rows_of_expressions() -> None:
    def build(job: JobHarness) -> None:
        first, second = (job.add_source(name, RECORD).key_by(0) for name in SOURCES)
        joined = first.interval_join(second, "outer").between(0, 10)
        job.add_sink(
            "rows", joined.select(left("f1").alias("l"), right("f1").alias("r"), right().is_null().alias("no"))
        )

    with JobHarness(build) as job:
        push(job, LEFT, "a", 1, 1)
        push(job, RIGHT, "a", 2, 5)
        push(job, RIGHT, "b", 3, 5)
        push(job, LEFT, "c", 4, 7)
        job.finish()
        expected = [(Row(l=1, r=2, no=False), 5), (Row(l=None, r=3, no=False), 5), (Row(l=4, r=None, no=True), 17)]
        assert sorted(job.results_with_timestamps("rows"), key=lambda row: row[1]) == expected


def test_the_time_of_a_record_that_is_not_there_is_an_error() -> None:
    class Delay(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[int]:
            yield ctx.get_right_timestamp() - ctx.get_left_timestamp()

    def build(job: JobHarness) -> None:
        first, second = (job.add_source(name, RECORD).key_by(0) for name in SOURCES)
        job.add_sink("out", first.interval_join(second, "left").between(0, 10).process(Delay()))

    with JobHarness(build) as job:
        push(job, LEFT, "a", 1, 1)
        with pytest.raises(UserFunctionError, match="there is no right record"):
            job.finish()


@pytest.mark.parametrize(("before", "after"), [("inner", "left"), ("outer", "right")])
def test_another_kind_is_refused_with_what_is_stored(before: str, after: str) -> None:
    with JobHarness(job_of(0, 10, before)) as job:
        push(job, LEFT, "a", 1, 5)
        job.run_epoch()
        checkpoint = job.checkpoint()
    with (
        pytest.raises(StateMigrationError, match="the records of a join were stored with other columns"),
        JobHarness(job_of(0, 10, after), restore=checkpoint) as job,
    ):
        job.run_epoch()


def test_an_unknown_kind_is_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([("a", 1)], type_info=RECORD).key_by(0)
    with pytest.raises(InvalidProgramError, match=r"takes one of 'inner', .* as how, not 'full': write how='outer'"):
        keyed.interval_join(keyed, "full")
    with pytest.raises(InvalidProgramError, match="'inner', 'left', 'right', 'outer' as how, not 'user': the keys are"):
        keyed.interval_join(keyed, "user")


MOMENT = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG(), Types.BOOLEAN()])
KEYS = "abcdefghij"


def behind_times_of_subtasks(job: JobHarness) -> None:
    """Behind a strategy for keyed records each subtask has its own event time; those of the left stream say True."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f2")
    keyed = job.add_source("moments", MOMENT).key_by(0).map(lambda record: record, output_type=MOMENT).uid("kept")
    timed = keyed.assign_timestamps_and_watermarks(times).uid("times")
    sides = (timed.filter(lambda record, side=side: record[3] is side) for side in (True, False))
    first, second = (side.reinterpret_as_keyed(0) for side in sides)
    job.add_sink("pairs", first.interval_join(second, "left").between(0, 10).process(Numbers(), NUMBERS).uid("join"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("pause", [0, 1, 3])
def test_what_was_shown_by_a_subtask_that_was_ahead_is_shown_once(pause: int, backend: str) -> None:
    """At a lower parallelism event time goes back to that of the slowest one."""
    settings = {"state.backend.type": backend}
    lefts = [(key, 10 * number + more, 90, True) for number, key in enumerate(KEYS) for more in range(10)]
    with JobHarness(behind_times_of_subtasks, parallelism=2, configuration=settings) as job:
        job.push_all("moments", [*lefts, ("a", 1000, 99, True)])
        job.run_epoch()
        job.push_all("moments", [("a", 1001, 102, True)])
        for _ in range(1 + pause):
            job.run_epoch()
        shown = job.results("pairs")
        checkpoint = job.checkpoint()
    assert {left // 10 for left, right in shown if right is None} == {KEYS.index(key) for key in "acfi"}
    for _ in range(2):  # what it knows then is left to whoever comes next
        with JobHarness(behind_times_of_subtasks, restore=checkpoint, configuration=settings) as job:
            job.run_epoch()
            checkpoint = job.checkpoint()
    with JobHarness(behind_times_of_subtasks, restore=checkpoint, configuration=settings) as job:
        job.push_all("moments", [(key, number, 98, False) for number, key in enumerate(KEYS)])
        job.finish()
        shown += job.results("pairs")
    found = sorted(left for left, _ in shown)
    assert found == sorted([*range(100), 1000, 1001]), "each once, with a partner or without"
