"""Functions that treat the bytes of a column at once, beside the same functions of single texts."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pytest

from headrace.common.logical_types import ArrayType, AtomicType, TypeRoot, string
from headrace.table.functions.kernels import encodings, patterns, texts
from headrace.table.functions.kernels.kernel import Datum, Invocation, map_rows

INTEGER = AtomicType(TypeRoot.INTEGER)
ASCII = ["", "a", "card-000123", "Hello wORLD 2x", "a%b&c=d ~*", "x" * 70, None, "0001", "~é"]
TEXTS = [*ASCII, "é", "straße 日本", "😀a", None]


def _columns(values: list[str | None]) -> list[pa.Array]:
    """The values as they are, sliced, and so many times that they are few."""
    inside = pa.array(["zz", *values, "yy"]).slice(1, len(values))
    return [pa.array(values, pa.string()), inside, pa.array(values * 400)]


def _initcap(text: str) -> str:
    made, inside = [], False
    for letter in text:
        made.append((letter.lower() if inside else letter.upper()) if letter.isascii() else letter)
        inside = letter.isascii() and letter.isalnum()
    return "".join(made)


def _java_hash(text: str) -> int:
    found = 0
    units = text.encode("utf-16-le")
    for place in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[place : place + 2], "little")) % (1 << 32)
    return abs(found - (1 << 32) if found >> 31 else found)


def _substring(text: str, start: int) -> str:
    return text[start - 1 :] if start > 0 else "" if -start > len(text) else text[len(text) + start :]


CASES: dict[str, tuple[Callable[..., Datum], tuple[object, ...], Callable[[str], object]]] = {
    "INITCAP": (texts.initcap, (), _initcap),
    "ASCII": (texts.ascii_code, (), lambda text: int.from_bytes(text.encode()[:1] or b"\0", signed=True)),
    "HEX": (encodings.hex_, (), lambda text: text.encode().hex().upper()),
    "TO_BASE64": (encodings.to_base64, (), lambda text: b64encode(text.encode()).decode()),
    "URL_ENCODE": (encodings.url_encode, (), lambda text: quote_plus(text, safe="*-._").replace("~", "%7E")),
    "HASH_CODE": (encodings.hash_code, (), _java_hash),
    "MD5": (encodings.hashed("md5"), (), lambda text: hashlib.md5(text.encode()).hexdigest()),
    "SHA2": (encodings.sha2, (512,), lambda text: hashlib.sha512(text.encode()).hexdigest()),
    "TRANSLATE": (
        texts.translate,
        ("abl0", "xé"),
        lambda text: text.translate({97: "x", 98: "é", ord("l"): None, ord("0"): None}),
    ),
    "SUBSTRING": (texts.substring, (-3,), lambda text: _substring(text, -3)),
    "SUBSTRING with a length": (texts.substring, (-5, 2), lambda text: text[-5:][:2] if len(text) > 4 else ""),
    "REPEAT": (texts.repeat, (3,), lambda text: text * 3),
    "SPLIT": (texts.split, ("-",), lambda text: text.split("-") if text else []),
    "REGEXP_COUNT": (patterns.regexp_count, ("[a-z]+",), lambda text: len(re.findall("[a-z]+", text))),
    "REGEXP_COUNT at the start": (patterns.regexp_count, ("^x",), lambda text: int(text.startswith("x"))),
}


@pytest.mark.parametrize("values", [ASCII[:-1], TEXTS], ids=["ASCII", "any text"])
@pytest.mark.parametrize("name", CASES)
def test_columns_are_as_single_texts(name: str, values: list[str | None]) -> None:
    kernel, more, one = CASES[name]
    result = INTEGER if isinstance(one("a"), int) else ArrayType(string()) if name == "SPLIT" else string()
    call = Invocation((string(),), result)
    for column in _columns(values):
        made = kernel(call, column, *map(pa.scalar, more)).to_pylist()
        assert made == [None if value is None else one(value) for value in column.to_pylist()]


@pytest.mark.parametrize(("kernel", "base"), [(encodings.hex_, "X"), (encodings.bin_, "b")])
def test_integers_are_written_in_digits_of_some_bits(kernel: Callable[..., Datum], base: str) -> None:
    values = [0, 1, 15, 16, -1, 255, None, (1 << 63) - 1, -(1 << 63)]
    made = kernel(Invocation((INTEGER,), string()), pa.array(values)).to_pylist()
    assert made == [None if value is None else format(value % (1 << 64), base) for value in values]


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_function_is_called_once_for_each_of_few_values(is_strict: bool) -> None:
    calls: list[int | None] = []

    def one(value: int | None, other: int) -> int:
        calls.append(value)
        return -1 if value is None else value + other

    column = pa.array(np.arange(10_000) % 7, mask=np.arange(10_000) % 10 == 3)
    made = map_rows(one, pa.int64(), column, pa.scalar(5), is_strict=is_strict).to_pylist()
    assert made == [(None if is_strict else -1) if value is None else value + 5 for value in column.to_pylist()]
    assert len(calls) == (7 if is_strict else 8)
