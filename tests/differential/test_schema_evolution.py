"""A program whose records have other fields than those it has stored: on both runtimes, at other parallelisms."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from headrace.common import Time, Types, WatermarkStrategy
from headrace.common.errors import FunctionRefusedError, WorkerDiedError
from headrace.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from headrace.datastream.aggregates import sum
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.runtime.spark.runtime import SparkRuntime
from headrace.runtime.spark.session import acquire_session
from headrace.testing import JobHarness, harness
from headrace.time.watermark_strategy import TimestampAssigner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.testing.stored_state import Checkpoint

DEADLY = 1_000
KEYS = 50


@dataclass(frozen=True)
class Visit:
    user: int
    count: int


@dataclass(frozen=True)
class Longer:
    """A later version of it, with ``count`` called ``visits``."""

    visits: float
    user: int
    pages: list[str] = field(default_factory=lambda: ["home"])


@dataclass(frozen=True)
class Other:
    user: str
    count: int


class Named(NamedTuple):
    user: int
    count: int


class Ranked(NamedTuple):
    """A later version of it."""

    user: int
    count: int
    rank: int = 5


class At(TimestampAssigner):
    """``count`` is the time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.count)


RENAMED = {"count": "visits"}


def made(kind: type, number: int) -> Any:
    return Visit(number, 1) if kind is Visit else Longer(1.0, number, ["later"])


class Remembers(KeyedProcessFunction):
    """Shows what there is of the key, and adds a record.

    Args:
        kind: the class of the records.
        mark: a file; while there is none, the deadly number ends the worker of the later version.
    """

    def __init__(self, kind: type, mark: Path) -> None:
        self.kind, self.mark = kind, mark

    def open(self, runtime_context: Any) -> None:
        last, all_ = ValueStateDescriptor("last", self.kind), ListStateDescriptor("all", self.kind)
        for descriptor in (last, all_) if self.kind is Longer else ():
            descriptor.set_renamed_fields(RENAMED)
        self.last, self.all = runtime_context.get_state(last), runtime_context.get_list_state(all_)

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        if value == DEADLY and self.kind is Longer and not self.mark.exists():
            self.mark.touch()
            os._exit(1)
        if value < DEADLY:
            yield f"{value}: {self.last.value()} {self.all.get()}"
            self.last.update(made(self.kind, value))
            self.all.add(made(self.kind, value))


