"""Handlers of strings and bytes."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.values.basic import BasicHandler, refused_by, stored_text

if TYPE_CHECKING:
    from headrace.common.values.checks import CheckSource
    from headrace.common.values.handler import Mask

_ASCII: Final = 128


class StringHandler(BasicHandler):
    """STRING: the characters of strings, whatever the ``__str__`` of a subclass makes of them."""

    __slots__ = ()
    value_class = str
    expected = "a str that UTF-8 can encode"

    def convert(self, value: Any) -> str:
        if isinstance(value, str):
            return str.__str__(value)
        raise ValueError(value)

    def unreadable(self, array: pa.Array) -> Mask | None:
        if _is_ascii(array):
            return None
        try:
            array.cast(pa.binary()).cast(self.storage)  # which looks at the bytes
        except pa.ArrowInvalid:
            return refused_by(bytes.decode, array.cast(pa.binary()))
        return None

    def stored_text(self, array: pa.Array) -> str:
        return stored_text(array)

    text_form = "a string"

    def parse_matching(self, text: str) -> str:
        return text

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        return texts.cast(self.storage)


class CharHandler(StringHandler):
    """CHAR: strings of one character."""

    __slots__ = ()
    expected = "a str of one character"
    class_tells = False
    text_pattern = re.compile("(?s:.)")
    text_form = "one character"

    def encode_exact(self, values: Sequence[Any]) -> pa.Array:
        array = super().encode_exact(values)
        if _lengths(array) - {1, None}:
            raise ValueError("not one character")
        return array

    def unreadable(self, array: pa.Array) -> Mask | None:
        if super().unreadable(array) is None and not _lengths(array) - {1, None}:
            return None
        return refused_by(_character, array.cast(pa.binary()))

    def add_check(self, source: CheckSource, value: str) -> str:
        first, character = source.bind(value)
        return f"type({first}) is str and len({character}) == 1"

    def cast_texts(self, texts: pa.Array) -> pa.Array:
        if pc.any(pc.not_equal(pc.utf8_length(texts), 1)).as_py():
            raise pa.ArrowInvalid("not one character")
        return super().cast_texts(texts)


def _is_ascii(array: pa.Array) -> bool:
    """Return whether all bytes are ASCII."""
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return True
    first, last = np.frombuffer(offsets, np.int32)[[array.offset, array.offset + len(array)]]
    return bool(first == last or np.frombuffer(data, np.uint8)[first:last].max() < _ASCII)


def _lengths(array: pa.Array) -> set[int | None]:
    """The smallest and the largest number of characters; None where there is no value."""
    return set(pc.min_max(pc.utf8_length(array)).as_py().values())


def _character(data: bytes) -> str:
    text = data.decode()
    if len(text) != 1:
        raise ValueError(text)
    return text


class BytesHandler(BasicHandler):
    """BYTES: anything made of bytes; in text they are Base64."""

    __slots__ = ()
    value_class = bytes
    expected = "bytes"

    def convert(self, value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise ValueError(value)

    text_form = "bytes in Base64"

    def parse_matching(self, text: str) -> bytes:
        return base64.b64decode(text, validate=True)
