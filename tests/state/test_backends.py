"""What every state backend has to do for an operator: one suite, run on headrace's own and on one of dicts."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.errors import (
    InvalidProgramError,
    InvalidTypeError,
    StateCorruptedError,
    StateMigrationError,
)
from headrace.common.time import Time
from headrace.state.backend import STATE_BACKENDS
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.draws import draws
from tests.state.backends import BACKENDS
from tests.state.harness import UID, Job, MemoryFolder
from tests.state.test_state_model import KEY_KINDS, Average, Checker

if TYPE_CHECKING:
    from headrace.state.backend import StateBackendPlugin

pytestmark = pytest.mark.usefixtures("installed")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["integers", "strings", "tuples"])
def test_keyed_states_are_as_their_model(kind: str, backend: StateBackendPlugin) -> None:
    source = random.Random(kind)
    type_, key_of = KEY_KINDS[kind]
    job = Job(Job().codec.for_type(type_), inline_threshold=source.choice([0, 1 << 20]), backend=backend)
    checker, keys = Checker(source), [key_of(n) for n in range(25)]
    for parallelism in (1, 4, 3, 1):
        job.rescale(parallelism)
        for keep in (False, True, True):
            operators = job.begin()
            job.on_keys(operators, keys, checker.check)
            job.on_keys(operators, source.choices(keys, k=60), checker.touch)
            job.keep = keep
            job.end()
            if not keep:
                job.compact()
            job.collect_garbage()


@pytest.mark.sampled(1)
def test_states_of_a_key_and_a_namespace_are_kept_apart(backend: StateBackendPlugin) -> None:
    job = Job(backend=backend)
    count = ValueStateDescriptor("count", Types.LONG())
    model: dict[tuple[int, Any], int] = defaultdict(int)
    source = random.Random(1)

    def touch(operator: Any, key: int, _: int) -> None:
        for namespace in source.sample([-5, 0, 7, b"", b"seven", 1 << 62, (0, 7), (-5, 7)], 5):
            operator.keyed.enter_namespace(namespace, (operator.keyed.current,))
            state = operator.keyed.namespaced_state(count)
            assert (state.value() or 0) == model[key, namespace]
            model[key, namespace] += 1
            state.update(model[key, namespace])
        assert operator.keyed.state(count).value() is None

    for parallelism in (1, 3, 2):
        job.rescale(parallelism)
        for _ in range(3):
            job.on_keys(job.begin(), list(range(-9, 9)), touch)
            job.end()
        job.compact()
    assert len(model) == 18 * 8


class Longest:
    """Keeps the words of the greatest length, in a list that it changes in place."""

    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: str, accumulator: list[str]) -> list[str]:
        return self.merge(accumulator, [value])

    def merge(self, a: list[str], b: list[str]) -> list[str]:
        a.extend(b)
        a[:] = [word for word in a if len(word) == max(map(len, a))]
        return a

    def get_result(self, accumulator: list[str]) -> list[str]:
        return accumulator


MERGING: list[tuple[StateDescriptor, Any]] = [
    (ListStateDescriptor("words", Types.STRING()), ["be", "tea", "egg"]),
    (ReducingStateDescriptor("joined", lambda a, b: f"{a}+{b}", Types.STRING()), "be+tea+egg"),
    (AggregatingStateDescriptor("longest", Longest(), Types.LIST(Types.STRING())), ["tea", "egg"]),
]


@pytest.mark.parametrize(("descriptor", "merged"), MERGING, ids=lambda given: getattr(given, "name", ""))
@pytest.mark.parametrize("is_stored", [False, True])
def test_what_namespaces_hold_is_made_one(
    descriptor: StateDescriptor, merged: Any, is_stored: bool, backend: StateBackendPlugin
) -> None:
    job, pieces = Job(backend=backend), {(0, 5): ["be"], (5, 9): ["tea"], (9, 12): ["egg"]}

    def fill(operator: Any, key: int, _: int) -> None:
        for operator.keyed.namespace, words in pieces.items():
            for word in words:
                operator.keyed.namespaced_state(descriptor).add(word)

    def merge(operator: Any, key: int, _: int) -> None:
        operator.keyed.expect([(operator.keyed.current, namespace) for namespace in pieces])
        operator.keyed.namespace = (0, 5)
        operator.keyed.merge_namespaces(descriptor, [(5, 9), (9, 12), (12, 13)])
        assert operator.keyed.namespace == (0, 5)

    def check(operator: Any, key: int, _: int) -> None:
        state = operator.keyed.namespaced_state(descriptor)
        found = []
        for operator.keyed.namespace in [(0, 5), (5, 9), (9, 12), (12, 13)]:
            found.append(state.get() or None)
        assert found == [merged, None, None, None]

    for use in (fill, merge, check):
        if is_stored or not job.tasks:
            operators = job.begin()
        job.on_keys(operators, [1, 2], use)
        if is_stored:
            job.end()


@pytest.mark.parametrize("descriptor", [descriptor for descriptor, _ in MERGING], ids=lambda given: given.name)
def test_all_keys_and_namespaces_of_a_state_are_told(descriptor: StateDescriptor, backend: StateBackendPlugin) -> None:
    def fill(operator: Any, key: int, _: int) -> None:
        for operator.keyed.namespace in [(0, 5), 7, b"w"]:
            operator.keyed.namespaced_state(descriptor).add("tea")

    job = Job(backend=backend)
    for keys in ([1, 2], [2, 3]):
        job.on_keys(job.begin(), keys, fill)
        job.end()
    found = [
        (key.key, namespace)
        for operator in job.begin()
        for key, namespace in operator.keyed.keys_and_namespaces(descriptor)
    ]
    assert len(found) == len(set(found))
    assert set(found) == {(key, namespace) for key in (1, 2, 3) for namespace in [(0, 5), 7, b"w"]}


@pytest.mark.parametrize("descriptor", [ValueStateDescriptor("last"), MapStateDescriptor("seen")], ids=["value", "map"])
def test_state_that_cannot_be_merged_is_refused(descriptor: StateDescriptor, backend: StateBackendPlugin) -> None:
    def merge(operator: Any, key: int, _: int) -> None:
        operator.keyed.namespace = 1
        with pytest.raises(InvalidProgramError, match=descriptor.name):
            operator.keyed.merge_namespaces(descriptor, [2])

    job = Job(backend=backend)
    job.on_keys(job.begin(), [1], merge)


TIMES = st.one_of(st.integers(0, 20), st.sampled_from([-(1 << 63) + 1, -1, (1 << 63) - 1]))
ACTIONS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 4), TIMES, st.sampled_from([None, -3, 4, b"w", (-3, 4), (3, 4)])),
    max_size=12,
)


@pytest.mark.parametrize("name", BACKENDS)
@settings(deadline=None, max_examples=draws(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(epochs=st.lists(st.tuples(ACTIONS, st.integers(0, 6), st.integers(1, 3)), min_size=1, max_size=6))
def test_timers_are_as_their_model(name: str, epochs: list[tuple[list[Any], int, int]]) -> None:
    """Registered, deleted, fired in order, at any parallelism."""
    job, model, reached = Job(backend=STATE_BACKENDS.load(name)), set(), -(1 << 63)
    for actions, advance, parallelism in epochs:
        job.rescale(parallelism)
        operators = job.begin()
        for is_new, key, time, namespace in actions:
            job.on_keys(
                operators,
                [key],
                lambda operator, _, __, now=time, where=namespace, new=is_new: (
                    operator.timers.event.register(now, where) if new else operator.timers.event.delete(now, where)
                ),
            )
            (model.add if is_new else model.discard)((time, key, namespace))
        reached = advance if reached < 0 else reached + advance
        moved = reached > job.watermark
        fired = [[(t.time, t.entry.key, t.namespace) for t in o.timers.event.pop_due(reached)] for o in operators]
        due = {timer for timer in model if timer[0] <= reached} if moved else set()
        assert {timer for found in fired for timer in found} == due
        assert len([timer for found in fired for timer in found]) == len(due)
        assert all([timer[0] for timer in found] == sorted(timer[0] for timer in found) for found in fired)
        model -= due
        job.end()
        job.watermark = reached


def test_a_time_to_live(backend: StateBackendPlugin) -> None:
    """Of values, elements and entries; prolonged by reading where that is asked for, seen once where that is."""
    job = Job(backend=backend)
    lives = StateTtlConfig.new_builder(Time.milliseconds(100))
    plain, read = lives.build(), lives.update_ttl_on_read_and_write().build()
    once = StateTtlConfig.new_builder(Time.milliseconds(100)).return_expired_if_not_cleaned_up().build()

    def states(operator: Any, _: int, __: int) -> list[Any]:
        made = []
        for name, config in (("plain", plain), ("read", read), ("once", once)):
            for kind in (
                ValueStateDescriptor(f"{name}-value", Types.LONG()),
                ListStateDescriptor(f"{name}-list", Types.LONG()),
                MapStateDescriptor(f"{name}-map", Types.STRING(), Types.LONG()),
                ReducingStateDescriptor(f"{name}-sum", lambda left, right: left + right, Types.LONG()),
                AggregatingStateDescriptor(f"{name}-average", Average(), Types.LIST(Types.LONG())),
            ):
                kind.enable_time_to_live(config)
                made.append(operator.keyed.state(kind))
        return made

    def write(*args: Any) -> None:
        for value, elements, entries, total, average in zip(*[iter(states(*args))] * 5, strict=True):
            value.update(1)
            elements.add(1)
            entries.put("a", 1)
            total.add(1)
            average.add(1)

    def look(*args: Any) -> list[Any]:
        groups = zip(*[iter(states(*args))] * 5, strict=True)
        return [(v.value(), li.get(), list(m.items()), s.get(), a.get()) for v, li, m, s, a in groups]

    here, gone = (1, [1], [("a", 1)], 1, (1, 1)), (None, [], [], None, None)
    seen = []
    for clock, action in ((0, write), (60, look), (99, look), (100, look), (158, look), (258, look), (400, look)):
        job.clock = clock
        seen.append(job.on_keys(job.begin(), [7], action)[0])
        job.end()
    assert seen[1] == seen[2] == [here, here, here]
    assert [found[:2] for found in seen[3:]] == [[gone, here], [gone, here], [gone, gone], [gone, gone]]
    assert seen[3][2] == here  # what has expired is read once more, and then gone
    assert seen[4][2] == gone


def test_a_range_of_the_entries_of_a_map(backend: StateBackendPlugin) -> None:
    job = Job(backend=backend)
    times, names = MapStateDescriptor("times", Types.LONG(), Types.LONG()), MapStateDescriptor("names", str, int)
    keys = [5, -(1 << 63), 0, (1 << 63) - 1, -7, 12]
    for half in (keys[:3], keys[3:]):
        entries = {key: key + 1 if key < 9 else 0 for key in half}
        job.on_keys(job.begin(), [1], lambda operator, _, __, new=entries: operator.keyed.state(times).put_all(new))
        job.end()

    def look(operator: Any, _: int, __: int) -> list[list[int]]:
        state = operator.keyed.state(times)
        state.remove(0)
        with pytest.raises(InvalidTypeError, match="integers"):
            operator.keyed.state(names).items_between(0, 1)
        bounds = ((None, None), (-7, 12), (5, None), (None, -7), (3, 3))
        return [[key for key, _ in state.items_between(low, high)] for low, high in bounds]

    everything_ = sorted(set(keys) - {0})
    assert job.on_keys(job.begin(), [1], look) == [
        [everything_, [-7, 5], [5, 12, keys[3]], [keys[1]], []],
    ]


def test_a_state_under_another_type_or_declared_twice_is_refused(backend: StateBackendPlugin) -> None:
    job = Job(backend=backend)
    whole, text = ValueStateDescriptor("value", Types.LONG()), ValueStateDescriptor("value", Types.STRING())
    job.on_keys(job.begin(), [1], lambda operator, _, __: operator.keyed.state(whole).update(1))
    with pytest.raises(InvalidProgramError, match="twice"):
        job.tasks[0].operator(UID).keyed.state(text)
    job.end()
    with pytest.raises(StateMigrationError, match="stored"):
        job.begin()[0].keyed.state(text)


@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_a_damaged_file_is_an_error_that_names_it(damage: str, backend: StateBackendPlugin) -> None:
    storage = MemoryFolder()
    job = Job(backend=backend, storage=storage)
    count = ValueStateDescriptor("count", Types.LONG())
    job.on_keys(job.begin(), list(range(50)), lambda operator, key, _: operator.keyed.state(count).update(key))
    (ref,) = job.end()
    content = storage.files.pop(ref.name)
    if damage == "flipped":
        storage.files[ref.name] = content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]
    with pytest.raises(StateCorruptedError, match=ref.name):
        job.on_keys(job.begin(), [1], lambda operator, _, __: operator.keyed.state(count).value())


def test_what_has_not_changed_is_not_written_again(backend: StateBackendPlugin) -> None:
    job = Job(backend=backend, keep=True)
    count = ValueStateDescriptor("count", Types.LONG())
    job.on_keys(job.begin(), [1], lambda operator, key, _: operator.keyed.state(count).update(key))
    (ref,) = job.end()
    job.begin()
    assert job.end() == [ref]
    assert sum(size for by_name in job.tasks[0].sizes().values() for size in by_name.values()) > 0
    job.tasks[0].close()
