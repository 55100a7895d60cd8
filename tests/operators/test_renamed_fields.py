"""Operators go on with records whose fields have other names now: what windows and joins keep, and what waits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from headrace.common import Row, Time, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, StateMigrationError
from headrace.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from headrace.datastream.aggregates import avg, count, first, max, sum, top_n
from headrace.datastream.state import MapStateDescriptor
from headrace.datastream.window import (
    AccumulationMode,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from headrace.expressions import col
from headrace.testing import JobHarness
from tests.first_epochs import first_epoch

Build = Callable[[JobHarness], None]


@dataclass
class Order:
    """As it was."""

    item: str
    amount: int


@dataclass
class Sale:
    """The same under other names; what is not said would be lost without a word."""

    price: int = 0
    item: str = ""
    currency: str = "EUR"


class Dear(NamedTuple):
    """The same without defaults."""

    item: str
    price: int


RENAMED = {"amount": "price"}
RIGHT = Types.TUPLE([Types.STRING(), Types.LONG()])
MINUTE = TumblingEventTimeWindows.of(10)
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(10))


def amount_of(record: Any) -> Any:
    return record.amount if isinstance(record, Order) else record.price


class All(ProcessWindowFunction):
    """The elements of a window."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[str]:
        yield f"{[amount_of(element) for element in elements]}"


class Dearest(AggregateFunction):
    """Keeps a record as its accumulator."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def create_accumulator(self) -> Any:
        return self.kind(**dict.fromkeys(("amount",) if self.kind is Order else ("price",), 0), item="")

    def add(self, value: Any, accumulator: Any) -> Any:
        return value if amount_of(value) > amount_of(accumulator) else accumulator

    def merge(self, acc1: Any, acc2: Any) -> Any:
        return self.add(acc1, acc2)

    def get_result(self, accumulator: Any) -> str:
        return f"[{amount_of(accumulator)}]"


def dearer(one: Any, other: Any) -> Any:
    return other if amount_of(other) > amount_of(one) else one


def told(stream: Any) -> Any:
    return stream.map(lambda record: f"[{amount_of(record)}]", Types.STRING())


def total_of(row: Row) -> str:
    return f"[{row.total}]"


def delta(kind: Any) -> Any:
    return DeltaTrigger.of(5.0, lambda last, now: amount_of(now) - amount_of(last), kind)


Keyed = Callable[[Any, Any, str], Any]
"""Of a keyed stream, the class of its records and the field, the stream of what is kept by an operator."""

WINDOWS: dict[str, Keyed] = {
    "all elements": lambda keyed, kind, field: keyed.window(MINUTE).process(All(), Types.STRING()),
    "a session": lambda keyed, kind, field: keyed.window(SESSIONS).process(All(), Types.STRING()),
    "an evictor": lambda keyed, kind, field: (
        keyed.window(MINUTE).evictor(CountEvictor.of(5)).process(All(), Types.STRING())
    ),
    "a trigger": lambda keyed, kind, field: (
        keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).process(All(), Types.STRING())
    ),
    "what a trigger keeps": lambda keyed, kind, field: (
        keyed.window(GlobalWindows.create()).trigger(delta(kind)).process(All(), Types.STRING())
    ),
    "a reduce": lambda keyed, kind, field: keyed.window(MINUTE).reduce(dearer),
    "a reduced session": lambda keyed, kind, field: keyed.window(SESSIONS).reduce(dearer),
    "accumulators": lambda keyed, kind, field: keyed.window(MINUTE).aggregate(
        Dearest(kind), accumulator_type=Types.of(kind), output_type=Types.STRING()
    ),
    "accumulators of sessions": lambda keyed, kind, field: keyed.window(SESSIONS).aggregate(
        Dearest(kind), accumulator_type=Types.of(kind), output_type=Types.STRING()
    ),
    "a rolling reduce": lambda keyed, kind, field: keyed.reduce(dearer),
    "a rolling maximum": lambda keyed, kind, field: keyed.max_by(field),
}
SUMS: dict[str, Keyed] = {
    "tumbling": lambda keyed, kind, field: keyed.window(MINUTE).aggregate(sum(field).alias("total")),
    "sliding": lambda keyed, kind, field: keyed.window(SlidingEventTimeWindows.of(10, 5)).aggregate(
        sum(field).alias("total"), count()
    ),
    "sessions": lambda keyed, kind, field: keyed.window(SESSIONS).aggregate(sum(field).alias("total")),
    "counts": lambda keyed, kind, field: keyed.count_window(2).aggregate(sum(field).alias("total")),
    "sliding counts": lambda keyed, kind, field: keyed.count_window(2, 1).aggregate(sum(field).alias("total")),
    "without end": lambda keyed, kind, field: keyed.window(GlobalWindows.create_with_end_of_stream_trigger()).aggregate(
        sum(field).alias("total")
    ),
    "early": lambda keyed, kind, field: (
        keyed.window(MINUTE).trigger(ContinuousEventTimeTrigger.of(5)).aggregate(sum(field).alias("total"))
    ),
    "a trigger": lambda keyed, kind, field: (
        keyed.window(MINUTE).trigger(CountTrigger.of(2)).aggregate(sum(field).alias("total"), max(field))
    ),
    "an evictor": lambda keyed, kind, field: (
        keyed.window(MINUTE).evictor(CountEvictor.of(5)).aggregate(sum(field).alias("total"))
    ),
    "an expression": lambda keyed, kind, field: keyed.window(MINUTE).aggregate(sum(col(field) * 1).alias("total")),
}


def on_one_backend_each(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Kinds, with the one backend and the other by turns."""
    return list(zip(kinds, itertools.cycle(["hashmap", "rocksdb"]), strict=False))


