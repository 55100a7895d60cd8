"""Programs that are drawn at random: what each operator makes of its records is told beside it, in plain Python.

No record is late in its split, and no operator goes by the order in which records of several splits come. So what a
program gives follows from its records alone, whatever happens to it. Records are (key, value, time).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from random import Random
from typing import Any, Final

from headrace.common import Duration, Types
from headrace.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.window import (
    GlobalWindows,
)
from tests.invariance.driver import EVENT, Event, Job
from tests.invariance.random_steps import (
    HOW,
    MOST_RECORDS,
    SELECTED,
    SIDE,
    Asked,
    CoGroup,
    Copies,
    Map,
    SideOutput,
    Step,
    Union,
    WindowJoin,
    Windows,
    by_key,
    folded,
    of_keys,
    of_selected,
    paired,
    stamped,
)

# --- functions with state and timers ---------------------------------------------------------------------------------


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Event]:
        yield paired(left, right)


class IntervalJoin(Step):
    reads = 2

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        one, other = (stream.key_by("f0") for stream in streams)
        joined = one.interval_join(other, self._how).between(*self._interval)
        if self.chance[1] // 4 % 2:
            return stamped(job.keyed(uid, joined.select(*SELECTED)).map(of_selected, EVENT))
        return stamped(job.keyed(uid, joined.process(Pair(), output_type=EVENT)))

    def model(self, *streams: list[Event]) -> list[Event]:
        lower, upper = self._interval
        found = [(one, other) for one in streams[0] for other in streams[1] if self._match(one, other)]
        shown = [(*paired(one, other)[:2], max(one[2], other[2])) for one, other in found]
        if self._how in ("left", "outer"):
            lonely = [one for one in streams[0] if not any(self._match(one, other) for other in streams[1])]
            shown += [(*paired(one, None)[:2], one[2] + max(0, upper)) for one in lonely]
        if self._how in ("right", "outer"):
            lonely = [other for other in streams[1] if not any(self._match(one, other) for one in streams[0])]
            shown += [(*paired(None, other)[:2], other[2] + max(0, -lower)) for other in lonely]
        return shown

    def _match(self, one: Event, other: Event) -> bool:
        return one[0] == other[0] and self._interval[0] <= other[2] - one[2] <= self._interval[1]

    @property
    def _interval(self) -> tuple[int, int]:
        lower = self.chance[0] % 21 - 10
        return lower, lower + self.chance[1] // 8

    @property
    def _how(self) -> str:
        return HOW[self.chance[1] % 4]


_TTLS: Final = [
    None,
    StateTtlConfig.new_builder(Duration.of_days(1)).build(),
    StateTtlConfig.new_builder(Duration.of_days(1)).use_event_time().build(),
]
"""Nothing expires: the clock stands still, and event time comes to a few seconds."""


class Met(KeyedCoProcessFunction):
    """At each record's timer: a number of the records of either input that have come to its key by that time."""

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        self._ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptors = [ListStateDescriptor(name, Types.TUPLE([Types.LONG()] * 2)) for name in ("first", "second")]
        for descriptor in descriptors if self._ttl is not None else ():
            descriptor.enable_time_to_live(self._ttl)
        self.seen = [runtime_context.get_list_state(descriptor) for descriptor in descriptors]

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> list[Any]:
        return self.note(0, value, ctx)

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> list[Any]:
        return self.note(1, value, ctx)

    def note(self, number: int, value: Event, ctx: Any) -> list[Any]:
        self.seen[number].add(value[1:])
        ctx.timer_service().register_event_time_timer(timer_of(value))
        return []

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), at_timer(timestamp, *(list(seen.get()) for seen in self.seen)), 0


def timer_of(event: Event) -> int:
    return event[2] + event[1] % 10


def at_timer(timer: int, *streams: Sequence[Any]) -> int:
    """A number of what came by the time of a timer: (value, time)."""
    return folded(*(part for seen in streams for part in sorted(value for value, time in seen if time <= timer)))


