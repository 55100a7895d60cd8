"""Dataclasses, named tuples and typed dicts: their types, and that instances come back as they were."""

from __future__ import annotations

import datetime
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, NotRequired, Optional, TypedDict, TypeVar

import pytest

from headrace.common.columns import array_to_values, layout_of, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import DataclassTypeInfo, DictTypeInfo, NamedTupleTypeInfo, Types, type_from_json
from headrace.common.types import Row

T = TypeVar("T")


@dataclass
class Plain:
    id: int
    price: float


@dataclass(frozen=True)
class Frozen:
    id: int
    name: str


@dataclass(slots=True)
class Slotted:
    id: int
    tags: list[str]


@dataclass(frozen=True, slots=True)
class FrozenSlotted:
    id: int
    when: datetime.datetime | None = None


@dataclass
class Derived:
    """Runs code when it is made, which must not run again when it is restored."""

    price: float
    factor: InitVar[float]
    total: float = field(init=False)

    def __post_init__(self, factor: float) -> None:
        self.price += 1
        self.total = self.price * factor


@dataclass(kw_only=True)
class KeywordOnly:
    b: int
    a: int


@dataclass
class OwnInit:
    a: int

    def __init__(self, text: str) -> None:
        self.a = int(text)


@dataclass
class Cached:
    a: int

    @cached_property
    def double(self) -> int:
        return self.a * 2


@dataclass
class Leaky:
    a: int

    def __post_init__(self) -> None:
        self.hidden = self.a


@dataclass
class Child(Plain):
    label: str = ""


@dataclass
class Box(Generic[T]):
    item: T


@dataclass
class Node:
    value: int
    children: list[Node]


@dataclass
class Empty:
    pass


@dataclass
class Unresolvable:
    a: int
    b: Missing  # type: ignore[name-defined] # noqa: F821


@dataclass
class FailedWith(Exception):
    code: int


class Point(NamedTuple):
    x: int
    y: Optional[float] = None  # noqa: UP045


class Movie(TypedDict):
    title: str
    year: int


class Partial(TypedDict, total=False):
    title: str


class Rated(Movie):
    stars: NotRequired[int]


class Loud(Point):
    def __new__(cls, x: int, y: float | None = None) -> Loud:
        return super().__new__(cls, x + 1000, y)


PICKLED = Types.PICKLED_BYTE_ARRAY()
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 1)


def round_trip(kind: Any, records: list[Any]) -> list[Any]:
    """Through a batch, and through a column of structs with a null; both have to agree."""
    info = Types.of(kind)
    layout = layout_of(info)
    through_batch = layout.columns_to_rows(layout.rows_to_columns(records))
    through_column = array_to_values(info, values_to_array(info, [*records, None]))
    assert through_column == [*through_batch, None]
    assert [type(record) for record in through_batch] == [type(record) for record in through_column[:-1]]
    return through_batch


@pytest.mark.parametrize(
    ("kind", "spelled"),
    [
        (Plain, "PojoTypeInfo<Plain, fields = [id: Long, price: Double]>"),
        (FrozenSlotted, "PojoTypeInfo<FrozenSlotted, fields = [id: Long, when: TimestampTypeInfo]>"),
        (Slotted, "PojoTypeInfo<Slotted, fields = [id: Long, tags: ListTypeInfo<String>]>"),
        (Point, "PojoTypeInfo<Point, fields = [x: Long, y: Double]>"),
        (Movie, "PojoTypeInfo<Movie, fields = [title: String, year: Long]>"),
        (Child, "PojoTypeInfo<Child, fields = [id: Long, price: Double, label: String]>"),
        (Box[int], "PojoTypeInfo<Box, fields = [item: PickledByteArrayTypeInfo]>"),
        (Unresolvable, "PojoTypeInfo<Unresolvable, fields = [a: Long, b: PickledByteArrayTypeInfo]>"),
        (Node, "PojoTypeInfo<Node, fields = [value: Long, children: ListTypeInfo<PickledByteArrayTypeInfo>]>"),
    ],
)
def test_a_record_class_is_typed_by_its_hints(kind: Any, spelled: str) -> None:
    assert str(Types.of(kind)) == spelled


