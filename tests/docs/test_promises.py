"""What the list of features promises and no test elsewhere shows; each job runs on the local runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from headrace.common import Configuration, Duration, JobStatus, TimestampAssigner, Types, WatermarkStrategy
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import (
    InvalidProgramError,
    StateMigrationError,
    UserFunctionError,
)
from headrace.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import (
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeDomain,
    TimeWindow,
)
from headrace.datastream.state import ValueStateDescriptor
from headrace.testing import JobHarness
from headrace.time.watermarks import WatermarkGenerator

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TEXT = Types.STRING()


def harness(function: Any, output_type: Any = TEXT, **settings: Any) -> JobHarness:
    """Pairs from ``in``, keyed by their first field, through a function, to ``out``."""

    def build(job: JobHarness) -> None:
        stream = job.add_source("in", PAIR).key_by(0).process(function, output_type)
        job.add_sink("out", stream.name("function").uid("function"))

    return JobHarness(build, **settings)


# --- functions -------------------------------------------------------------------------------------------------------


class Asks(ProcessFunction):
    """On a stream without keys: the time can be asked for, timers cannot be set."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        timers = ctx.timer_service()
        if value[1] < 0:
            timers.register_event_time_timer(5)
        yield value[0], ctx.timestamp(), timers.current_watermark(), timers.current_processing_time()


def test_a_process_function_sees_the_time_and_has_no_timers() -> None:
    with JobHarness(
        lambda job: job.add_sink("out", job.add_source("in", PAIR).process(Asks())), processing_time=9
    ) as job:
        job.push("in", ("a", 1), 7)
        job.push("in", ("b", 1))
        job.advance_watermark("in", 3)
        job.push("in", ("c", 1), 8)
        job.run_epoch()
        assert job.take("out") == [("a", 7, MIN_WATERMARK, 9), ("b", None, MIN_WATERMARK, 9), ("c", 8, 3, 9)]
        job.push("in", ("d", -1))
        with pytest.raises(UserFunctionError, match="timers exist only on a keyed stream"):
            job.run_epoch()


class BothTimes(KeyedProcessFunction):
    """Sets a timer in each domain; a negative value takes them back."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        if value[1] > 0:
            timers.register_event_time_timer(value[1])
            timers.register_processing_time_timer(value[1])
        else:
            timers.delete_event_time_timer(-value[1])
            timers.delete_processing_time_timer(-value[1])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        domain = "event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"
        yield f"{ctx.get_current_key()} {domain} {timestamp} {ctx.timer_service().current_watermark()}"


def test_timers_of_both_domains() -> None:
    with harness(BothTimes()) as job:
        job.push_all("in", [("a", 10), ("a", 10), ("b", 20), ("c", 15), ("c", -15)])
        job.run_epoch()
        job.set_processing_time(9)
        job.run_epoch()
        assert job.take("out") == []
        job.set_processing_time(10)
        job.run_epoch()
        assert job.take("out") == [f"a processing 10 {MIN_WATERMARK}"]
        job.advance_watermark("in", 30)
        job.run_epoch()
        assert job.take("out") == ["a event 10 30", "b event 20 30"]


def test_what_a_timer_of_processing_time_emits_has_no_event_time() -> None:
    """As in Flink, which erases the timestamp; that of the timer is still what the context tells."""
    tag = OutputTag("side", TEXT)

    class Both(BothTimes):
        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
            yield f"{ctx.time_domain().name} {ctx.timestamp()}"
            yield tag, "side"

    def build(job: JobHarness) -> None:
        main = job.add_source("in", PAIR).key_by(0).process(Both(), TEXT)
        job.add_sink("out", main)
        job.add_sink("side", main.get_side_output(tag))

    with JobHarness(build) as job:
        job.push("in", ("a", 10), 5)
        job.run_epoch()
        job.set_processing_time(10)
        job.run_epoch()
        job.advance_watermark("in", 20)
        job.run_epoch()
        assert job.results_with_timestamps("out") == [("PROCESSING_TIME 10", None), ("EVENT_TIME 10", 10)]
        assert job.results_with_timestamps("side") == [("side", None), ("side", 10)]


class Overdue(KeyedProcessFunction):
    """Sets a timer of processing time that is due with the next epoch."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        ctx.timer_service().register_processing_time_timer(0)
        yield f"element {value[1]}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield "timer"