class CoProcess(Step):
    reads = 2

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        one, other = (stream.key_by("f0") for stream in streams)
        return stamped(job.keyed(uid, one.connect(other).process(Met(_TTLS[self.chance[0] % 3]), EVENT)))

    def model(self, *streams: list[Event]) -> list[Event]:
        return [
            (key, at_timer(timer, *([event[1:] for event in events] for events in of_key)), timer)
            for key, of_key in of_keys(*streams)
            for timer in {timer_of(event) for events in of_key for event in events}
        ]


class Timers(KeyedProcessFunction):
    """At each record's timer: a number of the records of its key by that time; each fires once."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.TUPLE([Types.LONG()] * 2), Types.LONG())
        )

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> list[Any]:
        self.seen.put(value[1:], (self.seen.get(value[1:]) or 0) + 1)
        ctx.timer_service().register_event_time_timer(timer_of(value))
        return []

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        seen = [entry for entry, number in self.seen.items() for _ in range(number)]
        yield ctx.get_current_key(), at_timer(timestamp, seen), 0


class Process(Step):
    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        return stamped(job.keyed(uid, streams[0].key_by("f0").process(Timers(), EVENT)))

    def model(self, *streams: list[Event]) -> list[Event]:
        return CoProcess((), (0, 0)).model(streams[0])


RULES: Final = MapStateDescriptor("rules", Types.TUPLE([Types.STRING(), Types.LONG()]), Types.LONG())


class ByRules(KeyedBroadcastProcessFunction):
    """At each record's timer: how many rules there are for its key by then. One subtask tells of each rule."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> list[Any]:
        ctx.timer_service().register_event_time_timer(timer_of(value))
        return []

    def process_broadcast_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.Context) -> list[Any]:
        rules = ctx.get_broadcast_state(RULES)
        rules.put((value[0], value[2]), (rules.get((value[0], value[2])) or 0) + 1)
        return [(SIDE, value)] if self.subtask == 0 else []

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        key, rules = ctx.get_current_key(), ctx.get_broadcast_state(RULES).items()
        yield key, sum(number for (of, time), number in rules if of == key and time <= timestamp), 0


class Broadcast(Step):
    reads = 2

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        connected = streams[0].key_by("f0").connect(streams[1].broadcast(RULES))
        told = job.keyed(uid, connected.process(ByRules(), EVENT))
        return told.get_side_output(SIDE) if self.chance[0] % 4 == 3 else stamped(told)

    def model(self, *streams: list[Event]) -> list[Event]:
        if self.chance[0] % 4 == 3:
            return streams[1]
        timers = {(event[0], timer_of(event)) for event in streams[0]}
        return [
            (key, len([rule for rule in streams[1] if rule[0] == key and rule[2] <= timer]), timer)
            for key, timer in timers
        ]


