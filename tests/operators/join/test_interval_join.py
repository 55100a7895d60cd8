"""Interval joins on the local runtime: what matches, what is late, what is kept, and against a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.common import Types, WatermarkStrategy
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateMigrationError, UserFunctionError
from headrace.datastream import OutputTag, ProcessJoinFunction, StreamExecutionEnvironment
from headrace.operators.join import find_pairs, interval_join
from headrace.testing import JobHarness
from tests.draws import draws
from tests.operators.join.join_model import LEFT, RIGHT, Arrival, late_of, pairs_of

RECORD = Types.TUPLE([Types.STRING(), Types.INT()])
SOURCES = ("left", "right")
LATE = (OutputTag("late-left"), OutputTag("late-right"))


@pytest.fixture(params=["as it is", "little at a time"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches and portions of a few records show the same as large ones."""
    if request.param == "little at a time":
        monkeypatch.setattr(find_pairs, "PAIRS", 3)
        monkeypatch.setattr(interval_join, "_MOST_ROWS", 4)


class Numbers(ProcessJoinFunction):
    """The numbers of both records, and what the function is told of the times."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[tuple[int, int]]:
        assert ctx.get_timestamp() == max(ctx.get_left_timestamp(), ctx.get_right_timestamp())
        yield left[1], right[1]


def job_of(
    lower: int, upper: int, settle: Callable[[Any], Any] = lambda joined: joined
) -> Callable[[JobHarness], None]:
    def build(job: JobHarness) -> None:
        left, right = (job.add_source(name, RECORD).key_by(0) for name in SOURCES)
        joined = settle(left.interval_join(right).between(lower, upper))
        joined.side_output_left_late_data(LATE[LEFT]).side_output_right_late_data(LATE[RIGHT])
        numbers = joined.process(Numbers()).uid("join")
        job.add_sink("pairs", numbers)
        for tag in LATE:
            job.add_sink(tag.tag_id, numbers.get_side_output(tag))

    return build


def push(job: JobHarness, side: int, key: str, number: int, time: int) -> None:
    job.push(SOURCES[side], (key, number), time)


def advance(job: JobHarness, watermark: int) -> None:
    for name in SOURCES:
        job.advance_watermark(name, watermark)


def test_bounds_are_included() -> None:
    with JobHarness(job_of(-10, 20)) as job:
        push(job, LEFT, "a", 0, 100)
        for number, time in enumerate([89, 90, 120, 121]):
            push(job, RIGHT, "a", number, time)
        push(job, RIGHT, "b", 9, 100)
        job.run_epoch()
        assert job.results_with_timestamps("pairs") == [((0, 1), 100), ((0, 2), 120)]


@pytest.mark.parametrize(
    ("settle", "expected"),
    [
        (lambda joined: joined.lower_bound_exclusive(), [(0, 2), (0, 3)]),
        (lambda joined: joined.upper_bound_exclusive(), [(0, 1), (0, 2)]),
        (lambda joined: joined.lower_bound_exclusive().upper_bound_exclusive(), [(0, 2)]),
    ],
)
def test_exclusive_bounds(settle: Callable[[Any], Any], expected: list[tuple[int, int]]) -> None:
    with JobHarness(job_of(-10, 20, settle)) as job:
        push(job, LEFT, "a", 0, 100)
        for number, time in enumerate([89, 90, 119, 120]):
            push(job, RIGHT, "a", number, time)
        job.run_epoch()
        assert job.results("pairs") == expected


@pytest.mark.usefixtures("sizes")
def test_the_pairs_of_a_record_come_in_the_order_of_time_and_of_arrival() -> None:
    with JobHarness(job_of(-10, 10)) as job:
        for number, time in enumerate([105, 95, 100, 100]):
            push(job, LEFT, "a", number, time)
        job.run_epoch()
        push(job, LEFT, "a", 4, 100)
        job.run_epoch()
        advance(job, 50)
        push(job, RIGHT, "a", 0, 100)
        push(job, RIGHT, "a", 1, 97)
        job.run_epoch()
        assert job.results("pairs") == [(left, right) for right in (0, 1) for left in (1, 2, 3, 4, 0)]


@pytest.mark.parametrize(("lower", "upper"), [(0, 0), (-10, 10), (0, 10), (-10, 0)])
@pytest.mark.parametrize("end", [-1, 1])
def test_records_match_at_both_ends_of_time(lower: int, upper: int, end: int) -> None:
    time = end * (MAX_WATERMARK - max(-lower, upper))
    with JobHarness(job_of(lower, upper)) as job:
        push(job, LEFT, "a", 0, time)
        push(job, RIGHT, "a", 1, time)
        job.run_epoch()
        assert job.results_with_timestamps("pairs") == [((0, 1), time)]


@pytest.mark.parametrize("time", [MAX_WATERMARK - 9, 10 - MAX_WATERMARK - 1])
def test_records_too_near_to_an_end_of_time_are_refused(time: int) -> None:
    with JobHarness(job_of(-10, 10)) as job:
        push(job, LEFT, "a", 0, time)
        with pytest.raises(InvalidProgramError, match=r"'Interval Join'.*the interval about a record begins or ends"):
            job.run_epoch()


def test_a_record_below_the_watermark_is_late_and_one_at_it_is_not() -> None:
    with JobHarness(job_of(-10, 10)) as job:
        push(job, LEFT, "a", 0, 100)
        advance(job, 100)
        push(job, RIGHT, "a", 1, 99)
        push(job, RIGHT, "a", 2, 100)
        push(job, LEFT, "a", 3, 99)
        job.run_epoch()
        assert job.results("pairs") == [(0, 2)]
        assert (job.results("late-left"), job.results("late-right")) == ([("a", 3)], [("a", 1)])


def test_late_records_are_counted_where_nobody_wants_them() -> None:
    def build(job: JobHarness) -> None:
        left, right = (job.add_source(name, RECORD).key_by(0) for name in SOURCES)
        job.add_sink("pairs", left.interval_join(right).between(0, 0).process(Numbers()))

    with JobHarness(build) as job:
        advance(job, 100)
        push(job, LEFT, "a", 0, 99)
        job.run_epoch()
        assert job.counters()["numLateRecordsDropped"] == 1


def test_a_record_goes_when_the_watermark_reaches_its_end() -> None:
    """Also before one that meets this very watermark and would match: Flink's timers fire first."""
    with JobHarness(job_of(0, 10)) as job:
        push(job, LEFT, "a", 0, 100)
        advance(job, 109)
        push(job, RIGHT, "a", 1, 110)
        advance(job, 110)
        push(job, RIGHT, "a", 2, 110)
        job.run_epoch()
        assert job.results("pairs") == [(0, 1)]


