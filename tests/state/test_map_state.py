"""Map state as sorted entries: single ones are looked up, and everything is as a dict would have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from headrace.common import Row
from headrace.common.errors import InvalidTypeError, StateCorruptedError
from headrace.common.time import Time
from headrace.common.typeinfo import TypeInformation, Types
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateTtlConfig
from headrace.state.keys import hashing
from headrace.state.keys.typed import same_nan
from headrace.storage.folder import posix_folder
from tests.draws import draws
from tests.state.harness import UID, Job, at_key

ENTRIES = MapStateDescriptor("entries", Types.LONG(), Types.STRING())
TTL = 50

NANS = st.builds(float, st.just("nan"))
"""Another object each time."""

ENTRY_KEYS: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.LONG(), st.sampled_from([0, 1, -1, 7, 2**63 - 1, -(2**63)]) | st.integers(0, 40)),
    (Types.STRING(), st.sampled_from(["", "a", "ä", "я" * 40, "\0"]) | st.integers(0, 20).map(str)),
    (Types.BYTES(), st.binary(max_size=2)),
    (Types.DOUBLE(), st.sampled_from([0.0, -0.0, 1.5, float("inf"), 1e300]) | NANS),
    (Types.TUPLE([Types.STRING(), Types.INT()]), st.tuples(st.sampled_from(["", "x"]), st.integers(0, 9))),
    (Types.TUPLE([Types.DOUBLE(), Types.INT()]), st.tuples(st.sampled_from([0.0, -0.0]) | NANS, st.integers(0, 3))),
    (
        Types.ROW([Types.STRING(), Types.TUPLE([Types.FLOAT()])]),
        # With the names that come back, since what has a time to live is compared by its text.
        st.builds(Row, f0=st.sampled_from(["", "x"]), f1=st.tuples(st.sampled_from([-0.0, 1.5]) | NANS)),
    ),
    (Types.PICKLED_BYTE_ARRAY(), st.sampled_from([None, 1, True, 1.0, "1", (1, "x"), (1, (None,)), b"", 2.5])),
]
KEYS = st.integers(0, 4)
LIMITS = {
    "keyed.map_state.SMALL_MAP": st.sampled_from([0, 3, 256]),
    "keyed.map_state.LOOK_UP_COST": st.sampled_from([0, 1, 64]),
    "runs.sections.FEW": st.sampled_from([1, 32]),
    "runs.sections.STEP": st.sampled_from([1, 4096]),
    "runs.merging.INLINE_ROWS": st.sampled_from([2, 12, 1 << 18]),
    "compaction.INLINE_ROWS": st.just(1),
    "compaction.SLICE_BYTES": st.sampled_from([500, 1 << 26]),
}
VALUES = st.none() | st.integers(-9, 9)


class Entry:
    """What the model knows of one entry."""

    def __init__(self, value: Any, expiry: int | None) -> None:
        self.value = value
        self.expiry = expiry


class MapMachine(RuleBasedStateMachine):
    """A map state of a few keys, and a dict for each of them."""

    kinds: ClassVar = ENTRY_KEYS

    @initialize(
        data=st.data(),
        ttl=st.sampled_from([None, None, "write", "read"]),
        limits=st.fixed_dictionaries(LIMITS),
        threshold=st.sampled_from([0, 1 << 20]),
        keep=st.booleans(),
    )
    def begin(self, data: st.DataObject, ttl: str | None, limits: dict[str, int], threshold: int, keep: bool) -> None:
        self.patches = [mock.patch(f"headrace.state.{name}", value) for name, value in limits.items()]
        for patch in self.patches:
            patch.start()
        type_, self.entry_keys = data.draw(st.sampled_from(self.kinds))
        self.descriptor = MapStateDescriptor("m", type_, Types.LONG())
        self.ttl = ttl
        if ttl is not None:
            config = StateTtlConfig.new_builder(Time.milliseconds(TTL))
            if ttl == "read":
                config.update_ttl_on_read_and_write()
            self.descriptor.enable_time_to_live(config.build())
        self.job = Job(inline_threshold=threshold, keep=keep)
        self.models: dict[int, dict[Any, Entry]] = {}
        self.operators = self.job.begin()

    def teardown(self) -> None:
        for patch in getattr(self, "patches", []):
            patch.stop()

    def at(self, key: int, action: Any) -> Any:
        (result,) = self.job.on_keys(
            self.operators, [key], lambda operator, *_: action(operator.keyed.state(self.descriptor))
        )
        return result

    def model(self, key: int) -> dict[Any, Entry]:
        """The entries that are alive."""
        entries = self.models.setdefault(key, {})
        for entry in [name for name, known in entries.items() if known.expiry is not None]:
            if entries[entry].expiry <= self.job.clock:  # type: ignore[operator]
                del entries[entry]
        return entries

    def set(self, key: int, entry: Any, value: Any) -> None:
        expiry = None if self.ttl is None else self.job.clock + TTL
        self.model(key)[same_nan(entry)] = Entry(value, expiry)

    def seen(self, key: int, entry: Any) -> Any:
        known = self.model(key).get(same_nan(entry))
        if known is not None and self.ttl == "read":
            known.expiry = self.job.clock + TTL
        return None if known is None else known.value

    @rule(key=KEYS, data=st.data(), value=VALUES)
    def put(self, key: int, data: st.DataObject, value: Any) -> None:
        entry = data.draw(self.entry_keys)
        self.set(key, entry, value)
        self.at(key, lambda state: state.put(entry, value))

    @rule(key=KEYS, data=st.data(), value=VALUES)
    def put_many(self, key: int, data: st.DataObject, value: Any) -> None:
        entries = dict.fromkeys(map(same_nan, data.draw(st.lists(self.entry_keys, max_size=30))), value)
        for entry in entries:
            self.set(key, entry, value)
        self.at(key, lambda state: state.put_all(entries))

    @rule(key=KEYS, data=st.data())
    def remove(self, key: int, data: st.DataObject) -> None:
        entry = data.draw(self.entry_keys)
        self.model(key).pop(same_nan(entry), None)
        self.at(key, lambda state: state.remove(entry))

    @rule(key=KEYS)
    def clear(self, key: int) -> None:
        self.models[key] = {}
        self.at(key, lambda state: state.clear())

    @rule(key=KEYS, data=st.data())
    def get(self, key: int, data: st.DataObject) -> None:
        entry = data.draw(self.entry_keys)
        assert self.at(key, lambda state: state.get(entry)) == self.seen(key, entry)

    @rule(key=KEYS, data=st.data())
    def contains(self, key: int, data: st.DataObject) -> None:
        entry = data.draw(self.entry_keys)
        is_there = same_nan(entry) in self.model(key)
        assert self.at(key, lambda state: entry in state) == is_there
        self.seen(key, entry)

    @rule(key=KEYS)
    def is_empty(self, key: int) -> None:
        assert self.at(key, lambda state: state.is_empty()) == (not self.model(key))

    @rule(key=KEYS)
    def all_keys(self, key: int) -> None:
        self.compare(self.at(key, lambda state: list(state.keys())), list(self.model(key)))
        for entry in list(self.model(key)):
            self.seen(key, entry)

    @rule(key=KEYS)
    def items(self, key: int) -> None:
        expected = [(entry, self.seen(key, entry)) for entry in list(self.model(key))]
        self.compare(self.at(key, lambda state: list(state.items())), expected)

    def compare(self, found: list[Any], expected: list[Any]) -> None:
        if self.ttl:  # where an expired entry was, and which of two equal keys, depends on whether something removed it
            assert len(found) == len(expected)
            assert all(each in expected for each in found)
        else:
            assert found == expected

    @rule(later=st.integers(0, TTL))
    def next_epoch(self, later: int) -> None:
        self.job.end()
        self.job.clock += later
        self.operators = self.job.begin()

    @rule()
    def next_epoch_after_a_compaction(self) -> None:
        self.job.end()
        self.job.compact(self.job.clock)
        self.operators = self.job.begin()

    @rule()
    def next_epoch_after_a_restart(self) -> None:
        self.job.end()
        self.job.collect_garbage()
        self.job.tasks = []
        self.operators = self.job.begin()

    @precondition(lambda self: not self.job.results)
    @rule(parallelism=st.sampled_from([1, 2, 3]))
    def next_epoch_at_another_parallelism(self, parallelism: int) -> None:
        self.job.end()
        self.job.rescale(parallelism)
        self.operators = self.job.begin()


def test_a_map_is_as_its_model() -> None:
    run_state_machine_as_test(
        MapMachine, settings=settings(max_examples=draws(60), stateful_step_count=40, deadline=None)
    )


@dataclass(frozen=True)
class Point:
    x: float
    y: int


def nan() -> float:
    return float("nan")


NOT_EQUAL_TO_THEMSELVES: list[tuple[TypeInformation, Callable[[], Any]]] = [
    (Types.DOUBLE(), nan),
    (Types.BIG_DEC(), lambda: Decimal("NaN")),
    (Types.TUPLE([Types.DOUBLE(), Types.INT()]), lambda: (nan(), 1)),
    (Types.TUPLE([Types.TUPLE([Types.BIG_DEC()]), Types.INT()]), lambda: ((Decimal("NaN"),), 1)),
    (Types.ROW_NAMED(["a"], [Types.FLOAT()]), lambda: Row(a=nan())),
    (Types.of(Point), lambda: Point(nan(), 1)),
    (Types.PICKLED_BYTE_ARRAY(), lambda: (frozenset([nan(), 1]), Row(nan()), Point(nan(), 2), Decimal("NaN"))),
    (Types.PICKLED_BYTE_ARRAY(), lambda: np.float32("nan")),
]


@pytest.mark.parametrize(
    ("type_", "key"), NOT_EQUAL_TO_THEMSELVES, ids=[str(type_) for type_, _ in NOT_EQUAL_TO_THEMSELVES]
)
@pytest.mark.parametrize("small", [0, 256])
def test_all_nans_are_one_wherever_they_are_in_a_key(
    type_: TypeInformation, key: Callable[[], Any], small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.state.keyed.map_state.SMALL_MAP", small)
    job, descriptor = Job(), MapStateDescriptor("m", type_, Types.LONG())
    for epoch in range(3):
        state = at_key(job).state(descriptor)
        assert state.get(key()) == (epoch or None)
        state.put(key(), -1)
        state.put(key(), epoch + 1)
        assert key() in state
        assert list(state.values()) == [epoch + 1]
        job.end()
    state = at_key(job).state(descriptor)
    state.remove(key())
    assert state.is_empty()


def fill(job: Job, count: int) -> None:
    at_key(job).state(ENTRIES).put_all({n: f"value {n}" for n in range(count)})
    job.end()


def test_looking_up_an_entry_touches_only_what_is_near_it(tmp_path: Path) -> None:
    job = Job(storage=posix_folder(tmp_path))
    fill(job, 200_000)
    path = tmp_path / job.refs[0].name
    data = bytearray(path.read_bytes())
    place = data.index(b"value 100000value 100001")
    data[place] ^= 1
    path.write_bytes(data)
    state = at_key(job).state(ENTRIES)
    assert [state.get(n) for n in (0, 199_999, 200_000)] == ["value 0", "value 199999", None]
    assert 5 in state
    state.put(7, "seven")
    state.remove(8)
    assert not state.is_empty()
    with pytest.raises(StateCorruptedError, match=path.name):
        state.get(100_000)
    with pytest.raises(StateCorruptedError, match=path.name):
        state.items()


def test_a_large_map_is_read_as_a_whole_once_that_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.keyed.map_state.LOOK_UP_COST", 100)
    job = Job()
    fill(job, 1000)
    state = at_key(job).state(ENTRIES)
    cell = state._cells.read()
    for n in range(10):
        assert state.get(n) == f"value {n}"
        assert not cell.is_loaded
    assert state.get(3) == "value 3"
    assert not cell.is_loaded  # that one is known
    assert state.get(10) == "value 10"
    assert cell.is_loaded


def few_hashes(array: pa.Array) -> Any:
    return np.array([len(value.as_py()) % 2 for value in array], dtype=np.uint64) << np.uint64(60)


@pytest.mark.parametrize("cost", [0, 1])
def test_entries_of_a_large_map_with_the_same_hash_are_told_apart(cost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_hash_binary", few_hashes)
    monkeypatch.setattr("headrace.state.keyed.map_state.LOOK_UP_COST", cost)
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 0)
    job, descriptor = Job(), MapStateDescriptor("m", Types.STRING(), Types.LONG())
    at_key(job).state(descriptor).put_all({str(n): n for n in range(1000)})
    job.end()
    state = at_key(job).state(descriptor)
    state.put_all({str(n): -n for n in range(0, 1000, 100)})
    state.remove("5")
    job.end()
    state = at_key(job).state(descriptor)
    found = [state.get(str(n)) for n in (0, 5, 7, 100, 123, 999, 1000)]
    assert found == [0, None, 7, -100, 123, 999, None]
    assert ("5" in state, "7" in state, "x" in state) == (False, True, False)
    assert len(list(state.items())) == 999


def test_single_entries_of_a_large_map_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.keyed.map_state.LOOK_UP_COST", 0)
    job, descriptor = Job(), MapStateDescriptor("m", Types.LONG(), Types.LONG())
    at_key(job).state(descriptor).put_all({n: n for n in range(1000)})  # before there was a time to live
    job.end()
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL)).build())
    at_key(job).state(descriptor).put_all({n: -n for n in range(0, 1000, 2)})
    job.end()
    job.clock = TTL - 1
    at_key(job).state(descriptor).put(4, 5)
    job.end()
    job.clock = TTL
    state = at_key(job).state(descriptor)
    assert [state.get(n) for n in range(6)] == [None, 1, None, 3, 5, 5]
    assert not state._cells.read().is_loaded
    assert [2 in state, 4 in state, 6 in state, 7 in state] == [False, True, False, True]


def test_what_cannot_be_a_key_is_in_no_large_map() -> None:
    job, descriptor = Job(), MapStateDescriptor("m", Types.PICKLED_BYTE_ARRAY(), Types.LONG())
    at_key(job).state(descriptor).put_all({n: n for n in range(1000)})
    job.end()
    state = at_key(job).state(descriptor)
    assert (state.get(object()), object() in state, state.get(7)) == (None, False, 7)


def counts(job: Job, name: str) -> list[int]:
    return [run.weight for run in job._open(0).store(UID, f"state/{name}").runs]


def test_an_epoch_writes_what_it_touches_and_rewrites_no_large_map() -> None:
    job = Job()
    fill(job, 1000)
    for epoch in range(1, 6):
        state = at_key(job).state(ENTRIES)
        for n in range(10):
            state.put(epoch * 100 + n, str(epoch))
        job.end()
        assert counts(job, "entries")[0] == 1000
        assert sum(counts(job, "entries")) <= 1000 + 10 * epoch
    entries = at_key(job).state(ENTRIES).items()
    assert [key for key, _ in entries] == list(range(1000))
    assert entries[303] == (303, "3")


def test_clearing_hides_what_is_older_and_goes_with_it() -> None:
    job = Job()
    fill(job, 1000)
    state = at_key(job).state(ENTRIES)
    state.clear()
    state.put(5, "five")
    job.end()
    assert counts(job, "entries") == [1000, 1]
    state = at_key(job).state(ENTRIES)
    assert (state.get(5), state.get(6), state.items()) == ("five", None, [(5, "five")])
    job.end()


@pytest.mark.parametrize("merged", [False, True])
def test_the_key_that_was_put_first_stays(merged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", 1 << 18 if merged else 0)
    job = Job()
    for key, value in ((1, "a"), (True, "b"), (1.0, "c")):
        at_key(job).state(MapStateDescriptor("m")).put(key, value)
        job.end()
    assert len(counts(job, "m")) == (1 if merged else 3)
    assert repr(at_key(job).state(MapStateDescriptor("m")).items()) == "[(1, 'c')]"


def test_a_key_of_another_type_is_not_there() -> None:
    job = Job()
    fill(job, 1000)
    state = at_key(job).state(ENTRIES)
    assert state.get("0") is None
    assert "0" not in state
    assert 2**70 not in state


@pytest.mark.parametrize("count", [10, 1000])
@pytest.mark.parametrize("wrong", [1.0, True, Decimal(1), "1", [1], 2**70])
def test_a_key_that_does_not_fit_is_that_of_no_entry(count: int, wrong: Any) -> None:
    job = Job()
    fill(job, count)
    state = at_key(job).state(ENTRIES)
    assert (state.get(wrong), wrong in state) == (None, False)
    assert (state.get(1), 1 in state) == ("value 1", True)
    assert (state.get(wrong), wrong in state) == (None, False)
    assert len(list(state.items())) == count


def test_a_list_is_added_to_without_being_read(tmp_path: Path) -> None:
    descriptor = ListStateDescriptor("list", Types.STRING())
    job = Job(storage=posix_folder(tmp_path))
    at_key(job).state(descriptor).add_all([f"element {n}" for n in range(20_000)])
    job.end()
    path = tmp_path / job.refs[0].name
    data = bytearray(path.read_bytes())
    data[data.index(b"element 10000")] ^= 1
    path.write_bytes(data)
    for n in range(4):
        at_key(job).state(descriptor).add(f"more {n}")
        job.end()
    assert counts(job, "list")[0] == 20_000
    assert sum(counts(job, "list")) == 20_004
    with pytest.raises(StateCorruptedError, match=path.name):
        at_key(job).state(descriptor).get()


PUT, REMOVED = 1, 0


@pytest.mark.parametrize(
    ("type_", "key"),
    [(Types.STRING(), "\ud800"), (Types.PICKLED_BYTE_ARRAY(), object())],
    ids=["no unicode", "object"],
)
def test_a_key_that_cannot_be_stored_is_told_with_operator_and_state(type_: TypeInformation, key: Any) -> None:
    job = Job()
    at_key(job).state(MapStateDescriptor("names", type_, Types.LONG())).put(key, 1)
    with pytest.raises(InvalidTypeError, match=f"operator '{UID}', map state 'names': .* key"):
        job.end()


@pytest.mark.parametrize(
    ("type_", "key"),
    [
        *((Types.PICKLED_BYTE_ARRAY(), key) for key in ([1], ([1],), {"a": 1}, (1, {1}))),
        (Types.TUPLE([Types.PICKLED_BYTE_ARRAY(), Types.LONG()]), ([1], 2)),
    ],
    ids=str,
)
def test_a_key_that_is_not_hashable_is_told_with_the_state(type_: TypeInformation, key: Any) -> None:
    state = at_key(Job()).state(MapStateDescriptor("m", type_, Types.LONG()))
    for change in (lambda: state.put(key, 1), lambda: state.put_all(_Items([(key, 1)])), lambda: state.remove(key)):
        with pytest.raises(InvalidTypeError, match=r"^map state 'm': the key of an entry"):
            change()
    assert (state.get(key), key in state, state.is_empty()) == (None, False, True)


class _Items:
    """What is like a dict, and may have such keys."""

    def __init__(self, entries: list[tuple[Any, Any]]) -> None:
        self._entries = entries

    def items(self) -> list[tuple[Any, Any]]:
        return self._entries


@pytest.mark.parametrize("small", [0, 256])
@pytest.mark.parametrize(
    ("type_", "key", "other"),
    [
        (Types.LONG(), 1, 1.0),
        (Types.LONG(), 1, Decimal(1)),
        (Types.LONG(), 1, [1]),
        (Types.DOUBLE(), 1.0, Decimal(1)),
        (Types.TUPLE([Types.LONG()]), (1,), (1.0,)),
    ],
)
def test_a_key_of_another_type_is_not_there_in_large_maps_nor_in_small_ones(
    type_: TypeInformation, key: Any, other: Any, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.state.keyed.map_state.SMALL_MAP", small)
    job, descriptor = Job(), MapStateDescriptor("m", type_, Types.LONG())
    state = at_key(job).state(descriptor)
    state.put(key, 5)
    for _ in range(2):
        assert (state.get(key), state.get(other)) == (5, None)
        assert (key in state, other in state) == (True, False)
        job.end()
        state = at_key(job).state(descriptor)
