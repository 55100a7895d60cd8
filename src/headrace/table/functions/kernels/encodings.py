"""Text as bytes and back: charsets, hexadecimal, base 64, hashes, URLs and addresses."""

import codecs
import hashlib
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import cache, partial
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote_plus, unquote_plus, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels import bytewise
from headrace.table.functions.kernels.calendar import Moments, moments_of
from headrace.table.functions.kernels.kernel import (
    Datum,
    Invocation,
    Kernel,
    Numbers,
    any_true,
    by_row,
    from_numpy,
    map_rows,
    null_mask,
    on_arrays,
    plain,
    to_numpy,
)

_CHARSETS: Final = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16",
}
"""Python's codecs by Java's charset names, for the charsets that every JVM has."""

_BIG_ENDIAN_MARK: Final = b"\xfe\xff"


def _charset(name: str) -> str:
    found = _CHARSETS.get(name.upper())
    if found is not None:
        return found
    try:
        info = codecs.lookup(name)
    except LookupError:
        info = None
    if info is None or not getattr(info, "_is_text_encoding", True):
        raise ValueError(f"there is no charset {name!r}: there are {', '.join(_CHARSETS)}, and others")
    return info.name


def _encode(text: str, charset: str) -> bytes:
    if _charset(charset) == "utf-16":
        return (_BIG_ENDIAN_MARK + text.encode("utf-16-be")) if text else b""
    return text.encode(_charset(charset), "replace")


def _decode(data: bytes, charset: str) -> str:
    name = _charset(charset)
    if name == "utf-16" and data[:2] not in (_BIG_ENDIAN_MARK, _BIG_ENDIAN_MARK[::-1]):
        name = "utf-16-be"
    return data.decode(name, "replace")


def encode(call: Invocation, text: Datum, charset: Datum) -> Datum:
    """The bytes of a text in a charset."""
    is_plain = isinstance(charset, pa.Scalar) and str(charset.as_py()).upper() == "UTF-8"
    return text.cast(pa.binary()) if is_plain else map_rows(_encode, call.storage, text, charset)


decode: Final = by_row(_decode)


def _unhex(text: str | bytes) -> bytes | None:
    """Bytes of hexadecimal digits; of an odd number of digits the first one counts as 0."""
    digits = text if isinstance(text, str) else text.decode("latin-1")
    if not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return None
    return bytes.fromhex("00" + digits[1:] if len(digits) % 2 else digits)


def hex_(_: Invocation, value: Datum) -> Datum:
    """The bytes of a text, or an integer, in hexadecimal."""
    if pa.types.is_integer(value.type):
        return on_arrays(lambda column: bytewise.digits_of(column.cast(pa.int64()), 4))(value)
    return on_arrays(bytewise.hexadecimal)(value)


def bin_(_: Invocation, value: Datum) -> Datum:
    """An integer in binary."""
    return on_arrays(lambda column: bytewise.digits_of(column.cast(pa.int64()), 1))(value)


unhex: Final = by_row(_unhex)


def _from_base64(text: str | bytes) -> str:
    try:
        digits = text.encode() if isinstance(text, str) else text
        return b64decode(digits + b"=" * (-len(digits) % 4), validate=True).decode("utf-8", "replace")
    except ValueError:
        raise ValueError(f"{text!r} is not base 64") from None


to_base64: Final = plain(on_arrays(bytewise.base64))
from_base64: Final = by_row(_from_base64)


def hashed(name: str) -> Kernel:
    """A kernel of a hash function, in hexadecimal."""
    return lambda _, value: _hashed(name, value)


def _hashed(name: str, value: Datum) -> Datum:
    make = _maker(name)
    digests = map_rows(lambda data: make(data).digest(), pa.binary(), value.cast(pa.binary()))
    return on_arrays(partial(bytewise.hexadecimal, is_upper=False))(digests)


@cache
def _maker(name: str) -> Callable[[bytes], Any]:
    """Python's own hash function, if it is there: OpenSSL's takes three times as long for a short text."""
    for module in (f"_{name}", "_sha2"):
        with suppress(ImportError, AttributeError):
            own: Callable[[bytes], Any] = getattr(import_module(module), name)
            return own
    found: Callable[[bytes], Any] = getattr(hashlib, name)
    return found


def _hash_code(text: str) -> int:
    """``hashCode()`` of Java's text, whose letters are units of UTF-16, without its sign."""
    units = text.encode("utf-16-le")
    found = 0
    for place in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[place : place + 2], "little")) & 0xFFFF_FFFF
    return found if found < 1 << 31 else max((1 << 32) - found, -(1 << 31)) if found > 1 << 31 else -(1 << 31)


def hash_code(call: Invocation, value: Datum) -> Datum:
    """``hashCode()`` of what Flink has a value in; of a text without its sign."""
    if pa.types.is_string(value.type):
        return _text_hash(call, value)
    if pa.types.is_decimal(value.type):
        return map_rows(_decimal_hash, call.storage, value)
    return on_arrays(_number_hash)(value)


