"""Key selectors that only pick fields are recognised by their code, all others are left alone."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.common import selectors
from headrace.common.selectors import field_of_selector

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


def test_the_selector_is_not_called() -> None:
    def raising(x: Any) -> Any:
        raise AssertionError

    assert field_of_selector(raising) is None


LOAD = ("LOAD_FAST_BORROW", "x", "x")
ITEM = ("BINARY_OP", 26, "[]")

OTHER_VERSIONS = [
    # Python 3.14
    ([("RESUME", 0, ""), LOAD, ("LOAD_SMALL_INT", 0, ""), ITEM, ("RETURN_VALUE", None, "")], (0,)),
    ([LOAD, ("LOAD_CONST", "a", "'a'"), ITEM, ("RETURN_VALUE", None, "")], ("a",)),
    ([LOAD, ("LOAD_SMALL_INT", 0, ""), ("BINARY_OP", 0, "+"), ("RETURN_VALUE", None, "")], None),
    # Two loads in one instruction
    ([("LOAD_FAST_LOAD_FAST", ("x", "x"), ""), ("LOAD_ATTR", "a", "a"), ("RETURN_VALUE", None, "")], ("a",)),
    ([("LOAD_FAST_LOAD_FAST", ("x", "y"), ""), ("LOAD_ATTR", "a", "a"), ("RETURN_VALUE", None, "")], None),
    # Versions yet to come
    ([("LOAD_EVERYTHING", "x", ""), ("RETURN_VALUE", None, "")], None),
    ([("RETURN_VALUE", None, "")], None),
    ([ITEM, ("RETURN_VALUE", None, "")], None),
    ([LOAD], None),
]


@pytest.mark.parametrize(("code", "fields"), OTHER_VERSIONS)
def test_instructions_of_other_versions(
    code: list[tuple[str, Any, str]], fields: tuple[str | int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    instructions = [SimpleNamespace(opname=name, argval=value, argrepr=shown, arg=value) for name, value, shown in code]
    monkeypatch.setattr(selectors.dis, "get_instructions", lambda _: iter(instructions))
    assert field_of_selector(lambda x: x) == fields
