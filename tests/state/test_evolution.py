"""Values that were stored under an earlier type, and what becomes of them when another one is declared."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import cloudpickle
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common import Row
from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import InvalidProgramError, StateMigrationError
from headrace.common.time import Time
from headrace.common.typeinfo import TypeInformation, Types, type_from_json
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.state.evolution import Incompatible, RenamedFields, evolution
from headrace.state.runs import merging
from tests.state.harness import Job, at_key


@dataclass(frozen=True)
class Visit:
    user: str
    count: int


@dataclass(frozen=True)
class Longer:
    count: float
    user: str
    pages: list[str] = field(default_factory=lambda: ["home"])
    rank: int = 7


class Named(NamedTuple):
    user: str
    count: int
    rank: int = 3


class Keyed(TypedDict):
    user: str
    note: str


@dataclass(frozen=True)
class Trip:
    visits: list[Visit]
    best: dict[str, Visit]


@dataclass(frozen=True)
class LongerTrip:
    visits: list[Longer]
    best: dict[str, Longer]


@dataclass
class Guest:
    name: str
    count: int


class Before(NamedTuple):
    visits: list[Visit]


class Outer(NamedTuple):
    visits: list[Guest]


def evolved(stored: Any, declared: Any, values: list[Any], renamed: dict[str, str] | None = None) -> list[Any]:
    """Values of one type, as those of another one; the stored type is known by its description only."""
    before, after = Types.of(stored), Types.of(declared)
    change = evolution(type_from_json(before.to_json()), after, RenamedFields(renamed or {}))
    array = change.convert(values_to_array(before, values))
    assert array.type == after.storage_type
    return array_to_values(after, array)


LONGER = Longer(2.0, "ann")
CHANGES: dict[str, tuple[Any, Any, list[Any], list[Any]]] = {
    "fields are added, widened, and stand elsewhere": (Visit, Longer, [Visit("ann", 2), None], [LONGER, None]),
    "a named tuple": (Visit, Named, [Visit("ann", 2)], [Named("ann", 2, 3)]),
    "a row": (
        Visit,
        Types.ROW_NAMED(["user", "last"], [str, float]),
        [Visit("ann", 2)],
        [Row(user="ann", last=None)],
    ),
    "a dict": (Visit, Keyed, [Visit("ann", 2)], [{"user": "ann", "note": None}]),
    "a field is left out": (Named, Visit, [Named("ann", 2, 9)], [Visit("ann", 2)]),
    "rows without names grow at the end": (Types.ROW([str]), Types.ROW([str, int]), [Row("a")], [Row("a", None)]),
    "records inside lists and maps": (
        Trip,
        LongerTrip,
        [Trip([Visit("ann", 2)], {"x": Visit("ann", 2)}), Trip([], {}), None],
        [LongerTrip([LONGER], {"x": LONGER}), LongerTrip([], {}), None],
    ),
    "whole numbers": (Types.BYTE(), Types.LONG(), [-128, None, 127], [-128, None, 127]),
    "large numbers": (Types.LONG(), Types.BIG_INT(), [-(2**63), None], [-(2**63), None]),
    "floats": (Types.FLOAT(), Types.DOUBLE(), [0.5, None], [0.5, None]),
    "integers of 53 bits": (int, float, [2**53, -3], [2.0**53, -3.0]),
    "lists of numbers": (list[int], list[float], [[1, None], None, []], [[1.0, None], None, []]),
    "an array": (Types.PRIMITIVE_ARRAY(Types.INT()), Types.LIST(Types.LONG()), [[1], []], [[1], []]),
}


@pytest.mark.parametrize(("stored", "declared", "values", "wanted"), CHANGES.values(), ids=CHANGES)
def test_values_are_taken_over(stored: Any, declared: Any, values: list[Any], wanted: list[Any]) -> None:
    assert evolved(stored, declared, values) == wanted


def test_fields_get_other_names() -> None:
    renamed = {"count": "rank", "user": "count"}

    @dataclass
    class After:
        rank: int
        count: str

    assert evolved(Visit, After, [Visit("ann", 2)], renamed) == [After(2, "ann")]


def test_fields_of_inner_records_get_other_names() -> None:
    assert evolved(Before, Outer, [Before([Visit("a", 1)])], {"visits.user": "name"}) == [Outer([Guest("a", 1)])]


def test_each_value_has_a_default_of_its_own() -> None:
    first, second = evolved(Visit, Longer, [Visit("a", 1), Visit("b", 2)])
    first.pages.append("shop")
    assert second.pages == ["home"]


def test_a_class_of_a_script_has_its_defaults_in_tasks_too() -> None:
    """It travels as a pickle, and has another mark for a default that is missing then."""
    longer = type("Longer", (), {"__annotations__": {"user": str, "count": int, "rank": int}, "rank": 7})
    longer.__module__ = "__main__"  # of which classes are pickled by value
    there = pickle.loads(cloudpickle.dumps(dataclass(longer)))
    assert evolved(Visit, there, [Visit("ann", 2)]) == [there("ann", 2, 7)]
    without = Types.ROW_NAMED(["user"], [str])
    with pytest.raises(Incompatible, match="'count' was not stored, and has no default in Longer"):
        evolved(without, there, [])


@dataclass
class Odd:
    user: str
    count: int
    rank: int = "first"  # type: ignore[assignment]


REFUSED: dict[str, tuple[Any, Any, dict[str, str], str]] = {
    "narrower": (int, Types.INT(), {}, "the value was stored as Long and is declared as Integer"),
    "a number from a text": (str, int, {}, "stored as String and is declared as Long"),
    "a time from a number": (int, Types.SQL_TIMESTAMP(), {}, "stored as Long"),
    "no default": (
        Types.ROW_NAMED(["user"], [str]),
        Visit,
        {},
        "the field 'count' was not stored, and has no default in Visit: give it one",
    ),
    "a default of another type": (Visit, Odd, {}, "the field 'rank' was not stored, and its default does not fit: "),
    "a name that is perhaps another one": (
        Named,
        dataclasses.make_dataclass("T", [("user", str), ("visits", int)]),
        {},
        "has no default in T: give it one, or say by set_renamed_fields() that it was 'count' or 'rank'",
    ),
    "an old name that is misspelled": (
        Visit,
        Types.ROW_NAMED(["user", "visits"], [str, int]),
        {"cuont": "visits"},
        "the field 'cuont', which is to be called 'visits', was not stored; what was stored and would go: 'count'",
    ),
    "inside": (Trip, dataclasses.make_dataclass("T", [("visits", list[int])]), {}, "the field 'visits' was stored as"),
    "keys of a map": (dict[int, str], dict[str, str], {}, "stored as MapTypeInfo<Long, String>"),
    "two for one": (Named, Visit, {"rank": "count"}, "the field 'count' would get the values of two stored fields"),
    "a tuple that is longer": (Types.TUPLE([str]), Types.TUPLE([str, int]), {}, "'f1' was not stored, and has"),
    "a tuple that is shorter": (Types.TUPLE([str, int]), Types.TUPLE([str]), {}, "stored as TupleTypeInfo"),
    "names for fields without": (Types.ROW([str, int]), Visit, {}, "stored as RowTypeInfo"),
    "kinds of rows": (
        Types.ROW([str]),
        dataclasses.replace(Types.ROW([str]), changelog=True),
        {},
        "stored as RowTypeInfo",
    ),
    "pickles": (None, int, {}, "stored as PickledByteArrayTypeInfo"),
    "nulls in arrays": (Types.LIST(Types.INT()), Types.PRIMITIVE_ARRAY(Types.INT()), {}, "stored as ListTypeInfo"),
}


@pytest.mark.parametrize(("stored", "declared", "renamed", "told"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(stored: Any, declared: Any, renamed: dict[str, str], told: str) -> None:
    before = Types.PICKLED_BYTE_ARRAY() if stored is None else Types.of(stored)
    with pytest.raises(Incompatible) as error:
        evolution(type_from_json(before.to_json()), Types.of(declared), RenamedFields(renamed))
    assert told in str(error.value)


def test_all_differences_are_told() -> None:
    stored, declared = Types.ROW_NAMED(["a", "b"], [str, str]), Types.ROW_NAMED(["a", "b"], [int, float])
    with pytest.raises(Incompatible) as error:
        evolution(stored, declared)
    assert len(error.value.differences) == 2


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**60 + 1, 2**63 - 1])
def test_a_number_without_an_equal_is_refused(number: int) -> None:
    with pytest.raises(StateMigrationError, match=rf"widened from Long to Double.*{number}"):
        evolved(int, float, [1, None, number])


@given(st.lists(st.none() | st.integers(-(2**53), 2**53) | st.sampled_from([-(2**63), 2**60, 2**62, 2**53 + 2])))
def test_every_number_that_has_an_equal_is_taken_over(numbers: list[int | None]) -> None:
    """The lowest of all, which often stands for nothing, is a double as well."""
    assert evolved(int, float, numbers) == numbers


@given(st.lists(st.none() | st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=4), max_size=8), st.data())
def test_slices_of_lists(values: list[Any], data: st.DataObject) -> None:
    """Columns of a state file are slices: what is before and after must not show."""
    start = data.draw(st.integers(0, len(values)))
    before, after = Types.LIST(Types.INT()), Types.LIST(Types.LONG())
    array = evolution(before, after).convert(values_to_array(before, values).slice(start))
    assert array.to_pylist() == values[start:]


@given(st.lists(st.none() | st.dictionaries(st.text(max_size=2), st.none() | st.integers(0, 9)), max_size=8), st.data())
def test_slices_of_maps(values: list[Any], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    before, after = Types.MAP(Types.STRING(), Types.INT()), Types.MAP(Types.STRING(), Types.LONG())
    array = evolution(before, after).convert(values_to_array(before, values).slice(start))
    assert array_to_values(after, array) == values[start:]


# --- stored state ----------------------------------------------------------------------------------------------------


class Visits:
    """An aggregate function that counts visits."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