def test_timers_of_processing_time_fire_before_elements() -> None:
    with harness(Overdue()) as job:
        for number, expected in enumerate((["element 0"], ["timer", "element 1"])):
            job.push("in", ("a", number))
            job.advance_processing_time(1)
            job.run_epoch()
            assert job.take("out") == expected


def test_overdue_timers_of_processing_time_fire_after_a_restart() -> None:
    with harness(BothTimes()) as job:
        job.push("in", ("a", 10))
        checkpoint = job.checkpoint()
    with harness(BothTimes(), restore=checkpoint, processing_time=500) as job:
        job.run_epoch()
        assert job.take("out") == [f"a processing 10 {MIN_WATERMARK}"]


def test_at_the_end_of_input_timers_of_event_time_fire_and_others_do_not() -> None:
    with harness(BothTimes()) as job:
        job.push("in", ("a", 10**15))
        job.finish()
        assert job.take("out") == [f"a event {10**15} {MAX_WATERMARK}"]


def test_a_checkpoint_is_not_an_end() -> None:
    with harness(BothTimes()) as job:
        job.push("in", ("a", 10**15))
        job.checkpoint()
        assert job.take("out") == []


class Forgets(KeyedProcessFunction):
    """Sets state to None, which removes it; timers stay."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        before = self.value.value()
        self.value.update(value[1] or None)
        ctx.timer_service().register_event_time_timer(100)
        yield f"{before}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"timer {self.value.value()}"


def test_none_removes_a_value_and_no_timer() -> None:
    with harness(Forgets()) as job:
        for number in (5, 0, 7, 0):
            job.push("in", ("a", number))
            job.run_epoch()
        assert job.take("out") == ["None", "5", "None", "7"]
        job.advance_watermark("in", 100)
        job.run_epoch()
        assert job.take("out") == ["timer None"]


class Tells(MapFunction):
    """Everything that a function learns about where it runs."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.known = (
            runtime_context.get_task_name(),
            runtime_context.get_task_name_with_subtasks(),
            runtime_context.get_number_of_parallel_subtasks(),
            runtime_context.get_max_number_of_parallel_subtasks(),
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_attempt_number(),
            runtime_context.get_job_parameter("threshold", "none"),
            runtime_context.get_job_parameter("other", "none"),
        )

    def map(self, value: Any) -> Any:
        return self.known


def test_runtime_context() -> None:
    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", PAIR).map(Tells()).name("tells"))

    with JobHarness(build, configuration={"threshold": "5"}) as job:
        job.push("in", ("a", 1))
        job.run_epoch()
        assert job.take("out") == [("tells", "tells (1/1)", 1, 128, 0, 0, "5", "none")]


def test_state_without_keys_is_refused() -> None:
    class Stateful(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("value"))

        def map(self, value: Any) -> Any:
            return value

    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", PAIR).map(Stateful()))) as job:
        job.push("in", ("a", 1))
        with pytest.raises(UserFunctionError, match=r"keyed state exists only after key_by"):
            job.run_epoch()


def test_records_keep_their_timestamps() -> None:
    class Delayed(KeyedProcessFunction):
        def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
            ctx.timer_service().register_event_time_timer(90)
            yield value

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
            yield "timer"

    def build(job: JobHarness) -> None:
        words = job.add_source("in", TEXT).map(str.lower, TEXT).flat_map(str.split, TEXT)
        job.add_sink("out", words.filter(lambda word: word != "the").key_by(len, Types.INT()).process(Delayed(), TEXT))

    with JobHarness(build) as job:
        job.push("in", "To THE point", 5)
        job.push("in", "no", 6)
        job.advance_watermark("in", 200)
        job.run_epoch()
        found = job.results_with_timestamps("out")
        assert sorted(found) == [("no", 6), ("point", 5), ("timer", 90), ("timer", 90), ("to", 5)]


# --- event time ------------------------------------------------------------------------------------------------------


class SecondField(TimestampAssigner):
    """Adds the timestamp that the record has already, when it has one."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1]) + max(record_timestamp, 0)


ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


class Lateness(ProcessFunction):
    """Whether a record is behind the watermark."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value[1], ctx.timestamp(), (ctx.timestamp() or 0) <= ctx.timer_service().current_watermark()


def lateness(job: JobHarness) -> None:
    job.add_sink("out", job.add_source("in", PAIR, watermarks=ASCENDING).process(Lateness()))


