"""Operator lists and broadcast maps of a task: what is written, what comes back, and who gets what at a start."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateError, StateMigrationError
from headrace.common.time import Time
from headrace.common.typeinfo import Types
from headrace.state.backend import StateOwner
from headrace.state.compaction import plan_compaction, run_compaction
from headrace.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.state.hashmap_backend import HashMapTaskStates
from headrace.state.keys import KeyCodec
from headrace.state.operator_state import Redistribution
from headrace.state.protocols import KEYED, StateKind
from headrace.state.runs.merging import MAX_RUNS
from tests.draws import draws
from tests.state.harness import MAX_PARALLELISM, UID, MemoryFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.state.compaction import CompactionResult
    from headrace.state.operator_state import OperatorStateBackend
    from headrace.state.state_file import VersionRef

ALL = frozenset(StateKind)
WITHOUT_KEYS = ALL - KEYED
FIRST = ListStateDescriptor("first", Types.LONG())
SECOND = ListStateDescriptor("second", Types.LONG())
UNION = ListStateDescriptor("union", Types.STRING())
MAP = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Subtasks:
    """All subtasks of one operator, whose epochs and starts the test drives."""

    def __init__(
        self,
        parallelism: int,
        inline_threshold: int = 0,
        kinds: frozenset[StateKind] = WITHOUT_KEYS,
        *,
        shares: bool = False,
    ) -> None:
        self.storage = MemoryFolder()
        self.parallelism = parallelism
        self.inline_threshold = inline_threshold
        self.kinds = kinds
        self.shares = shares
        self.epoch = 0
        self.before: int | None = None
        self.refs: list[VersionRef] = []
        self.tasks: list[HashMapTaskStates] = []
        self.results: list[CompactionResult] = []

    def start(self, parallelism: int) -> None:
        """The job starts again."""
        self.before = self.parallelism if self.refs else None
        self.parallelism = parallelism
        self.results = []

    def begin(self) -> list[OperatorStateBackend]:
        self.tasks = [self._open(subtask) for subtask in range(self.parallelism)]
        for result in self.results:
            of_task = result.task
            for task in self.tasks if of_task.is_shared else [self.tasks[of_task.partition]]:
                task.adopt(result)
        self.results = []
        return [task.operator(UID).operator_state_store for task in self.tasks]

    def end(self) -> None:
        for task in self.tasks:
            task.operator(UID).end_epoch()
        self.refs = [task.snapshot(self.epoch, 1, self.inline_threshold) for task in self.tasks]
        self.epoch += 1
        self.before = None

    def compact(self) -> int:
        tasks = [task for ref in self.refs for task in plan_compaction(self.storage, ref)]
        self.results = [run_compaction(self.storage, task) for task in tasks]
        return len(tasks)

    def _open(self, subtask: int) -> HashMapTaskStates:
        numbers = {subtask} if self.refs else set()
        if self.before is not None:
            redistribution = Redistribution(self.before, self.parallelism, subtask, self.shares)
            numbers = {number for kind in WITHOUT_KEYS for number in redistribution.subtasks_of(kind)}
        owner = StateOwner(self.parallelism, MAX_PARALLELISM, self.kinds, self.before, self.shares)
        refs = [self.refs[number] for number in sorted(numbers)]
        return HashMapTaskStates.open(self.storage, refs, 1, subtask, {UID: owner})


class Model:
    """The same with lists and dicts of Python, dealt out element by element as Flink's repartitioner does it."""

    def __init__(self, parallelism: int) -> None:
        self.lists: dict[str, list[list[Any]]] = {
            name: [[] for _ in range(parallelism)] for name in ("first", "second")
        }
        self.union: list[list[str]] = [[] for _ in range(parallelism)]
        self.maps: list[dict[str, int]] = [{} for _ in range(parallelism)]

    def start(self, parallelism: int) -> None:
        first = 0
        for name, held in self.lists.items():
            if len(held) != parallelism:
                self.lists[name], first = dealt_evenly(held, parallelism, first)
        everything = [element for held in self.union for element in held]
        self.union = [everything.copy() for _ in range(parallelism)]
        self.maps = [dict(self.maps[subtask % len(self.maps)]) for subtask in range(parallelism)]


def dealt_evenly(held: Sequence[list[Any]], parallelism: int, first: int) -> tuple[list[list[Any]], int]:
    elements = iter([element for part in held for element in part])
    size, longer = divmod(sum(map(len, held)), parallelism)
    dealt: list[list[Any]] = [[] for _ in range(parallelism)]
    for place in range(parallelism):
        subtask = (first + place) % parallelism
        dealt[subtask] = [next(elements) for _ in range(size + (place < longer))]
    assert list(elements) == []
    return dealt, (first + longer) % parallelism


