"""What keyed state refuses, and what it says of that."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from threading import Lock
from typing import Any

import pytest

from headrace.common.errors import InvalidProgramError, InvalidTypeError, StateError, StateMigrationError
from headrace.common.time import Time
from headrace.common.typeinfo import Types
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.state.evolution import difference
from tests.state.harness import Job, at_key
from tests.state.test_state_model import Average

SIZES = MapStateDescriptor("sizes", Types.LONG(), Types.LONG())


class Unpicklable:
    """What can be copied, and no more than that."""

    def __deepcopy__(self, memo: Any) -> Unpicklable:
        return self

    def __reduce__(self) -> Any:
        raise ValueError("not to be pickled")


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