def test_a_record_at_the_watermark_is_kept_until_it_goes_on() -> None:
    with JobHarness(job_of(0, 0)) as job:
        advance(job, 100)
        push(job, LEFT, "a", 0, 100)
        job.run_epoch()
        push(job, RIGHT, "a", 1, 100)
        job.run_epoch()
        assert job.results("pairs") == [(0, 1)]


def collect(job: JobHarness, found: dict[str, list[Any]]) -> None:
    for name, records in found.items():
        records.extend(job.results_with_timestamps(name))


events = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(SOURCES), st.sampled_from("ab"), st.integers(0, 30)),
        st.tuples(st.just("advance"), st.just(""), st.integers(1, 12)),
        st.tuples(st.just("epoch"), st.just(""), st.just(0)),
        st.tuples(st.just("restart"), st.just(""), st.integers(1, 3)),
    ),
    max_size=40,
)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("sizes")
@settings(max_examples=draws(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=events, bounds=st.tuples(st.integers(-8, 8), st.integers(-8, 8)))
def test_operator_equals_model(steps: list[tuple[str, str, int]], bounds: tuple[int, int]) -> None:
    """Whatever the watermarks, epochs, restarts at other parallelisms; times lie about the watermark."""
    lower, upper = sorted(bounds)
    build, watermark = job_of(lower, upper), None
    arrivals: list[Arrival] = []
    found: dict[str, list[Any]] = {name: [] for name in ("pairs", "late-left", "late-right")}
    job = JobHarness(build)
    try:
        for number, (what, key, amount) in enumerate([*steps, ("epoch", "", 0)]):
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
        collect(job, found)
    finally:
        job.close()
    assert sorted((*pair, time) for pair, time in found["pairs"]) == pairs_of(arrivals, lower, upper)
    assert [sorted(record[1] for record, _ in found[tag.tag_id]) for tag in LATE] == [
        late_of(arrivals, LEFT),
        late_of(arrivals, RIGHT),
    ]


def test_what_a_subtask_has_kept_that_was_behind_is_there_at_another_parallelism() -> None:
    """Behind a strategy for keyed records each subtask has its own event time; the lowest one counts afterwards."""
    moment = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG(), Types.BOOLEAN()])
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f2")

    def build(job: JobHarness) -> None:
        keyed = job.add_source("moments", moment).key_by(0).map(lambda record: record, output_type=moment).uid("kept")
        timed = keyed.assign_timestamps_and_watermarks(times).uid("times")
        sides = (timed.filter(lambda record, side=side: record[3] is side) for side in (True, False))
        left, right = (side.reinterpret_as_keyed(0) for side in sides)
        job.add_sink("pairs", left.interval_join(right).between(0, 10).process(Numbers()).uid("join"))

    keys = "abcdefghij"
    with JobHarness(build, parallelism=2) as job:
        job.push_all("moments", [(key, number, 90, True) for number, key in enumerate(keys)])
        job.run_epoch()
        job.push_all("moments", [("a", 99, 102, True)] * 30)
        job.run_epoch()
        checkpoint = job.checkpoint()
    with JobHarness(build, parallelism=1, restore=checkpoint) as job:
        job.run_epoch()
        job.push_all("moments", [(key, number, 98, False) for number, key in enumerate(keys)])
        job.run_epoch()
        behind = [(number, number) for number, key in enumerate(keys) if key not in "acfi"]  # these are with a
        assert sorted(job.results("pairs")) == behind