def shown(stores: Sequence[OperatorStateBackend]) -> dict[str, Any]:
    return {
        "first": [store.list_state(FIRST).get() for store in stores],
        "second": [store.list_state(SECOND).get() for store in stores],
        "union": [store.union_list_state(UNION).get() for store in stores],
        "maps": [dict(store.broadcast_state(MAP).items()) for store in stores],
    }


LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["first", "second"]), st.integers(0, 5), st.lists(LONGS, max_size=5)),
    st.tuples(st.just("replace"), st.integers(0, 5), st.lists(st.integers(0, 3), max_size=3)),
    st.tuples(st.just("union"), st.integers(0, 5), st.lists(st.text(), max_size=3)),
    st.tuples(st.just("claim"), st.just(0), st.just(())),
    st.tuples(st.just("put"), st.just(0), st.lists(st.sampled_from(["a", "ß", "🚰", ""]), max_size=3)),
    st.tuples(st.just("remove"), st.just(0), st.lists(st.sampled_from(["a", "ß", "🚰", ""]), max_size=3)),
)
STEPS = st.one_of(
    st.tuples(st.just("epoch"), st.lists(ACTIONS, max_size=4)),
    st.tuples(st.just("start"), st.integers(1, 5)),
    st.tuples(st.just("compact"), st.none()),
)


def act(stores: Sequence[OperatorStateBackend], model: Model, action: str, subtask: int, values: Any) -> None:
    subtask %= len(stores)
    if action in {"first", "second"}:
        stores[subtask].list_state(FIRST if action == "first" else SECOND).add_all(values)
        model.lists[action][subtask] += values
    elif action == "replace":
        stores[subtask].list_state(FIRST).update(values)
        model.lists["first"][subtask] = list(values)
    elif action == "union":
        for value in values:
            stores[subtask].union_list_state(UNION).add(value)
        model.union[subtask] += values
    elif action == "claim":  # what programs do with a union: each keeps what is its own
        for number, store in enumerate(stores):
            mine = [value for value in store.union_list_state(UNION).get() if len(value) % len(stores) == number]
            store.union_list_state(UNION).update(mine)
            model.union[number] = mine.copy()
    else:
        for number, store in enumerate(stores):
            for value in values:
                put_or_remove(store, model.maps[number], action, value)


def put_or_remove(store: OperatorStateBackend, entries: dict[str, int], action: str, value: str) -> None:
    state = store.broadcast_state(MAP)
    if action == "put":
        state.put(value, len(entries))
        entries[value] = len(entries)
    else:
        state.remove(value)
        entries.pop(value, None)


@settings(max_examples=draws(80), deadline=None)
@given(st.integers(1, 4), st.sampled_from([0, 1 << 20]), st.lists(STEPS, max_size=12))
def test_it_is_as_flink_has_it(parallelism: int, inline_threshold: int, steps: list[tuple[str, Any]]) -> None:
    subtasks, model = Subtasks(parallelism, inline_threshold), Model(parallelism)
    for step, what in [*steps, ("epoch", [])]:
        if step == "compact":
            subtasks.compact()
            continue
        if step == "start":
            subtasks.start(what)
            if subtasks.refs:
                model.start(what)
            else:
                model = Model(what)
        stores = subtasks.begin()
        for action in what if step == "epoch" else ():
            act(stores, model, *action)
        expected = {**model.lists, "union": model.union, "maps": model.maps}
        assert shown(stores) == expected
        assert [list(store.broadcast_state(MAP).keys()) for store in stores] == [list(m) for m in model.maps]
        subtasks.end()


def test_only_the_first_epoch_after_a_start_is_restored() -> None:
    subtasks = Subtasks(2)
    for starts in (False, True, True):
        if starts:
            subtasks.start(3)
        restored = []
        for _ in range(2):
            stores = subtasks.begin()
            restored.append({store.is_restored for store in stores})
            subtasks.end()
        assert restored == [{starts}, {False}]