class Holds(FlatMapFunction, CheckpointedFunction):
    """The same in the list of a subtask."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def initialize_state(self, context: Any) -> None:
        descriptor = ListStateDescriptor("held", self.kind)
        if self.kind is Longer:
            descriptor.set_renamed_fields(RENAMED)
        self.held = context.get_operator_state_store().get_list_state(descriptor)

    def snapshot_state(self, context: Any) -> None:
        pass

    def flat_map(self, value: int) -> Iterator[str]:
        if value < 0:
            yield from (str(each) for each in self.held.get())
        elif value < DEADLY:
            self.held.add(made(self.kind, value))


class Rules(KeyedBroadcastProcessFunction):
    """The same in broadcast state."""

    def __init__(self, rules: MapStateDescriptor) -> None:
        self.rules = rules

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        if value < DEADLY:
            yield f"{value}: {sorted(map(str, ctx.get_broadcast_state(self.rules).values()))}"

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        if value >= 0:
            ctx.get_broadcast_state(self.rules).put(value, made(self.rules.value_type.record_class, value))


def started(kind: type, parallelism: int, held: Checkpoint | None, mark: Path) -> tuple[list[list[str]], Checkpoint]:
    """What a version of the program shows in two epochs, and what it has come to."""
    rules = MapStateDescriptor("rules", int, kind)
    if kind is Longer:
        rules.set_renamed_fields(RENAMED)

    def build(job: JobHarness) -> None:
        numbers, changes = job.add_source("in", Types.LONG()), job.add_source("rules", Types.LONG())
        keyed = numbers.key_by(lambda number: number % KEYS, Types.LONG())
        job.add_sink("values", keyed.process(Remembers(kind, mark), Types.STRING()).uid("remembers"))
        job.add_sink("held", numbers.rebalance().flat_map(Holds(kind), Types.STRING()).uid("holds"))
        ruled = keyed.connect(changes.broadcast(rules)).process(Rules(rules), Types.STRING()).uid("applies-rules")
        job.add_sink("ruled", ruled)

    shown: list[list[str]] = []
    with JobHarness(build, parallelism=parallelism, restore=held) as job:
        for epoch in range(2):
            job.push_all("rules", [epoch, 10 + epoch])
            job.push_all("in", [*range(epoch * 20, epoch * 20 + KEYS), DEADLY])
            job.run_epoch()
            shown += [sorted(job.take(sink)) for sink in ("values", "ruled")]
        job.push_all("in", [-1] * 64)  # every subtask gets some
        job.run_epoch()
        shown.append(sorted(set(job.take("held"))))
        return shown, job.checkpoint()


def versions(mark: Path) -> list[list[str]]:
    """The first version of the program, then the later one twice, each at another parallelism."""
    shown: list[list[str]] = []
    held: Checkpoint | None = None
    for kind, parallelism in ((Visit, 2), (Longer, 3), (Longer, 1)):
        while True:
            try:
                found, held = started(kind, parallelism, held, mark)
            except WorkerDiedError:
                continue
            shown += found
            break
    return shown


@pytest.mark.slow
def test_what_was_stored_has_the_fields_of_today(tmp_path: Path) -> None:
    (mark := tmp_path / "mark").touch()
    shown = versions(mark)
    later = [line for lines in shown[5:] for line in lines]
    assert not any("Visit(" in line for line in later)
    taken_over = "Longer(visits=1.0, user=25, pages=['home'])"
    assert f"25: {taken_over} [{taken_over}, {taken_over}]" in shown[5]
    assert taken_over in shown[9], "of the list of a subtask"
    assert all("user=11, pages=['home']" in line for line in shown[6]), "of broadcast state"


@pytest.mark.slow
@pytest.mark.spark
def test_spark_shows_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also when a worker dies in the first epoch of the later version, in which the state is rewritten."""
    nobody_dies, somebody_dies = tmp_path / "first", tmp_path / "second"
    nobody_dies.touch()
    local = versions(nobody_dies)
    with monkeypatch.context() as patched:
        patched.setattr(harness, "LocalRuntime", lambda: SparkRuntime(acquire_session({})))
        assert versions(somebody_dies) == local
    assert somebody_dies.exists()


def test_what_cannot_be_taken_over_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (mark := tmp_path / "mark").touch()
    _, held = started(Visit, 2, None, mark)

    def build(job: JobHarness) -> None:
        keyed = job.add_source("in", Types.LONG()).key_by(lambda number: number % KEYS, Types.LONG())
        job.add_sink("values", keyed.process(Remembers(Other, mark), Types.STRING()).uid("remembers"))

    ignore = {"execution.state-recovery.ignore-unclaimed-state": "true"}
    with JobHarness(build, restore=held, configuration=ignore) as job:
        told = r"(?s)uid remembers, .*value state 'last'.*the field 'user' was stored as Long and is declared as String"
        with pytest.raises(FunctionRefusedError, match=told):
            job.run_epoch()


class Shows(ProcessWindowFunction):
    def process(self, key: int, context: Any, elements: Any) -> Iterator[str]:
        yield f"{key}: {sorted(map(str, elements))}"


def test_contents_of_windows_are_taken_over() -> None:
    """The records of a window are stored as they come, so their type may change while it is open."""

    def build(kind: type) -> Callable[[JobHarness], None]:
        def job(harness: JobHarness) -> None:
            times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
            visits = harness.add_source("in", Types.of(kind), watermarks=times)
            windows = visits.key_by("user").window(TumblingEventTimeWindows.of(Time.seconds(1)))
            harness.add_sink("out", windows.process(Shows(), Types.STRING()).uid("windows"))

        return job

    with JobHarness(build(Named)) as job:
        job.push("in", Named(1, 1))
        job.run_epoch()
        held = job.checkpoint()
    with JobHarness(build(Ranked), restore=held) as job:
        job.push_all("in", [Ranked(1, 2, 9), Ranked(2, 1_000, 0)])
        job.run_epoch()
        assert job.take("out") == ["1: ['Ranked(user=1, count=1, rank=5)', 'Ranked(user=1, count=2, rank=9)']"]


