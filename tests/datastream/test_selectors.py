"""Key selectors that only pick fields are recognised, all others are left alone."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Any

import pytest

from headrace.datastream.streams.keying import field_of_selector

SEVEN = 7


def by_name(record: Any) -> Any:
    """Documented, annotated, and yet only picks a field."""
    return record["name"]


def by_local(record: Any) -> Any:
    name = record["name"]
    return name  # noqa: RET504


def by_default(record: Any, index: int = 0) -> Any:
    return record[index]


def generator(record: Any) -> Any:
    yield record[0]


async def coroutine(record: Any) -> Any:
    return record[0]


def variable(*record: Any) -> Any:
    return record[0]


def keyword_only(*, record: Any) -> Any:
    return record[0]


class Selector:
    def get_key(self, value: Any) -> Any:
        return value.user, value[2]

    def get_self(self, value: Any) -> Any:
        return self.name  # type: ignore[attr-defined]

    def __call__(self, value: Any) -> Any:
        return value[0]


def over_a_free_variable() -> Any:
    index = 0
    return lambda x: x[index]


@pytest.mark.parametrize(
    ("selector", "fields"),
    [
        (lambda x: x[0], (0,)),
        (lambda x: x[-1], (-1,)),
        (lambda x: x[1000], (1000,)),
        (lambda x: x["a"], ("a",)),
        (lambda x: x.a, ("a",)),
        (lambda x: (x[0], x["b"], x.c), (0, "b", "c")),
        (lambda x: (x[0], x[0]), (0, 0)),
        (by_name, ("name",)),
        (Selector().get_key, ("user", 2)),
        (itemgetter(1), (1,)),
        (itemgetter("a", 2), ("a", 2)),
        (attrgetter("a", "b"), ("a", "b")),
    ],
)
def test_fields_are_recognised(selector: Any, fields: tuple[str | int, ...]) -> None:
    assert field_of_selector(selector) == fields


@pytest.mark.parametrize(
    "selector",
    [
        lambda x: x,
        lambda x: "a" in x,
        lambda x: [*x],
        lambda x: [item for item in x],  # noqa: C416 - as users write it
        lambda x: (*x, 1),
        lambda x: (x[0],),
        lambda x: [x[0], x[1]],
        lambda x: (x[0], 1),
        lambda x: (x[0], x),
        lambda x: x[0][1],
        lambda x: x.a.b,
        lambda x: x.a(),
        lambda x: x.get("a"),
        lambda x: x[0:2],
        lambda x: x[:],
        lambda x: x[0] + 1,
        lambda x: x[0] or x[1],
        lambda x: x[0] if x[1] else x[2],
        lambda x: x[True],
        lambda x: x[1.5],
        lambda x: x[None],
        lambda x: x[SEVEN],
        lambda x: x[x],
        lambda x: str(x[0]),
        lambda x: f"{x[0]}",
        lambda x: 5,
        lambda x: (),
        lambda x: -x[0],
        lambda x: (y := x[0]),  # noqa: F841
        lambda: 0,
        lambda x, y: x[0],
        over_a_free_variable(),
        by_local,
        by_default,
        generator,
        coroutine,
        variable,
        keyword_only,
        Selector().get_self,
        Selector(),
        attrgetter("a.b"),
        itemgetter(slice(2)),
        len,
        str.lower,
        None,
        "a",
    ],
)
def test_anything_else_is_not(selector: Any) -> None:
    assert field_of_selector(selector) is None


seen: list[Any] = []


def with_a_side_effect(record: Any) -> Any:
    seen.append(record)
    return record[0]


def setting_a_global(record: Any) -> Any:
    global seen  # noqa: PLW0603
    seen = ["set"]
    return record[0]


def changing_the_record(record: Any) -> Any:
    record.name = 1
    return record.card


def endless(record: Any) -> Any:
    while True:
        pass


@pytest.mark.parametrize("selector", [with_a_side_effect, setting_a_global, changing_the_record, endless])
def test_whatever_else_a_selector_does_does_not_happen(selector: Any) -> None:
    assert field_of_selector(selector) is None
    assert seen == []


@pytest.mark.parametrize(
    "selector",
    [
        lambda x: x.a if x.a is not None else x.b,
        lambda x: (x.a, x.b)[x.c is None],
        lambda x: [x.a, x.b][0],
        lambda x: {x.a: x.b}[x.a],
        lambda x: x.a is x.a,
        lambda x: x.a == x.b,
        lambda x: (x := x.a, 5)[x == 0],
        lambda x: (x := x.a, 5)[x is None],
        lambda x: (*{x.a, x.b},),
        lambda x: (*{x.a: 0, x.b: 1},),
        lambda x: (x.a, (x.b, x.c)),
        lambda x: (x.b, x.a)[::-1],
        lambda x: [field for field in x],  # noqa: C416
        lambda x: (*x, x.a),
        lambda x: x.a in x,
        lambda x: (x.a, {**x}),
        lambda x: (lambda: x.a)(),  # noqa: PLC3002
        lambda x: __import__("os").getpid() and x.a,
    ],
)
def test_what_only_looks_like_a_pick_for_some_records(selector: Any) -> None:
    assert field_of_selector(selector) is None


def test_a_name_may_be_that_of_anything() -> None:
    assert field_of_selector(lambda r: (r.field, r.__class__, r._picks)) == ("field", "__class__", "_picks")
