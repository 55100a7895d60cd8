"""Ranges of a map state whose entries have integers as keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.keyed.map_entries import MapEntries, SortedKeys
from headrace.state.runs.sections import BLOCK, _StoredBytes
from headrace.storage.folder import posix_folder
from tests.draws import draws
from tests.state.harness import Job, at_key
from tests.state.test_map_state import ENTRIES, KEYS, MapMachine, fill

BOUNDS = st.none() | st.integers(-45, 45) | st.sampled_from([2**63 - 1, 2**63, 2**70, 1 - 2**63, -(2**63), -(2**70)])


class IntegerMapMachine(MapMachine):
    """The same with keys that are integers, of which ranges are asked for."""

    kinds: ClassVar = [
        (Types.LONG(), st.sampled_from([-1, 2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63]) | st.integers(-40, 40)),
        (Types.INT(), st.sampled_from([2**31 - 1, -(2**31)]) | st.integers(-9, 9)),
        (Types.BYTE(), st.integers(-128, 127)),
    ]

    @rule(key=KEYS, low=BOUNDS, high=BOUNDS)
    def items_between(self, key: int, low: int | None, high: int | None) -> None:
        inside = [
            entry
            for entry in sorted(self.model(key))
            if (low is None or low <= entry) and (high is None or entry < high)
        ]
        expected = [(entry, self.seen(key, entry)) for entry in inside]
        assert list(self.at(key, lambda state: state.items_between(low, high))) == expected


def test_ranges_of_a_map_are_as_those_of_its_model() -> None:
    settings_ = settings(max_examples=draws(60), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(IntegerMapMachine, settings=settings_)


@given(
    keys=st.lists(st.integers(-50, 50) | st.sampled_from([2**63 - 1, -(2**63)])),
    given_first=st.integers(0, 5),
    asked_after=st.sets(st.integers(0, 100)),
    low=st.integers(-60, 60),
    width=st.integers(-1, 80),
)
@settings(deadline=None)
def test_sorted_keys_give_what_is_in_a_range(
    keys: list[int], given_first: int, asked_after: set[int], low: int, width: int
) -> None:
    found = SortedKeys(keys[:given_first])
    for count, key in enumerate(keys[given_first:], start=given_first + 1):
        found.add(key)
        if count in asked_after:
            assert sorted(found.between(low, low + width)) == sorted(
                {key for key in keys[:count] if low <= key < low + width}
            )
    assert sorted(found.between(-(2**63), 2**63)) == sorted(set(keys))


def blocks_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The blocks of state files that are verified from now on, each when it is read for the first time."""
    read: list[int] = []
    verify = _StoredBytes._verify_block

    def counted(stored: _StoredBytes, block: int) -> None:
        read.append(block)
        verify(stored, block)

    monkeypatch.setattr(_StoredBytes, "_verify_block", counted)
    return read


@pytest.mark.sampled(1)
@pytest.mark.parametrize("namespace", [None, 7])
def test_of_a_large_map_only_the_blocks_of_a_range_are_read(
    tmp_path: Path, namespace: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = MapStateDescriptor("m", Types.LONG(), Types.LONG())

    def state(job: Job) -> Any:
        keyed = at_key(job)
        if namespace is None:
            return keyed.state(descriptor)
        keyed.namespace = namespace
        return keyed.namespaced_state(descriptor)

    job = Job(storage=posix_folder(tmp_path))
    state(job).put_all({n: -n for n in range(1_000_000)})
    job.end()
    size = (tmp_path / job.refs[0].name).stat().st_size
    read = blocks_read(monkeypatch)
    assert state(job).items_between(500_000, 500_100) == [(n, -n) for n in range(500_000, 500_100)]
    # The head, one block each of the row of the key, of values and of actions, and those that keys are searched in.
    assert 0 < len(read) <= 12 < size // BLOCK / 6
    assert state(job).items_between(2_000_000, None) == []


def test_ranges_stay_cheap_when_a_large_map_was_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    fill(job, 1000)
    state = at_key(job).state(ENTRIES)
    assert len(state.items()) == 1000
    state.put(5, "five")
    state.remove(6)
    looked_at: list[int] = []
    read_between = MapEntries.read_between

    def counted(self: MapEntries, place: Any, low: int, high: int) -> Any:
        happened = read_between(self, place, low, high)
        looked_at.append(len(happened.keys))
        return happened

    monkeypatch.setattr(MapEntries, "read_between", counted)
    assert state.items_between(4, 8) == [(4, "value 4"), (5, "five"), (7, "value 7")]
    assert looked_at == [4]


def test_what_is_stored_for_a_cleared_map_is_in_no_range() -> None:
    job = Job()
    fill(job, 1000)
    state = at_key(job).state(ENTRIES)
    assert len(state.items_between(0, 10)) == 10
    state.put(-3, "new")
    assert state.items_between(None, 1) == [(-3, "new"), (0, "value 0")]
    state.clear()
    assert state.items_between(None, None) == []
    state.put(5, "five")
    assert state.items_between(None, None) == [(5, "five")]


def test_what_is_stored_for_a_map_that_is_cleared_before_it_is_read_is_in_no_range() -> None:
    job = Job()
    fill(job, 1000)
    keyed = at_key(job)
    state = keyed.state(ENTRIES)
    state.clear()
    keyed.current = keyed.bind(job.codec.encode([2]))[0]
    assert state.is_empty()  # reads both keys
    keyed.current = keyed.bind(job.codec.encode([1]))[0]
    assert state.items_between(None, None) == []


def test_a_range_is_as_it_was_when_it_was_asked_for() -> None:
    job = Job()
    fill(job, 10)
    state = at_key(job).state(ENTRIES)
    for n, _ in state.items_between(2, 5):
        state.remove(n)
        state.put(n + 10, "moved")
    assert [n for n, _ in state.items_between(None, None)] == [0, 1, 5, 6, 7, 8, 9, 12, 13, 14]


@pytest.mark.parametrize(
    "type_", [Types.STRING(), Types.BOOLEAN(), Types.DOUBLE(), Types.PICKLED_BYTE_ARRAY(), Types.TUPLE([Types.LONG()])]
)
def test_ranges_of_keys_that_are_no_integers_are_refused(type_: TypeInformation) -> None:
    state = at_key(Job()).state(MapStateDescriptor("by name", type_, Types.LONG()))
    message = (
        "map state 'by name': items_between() needs entries with integers as keys, and these are of type "
        f"{type_}; declare them as BYTE, SHORT, INT or LONG"
    )
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        state.items_between(None, None)


@pytest.mark.parametrize(("bound", "shown"), [(1.5, "1.5 (float)"), ("1", "'1' (str)"), (True, "True (bool)")])
def test_bounds_that_are_no_integers_are_refused(bound: Any, shown: str) -> None:
    state = at_key(Job()).state(ENTRIES)
    for bounds in ((bound, None), (None, bound)):
        with pytest.raises(InvalidTypeError, match=re.escape("map state 'entries'") + ".*" + re.escape(shown)):
            state.items_between(*bounds)
