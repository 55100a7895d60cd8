"""Serialization and deserialization of records at the edge of a job.

Schemas are about messages: one value of a broker or a log each. Users write a method for one message; sources and sinks
call the one for many (:meth:`DeserializationSchema.deserialize_batch`, :meth:`SerializationSchema.serialize_batch`),
which formats that come with headrace override, so that a whole fetch becomes columns without a loop in Python.
"""

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.public_module import public_module
from headrace.common.type_variables import T_contra
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.values import handler_of

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "DeserializedBatch",
    "Encoder",
    "SerializationSchema",
    "SimpleStringSchema",
]


@dataclass(frozen=True, slots=True)
class DeserializedBatch:
    r"""Records that a schema made of some messages: rows or columns of the produced type, not both.

    Attributes:
        columns: the records under the schema of the produced type.
        rows: the records as Python objects.
        messages: for each record, the index of the message that it comes from (int64, never falling); None where record
            ``i`` comes from message ``i``, for all of them.
        rejected: the messages that cannot be read, as ``(index, reason)``, by rising index; they gave no record.

    Examples:
        >>> import pyarrow as pa
        >>> from headrace.common import SimpleStringSchema
        >>> read = SimpleStringSchema().deserialize_batch(pa.array([b"tea", b"\xff", b"cake"]))
        >>> read.columns["value"].to_pylist(), read.messages.tolist(), read.rejected
        (['tea', 'cake'], [0, 2], [(1, 'not utf-8: byte 0xff at position 0, invalid start byte')])
    """

    columns: pa.RecordBatch | None = None
    rows: list[Any] | None = None
    messages: npt.NDArray[np.int64] | None = None
    rejected: Sequence[tuple[int, str]] = ()

    def __len__(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        return 0 if self.columns is None else int(self.columns.num_rows)


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """The outcome of comparing a schema of a job with that of a registry.

    Attributes:
        subject: the subject in the registry.
        problems: why it does not fit; empty if it does.
        is_new: whether the subject has no schema yet.
    """

    subject: str
    problems: tuple[str, ...] = ()
    is_new: bool = False


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

    takes_changes: ClassVar[bool] = False
    """True where its output shows the kinds of rows in a changelog; else rows that are no insertions are refused."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes | None:
        """The bytes of one record, or ``None`` for a message without a value: a tombstone of a compacted topic."""

    def serialize_batch(self, batch: Batch) -> pa.Array:
        """The bytes of many records, one binary value each, null for a message without a value.

        Raises:
            InvalidTypeError: when a record has no such form.
        """
        return pa.array([self.serialize(row) for row in batch.rows], pa.binary())

    def validate(self, input_type: TypeInformation) -> None:
        """Refuse a record type, when the job is planned.

        Raises:
            InvalidTypeError: naming the type and what would fit.
        """

    def check_schemas(self, subjects: Sequence[str]) -> Iterator[SchemaCheck]:
        """Compares its schema with the newest ones of a registry, if it uses one.

        Args:
            subjects: where the schemas are, if it has no subject of its own.

        Raises:
            InfrastructureError: when the registry does not answer.
        """
        return iter(())


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

    ignore_parse_errors: bool = False
    """True where messages that cannot be read are left out and counted, in ``numRecordsInErrors``; else they go to the
    dead letters of the source, or fail the job where it has none."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """The record of one message, or ``None`` to leave it out.

        Raises:
            ValueError: when the message cannot be read. Whatever else is raised fails the job, as a mistake of the
                schema would otherwise put every message aside.
        """

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        """The records of many messages, binary values of which some may be null.

        Unless it is overridden, :meth:`deserialize` is called for each; messages without a value are left out.
        """
        rows, sources = [], []
        rejected: list[tuple[int, str]] = []
        for index, message in enumerate(messages.to_pylist()):
            try:
                row = None if message is None else self.deserialize(message)
            except ValueError as error:
                rejected.append((index, reason_of(error)))
                continue
            if row is not None:
                rows.append(row)
                sources.append(index)
        return DeserializedBatch(rows=rows, messages=np.array(sources, np.int64), rejected=rejected)

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""

    def is_end_of_stream(self, element: Any) -> bool:
        """Return whether a record says that none will follow.

        It is never called, as with Flink's KafkaSource: a source ends where its builder says, by ``set_bounded``. A
        source warns of a schema that overrides this.
        """
        return False

    def check_schemas(self, subjects: Sequence[str]) -> Iterator[SchemaCheck]:
        """Compares its schema with the newest ones of a registry, if it uses one.

        Args:
            subjects: where the schemas are, if it has no subject of its own.

        Raises:
            InfrastructureError: when the registry does not answer.
        """
        return iter(())


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

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        """The decoded strings; a message without a value is ``None``."""
        if self._charset == "utf-8":
            try:
                return DeserializedBatch(_one_column(Types.STRING(), messages.cast(pa.string())))
            except pa.ArrowInvalid:  # some are no UTF-8, which ones is told below
                pass
        texts: list[str | None] = []
        sources: list[int] = []
        rejected: list[tuple[int, str]] = []
        for index, message in enumerate(messages.to_pylist()):
            try:
                texts.append(None if message is None else self.deserialize(message))
                sources.append(index)
            except UnicodeDecodeError as error:
                rejected.append((index, reason_of(error)))
        columns = _one_column(Types.STRING(), pa.array(texts, pa.string()))
        return DeserializedBatch(columns, messages=np.array(sources, np.int64), rejected=rejected)

    def serialize_batch(self, batch: Batch) -> pa.Array:
        if self._charset != "utf-8" or batch.type != Types.STRING() or not batch.is_columnar:
            return super().serialize_batch(batch)
        texts = batch.columns.column(0)
        return super().serialize_batch(batch) if texts.null_count else texts.cast(pa.binary())


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are.

    Examples:
        >>> from headrace.common import ByteArraySchema
        >>> ByteArraySchema().deserialize(b"hello")
        b'hello'
    """

    def serialize(self, element: Any) -> bytes | None:
        """Return the same bytes, ``None`` for a message without a value; anything else is an ``InvalidTypeError``."""
        if element is None:
            return None
        if not isinstance(element, bytes | bytearray | memoryview):
            raise InvalidTypeError(f"ByteArraySchema writes bytes, got {element!r}: encode it first")
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """Return the same bytes."""
        return bytes(message)

    def get_produced_type(self) -> TypeInformation:
        """``Types.BYTES()``."""
        return Types.BYTES()

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        """Return the same bytes; a message without a value is ``None``."""
        return DeserializedBatch(_one_column(Types.BYTES(), messages.cast(pa.binary())))

    def serialize_batch(self, batch: Batch) -> pa.Array:
        if batch.type != Types.BYTES():
            return super().serialize_batch(batch)
        return batch.columns.column(0)


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
        """Return what gives the bytes of one record of a type."""
        return self._encode

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> "Encoder[object]":
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

    def _line(self, text: Callable[[Any], str], element: object) -> bytes:
        return f"{text(element)}\n".encode(self._charset)


def reason_of(error: Exception) -> str:
    """The reason why something cannot be read, for the dead letters."""
    if isinstance(error, UnicodeDecodeError):
        return f"not {error.encoding}: byte {error.object[error.start]:#04x} at position {error.start}, {error.reason}"
    return str(error) or type(error).__name__


def _one_column(kind: TypeInformation, column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column], schema=layout_of(kind).schema)


def _charset(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError as error:
        raise InvalidProgramError(f"there is no charset {name!r}: use UTF-8, say") from error


public_module(__name__)