def job(make: Keyed, kind: Any, renamed: dict[str, str] | None, show: Callable[[Any], Any]) -> Build:
    field = "amount" if kind is Order else "price"

    def build(harness: JobHarness) -> None:
        kept = make(harness.add_source("orders", kind).key_by("item"), kind, field).uid("kept")
        harness.add_sink("out", show(kept if renamed is None else kept.set_renamed_fields(renamed)))

    return build


def as_text(stream: Any) -> Any:
    return stream if stream.get_type() == Types.STRING() else told(stream)


def results_of(make: Keyed, show: Callable[[Any], Any], settings: dict[str, str] | None = None) -> list[str]:
    """What the later version shows of one record of the earlier one and one of its own, at another parallelism."""
    with JobHarness(job(make, Order, None, show), parallelism=2, configuration=settings) as harness:
        harness.push("orders", Order("tea", 7), 4)
        harness.run_epoch()
        held = harness.checkpoint()
    with JobHarness(job(make, Sale, RENAMED, show), parallelism=3, restore=held, configuration=settings) as harness:
        harness.run_epoch()
        held = harness.checkpoint()
    with JobHarness(job(make, Sale, None, show), restore=held, configuration=settings) as harness:  # it may go then
        harness.push("orders", Sale(5, "tea"), 5)
        harness.finish()
        return list(harness.results("out"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "backend"), on_one_backend_each(WINDOWS))
def test_records_keep_what_they_have(kind: str, backend: str) -> None:
    found = results_of(WINDOWS[kind], as_text, {"state.backend.type": backend})
    if kind == "what a trigger keeps":  # nothing has come that is far enough from the first
        assert found == []
    else:
        assert found[-1] in ("[7, 5]", "[7]")


def test_what_a_trigger_keeps_is_compared_under_the_new_name() -> None:
    make = WINDOWS["what a trigger keeps"]
    with JobHarness(job(make, Order, None, as_text)) as harness:
        harness.push("orders", Order("tea", 7), 4)
        harness.run_epoch()
        held = harness.checkpoint()
    with JobHarness(job(make, Dear, RENAMED, as_text), restore=held) as harness:
        harness.push_all("orders", [Dear("tea", 12), Dear("tea", 13)], [5, 6])
        harness.finish()
        assert harness.results("out") == ["[7, 12, 13]"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "backend"), on_one_backend_each(SUMS))
