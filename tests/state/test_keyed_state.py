"""What user code may rely on when it reads and writes keyed state."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.common import Row, RowKind
from headrace.common.errors import InvalidProgramError, StateMigrationError
from headrace.common.typeinfo import Types
from headrace.state.copying import copy_value
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from headrace.state.interfaces import KeyedStateStore
from headrace.state.keys import KeyCodec, KeyColumn, hashing
from tests.draws import draws
from tests.state.harness import Job, at_key
from tests.state.test_state_model import Average, Checker, between_epochs


@dataclass
class Account:
    owner: str
    tags: list[str]


class Pair(NamedTuple):
    left: int
    right: str


class Mode(Enum):
    ON = 1


@settings(max_examples=draws(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_states_are_as_their_model_whatever_happens(source: random.Random) -> None:
    job, checker = Job(inline_threshold=source.choice([0, 1 << 20])), Checker(source)
    for _ in range(source.randint(1, 6)):
        operators = job.begin()
        job.on_keys(operators, [source.randint(0, 3) for _ in range(source.randint(0, 6))], checker.touch)
        job.end()
        between_epochs(job, source)
    job.on_keys(job.begin(), range(4), checker.check)


VALUES: list[tuple[Any, Any]] = [
    (None, {"any": [object, Mode.ON]}),
    (None, Account("a", ["b"])),
    (Types.of(Account), Account("ä", [])),
    (Types.of(Pair), Pair(1, "")),
    (Types.LIST(Types.LONG()), [1, 2]),
    (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 0.5}),
    (Types.BYTES(), b""),
    (int, -(2**63)),
    (str, "\0"),
]


@pytest.mark.parametrize(("type_", "value"), VALUES, ids=str)
def test_values_come_back_as_they_were(type_: Any, value: Any) -> None:
    job = Job()
    keyed = at_key(job)
    keyed.state(ValueStateDescriptor("v", type_)).update(value)
    keyed.state(ListStateDescriptor("l", type_)).update([value, value])
    keyed.state(MapStateDescriptor("m", str, type_)).put("k", value)
    job.end()
    keyed = at_key(job)
    assert keyed.state(ValueStateDescriptor("v", type_)).value() == value
    assert keyed.state(ListStateDescriptor("l", type_)).get() == [value, value]
    assert keyed.state(MapStateDescriptor("m", str, type_)).get("k") == value


@pytest.mark.parametrize("type_", [None, Types.LIST(Types.LONG())], ids=str)
def test_changing_what_was_read_or_written_changes_no_state(type_: Any) -> None:
    job = Job()
    for _ in range(2):  # freshly written, then loaded
        keyed = at_key(job)
        value = keyed.state(ValueStateDescriptor("v", type_))
        several = keyed.state(ListStateDescriptor("l", type_))
        entries = keyed.state(MapStateDescriptor("m", str, type_))
        if job.epoch == 0:
            written = [1]
            value.update(written)
            several.add(written)
            entries.put("k", written)
            written.append(2)
        for _ in range(2):
            for read in (value.value(), several.get()[0], entries.get("k"), entries.items()[0][1], entries.values()[0]):
                assert read == [1]
                read.append(3)
            several.get().append([4])
        job.end()


def test_results_of_aggregates_are_copies_too() -> None:
    class Collect:
        def create_accumulator(self) -> list[int]:
            return []

        def add(self, value: int, accumulator: list[int]) -> list[int]:
            accumulator.append(value)
            return accumulator

        def get_result(self, accumulator: list[int]) -> list[int]:
            return accumulator

    job, descriptor = Job(), AggregatingStateDescriptor("a", Collect())
    for expected in ([1], [1, 1], [1, 1, 1]):
        state = at_key(job).state(descriptor)
        state.add(1)
        state.get().append(9)
        assert state.get() == expected
        job.end()


def test_a_map_may_hold_none() -> None:
    job = Job()
    at_key(job).state(MapStateDescriptor("m")).put(None, None)
    job.end()
    state = at_key(job).state(MapStateDescriptor("m"))
    assert list(state) == [None]
    assert state.contains(None)
    assert state.get(None) is None


def test_keys_of_entries_come_back_as_they_were() -> None:
    keys = [Pair(1, "a"), 1.5, True, "x", (None,), Mode.ON]
    job = Job()
    at_key(job).state(MapStateDescriptor("m")).put_all(dict.fromkeys(keys, 1))
    job.end()
    stored = at_key(job).state(MapStateDescriptor("m")).keys()
    assert list(map(type, stored)) == list(map(type, keys))
    assert stored == keys


class Echo(KeyedStateStore):
    """Gives the descriptors themselves."""

    def _state(self, descriptor: StateDescriptor, method: str) -> Any:
        return method, descriptor


def test_each_getter_takes_its_own_descriptors() -> None:
    mean = Average()
    descriptors: dict[str, Any] = {
        "get_state": ValueStateDescriptor("s"),
        "get_list_state": ListStateDescriptor("s"),
        "get_map_state": MapStateDescriptor("s"),
        "get_reducing_state": ReducingStateDescriptor("s", max),
        "get_aggregating_state": AggregatingStateDescriptor("s", mean),
    }
    for method in descriptors:
        for name, descriptor in descriptors.items():
            if name == method:
                assert getattr(Echo(), method)(descriptor) == (method, descriptor)
            else:
                with pytest.raises(InvalidProgramError, match=f"{method}: expected a"):
                    getattr(Echo(), method)(descriptor)


def test_other_keys_cannot_take_over_state() -> None:
    job = Job()
    at_key(job).state(ValueStateDescriptor("s", int)).update(1)
    job.end()
    job.codec = KeyCodec.for_type(Types.STRING())
    with pytest.raises(StateMigrationError, match="another key type: stored Long, declared String;"):
        at_key(job, "1").state(ValueStateDescriptor("s", int))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", [Types.STRING(), Types.PICKLED_BYTE_ARRAY()], ids=str)
@pytest.mark.parametrize("count", [10, 200])
def test_keys_with_the_same_hash_are_told_apart(type_: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def few_hashes(array: pa.Array) -> Any:
        return np.array([len(str(value)) % 3 for value in array.to_pylist()], dtype=np.uint64) << np.uint64(60)

    monkeypatch.setattr(hashing, "_hash_binary", few_hashes)
    job, source = Job(KeyCodec.for_type(type_)), random.Random(count)
    checker = Checker(source)
    keys = ["x" * (n % 7) + str(n) for n in range(count)]
    for _ in range(6):
        operators = job.begin()
        job.on_keys(operators, source.choices(keys, k=count), checker.touch)
        job.on_keys(operators, keys, lambda operator, key, row: operator.timers.event.register(job.epoch + row % 3))
        job.end()
    operators = job.begin()
    job.on_keys(operators, keys, checker.check)
    fired = [(timer.time, timer.entry.key) for timer in operators[0].timers.event.pop_due(100)]
    assert sorted(fired) == sorted({(epoch + row % 3, key) for epoch in range(6) for row, key in enumerate(keys)})


def test_one_entry_per_key_and_epoch() -> None:
    (operator,) = Job(KeyCodec.for_type(Types.STRING())).begin()
    codec = operator.keyed.codec
    many = operator.keyed.bind(codec.encode([f"k{n % 50}" for n in range(1000)]))
    few = operator.keyed.bind(codec.encode(["k1", "new", "k1", "new"]))
    assert len({id(entry) for entry in many}) == 50
    assert [entry.key for entry in many] == [f"k{n % 50}" for n in range(1000)]
    assert few[0] is few[2] is many[1]
    assert few[1] is few[3]
    assert operator.keyed.bind(KeyColumn.of(pa.array([], pa.string()))) == []


@pytest.mark.parametrize("step", [1, -1, 3, 7])
def test_keys_that_have_to_be_decoded_are_right_in_whatever_order_they_are_asked_for(step: int) -> None:
    codec = KeyCodec.for_type(Types.TUPLE([Types.LONG(), Types.STRING()]))
    keyed = Job(codec).begin()[0].keyed
    keys = [(n, f"k{n}") for n in range(3_000)]
    entries = keyed.bind(codec.encode(keys[:50])) + keyed.bind(codec.encode(keys[50:]))
    for place in [*range(0, 3_000, 700), *range(3_000)[::step], *range(3_000)]:
        assert entries[place].key == keys[place]


def test_reading_costs_nothing_for_keys_that_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    job, descriptor = Job(), ValueStateDescriptor("v", Types.LONG())
    operators = job.begin()
    job.on_keys(operators, range(1000), lambda op, key, _: op.keyed.state(descriptor).update(key))
    job.end()
    (operator,) = job.begin()
    state = operator.keyed.state(descriptor)
    read: list[int] = []
    decode = state._cells._elements.__class__.from_columns
    monkeypatch.setattr(
        state._cells._elements.__class__,
        "from_columns",
        lambda self, values, expiries: read.append(len(values)) or decode(self, values, expiries),
    )
    entries = operator.keyed.bind(job.codec.encode([5, 6, 7]))
    for entry in entries:
        operator.keyed.current = entry
        assert state.value() == entry.key
    assert read == [3]


def test_an_epoch_that_changes_nothing_keeps_the_version() -> None:
    job, descriptor = Job(), ValueStateDescriptor("v", Types.LONG())
    at_key(job).state(descriptor).update(1)
    refs = job.end()
    at_key(job).state(descriptor).value()
    assert job.end() == refs
    at_key(job).state(descriptor).update(1)
    assert job.end() != refs


def run_epochs(job: Job) -> list[dict[str, Any]]:
    for epoch in range(8):
        operators = job.begin()
        source = random.Random(epoch)
        keys = [source.randint(0, 40) for _ in range(60)]

        def touch(operator: Any, key: Any, row: int) -> None:
            keyed = operator.keyed
            keyed.state(ValueStateDescriptor("v", Types.LONG())).update(row)
            keyed.state(ListStateDescriptor("l")).add((row, str(key)))
            keyed.state(MapStateDescriptor("m", Types.STRING(), Types.LONG())).put(str(row % 5), row)
            operator.timers.event.register(1000 + row)

        job.on_keys(operators, keys, touch)
        job.end()
    return [ref.to_json() for ref in job.refs]


def test_the_same_epochs_give_the_same_bytes() -> None:
    jobs = [Job(), Job(keep=True), Job()]
    versions = [run_epochs(job) for job in jobs]
    assert versions[0] == versions[1] == versions[2]
    assert jobs[0].storage.files == jobs[1].storage.files == jobs[2].storage.files  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "given", [[1, 2], (1, 2), np.array([1, 2]), iter([1, 2])], ids=["list", "tuple", "array", "iterator"]
)
def test_a_list_takes_whatever_has_elements(given: Any) -> None:
    state = at_key(Job()).state(ListStateDescriptor("s", Types.LONG()))
    state.add_all(given)
    assert state.get() == [1, 2]


def test_none_is_a_key_of_entries_without_a_type_and_none_that_a_typed_map_has() -> None:
    state = at_key(Job()).state(MapStateDescriptor("untyped", Types.PICKLED_BYTE_ARRAY(), Types.LONG()))
    state.put(None, 1)
    assert state.get(None) == 1
    sizes = at_key(Job()).state(MapStateDescriptor("sizes", Types.LONG(), Types.LONG()))
    assert sizes.get(None) is None
    assert not sizes.contains(None)


@pytest.mark.parametrize(
    "row",
    [
        Row(1, "a"),
        Row(a=[1, [2]], b={"k": [3]}, c=None),
        Row.of_kind(RowKind.DELETE, Row(x=[1]), (1, [2])),
    ],
)
def test_a_copy_of_a_row_shares_nothing_that_can_be_changed(row: Row) -> None:
    told, copied = repr(row), copy_value(row)
    assert (copied, repr(copied), copied.get_row_kind()) == (row, told, row.get_row_kind())
    for value in copied:
        nested = value[-1] if isinstance(value, tuple) else value
        if isinstance(nested, Row):
            nested["x"].append("changed")
        elif isinstance(nested, list):
            nested[-1] = "changed"
        elif isinstance(nested, dict):
            nested["k"].append("changed")
    copied[0] = "changed"
    assert repr(row) == told


def test_clearing_a_list_that_is_known_to_be_empty_writes_nothing() -> None:
    job, descriptor = Job(), ListStateDescriptor("s", int)
    at_key(job, 1).state(descriptor).add(1)
    (before,) = job.end()
    state = at_key(job, 2).state(descriptor)
    assert not state.get()
    state.clear()
    assert job.end() == [before]
    state = at_key(job, 2).state(descriptor)
    state.clear()  # without having looked: it may hide something
    assert job.end() != [before]
    state = at_key(job, 1).state(descriptor)
    assert state.get() == [1]
    state.clear()
    state.add(2)
    state.clear()
    job.end()
    assert not at_key(job, 1).state(descriptor).get()


def test_what_is_written_of_a_map_does_not_depend_on_what_was_read() -> None:
    """Subtasks that have one in common are compared by that."""
    jobs, descriptor = [Job(), Job()], MapStateDescriptor("s", int, int)
    for reads, job in enumerate(jobs):
        at_key(job, 2).state(descriptor).put(1, 1)
        job.end()
        state = at_key(job, 1).state(descriptor)
        assert not reads or state.is_empty()
        state.clear()
        state.put(1, 1)
        job.end()
    assert jobs[0].refs == jobs[1].refs
