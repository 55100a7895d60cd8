"""Streams that every subtask gets as a whole, and the state that is kept of them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.common import Configuration, Time, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import (
    BroadcastProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.testing import JobHarness

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
OTHERS = MapStateDescriptor("others", Types.STRING(), Types.LONG())
TOTAL = ValueStateDescriptor("total", Types.LONG())
SIDE = OutputTag("side", str)
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Ruled(BroadcastProcessFunction):
    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        yield f"{value}: {rules.get(value)} of {sorted(rules.items())}"
        yield SIDE, value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterator[str]:
        name, number = value
        rules = ctx.get_broadcast_state(RULES)
        if number is None:
            rules.remove(name)
        else:
            rules[name] = number
        yield f"now {sorted(rules)}"


class Limited(KeyedBroadcastProcessFunction):
    """Totals by key, and which of them are above the limit; a timer tells the limit of its time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        self.total.update((self.total.value() or 0) + value[1])
        if value[1] == 0 and ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        limit = ctx.get_broadcast_state(RULES).get("limit")
        if limit is not None and self.total.value() > limit:
            yield f"{ctx.get_current_key()}: {self.total.value()} > {limit}"

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> list[Any]:
        name, number = value
        ctx.get_broadcast_state(RULES).put(name, number)
        if name == "double":
            ctx.apply_to_keyed_state(TOTAL, lambda _, total: total.update(total.value() * number))
        return []

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        limit = ctx.get_broadcast_state(RULES).get("limit")
        yield f"{ctx.get_current_key()} at {timestamp}: {limit}"


def ruled(harness: JobHarness) -> None:
    words = harness.add_source("words", str)
    results = words.connect(harness.add_source("rules", PAIR).broadcast(RULES)).process(Ruled(), output_type=str)
    harness.add_sink("results", results.uid("ruled"))
    harness.add_sink("side", results.get_side_output(SIDE))


def limited(harness: JobHarness) -> None:
    payments = harness.add_source("payments", PAIR).key_by("f0")
    results = payments.connect(harness.add_source("rules", PAIR).broadcast(RULES)).process(Limited(), output_type=str)
    harness.add_sink("results", results.uid("limited"))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_all_subtasks_have_the_same(parallelism: int) -> None:
    with JobHarness(ruled, parallelism=parallelism) as harness:
        harness.push_all("rules", [("a", 1), ("b", 2), ("a", 3), ("b", None)])
        harness.run_epoch()
        told = ["now ['a']", "now ['a', 'b']", "now ['a', 'b']", "now ['a']"]
        assert sorted(harness.take("results")) == sorted(told * parallelism)
        harness.push_all("words", ["a", "b", "c"])
        harness.run_epoch()
        assert sorted(harness.take("results")) == [f"{word} of [('a', 3)]" for word in ("a: 3", "b: None", "c: None")]
        assert sorted(harness.results("side")) == ["a", "b", "c"]


@pytest.mark.parametrize(("before", "now"), [(1, 3), (3, 2), (2, 2)])
def test_it_is_there_after_a_restart_at_any_parallelism(before: int, now: int) -> None:
    with JobHarness(ruled, parallelism=before) as harness:
        harness.push_all("rules", [("a", 1), ("b", 2)])
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    with JobHarness(ruled, parallelism=now, restore=checkpoint) as harness:
        harness.push_all("words", ["a"] * 4)
        harness.run_epoch()
        assert harness.take("results") == ["a: 1 of [('a', 1), ('b', 2)]"] * 4
        harness.push("rules", ("c", 3))
        harness.run_epoch()
        assert harness.take("results") == ["now ['a', 'b', 'c']"] * now


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_keyed_stream(parallelism: int) -> None:
    with JobHarness(limited, parallelism=parallelism) as harness:
        harness.push("rules", ("limit", 5), timestamp=0)
        harness.advance_watermark("rules", 100)
        harness.push_all("payments", [("a", 4), ("b", 6), ("a", 0)], [1, 2, 3])
        harness.run_epoch()
        assert harness.take("results") == ["b: 6 > 5"]
        harness.advance_watermark("payments", 50)
        harness.run_epoch()
        assert harness.take("results") == ["a at 13: 5"]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_state_of_all_keys_can_be_changed(parallelism: int) -> None:
    """Of those that were stored, of those of this epoch, and of none that has nothing."""
    with JobHarness(limited, parallelism=parallelism) as harness:
        harness.push_all("payments", [(key, 1) for key in "abcdef"])
        harness.run_epoch()
        harness.push_all("payments", [("a", 1), ("g", 5)])
        harness.run_epoch()
        harness.push("rules", ("double", 2))
        harness.push("rules", ("limit", 0))
        harness.run_epoch()
        harness.push_all("payments", [(key, 0) for key in "abcdefgh"])
        harness.run_epoch()
        assert sorted(harness.take("results")) == [
            "a: 4 > 0",
            *(f"{key}: 2 > 0" for key in "bcdef"),
            "g: 10 > 0",
        ]


