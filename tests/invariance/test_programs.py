"""Programs that are drawn at random: whatever is chained, forked, united and shuffled, no cut of the input shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st

from headrace.common import Configuration, options
from headrace.common.errors import UserFunctionError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.functions import KeyedProcessFunction, ProcessFunction, RuntimeContext
from headrace.datastream.state import MapStateDescriptor, ValueStateDescriptor
from headrace.datastream.streams.data_stream import DataStream
from headrace.operators import process
from headrace.operators.join import find_pairs
from headrace.state import sorted_table
from headrace.windowing.assigners import SlidingEventTimeWindows
from tests.invariance.driver import EVENT, Cut, Event, Job, cuts, deaths, examples, multiset, run
from tests.invariance.random_programs import IntervalJoin, Program, random_program
from tests.invariance.random_steps import WindowJoin
from tests.invariance.test_branches import one_split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIDE = OutputTag("side", EVENT)
LATE = OutputTag("late", EVENT)

ONE_BY_ONE = Cut(shares=(1,), batch=1)
"""An epoch for each record: nothing waits for anything, and every fork has one record."""


class Split(ProcessFunction):
    """Some records by the main output, some by the side output, some by both."""

    def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value[1] % 2:
            yield SIDE, value
        if value[1] % 3:
            yield value


class Fold(KeyedProcessFunction):
    """Depends on the order of a key's records; timers tell what it has come to."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._folded = runtime_context.get_state(ValueStateDescriptor("folded", Types.LONG()))
        self._seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        folded = ((self._folded.value() or 0) * 3 + value[1]) % 1000
        self._folded.update(folded)
        self._seen.put(value[1] % 4, folded)
        if value[1] % 2:
            ctx.timer_service().register_event_time_timer(value[2] + value[1])
            yield SIDE, value
        yield value[0], folded, value[2]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), len(list(self._seen.keys())) + (self._folded.value() or 0), timestamp


@dataclass
class Drawn:
    """A stream of a program.

    Attributes:
        stream: the stream.
        is_shuffled: whether it comes from behind a shuffle.
        is_ordered: whether the order of a key's records is fixed: streams that are united behind a shuffle merge by
            watermark alone.
    """

    stream: DataStream
    is_shuffled: bool = False
    is_ordered: bool = True


def program(seed: int, events: list[Event], bound: int) -> Callable[[Job], None]:
    """A program over the events of one split; the same for the same seed."""

    def build(job: Job) -> None:
        chance = Random(seed)
        streams = [Drawn(job.source("events", [events], bound))]
        for number in range(chance.randint(1, 7)):
            streams.append(_next(chance, streams, f"n{number}", job))
        for number, drawn in enumerate(streams[-3:]):
            _end(chance, drawn, f"end{number}", job)

    return build


def _next(chance: Random, streams: list[Drawn], name: str, job: Job) -> Drawn:
    drawn = chance.choice(streams[-4:])
    kind = chance.choice(["map", "filter", "flat_map", "split", "union", "union", "fold"])
    if kind == "union":
        return _united(chance, streams)
    if kind == "fold" and drawn.is_ordered:
        folded = job.keyed(name, drawn.stream.key_by(lambda event: event[0], Types.STRING()).process(Fold(), EVENT))
        return Drawn(folded.get_side_output(SIDE) if chance.random() < 0.3 else folded, is_shuffled=True)
    if kind == "split":
        split = drawn.stream.process(Split(), EVENT)
        made = split.get_side_output(SIDE) if chance.random() < 0.5 else split
    elif kind == "filter":
        made = drawn.stream.filter(lambda event: event[1] % 4 != 1)
    elif kind == "flat_map":
        made = drawn.stream.flat_map(lambda event: [event] * (event[1] % 3), EVENT)
    else:
        poison = chance.choice([None, None, 7])
        made = drawn.stream.map(lambda event: _raised(event, poison), EVENT).name(name)
    return Drawn(made, drawn.is_shuffled, drawn.is_ordered)


def _united(chance: Random, streams: list[Drawn]) -> Drawn:
    parts = chance.sample(streams, min(len(streams), chance.randint(2, 3)))
    shuffled = any(part.is_shuffled for part in parts)
    ordered = not shuffled and all(part.is_ordered for part in parts)
    if len(parts) == 1:
        return parts[0]
    return Drawn(parts[0].stream.union(*(part.stream for part in parts[1:])), shuffled, ordered)


