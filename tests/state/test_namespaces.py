"""State of a key and namespace: apart from that of other namespaces, at home where its key is."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import InvalidProgramError, StateError, StateMigrationError
from headrace.common.time import Duration
from headrace.common.typeinfo import Types
from headrace.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.state.keyed.backend import KeyedStateBackend
from headrace.state.keyed.namespaces import GivenNamespace, NamespacedKeys, namespace_of, ordered_bytes
from headrace.state.keyed.table import StateTable
from headrace.state.keys import KeyCodec
from headrace.state.keys.codecs import NO_KEY
from headrace.state.keys.hashing import key_groups
from headrace.state.runs import run
from tests.draws import draws
from tests.state.harness import Job
from tests.state.test_state_model import KEY_KINDS, Checker, Model, between_epochs

COUNT = ValueStateDescriptor("count", Types.LONG())
WORDS = ListStateDescriptor("words", Types.STRING())
PLACES = MapStateDescriptor("places", Types.STRING(), Types.LONG())
NAMESPACES: list[GivenNamespace] = [0, -1, 1 << 62, b"", b"w", (0, 60), (-1, 60)]


class View:
    """The states of the current key and namespace, where a checker looks for those of the key."""

    def __init__(self, keyed: KeyedStateBackend) -> None:
        self._keyed = keyed

    def state(self, descriptor: StateDescriptor) -> Any:
        return self._keyed.namespaced_state(descriptor)


class NamespaceChecker(Checker):
    """Touches the state of keys, and of keys and namespaces, by turns."""

    def touch(self, operator: Any, key: Any, position: int) -> None:
        super().touch(operator, key, position)
        namespace = operator.keyed.namespace = self.source.choice(NAMESPACES)
        model = self.models.setdefault((key, namespace), Model())
        for action in self.source.sample(self.actions(), self.source.randint(1, 5)):
            action(View(operator.keyed), model)

    def check(self, operator: Any, key: Any, position: int) -> None:
        super().check(operator, key, position)
        for namespace in NAMESPACES:
            operator.keyed.namespace = namespace
            model = self.models.get((key, namespace), Model())
            for look in (self.see_value, self.see_list, self.see_map, self.see_folded):
                look(View(operator.keyed), model)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "keep"),
    [
        pytest.param(kind, keep, marks=() if keep == (number % 2 == 0) and number < 4 else pytest.mark.slow)
        for number, kind in enumerate(KEY_KINDS)
        for keep in (True, False)
    ],
)
def test_states_are_as_their_model(kind: str, keep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(f"{kind}-{keep}")
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", source.choice([4, 1 << 18]))
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 1)
    monkeypatch.setattr("headrace.state.compaction.SLICE_BYTES", source.choice([500, 4_000, 1 << 26]))
    type_, key_of = KEY_KINDS[kind]
    job = Job(KeyCodec.for_type(type_), inline_threshold=source.choice([0, 20_000, 1 << 20]), keep=keep)
    checker = NamespaceChecker(source)
    every_key = [key_of(n) for n in range(12)]
    for _ in range(15):
        operators = job.begin()
        for _ in range(source.randint(0, 3)):
            job.on_keys(operators, source.choices(every_key, k=source.choice([1, 40])), checker.touch)
        if source.random() < 0.3:
            job.on_keys(operators, every_key, checker.check)
        job.end()
        between_epochs(job, source)
    job.tasks = []
    job.on_keys(job.begin(), every_key, checker.check)


_LONGS = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=draws(50), deadline=None)
@given(st.lists(st.tuples(_LONGS, st.one_of(_LONGS, st.binary())), min_size=1))
def test_pairs_are_in_the_key_group_of_their_key(pairs: list[tuple[int, bytes | int]]) -> None:
    backend = KeyedStateBackend(KeyCodec.for_type(Types.LONG()), lambda name: None)  # type: ignore[arg-type, return-value]
    keys = backend.codec.encode([key for key, _ in pairs])
    found = NamespacedKeys()
    entries = [found.pair(entry, pair[1]) for entry, pair in zip(backend.bind(keys), pairs, strict=True)]
    columns = found.take(np.array([entry.ordinal for entry in entries], np.int64))
    for max_parallelism in (1, 7, 128, 32768):
        assert (key_groups(columns.hashes, max_parallelism) == key_groups(keys.hashes, max_parallelism)).all()
    assert len(set(columns.values.to_pylist())) == len(set(pairs)) == len(found.all)


LONGS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(LONGS), st.lists(st.binary()), st.lists(st.tuples(LONGS, LONGS)))
@settings(deadline=None)
def test_namespaces_are_ordered_as_their_bytes_are(
    numbers: list[int], strings: list[bytes], windows: list[tuple[int, int]]
) -> None:
    for namespaces in (numbers, strings, windows):
        encoded = list(map(ordered_bytes, namespaces))  # type: ignore[arg-type]
        assert list(map(namespace_of, sorted(encoded))) == sorted(namespaces)  # type: ignore[type-var]
    assert namespace_of(b"") is None


def touch(operator: Any, key: int, position: int) -> None:
    keyed = operator.keyed
    for keyed.namespace in (10, 20):
        keyed.namespaced_state(COUNT).update(key + keyed.namespace)
        keyed.namespaced_state(WORDS).add_all([f"{key}", f"{keyed.namespace}"])
        keyed.namespaced_state(PLACES).put_all({"key": key, "end": keyed.namespace})


def seen(operator: Any, key: int, position: int) -> list[Any]:
    keyed = operator.keyed
    found = []
    for keyed.namespace in (10, 20, 30):
        count, words, places = map(keyed.namespaced_state, (COUNT, WORDS, PLACES))
        found.append((count.value(), words.get(), places.items()))
    return found


def expected(key: int) -> list[Any]:
    held = [(key + end, [f"{key}", f"{end}"], [("key", key), ("end", end)]) for end in (10, 20)]
    return [*held, (None, [], [])]


def at_pair(job: Job, namespace: Any = 1) -> KeyedStateBackend:
    (operator,) = job.begin()
    operator.keyed.current = operator.keyed.bind(job.codec.encode([1]))[0]
    operator.keyed.namespace = namespace
    return operator.keyed


def test_a_state_by_key_and_one_by_namespace_may_have_the_same_name() -> None:
    job = Job()
    keyed = at_pair(job)
    keyed.state(COUNT).update(1)
    keyed.namespaced_state(WORDS).add("a")
    keyed.namespaced_state(COUNT).update(2)
    job.end()
    keyed = at_pair(job)
    assert (keyed.state(COUNT).value(), keyed.namespaced_state(COUNT).value()) == (1, 2)
    keyed.namespaced_state(COUNT).clear()
    job.end()
    keyed = at_pair(job)
    assert (keyed.state(COUNT).value(), keyed.namespaced_state(COUNT).value()) == (1, None)


def test_state_of_a_namespace_is_refused_without_a_key_or_a_namespace() -> None:
    keyed = at_pair(Job())
    state = keyed.namespaced_state(COUNT)
    for keyed.namespace in (None, "window", 1.0, (1, 2, 3), (1.0, 2)):  # type: ignore[assignment]
        with pytest.raises(StateError, match="namespace is"):
            state.value()
    keyed.namespace = 1
    assert state.value() is None
    keyed.current = NO_KEY
    with pytest.raises(StateError, match="can only be used while"):
        state.value()


def test_declarations_that_contradict_each_other_are_refused() -> None:
    job = Job()
    keyed = at_pair(job)
    keyed.namespaced_state(COUNT).update(1)
    other = ValueStateDescriptor("count", Types.STRING())
    with pytest.raises(InvalidProgramError, match="twice"):
        keyed.namespaced_state(other)
    job.end()
    with pytest.raises(StateMigrationError, match="another type"):
        at_pair(job).namespaced_state(other)


def test_state_of_a_namespace_expires() -> None:
    job, descriptor = Job(), ValueStateDescriptor("short", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(10)).build())
    at_pair(job).namespaced_state(descriptor).update(1)
    job.end()
    job.clock = 9
    assert at_pair(job).namespaced_state(descriptor).value() == 1
    job.clock = 10
    job.tasks = []
    assert at_pair(job).namespaced_state(descriptor).value() is None


@pytest.mark.slow
def test_a_key_may_have_many_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    keyed = at_pair(job)
    count = keyed.namespaced_state(COUNT)
    for keyed.namespace in range(20_000):
        count.update(keyed.namespace)
    job.end()
    steps: list[Any] = []
    find = run._hashes_at
    monkeypatch.setattr(run, "_hashes_at", lambda *given: steps.append(1) or find(*given))
    keyed = at_pair(job)
    count = keyed.namespaced_state(COUNT)
    for keyed.namespace in range(1, 20_000, 2):
        count.update(-1)  # met before the first one is read, which reads all that were met
    for keyed.namespace in range(0, 200, 2):
        assert count.value() == keyed.namespace
    # Each further one is read by itself: a step, and one more where the hashes of two pairs are the same.
    assert len(steps) < 300


def test_clearing_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    job.on_keys(job.begin(), range(10), touch)
    job.end()
    reads: list[Any] = []
    find = StateTable.find
    monkeypatch.setattr(StateTable, "find", lambda table, *given: reads.append(1) or find(table, *given))

    def clear(operator: Any, key: int, position: int) -> None:
        for operator.keyed.namespace in (10, 20):
            for descriptor in (COUNT, WORDS, PLACES):
                operator.keyed.namespaced_state(descriptor).clear()

    assert job.on_keys(job.begin(), [1], seen) == [expected(1)]
    job.end()
    assert reads
    reads.clear()
    job.on_keys(job.begin(), range(10), clear)
    job.end()
    assert not reads
    assert job.on_keys(job.begin(), [1], seen) == [[(None, [], [])] * 3]
