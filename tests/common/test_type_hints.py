"""From Python's types and type hints to type information."""

from __future__ import annotations

import abc
import datetime
import enum
import typing
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional, Union

import numpy as np
import pytest

from headrace.common.errors import InvalidTypeError
from headrace.common.time import Instant
from headrace.common.typeinfo import TypeInformation, Types

T = typing.TypeVar("T")
UserId = typing.NewType("UserId", int)


class Colour(enum.Enum):
    RED = "red"


class Base(abc.ABC):
    @abc.abstractmethod
    def method(self) -> None: ...


PICKLED = Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize(
    ("hint", "info"),
    [
        (int, Types.LONG()),
        (float, Types.DOUBLE()),
        (str, Types.STRING()),
        (bytes, Types.BYTES()),
        (bool, Types.BOOLEAN()),
        (datetime.datetime, Types.SQL_TIMESTAMP()),
        (datetime.date, Types.SQL_DATE()),
        (datetime.time, Types.SQL_TIME()),
        (Decimal, Types.BIG_DEC()),
        (Instant, Types.INSTANT()),
        (np.int32, Types.INT()),
        (np.float32, Types.FLOAT()),
        (UserId, Types.LONG()),
        (Types.CHAR(), Types.CHAR()),
        (Optional[int], Types.LONG()),  # noqa: UP045
        (int | None, Types.LONG()),
        (Annotated[datetime.datetime, "doc", Types.TIMESTAMP_LTZ()], Types.TIMESTAMP_LTZ()),
        (Annotated[int, "doc"], Types.LONG()),
        (Literal["a", "b"], Types.STRING()),
        (Literal["a", None], Types.STRING()),
        (tuple[int, str], Types.TUPLE([int, str])),
        (tuple[int, tuple[str, float]], Types.TUPLE([int, Types.TUPLE([str, float])])),
        (tuple[int, Any], Types.TUPLE([int, PICKLED])),
        (list[int], Types.LIST(int)),
        (typing.List[str], Types.LIST(str)),  # noqa: UP006
        (dict[str, list[int]], Types.MAP(str, Types.LIST(int))),
    ],
)
def test_what_says_enough_is_typed(hint: Any, info: TypeInformation) -> None:
    assert Types.of(hint) == info


@pytest.mark.parametrize(
    "hint",
    [
        Any, object, None, type(None), list, dict, tuple, typing.List, T, Colour, Base, uuid.UUID, complex,  # noqa: UP006
        tuple[int, ...], tuple[()], set[int], Sequence[int], Union[int, str], int | str, Literal["a", 1],  # noqa: UP007
        datetime.timedelta, np.uint8,
    ],
)  # fmt: skip
def test_what_says_too_little_is_pickled(hint: Any) -> None:
    assert Types.of(hint) == PICKLED


@pytest.mark.parametrize("hint", [5, "int", [int], {"a": int}, len])
def test_what_is_no_type_is_refused(hint: Any) -> None:
    with pytest.raises(InvalidTypeError, match="is not a type: give a TypeInformation, a class or a type hint"):
        Types.of(hint)


def test_a_forgotten_call_is_noticed() -> None:
    with pytest.raises(InvalidTypeError, match=r"write Types.STRING\(\)"):
        Types.of(Types.STRING)
    with pytest.raises(InvalidTypeError, match=r"write Types.LONG\(\)"):
        Types.TUPLE([Types.LONG])