def _decimal_hash(value: Decimal) -> int:
    """``BigDecimal.hashCode()``."""
    sign, digits, exponent = value.as_tuple()
    whole, found = int("".join(map(str, digits))), 0
    for shift in range((whole.bit_length() + 31) // 32 - 1, -1, -1):
        found = 31 * found + (whole >> 32 * shift & 0xFFFF_FFFF)
    return _as_int(31 * (-found if sign else found) - int(exponent))


def _as_int(value: int) -> int:
    """The lowest 32 bits, as Java's ``int`` has them."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _number_hash(column: pa.Array) -> pa.Array:
    values, kind = to_numpy(column, neutral=False if pa.types.is_boolean(column.type) else 0), column.type
    if pa.types.is_boolean(kind):
        found = np.where(values, 1231, 1237)
    elif pa.types.is_floating(kind):
        bits = np.where(np.isnan(values), np.nan, values).astype(values.dtype)
        found = bits.view(np.int32) if kind == pa.float32() else _folded(bits.view(np.int64))
    elif pa.types.is_temporal(kind):
        at = moments_of(column, "UTC")
        found = _time_hash(at, kind)
    else:
        found = values if values.dtype != np.int64 else _folded(values)
    return from_numpy(found.astype(np.int32), pa.int32(), null_mask(column))


def _folded(values: Numbers) -> Numbers:
    """The hash of Java's ``long``: both halves in one."""
    found: Numbers = (values ^ (values >> 32)).astype(np.int32)
    return found


def _time_hash(at: Moments, kind: pa.DataType) -> Numbers:
    if pa.types.is_date(kind):
        return at.days
    if pa.types.is_time(kind):
        return at.of_day // 1000
    nanos = at.micros % 1000 * 1000 + (0 if at.nanos is None else at.nanos)
    with np.errstate(over="ignore"):
        found: Numbers = (31 * _folded(at.micros // 1000) + nanos.astype(np.int32)).astype(np.int32)
    return found


def _text_hash(call: Invocation, text: Datum) -> Datum:
    found = bytewise.java_hashes(text) if isinstance(text, pa.Array) else None
    if found is None:
        return map_rows(_hash_code, call.storage, text)
    return from_numpy(np.abs(found.view(np.int32)), pa.int32(), null_mask(text))


_SHA2: Final = {224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _sha2(value: str | bytes, bits: int) -> str:
    if bits not in _SHA2:
        raise ValueError(f"SHA2 has 224, 256, 384 or 512 bits, not {bits}")
    return str(_maker(_SHA2[bits])(value.encode() if isinstance(value, str) else value).hexdigest())


def sha2(call: Invocation, value: Datum, bits: Datum) -> Datum:
    """The hash of so many bits, in hexadecimal."""
    name = _SHA2.get(bits.as_py()) if isinstance(bits, pa.Scalar) else None
    return map_rows(_sha2, call.storage, value, bits) if name is None else _hashed(name, value)


_ENCODED: Final = tuple(quote_plus(bytes([byte]), safe="*-._").replace("~", "%7E").encode() for byte in range(256))


def _url_decode(text: str) -> str | None:
    parts = text.split("%")[1:]
    if not all(len(part) >= 2 and all(digit in "0123456789abcdefABCDEF" for digit in part[:2]) for part in parts):
        return None
    return unquote_plus(text, errors="replace")


def url_encode(_: Invocation, text: Datum) -> Datum:
    """A text in which all but letters, digits and a few signs are written as ``%`` and two digits a byte."""
    return on_arrays(lambda column: bytewise.replaced(column, _ENCODED))(text)


def url_decode(call: Invocation, text: Datum) -> Datum:
    """The text that was encoded; NULL where it is none."""
    is_encoded = pc.match_substring_regex(text, "[%+]")
    return map_rows(_url_decode, call.storage, text) if any_true(is_encoded) else text


_PROTOCOLS: Final = frozenset({"http", "https", "ftp", "file", "jar", "mailto"})


def _parse_url(url: str, part: str, key: str | None = None) -> str | None:
    try:
        split = urlsplit(url)
    except ValueError:
        return None
    if split.scheme not in _PROTOCOLS or (key is not None and part != "QUERY"):
        return None
    if key is not None:
        pairs = (part.partition("=") for part in split.query.split("&"))
        return next((value for name, _, value in pairs if name == key), None)
    return _URL_PARTS[part](split) if part in _URL_PARTS else None


_URL_PARTS: Final[dict[str, Callable[[Any], str | None]]] = {
    "HOST": lambda url: url.netloc.rpartition("@")[2].partition(":")[0],
    "PATH": lambda url: url.path,
    "QUERY": lambda url: url.query or None,
    "REF": lambda url: url.fragment or None,
    "PROTOCOL": lambda url: url.scheme,
    "FILE": lambda url: url.path + (f"?{url.query}" if url.query else ""),
    "AUTHORITY": lambda url: url.netloc or None,
    "USERINFO": lambda url: url.netloc.rpartition("@")[0] or None,
}

parse_url: Final = by_row(_parse_url)


def _inet_aton(text: str) -> int | None:
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    *heads, tail = map(int, parts)
    if any(head > 255 for head in heads) or tail >= 256 ** (4 - len(heads)):
        return None
    return int(sum(head << (24 - 8 * place) for place, head in enumerate(heads)) + tail)


def _inet_ntoa(number: int) -> str | None:
    if not 0 <= number < 1 << 32:
        return None
    return ".".join(str(byte) for byte in number.to_bytes(4))


inet_aton: Final = by_row(_inet_aton)
inet_ntoa: Final = by_row(_inet_ntoa)
