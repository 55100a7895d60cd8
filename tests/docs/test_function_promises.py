"""What the list of features promises of functions and no test elsewhere shows; each job runs on the local runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import (
    InvalidProgramError,
    UserFunctionError,
)
from headrace.datastream import (
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    TimeDomain,
)
from headrace.datastream.state import ValueStateDescriptor
from headrace.testing import JobHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TEXT = Types.STRING()


def harness(function: Any, output_type: Any = TEXT, **settings: Any) -> JobHarness:
    """Pairs from ``in``, keyed by their first field, through a function, to ``out``."""

    def build(job: JobHarness) -> None:
        stream = job.add_source("in", PAIR).key_by(0).process(function, output_type)
        job.add_sink("out", stream.name("function").uid("function"))

    return JobHarness(build, **settings)


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

    with pytest.raises(InvalidProgramError, match=r"keyed state exists only after key_by"):
        JobHarness(lambda job: job.add_sink("out", job.add_source("in", PAIR).map(Stateful())))


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
