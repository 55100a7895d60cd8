"""Types that nobody declared: from annotations and from values."""

from __future__ import annotations

import datetime
import functools
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, Optional, Union
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from headrace.common.columns import infer_from_values
from headrace.common.output_tag import OutputTag
from headrace.common.time import Instant
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row, RowKind
from headrace.datastream.streams.types import Role, infer_from_hint

PICKLED = Types.PICKLED_BYTE_ARRAY()
NOON = datetime.datetime(2024, 2, 29, 12)


@dataclass
class Alert:
    id: int
    price: float


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Event:
    when: datetime.datetime


def returns_int(x: Any) -> int: ...  # type: ignore[empty-body]
def returns_alert(x: Missing) -> Alert: ...  # type: ignore[name-defined, empty-body] # noqa: F821
def returns_missing(x: Any) -> Missing: ...  # type: ignore[name-defined] # noqa: F821
def returns_optional(x: Any) -> int | None: ...
def returns_optional_record(x: Any) -> Optional[Alert]: ...  # noqa: UP045
def returns_union(x: Any) -> int | str: ...  # type: ignore[empty-body]
def returns_none(x: Any) -> None: ...
def unannotated(x): ...  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
async def returns_later(x: Any) -> str: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "info"),
    [
        (returns_int, Types.LONG()),
        (returns_alert, Types.of(Alert)),
        (returns_missing, PICKLED),
        (returns_optional, Types.LONG()),
        (returns_optional_record, PICKLED),
        (returns_union, PICKLED),
        (returns_none, PICKLED),
        (unannotated, PICKLED),
        (returns_later, Types.STRING()),
        (lambda x: 1, PICKLED),
        (functools.partial(returns_int, 1), Types.LONG()),
        (Alert, Types.of(Alert)),
        (str, Types.STRING()),
        (len, PICKLED),
    ],
)
def test_results_of_functions(function: Any, info: TypeInformation) -> None:
    assert infer_from_hint(function, Role.ONE) == info


def of_iterable(x: Any) -> Iterable[Alert]: ...  # type: ignore[empty-body]
def of_iterator(x: Any) -> Iterator[int]: ...  # type: ignore[empty-body]
def of_generator(x: Any) -> Generator[str, None, None]: ...  # type: ignore[empty-body]
def of_list(x: Any) -> list[tuple[int, str]]: ...  # type: ignore[empty-body]
def of_optional(x: Any) -> list[int] | None: ...
def of_variadic(x: Any) -> tuple[int, ...]: ...  # type: ignore[empty-body]
def of_fixed(x: Any) -> tuple[int, int]: ...  # type: ignore[empty-body]
def of_bare(x: Any) -> list: ...  # type: ignore[empty-body, type-arg]
def of_text(x: Any) -> str: ...  # type: ignore[empty-body]
def with_side(x: Any) -> Iterable[Union[Alert, tuple[OutputTag, str]]]: ...  # type: ignore[empty-body] # noqa: UP007
def only_side(x: Any) -> Iterable[tuple[OutputTag, str]]: ...  # type: ignore[empty-body]
async def of_async(x: Any) -> AsyncIterator[int]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "info"),
    [
        (of_iterable, Types.of(Alert)),
        (of_iterator, Types.LONG()),
        (of_generator, Types.STRING()),
        (of_list, Types.TUPLE([int, str])),
        (of_optional, Types.LONG()),
        (of_variadic, Types.LONG()),
        (of_fixed, PICKLED),
        (of_bare, PICKLED),
        (of_text, PICKLED),
        (returns_none, PICKLED),
        (with_side, Types.of(Alert)),
        (only_side, PICKLED),
        (of_async, Types.LONG()),
        (unannotated, PICKLED),
        (returns_missing, PICKLED),
    ],
)
def test_results_of_generators(function: Any, info: TypeInformation) -> None:
    assert infer_from_hint(function, Role.MANY) == info


class Mapper:
    def map(self, value: Any) -> Alert: ...  # type: ignore[empty-body]


class Process:
    def process_element(self, value: Any, ctx: Any) -> Iterable[int]: ...  # type: ignore[empty-body]


class WithTimer(Process):
    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[int]: ...  # type: ignore[empty-body]


class WithOtherTimer(Process):
    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[str]: ...  # type: ignore[empty-body]


class WithVagueTimer(Process):
    def on_timer(self, timestamp, ctx): ...  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201


class Called:
    def __call__(self, value: Any) -> int: ...  # type: ignore[empty-body]