@pytest.mark.parametrize("kind", [Empty, Partial, Rated, FailedWith])
def test_a_class_that_fields_do_not_describe_is_pickled(kind: Any) -> None:
    assert Types.of(kind) == PICKLED


@pytest.mark.parametrize(
    ("kind", "info"), [(Plain, DataclassTypeInfo), (Point, NamedTupleTypeInfo), (Movie, DictTypeInfo)]
)
def test_each_kind_of_record_has_its_type(kind: Any, info: type) -> None:
    assert type(Types.of(kind)) is info


@pytest.mark.parametrize(
    ("kind", "immutable"),
    [(Frozen, True), (FrozenSlotted, True), (Point, True), (Plain, False), (Slotted, False), (Movie, False)],
)
def test_immutability(kind: Any, immutable: bool) -> None:
    assert Types.of(kind).is_immutable is immutable


@pytest.mark.parametrize(
    "records",
    [
        [Plain(1, 1.5), Plain(2, 2.5)],
        [Frozen(1, "a"), Frozen(2, "b")],
        [Slotted(1, ["x"]), Slotted(2, [])],
        [FrozenSlotted(1), FrozenSlotted(2, NOON)],
        [Derived(1.0, 2.0), Derived(3.0, 4.0)],
        [KeywordOnly(a=1, b=2)],
        [OwnInit("7")],
        [Child(1, 2.0, "c")],
        [Box("x"), Box({"any": "thing"})],
        [Node(1, [Node(2, [])])],
        [Point(1), Point(2, 0.5)],
        [Loud(1, 0.5)],
        [{"title": "Dune", "year": 1984}],
    ],
    ids=lambda records: type(records[0]).__name__,
)
def test_records_come_back_as_they_were(records: list[Any]) -> None:
    kind = Movie if isinstance(records[0], dict) else type(records[0])
    restored = round_trip(kind, records)
    assert restored == records
    assert [type(record) for record in restored] == [type(record) for record in records]


def test_no_records_and_one_null() -> None:
    assert round_trip(Plain, []) == []


def test_restored_instances_can_be_used() -> None:
    (restored,) = round_trip(Cached, [Cached(2)])
    assert restored.double == 4
    restored.a = 3
    assert restored.a == 3


def test_a_computed_attribute_is_not_missed() -> None:
    record = Cached(2)
    assert record.double == 4
    assert round_trip(Cached, [record]) == [Cached(2)]


def test_an_attribute_that_is_no_field_is_refused_rather_than_lost() -> None:
    with pytest.raises(InvalidTypeError, match=r"'hidden' is no field and would be lost"):
        round_trip(Leaky, [Leaky(1)])


def test_an_instance_of_another_class_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"row 1: got Child\(.*expected an instance of Plain itself"):
        layout_of(Types.of(Plain)).rows_to_columns([Plain(1, 1.0), Child(1, 1.0)])


def test_an_instance_without_all_its_fields_is_refused() -> None:
    broken = Plain(1, 1.0)
    del broken.price
    with pytest.raises(InvalidTypeError, match="with all its fields"):
        layout_of(Types.of(Plain)).rows_to_columns([broken])


def test_a_plain_tuple_passes_for_a_named_one() -> None:
    assert round_trip(Point, [(1, 2.0)]) == [Point(1, 2.0)]
    with pytest.raises(InvalidTypeError, match="it has 1 values"):
        round_trip(Point, [(1,)])


@pytest.mark.parametrize("record", [{"title": "Dune"}, {"title": "Dune", "year": 1, "x": 2}, {"title": "D", "b": 1}, 5])
def test_a_dict_has_exactly_its_keys(record: Any) -> None:
    with pytest.raises(InvalidTypeError, match="a dict with the keys 'title', 'year' and no others"):
        round_trip(Movie, [{"title": "Dune", "year": 1984}, record])


def test_a_description_without_the_class_reads_rows() -> None:
    info = Types.of(Plain)
    batch = layout_of(info).rows_to_columns([Plain(1, 1.5)])
    detached = type_from_json(info.to_json())
    assert detached.to_json() == info.to_json()
    assert layout_of(detached).columns_to_rows(batch) == [Row(id=1, price=1.5)]
    assert layout_of(detached).rows_to_columns([Row(id=1, price=1.5)]).equals(batch)