def test_equal_timestamps_are_never_late() -> None:
    with JobHarness(lateness) as job:
        job.push_all("in", [("a", 5), ("a", 5), ("a", 4), ("a", 5)])
        job.push("in", ("a", 1), 4)
        job.run_epoch()
        assert job.take("out") == [(5, 5, False), (5, 5, False), (4, 4, True), (5, 5, False), (1, 5, False)]


@dataclass(frozen=True)
class Multiples(WatermarkGenerator):
    """A generator of one's own: only timestamps that are multiples of ten make a watermark."""

    def stamp(self, timestamps: npt.NDArray[np.int64], watermark: int) -> tuple[npt.NDArray[np.int64], int]:
        made = np.where(timestamps % 10 == 0, timestamps, MIN_WATERMARK)
        stamps = np.maximum.accumulate(np.concatenate([[watermark], made]))
        return stamps[:-1], int(stamps[-1])


def test_a_watermark_generator_of_ones_own() -> None:
    strategy = WatermarkStrategy.for_generator(Multiples()).with_timestamp_assigner(lambda value, _: value[1])
    with JobHarness(lambda job: job.add_sink("out", job.add_source("in", PAIR, watermarks=strategy))) as job:
        for time, watermark in ((13, MIN_WATERMARK), (20, 20), (10, 20), (39, 20), (40, 40)):
            job.push("in", ("a", time))
            job.run_epoch()
            assert job.watermark("in") == watermark


def idle_job(job: JobHarness) -> None:
    """The assigner is given first: idleness does not drop it."""
    strategy = ASCENDING.with_idleness(Duration.of_millis(100))
    stream = job.add_source("in", PAIR, watermarks=strategy, splits=2)
    job.add_sink("out", stream.key_by(0).process(BothTimes(), TEXT))


def test_a_silent_split_holds_event_time_until_it_is_idle() -> None:
    with JobHarness(idle_job) as job:
        job.push("in", ("a", 10), split=0)
        job.push("in", ("b", 50), split=1)
        job.run_epoch()
        job.push("in", ("b", 60), split=1)
        job.set_processing_time(5)  # due timers of processing time are no matter here
        job.run_epoch()
        assert [line for line in job.take("out") if "event" in line] == []
        assert job.watermark("in") == 9
        job.set_processing_time(104)
        job.push("in", ("b", 61), split=1)
        job.run_epoch()
        assert job.watermark("in") == 60
        assert [line for line in job.take("out") if "event" in line] == [
            "a event 10 59",
            "b event 50 59",
            "b event 60 60",
        ]
        job.push("in", ("a", 70), split=0)
        job.push("in", ("b", 100), split=1)
        job.run_epoch()
        assert job.watermark("in") == 69, "the split is back, and holds event time again"


# --- jobs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def local() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("headrace.runtime", "local")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)


@pytest.mark.parametrize(
    ("mode", "sums"),
    [
        (RuntimeExecutionMode.STREAMING, [1, 3, 6]),
        (RuntimeExecutionMode.BATCH, [6]),
        (RuntimeExecutionMode.AUTOMATIC, [6]),
    ],
)
def test_runtime_mode(local: StreamExecutionEnvironment, mode: RuntimeExecutionMode, sums: list[int]) -> None:
    local.set_runtime_mode(mode)
    stream = local.from_sequence(1, 3).key_by(lambda number: 0, Types.INT()).sum()
    assert list(stream.execute_and_collect()) == sums


def test_the_client_of_a_job_that_ends(local: StreamExecutionEnvironment) -> None:
    local.from_sequence(1, 3).map(lambda number: number, Types.LONG()).name("same").print()
    client = local.execute_async("numbers")
    result = client.get_job_execution_result().result(timeout=60)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert client.get_job_id() == result.get_job_id()
    counters = client.get_accumulators().result()
    assert counters == result.get_all_accumulator_results()
    assert (counters["numRecordsRead"], counters["same.numRecordsIn"]) == (3, 3)


@pytest.mark.parametrize("way", ["cancel", "stop"])
def test_the_client_of_a_job_that_would_not_end(local: StreamExecutionEnvironment, way: str) -> None:
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(50), Types.LONG())
    local.from_source(source, WatermarkStrategy.no_watermarks(), "endless").filter(lambda number: False).print()
    client = local.execute_async()
    assert client.get_job_status().result() is JobStatus.RUNNING
    getattr(client, way)().result(timeout=60)
    assert client.get_job_status().result() is JobStatus.CANCELED


