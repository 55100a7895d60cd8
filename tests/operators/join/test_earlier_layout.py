"""Windows over two streams once kept both inputs in one table of tagged records: what that holds is taken over."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.errors import StateMigrationError
from headrace.datastream import ProcessWindowFunction
from headrace.datastream.aggregates import count
from headrace.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from headrace.expressions import left, right
from headrace.operators.join.window_join import CoGroupOperator
from headrace.operators.window.general.window_operator import WindowOperator
from headrace.testing import Checkpoint, JobHarness

LEFT = Types.ROW_NAMED(["id", "amount"], [Types.LONG(), Types.LONG()])
RIGHT = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
Build = Callable[[JobHarness], None]
TUMBLING, SLIDING = TumblingEventTimeWindows.of(100), SlidingEventTimeWindows.of(100, 50)
OPTION = "execution.state-recovery.changed-windows"


def grouped(lefts: Any, rights: Any) -> Iterator[str]:
    yield f"{[each.amount for each in lefts]} {[each.name for each in rights]}"


def paired(one: Any, other: Any) -> str:
    return f"{one and one.amount} {other and other.name}"


KINDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "co-group": lambda one, other, windows: one.co_group(other).where("id").equal_to("id").window(windows)
    .apply(grouped, output_type=Types.STRING()),
    "late co-group": lambda one, other, windows: one.co_group(other).where("id").equal_to("id").window(windows)
    .allowed_lateness(70).apply(grouped, output_type=Types.STRING()),
    "function": lambda one, other, windows: one.join(other, "outer").where("id").equal_to("id").window(windows)
    .apply(paired, output_type=Types.STRING()),
    "columns": lambda one, other, windows: one.join(other, "outer").where("id").equal_to("id").window(windows)
    .select(left("amount").alias("l"), right("name").alias("r")),
}  # fmt: skip


def job(kind: str, windows: Any) -> Build:
    def build(harness: JobHarness) -> None:
        one, other = harness.add_source("left", LEFT), harness.add_source("right", RIGHT)
        harness.add_sink("out", KINDS[kind](one, other, windows).uid("join"))

    return build


@contextmanager
def earlier_layout() -> Iterator[None]:
    """The contents that all other windows have, over tagged records: as it was."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CoGroupOperator, "_ordered_contents", WindowOperator._ordered_contents)
        yield


def push(harness: JobHarness, randomness: random.Random, first: int, last: int) -> None:
    for number in range(60):
        time = randomness.randrange(first, last)
        id_ = randomness.randrange(6)
        if randomness.random() < 0.5:
            harness.push("left", (id_, number), time)
        else:
            harness.push("right", (id_, f"n{number}"), time)


def spelled(results: list[Any]) -> list[str]:
    return sorted(each if isinstance(each, str) else str(tuple(each)) for each in results)


def results(kind: str, windows: Any, seed: int, *, earlier: bool, settings: dict[str, str]) -> list[str]:
    """Two epochs, in which nothing fires, and then others with another parallelism."""
    randomness = random.Random(seed)
    parallelism = randomness.choice([1, 2, 3])
    with JobHarness(job(kind, windows), parallelism=parallelism, configuration=settings) as harness:
        for start in (0, 20):
            push(harness, randomness, start, 300)
            if earlier:
                with earlier_layout():
                    harness.run_epoch()
            else:
                harness.run_epoch()
        checkpoint = harness.checkpoint()
    other = randomness.choice([1, 2, 3])
    with JobHarness(job(kind, windows), restore=checkpoint, parallelism=other, configuration=settings) as harness:
        for watermark in (90, 140, 210):
            push(harness, randomness, watermark - 120, 300)
            for name in ("left", "right"):
                harness.advance_watermark(name, watermark)
            harness.run_epoch()
        harness.finish()
        return spelled(harness.results("out"))


@pytest.mark.parametrize(
    ("windows", "backend"), [(TUMBLING, "rocksdb"), (SLIDING, "hashmap")], ids=["tumbling-rocksdb", "sliding-hashmap"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_taken_over(kind: str, windows: Any, backend: str) -> None:
    settings = {"state.backend.type": backend}
    before = results(kind, windows, 1, earlier=True, settings=settings)
    assert before == results(kind, windows, 1, earlier=False, settings=settings)
    assert len(before) >= 15


def left_behind(build: Build, *, earlier: bool = False) -> Checkpoint:
    with JobHarness(build) as harness:
        harness.push("left", (1, 7), 4)
        harness.push("right", (1, "seven"), 113)
        with earlier_layout() if earlier else pytest.MonkeyPatch.context():
            harness.run_epoch()
        return harness.checkpoint()


def test_it_can_move_into_other_windows_as_well() -> None:
    checkpoint = left_behind(job("co-group", TUMBLING), earlier=True)
    settings = {OPTION: "join=reaggregate"}
    wider = job("co-group", TumblingEventTimeWindows.of(200))
    with JobHarness(wider, restore=checkpoint, configuration=settings) as harness:
        harness.finish()
        assert harness.results("out") == ["[7] ['seven']"]


def test_it_can_be_dropped() -> None:
    checkpoint = left_behind(job("co-group", TUMBLING), earlier=True)
    wider = job("co-group", TumblingEventTimeWindows.of(200))
    with JobHarness(wider, restore=checkpoint, configuration={OPTION: "join=drop"}) as harness:
        harness.finish()
        assert harness.results("out") == []
        assert harness.counters()["numRowsOfChangedWindowsDropped"] == 2


class Spelled(ProcessWindowFunction):
    """All elements."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[str]:
        yield str(list(elements))


def of_one(windows: Any, *, columns: bool = False, trigger: Any = None) -> Build:
    """Windows over one stream of the same keys."""

    def build(harness: JobHarness) -> None:
        keyed = harness.add_source("left", LEFT).key_by("id")
        harness.add_sink("rest", harness.add_source("right", RIGHT))
        windowed = keyed.window(windows)
        windowed = windowed if trigger is None else windowed.trigger(trigger)
        made = windowed.aggregate(count()) if columns else windowed.process(Spelled(), Types.STRING())
        harness.add_sink("out", made.uid("join"))

    return build


SESSIONS = EventTimeSessionWindows.with_gap(10)
OTHERS = {
    "one stream, for two": (of_one(TUMBLING), job("co-group", TUMBLING), "now they hold the records of two streams"),
    "two streams, for one": (job("co-group", TUMBLING), of_one(TUMBLING), "hold the records of two streams"),
    "two streams, in columns": (job("co-group", TUMBLING), of_one(TUMBLING, columns=True), "records of two streams"),
    "two streams, for others": (job("co-group", TUMBLING), of_one(TUMBLING, trigger=CountTrigger.of(9)), "two streams"),
    "sessions in columns": (of_one(SESSIONS, columns=True), of_one(TUMBLING), "sessions, computed column by column"),
    "sessions": (of_one(SESSIONS), of_one(TUMBLING), "a trigger, assigner or evictor of their own"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_what_other_windows_hold_is_refused(case: str) -> None:
    before, after, told = OTHERS[case]
    checkpoint = left_behind(before)
    with (
        pytest.raises(StateMigrationError, match=told),
        JobHarness(after, restore=checkpoint) as harness,
    ):
        harness.run_epoch()
