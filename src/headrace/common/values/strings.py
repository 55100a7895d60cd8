"""Handlers of strings and bytes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.values.basic import BasicHandler

if TYPE_CHECKING:
    from headrace.common.values.checks import CheckSource


class StringHandler(BasicHandler):
    """STRING: the characters of strings, whatever the ``__str__`` of a subclass makes of them."""

    __slots__ = ()
    value_class = str
    expected = "a str that UTF-8 can encode"

    def convert(self, value: Any) -> str:
        if isinstance(value, str):
            return str.__str__(value)
        raise ValueError(value)

    def parse(self, text: str) -> str:
        return text


class CharHandler(StringHandler):
    """CHAR: strings of one character."""

    __slots__ = ()
    expected = "a str of one character"
    class_tells = False

    def encode_exact(self, values: Sequence[Any]) -> pa.Array:
        array = super().encode_exact(values)
        lengths = pc.min_max(pc.utf8_length(array)).as_py()
        if set(lengths.values()) - {1, None}:
            raise ValueError("not one character")
        return array

    def add_check(self, source: CheckSource, value: str) -> str:
        first, character = source.bind(value)
        return f"type({first}) is str and len({character}) == 1"


class BytesHandler(BasicHandler):
    """BYTES: anything made of bytes; in text they are Base64."""

    __slots__ = ()
    value_class = bytes
    expected = "bytes"
    json_as_string = True

    def convert(self, value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise ValueError(value)

    def parse(self, text: str) -> bytes:
        return base64.b64decode(text, validate=True)
