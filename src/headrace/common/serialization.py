"""How records become bytes and bytes become records, at the edge of a job."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.public_module import public_module
from headrace.common.type_variables import T_contra
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.values import handler_of

__all__ = ["ByteArraySchema", "DeserializationSchema", "Encoder", "SerializationSchema", "SimpleStringSchema"]

public_module(__name__)


class SerializationSchema(ABC):
    """Turns a record into the bytes of a message, for a sink.

    Examples:
        >>> from headrace.common import SerializationSchema
        >>> class Csv(SerializationSchema):
        ...     def serialize(self, element):
        ...         return ",".join(map(str, element)).encode()
        >>> Csv().serialize(("ann", 3))
        b'ann,3'
    """

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """The bytes of one record."""


class DeserializationSchema(ABC):
    """Turns the bytes of a message into a record, for a source.

    Examples:
        >>> from headrace.common import DeserializationSchema, Types
        >>> class Number(DeserializationSchema):
        ...     def deserialize(self, message):
        ...         return int(message)
        ...     def get_produced_type(self):
        ...         return Types.LONG()
        >>> Number().deserialize(b"42")
        42
    """

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """The record of one message, or ``None`` to leave it out."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""

    def is_end_of_stream(self, element: Any) -> bool:
        """Whether a record says that none will follow."""
        return False


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    r"""Strings as their characters' bytes.

    Raises:
        InvalidProgramError: when there is no such charset.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> SimpleStringSchema("UTF-8").serialize("grüß")
        b'gr\xc3\xbc\xc3\x9f'
        >>> SimpleStringSchema().deserialize(b"hello")
        'hello'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = _charset(charset)

    def serialize(self, element: Any) -> bytes:
        """The encoded string; anything but a ``str`` is an ``InvalidTypeError``."""
        if not isinstance(element, str):
            raise InvalidTypeError(f"SimpleStringSchema writes strings, got {element!r}: map(str) it first")
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        """The decoded string."""
        return message.decode(self._charset)

    def get_produced_type(self) -> TypeInformation:
        """``Types.STRING()``."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are.

    Examples:
        >>> from headrace.common import ByteArraySchema
        >>> ByteArraySchema().deserialize(b"hello")
        b'hello'
    """

    def serialize(self, element: Any) -> bytes:
        """The same bytes; anything else is an ``InvalidTypeError``."""
        if not isinstance(element, bytes | bytearray | memoryview):
            raise InvalidTypeError(f"ByteArraySchema writes bytes, got {element!r}: encode it first")
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """The same bytes."""
        return bytes(message)

    def get_produced_type(self) -> TypeInformation:
        """``Types.BYTES()``."""
        return Types.BYTES()


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which holds bytes already: the key of a Kafka message, say.

    Raises:
        InvalidProgramError: when ``field_index`` is negative.
    """

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise InvalidProgramError(f"the index of a field is not negative, got {field_index}")
        self._field_index = field_index

    def serialize(self, element: Any) -> bytes:
        """The field's bytes, none for a missing value or row; anything else is an ``InvalidTypeError``."""
        value = None if element is None else element[self._field_index]
        if value is None:
            return b""
        if not isinstance(value, bytes | bytearray):
            raise InvalidTypeError(f"field {self._field_index} has to hold bytes, got {value!r}: encode it first")
        return bytes(value)


class Encoder(Generic[T_contra]):
    r"""Writes a record into a file of the file sink.

    Args:
        encode: gives the bytes of one record, with whatever separates it from the next.

    Examples:
        >>> from headrace.common import Encoder
        >>> Encoder.simple_string_encoder().encode("tea")
        b'tea\n'
        >>> Encoder(lambda reading: f"{reading:.1f};".encode()).encode(2.5)
        b'2.5;'
    """

    __slots__ = ("_encode",)

    def __init__(self, encode: Callable[[T_contra], bytes]) -> None:
        self._encode = encode

    def encode(self, element: T_contra) -> bytes:
        """The bytes of one record."""
        return self._encode(element)

    def for_type(self, type_info: TypeInformation) -> Callable[[T_contra], bytes]:
        """What gives the bytes of one record of a type."""
        return self._encode

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder[object]:
        """Writes the record's text as Flink spells it, ``(a,1)`` for a tuple, and a line feed.

        Raises:
            InvalidProgramError: when there is no such charset.
        """
        return _StringEncoder(_charset(charset_name))


class _StringEncoder(Encoder[object]):
    """Writes records as lines of text."""

    __slots__ = ("_charset",)

    def __init__(self, charset: str) -> None:
        self._charset = charset

    def encode(self, element: Any) -> bytes:
        return self._line(str, element)

    def for_type(self, type_info: TypeInformation) -> Callable[[Any], bytes]:
        return partial(self._line, handler_of(type_info).text)

    def _line(self, text: Callable[[Any], str], element: Any) -> bytes:
        return f"{text(element)}\n".encode(self._charset)


def _charset(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError as error:
        raise InvalidProgramError(f"there is no charset {name!r}: use UTF-8, say") from error
