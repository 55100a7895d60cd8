"""Functions of two streams give what Flink's own tests of its operators for them ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.common import Types
from headrace.datastream import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    RuntimeContext,
)
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.datastream.time_domain import TimeDomain
from headrace.testing import JobHarness

STRING, LONG = Types.STRING(), Types.LONG()
SOURCES = ("first", "second")
STATE = MapStateDescriptor("broadcast-state", STRING, LONG)
NAMES = MapStateDescriptor("broadcast-state-A", LONG, STRING)


def connected(function: Any, *, keyed: bool = True) -> Callable[[JobHarness], None]:
    """A job with a function of numbers and of texts, in one subtask."""

    def build(job: JobHarness) -> None:
        first, second = (job.add_source(name, type_) for name, type_ in zip(SOURCES, (LONG, STRING), strict=True))
        both = first.connect(second)
        both = both.key_by(str, lambda text: text, STRING) if keyed else both
        job.add_sink("out", both.process(function, STRING).uid("function"))

    return build


def broadcast(
    function: Any, *descriptors: MapStateDescriptor, keyed: bool = True, tags: tuple[OutputTag, ...] = ()
) -> Callable[[JobHarness], None]:
    """A job with a function of texts, and of numbers that are broadcast."""

    def build(job: JobHarness) -> None:
        texts, numbers = job.add_source("first", STRING), job.add_source("second", LONG)
        stream = texts.key_by(lambda text: text, STRING) if keyed else texts.rebalance()
        out = stream.connect(numbers.broadcast(*descriptors)).process(function, STRING).uid("function")
        job.add_sink("out", out)
        for tag in tags:
            job.add_sink(tag.tag_id, out.get_side_output(tag))

    return build


def advance(job: JobHarness, watermark: int) -> None:
    """Both streams, and no record after this is read together with one before it."""
    for name in SOURCES:
        job.advance_watermark(name, watermark)
    job.run_epoch()


class Keys(KeyedCoProcessFunction):
    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        yield f"{value},{ctx.get_current_key()}"

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        yield f"{value},{ctx.get_current_key()}"


def test_the_key_of_a_record_of_either_stream() -> None:
    with JobHarness(connected(Keys())) as job:
        job.push_all("first", [5, 6])
        job.push_all("second", ["hello", "world"])
        job.run_epoch()
        assert sorted(job.results("out")) == ["5,5", "6,6", "hello,hello", "world,world"]


class Clocks(CoProcessFunction):
    """The event time that both streams have reached, the clock, and the timestamp of the record."""

    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[str]:
        times = ctx.timer_service()
        yield f"{value} WM:{times.current_watermark()} PT:{times.current_processing_time()} TS:{ctx.timestamp()}"

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[str]:
        return self.process_element1(value, ctx)


@pytest.mark.parametrize("keyed", [False, True])
def test_what_time_it_is(keyed: bool) -> None:
    with JobHarness(connected(Clocks(), keyed=keyed)) as job:
        job.set_processing_time(17)
        advance(job, 17)
        job.push("first", 5, 12)
        job.run_epoch()
        job.set_processing_time(42)
        advance(job, 42)
        job.push("second", "6", 13)
        job.run_epoch()
        assert job.results_with_timestamps("out") == [("5 WM:17 PT:17 TS:12", 12), ("6 WM:42 PT:42 TS:13", 13)]


class Timers(KeyedCoProcessFunction):
    """Records of the first stream set a timer for 5, those of the second one for 6.

    Args:
        domain: the time that the timers are of.
    """

    def __init__(self, domain: TimeDomain) -> None:
        self.domain = domain

    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        self.set(5, ctx)
        yield f"INPUT1:{value}"

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        self.set(6, ctx)
        yield f"INPUT2:{value}"

    def set(self, time: int, ctx: KeyedCoProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        if self.domain is TimeDomain.EVENT_TIME:
            timers.register_event_time_timer(time)
        else:
            timers.register_processing_time_timer(time)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[str]:
        assert ctx.time_domain() is self.domain
        yield f"{ctx.get_current_key()}:1777"


def test_timers_of_event_time() -> None:
    with JobHarness(connected(Timers(TimeDomain.EVENT_TIME))) as job:
        job.push("first", 17, 42)
        job.push("second", "18", 42)
        job.run_epoch()
        assert sorted(job.results_with_timestamps("out")) == [("INPUT1:17", 42), ("INPUT2:18", 42)]
        advance(job, 5)
        advance(job, 6)
        assert job.results_with_timestamps("out")[2:] == [("17:1777", 5), ("18:1777", 6)]


def test_timers_of_processing_time() -> None:
    with JobHarness(connected(Timers(TimeDomain.PROCESSING_TIME))) as job:
        job.set_processing_time(0)
        job.push("first", 17)
        job.push("second", "18")
        job.run_epoch()
        for time in (5, 6):
            job.set_processing_time(time)
            job.run_epoch()
        assert job.results_with_timestamps("out")[2:] == [("17:1777", None), ("18:1777", None)]


class Seen(KeyedCoProcessFunction):
    """The first record of a key sets a timer, the next one deletes it; the timer tells the state of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen-element", STRING))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        return self.note(1, value, ctx)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        return self.note(2, value, ctx)

    def note(self, number: int, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        timers = ctx.timer_service()
        if self.seen.value() is None:
            self.seen.update(str(value))
            timers.register_event_time_timer(timers.current_watermark() + 5)
            yield f"INPUT{number}:{value}"
        else:
            self.seen.clear()
            timers.delete_event_time_timer(timers.current_watermark() + 4)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"STATE:{self.seen.value()}"


def test_keys_do_not_see_one_another() -> None:
    with JobHarness(connected(Seen())) as job:
        advance(job, 1)
        job.push_all("first", [17, 13], [1, 1])  # both set a timer for 6
        advance(job, 2)
        job.push("first", 13, 2)  # which deletes that of 13
        job.push("second", "42", 2)  # sets one for 7
        job.run_epoch()
        assert job.results("out") == ["INPUT1:17", "INPUT1:13", "INPUT2:42"]
        advance(job, 6)
        advance(job, 7)
        assert job.results_with_timestamps("out")[3:] == [("STATE:17", 6), ("STATE:42", 7)]


class BothTimers(KeyedCoProcessFunction):
    """A timer of each time, for records of each stream."""

    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(6)

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context) -> None:
        ctx.timer_service().register_processing_time_timer(5)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"{ctx.time_domain().name} {ctx.get_current_key()}"