def test_records_may_be_of_any_type_and_none_is_copied_for_a_function() -> None:
    class Swap(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
            yield right, left

    def build(job: JobHarness) -> None:
        untyped = job.add_source("left", Types.PICKLED_BYTE_ARRAY()).key_by(lambda r: r["k"], key_type=str)
        rows = job.add_source("right", Types.ROW_NAMED(["k", "tags"], [Types.STRING(), Types.LIST(Types.STRING())]))
        job.add_sink("pairs", untyped.interval_join(rows.key_by("k")).between(0, 5).process(Swap()))

    with JobHarness(build) as job:
        job.push("left", {"k": "a", "more": object}, 1)
        job.run_epoch()
        job.push("right", {"k": "a", "tags": ["x", "y"]}, 3)
        job.run_epoch()
        ((right, left),) = job.results("pairs")
        assert (right.tags, left["more"]) == (["x", "y"], object)


def test_a_function_that_fails_is_told_with_the_pair() -> None:
    class Fails(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
            yield left[1] / right[1]

    def build(job: JobHarness) -> None:
        left, right = (job.add_source(name, RECORD).key_by(0) for name in SOURCES)
        job.add_sink("pairs", left.interval_join(right).between(0, 0).process(Fails()).uid("join"))

    with JobHarness(build) as job:
        push(job, LEFT, "a", 1, 5)
        push(job, RIGHT, "a", 0, 5)
        with pytest.raises(UserFunctionError, match=r"(?s)join.*ZeroDivisionError.*\('a', 1\), \('a', 0\)"):
            job.run_epoch()


def test_another_interval_is_refused_with_what_is_stored() -> None:
    with JobHarness(job_of(0, 10)) as job:
        push(job, LEFT, "a", 1, 5)
        job.run_epoch()
        checkpoint = job.checkpoint()
    with (
        pytest.raises(StateMigrationError, match="another interval"),
        JobHarness(job_of(0, 20), restore=checkpoint) as job,
    ):
        job.run_epoch()


def streams() -> tuple[Any, Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([("a", 1)], type_info=RECORD)
    return numbers.key_by(0), numbers.key_by(1)


@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        (lambda a, b: a.interval_join(a).between(1, 0), InvalidProgramError, "upper bound below its lower one"),
        (lambda a, b: a.interval_join(a).between(0, 2**62), InvalidProgramError, "73 million years"),
        (lambda a, b: a.interval_join(a).between("1 hour", 2), InvalidTypeError, "between: expected a Duration"),
        (
            lambda a, b: a.interval_join(a).between(0, 0).upper_bound_exclusive().process(Numbers()),
            InvalidProgramError,
            "with exclusive bounds",
        ),
        (
            lambda a, b: a.interval_join(b),
            InvalidTypeError,
            "not String and Integer: take fields of one type",
        ),
        (lambda a, b: a.interval_join(a._origin), InvalidTypeError, "takes a KeyedStream"),
        (lambda a, b: a.interval_join(a).in_processing_time(), InvalidProgramError, "goes by event time"),
        (lambda a, b: a.interval_join(a).between(0, 1).process(Numbers), InvalidTypeError, "write Numbers()"),
    ],
)
def test_misuse_is_told_where_it_is(program: Callable[[Any, Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as failure:
        program(*streams())
    assert __file__ in str(failure.value)


def test_records_that_cannot_have_times_are_refused_before_the_job_runs() -> None:
    keyed, _ = streams()
    joined = keyed.interval_join(keyed).between(0, 1).process(Numbers())
    with pytest.raises(InvalidProgramError, match="joins by event time"):
        joined.execute_and_collect(limit=1)
