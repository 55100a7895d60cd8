"""Operators with two inputs. Branches of one stream: records come in the order in which they set out.

Of streams of different sources: whatever the order, time is that of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from headrace.common.typeinfo import Types
from headrace.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    RuntimeContext,
)
from headrace.datastream.state import MapStateDescriptor, ValueStateDescriptor
from headrace.operators import process
from headrace.operators.process import KeyedProcessOperator, ProcessOperator
from tests.invariance import test_rolling
from tests.invariance.driver import EVENT, Cut, Event, Job, cuts, deaths, examples, multiset, per_key, run
from tests.invariance.test_branches import Branch, bounds, branches, one_split

NOTHING = -1
BY_SECOND = 1000
"""What is added to the value of a record that came by the second input."""


@pytest.fixture(autouse=True)
def a_few_records_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_CALLED", 3)
    monkeypatch.setattr(process, "MOST_CALLED", 3)


two_ways = st.lists(branches, min_size=2, max_size=2)


class Latest(KeyedCoProcessFunction):
    """Records of the first input with the value that the second one had last for their key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.LONG()))

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Event]:
        latest = self.latest.value()
        yield value[0], NOTHING if latest is None else latest, value[2]

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> list[Event]:
        self.latest.update(value[1])
        return []


class Mark(CoMapFunction):
    """The records of both inputs; those of the second are marked."""

    def map1(self, value: Event) -> Event:
        return value

    def map2(self, value: Event) -> Event:
        key, number, time = value
        return key, number + BY_SECOND, time


def by_both(events: Sequence[Event], ways: Sequence[Branch]) -> list[tuple[int, Event]]:
    """What comes by which input, in the order in which it set out."""
    return [
        (index, event)
        for event in events
        for index, way in enumerate(ways)
        if way.keeps_all(event)
        for _ in range(way.copies)
    ]


@examples(
    20,
    600,
    values=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9)), max_size=40),
    ways=two_ways,
    cut=cuts,
)
def test_keyed_inputs(values: list[tuple[str, int]], ways: list[Branch], cut: Cut) -> None:
    """Each record sees what was set before it, wherever epochs, pieces and batches end.

    Each record has a watermark of its own: behind a shuffle, records that meet the same one come input by input.
    """
    ways = [replace(way, bound=None) for way in ways]
    events = [(key, value, time) for time, (key, value) in enumerate(values)]

    def build(job: Job) -> None:
        stream = job.source("events", [events], 0)
        first, second = (way.build(stream).key_by("f0") for way in ways)
        job.sink("out", job.keyed("latest", first.connect(second).process(Latest(), EVENT)))

    latest: dict[str, int] = {}
    expected = []
    for index, (key, value, time) in by_both(events, ways):
        if index == 0:
            expected.append((key, latest.get(key, NOTHING), time))
        else:
            latest[key] = value
    found = [(record, 0) for record, _ in run(build, cut)["out"]]
    assert multiset(found) == multiset([(record, 0) for record in expected])


@examples(20, 600, events=one_split, bound=bounds, ways=two_ways, is_behind=st.booleans(), cut=cuts)
def test_inputs_within_a_chain(events: list[Event], bound: int, ways: list[Branch], is_behind: bool, cut: Cut) -> None:
    """Before a shuffle and behind one; the order shows in what a function of two records makes of them."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound)
        if is_behind:
            stream = stream.key_by("f0").reduce(lambda _, event: event).set_parallelism(1).uid("behind")
        first, second = (way.build(stream) for way in ways)
        marked = first.connect(second).map(Mark(), EVENT)
        job.sink("out", job.keyed("reduce", marked.key_by(lambda event: event[0]).reduce(test_rolling.combine)))

    marked = [(key, value + BY_SECOND * index, time) for index, (key, value, time) in by_both(events, ways)]
    found = {key: [row[:3] for row in rows] for key, rows in per_key(run(build, cut)["out"]).items()}
    assert found == {key: [row[:3] for row in rows] for key, rows in test_rolling.expected(marked).items()}


DISORDER = 5
"""How far a record may be behind the newest one before it."""


def splits_in_bounds(number: int) -> st.SearchStrategy[list[list[Event]]]:
    """Splits whose records are never late."""
    steps = st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.integers(0, 4), st.integers(0, DISORDER))
    return st.lists(st.lists(steps, max_size=15).map(at_times), min_size=1, max_size=number)


def at_times(steps: Sequence[tuple[str, int, int, int]]) -> list[Event]:
    """Events of steps: the key, the value, by how much time goes on, and how far the event is behind."""
    newest, events = 0, []
    for key, value, step, behind in steps:
        newest += step
        events.append((key, value, newest - behind))
    return events


class MapNumbers(CoMapFunction):
    """The number of each record among all of its key; those of the second stream that are even are left out."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map1(self, value: Event) -> Event:
        return value[0], self.number(), 1

    def map2(self, value: Event) -> Event | None:
        number = self.number()
        return None if value[1] % 2 == 0 else (value[0], number, 2)

    def number(self) -> int:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        return number


