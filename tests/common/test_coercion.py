"""Values in memory look as they do when they come back from storage."""

from __future__ import annotations

import datetime
import math
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row, RowKind
from headrace.common.values import handler_of
from tests.common.test_round_trips import KINDS, same
from tests.draws import draws

ROW = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.DOUBLE()])
CEST = datetime.timezone(datetime.timedelta(hours=2))


class Pair(NamedTuple):
    left: int
    right: float


@dataclass
class Account:
    name: str
    total: float


OTHER_PAIR = namedtuple("OTHER_PAIR", ["left", "right"])

ACCEPTED: list[tuple[TypeInformation, Any]] = [
    (Types.FLOAT(), 0.1),
    (Types.FLOAT(), np.float32(0.5)),
    (Types.DOUBLE(), 3),
    (Types.LONG(), np.int64(4)),
    (Types.BIG_DEC(), 5),
    (Types.BYTES(), bytearray(b"ab")),
    (Types.TIMESTAMP_LTZ(), datetime.datetime(2020, 1, 1, tzinfo=CEST)),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 1, fold=1)),
    (Types.SQL_TIME(), datetime.time(1, fold=1)),
    (ROW, (1, 2.0)),
    (ROW, {"a": 1}),
    (ROW, Row(1, 2.0)),
    (ROW, Row(a=1, b=2)),
    (ROW, Row(b=2.0, a=1)),
    (Types.ROW([Types.LONG()]), Row(1)),
    (Types.TUPLE([Types.LONG(), Types.DOUBLE()]), [1, 2.0]),
    (Types.TUPLE([Types.FLOAT()]), (0.1,)),
    (Types.TUPLE([Types.STRING(), Types.DOUBLE()]), (None, 1)),
    (Types.ROW([Types.STRING(), ROW]), Row("a", (1, 2))),
    (Types.TUPLE([ROW]), ((1, 2.0),)),
    (Types.of(Pair), (1, 2.0)),
    (Types.of(Pair), Pair(1, 2)),
    (Types.of(Account), Account("a", 1)),
    (Types.LIST(Types.LONG()), (1, 2)),
    (Types.LIST(Types.DOUBLE()), [1.0, 2]),
    (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), np.array([1.0])),
    (Types.MAP(Types.STRING(), Types.DOUBLE()), {"x": 1}),
    (Types.MAP(Types.FLOAT(), Types.LONG()), {0.1: 1}),
]

REFUSED: list[tuple[TypeInformation, Any]] = [
    (Types.LONG(), "x"),
    (Types.LONG(), True),
    (Types.LONG(), 2**63),
    (Types.BYTE(), 128),
    (Types.FLOAT(), 1e300),
    (Types.CHAR(), "ab"),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 1, tzinfo=CEST)),
    (Types.SQL_DATE(), datetime.datetime(2020, 1, 1)),
    (ROW, Row(1)),
    (ROW, Row.of_kind(RowKind.DELETE, a=1, b=2.0)),
    (Types.of(Pair), OTHER_PAIR(1, 2.0)),
    (Types.PRIMITIVE_ARRAY(Types.LONG()), [1, None]),
    (Types.TUPLE([Types.LONG()]), (1, 2)),
]


def stored(info: TypeInformation, value: Any) -> Any:
    return array_to_values(info, values_to_array(info, [value]))[0]


@pytest.mark.parametrize(("info", "value"), ACCEPTED, ids=str)
def test_what_is_accepted_is_brought_into_form(info: TypeInformation, value: Any) -> None:
    handler = handler_of(info)
    assert not handler.is_coerced(value)
    assert same(handler.coerce(value), stored(info, value))
    assert handler.is_coerced(handler.coerce(value))


@pytest.mark.parametrize(("info", "value"), REFUSED, ids=str)
def test_what_does_not_fit_is_refused_by_name(info: TypeInformation, value: Any) -> None:
    with pytest.raises(InvalidTypeError, match="expected"):
        handler_of(info).coerce(value)


@settings(max_examples=draws(100), deadline=None)
@given(st.data())
def test_what_came_back_is_left_alone(data: st.DataObject) -> None:
    info, present = data.draw(KINDS)
    value = stored(info, data.draw(present | st.none()))
    assert handler_of(info).coerce(value) is value


def test_floats_of_32_bits() -> None:
    handler = handler_of(Types.FLOAT())
    assert all(handler.is_coerced(value) for value in (0.5, -0.0, math.inf, math.nan, None))
    assert handler_of(Types.BIG_DEC()).is_coerced(Decimal("1.00"))
