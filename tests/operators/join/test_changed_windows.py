"""What joins and co-groups hold of windows that are declared otherwise now is dropped, or moves into the new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.errors import StateMigrationError
from headrace.expressions import left, right
from headrace.testing import Checkpoint, JobHarness
from headrace.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.first_epochs import first_epoch

OPTION = "execution.state-recovery.changed-windows"
RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
Build = Callable[[JobHarness], None]


def paired(one: Any, other: Any) -> tuple[int, int]:
    return one[1], other[1]


def grouped(lefts: Any, rights: Any) -> Any:
    yield sum(record[1] for record in lefts), sum(record[1] for record in rights)


KINDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "columns": lambda one, other, windows: (
        one.join(other).where(0).equal_to(0).window(windows).select(left("f1").alias("l"), right("f1").alias("r"))
    ),
    "function": lambda one, other, windows: (
        one.join(other).where(0).equal_to(0).window(windows).apply(paired, output_type=PAIR)
    ),
    "co-group": lambda one, other, windows: (
        one.co_group(other).where(0).equal_to(0).window(windows).apply(grouped, output_type=PAIR)
    ),
}
TEN, TWENTY = TumblingEventTimeWindows.of(10), TumblingEventTimeWindows.of(20)


def join(kind: str, windows: Any) -> Build:
    def build(harness: JobHarness) -> None:
        one, other = harness.add_source("left", RECORD), harness.add_source("right", RECORD)
        harness.add_sink("out", KINDS[kind](one, other, windows).uid("windows"))

    return build


def held(kind: str, windows: Any, backend: str) -> Checkpoint:
    """What is left of a left record at 4 and a right one at 13, of one key."""
    with JobHarness(join(kind, windows), configuration={"state.backend.type": backend}) as harness:
        harness.push("left", ("a", 1), 4)
        harness.push("right", ("a", 20), 13)
        harness.run_epoch()
        return harness.checkpoint()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [TWENTY, TumblingEventTimeWindows.of(10, 5), SlidingEventTimeWindows.of(10, 5)])
def test_it_is_dropped(kind: str, after: Any, backend: str) -> None:
    settings = {OPTION: "windows=drop", "state.backend.type": backend}
    checkpoint = held(kind, TEN, backend)
    with JobHarness(join(kind, after), restore=checkpoint, parallelism=2, configuration=settings) as harness:
        harness.push("left", ("a", 3), 16)
        harness.push("right", ("a", 40), 17)
        harness.finish()
        assert harness.counters()["numRowsOfChangedWindowsDropped"] == 2
        assert {tuple(result) for result in harness.results("out")} == {(3, 40)}


@pytest.mark.parametrize("kind", KINDS)
def test_it_moves_into_windows_that_are_unions(kind: str) -> None:
    settings = {OPTION: "windows=reaggregate"}
    with JobHarness(join(kind, TWENTY), restore=held(kind, TEN, "hashmap"), configuration=settings) as harness:
        harness.push("left", ("a", 2), 15)
        harness.finish()
        found = sorted(tuple(result) for result in harness.results("out"))
        assert found == ([(3, 20)] if kind == "co-group" else [(1, 20), (2, 20)])


@pytest.mark.parametrize("kind", KINDS)
def test_else_it_is_refused(kind: str) -> None:
    with pytest.raises(StateMigrationError, match=r"(?s)stored 10, declared 20.*--changed-windows"):
        first_epoch(join(kind, TWENTY), held(kind, TEN, "hashmap"))
