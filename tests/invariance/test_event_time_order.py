"""Two inputs in event-time order: a function sees the same, and in the same order, however the input is cut.

Compared with a model that sorts all records by their timestamps and goes through them one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from headrace.common.typeinfo import Types
from headrace.datastream import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    RuntimeContext,
)
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.invariance.driver import Cut, Event, Job, deaths, examples, multiset, per_key, run
from tests.invariance.test_two_inputs import DISORDER, splits_in_bounds

SUMS = MapStateDescriptor("sums", Types.STRING(), Types.LONG())
RECORDS = ValueStateDescriptor("records", Types.LONG())
SEEN = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])


class Story(KeyedCoProcessFunction):
    """All that happens to a key, in order; a timer at each record of the first input says how much came before it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value[2] + value[1])
        return self.told("first", value[0], value[1])

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        return self.told("second", value[0], value[1])

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        return self.told(f"timer at {ctx.timer_service().current_watermark()}", ctx.get_current_key(), timestamp)

    def told(self, what: str, key: str, value: int) -> Iterator[Any]:
        self.seen.add(value)
        yield key, f"{what} {len(list(self.seen))}", value


def stories(first: Sequence[Event], second: Sequence[Event]) -> dict[str, list[Any]]:
    """What the model says of each key."""
    happens: dict[str, list[tuple[int, int, str, int]]] = defaultdict(list)
    for turn, events in enumerate((first, second)):
        for key, value, time in events:
            happens[key].append((time, turn, ("first", "second")[turn], value))
    for key, value, time in set(first):
        timer = (time + value, 2, f"timer at {time + value}", time + value)
        if timer not in happens[key]:
            happens[key].append(timer)
    return {
        key: [
            (key, f"{what} {number}", value, time)
            for number, (time, _, what, value) in enumerate(sorted(of_key, key=lambda one: one[:2]), 1)
        ]
        for key, of_key in happens.items()
        if of_key
    }


one_split = splits_in_bounds(1).map(lambda splits: splits[0])


@examples(25, first=one_split, second=one_split, is_batch=st.booleans(), cut=deaths)
def test_what_happens_to_a_key(first: list[Event], second: list[Event], is_batch: bool, cut: Cut) -> None:
    """Records of one split keep their order, so the whole story of each key is known."""

    def build(job: Job) -> None:
        one, other = (
            job.source(name, [events], DISORDER).key_by("f0") for name, events in (("first", first), ("second", second))
        )
        told = one.connect(other).in_event_time_order().process(Story(), SEEN)
        job.sink("out", job.keyed("story", told))

    assert per_key(run(build, cut, is_batch=is_batch)["out"]) == stories(first, second)


class BothStreams(CoProcessFunction):
    """Both streams without keys, as the function sees them; with the event time at each record."""

    def process_element1(self, value: Event, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value[0], f"first at {ctx.timer_service().current_watermark()}", value[1]

    def process_element2(self, value: Event, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value[0], f"second at {ctx.timer_service().current_watermark()}", value[1]


@examples(12, first=one_split, second=one_split, is_batch=st.booleans(), cut=deaths)
def test_one_subtask_without_keys(first: list[Event], second: list[Event], is_batch: bool, cut: Cut) -> None:
    """It sees all records of both streams, in one order."""

    def build(job: Job) -> None:
        one, other = (job.source(name, [events], DISORDER) for name, events in (("first", first), ("second", second)))
        told = one.connect(other).in_event_time_order().process(BothStreams(), SEEN)
        job.sink("out", told.uid("sequence").set_parallelism(1))

    happens = [(event, "first") for event in first] + [(event, "second") for event in second]
    expected = [
        ((key, f"{which} at {time - 1}", value), time)
        for (key, value, time), which in sorted(happens, key=lambda one: one[0][2])
    ]
    assert run(build, cut, is_batch=is_batch)["out"] == expected


class Summed(KeyedBroadcastProcessFunction):
    """Each record, and a timer of it, with the sum that was broadcast for its key by then."""

    def process_broadcast_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.Context) -> list[Any]:
        sums = ctx.get_broadcast_state(SUMS)
        sums.put(value[0], (sums.get(value[0]) or 0) + value[1])
        ctx.apply_to_keyed_state(RECORDS, lambda key, records: records.update(records.value() + 1))
        return []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.records = runtime_context.get_state(RECORDS)

    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value[2] + value[1])
        self.records.update(self.records.value() or 0)
        yield value[0], f"record {self.sum_of(value[0], ctx)}", self.records.value()

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        key = ctx.get_current_key()
        yield key, f"timer {self.sum_of(key, ctx)}", self.records.value()

    def sum_of(self, key: str, ctx: Any) -> int | None:
        found: int | None = ctx.get_broadcast_state(SUMS).get(key)
        return found


