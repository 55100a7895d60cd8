"""What user code may rely on when it reads and writes keyed state."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from enum import Enum
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.common import Row, RowKind
from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateError, StateMigrationError
from headrace.common.time import Time
from headrace.common.typeinfo import Types
from headrace.state.copying import copy_value
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.state.differences import difference
from headrace.state.interfaces import KeyedStateStore
from headrace.state.keys import KeyCodec, KeyColumn, hashing
from tests.state.harness import Job
from tests.state.test_state_model import Average, Checker, between_epochs


@dataclass
class Account:
    owner: str
    tags: list[str]


class Unpicklable:
    """What can be copied, and no more than that."""

    def __deepcopy__(self, memo: Any) -> Unpicklable:
        return self

    def __reduce__(self) -> Any:
        raise ValueError("not to be pickled")


class Pair(NamedTuple):
    left: int
    right: str


class Mode(Enum):
    ON = 1


def at_key(job: Job, key: Any = 1) -> Any:
    """The backend of an epoch that has begun, with ``key`` being processed."""
    (operator,) = job.begin()
    operator.keyed.current = operator.keyed.bind(job.codec.encode([key]))[0]
    return operator.keyed


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


def test_state_needs_a_key() -> None:
    (operator,) = Job().begin()
    value = operator.keyed.state(ValueStateDescriptor("v"))
    several = operator.keyed.state(ListStateDescriptor("l"))
    for use in (value.value, lambda: value.update(1), value.clear, several.get, lambda: several.add(1)):
        with pytest.raises(StateError, match="while a record or a timer"):
            use()


def test_none_is_refused_where_it_means_nothing() -> None:
    keyed = at_key(Job())
    with pytest.raises(InvalidTypeError):
        keyed.state(ListStateDescriptor("l")).add(None)
    with pytest.raises(InvalidTypeError):
        keyed.state(ListStateDescriptor("l")).update([1, None])
    with pytest.raises(InvalidTypeError):
        keyed.state(ReducingStateDescriptor("r", max)).add(None)


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


@pytest.mark.parametrize(
    "other",
    [
        ValueStateDescriptor("s", Types.STRING()),
        ValueStateDescriptor("s"),
        ListStateDescriptor("s", Types.LONG()),
        ReducingStateDescriptor("s", max, Types.LONG()),
    ],
    ids=lambda descriptor: f"{descriptor.kind}-{descriptor.type_info}",
)
def test_another_type_under_the_same_name_is_an_error(other: Any) -> None:
    job = Job()
    keyed = at_key(job)
    keyed.state(ValueStateDescriptor("s", Types.LONG())).update(1)
    with pytest.raises(InvalidProgramError, match="twice"):
        keyed.state(other)
    job.end()
    with pytest.raises(StateMigrationError, match="'s'"):
        at_key(job).state(other)


def test_what_cannot_be_copied_or_pickled_is_told_with_the_state() -> None:
    keyed = at_key(job := Job())
    states: list[tuple[Any, Callable[[Any, Any], None], str]] = [
        (ValueStateDescriptor("s"), lambda state, value: state.update(value), "value state 's': the value"),
        (ListStateDescriptor("l"), lambda state, value: state.add(value), "list state 'l': the element"),
        (MapStateDescriptor("m"), lambda state, value: state.put(1, value), "map state 'm': the value of an entry"),
        (
            ReducingStateDescriptor("r", max),
            lambda state, value: state.add(value),
            "reducing state 'r': the value that",
        ),
        (AggregatingStateDescriptor("a", Average()), lambda state, value: state.add(value), "aggregating state 'a':"),
    ]
    for descriptor, write, told in states:
        for value in (Lock(), [Lock()], {"a": (1, Lock())}, (number for number in ())):
            with pytest.raises(InvalidTypeError, match=f"^{told}.*, expected an object that can be copied"):
                write(keyed.state(descriptor), value)
    keyed.state(ValueStateDescriptor("s")).update(Unpicklable())
    with pytest.raises(
        InvalidTypeError, match=r"^operator 'operator', value state 's': .* expected an object that can be"
    ):
        job.end()


@pytest.mark.parametrize("type_", [Types.LIST(Types.LONG()), Types.TUPLE([Types.MAP(Types.LONG(), Types.LONG())])])
def test_a_type_that_cannot_be_one_of_keys_of_entries_is_told_with_the_state(type_: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^map state 'm': values of .* cannot be keys: they are not hashable"):
        at_key(Job()).state(MapStateDescriptor("m", type_, Types.LONG()))


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match=r"must be text that UTF-8 can write, not 'half \\ud83d'"):
        ValueStateDescriptor("half \ud83d", Types.LONG())


def test_two_times_to_live_under_one_name_are_an_error() -> None:
    descriptors = [ValueStateDescriptor("s", Types.LONG()) for _ in range(2)]
    descriptors[1].enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
    keyed = at_key(Job())
    keyed.state(descriptors[0])
    with pytest.raises(InvalidProgramError, match="the state 's' twice: with different times to live"):
        keyed.state(descriptors[1])


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


SIZES = MapStateDescriptor("sizes", Types.LONG(), Types.LONG())
NO_LISTS = [
    (ListStateDescriptor("s", element), partial(put, given=given), name)
    for element in (Types.STRING(), Types.LONG())
    for given in (5, None, "abc", b"abc", {"a": 1})
    for name, put in (
        ("update", lambda state, given: state.update(given)),
        ("add_all", lambda state, given: state.add_all(given)),
    )
]
"""What would be a list of characters, or of the keys of a dict, or is nothing to go through."""


@pytest.mark.parametrize(
    ("descriptor", "put", "subject"),
    [
        (ValueStateDescriptor("s", Types.LONG()), lambda s: s.update("x"), "value state 's': the value"),
        (ValueStateDescriptor("s", Types.LIST(Types.LONG())), lambda s: s.update("x"), "value state 's': the value"),
        (ListStateDescriptor("s", Types.LONG()), lambda s: s.add("x"), "list state 's': the element"),
        (
            ReducingStateDescriptor("s", max, Types.LONG()),
            lambda s: s.add("x"),
            "reducing state 's': the reduced value",
        ),
        (
            AggregatingStateDescriptor("s", Average(), Types.LONG()),
            lambda s: s.add(1),
            "aggregating state 's': the accumulator",
        ),
        (SIZES, lambda s: s.put("x", 1), "map state 'sizes': the key of an entry"),
        (SIZES, lambda s: s.put_all({1: "x"}), "map state 'sizes': the value of an entry"),
        (SIZES, lambda s: s.put_all([(1, 2)]), r"map state 'sizes': put_all\(\)"),
        (SIZES, lambda s: s.put_all(None), r"map state 'sizes': put_all\(\)"),
        *((several, call, rf"list state 's': {name}\(\)") for several, call, name in NO_LISTS),
    ],
)
@pytest.mark.parametrize("expires", [False, True])
def test_what_does_not_fit_the_type_is_told_with_the_state(
    descriptor: StateDescriptor, put: Callable[[Any], None], subject: str, expires: bool
) -> None:
    descriptor = copy(descriptor)
    if expires:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
    state = at_key(Job()).state(descriptor)
    with pytest.raises(InvalidTypeError, match=f"^{subject}: got .*, expected "):
        put(state)


@pytest.mark.parametrize(
    ("descriptor", "put", "subject"),
    [
        (ListStateDescriptor("s", Types.LONG()), lambda s: s.add(None), "list state 's': the element"),
        (ListStateDescriptor("s", Types.LONG()), lambda s: s.add_all([1, None]), "list state 's': the element"),
        (ListStateDescriptor("s", Types.LONG()), lambda s: s.update([None]), "list state 's': the element"),
        (
            ReducingStateDescriptor("s", max, Types.LONG()),
            lambda s: s.add(None),
            "reducing state 's': the value that is added",
        ),
        (SIZES, lambda s: s.put(None, 1), "map state 'sizes': the key of an entry"),
        (SIZES, lambda s: s.put_all({None: 1}), "map state 'sizes': the key of an entry"),
        (SIZES, lambda s: s.remove(None), "map state 'sizes': the key of an entry"),
    ],
)
def test_none_is_refused_with_the_state_where_it_cannot_be_kept(
    descriptor: StateDescriptor, put: Callable[[Any], None], subject: str
) -> None:
    state = at_key(Job()).state(descriptor)
    with pytest.raises(InvalidTypeError, match=f"^{subject} cannot be None"):
        put(state)
    assert not state.get() if descriptor is not SIZES else state.is_empty()


@pytest.mark.parametrize(
    "given", [[1, 2], (1, 2), np.array([1, 2]), iter([1, 2])], ids=["list", "tuple", "array", "iterator"]
)
def test_a_list_takes_whatever_has_elements(given: Any) -> None:
    state = at_key(Job()).state(ListStateDescriptor("s", Types.LONG()))
    state.add_all(given)
    assert state.get() == [1, 2]


def test_a_reduce_function_that_returns_none_is_refused_and_the_value_stays() -> None:
    state = at_key(Job()).state(ReducingStateDescriptor("s", lambda one, other: None, Types.LONG()))
    state.add(1)
    with pytest.raises(InvalidTypeError, match=r"^reducing state 's': the reduce function returned None"):
        state.add(2)
    assert state.get() == 1


class Forgets:
    """Returns no accumulator from the second value on, and none of two."""

    def create_accumulator(self) -> list[int]:
        return []

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator if len(accumulator) == 1 else None

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_a.extend(acc_b)


@pytest.mark.parametrize("expires", [False, True])
def test_an_add_that_returns_none_is_refused_with_its_place(expires: bool) -> None:
    descriptor = AggregatingStateDescriptor("s", Forgets(), Types.LIST(Types.LONG()))
    if expires:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
    state = at_key(Job()).state(descriptor)
    state.add(1)
    with pytest.raises(
        InvalidTypeError, match=r"^aggregating state 's': add of the aggregate function .* returned None"
    ) as caught:
        state.add(2)
    assert f"({__file__}:{Forgets.add.__code__.co_firstlineno} in add)" in str(caught.value)


def test_a_merge_that_returns_none_is_refused_with_its_place() -> None:
    state = at_key(Job()).state(AggregatingStateDescriptor("s", Forgets(), Types.LIST(Types.LONG())))
    state.add(1)
    with pytest.raises(InvalidTypeError, match=r"^aggregating state 's': merge of the aggregate function") as caught:
        state.absorb([2])
    assert f"({__file__}:{Forgets.merge.__code__.co_firstlineno} in merge)" in str(caught.value)


def test_what_words_leave_out_is_told_in_full() -> None:
    assert difference([{"kind": "TopValues", "name": "a", "n": 2}], []) == "stored top values of a (n 2), declared none"
    string = Types.STRING().to_json()
    in_two_ways = [{"storage": storage, "type": string} for storage in ("string", "binary")]
    assert difference(*in_two_ways) == f"stored {in_two_ways[0]}, declared {in_two_ways[1]}"


def test_none_is_a_key_of_entries_without_a_type_and_none_that_a_typed_map_has() -> None:
    state = at_key(Job()).state(MapStateDescriptor("untyped", Types.PICKLED_BYTE_ARRAY(), Types.LONG()))
    state.put(None, 1)
    assert state.get(None) == 1
    sizes = at_key(Job()).state(SIZES)
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
