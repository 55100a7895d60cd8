"""Broadcast state: what is small is in the version of each subtask, what is large in one file for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.common.typeinfo import Types
from headrace.state import compaction
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.protocols import StateKind
from headrace.state.runs import RunStore, merging
from headrace.state.runs.merging import MAX_RUNS
from headrace.state.state_file import SharedName
from tests.state.harness import UID
from tests.state.test_state_without_keys import Subtasks

BROADCAST = frozenset({StateKind.BROADCAST})
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
OBJECTS = MapStateDescriptor("objects", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


def put(subtasks: Subtasks, values: dict[str, int], rules: MapStateDescriptor = RULES) -> None:
    for store in subtasks.begin():
        store.broadcast_state(rules).put_all(values)
    subtasks.end()


def shared(subtasks: Subtasks) -> list[str]:
    return [name for name in subtasks.storage.names() if SharedName.parse(name)]


@pytest.mark.parametrize("inline_threshold", [0, 1 << 15])
def test_what_is_large_is_written_once(inline_threshold: int) -> None:
    subtasks = Subtasks(4, inline_threshold, BROADCAST, shares=True)
    rules = {str(number): number for number in range(10_000)}
    put(subtasks, rules)
    (file,) = shared(subtasks)
    assert all(file in ref.files for ref in subtasks.refs)
    large = [name for name, content in subtasks.storage.files.items() if len(content) > 5_000]
    assert large == [file]
    assert [bool(task.sizes()) for task in subtasks.tasks] == [True, False, False, False]
    assert [*subtasks.tasks[0].sizes()["operator"]] == ["broadcast/rules"]
    put(subtasks, {"5": 0})
    small = [] if inline_threshold else [True]
    assert [len(subtasks.storage.files[name]) < 5_000 for name in shared(subtasks)] == [False, *small]
    assert [dict(store.broadcast_state(RULES).items()) for store in subtasks.begin()] == [{**rules, "5": 0}] * 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("before", "now"), [(1, 3), (3, 2)])
def test_all_go_on_with_what_the_first_one_had(before: int, now: int) -> None:
    """However often runs are merged: in all subtasks they are the same."""
    subtasks, expected = Subtasks(before, kinds=BROADCAST, shares=True), {}
    for epoch in range(3 * MAX_RUNS):
        if epoch == MAX_RUNS:
            subtasks.start(now)
        put(subtasks, {str(epoch % 7): epoch})
        expected[str(epoch % 7)] = epoch
        subtasks.compact()
        runs = [[(run.section.file, run.section.offset) for run in store.runs] for store in _stores(subtasks)]
        assert all(of_one == runs[0] for of_one in runs)
        assert 0 < len(runs[0]) <= MAX_RUNS
    assert [dict(store.broadcast_state(RULES).items()) for store in subtasks.begin()] == [expected] * now


def _stores(subtasks: Subtasks) -> list[RunStore]:
    return [task.store(UID, "broadcast/rules") for task in subtasks.tasks]


def test_what_is_pickled_each_subtask_keeps_for_itself() -> None:
    """The bytes of a pickle need not be the same for equal objects."""
    subtasks = Subtasks(2, kinds=BROADCAST, shares=True)
    put(subtasks, {"a": 1}, OBJECTS)
    assert shared(subtasks) == []
    subtasks.start(3)
    assert [store.broadcast_state(OBJECTS).get("a") for store in subtasks.begin()] == [1] * 3


@pytest.mark.parametrize("inline_threshold", [0, 1 << 15])
def test_who_changes_it_in_another_way_has_another_digest(inline_threshold: int) -> None:
    subtasks = Subtasks(2, inline_threshold, kinds=BROADCAST, shares=True)
    put(subtasks, {"a": 1, "b": 1})
    digests = [dict(ref.shared)[UID] for ref in subtasks.refs]
    assert digests[0] == digests[1]
    for number, store in enumerate(subtasks.begin()):
        store.broadcast_state(RULES).put("a", 5 + number)
    subtasks.end()
    digests += [dict(ref.shared)[UID] for ref in subtasks.refs]
    assert len(set(digests)) == 3


def test_a_version_of_an_earlier_release_gets_a_digest() -> None:
    """Although nothing has changed: at a start the others write theirs anew."""
    subtasks = Subtasks(2, 1 << 15, kinds=BROADCAST, shares=True)
    put(subtasks, {"a": 1})
    subtasks.refs = [replace(ref, shared=()) for ref in subtasks.refs]
    subtasks.start(2)
    put(subtasks, {})
    first, second = (ref.shared for ref in subtasks.refs)
    assert first == second != ()


@pytest.mark.slow
def test_small_changes_leave_few_files_and_runs() -> None:
    """Hundreds of epochs that change one rule each: they travel inside the versions, and are merged by and by."""
    subtasks = Subtasks(2, 1 << 13, BROADCAST, shares=True)
    expected = {str(number): 0 for number in range(1_000)}
    put(subtasks, expected)
    written = len(subtasks.storage.names())
    for epoch in range(300):
        rule = str(epoch * 7 % 1_000)
        expected[rule] = epoch
        stores = [task.operator(UID).operator_state_store for task in subtasks.tasks]
        for store in stores if epoch % 50 else subtasks.begin():
            store.broadcast_state(RULES).put(rule, epoch)
        subtasks.end()
        written += len(set(subtasks.storage.names()) - set(_needed(subtasks)))
        subtasks.storage.files = {name: subtasks.storage.files[name] for name in _needed(subtasks)}
        assert len(_needed(subtasks)) <= 6
        assert all(len(store.runs) <= MAX_RUNS for store in _stores(subtasks))
    assert written < 60
    assert [dict(store.broadcast_state(RULES).items()) for store in subtasks.begin()] == [expected] * 2


def _needed(subtasks: Subtasks) -> list[str]:
    return sorted({name for ref in subtasks.refs for name in ref.files})


def test_large_runs_are_merged_beside_the_epochs_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planned with the first subtask; the others adopt the same outcome, and what comes meanwhile stays behind it."""
    monkeypatch.setattr(merging, "INLINE_ROWS", 100)
    monkeypatch.setattr(compaction, "INLINE_ROWS", 100)
    subtasks = Subtasks(3, kinds=BROADCAST, shares=True)
    expected = {}
    for start in range(0, 2_000, 200):
        values = {str(number): start for number in range(start, start + 200)}
        put(subtasks, values)
        expected |= values
    assert len(_stores(subtasks)[0].runs) == 10
    assert subtasks.compact() == 1
    put(subtasks, {"5": 5})
    assert [len(store.runs) for store in _stores(subtasks)] == [2, 2, 2]
    assert len({ref.shared for ref in subtasks.refs}) == 1
    subtasks.start(2)
    assert [dict(store.broadcast_state(RULES).items()) for store in subtasks.begin()] == [{**expected, "5": 5}] * 2