class SummedWithoutKeys(BroadcastProcessFunction):
    """Each record with the sum that was broadcast for its first field by then."""

    def process_broadcast_element(self, value: Event, ctx: BroadcastProcessFunction.Context) -> list[Any]:
        sums = ctx.get_broadcast_state(SUMS)
        sums.put(value[0], (sums.get(value[0]) or 0) + value[1])
        return []

    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield value[0], f"record {ctx.get_broadcast_state(SUMS).get(value[0])}", ctx.current_watermark()


@examples(12, records=splits_in_bounds(2), broadcast=splits_in_bounds(2), is_batch=st.booleans(), cut=deaths)
def test_what_is_broadcast_to_records_without_keys(
    records: list[list[Event]], broadcast: list[list[Event]], is_batch: bool, cut: Cut
) -> None:
    """In whichever subtask a record waits, and wherever it goes on to wait when their number changes."""

    def build(job: Job) -> None:
        sums = job.source("broadcast", broadcast, DISORDER).broadcast(SUMS)
        ordered = job.source("records", records, DISORDER).connect(sums).in_event_time_order()
        job.sink("out", job.keyed("summed", ordered.process(SummedWithoutKeys(), SEEN)))

    told = []
    for key, _, time in [event for split in records for event in split]:
        by_then = [value for split in broadcast for one, value, at in split if one == key and at <= time]
        told.append(((key, f"record {sum(by_then) if by_then else None}", time - 1), time))
    assert multiset(run(build, cut, is_batch=is_batch)["out"]) == multiset(told)


def summed(records: Sequence[Event], broadcast: Sequence[Event]) -> list[Any]:
    """What the model says of each record and each timer."""
    first = {key: min(time for one, _, time in records if one == key) for key, _, _ in records}
    told = []
    for what, key, at in [
        *(("record", key, time) for key, _, time in records),
        *{("timer", key, time + value) for key, value, time in records},
    ]:
        by_then = [value for one, value, time in broadcast if one == key and time <= at]
        changes = sum(first[key] < time <= at for _, _, time in broadcast)
        told.append(((key, f"{what} {sum(by_then) if by_then else None}", changes), at))
    return told


@examples(25, records=splits_in_bounds(2), broadcast=splits_in_bounds(2), is_batch=st.booleans(), cut=deaths)
def test_what_is_broadcast(records: list[list[Event]], broadcast: list[list[Event]], is_batch: bool, cut: Cut) -> None:
    """It takes effect in event time, in all subtasks, whatever is read together."""

    def build(job: Job) -> None:
        keyed = job.source("records", records, DISORDER).key_by("f0")
        sums = job.source("broadcast", broadcast, DISORDER).broadcast(SUMS)
        job.sink("out", job.keyed("summed", keyed.connect(sums).in_event_time_order().process(Summed(), SEEN)))

    expected = summed(
        [event for split in records for event in split], [event for split in broadcast for event in split]
    )
    assert multiset(run(build, cut, is_batch=is_batch)["out"]) == multiset(expected)
