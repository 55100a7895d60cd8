"""Broadcast state is stored once, by the first subtask, for all of them."""

from __future__ import annotations

import pytest

from headrace.common.typeinfo import Types
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.kinds import StateKind
from headrace.state.runs import RunStore
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


@pytest.mark.parametrize("inline_threshold", [0, 1 << 20])
def test_it_is_written_once(inline_threshold: int) -> None:
    subtasks = Subtasks(4, inline_threshold, BROADCAST, shares=True)
    rules = {str(number): number for number in range(10_000)}
    put(subtasks, rules)
    (file,) = shared(subtasks)
    assert all(file in ref.files for ref in subtasks.refs)
    large = [name for name, content in subtasks.storage.files.items() if len(content) > 5_000]
    assert large == [file]
    assert [task.size_in_bytes() > 0 for task in subtasks.tasks] == [True, False, False, False]
    put(subtasks, {"5": 0})
    assert [len(subtasks.storage.files[name]) < 5_000 for name in shared(subtasks)] == [False, True]
    assert [dict(store.broadcast_state(RULES).items()) for store in subtasks.begin()] == [{**rules, "5": 0}] * 4


@pytest.mark.parametrize(("before", "now"), [(1, 3), (3, 2)])
def test_all_go_on_with_what_the_first_one_had(before: int, now: int) -> None:
    """However often runs are merged: in all subtasks they are the same."""
    subtasks, expected = Subtasks(before, kinds=BROADCAST, shares=True), {}
    for epoch in range(3 * MAX_RUNS):
        if epoch == MAX_RUNS:
            subtasks.start(now)
        put(subtasks, {str(epoch % 7): epoch})
        expected[str(epoch % 7)] = epoch
        assert subtasks.compact() == 0, "or subtasks would not have the same runs for a while"
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


def test_who_changes_it_in_another_way_refers_to_a_file_that_is_not_there() -> None:
    subtasks = Subtasks(2, kinds=BROADCAST, shares=True)
    for number, store in enumerate(subtasks.begin()):
        store.broadcast_state(RULES).put("a", number)
    subtasks.end()
    first, second = (set(ref.files) - {ref.name} for ref in subtasks.refs)
    assert first == set(shared(subtasks))
    assert first != second