def test_what_has_not_changed_is_not_written() -> None:
    subtasks = Subtasks(2)
    for store in subtasks.begin():
        store.list_state(FIRST).update([1, 2, 3])
        store.broadcast_state(MAP).put("a", 1)
    subtasks.end()
    written = subtasks.refs
    for store in subtasks.begin():
        assert store.list_state(FIRST).get() == [1, 2, 3]
        store.list_state(FIRST).update([1, 2, 3])  # as a function does that takes its own snapshots
        assert store.broadcast_state(MAP).get("a") == 1
    subtasks.end()
    assert subtasks.refs == written
    subtasks.start(2)
    assert shown(subtasks.begin())["first"] == [[1, 2, 3]] * 2
    subtasks.end()
    assert [ref.epoch for ref in subtasks.refs] == [2, 2], "a union, had there been any, would have been dealt out"


def test_doubles_have_not_changed_when_all_their_bits_are_the_same() -> None:
    """In Python -0.0 equals 0.0, and NaN does not equal itself."""
    doubles = ListStateDescriptor("doubles", Types.DOUBLE())
    subtasks, written = Subtasks(1), []
    for values in ([0.0, math.nan], [0.0, math.nan], [-0.0, math.nan]):
        subtasks.begin()[0].list_state(doubles).update(values)
        subtasks.end()
        written.append(subtasks.refs)
        assert repr(subtasks.begin()[0].list_state(doubles).get()) == repr(values)
    assert written[0] == written[1] != written[2]


def test_a_change_is_written_without_what_was_there() -> None:
    subtasks = Subtasks(1)
    subtasks.begin()[0].list_state(FIRST).add_all(range(100_000))
    subtasks.end()
    large = len(subtasks.storage.files[subtasks.refs[0].name])
    for number in range(40):
        (store,) = subtasks.begin()
        store.list_state(FIRST).add(number)
        subtasks.end()
        assert len(subtasks.storage.files[subtasks.refs[0].name]) < large / 20
    (store,) = subtasks.begin()
    assert store.list_state(FIRST).get() == [*range(100_000), *range(40)]
    assert len(subtasks.tasks[0].store(UID, "list/first").runs) < MAX_RUNS


def test_at_a_start_whole_runs_stay_where_they_are() -> None:
    subtasks = Subtasks(1)
    (store,) = subtasks.begin()
    store.union_list_state(UNION).add_all([str(number) for number in range(50_000)])
    store.broadcast_state(MAP).put_all({str(number): number for number in range(50_000)})
    subtasks.end()
    name = subtasks.refs[0].name
    subtasks.start(4)
    for store in subtasks.begin():
        assert len(store.union_list_state(UNION).get()) == 50_000
        assert store.broadcast_state(MAP).get("49999") == 49_999
    subtasks.end()
    for ref in subtasks.refs:
        assert name in ref.files
        assert len(subtasks.storage.files[ref.name]) < len(subtasks.storage.files[name]) / 20


@pytest.mark.slow
def test_long_lists_are_merged_beside_the_epochs() -> None:
    subtasks = Subtasks(2)
    expected: list[int] = []
    for number in range(3):
        for store in subtasks.begin():
            store.list_state(FIRST).add_all(range(number, 300_000))
        expected += range(number, 300_000)
        subtasks.end()
    assert subtasks.compact() == 2
    stores = subtasks.begin()
    assert [len(task.store(UID, "list/first").runs) for task in subtasks.tasks] == [1, 1]
    assert [store.list_state(FIRST).get() == expected for store in stores] == [True, True]
    subtasks.end()


def test_state_by_key_and_without_keys_side_by_side() -> None:
    """Keys go where their key groups are, lists are dealt out, under one uid."""
    codec = KeyCodec.for_type(Types.LONG())
    task = HashMapTaskStates.open(storage := MemoryFolder(), [], 1, 0, {UID: StateOwner(1, MAX_PARALLELISM, ALL)})
    state = task.operator(UID)
    state.bind_key_codec(codec)
    state.begin_epoch(0, 0)
    count = state.keyed.state(ValueStateDescriptor("count", Types.LONG()))
    for entry in state.keyed.bind(codec.encode(range(100))):
        state.keyed.current = entry
        count.update(entry.key * 2)
    state.operator_state_store.list_state(FIRST).add_all(range(101))
    state.end_epoch()
    ref = task.snapshot(1, 1, 0)

    found: dict[int, int] = {}
    lists = []
    for subtask in range(3):
        owner = StateOwner(3, MAX_PARALLELISM, ALL, before=1)
        task = HashMapTaskStates.open(storage, [ref], 1, subtask, {UID: owner})
        state = task.operator(UID)
        state.bind_key_codec(codec)
        state.begin_epoch(0, 0)
        count = state.keyed.state(ValueStateDescriptor("count", Types.LONG()))
        for entry in state.keyed.bind(codec.encode(range(100))):
            state.keyed.current = entry
            if count.value() is not None:
                assert entry.key not in found
                found[entry.key] = count.value()
        lists.append(state.operator_state_store.list_state(FIRST).get())
    assert found == {key: key * 2 for key in range(100)}
    assert lists == [[*range(34)], [*range(34, 68)], [*range(68, 101)]]