def test_timers_of_both_times_after_a_restart() -> None:
    with JobHarness(connected(BothTimers())) as job:
        job.set_processing_time(0)
        job.push("first", 5, 12)
        job.push("second", "5", 12)
        job.run_epoch()
        held = job.checkpoint()
    with JobHarness(connected(BothTimers()), restore=held) as job:
        job.set_processing_time(5)
        advance(job, 6)
        assert job.results_with_timestamps("out") == [("PROCESSING_TIME 5", None), ("EVENT_TIME 5", 6)]


BROADCAST_SIDE, OTHER_SIDE = OutputTag("br-out", STRING), OutputTag("non-br-out", STRING)


def told(tag: OutputTag, what: str, ctx: Any, to_sides: bool) -> Iterator[Any]:
    """A record with the event time, in the main output or in a side output."""
    text = f"{what} WM:{ctx.current_watermark()} TS:{ctx.timestamp()}"
    yield (tag, text) if to_sides else text


class Told(BroadcastProcessFunction):
    """Records of both sides.

    Args:
        to_sides: whether they go to side outputs.
    """

    def __init__(self, to_sides: bool) -> None:
        self.to_sides = to_sides

    def process_broadcast_element(self, value: int, ctx: BroadcastProcessFunction.Context) -> Iterator[Any]:
        return told(BROADCAST_SIDE, f"BR:{value}", ctx, self.to_sides)

    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        return told(OTHER_SIDE, f"NON-BR:{value}", ctx, self.to_sides)


