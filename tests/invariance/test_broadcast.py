"""Broadcast state against plain Python, where records and what is broadcast come in any order.

What is known when event time has come somewhere does not depend on that order, however the input is cut, lost and read
again. In event-time order more is known: ``test_event_time_order`` has that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from headrace.common import Types
from headrace.datastream import BroadcastProcessFunction, KeyedBroadcastProcessFunction, OutputTag, RuntimeContext
from headrace.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tests.invariance.driver import EVENT, Cut, Event, Job, deaths, examples, multiset, run
from tests.invariance.test_two_inputs import DISORDER, a_few_records_wait, splits_in_bounds

__all__ = ["a_few_records_wait"]
"""A fixture that every test here uses."""

RULES = MapStateDescriptor("rules", Types.TUPLE([Types.STRING(), Types.LONG()]), Types.LONG())
"""How many there are of a key and a time."""

TOLD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
RULE = OutputTag("rule", EVENT)


def add(rule: Event, ctx: Any) -> None:
    key, _, time = rule
    rules = ctx.get_broadcast_state(RULES)
    rules.put((key, time), (rules.get((key, time)) or 0) + 1)


def known(ctx: Any, until: int, key: str | None = None) -> int:
    """How many rules there are up to a time, of a key or of all."""
    found = ctx.get_broadcast_state(RULES).items()
    return sum(count for (of, time), count in found if time <= until and key in (None, of))


class ByKey(KeyedBroadcastProcessFunction):
    """At each record's timer: the rules of its key by then, and its records so far. One subtask tells of each rule."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.records = runtime_context.get_state(ValueStateDescriptor("records", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> list[Any]:
        self.records.update((self.records.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[2] + value[1])
        return []

    def process_broadcast_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        add(value, ctx)
        if self.subtask == 0:
            yield RULE, value

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        key = ctx.get_current_key()
        yield key, timestamp, known(ctx, timestamp, key), min(self.records.value() or 0, 1)


def timers_of(records: Sequence[Event], rules: Sequence[Event]) -> list[Any]:
    """What the model says of each timer."""
    return [
        ((key, timer, sum(of == key and time <= timer for of, _, time in rules), 1), timer)
        for key, timer in {(key, time + value) for key, value, time in records}
    ]


@examples(20, records=splits_in_bounds(2), rules=splits_in_bounds(2), is_batch=st.booleans(), cut=deaths)
def test_a_keyed_stream(records: list[list[Event]], rules: list[list[Event]], is_batch: bool, cut: Cut) -> None:
    def build(job: Job) -> None:
        keyed = job.source("records", records, DISORDER).key_by("f0")
        connected = keyed.connect(job.source("rules", rules, DISORDER).broadcast(RULES))
        told = job.keyed("function", connected.process(ByKey(), TOLD))
        job.sink("out", told)
        job.sink("rules", told.get_side_output(RULE))

    found, all_rules = run(build, cut, is_batch=is_batch), [rule for split in rules for rule in split]
    expected = timers_of([record for split in records for record in split], all_rules)
    assert multiset(found["out"]) == multiset(expected)
    assert multiset(found["rules"]) == multiset([(rule, rule[2]) for rule in all_rules])


class WithoutKeys(BroadcastProcessFunction):
    """At each record: how many rules there are up to the event time that it meets, and how many in all."""

    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        watermark = ctx.current_watermark()
        yield value[0], watermark, known(ctx, watermark), known(ctx, 1 << 62)

    def process_broadcast_element(self, value: Event, ctx: BroadcastProcessFunction.Context) -> None:
        add(value, ctx)


@examples(20, records=splits_in_bounds(2), rules=splits_in_bounds(2), is_batch=st.booleans(), cut=deaths)
def test_a_stream_without_keys(records: list[list[Event]], rules: list[list[Event]], is_batch: bool, cut: Cut) -> None:
    """A record meets all rules up to its watermark; in batch mode all that there are."""

    def build(job: Job) -> None:
        connected = job.source("records", records, DISORDER).connect(
            job.source("rules", rules, DISORDER).broadcast(RULES)
        )
        job.sink("out", job.keyed("function", connected.process(WithoutKeys(), TOLD)))

    found, times = run(build, cut, is_batch=is_batch)["out"], [rule[2] for split in rules for rule in split]
    for (_, watermark, by_then, in_all), _ in found:
        assert by_then == sum(time <= watermark for time in times)
        assert by_then <= in_all <= len(times)
        assert in_all == len(times) or not is_batch
    shown = [((row[0],), time) for row, time in found]
    assert multiset(shown) == multiset([((key,), time) for split in records for key, _, time in split])