def test_of_an_operator_that_is_not_in_the_task_nothing_is_kept() -> None:
    subtasks = Subtasks(1)
    subtasks.begin()[0].list_state(FIRST).add(1)
    subtasks.end()
    owners = {"another": StateOwner(1, MAX_PARALLELISM, WITHOUT_KEYS, before=1)}
    task = HashMapTaskStates.open(subtasks.storage, subtasks.refs, 1, 0, owners)
    assert task.sizes() == {}


def with_ttl(descriptor: StateDescriptor) -> StateDescriptor:
    descriptor = deepcopy(descriptor)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    return descriptor


def test_declarations_that_are_refused() -> None:
    subtasks = Subtasks(1)
    (store,) = subtasks.begin()
    assert store.list_state(FIRST) is store.list_state(ListStateDescriptor("first", Types.LONG()))
    with pytest.raises(InvalidProgramError, match=r"the state 'first' twice: as operator list .* and as union"):
        store.union_list_state(FIRST)
    with pytest.raises(InvalidProgramError, match="the state 'first' twice"):
        store.list_state(ListStateDescriptor("first", Types.STRING()))
    with pytest.raises(InvalidProgramError, match="expected a ListStateDescriptor"):
        store.list_state(MAP)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="broadcast state has no time to live, so 'rules'"):
        store.broadcast_state(with_ttl(MAP))  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"^list state 'first': the element cannot be None"):
        store.list_state(FIRST).add(None)
    with pytest.raises(InvalidTypeError, match=r"^list state 'first': the element: got 'text'"):
        store.list_state(FIRST).add("text")


@pytest.mark.parametrize("values", [5, None, "abc", {"a": 1}])
def test_what_is_no_list_is_refused_and_the_list_stays(values: Any) -> None:
    (store,) = Subtasks(1).begin()
    state = store.list_state(ListStateDescriptor("names", Types.STRING()))
    state.add("x")
    for name, change in (("update", state.update), ("add_all", state.add_all)):
        with pytest.raises(InvalidTypeError, match=rf"^list state 'names': {name}\(\): got .*, expected a list of"):
            change(values)
    assert state.get() == ["x"]


def test_state_that_was_stored_otherwise_is_refused() -> None:
    subtasks = Subtasks(1)
    (store,) = subtasks.begin()
    store.list_state(FIRST).add(1)
    store.broadcast_state(MAP).put("a", 1)
    subtasks.end()
    (store,) = subtasks.begin()
    with pytest.raises(StateMigrationError, match="'first' was stored with another type"):
        store.list_state(ListStateDescriptor("first", Types.STRING()))
    with pytest.raises(StateMigrationError, match="'first' was stored as operator list state and is declared as union"):
        store.union_list_state(FIRST)
    with pytest.raises(StateMigrationError, match="'rules' was stored as broadcast state"):
        store.list_state(ListStateDescriptor("rules", Types.LONG()))


def test_kinds_that_are_not_declared_cannot_be_used() -> None:
    (store,) = Subtasks(1, kinds=frozenset({StateKind.LIST})).begin()
    store.list_state(FIRST).add(1)
    with pytest.raises(StateError, match="its spec does not declare union list state"):
        store.union_list_state(UNION)
    task = HashMapTaskStates.open(MemoryFolder(), [], 1, 0, {UID: StateOwner(1, MAX_PARALLELISM, KEYED)})
    with pytest.raises(StateError, match="declares no kind of state without keys"):
        _ = task.operator(UID).operator_state_store


def test_what_is_read_belongs_to_the_reader() -> None:
    descriptor = ListStateDescriptor("lists", Types.LIST(Types.LONG()))
    subtasks = Subtasks(1)
    (store,) = subtasks.begin()
    element = [1]
    store.list_state(descriptor).add(element)
    element.append(2)
    store.list_state(descriptor).get()[0].append(3)
    assert store.list_state(descriptor).get() == [[1]]
    subtasks.end()
    assert subtasks.begin()[0].list_state(descriptor).get() == [[1]]
