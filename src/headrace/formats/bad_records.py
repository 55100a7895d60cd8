"""Records that cannot be read, whatever their format: finding them among many, and reporting them."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.arrays import valid_mask
from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import BadRecordError, ConfigurationError, CorruptFileError, InvalidTypeError
from headrace.common.serialization import DeserializationSchema, DeserializedBatch, SerializationSchema, reason_of
from headrace.common.type_variables import T
from headrace.common.typeinfo import TypeInformation

_SHOWN: Final = 200
"""Characters of a bad value that a reason shows."""

IN_SQL: Final = "; in SQL, set the format's option ignore-parse-errors to true"
"""Advice in SQL, where there are no methods of builders."""


class BadValueError(ValueError):
    """A value of a record does not fit its field. Its text is the reason: which field, which value, what was expected.

    Args:
        value: the value, as the format spells it.
        expected: what it should be, as ``a whole number from 0 to 9``.
        path: the field; within nested records, lists and maps ``order.items[2].price``.
    """

    def __init__(self, value: str, expected: str, path: str = "") -> None:
        super().__init__(value, expected, path)
        self.value = value
        self.expected = expected
        self.path = path

    def inside(self, segment: str) -> "BadValueError":
        """The same, seen from the record, or the list, in which the value is.

        Args:
            segment: the name of the field, or the place in brackets.
        """
        separator = "." if self.path and not self.path.startswith("[") else ""
        return BadValueError(self.value, self.expected, f"{segment}{separator}{self.path}")

    def __str__(self) -> str:
        shown = self.value if len(self.value) <= _SHOWN else f"{self.value[:_SHOWN]}..."
        text = f"{f'field {self.path!r}: ' if self.path else ''}{shown} is not {self.expected}"
        return text.encode("utf-8", errors="backslashreplace").decode()  # there may be lone surrogates in it


@dataclass(frozen=True, slots=True)
class BadRecords:
    """The policy for records that cannot be read: they are dead letters, or the first one is an error.

    Attributes:
        reject: whether there is an output for dead letters.
        what: what a record is called.
        way_out: what to do to go on without such records, as a command.
    """

    reject: bool
    what: str
    way_out: str

    def letter(self, where: str, raw: bytes, reason: str, hint: str = "") -> tuple[str, str, str]:
        """Make the dead letter of one record: where it is, what it is, and why it cannot be read.

        Raises:
            BadRecordError: where there is no output for it, with the hint as well.
        """
        if not self.reject:
            raise BadRecordError(
                f"{where}: {reason}; the {self.what} is {shorten(raw)!r}{hint}. To go on without such {self.what}s, "
                f"{self.way_out}"
            )
        return where, shorten(raw), reason


def refuse_unreadable(columns: pa.RecordBatch, kind: TypeInformation) -> None:
    """Refuse records of which no values can be made, as what was read says more than Python can hold.

    Raises:
        ValueError: for the first of them.
    """
    if found := unreadable(columns, kind):
        raise ValueError(found[0][1])


def unreadable(columns: pa.RecordBatch, kind: TypeInformation) -> list[tuple[int, str]]:
    """The records, by rising index, of which no values can be made, with the reasons."""
    found = layout_of(kind).unreadable(columns)
    return [(index, reason.removeprefix(", ").removeprefix(": ")) for index, reason in found] if found else []


def without_unreadable(read: DeserializedBatch, kind: TypeInformation) -> DeserializedBatch:
    """Leave out messages of which a record is unreadable: these are bad ones."""
    found = [] if read.columns is None else unreadable(read.columns, kind)
    if read.columns is None or not found:
        return read
    messages = np.arange(len(read), dtype=np.int64) if read.messages is None else read.messages
    bad = {int(messages[index]): reason for index, reason in reversed(found)}
    good = np.isin(messages, list(bad), invert=True)
    rejected = sorted([*read.rejected, *bad.items()])
    return DeserializedBatch(read.columns.filter(pa.array(good)), messages=messages[good], rejected=rejected)


def reason_alone(error: ValueError) -> str:
    """The reason why a single row cannot be read, without the row number that Arrow counts."""
    return reason_of(error).removesuffix(" in row 0")


def inside_field(name: str, reason: str) -> str:
    """A reason, seen from the record that has the field which it is about: ``field 'order.price': ...``."""
    inner = reason.removeprefix("field '")
    return f"field {name!r}: {reason}" if inner == reason else f"field '{name}.{inner}"


def shorten(data: bytes, limit: int = 1000) -> str:
    """Raw bytes as text for a message; what is not UTF-8 is shown as escapes."""
    text = data[:limit].rstrip(b"\r\n").decode("utf-8", errors="backslashreplace")
    return text + "…" if len(data) > limit else text


class ColumnarDeserializationSchema(DeserializationSchema):
    """A schema that reads messages together, each one record. Messages without a value are left out, as in Flink.

    Args:
        type_info: the type of the records.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.
    """

    def __init__(self, type_info: TypeInformation, *, ignore_parse_errors: bool = False) -> None:
        self._type = type_info
        self.ignore_parse_errors = ignore_parse_errors

    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
        return self._type

    @abstractmethod
    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        """One record for each message, under the schema of the produced type.

        Args:
            messages: binary values; none is null, but there may be none at all.

        Raises:
            ValueError: when a message cannot be read; for one that is alone, why.
        """

    def deserialize_batch(self, messages: pa.Array) -> DeserializedBatch:
        return without_unreadable(decode_good_messages(self.decode, messages), self.get_produced_type())

    def deserialize(self, message: bytes) -> Any:
        """The record of one message.

        Raises:
            BadRecordError: when the message cannot be read, unless such messages are left out.
        """
        kind = self.get_produced_type()
        try:
            columns = self.decode(pa.array([message], pa.binary()))
            refuse_unreadable(columns, kind)
            return layout_of(kind).columns_to_rows(columns)[0]
        except ConfigurationError:
            raise
        except ValueError as error:
            if self.ignore_parse_errors:
                return None
            raise BadRecordError(
                f"the message {shorten(message)!r} cannot be read as {kind}: {reason_alone(error)}"
            ) from error


class ColumnarSerializationSchema(SerializationSchema):
    """A schema that writes records together, each as one message.

    Args:
        type_info: the type of the records that are written; others are taken by the position of their fields.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type = type_info

    @abstractmethod
    def serialize_batch(self, batch: Batch) -> pa.Array: ...

    def serialize(self, element: Any) -> bytes:
        """The message of one record; an ``InvalidTypeError`` where it does not fit the type."""
        batch = Batch.of_rows(self._type, [element], [NO_TIMESTAMP], [MIN_WATERMARK])
        written: bytes = self.serialize_batch(batch)[0].as_py()
        return written

    def validate(self, input_type: TypeInformation) -> None:
        refuse_other_fields(self._type, input_type)

    def columns_of(self, batch: Batch) -> pa.RecordBatch:
        """The columns of records under the type that is written."""
        if batch.type.arrow_type is None:
            return layout_of(self._type).rows_to_columns(batch.rows)
        return columns_as(batch, self._type)