def test_built_in_aggregates_go_on_with_another_field(kind: str, backend: str) -> None:
    def shown(stream: Any) -> Any:
        return stream.map(total_of, Types.STRING())

    assert "[12]" in results_of(SUMS[kind], shown, {"state.backend.type": backend})


def test_all_names_of_aggregates_are_found() -> None:
    def make(keyed: Any, kind: Any, field: str) -> Any:
        dearest = top_n("item", 1, by=field).alias("dearest")
        return keyed.window(MINUTE).aggregate(dearest, avg(field).alias("mean"), first(field).alias("first"))

    def shown(stream: Any) -> Any:
        return stream.map(lambda row: f"{row.dearest} {row.mean} {row.first}", Types.STRING())

    assert results_of(make, shown) == ["['tea'] 6.0 7"]


@pytest.mark.parametrize("kind", SUMS)
def test_without_the_names_built_in_aggregates_are_others(kind: str) -> None:
    with JobHarness(job(SUMS[kind], Order, None, lambda stream: stream)) as harness:
        harness.push("orders", Order("tea", 7), 4)
        harness.run_epoch()
        held = harness.checkpoint()
    with pytest.raises(StateMigrationError, match=r"uid kept\).*(amount.*price|set_renamed_fields\(\) that it was)"):
        first_epoch(job(SUMS[kind], Dear, None, lambda stream: stream), held)


def test_results_that_windows_take_back_have_fields_of_their_own() -> None:
    def make(name: str) -> Build:
        def build(harness: JobHarness) -> None:
            windows = harness.add_source("orders", Order).key_by("item").window(MINUTE).allowed_lateness(100)
            mode = AccumulationMode.ACCUMULATING_AND_RETRACTING
            totals = windows.accumulation_mode(mode).trigger(CountTrigger.of(1)).aggregate(sum("amount").alias(name))
            totals.uid("kept")
            harness.add_sink("out", totals if name == "total" else totals.set_renamed_fields({"result.total": name}))

        return build

    with JobHarness(make("total")) as harness:
        harness.push("orders", Order("tea", 7), 4)
        harness.run_epoch()
        held = harness.checkpoint()
    with JobHarness(make("spent"), restore=held) as harness:
        harness.push("orders", Order("tea", 5), 5)
        harness.run_epoch()
        before, after = harness.results("out")
        assert (before.spent, after.spent) == (7, 12)


MOVED: dict[str, Callable[[Any, Any, Any, str], Any]] = {
    "all elements": lambda keyed, windows, kind, field: keyed.window(windows).process(All(), Types.STRING()),
    "a reduce": lambda keyed, windows, kind, field: keyed.window(windows).reduce(dearer),
}


@pytest.mark.parametrize("kind", ["all elements", "a reduce"])
def test_windows_and_fields_may_change_at_once(kind: str) -> None:
    def make(size: int) -> Keyed:
        return lambda keyed, kind_, field: MOVED[kind](keyed, TumblingEventTimeWindows.of(size), kind_, field)

    with JobHarness(job(make(10), Order, None, as_text)) as harness:
        harness.push("orders", Order("tea", 7), 14)
        harness.run_epoch()
        held = harness.checkpoint()
    settings = {"execution.state-recovery.changed-windows": "kept=reaggregate"}
    with JobHarness(job(make(20), Sale, RENAMED, as_text), restore=held, configuration=settings) as harness:
        harness.push("orders", Sale(5, "tea"), 3)
        harness.finish()
        assert harness.results("out") in (["[7, 5]"], ["[7]"])


