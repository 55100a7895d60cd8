"""Types and values at their edges, and bytes that were damaged."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from typing import Any, Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from headrace.common import Row, Types
from headrace.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation
from headrace.common.typeinfo.base import ListTypeInfo, MapTypeInfo

SEED: Final = os.environ.get("HEADRACE_FUZZ_SEED")
"""Another in every round of ``make test-fuzz``; without one each test draws a few examples, always the same."""


def fuzzing(examples: int) -> settings:
    """How a test draws so many examples, or in a round of ``make test-fuzz`` more."""
    return settings(
        max_examples=examples if SEED is None else examples * 8,
        derandomize=SEED is None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, *([] if SEED is None else [Phase.shrink])],
    )


UTC: Final = datetime.UTC
_FIRST, _LAST = datetime.datetime.min, datetime.datetime.max


def _numbers(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.sampled_from([low, low + 1, -1, 0, 1, high - 1, high]) | st.integers(low, high)


_MOMENTS = st.sampled_from(
    [_FIRST, _LAST, datetime.datetime(1970, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)]
)
_MOMENTS |= st.datetimes()
TEXTS: Final = st.text(max_size=12) | st.sampled_from(
    ["", " ", "null", '"', "\\", "\n", "a,b", "\r\n", "\ufeff", "\U0001f600", "\x00", "1e5", "{}", "\u2028", "#", "'"]
)
_DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3) | st.sampled_from(
    [Decimal("0"), Decimal("-0.00"), Decimal("1.50"), Decimal(10**40), Decimal("0.000000000000000000001")]
)

VALUES: Final[dict[BasicType, st.SearchStrategy[Any]]] = {
    BasicType.BOOLEAN: st.booleans(),
    BasicType.BYTE: _numbers(8),
    BasicType.SHORT: _numbers(16),
    BasicType.INT: _numbers(32),
    BasicType.LONG: _numbers(64),
    BasicType.FLOAT: st.floats(width=32, allow_nan=False),
    BasicType.DOUBLE: st.floats(allow_nan=False),
    BasicType.STRING: TEXTS,
    BasicType.BYTES: st.binary(max_size=9) | st.just(bytes(range(256))),
    BasicType.BIG_INT: _numbers(64) | _numbers(200),
    BasicType.BIG_DEC: _DECIMALS,
    BasicType.SQL_DATE: _MOMENTS.map(datetime.datetime.date),
    BasicType.SQL_TIME: _MOMENTS.map(datetime.datetime.time),
    BasicType.SQL_TIMESTAMP: _MOMENTS,
    BasicType.TIMESTAMP_LTZ: _MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
}
"""By type values that it can hold, of which those at its edges are drawn often."""


@st.composite
def row_types(draw: st.DrawFn, simple: frozenset[BasicType], *, nested: bool = True) -> RowTypeInfo:
    """Types of rows with some fields of some types, and what is made of those."""
    leaf = st.sampled_from(sorted(simple, key=lambda kind: kind.name)).map(BasicTypeInfo)
    kinds: st.SearchStrategy[TypeInformation] = leaf
    if nested:
        kinds |= leaf.map(Types.LIST) | leaf.map(lambda kind: Types.MAP(Types.STRING(), kind))
        kinds |= leaf.map(lambda kind: Types.ROW_NAMED(["x", "y"], [kind, Types.LIST(Types.STRING())]))
    types = draw(st.lists(kinds, min_size=1, max_size=4))
    made = Types.ROW_NAMED([f"f{number}" for number in range(len(types))], types)
    assert isinstance(made, RowTypeInfo)
    return made


def values_of(kind: TypeInformation, *, nulls: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type."""
    return st.none() | _present(kind, nulls) if nulls else _present(kind, nulls)


def _present(kind: TypeInformation, nulls: bool) -> st.SearchStrategy[Any]:
    if isinstance(kind, BasicTypeInfo):
        return VALUES[kind.basic_type]
    if isinstance(kind, ListTypeInfo):
        return st.lists(values_of(kind.element_type, nulls=nulls), max_size=3)
    if isinstance(kind, MapTypeInfo):
        return st.dictionaries(TEXTS, values_of(kind.value_type, nulls=nulls), max_size=3)
    assert isinstance(kind, RowTypeInfo)
    return rows_of(kind, nulls=nulls)


def rows_of(kind: RowTypeInfo, *, nulls: bool = True) -> st.SearchStrategy[Row]:
    """Rows of a type."""
    fields = [values_of(field, nulls=nulls) for field in kind.field_types]
    return st.tuples(*fields).map(lambda values: Row(**dict(zip(kind.field_names, values, strict=True))))


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Some bytes, of which a few were changed, taken away, doubled or put between."""
    made = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(made)))
        match draw(st.sampled_from(["change", "cut", "insert", "double", "end"])):
            case "change" if place < len(made):
                made[place] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
            case "cut":
                del made[place : place + draw(st.integers(1, 4))]
            case "insert":
                made[place:place] = draw(st.binary(min_size=1, max_size=10) | st.just(b"\xff" * 9 + b"\x01"))
            case "double":
                made[place:place] = made[place : place + draw(st.integers(1, 20))]
            case _:
                del made[place:]
    return bytes(made)