class EachKind(KeyedBroadcastProcessFunction):
    """Every kind of keyed state, of which each key has another one."""

    def __init__(self) -> None:
        self.descriptors = {
            "value": TOTAL,
            "list": ListStateDescriptor("list", Types.LONG()),
            "map": MapStateDescriptor("map", Types.STRING(), Types.LONG()),
            "reducing": ReducingStateDescriptor("reducing", max, Types.LONG()),
        }

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(TOTAL)
        self.list = runtime_context.get_list_state(self.descriptors["list"])
        self.map = runtime_context.get_map_state(self.descriptors["map"])
        self.reducing = runtime_context.get_reducing_state(self.descriptors["reducing"])

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        actions: Any = {
            "value": self.value.update,
            "list": self.list.add,
            "map": lambda number: self.map.put("x", number),
            "reducing": self.reducing.add,
        }
        actions[value[0]](value[1])
        return []

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> list[str]:
        found: list[str] = []
        for kind, descriptor in self.descriptors.items():
            ctx.apply_to_keyed_state(descriptor, lambda key, _, kind=kind: found.append(f"{kind} of {key}"))
        return found


def test_each_kind_of_keyed_state_is_found_where_it_holds_something() -> None:
    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("payments", PAIR).key_by("f0")
        rules = harness.add_source("rules", PAIR).broadcast(RULES)
        harness.add_sink("found", keyed.connect(rules).process(EachKind(), output_type=str))

    kinds = ["value", "list", "map", "reducing"]
    with JobHarness(job) as harness:
        harness.push_all("payments", [(kind, 1) for kind in kinds])
        harness.run_epoch()
        harness.push("rules", ("tell", 1))
        harness.run_epoch()
        assert harness.results("found") == [f"{kind} of {kind}" for kind in kinds]