class Before(KeyedCoProcessFunction):
    """Each record of the first input, with what the second one had for its key before that time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Event]:
        yield value[0], folded(value[1], self.sum.value() or 0), value[2]

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> list[Any]:
        self.sum.update((self.sum.value() or 0) + value[1])
        return []


class InOrder(Step):
    """In event-time order; of one timestamp the first input comes first."""

    reads = 2

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        one, other = (stream.key_by("f0") for stream in streams)
        return stamped(job.keyed(uid, one.connect(other).in_event_time_order().process(Before(), EVENT)))

    def model(self, *streams: list[Event]) -> list[Event]:
        return [
            (key, folded(value, sum(v for of, v, at in streams[1] if of == key and at < time)), time)
            for key, value, time in streams[0]
        ]


# --- operators that see the order of records, of which their last results do not tell ---------------------------------


class Totals(Step):
    """What rolling sums come to."""

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        rolling = job.keyed(uid, streams[0].key_by("f0").sum("f1"))
        last = rolling.key_by("f0").window(GlobalWindows.create_with_end_of_stream_trigger())
        results = job.keyed(f"{uid}-last", last.reduce(lambda one, other: max(one, other, key=itemgetter(1))))
        return results.map(lambda event: (event[0], event[1], 0), EVENT)

    def model(self, *streams: list[Event]) -> list[Event]:
        return [(key, sum(event[1] for event in events), 0) for key, events in by_key(streams[0])]


class Length(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Event]) -> Iterator[Event]:
        yield key, len(list(elements)), 0


class Full(Step):
    """Windows of two records."""

    def build(self, job: Job, uid: str, *streams: DataStream) -> DataStream:
        return job.keyed(uid, streams[0].key_by("f0").count_window(2).process(Length(), EVENT))

    def model(self, *streams: list[Event]) -> list[Event]:
        return [(key, 2, 0) for key, events in by_key(streams[0]) for _ in range(len(events) // 2)]


# --- programs --------------------------------------------------------------------------------------------------------

STEPS: Final[list[type[Step]]] = [Map, Copies, SideOutput, Union, Asked, *[Windows] * 3, *[WindowJoin] * 2, CoGroup]
STEPS.extend([IntervalJoin, IntervalJoin, CoProcess, Process, Broadcast, InOrder])
ENDS: Final[list[type[Step]]] = [Totals, Full]


@dataclass(frozen=True)
class Program:
    """A program and what it reads.

    Attributes:
        sources: of each source the splits, and by how many milliseconds records may be behind.
        steps: the operators, each of which reads sources and operators before it.
        streams: what each of them gives, as the model says.
    """

    sources: list[tuple[list[list[Event]], int]]
    steps: list[Step]
    streams: list[list[Event]]

    def build(self, job: Job, name: str = "") -> None:
        """Puts it into a job; all names begin with ``name``."""
        found = [job.source(f"{name}source{n}", splits, bound) for n, (splits, bound) in enumerate(self.sources)]
        for number, step in enumerate(self.steps):
            found.append(step.build(job, f"{name}step{number}", *(found[place] for place in step.inputs)))
        for place in self.shown:
            job.sink(f"{name}{place}", found[place])

    @property
    def shown(self) -> list[int]:
        """The streams that nobody reads."""
        read = {place for step in self.steps for place in step.inputs}
        return [place for place in range(len(self.streams)) if place not in read]

    def expected(self, name: str = "") -> dict[str, list[Event]]:
        """What reaches each sink that gets something, in order."""
        return {f"{name}{place}": sorted(self.streams[place]) for place in self.shown if self.streams[place]}


def random_program(chance: Random) -> Program:
    """A program; the same for the same numbers."""
    sources = [_source(chance) for _ in range(chance.randint(1, 2))]
    streams = [[event for split in splits for event in split] for splits, _ in sources]
    steps: list[Step] = []
    for _ in range(chance.randint(1, 6)):
        _append(chance.choice(STEPS), chance, steps, streams)
    if chance.random() < 0.3:
        _append(chance.choice(ENDS), chance, steps, streams)
    return Program(sources, steps, streams)


def _append(kind: type[Step], chance: Random, steps: list[Step], streams: list[list[Event]]) -> None:
    places = range(len(streams))[-4:]
    step = kind(tuple(chance.choice(places) for _ in range(kind.reads)), (chance.randrange(84), chance.randrange(84)))
    results = step.model(*(streams[place] for place in step.inputs))
    if len(results) <= MOST_RECORDS:
        steps.append(step)
        streams.append(results)


def _source(chance: Random) -> tuple[list[list[Event]], int]:
    bound = chance.choice([0, 5, 10])
    return [_split(chance, bound) for _ in range(chance.randint(1, 3))], bound


def _split(chance: Random, bound: int) -> list[Event]:
    """Records that are seldom anywhere but at multiples of what windows and gaps are long."""
    newest, events = chance.choice([-10, 0, 0, 5]), []
    for _ in range(chance.randint(0, 10)):
        newest += chance.choice([0, 0, 5, 5, 10, 15, 1])
        events.append((chance.choice("ab"), chance.randrange(10), newest - chance.choice([0, 0, bound])))
    return events
