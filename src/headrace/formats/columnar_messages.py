"""Messages of a fetch as columns, whatever their format: finding those that cannot be read."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, ConfigurationError, InvalidTypeError
from headrace.common.serialization import DeserializationSchema, DeserializedBatch
from headrace.formats.bad_records import reason_alone, refuse_unreadable, shorten, without_unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation


class ColumnarDeserializationSchema(DeserializationSchema):
    """A schema that reads messages together, each one record. Messages without a value are left out, as in Flink."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation: ...

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

    As long as there is a bad one, what is read is halved: so few bad ones cost a few more looks, and many the time that
    it takes to read each alone.

    Args:
        decode: gives a record for each message, or raises ``ValueError`` when one is bad; what it raises for a single
            one tells why.
        messages: binary values; null ones give no record.
    """
    present = np.flatnonzero(messages.is_valid().to_numpy(zero_copy_only=False)) if messages.null_count else None
    messages = messages.drop_null()
    try:
        return DeserializedBatch(decode(messages), messages=present)
    except ConfigurationError:
        raise  # no message is to blame
    except ValueError:
        good, parts, rejected = _halved(decode, messages)
    indices = np.flatnonzero(good)
    if present is not None:
        rejected = [(int(present[index]), reason) for index, reason in rejected]
        indices = present[indices]
    columns = pa.concat_batches(parts) if parts else decode(messages.slice(0, 0))
    return DeserializedBatch(columns, messages=indices, rejected=rejected)


def _halved(
    decode: Callable[[pa.Array], pa.RecordBatch], messages: pa.Array
) -> tuple[npt.NDArray[np.bool_], list[pa.RecordBatch], list[tuple[int, str]]]:
    """Which messages are good, their records, and the others with the reasons."""
    good = np.ones(len(messages), np.bool_)
    parts: list[pa.RecordBatch] = []
    rejected: list[tuple[int, str]] = []
    ranges = _halves(0, len(messages))
    while ranges:
        start, stop = ranges.pop()
        try:
            parts.append(decode(messages.slice(start, stop - start)))
        except ValueError as error:
            if stop - start > 1:
                ranges += _halves(start, stop)
                continue
            good[start] = False
            rejected.append((start, reason_alone(error)))
    return good, parts, rejected


def _halves(start: int, stop: int) -> list[tuple[int, int]]:
    """Two ranges of one, the first one last; a single message is not halved."""
    middle = (start + stop) // 2
    return [(middle, stop), (start, middle)] if middle > start else [(start, stop)]