class Shares(KeyedBroadcastProcessFunction):
    """The share that each key has of all that was paid."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        self.total.update((self.total.value() or 0) + value[1])
        return []

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> list[str]:
        shares: list[str] = []

        def share(key: str, total: Any) -> None:
            totals: list[int] = []
            ctx.apply_to_keyed_state(TOTAL, lambda _, other: totals.append(other.value()))
            shares.append(f"{key}: {total.value()} of {sum(totals)}")

        ctx.apply_to_keyed_state(TOTAL, share)
        return sorted(shares)


def test_the_state_of_all_keys_while_it_is_gone_through() -> None:
    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("payments", PAIR).key_by("f0")
        rules = harness.add_source("rules", PAIR).broadcast(RULES)
        harness.add_sink("shares", keyed.connect(rules).process(Shares(), output_type=str))

    with JobHarness(job) as harness:
        harness.push_all("payments", [("a", 1), ("b", 2), ("c", 4)])
        harness.run_epoch()
        harness.push("rules", ("tell", 1))
        harness.run_epoch()
        assert harness.results("shares") == ["a: 1 of 7", "b: 2 of 7", "c: 4 of 7"]


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "2"})
    return StreamExecutionEnvironment.get_execution_environment(settings)


def test_records_of_a_stream_that_is_only_spread(env: StreamExecutionEnvironment) -> None:
    doubled = env.from_collection([1, 2]).broadcast().map(lambda number: number * 2, output_type=int)
    assert sorted(doubled.set_parallelism(3).execute_and_collect(limit=10)) == sorted([2, 4] * 3)
    assert "BROADCAST" in _plan_of(env)


def _plan_of(env: StreamExecutionEnvironment) -> str:
    env.from_collection([1]).broadcast().print()
    return env.get_execution_plan()


class Wrong(BroadcastProcessFunction):
    """Does what it must not do."""

    def __init__(self, what: str) -> None:
        self.what = what

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        if self.what == "write":
            self.rules(ctx).put("a", 1)
        elif self.what == "clear":
            self.rules(ctx).clear()
        elif self.what == "other":
            ctx.get_broadcast_state(OTHERS)
        elif self.what == "type":
            ctx.get_broadcast_state(MapStateDescriptor("rules", Types.LONG(), Types.LONG()))
        elif self.what == "kind":
            ctx.get_broadcast_state(TOTAL)
        elif self.what == "timer":
            ctx.timer_service().register_event_time_timer(1)
        return []

    def rules(self, ctx: Any) -> Any:
        return ctx.get_broadcast_state(RULES)

    def process_broadcast_element(self, value: Any, ctx: Any) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("write", "changed in process_broadcast_element alone"),
        ("clear", "changed in process_broadcast_element alone"),
        ("other", "the broadcast state 'others' was not declared: .* which has 'rules'"),
        ("type", r"as given to broadcast\(\.\.\.\), and not"),
        ("kind", "takes a MapStateDescriptor, not"),
        ("timer", "timers exist only on a keyed stream; .* use a KeyedBroadcastProcessFunction"),
    ],
)
def test_misuse_is_told(env: StreamExecutionEnvironment, what: str, said: str) -> None:
    rules = env.from_collection([("a", 1)], PAIR).broadcast(RULES)
    stream: DataStream = env.from_collection([1]).connect(rules).process(Wrong(what), output_type=str)
    with pytest.raises(UserFunctionError, match=said):
        stream.execute_and_collect(limit=1)


class Keyless(KeyedBroadcastProcessFunction):
    """Uses what belongs to a key where there is none, and what belongs to all keys where there is one."""

    def __init__(self, what: str) -> None:
        self.what = what

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        if self.what == "all":
            ctx.apply_to_keyed_state(TOTAL, lambda key, state: None)
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> list[Any]:
        if self.what == "state":
            self.total.update(1)
        elif self.what == "timer":
            ctx.timer_service().register_event_time_timer(1)
        elif self.what == "key":
            ctx.get_current_key()
        return []


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "state",
            "can only be used while a record or a timer .* in process_broadcast_element, ctx.apply_to_keyed_state",
        ),
        ("timer", "records of the broadcast stream have no key: timers are set in process_element"),
        ("key", "has no 'get_current_key': records of the broadcast stream have no key"),
        ("all", "has no 'apply_to_keyed_state': the context of process_broadcast_element has it"),
    ],
)
def test_there_is_no_key_on_the_side_of_the_rules(env: StreamExecutionEnvironment, what: str, said: str) -> None:
    rules = env.from_collection([("a", 1)], PAIR).broadcast(RULES)
    stream = env.from_collection([("a", 1)], PAIR).key_by("f0").connect(rules).process(Keyless(what), output_type=str)
    with pytest.raises(UserFunctionError, match=said):
        stream.execute_and_collect(limit=1)


def test_what_cannot_be_broadcast(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("a", 1)], PAIR)
    with pytest.raises(InvalidTypeError, match="broadcast takes a MapStateDescriptor, not ValueStateDescriptor"):
        stream.broadcast(TOTAL)  # type: ignore[call-overload]
    with pytest.raises(InvalidProgramError, match="two descriptors of the name 'rules'"):
        stream.broadcast(RULES, RULES)
    expiring = MapStateDescriptor("expiring", Types.STRING(), Types.LONG())
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(InvalidProgramError, match=r"no time to live(.|\n)*at .*test_broadcast_streams"):
        stream.broadcast(expiring)
    with pytest.raises(InvalidProgramError, match="spread by its keys"):
        stream.key_by("f0").broadcast(RULES)


def test_what_is_no_function_of_a_broadcast_stream(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("a", 1)], PAIR)
    rules = stream.broadcast(RULES)
    plain, keyed = stream.connect(rules), stream.key_by("f0").connect(rules)
    with pytest.raises(InvalidTypeError, match="the stream is keyed"):
        keyed.process(Ruled(), output_type=str)
    with pytest.raises(InvalidTypeError, match="the stream has no keys"):
        plain.process(Limited(), output_type=str)
    wrong: Any = KeyedProcessFunction
    with pytest.raises(InvalidTypeError, match="expected a BroadcastProcessFunction"):
        plain.process(wrong, output_type=str)
    with pytest.raises(InvalidTypeError, match="is for a broadcast stream"):
        stream.connect(stream).process(Ruled(), output_type=str)  # type: ignore[arg-type]


class Unequal(KeyedBroadcastProcessFunction):
    """Does something else in each subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> list[Any]:
        return []

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> list[Any]:
        ctx.get_broadcast_state(RULES).put(value[0], self.subtask // 2)
        return []


def test_subtasks_that_do_not_do_the_same_are_told() -> None:
    def unequal(harness: JobHarness) -> None:
        rules = harness.add_source("rules", PAIR).broadcast(RULES)
        results = harness.add_source("words", PAIR).key_by("f0").connect(rules).process(Unequal(), output_type=str)
        harness.add_sink("results", results.name("limits").uid("unequal"))

    with JobHarness(unequal, parallelism=3) as harness:
        harness.push("rules", ("a", 1))
        told = r"operator 'limits' \(uid unequal\) is not the same in subtasks 0 and 2: process_broadcast_element has"
        with pytest.raises(UserFunctionError, match=told):
            harness.run_epoch()
    with JobHarness(unequal, parallelism=2) as harness:
        harness.push("rules", ("a", 1))
        harness.run_epoch()


class DescribesEachTime(BroadcastProcessFunction):
    """Makes a descriptor for each record."""

    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        descriptor = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
        made.append(weakref.ref(descriptor))
        yield f"{value}: {ctx.get_broadcast_state(descriptor).get(value)}"

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG())).put(*value)


made: list[weakref.ref[Any]] = []


def test_descriptors_that_are_made_for_each_record_do_not_fill_memory() -> None:
    def job(harness: JobHarness) -> None:
        rules = harness.add_source("rules", PAIR).broadcast(RULES)
        results = harness.add_source("words", str).connect(rules).process(DescribesEachTime(), output_type=str)
        harness.add_sink("results", results.uid("ruled"))

    made.clear()
    with JobHarness(job, fresh_functions=False) as harness:
        harness.push("rules", ("a", 5))
        harness.run_epoch()
        harness.push_all("words", ["a"] * 1000)
        harness.run_epoch()
        gc.collect()
        assert harness.take("results") == ["a: 5"] * 1000
        assert sum(descriptor() is not None for descriptor in made) < 100
