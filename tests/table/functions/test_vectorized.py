"""Kernels of whole columns give what the same kernels give of one value at a time, also for odd values."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.common.logical_types import LogicalType
from headrace.table.bind import BindContext
from headrace.table.catalog.manager import CatalogManager
from headrace.table.functions.kernels.casts import cast
from headrace.table.functions.kernels.decimals import EXACT, fitted
from headrace.table.functions.kernels.kernel import Invocation
from headrace.table.functions.table import kernel_of
from headrace.table.parse.parser import parse_type
from headrace.table.parse.source import SqlSource

RANDOM = random.Random(20)


def type_of(text: str) -> LogicalType:
    return BindContext(SqlSource(""), CatalogManager()).types.bind(parse_type(text))


def doubles() -> list[Any]:
    halves = [sign * (n + 0.5) / 10**k for sign in (1, -1) for n in (0, 1, 2, 34, 1234567) for k in (0, 1, 2, 3, 5)]
    odd = [
        0.0,
        -0.0,
        1e-9,
        1e20,
        1e300,
        -1e-300,
        2.675,
        1.005,
        float("nan"),
        float("inf"),
        -float("inf"),
        None,
        1e7,
        1e-3,
    ]
    return (
        halves
        + odd
        + [RANDOM.uniform(-1000, 1000) for _ in range(60)]
        + [RANDOM.uniform(-1e15, 1e15) for _ in range(20)]
    )


def decimals(digits: int, scale: int) -> list[Any]:
    limit = 10**digits - 1
    numbers = [0, 1, -1, 5, -5, 15, 25, limit, -limit, *(RANDOM.randint(-limit, limit) for _ in range(60))]
    return [*(Decimal(number).scaleb(-scale) for number in numbers), None]


def texts() -> list[Any]:
    numbers = [
        "1",
        "-1",
        "+1",
        " 7 ",
        "127",
        "128",
        "-128",
        "1.5",
        ".5",
        "5.",
        "1e3",
        "x",
        "",
        "0x10",
        "99999999999",
        "1_0",
    ]
    times = [
        "2024-02-29",
        "2023-02-29",
        "2024-2-9",
        "2024-02-30 10:00:00",
        "2024-02-29 10:11:12",
        "2024-02-29 24:00:00",
    ]
    more = [
        "2024-02-29 10:11:12.5",
        "2024-02-29T10:11:12",
        "2024-02-29 10:11",
        "0001-01-01",
        "9999-12-31 23:59:59.999999",
    ]
    words = [
        "a,b,,c",
        ",",
        "user-12;item",
        "ß",
        "日本語",
        "😀smile",
        "aXbX",
        "foo bar",
        "A1 b2",
        "\n",
        "a\nb",
        "ab\n",
        None,
    ]
    return [*numbers, *times, *more, *words]


def moments() -> list[Any]:
    return [0, -1, 1, -62135596800000000, 253402300799999999, -62135596800000001, 1709251199999999, None]


CASES: list[tuple[str, str, list[Any], str, list[tuple[str, Any]]]] = [
    *(
        (name, "DOUBLE", doubles(), "DOUBLE", [("INT", places)])
        for name in ("ROUND", "TRUNCATE")
        for places in (0, 1, 2, 5)
    ),
    *(
        (name, "DECIMAL(10, 4)", decimals(10, 4), f"DECIMAL(9, {places})", [("INT", places)])
        for name in ("ROUND", "TRUNCATE")
        for places in (0, 2, 3)
    ),
    ("/", "DECIMAL(10, 2)", decimals(10, 2), "DECIMAL(21, 13)", [("INT", 3)]),
    ("/", "DECIMAL(6, 2)", decimals(6, 2), "DECIMAL(18, 8)", [("DECIMAL(3, 1)", Decimal("-0.7"))]),
    ("*", "DECIMAL(10, 2)", decimals(10, 2), "DECIMAL(21, 4)", [("DECIMAL(10, 2)", Decimal("-99999999.99"))]),
    ("MOD", "INT", [7, -7, 0, None, 2**31 - 1, -(2**31)], "INT", [("INT", -1)]),
    ("/", "INT", [7, -7, 0, None, 2**31 - 1, -(2**31)], "INT", [("INT", -1)]),
    *(
        ("CAST", "DOUBLE", doubles(), kind, [])
        for kind in ("STRING", "DECIMAL(10, 2)", "DECIMAL(5, 0)", "INT", "SMALLINT")
    ),
    *(("CAST", "DECIMAL(10, 4)", decimals(10, 4), kind, []) for kind in ("STRING", "DECIMAL(6, 2)", "INT", "DOUBLE")),
    *(
        ("TRY_CAST", "STRING", texts(), kind, [])
        for kind in ("TINYINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(5, 2)", "DATE", "TIMESTAMP(3)", "TIMESTAMP(6)")
    ),
    *(("CAST", kind, moments(), "STRING", []) for kind in ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(0)")),
    *(
        ("DATE_FORMAT", "TIMESTAMP(6)", moments(), "STRING", [("STRING", shape)])
        for shape in ("yyyy-MM-dd", "HH:mm", "y", "ss.SSS", "yyyy/MM", "dd")
    ),
    *(
        (name, "STRING", texts(), result, [("STRING", pattern)])
        for name, result in (("REGEXP", "BOOLEAN"), ("REGEXP_EXTRACT", "STRING"))
        for pattern in ("[0-9]+", "a.b", r"\w\d", "^[a-z]", "X$", "(b|X)", "b*", "(", "ß|語")
    ),
    *(("REGEXP_EXTRACT", "STRING", texts(), "STRING", [("STRING", r"([a-z])(\d)?"), ("INT", n)]) for n in (0, 1, 2, 3)),
    *(
        ("REGEXP_EXTRACT", "STRING", texts(), "STRING", [("STRING", pattern), ("INT", 2)])
        for pattern in ("(X|^)([a-z])", "(a(b)|X)b", "(b)|(X)", "(a|b)+(X)", "(o|^)([^&]*)")
    ),
    *(
        ("REGEXP_REPLACE", "STRING", texts(), "STRING", [("STRING", pattern), ("STRING", new)])
        for pattern in ("[0-9]+", "o", "x*", "")
        for new in ("$1", "\\1", "")
    ),
    *(("SPLIT_INDEX", "STRING", texts(), "STRING", [("STRING", ","), ("INT", place)]) for place in (0, 1, 2, 5)),
    *((name, "STRING", texts(), "STRING", [("INT", count)]) for name in ("LEFT", "RIGHT") for count in (-1, 0, 2, 99)),
    *(
        (name, "STRING", texts(), "STRING", [("INT", count), ("STRING", padding)])
        for name in ("LPAD", "RPAD")
        for count in (-1, 0, 4)
        for padding in ("*", "xy", "")
    ),
    *(("SUBSTRING", "STRING", texts(), "STRING", [("INT", start), ("INT", 2)]) for start in (-2, 0, 1, 3)),
    *((name, "STRING", texts(), "STRING", []) for name in ("UPPER", "LOWER")),
    *(("LIKE", "STRING", texts(), "BOOLEAN", [("STRING", shape)]) for shape in ("a%", "%b", "_,%", "a\\%", "%\n%")),
]


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("name", "kind", "values", "result", "more"), CASES)
def test_a_column_gives_what_its_values_give(
    name: str, kind: str, values: list[Any], result: str, more: list[tuple[str, Any]]
) -> None:
    source, *others = [type_of(text) for text in (kind, *(text for text, _ in more))]
    call = Invocation((source, *others), type_of(result), (("is_try", True),) if name == "TRY_CAST" else ())
    kernel = cast if name.endswith("CAST") else kernel_of(name)
    assert kernel is not None
    constants = [pa.scalar(value, kind.arrow_type) for kind, (_, value) in zip(others, more, strict=True)]
    column = pa.array(values, source.arrow_type)
    one_by_one = [kernel(call, value, *constants).cast(call.storage).as_py() for value in column]
    assert repr(kernel(call, column, *constants).cast(call.storage).to_pylist()) == repr(one_by_one)


@pytest.mark.parametrize("name", ["+", "-", "*"])
@pytest.mark.parametrize("digits", [(4, 9, 5), (15, 16, 31), (18, 18, 18), (28, 20, 38)])
def test_decimals_are_exact_whatever_computes_them(name: str, digits: tuple[int, int, int]) -> None:
    scale = 4 if name == "*" else 2
    kinds = [f"DECIMAL({digits[0]}, 2)", f"DECIMAL({digits[1]}, 2)"]
    result = type_of(f"DECIMAL({digits[2]}, {scale})")
    left, right = decimals(digits[0], 2), decimals(digits[1], 2)
    columns = [pa.array(values, type_of(kind).arrow_type) for values, kind in zip((left, right), kinds, strict=True)]
    kernel = kernel_of(name)
    assert kernel is not None
    invocation = Invocation((type_of(kinds[0]), type_of(kinds[1])), result)
    compute = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}[name]
    expected = [
        None if one is None or other is None else fitted(compute(one, other), result.arrow_type)
        for one, other in zip(left, right, strict=True)
    ]
    assert kernel(invocation, *columns).to_pylist() == expected
    constant = pa.scalar(right[7], columns[1].type)
    of_constant = [None if one is None else fitted(compute(one, right[7]), result.arrow_type) for one in left]
    assert kernel(invocation, columns[0], constant).to_pylist() == of_constant