# --- what operators keep ---------------------------------------------------------------------------------------------


class Order(NamedTuple):
    user: int
    amount: int


class Bill(NamedTuple):
    """A later version of it, with ``amount`` called ``price``; what is not taken over would be 0."""

    user: int
    price: int = 0


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[str]:
        yield f"{left} {right}"


def kept_by_operators(kind: type[Order] | type[Bill]) -> Callable[[JobHarness], None]:
    """Windows with functions and with aggregates, a reduce, joins: each keeps a record of every user."""
    name = kind._fields[1]
    of_side = {"left.amount": name}

    def renamed(kept: Any, names: dict[str, str]) -> Any:
        return kept.set_renamed_fields(names) if kind is Bill else kept

    def build(job: JobHarness) -> None:
        orders, users = job.add_source("orders", kind), job.add_source("users", Types.TUPLE([Types.LONG()]))
        keyed, windows = orders.key_by("user"), TumblingEventTimeWindows.of(Time.seconds(1))
        elements = keyed.window(windows).process(Shows(), Types.STRING()).uid("elements")
        sums = keyed.window(windows).aggregate(sum(name).alias("total")).uid("sums")
        folds = keyed.reduce(lambda one, other: one).uid("folds")
        pairs = keyed.interval_join(users.key_by(0)).between(Time.seconds(-1), Time.seconds(1))
        joins = orders.join(users).where("user").equal_to(0).window(windows)
        job.add_sink("elements", renamed(elements, {"amount": name}))
        job.add_sink("sums", renamed(sums, {"amount": name}).map(str, Types.STRING()))
        job.add_sink("folds", renamed(folds, {"amount": name}).map(str, Types.STRING()))
        job.add_sink("pairs", renamed(pairs.process(Pairs(), Types.STRING()).uid("pairs"), of_side))
        joined = joins.apply(lambda left, right: f"{left} {right}", output_type=Types.STRING())
        job.add_sink("joins", renamed(joined.uid("joins"), of_side))

    return build


SHOWN = ("elements", "sums", "folds", "pairs", "joins")


def later_results() -> dict[str, list[str]]:
    """What the later version shows of records of the earlier one, at another parallelism."""
    with JobHarness(kept_by_operators(Order), parallelism=2) as job:
        job.push_all("orders", [Order(user, 7) for user in range(KEYS)], [10] * KEYS)
        job.run_epoch()
        held = job.checkpoint()
    with JobHarness(kept_by_operators(Bill), parallelism=3, restore=held) as job:
        job.push_all("users", [(user,) for user in range(KEYS)], [20] * KEYS)
        job.push_all("orders", [Bill(user, 5) for user in range(KEYS)], [30] * KEYS)
        job.finish()
        return {sink: sorted(job.take(sink)) for sink in SHOWN}


def test_what_operators_keep_has_the_names_of_today() -> None:
    shown = later_results()
    assert shown["elements"][0] == "0: ['Bill(user=0, price=5)', 'Bill(user=0, price=7)']"
    assert shown["sums"][0] == "Row(user=0, window_start=0, window_end=1000, total=12)"
    assert set(shown["folds"]) == {str(Bill(user, 7)) for user in range(KEYS)}
    for joined in ("pairs", "joins"):
        assert shown[joined][:2] == ["Bill(user=0, price=5) (0,)", "Bill(user=0, price=7) (0,)"]
        assert len(shown[joined]) == 2 * KEYS


@pytest.mark.spark
@pytest.mark.slow
def test_spark_has_these_names_too(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    local = later_results()
    with monkeypatch.context() as patched:
        patched.setattr(harness, "LocalRuntime", lambda: SparkRuntime(acquire_session({})))
        assert later_results() == local