def of_type(kind: str, type_: Any) -> StateDescriptor:
    if kind == "list":
        return ListStateDescriptor("s", type_)
    if kind == "map":
        return MapStateDescriptor("s", str, type_)
    if kind == "reducing":
        return ReducingStateDescriptor("s", lambda left, right: right, type_)
    return (
        AggregatingStateDescriptor("s", Visits(), type_) if kind == "aggregating" else ValueStateDescriptor("s", type_)
    )


WRITE: dict[str, Callable[[Any, Any], None]] = {
    "value": lambda state, value: state.update(value),
    "list": lambda state, value: state.add(value),
    "map": lambda state, value: state.put("a", value),
    "reducing": lambda state, value: state.add(value),
    "aggregating": lambda state, value: state.add(value),
}
READ: dict[str, Callable[[Any], Any]] = {
    "value": lambda state: state.value(),
    "list": lambda state: (state.get() or [None])[-1],
    "map": lambda state: state.get("a"),
    "reducing": lambda state: state.get(),
    "aggregating": lambda state: state.get(),
}
WITH_TTL = StateTtlConfig.new_builder(Time.days(1)).build()


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("kind", WRITE)
def test_every_kind_of_state_is_taken_over(kind: str, expires: bool) -> None:
    before, after = of_type(kind, Visit), of_type(kind, Longer)
    if expires:
        before.enable_time_to_live(WITH_TTL)
        after.enable_time_to_live(WITH_TTL)
    job = Job()
    for key in (1, 2, 3):
        WRITE[kind](at_key(job, key).state(before), Visit(f"user {key}", key))
        job.end()
    at_key(job, 2).state(before).clear()
    job.end()
    for _ in range(2):  # migrated, and stored as such
        found = {key: READ[kind](at_key(job, key).state(after)) for key in (1, 3)}
        assert found == {1: Longer(1.0, "user 1"), 3: Longer(3.0, "user 3")}
        keyed = at_key(job, 2)
        assert not list(keyed.state(after).get()) if kind == "list" else not READ[kind](keyed.state(after))
        job.end()


