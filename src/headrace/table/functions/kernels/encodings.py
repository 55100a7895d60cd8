"""Text as bytes and back: charsets, hexadecimal, base 64, hashes, URLs and addresses."""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote_plus, unquote_plus, urlsplit

from headrace.table.functions.kernels.kernel import Kernel, by_row

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
    if found is None:
        raise ValueError(f"there is no charset {name!r}: the charsets are {', '.join(_CHARSETS)}")
    return found


def _encode(text: str, charset: str) -> bytes:
    if _charset(charset) == "utf-16":
        return (_BIG_ENDIAN_MARK + text.encode("utf-16-be")) if text else b""
    return text.encode(_charset(charset), "replace")


def _decode(data: bytes, charset: str) -> str:
    name = _charset(charset)
    if name == "utf-16" and data[:2] not in (_BIG_ENDIAN_MARK, _BIG_ENDIAN_MARK[::-1]):
        name = "utf-16-be"
    return data.decode(name, "replace")


encode: Final = by_row(_encode)
decode: Final = by_row(_decode)


def _hex(value: int | str | bytes) -> str:
    if isinstance(value, int):
        return f"{value & 0xFFFF_FFFF_FFFF_FFFF:X}"
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _unhex(text: str | bytes) -> bytes | None:
    """Bytes of hexadecimal digits; of an odd number of digits the first one counts as 0."""
    digits = text if isinstance(text, str) else text.decode("latin-1")
    if not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return None
    return bytes.fromhex("00" + digits[1:] if len(digits) % 2 else digits)


hex_: Final = by_row(_hex)
unhex: Final = by_row(_unhex)
bin_: Final = by_row(lambda value: f"{value & 0xFFFF_FFFF_FFFF_FFFF:b}")


def _from_base64(text: str | bytes) -> str:
    try:
        padding = "=" * (-len(text) % 4) if isinstance(text, str) else b"=" * (-len(text) % 4)
        return b64decode(text + padding, validate=True).decode("utf-8", "replace")  # type: ignore[operator]
    except ValueError:
        raise ValueError(f"{text!r} is not base 64") from None


to_base64: Final = by_row(lambda value: b64encode(value.encode() if isinstance(value, str) else value).decode())
from_base64: Final = by_row(_from_base64)


def hashed(name: str) -> Kernel:
    """A kernel of a hash function, in hexadecimal."""
    make: Callable[..., Any] = getattr(hashlib, name)
    return by_row(lambda value: make(value.encode() if isinstance(value, str) else value).hexdigest())


def _hash_code(text: str) -> int:
    """``hashCode()`` of Java's text, whose letters are units of UTF-16, without its sign."""
    units = text.encode("utf-16-le")
    found = 0
    for place in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[place : place + 2], "little")) & 0xFFFF_FFFF
    return found if found < 1 << 31 else max((1 << 32) - found, -(1 << 31)) if found > 1 << 31 else -(1 << 31)


hash_code: Final = by_row(_hash_code)

_SHA2: Final = {224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}


def _sha2(value: str | bytes, bits: int) -> str:
    make = _SHA2.get(bits)
    if make is None:
        raise ValueError(f"SHA2 has 224, 256, 384 or 512 bits, not {bits}")
    return make(value.encode() if isinstance(value, str) else value).hexdigest()


sha2: Final = by_row(_sha2)


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*-._").replace("~", "%7E")


def _url_decode(text: str) -> str | None:
    parts = text.split("%")[1:]
    if not all(len(part) >= 2 and all(digit in "0123456789abcdefABCDEF" for digit in part[:2]) for part in parts):
        return None
    return unquote_plus(text, errors="replace")


url_encode: Final = by_row(_url_encode)
url_decode: Final = by_row(_url_decode)

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