class FlatMapNumbers(CoFlatMapFunction):
    """The same, with as many copies of a record of the second stream as its value says."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.numbers = MapNumbers()
        self.numbers.open(runtime_context)

    def flat_map1(self, value: Event) -> list[Event]:
        return [(value[0], self.numbers.number(), 1)]

    def flat_map2(self, value: Event) -> list[Event]:
        return [(value[0], self.numbers.number(), 2)] * value[1]


@examples(15, first=splits_in_bounds(2), second=splits_in_bounds(2), is_flat=st.booleans(), cut=deaths)
def test_state_of_single_records(first: list[list[Event]], second: list[list[Event]], is_flat: bool, cut: Cut) -> None:
    """Whatever the order of both streams is: each record counts once."""

    def build(job: Job) -> None:
        sources = [job.source(name, splits, DISORDER) for name, splits in (("first", first), ("second", second))]
        one, other = (source.key_by(lambda event: event[0]) for source in sources)
        both = one.connect(other)
        job.sink(
            "out",
            job.keyed("numbers", both.flat_map(FlatMapNumbers(), EVENT) if is_flat else both.map(MapNumbers(), EVENT)),
        )

    found = [row for row, _ in run(build, cut)["out"]]
    events = [[event for split in splits for event in split] for splits in (first, second)]
    copies = [event[1] if is_flat else event[1] % 2 for event in events[1]]
    assert sorted(row[0] for row in found if row[2] == 1) == sorted(event[0] for event in events[0])
    assert sum(row[2] == 2 for row in found) == sum(copies)
    for key in {event[0] for of_stream in events for event in of_stream}:
        count = sum(event[0] == key for of_stream in events for event in of_stream)
        silent = sum(event[0] == key and not copy for event, copy in zip(events[1], copies, strict=True))
        numbers = [row[1] for row in found if row[0] == key]
        assert len(set(numbers)) == count - silent
        assert set(numbers) <= set(range(1, count + 1))


class LatestOfAll(CoProcessFunction):
    """As :class:`Latest`, of a subtask without keys; good for one epoch."""

    latest = NOTHING

    def process_element1(self, value: Event, ctx: CoProcessFunction.Context) -> Iterator[Event]:
        yield value[0], self.latest, value[2]

    def process_element2(self, value: Event, ctx: CoProcessFunction.Context) -> None:
        self.latest = value[1]


LATEST = MapStateDescriptor("latest", Types.STRING(), Types.LONG())


class LatestRule(BroadcastProcessFunction):
    """As :class:`Latest`, of a stream that is broadcast."""

    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Event]:
        latest = ctx.get_broadcast_state(LATEST).get(value[0])
        yield value[0], NOTHING if latest is None else latest, value[2]

    def process_broadcast_element(self, value: Event, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(LATEST).put(value[0], value[1])


def keyed_latest(first: DataStream, second: DataStream) -> DataStream:
    return first.key_by("f0").connect(second.key_by("f0")).process(Latest(), EVENT)


def latest_of_all(first: DataStream, second: DataStream) -> DataStream:
    return first.global_().connect(second.global_()).process(LatestOfAll(), EVENT)


def latest_rule(first: DataStream, second: DataStream) -> DataStream:
    return first.global_().connect(second.broadcast(LATEST)).process(LatestRule(), EVENT)


@pytest.mark.parametrize(
    ("connected", "operator"),
    [(keyed_latest, KeyedProcessOperator), (latest_of_all, ProcessOperator), (latest_rule, ProcessOperator)],
)
def test_streams_that_take_turns_are_handed_over_together(
    connected: Callable[[DataStream, DataStream], DataStream], operator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record has a watermark of its own, so those of two sources come one by one: that took a call for each."""
    handed_over = []
    call = operator._call

    def watched(self: Any, called: Any, *batch: Any) -> None:
        records = list(called)
        handed_over.append(len(records))
        call(self, records, *batch)

    monkeypatch.setattr(process, "MOST_CALLED", 64)
    monkeypatch.setattr(process, "MOST_CALLED", 64)
    monkeypatch.setattr(operator, "_call", watched)
    events = [[("a", 0, 2 * place + number) for place in range(100)] for number in range(2)]

    def build(job: Job) -> None:
        first, second = (job.source(f"in {number}", [split], 0) for number, split in enumerate(events))
        job.sink("out", job.keyed("latest", connected(first, second)))

    assert sorted(run(build)["out"]) == [(("a", 0 if time else NOTHING, time), time) for time in range(0, 200, 2)]
    assert handed_over == [64, 64, 64, 8]


# --- broadcast state, where records and what is broadcast come in any order ------------------------------------------

RULES = MapStateDescriptor("rules", Types.TUPLE([Types.STRING(), Types.LONG()]), Types.LONG())
"""How many there are of a key and a time."""

TOLD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])


def add(rule: Event, ctx: Any) -> None:
    key, _, time = rule
    rules = ctx.get_broadcast_state(RULES)
    rules.put((key, time), (rules.get((key, time)) or 0) + 1)


def known(ctx: Any, until: int) -> int:
    """How many rules there are up to a time."""
    return sum(count for (_, time), count in ctx.get_broadcast_state(RULES).items() if time <= until)


class WithoutKeys(BroadcastProcessFunction):
    """At each record: how many rules there are up to the event time that it meets, and how many in all."""

    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        watermark = ctx.current_watermark()
        yield value[0], watermark, known(ctx, watermark), known(ctx, 1 << 62)

    def process_broadcast_element(self, value: Event, ctx: BroadcastProcessFunction.Context) -> None:
        add(value, ctx)


@examples(20, records=splits_in_bounds(2), rules=splits_in_bounds(2), is_batch=st.booleans(), cut=deaths)
def test_a_stream_without_keys_meets_rules(
    records: list[list[Event]], rules: list[list[Event]], is_batch: bool, cut: Cut
) -> None:
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