def _end(chance: Random, drawn: Drawn, name: str, job: Job) -> None:
    if chance.random() < 0.4:
        job.sink(name, drawn.stream)
        return
    windows = drawn.stream.key_by("f0").window(SlidingEventTimeWindows.of(12, 4)).side_output_late_data(LATE)
    if drawn.is_ordered:  # each late record shows what came before it
        windows = windows.allowed_lateness(chance.randint(0, 3))
    results = job.keyed(name, windows.aggregate(count(), sum("f1").alias("total")))
    job.sink(name, results)
    job.sink(f"{name}-late", results.get_side_output(LATE))


def _raised(event: Event, poison: int | None) -> Event:
    if event[1] == poison:
        raise ValueError(f"{event} is not liked")
    return event[0], (event[1] * 7 + 1) % 10, event[2]


def outcome(build: Callable[[Job], None], cut: Cut) -> Any:
    """What has reached the sinks; or that a function raised."""
    try:
        found = run(build, cut)
    except UserFunctionError:
        return "a function raised"
    return {name: multiset(records) for name, records in found.items() if records}


@pytest.mark.long
@examples(20, 600, seed=st.integers(0, 2**32), events=one_split, bound=st.sampled_from([0, 5, 30, 100]), cut=cuts)
def test_a_program_gives_the_same_however_its_input_is_cut(
    seed: int, events: list[Event], bound: int, cut: Cut
) -> None:
    build = program(seed, events, bound)
    assert outcome(build, cut) == outcome(build, ONE_BY_ONE)


# --- what programs give is known -------------------------------------------------------------------------------------

MANY = int(os.environ.get("HEADRACE_PROGRAMS", "2000"))
"""How many programs the slow test draws."""


@pytest.fixture
def a_few_records_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_pairs, "PAIRS", 5)
    monkeypatch.setattr(sorted_table, "SPILLED_BYTES", 500)  # about ten records
    monkeypatch.setattr(process, "MOST_CALLED", 3)


def given_by(found: dict[str, list[Any]]) -> dict[str, list[Event]]:
    """What has reached each sink that got something."""
    return {name: sorted(tuple(record) for record, _ in records) for name, records in found.items() if records}


@pytest.mark.usefixtures("a_few_records_at_a_time")
@examples(20, MANY, program=st.randoms(use_true_random=False).map(random_program), cut=deaths, is_batch=st.booleans())
def test_a_program_gives_what_its_records_say(program: Program, cut: Cut, is_batch: bool) -> None:
    """Cut, killed, restored at another parallelism and by another backend, in both modes: see ``random_programs``."""
    found = run(program.build, cut, is_batch=is_batch)
    assert given_by(found) == program.expected()


@pytest.mark.usefixtures("a_few_records_at_a_time")
def test_tables_that_two_subtasks_have_shared_count_once() -> None:
    """At two subtasks both have the table of the first epoch; the one that comes after them has it twice."""
    splits = [[("a", number, number) for number in range(7)]]
    join = IntervalJoin((0, 1), (5, 84))  # the times are from 5 ms before to 5 ms behind one another
    program = Program([(splits, 0), (splits, 0)], [join], [*splits, *splits, join.model(*splits, *splits)])
    cut = Cut(shares=(3,), parallelism=(1, 2), restarts=frozenset({1, 2}), inline_threshold=0)
    assert given_by(run(program.build, cut)) == program.expected()


def test_a_sink_that_fails_behind_a_join_in_columns_is_no_failure_of_the_join() -> None:
    splits = [[("a", number, 5 * number) for number in range(6)]]
    join = WindowJoin((0, 1), (0, 4))
    program = Program([(splits, 0), (splits, 0)], [join], [*splits, *splits, join.model(*splits, *splits)])
    assert given_by(run(program.build, Cut(faults=frozenset({1})))) == program.expected()


@pytest.mark.spark
def test_programs_on_spark(spark: SparkSession) -> None:
    """Several beside each other in one job."""
    programs = {f"p{seed}-": random_program(Random(seed)) for seed in range(2)}
    settings = Configuration()
    settings.set(options.RUNTIME, "spark")
    job = Job(StreamExecutionEnvironment.get_execution_environment(settings), Cut((4,), (2,), parallelism=(2, 1)), 0)
    for name, program in programs.items():
        program.build(job, name)
    job.env.execute()
    expected: dict[str, list[Event]] = {}
    for name, program in programs.items():
        expected |= program.expected(name)
    assert given_by({name: sink.records for name, sink in job.sinks.items()}) == expected