def test_going_back_leaves_out_what_was_added() -> None:
    job = Job()
    at_key(job).state(ValueStateDescriptor("s", Types.ROW_NAMED(["a"], [str]))).update(Row("x"))
    job.end()
    at_key(job).state(ValueStateDescriptor("s", Types.ROW_NAMED(["a", "b"], [str, int]))).update(Row("y", 2))
    job.end()
    assert at_key(job).state(ValueStateDescriptor("s", Types.ROW_NAMED(["a"], [str]))).value() == Row(a="y")


def test_state_of_namespaces_is_taken_over() -> None:
    job = Job()
    keyed = at_key(job)
    keyed.namespace = 5
    keyed.namespaced_state(ListStateDescriptor("s", Visit)).add(Visit("ann", 1))
    job.end()
    keyed = at_key(job)
    keyed.namespace = 5
    assert keyed.namespaced_state(ListStateDescriptor("s", Longer)).get() == [Longer(1.0, "ann")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("kind", ["value", "list", "map"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_state_is_taken_over_at_another_parallelism(parallelism: int, kind: str, expires: bool) -> None:
    """A run that two subtasks share is rewritten by each for its own keys, and merged with what they add."""
    before, after = of_type(kind, Visit), of_type(kind, Longer)
    if expires:
        before.enable_time_to_live(WITH_TTL)
        after.enable_time_to_live(WITH_TTL)
    job, keys = Job(), list(range(200))

    def write(operator: Any, key: int, descriptor: StateDescriptor, visit: Any) -> None:
        state = operator.keyed.state(descriptor)
        for _ in range(key % 3 + 1):
            WRITE[kind](state, visit)
        if kind == "map":
            state.put(f"of {key}", visit)

    operators = job.begin()
    job.on_keys(operators, keys, lambda operator, key, _: write(operator, key, before, Visit(str(key), key)))
    job.end()
    job.rescale(parallelism)
    for epoch in range(1, 4):
        job.clock = epoch  # what is written from now on expires later
        operators = job.begin()
        found = job.on_keys(operators, keys, lambda operator, key, _: READ[kind](operator.keyed.state(after)))
        assert found == [Longer(float(key), str(key)) for key in keys]
        job.on_keys(operators, keys[:9], lambda operator, key, _: write(operator, key, after, Longer(key, str(key))))
        job.end()
        job.rescale(1 if job.parallelism > 1 else 4)
    if expires:
        job.clock = 24 * 60 * 60 * 1000  # a day after the first epoch
        operators = job.begin()
        found = job.on_keys(operators, keys, lambda operator, key, _: READ[kind](operator.keyed.state(after)))
        assert [key for key, visit in zip(keys, found, strict=True) if visit is not None] == keys[:9]


def test_a_merge_of_earlier_runs_that_comes_too_late_is_not_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "INLINE_ROWS", 50)  # everything larger is left to compaction
    job, before, after = Job(), of_type("value", Visit), of_type("value", Longer)
    for count in range(8):
        operators = job.begin()
        keys = list(range(count * 70, count * 70 + 70))
        job.on_keys(operators, keys, lambda operator, key, _: operator.keyed.state(before).update(Visit("a", key)))
        job.end()
    planned = job.compact()
    results, job.results = job.results, []
    assert planned == len(results) > 0
    job.begin()[0].keyed.state(after)  # rewritten
    job.end()
    job.results = results
    found = job.on_keys(job.begin(), [5], lambda operator, key, _: operator.keyed.state(after).value())
    assert found == [Longer(5.0, "a")]


@pytest.mark.parametrize(("stored", "declared"), [(Longer, Visit), (str, int)], ids=["narrower", "other"])
def test_what_cannot_be_taken_over_names_state_types_and_fields(stored: Any, declared: Any) -> None:
    job = Job()
    values = {Longer: LONGER, str: "x"}
    at_key(job).state(ValueStateDescriptor("s", stored)).update(values[stored])
    job.end()
    told = {
        Visit: "the field 'count' was stored as Double and is declared as Long",
        int: "the value was stored as String",
    }
    with pytest.raises(StateMigrationError, match=rf"value state 's' .*{told[declared]}.*restore the old declaration"):
        at_key(job).state(ValueStateDescriptor("s", declared))


def test_a_renamed_field_of_a_state() -> None:
    job = Job()
    at_key(job).state(ValueStateDescriptor("s", Visit)).update(Visit("ann", 1))
    job.end()
    renamed = ValueStateDescriptor("s", Types.ROW_NAMED(["name", "count"], [str, int]))
    renamed.set_renamed_fields({"user": "name"})
    for _ in range(2):  # the second time there is nothing left to rename
        assert at_key(job).state(renamed).value() == Row(name="ann", count=1)
        job.end()


def test_an_old_name_that_was_never_stored_does_no_harm() -> None:
    """Whoever goes on from a version that is older still has nothing to rename."""
    renamed = {"count": "visits"}
    assert evolved(Types.ROW_NAMED(["user"], [str]), Types.ROW_NAMED(["user", "visits"], [str, int]), [], renamed) == []


class Address(NamedTuple):
    zip: str


class Person(NamedTuple):
    homes: list[Address]


MISTAKES: dict[str, tuple[Any, str]] = {
    "no mapping": ([("count", "visits")], "takes new names by old ones, as in {'count': 'visits'}, not [("),
    "nothing": (None, "takes new names by old ones"),
    "a number": ({"count": 1}, "takes the new name of a field by its old one"),
    "an empty name": ({"": "homes"}, "takes the new name of a field by its old one"),
    "a path as new name": ({"homes.postcode": "homes.zip"}, "not {'homes.postcode': 'homes.zip'}"),
    "the same name": ({"homes.zip": "zip"}, "the field 'homes.zip' has that name already"),
    "one name for two": ({"homes.code": "zip", "homes.postcode": "zip"}, "2 fields would be called 'zip'"),
    "no field": ({"places": "home"}, "'places' cannot be called 'home': the fields of the record are 'homes'"),
    "no inner field": ({"homes.code": "postcode"}, "'homes.code' cannot be called 'postcode': the fields of the"),
    "turned round": ({"homes": "places"}, "'homes' cannot be called 'places'"),
    "no record there": ({"homes.zip.code": "zip"}, "there are no records at 'homes.zip' in PojoTypeInfo<Person"),
}


@pytest.mark.parametrize(("renamed", "told"), MISTAKES.values(), ids=MISTAKES)
def test_what_cannot_be_renamed_is_told_where_it_is_said(renamed: Any, told: str) -> None:
    descriptor = ValueStateDescriptor("s", Person)
    with pytest.raises(InvalidProgramError, match=r"(?s)set_renamed_fields|value state 's'") as error:
        descriptor.set_renamed_fields(renamed)
    assert told in str(error.value)
    assert "test_evolution.py" in str(error.value)


def test_paths_follow_names_that_have_changed_above_them() -> None:
    descriptor = ValueStateDescriptor("s", Person)
    descriptor.set_renamed_fields({"places": "homes", "places.code": "zip"})
    stored = Types.ROW_NAMED(["places"], [Types.LIST(Types.ROW_NAMED(["code"], [str]))])
    change = descriptor.evolution_of({"value": stored.to_json()})
    assert change is not None
    assert change.convert(values_to_array(stored, [Row(places=[Row(code="8001")])])).to_pylist() == [
        {"homes": [{"zip": "8001"}]}
    ]


def types_of_all() -> list[TypeInformation]:
    return [Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(), Types.BIG_INT()]


@given(st.sampled_from(types_of_all()), st.sampled_from(types_of_all()), st.integers(-100, 100))
def test_a_number_never_changes(stored: TypeInformation, declared: TypeInformation, number: int) -> None:
    value = float(number) if "Float" in str(stored) or "Double" in str(stored) else number
    try:
        change = evolution(stored, declared)
    except Incompatible:
        return
    array = change.convert(values_to_array(stored, [value]))
    assert isinstance(array, pa.Array)
    assert array_to_values(declared, array) == [value]