def test_windows_with_built_in_aggregates_likewise() -> None:
    def make(size: int) -> Keyed:
        windows = TumblingEventTimeWindows.of(size)
        return lambda keyed, kind, field: keyed.window(windows).aggregate(sum(field).alias("total"))

    def shown(stream: Any) -> Any:
        return stream.map(total_of, Types.STRING())

    with JobHarness(job(make(10), Order, None, shown)) as harness:
        harness.push("orders", Order("tea", 7), 14)
        harness.run_epoch()
        held = harness.checkpoint()
    settings = {"execution.state-recovery.changed-windows": "kept=reaggregate"}
    with JobHarness(job(make(20), Sale, RENAMED, shown), restore=held, configuration=settings) as harness:
        harness.push("orders", Sale(5, "tea"), 3)
        harness.finish()
        assert harness.results("out") == ["[12]"]


# --- two streams -----------------------------------------------------------------------------------------------------


class Spelled(ProcessJoinFunction):
    """Both records."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield spelled(left, right)


def spelled(left: Any, right: Any) -> str:
    return f"{amount_of(left)} {right[1]}"


def grouped(lefts: Any, rights: Any) -> Any:
    yield from (spelled(left, right) for left in lefts for right in rights)


JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "interval": lambda left, right: (
        left.key_by("item").interval_join(right.key_by(0)).between(Time.milliseconds(-5), Time.milliseconds(5))
        .process(Spelled(), Types.STRING())
    ),
    "window": lambda left, right: (
        left.join(right).where("item").equal_to(0).window(MINUTE).apply(spelled, output_type=Types.STRING())
    ),
    "co-group": lambda left, right: (
        left.co_group(right).where("item").equal_to(0).window(MINUTE).apply(grouped, output_type=Types.STRING())
    ),
    "co-group with an evictor": lambda left, right: (
        left.co_group(right).where("item").equal_to(0).window(MINUTE).evictor(CountEvictor.of(5))
        .apply(grouped, output_type=Types.STRING())
    ),
}  # fmt: skip


def joined(kind: str, orders: Any, renamed: dict[str, str] | None = None) -> Build:
    def build(harness: JobHarness) -> None:
        pairs = JOINS[kind](harness.add_source("orders", orders), harness.add_source("payments", RIGHT)).uid("join")
        harness.add_sink("out", pairs if renamed is None else pairs.set_renamed_fields(renamed))

    return build


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "backend"), on_one_backend_each(JOINS))
def test_joins_keep_what_one_side_has(kind: str, backend: str) -> None:
    settings = {"state.backend.type": backend}
    with JobHarness(joined(kind, Order), parallelism=2, configuration=settings) as harness:
        harness.push("orders", Order("tea", 7), 4)
        harness.push("payments", ("pie", 1), 4)
        harness.run_epoch()
        held = harness.checkpoint()
    later = joined(kind, Sale, {"left.amount": "price"})
    with JobHarness(later, parallelism=3, restore=held, configuration=settings) as harness:
        harness.push("payments", ("tea", 9), 5)
        harness.finish()
        assert harness.results("out") == ["7 9"]


def test_the_other_side_has_names_of_its_own() -> None:
    """Both have a field ``amount``, of which one is called otherwise now."""

    def build(left: Any, right: Any, renamed: dict[str, str] | None) -> Build:
        def job(harness: JobHarness) -> None:
            one, other = harness.add_source("left", left), harness.add_source("right", right)
            windows = one.join(other).where("item").equal_to("item").window(MINUTE)
            pairs = windows.apply(lambda a, b: f"{amount_of(a)} {amount_of(b)}", output_type=Types.STRING()).uid("join")
            harness.add_sink("out", pairs if renamed is None else pairs.set_renamed_fields(renamed))

        return job

    with JobHarness(build(Order, Order, None)) as harness:
        harness.push("left", Order("tea", 7), 4)
        harness.push("right", Order("tea", 8), 4)
        harness.run_epoch()
        held = harness.checkpoint()
    with JobHarness(build(Order, Sale, {"right.amount": "price"}), restore=held) as harness:
        harness.finish()
        assert harness.results("out") == ["7 8"]


TIMES = WatermarkStrategy.for_monotonous_timestamps()


class KeyedPair(KeyedCoProcessFunction):
    """Shows the records of the first stream."""

    def process_element1(self, value: Any, ctx: Any) -> Iterator[str]:
        yield str(amount_of(value))

    def process_element2(self, value: Any, ctx: Any) -> list[str]:
        return []


class KeylessPair(CoProcessFunction):
    """The same without keys."""

    def process_element1(self, value: Any, ctx: Any) -> Iterator[str]:
        yield str(amount_of(value))

    def process_element2(self, value: Any, ctx: Any) -> list[str]:
        return []


class Broadcast(BroadcastProcessFunction):
    """The same of the second stream, which all subtasks get."""

    def process_element(self, value: Any, ctx: Any) -> list[str]:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[str]:
        yield str(amount_of(value))


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
ORDERED: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "keyed": ("first", lambda orders, others: (
        orders.key_by("item").connect(others.key_by(0)).in_event_time_order().process(KeyedPair(), Types.STRING())
    )),
    "keyless": ("first", lambda orders, others: (
        orders.connect(others).in_event_time_order().process(KeylessPair(), Types.STRING())
    )),
    "broadcast": ("second", lambda orders, others: (
        others.connect(orders.broadcast(RULES)).in_event_time_order().process(Broadcast(), Types.STRING())
    )),
}  # fmt: skip


@pytest.mark.parametrize("kind", ORDERED)
def test_records_that_wait_for_event_time_keep_what_they_have(kind: str) -> None:
    number, make = ORDERED[kind]

    def build(orders: Any, renamed: dict[str, str] | None) -> Build:
        def job(harness: JobHarness) -> None:
            sources = [
                harness.add_source(name, type_, watermarks=TIMES)
                for name, type_ in (("orders", orders), ("others", RIGHT))
            ]
            shown = make(*sources).uid("order")
            harness.add_sink("out", shown if renamed is None else shown.set_renamed_fields(renamed))

        return job

    with JobHarness(build(Order, None)) as harness:
        harness.push("orders", Order("tea", 7), 100)
        harness.run_epoch()
        held = harness.checkpoint()
    with JobHarness(build(Sale, {f"{number}.amount": "price"}), restore=held, parallelism=2) as harness:
        harness.finish()
        assert set(harness.results("out")) == {"7"}


# --- mistakes --------------------------------------------------------------------------------------------------------


MISTAKES: dict[str, tuple[Callable[[Any], Any], dict[str, str], str]] = {
    "nothing is kept": (
        lambda orders: orders.map(lambda order: 1, Types.LONG()),
        RENAMED,
        "operator 'Map' keeps no records by itself: call set_renamed_fields() on the descriptors",
    ),
    "no such field": (
        lambda orders: orders.key_by("item").window(MINUTE).process(All(), Types.STRING()),
        {"amount": "cost"},
        "operator 'Window' keeps: 'amount' cannot be called 'cost': the fields of the record are 'item', 'price'",
    ),
    "no side": (
        lambda orders: (
            orders.join(orders).where("item").equal_to("item").window(MINUTE).apply(spelled, output_type=Types.STRING())
        ),
        RENAMED,
        "'amount' has to begin with 'left.' or 'right.'",
    ),
    "pickled accumulators": (
        lambda orders: orders.key_by("item").window(MINUTE).aggregate(Dearest(Dear), output_type=Types.STRING()),
        RENAMED,
        "there are no records at '' in PickledByteArrayTypeInfo",
    ),
    "a keyed stream": (lambda orders: orders.key_by("item"), RENAMED, "a keyed stream is no operator"),
}


@pytest.mark.parametrize(("make", "renamed", "told"), MISTAKES.values(), ids=MISTAKES)
def test_what_cannot_be_renamed_is_told_at_once(make: Any, renamed: dict[str, str], told: str) -> None:
    def build(harness: JobHarness) -> None:
        make(harness.add_source("orders", Dear)).set_renamed_fields(renamed)

    with pytest.raises(InvalidProgramError) as error:
        JobHarness(build).close()
    assert told in str(error.value)
    assert "test_renamed_fields.py" in str(error.value)