def columns_as(batch: Batch, kind: TypeInformation) -> pa.RecordBatch:
    """The columns of records under another type; as :func:`columns_under`."""
    return columns_under(batch.columns, kind)


def columns_under(columns: pa.RecordBatch, kind: TypeInformation) -> pa.RecordBatch:
    """Columns under a type of as many fields, by position.

    Raises:
        InvalidTypeError: when a column cannot be read as that type.
    """
    schema = layout_of(kind).schema
    if columns.schema == schema:
        return columns
    renamed = pa.RecordBatch.from_arrays(columns.columns[: len(schema)], names=schema.names)
    return pa.RecordBatch.from_arrays(layout_of(kind).arrays(renamed), schema=schema)


def refuse_other_fields(kind: TypeInformation, input_type: TypeInformation) -> None:
    """Refuse records that have not as many fields as messages of a type.

    Raises:
        InvalidTypeError: naming both types.
    """
    if input_type.arrow_type is None:
        return
    if len(layout_of(kind).schema) == len(layout_of(input_type).schema):
        return
    if layout_of(input_type).has_kind_column:
        raise InvalidTypeError(
            f"records of {input_type} say what rows do in a changelog, for which there is no field here: take the "
            "insertions alone, or make a field of what row.get_row_kind() says, with map(...)"
        )
    raise InvalidTypeError(f"what is written is to have the fields of {kind}, but records are {input_type}")


def decode_good_messages(decode: Callable[[pa.Array], pa.RecordBatch], messages: pa.Array) -> DeserializedBatch:
    """The records of those messages that can be read.

    Args:
        decode: gives a record for each message, or raises ``ValueError`` when one is bad; what it raises for a single
            one says why.
        messages: binary values; null ones give no record.
    """
    present = np.flatnonzero(valid_mask(messages)) if messages.null_count else None
    messages = messages.drop_null()
    read = good_records(lambda start, stop: decode(messages.slice(start, stop - start)), len(messages))
    if present is None:
        return read
    rejected = [(int(present[index]), reason) for index, reason in read.rejected]
    sources = present if read.messages is None else present[read.messages]
    return DeserializedBatch(read.columns, messages=sources, rejected=rejected)


def good_records(read: Callable[[int, int], pa.RecordBatch], count: int) -> DeserializedBatch:
    """Read those of some records that can be read, in columns.

    Args:
        read: gives the records of a range, or raises ``ValueError`` when one is bad; what it raises for a single one
            says why.
        count: how many records there are.
    """
    try:
        return DeserializedBatch(read(0, count))
    except (ConfigurationError, CorruptFileError):
        raise  # no record is to blame
    except ValueError:
        good, rejected = readable_parts(read, count)
    places = np.delete(np.arange(count), [index for index, _ in rejected])
    columns = pa.concat_batches(good) if good else read(0, 0)
    return DeserializedBatch(columns, messages=places, rejected=rejected)


def readable_parts(read: Callable[[int, int], T], count: int) -> tuple[list[T], list[tuple[int, str]]]:
    """Read what can be read of records of which some are bad, and tell which are.

    As long as there is a bad one, what is read is halved: so few bad ones cost a few more looks, and many the time that
    it takes to read each alone.

    Args:
        read: reads the records of a range, or raises ``ValueError`` when one is bad; what it raises for a single one
            says why. It has failed on all of them.
        count: how many records there are.

    Returns:
        What was read, in order, and by rising index the records that are bad, with the reasons.
    """
    good: list[T] = []
    rejected: list[tuple[int, str]] = []
    ranges = _halves(0, count)
    while ranges:
        start, stop = ranges.pop()
        try:
            good.append(read(start, stop))
        except CorruptFileError:
            raise  # no record is to blame
        except ValueError as error:
            if stop - start > 1:
                ranges += _halves(start, stop)
            else:
                rejected.append((start, reason_alone(error)))
    return good, rejected


def _halves(start: int, stop: int) -> list[tuple[int, int]]:
    """Two ranges of one, the first one last; a single record is not halved."""
    middle = (start + stop) // 2
    return [(middle, stop), (start, middle)] if middle > start else [(start, stop)]
