"""Programs that are drawn at random: whatever is chained, forked, united and shuffled, no cut of the input shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

from headrace.common.errors import UserFunctionError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import count, sum
from headrace.datastream.functions import KeyedProcessFunction, ProcessFunction, RuntimeContext
from headrace.datastream.state import MapStateDescriptor, ValueStateDescriptor
from headrace.datastream.streams.data_stream import DataStream
from headrace.windowing.assigners.sliding import SlidingEventTimeWindows
from tests.invariance.driver import EVENT, Cut, Event, Job, cuts, examples, multiset, run
from tests.invariance.test_branches import one_split

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


@examples(60, seed=st.integers(0, 2**32), events=one_split, bound=st.sampled_from([0, 5, 30, 100]), cut=cuts)
def test_a_program_gives_the_same_however_its_input_is_cut(
    seed: int, events: list[Event], bound: int, cut: Cut
) -> None:
    build = program(seed, events, bound)
    assert outcome(build, cut) == outcome(build, ONE_BY_ONE)