class InheritedTimer:
    """What headrace's base classes define says nothing about the user's results."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[int]: ...  # type: ignore[empty-body]

    def on_timer(self, timestamp, ctx): ...  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201

    on_timer.__module__ = "headrace.datastream.functions"


@pytest.mark.parametrize(
    ("function", "role", "info"),
    [
        (Mapper(), Role.ONE, Types.of(Alert)),
        (Mapper().map, Role.ONE, Types.of(Alert)),
        (Process(), Role.MANY, Types.LONG()),
        (WithTimer(), Role.MANY, Types.LONG()),
        (WithOtherTimer(), Role.MANY, PICKLED),
        (WithVagueTimer(), Role.MANY, PICKLED),
        (InheritedTimer(), Role.MANY, Types.LONG()),
        (Called(), Role.ONE, Types.LONG()),
        (object(), Role.ONE, PICKLED),
    ],
)
def test_results_of_function_objects(function: Any, role: Role, info: TypeInformation) -> None:
    assert infer_from_hint(function, role) == info


UTC_NOON = NOON.replace(tzinfo=datetime.UTC)
BERLIN_NOON = NOON.replace(tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("values", "info"),
    [
        ([1, 2, None], Types.LONG()),
        ([1.5], Types.DOUBLE()),
        (["a", "b"], Types.STRING()),
        ([b"a"], Types.BYTES()),
        ([True, False], Types.BOOLEAN()),
        ([NOON], Types.SQL_TIMESTAMP()),
        ([UTC_NOON], Types.TIMESTAMP_LTZ()),
        ([NOON.date()], Types.SQL_DATE()),
        ([NOON.time()], Types.SQL_TIME()),
        ([Decimal(1)], Types.BIG_DEC()),
        ([Instant(1, 2)], Types.INSTANT()),
        ([(1, "a"), (2, None)], Types.TUPLE([int, str])),
        ([(1, (2.0,)), (2, None)], Types.TUPLE([int, Types.TUPLE([float])])),
        ([(1, "a"), (2, 3)], Types.TUPLE([int, PICKLED])),
        ([(1, None), (2, None)], Types.TUPLE([int, PICKLED])),
        ([[1, 2], [], [None]], Types.LIST(int)),
        ([Row(a=1), Row(a=2)], Types.ROW_NAMED(["a"], [int])),
        ([Row(1, "a")], Types.ROW([int, str])),
        ([Row.of_kind(RowKind.DELETE, a=1), Row(a=2)], Types.ROW_NAMED(["a"], [int], changelog=True)),
        ([Alert(1, 2.0), Alert(2, 3.0)], Types.of(Alert)),
        ([Alert(1, 2)], Types.of(Alert)),
        ([Point(1, 2.0)], Types.of(Point)),
        ({1, 2}, Types.LONG()),
    ],
)
def test_values_that_agree_are_typed(values: Any, info: TypeInformation) -> None:
    assert infer_from_values(values) == info


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None],
        [1, "a"],
        [1, 2.0],
        [1, True],
        [2**63],
        ["\ud800"],
        [np.int64(1)],
        [NOON, UTC_NOON],
        [BERLIN_NOON],
        [NOON.time().replace(tzinfo=datetime.UTC)],
        [Instant(10**12, 0)],
        [()],
        [(1,), (1, 2)],
        [(1,), None],
        [[], []],
        [[1], ["a"]],
        [{}],
        [{"a": 1}, {"b": 1}],
        [{"a": 1, "b": 2}, {"b": 1, "a": 2}],
        [{1: 2}],
        [{"": 2}],
        [Row(a=1), Row(b=1)],
        [Row(a=1), Row(1)],
        [Row()],
        [{1}],
        [object],
        [1 + 2j],
        [Alert(1, 2.0), Point(1, 2.0)],
    ],
)
def test_values_that_do_not_are_pickled(values: Any) -> None:
    assert infer_from_values(values) == PICKLED


def test_dicts_with_the_same_keys() -> None:
    info = infer_from_values([{"id": 1, "tags": ["a"]}, {"id": 2, "tags": []}])
    assert str(info) == "PojoTypeInfo<dict, fields = [id: Long, tags: ListTypeInfo<String>]>"


def test_a_field_that_does_not_keep_to_its_hint_is_typed_by_its_values() -> None:
    info = infer_from_values([Event(UTC_NOON)])
    assert str(info) == "PojoTypeInfo<Event, fields = [when: TimestampLtzTypeInfo]>"
    assert str(infer_from_values([Event("soon")])).endswith("[when: String]>")  # type: ignore[arg-type]
