"""Jobs with operator list state and broadcast state, in stage 0 and behind a shuffle, over epochs and starts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoint.manifest import Manifest
from headrace.common import options
from headrace.common.errors import StateMigrationError, UserFunctionError
from headrace.common.typeinfo import Types
from headrace.connectors.ranges import NumberSequenceSource
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import partitions_of_hashes
from headrace.state.protocols import StateKind
from headrace.testing import JobHarness
from headrace.testing.stored_state import Checkpoint
from headrace.time.watermark_strategy import WatermarkStrategy
from tests.draws import draws
from tests.runtime.state_operators import COMMAND, KeyedLedgerSpec, ListsSpec, ledger

SPLITS = 6
Build = Callable[[JobHarness], object]


def in_stage_0(job: JobHarness) -> None:
    job.add_sink("out", ledger(job.add_source("in", COMMAND, splits=SPLITS)).uid("ledger"))


def behind_a_shuffle(job: JobHarness) -> None:
    job.add_sink("out", ledger(job.add_source("in", COMMAND, splits=SPLITS).key_by("f0")).uid("ledger"))


PLACES = pytest.mark.parametrize("build", [in_stage_0, behind_a_shuffle])
Row = tuple[int, str, int]


class Driven:
    """A job at some parallelism, whose subtasks are spoken to one by one."""

    def __init__(self, build: Build, parallelism: int, restore: Checkpoint | None = None, **settings: str) -> None:
        self.job = JobHarness(build, parallelism=parallelism, restore=restore, configuration=settings)
        self.is_in_stage_0 = build is in_stage_0
        self.parallelism = parallelism
        hashes = KeyCodec.for_type(Types.LONG()).encode(range(200)).hashes
        self.keys = partitions_of_hashes(hashes, parallelism, 128).tolist()

    def tell(self, subtask: int, *commands: tuple[str, int]) -> None:
        """Commands for a subtask, for the next epoch."""
        key = self.keys.index(subtask)
        rows = [(key, command, number) for command, number in commands]
        self.job.push_all("in", rows, split=subtask if self.is_in_stage_0 else 0)

    def tell_all(self, *commands: tuple[str, int]) -> None:
        for subtask in range(self.parallelism):
            self.tell(subtask, *commands)

    def answers(self) -> list[tuple[str, int, Any]]:
        self.job.run_epoch()
        taken: list[tuple[str, int, Any]] = self.job.take("out")
        return taken

    def show(self) -> list[Any]:
        """What each subtask has."""
        self.tell_all(("show", 0))
        shown = {subtask: what for command, subtask, what in self.answers() if command == "show"}
        return [shown[subtask] for subtask in range(self.parallelism)]


def lists_of(shown: Sequence[Any]) -> list[list[int]]:
    return [held for held, _, _, _ in shown]


@PLACES
def test_state_lasts_from_epoch_to_epoch(build: Build) -> None:
    driven = Driven(build, 3)
    with driven.job:
        driven.tell(0, ("add", 1), ("join", 10), ("add", 2))
        driven.tell(2, ("add", 3))
        driven.tell_all(("rule", 4))
        driven.answers()
        driven.tell(2, ("replace", 5), ("add", 6))
        driven.answers()
        assert driven.show() == [([1, 2], [10], {4: 16}, False), ([], [], {4: 16}, False), ([5, 6], [], {4: 16}, False)]


def filled(build: Build, parallelism: int, numbers: int) -> Checkpoint:
    """Each subtask holds numbers in its list and in its union, which say whose they are; all hold the same map."""
    driven = Driven(build, parallelism)
    with driven.job as job:
        for subtask in range(parallelism):
            driven.tell(subtask, *(("add", subtask * 100 + number) for number in range(numbers + subtask % 2)))
            driven.tell(subtask, ("join", subtask * 100))
            job.run_epoch()
        driven.tell_all(*(("rule", number) for number in range(20)))
        return job.checkpoint()


RULES = {number: number * number for number in range(20)}


@pytest.mark.sampled(2)
@PLACES
@pytest.mark.parametrize(("before", "now"), [(1, 1), (3, 3), (1, 4), (4, 1), (2, 5), (5, 2), (6, 4)])
def test_a_start_deals_state_out(build: Build, before: int, now: int) -> None:
    held = [[subtask * 100 + number for number in range(3 + subtask % 2)] for subtask in range(before)]
    elements = [number for part in held for number in part]
    union = [subtask * 100 for subtask in range(before)]
    restored = Driven(build, now, filled(build, before, 3))
    with restored.job:
        shown = restored.show()
        assert lists_of(shown) == (held if before == now else [part.tolist() for part in np.array_split(elements, now)])
        assert [rest for _, *rest in shown] == [[union, RULES, True]] * now
        assert [rest for _, *rest in restored.show()] == [[union, RULES, False]] * now
        restored.tell_all(("claim", 0))
        restored.answers()
        assert [joined for _, joined, _, _ in restored.show()] == [
            [number for number in union if number % now == subtask] for subtask in range(now)
        ]


@pytest.mark.sampled(1)
@PLACES
def test_a_union_grows_with_each_start_unless_it_is_claimed(build: Build) -> None:
    """As in Flink."""
    held = filled(build, 2, 1)
    for size in (2, 4, 8):
        driven = Driven(build, 2, held)
        with driven.job as job:
            assert [len(joined) for _, joined, _, _ in driven.show()] == [size] * 2
            held = job.checkpoint()


@pytest.mark.sampled(1)
@PLACES
def test_an_epoch_that_failed_was_never_there(build: Build) -> None:
    held = filled(build, 3, 2)
    for _ in range(2):
        failing = Driven(build, 4, held)
        with failing.job as job:
            failing.tell_all(("add", 1), ("join", 1), ("rule", 99))
            failing.tell(3, ("fail", 7))
            with pytest.raises(UserFunctionError, match="as it was told, with 7"):
                job.run_epoch()
    restored = Driven(build, 4, held)
    with restored.job:
        assert restored.show() == [
            ([0, 1], [0, 100, 200], RULES, True),
            ([100, 101], [0, 100, 200], RULES, True),
            ([102, 200], [0, 100, 200], RULES, True),
            ([201], [0, 100, 200], RULES, True),
        ]


@pytest.mark.sampled(1)
@PLACES
@settings(max_examples=draws(36), deadline=None)
@given(st.data())
def test_neither_epochs_nor_starts_show(build: Build, data: st.DataObject) -> None:
    """Each record is told how many came before it in its subtask; that must not depend on where the input is cut."""
    numbers = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5)), min_size=1, max_size=20))
    cuts = data.draw(st.lists(st.sampled_from(["no", "epoch", "start"]), min_size=len(numbers), max_size=len(numbers)))
    driven = Driven(build, 3)
    seen: list[list[int]] = [[], [], []]
    answers: list[tuple[str, int, int]] = []
    for (subtask, number), cut in zip(numbers, cuts, strict=True):
        driven.tell(subtask, ("add", number))
        if cut == "epoch":
            driven.job.run_epoch()
        elif cut == "start":
            with driven.job as job:
                held = job.checkpoint()
                answers += job.take("out")
            driven = Driven(build, 3, held)
    with driven.job:
        answers += driven.answers()
        assert lists_of(driven.show()) == [[n for to, n in numbers if to == subtask] for subtask in range(3)]
    for command, subtask, length in answers:
        assert command == "add"
        seen[subtask].append(length)
    assert seen == [[*range(1, 1 + sum(to == subtask for to, _ in numbers))] for subtask in range(3)]


def test_keyed_state_beside_it() -> None:
    def build(job: JobHarness) -> None:
        keyed = job.add_source("in", COMMAND).key_by("f0")
        job.add_sink("out", ledger(keyed, KeyedLedgerSpec()).uid("ledger"))

    with JobHarness(build, parallelism=2) as job:
        job.push_all("in", [(key, "tally", 0) for key in range(30)] + [(key, "add", key) for key in range(30)])
        held = job.checkpoint()
    with JobHarness(build, parallelism=3, restore=held) as job:
        job.push_all("in", [(key, "tally", 0) for key in range(30)] + [(key, "lists", 0) for key in range(30)])
        job.run_epoch()
        answers = job.take("out")
    assert {what for command, _, what in answers if command == "tally"} == {2}
    lists = {subtask: tuple(what) for command, subtask, what in answers if command == "lists"}
    assert sorted(number for found in lists.values() for number in found) == list(range(30))
    assert {len(found) for found in lists.values()} == {10}


def test_a_split_is_read_by_one_task_where_it_meets_state_before_a_shuffle() -> None:
    """Its pieces would reach several lists, and none of them in order."""

    def build(job: JobHarness) -> None:
        numbers = job.env.from_source(
            NumberSequenceSource(1, 40_000), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
        )
        commands = numbers.map(lambda number: (number, "next", 0), COMMAND)
        job.add_sink("out", ledger(commands).uid("ledger"))

    with JobHarness(build, parallelism=2) as job:
        job.finish()
        assert job.take("out") == [("next", 0, number) for number in range(1, 40_001)]


@PLACES
def test_it_is_known_to_the_manifest(build: Build) -> None:
    held = filled(build, 2, 1)
    (path,) = sorted((held.directory / "manifests").glob("*.json"))[-1:]
    manifest = Manifest.from_bytes(path.read_bytes(), path.name)
    ((index, operator),) = [
        (index, stage.operators["ledger"]) for index, stage in enumerate(manifest.stages) if "ledger" in stage.operators
    ]
    assert index == (0 if build is in_stage_0 else 1)
    assert (operator.parallelism, operator.state_kinds) == (2, frozenset(StateKind) - {StateKind.KEYED})
    assert [partition.version is not None for partition in manifest.stages[index].partitions] == [True, True]
    others = [
        partition for other, stage in enumerate(manifest.stages) if other != index for partition in stage.partitions
    ]
    assert [partition for partition in others if partition.version is not None] == []


def without_it(job: JobHarness) -> None:
    job.add_sink("out", job.add_source("in", COMMAND, splits=SPLITS))


def with_lists_only(job: JobHarness) -> None:
    job.add_sink("out", ledger(job.add_source("in", COMMAND, splits=SPLITS), ListsSpec()).uid("ledger"))


@PLACES
@pytest.mark.parametrize(
    ("program", "what"),
    [
        (without_it, "state of operators with uid ledger"),
        (
            with_lists_only,
            "union list state of operators with uid ledger; broadcast state of operators with uid ledger",
        ),
    ],
)
def test_state_that_nobody_takes(build: Build, program: Build, what: str, caplog: pytest.LogCaptureFixture) -> None:
    held = filled(build, 2, 2)
    with pytest.raises(StateMigrationError, match=f"the checkpoint holds {what}, which no operator of the program"):
        JobHarness(program, parallelism=3, restore=held).run_epoch()
    ignore = {options.IGNORE_UNCLAIMED_STATE.key: "true"}
    with (
        caplog.at_level(logging.WARNING),
        JobHarness(program, parallelism=3, restore=held, configuration=ignore) as job,
    ):
        for split in range(3):
            job.push("in", (0, "lists", 0), split=split)
        job.run_epoch()
        if program is with_lists_only:
            assert [lists for _, _, lists in job.take("out")] == [[0, 1], [100, 101], [102]]
    assert "leaves behind" in caplog.text


def test_it_may_move_from_stage_0_behind_a_shuffle_and_back() -> None:
    held = filled(in_stage_0, 2, 2)
    for build in (behind_a_shuffle, in_stage_0):
        driven = Driven(build, 2, held)
        with driven.job as job:
            assert lists_of(driven.show()) == [[0, 1], [100, 101, 102]]
            held = job.checkpoint()