class Counts(KeyedProcessFunction):
    """How many records there were for the key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value[0]}{self.count.value()}"


def counting(*uids: str, max_parallelism: int = 128) -> Any:
    """A job that counts once for each uid."""

    def build(job: JobHarness) -> None:
        job.env.set_max_parallelism(max_parallelism)
        keyed = job.add_source("in", PAIR).key_by(0)
        for uid in uids:
            job.add_sink(f"{uid}-out", keyed.process(Counts(), TEXT).uid(uid))

    return build


def feed(build: Any, records: Iterable[str], **settings: Any) -> tuple[dict[str, list[str]], Any]:
    """One epoch of a counting job, and a checkpoint of it."""
    with JobHarness(build, **settings) as job:
        job.push_all("in", [(key, 0) for key in records])
        checkpoint = job.checkpoint()
        return {name: sorted(job.take(name)) for name in job._sinks}, checkpoint


def test_state_is_found_by_uid_in_a_program_that_has_changed() -> None:
    _, checkpoint = feed(counting("counter"), "aab")
    found, _ = feed(counting("new", "counter"), "ab", restore=checkpoint, parallelism=3)
    assert found == {"new-out": ["a1", "b1"], "counter-out": ["a3", "b2"]}


def test_state_that_nobody_takes_is_an_error() -> None:
    _, checkpoint = feed(counting("counter"), "aab")
    with pytest.raises(StateMigrationError, match="uid counter, which the program does not have"):
        feed(counting("other"), "a", restore=checkpoint)


def test_max_parallelism_is_fixed() -> None:
    _, checkpoint = feed(counting("counter"), "aab")
    with pytest.raises(StateMigrationError, match="128 key groups, the program asks for 64"):
        feed(counting("counter", max_parallelism=64), "a", restore=checkpoint)


def counting_apart(job: JobHarness) -> None:
    """One counter with the job's key groups, one with six of its own."""
    keyed = job.add_source("in", PAIR).key_by(0)
    for uid in ("many", "few"):
        counted = keyed.process(Counts(), TEXT).uid(uid)
        job.add_sink(f"{uid}-out", counted if uid == "many" else counted.set_max_parallelism(6))


def test_an_operator_may_have_key_groups_of_its_own() -> None:
    keys = [f"{number:02}" for number in range(40)]
    restore = None
    for seen, parallelism in enumerate((4, 1, 6, 5), start=1):
        found, restore = feed(counting_apart, keys, parallelism=parallelism, restore=restore)
        expected = [f"{key}{seen}" for key in keys]
        assert found == {"many-out": expected, "few-out": expected}, f"at parallelism {parallelism}"


def test_the_key_groups_of_an_operator_are_fixed() -> None:
    def other(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", PAIR).key_by(0).process(Counts(), TEXT).uid("few"))
        job.add_sink("rest", job.add_source("more", PAIR).key_by(0).process(Counts(), TEXT).uid("many"))

    _, checkpoint = feed(counting_apart, "aab")
    with pytest.raises(StateMigrationError, match=r"uid few\): its state has 6 key groups, the program asks for 128"):
        feed(other, "a", restore=checkpoint)


def test_an_operator_has_no_more_subtasks_than_key_groups() -> None:
    with pytest.raises(
        InvalidProgramError, match="has parallelism 7; it must lie between 1 and the max parallelism, 6"
    ):
        JobHarness(counting_apart, parallelism=7)


def test_two_operators_with_one_uid_are_refused() -> None:
    def build(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", PAIR).map(str, TEXT).uid("one").map(str, TEXT).uid("one"))

    with pytest.raises(InvalidProgramError, match="two operators have the uid 'one'"):
        JobHarness(build)


# --- windows ---------------------------------------------------------------------------------------------------------


def test_time_windows() -> None:
    window = TimeWindow(0, 5)
    assert window.max_timestamp() == 4
    assert window.intersects(TimeWindow(4, 9))
    assert window.intersects(TimeWindow(5, 9)), "they touch"
    assert not window.intersects(TimeWindow(6, 9))
    assert window.cover(TimeWindow(7, 9)) == TimeWindow(0, 9)