class KeyedTold(KeyedBroadcastProcessFunction):
    """The same by key, with a timer for 41."""

    def __init__(self, to_sides: bool) -> None:
        self.to_sides = to_sides

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        return told(BROADCAST_SIDE, f"BR:{value}", ctx, self.to_sides)

    def process_element(self, value: str, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(41)
        return told(OTHER_SIDE, f"NON-BR:{value}", ctx, self.to_sides)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[str]:
        assert ctx.get_current_key() == "6"
        yield f"TIMER:{timestamp}"


@pytest.mark.parametrize("to_sides", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_both_sides_of_a_broadcast_function(keyed: bool, to_sides: bool) -> None:
    function = (KeyedTold if keyed else Told)(to_sides)
    with JobHarness(broadcast(function, STATE, keyed=keyed, tags=(BROADCAST_SIDE, OTHER_SIDE))) as job:
        advance(job, 10)
        job.push("second", 5, 12)
        job.run_epoch()
        advance(job, 40)
        job.push_all("first", ["6", "6"], [13, 15])
        job.run_epoch()
        advance(job, 50)
        of_broadcast = [("BR:5 WM:10 TS:12", 12)]
        of_others = [("NON-BR:6 WM:40 TS:13", 13), ("NON-BR:6 WM:40 TS:15", 15)]
        of_timers = [("TIMER:41", 41)] if keyed else []
        sides = [job.results_with_timestamps(tag.tag_id) for tag in (BROADCAST_SIDE, OTHER_SIDE)]
        assert sides == ([of_broadcast, of_others] if to_sides else [[], []])
        main = of_timers if to_sides else of_broadcast + of_others + of_timers
        assert job.results_with_timestamps("out") == main


class Entries(KeyedBroadcastProcessFunction):
    """What is in the broadcast state when a record comes, and when its timer does."""

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(STATE).put(f"{value}.key", value)

    def process_element(self, value: str, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        ctx.timer_service().register_event_time_timer(41)
        yield f"{value} {dict(ctx.get_broadcast_state(STATE).items())}"

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"TS:{timestamp} {dict(ctx.get_broadcast_state(STATE).items())}"


def test_a_timer_sees_what_was_broadcast_after_it_was_set() -> None:
    with JobHarness(broadcast(Entries(), STATE)) as job:
        advance(job, 10)
        job.push_all("second", [5, 34, 53, 12, 98], [10, 12, 15, 16, 19])
        job.run_epoch()
        job.push("first", "trigger", 13)
        job.run_epoch()
        job.push("second", 51, 21)
        advance(job, 50)
        before = {f"{number}.key": number for number in (5, 34, 53, 12, 98)}
        assert job.results("out") == [f"trigger {before}", f"TS:41 {before | {'51.key': 51}}"]


TEXTS = ListStateDescriptor("listStateTest", STRING)


class Collected(KeyedBroadcastProcessFunction):
    """Keeps records by key; what is broadcast asks for all of them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.texts = runtime_context.get_list_state(TEXTS)

    def process_element(self, value: str, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        self.texts.add(value)

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[str]:
        found: list[str] = []
        ctx.apply_to_keyed_state(TEXTS, lambda key, texts: found.append(f"{key}: {len(list(texts.get()))}"))
        yield from found


def test_keyed_state_on_the_side_of_what_is_broadcast() -> None:
    with JobHarness(broadcast(Collected(), STATE)) as job:
        job.push_all("first", ["test1"] * 2 + ["test2"] * 3 + ["test3"] * 3 + ["test2"])
        job.run_epoch()
        job.push("second", 1)
        job.run_epoch()
        assert sorted(job.results("out")) == ["test1: 2", "test2: 4", "test3: 3"]


class TwoStates(BroadcastProcessFunction):
    def process_broadcast_element(self, value: int, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(STATE).put(f"key.{value}", value)
        ctx.get_broadcast_state(NAMES).put(value, f"value.{value}")

    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        for state in (STATE, NAMES):
            for key, held in ctx.get_broadcast_state(state).items():
                yield f"{value}:{key}->{held}"


def test_several_broadcast_states() -> None:
    with JobHarness(broadcast(TwoStates(), STATE, NAMES, keyed=False)) as job:
        job.push_all("second", [5, 6], [12, 13])
        job.run_epoch()
        job.push("first", "9", 15)
        job.run_epoch()
        assert job.results_with_timestamps("out") == [
            (text, 15) for text in ("9:key.5->5", "9:key.6->6", "9:5->value.5", "9:6->value.6")
        ]


class OfSubtask(BroadcastProcessFunction):
    """Which subtask has which state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_broadcast_element(self, value: int, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(STATE).put_all(dict.fromkeys(("test1", "test2", "test3"), value))

    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        yield f"{self.subtask}: {dict(ctx.get_broadcast_state(STATE).items())}"


@pytest.mark.parametrize(("before", "now"), [(2, 3), (3, 2)])
def test_all_subtasks_have_broadcast_state_at_another_parallelism(before: int, now: int) -> None:
    function = broadcast(OfSubtask(), STATE, keyed=False)
    with JobHarness(function, parallelism=before) as job:
        job.push("second", 3)
        job.run_epoch()
        held = job.checkpoint()
    with JobHarness(function, parallelism=now, restore=held) as job:
        job.push_all("first", ["trigger"] * now)  # one for each subtask
        job.run_epoch()
        expected = {"test1": 3, "test2": 3, "test3": 3}
        assert sorted(job.results("out")) == [f"{subtask}: {expected}" for subtask in range(now)]
