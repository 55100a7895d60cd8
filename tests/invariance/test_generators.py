"""Watermark generators of users: every record meets the same watermark, however the input of its split is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from headrace.common import Types, WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from headrace.common.constants import MIN_WATERMARK
from headrace.datastream import KeyedProcessFunction, ProcessFunction
from tests.invariance.driver import EVENT, Cut, Event, Job, ScriptedSource, cuts, examples, per_key, run

RESULT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])

events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(-30, 30)), max_size=40)


class Punctuated(WatermarkGenerator):
    """A watermark at every third record whose value is 5, as far as the newest one without that value has come."""

    def __init__(self) -> None:
        self.newest = MIN_WATERMARK
        self.seen = {"markers": 0}

    def on_event(self, event: Event, event_timestamp: int, output: WatermarkOutput) -> None:
        if event[1] != 5:
            self.newest = max(self.newest, event_timestamp)
            return
        self.seen["markers"] += 1
        if self.seen["markers"] % 3 == 0:
            output.emit_watermark(self.newest)


class Periodic(WatermarkGenerator):
    """The median of the last three timestamps; its state is not its fields."""

    def __init__(self) -> None:
        self._last: tuple[int, ...] = ()

    def on_event(self, event: Event, event_timestamp: int, output: WatermarkOutput) -> None:
        self._last = (*self._last, event_timestamp)[-3:]

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if len(self._last) == 3:
            output.emit_watermark(sorted(self._last)[1])

    def snapshot_state(self) -> list[int]:
        return list(self._last)

    def restore_state(self, state: list[int]) -> None:
        self._last = tuple(state)


GENERATORS: dict[str, type[WatermarkGenerator]] = {"punctuated": Punctuated, "periodic": Periodic}


class Told(KeyedProcessFunction):
    """Tells each record with the watermark that it meets."""

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield *value, ctx.timer_service().current_watermark()


class ToldUnkeyed(ProcessFunction):
    """As :class:`Told`, on a stream without keys."""

    def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield *value, ctx.timer_service().current_watermark()


class Same(KeyedProcessFunction):
    """Gives what it gets."""

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        yield value


def expected(split: list[Event], generator: WatermarkGenerator) -> list[Any]:
    output, found = WatermarkOutput(), []
    for event in split:
        found.append(((*event, output.watermark), event[2]))
        generator.on_event(event, event[2], output)
        generator.on_periodic_emit(output)
    return found


@examples(40, split=events, kind=st.sampled_from(sorted(GENERATORS)), cut=cuts)
def test_of_a_source(split: list[Event], kind: str, cut: Cut) -> None:
    def build(job: Job) -> None:
        strategy = WatermarkStrategy.for_generator(GENERATORS[kind])
        source = job.env.from_source(ScriptedSource([split], cut), strategy, "in").uid("in")
        source.set_parallelism(job.parallelism())
        job.sink("out", job.keyed("told", source.key_by(lambda event: event[0]).process(Told(), RESULT)))

    assert per_key(run(build, cut)["out"]) == per_key(expected(split, GENERATORS[kind]()))


@examples(25, split=events, kind=st.sampled_from(sorted(GENERATORS)), cut=cuts)
def test_in_the_middle_of_a_stream(split: list[Event], kind: str, cut: Cut) -> None:
    """It sees what the operators before it have made, and a function in its own task sees what it makes."""

    def build(job: Job) -> None:
        strategy = WatermarkStrategy.for_generator(GENERATORS[kind])
        source = job.env.from_source(ScriptedSource([split], cut), WatermarkStrategy.no_watermarks(), "in").uid("in")
        halved = source.filter(lambda event: event[1] != 0).map(lambda event: (event[0], event[1], event[2] * 2), EVENT)
        timed = halved.assign_timestamps_and_watermarks(
            strategy.with_timestamp_assigner(lambda event, _: event[2])
        ).uid("times")
        job.sink("out", timed.process(ToldUnkeyed(), RESULT))

    kept = [(key, value, time * 2) for key, value, time in split if value != 0]
    assert run(build, cut)["out"] == expected(kept, GENERATORS[kind]())


@examples(25, split=events, kind=st.sampled_from(sorted(GENERATORS)), cut=cuts)
def test_behind_a_shuffle(split: list[Event], kind: str, cut: Cut) -> None:
    """The memory of a generator is that of its subtask there, and the job goes on with it."""

    def build(job: Job) -> None:
        strategy = WatermarkStrategy.for_generator(GENERATORS[kind])
        source = job.env.from_source(ScriptedSource([split], cut), WatermarkStrategy.no_watermarks(), "in").uid("in")
        together = source.key_by(lambda _: 0, Types.LONG()).process(Same(), EVENT).uid("together")
        timed = together.set_parallelism(1).assign_timestamps_and_watermarks(strategy).uid("times").set_parallelism(1)
        job.sink("out", timed.process(ToldUnkeyed(), RESULT).set_parallelism(1))

    assert run(build, cut)["out"] == expected(split, GENERATORS[kind]())
