"""Messages of brokers and logs as records: their values and keys by schemas, and what is known about them as fields.

A source of messages hands over what it fetched column by column (:class:`Messages`). A
:class:`MessageDeserializationSchema` says what records are made of it; a :class:`MessageDecoder` makes them, in the
task, and deals with the messages that cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.common.call_site import warn_caller
from headrace.common.columns import layout_of
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError
from headrace.common.messages import chosen_metadata, columns_of, fields_of, row_type
from headrace.common.serialization import DeserializationSchema, DeserializedBatch
from headrace.common.typeinfo import Types
from headrace.common.typeinfo.composite import declares_changes
from headrace.connectors.source import SourceRecords
from headrace.formats.bad_records import BadRecords, without_unreadable
from headrace.metrics.own_names import RECORDS_IN_ERRORS

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation


METADATA: Final[Mapping[str, TypeInformation]] = {
    "topic": Types.STRING(),
    "partition": Types.INT(),
    "offset": Types.LONG(),
    "timestamp": Types.TIMESTAMP_LTZ(),
    "timestamp-type": Types.STRING(),
    "headers": Types.MAP(Types.STRING(), Types.BYTES()),
    "leader-epoch": Types.INT(),
}
"""The metadata of a message, by the names of Flink's SQL, and their types."""

_KEY_COLUMN: Final = "key"
_NO_RECORD: Final = -1
_MOST_MILLIS: Final = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class Messages:
    """Consecutive messages of one partition, column by column.

    Attributes:
        topic: the topic.
        partition: which partition of the topic.
        offsets: the place of each in the partition; they rise, perhaps with gaps.
        values: binary values; null for a message without one, a tombstone.
        keys: binary values, null for a message without a key; None where nobody asks for them.
        timestamps: in milliseconds, ``NO_TIMESTAMP`` where there is none; None where none has one.
        metadata: the arrays of further :data:`METADATA` that somebody asks for, under the storage types that their
            types have; what the other attributes say need not be there.
        place: what people are told before the name of the topic: which of several clusters, say.
    """

    topic: str
    partition: int
    offsets: npt.NDArray[np.int64]
    values: pa.Array
    keys: pa.Array | None = None
    timestamps: npt.NDArray[np.int64] | None = None
    metadata: Mapping[str, pa.Array] = field(default_factory=dict)
    place: str = ""

    def metadata_column(self, name: str) -> pa.Array:
        """The values of one of :data:`METADATA`, null where nothing is known."""
        count, storage = len(self.offsets), METADATA[name].storage_type
        match name:
            case "topic":
                return pa.repeat(pa.scalar(self.topic, storage), count)
            case "partition":
                return pa.repeat(pa.scalar(self.partition, storage), count)
            case "offset":
                return pa.array(self.offsets, storage)
            case "timestamp" if self.timestamps is not None:
                unknown = self.timestamps == NO_TIMESTAMP
                held = np.clip(self.timestamps, -_MOST_MILLIS, _MOST_MILLIS)  # beyond, it is unreadable all the same
                return pa.array(held * 1000, pa.int64(), mask=unknown).view(storage)
        return self.metadata.get(name, pa.nulls(count, storage))

    def where(self, index: int) -> str:
        """The place of a message, for people."""
        return f"{self.place}{self.topic}-{self.partition}@{self.offsets[index]}"


class MessageDeserializationSchema:
    """Makes records of messages: of their values alone, or of keys and metadata as well.

    Of values alone, records are what their schema gives. Else they are rows: first the fields of the key, then those of
    the value, and then metadata, as in Flink's SQL. A key or value without fields is a field called ``key`` or
    ``value``. A message without a key has nulls for it.

    Args:
        value: reads the values.
        key: reads the keys, each as one record.
        key_fields_prefix: begins the names of the key's fields, so that they differ from those of the value.
        metadata: names of metadata, or fields by name and the metadata that each holds: ``topic``, ``partition``,
            ``offset``, ``timestamp``, ``timestamp-type``, ``headers`` (the last one of each name) and ``leader-epoch``.

    Raises:
        InvalidProgramError: when there is no such metadata, or two fields have one name.

    Examples:
        >>> from headrace.common import JsonRowDeserializationSchema, SimpleStringSchema, Types
        >>> from headrace.datastream.connectors.base import MessageDeserializationSchema
        >>> values = JsonRowDeserializationSchema(Types.ROW_NAMED(["amount"], [float]))
        >>> schema = MessageDeserializationSchema(values, key=SimpleStringSchema(), metadata={"at": "offset"})
        >>> schema.produced_type
        RowTypeInfo(key: String, amount: Double, at: Long)
    """

    def __init__(
        self,
        value: DeserializationSchema,
        key: DeserializationSchema | None = None,
        *,
        key_fields_prefix: str = "",
        metadata: Mapping[str, str] | Sequence[str] = (),
    ) -> None:
        for schema in (value, key):
            if schema is not None:
                _warn_of_end(schema)
        self.value = value
        self.key = key
        self.metadata = chosen_metadata(metadata, METADATA, "messages")
        self.produced_type = self._type(key_fields_prefix)

    def _type(self, prefix: str) -> TypeInformation:
        kind = self.value.get_produced_type()
        if self.is_value_only:
            return kind
        fields = [(prefix + name, of) for name, of in self._key_fields()] + fields_of(kind)
        fields += [(name, METADATA[known]) for name, known in self.metadata.items()]
        return row_type(
            fields, "give key_fields_prefix, or metadata={'another name': ...}", changelog=declares_changes(kind)
        )

    def _key_fields(self) -> list[tuple[str, TypeInformation]]:
        return [] if self.key is None else fields_of(self.key.get_produced_type(), _KEY_COLUMN)

    @property
    def is_value_only(self) -> bool:
        """Tell whether records are made of values alone."""
        return self.key is None and not self.metadata


def _warn_of_end(schema: DeserializationSchema) -> None:
    if type(schema).is_end_of_stream is not DeserializationSchema.is_end_of_stream:
        warn_caller(
            f"{type(schema).__name__}.is_end_of_stream() is not asked, as with Flink's KafkaSource: say where the "
            "source ends with set_bounded() on its builder, or filter() what comes behind"
        )


class MessageDecoder:
    """Makes records of messages, in a task.

    Args:
        schema: what they are made of.
        reject: whether there is an output for dead letters.
    """

    def __init__(self, schema: MessageDeserializationSchema, *, reject: bool) -> None:
        self._schema = schema
        self._bad_messages = BadRecords(
            reject,
            "message",
            "call set_dead_letter() on the builder of the source, or ignore_parse_errors() on that of the schema",
        )

    def decode(self, messages: Messages) -> SourceRecords:
        """The records of some messages, with the timestamps of these.

        Raises:
            BadRecordError: on a message that cannot be read, naming topic, partition and offset, when its schema does
                not leave such messages out and there is no dead-letter output.
        """
        schema = self._schema
        values = without_unreadable(schema.value.deserialize_batch(messages.values), schema.value.get_produced_type())
        keys = None if schema.key is None else _Keys(schema.key, messages)
        if not schema.is_value_only:
            values = without_unreadable(self._combined(messages, values, keys), schema.produced_type)
        rejected, skipped = self._bad(messages, values, keys)
        columns, rows, sources = values.columns, values.rows, values.messages
        timestamps = messages.timestamps
        return SourceRecords(
            columns=columns,
            rows=rows,
            timestamps=timestamps if timestamps is None or sources is None else timestamps[sources],
            rejected=rejected,
            counters={RECORDS_IN_ERRORS: skipped} if skipped else {},
        )

    def _bad(
        self, messages: Messages, values: DeserializedBatch, keys: _Keys | None
    ) -> tuple[list[tuple[str, str, str]], int]:
        """The dead letters, and the number of messages that are left out and counted."""
        bad = {} if keys is None else {index: (f"the key: {reason}", keys.schema) for index, reason in keys.rejected}
        bad |= {index: (reason, self._schema.value) for index, reason in values.rejected}
        told = [(i, reason) for i, (reason, schema) in sorted(bad.items()) if not schema.ignore_parse_errors]
        letters = [
            self._bad_messages.letter(messages.where(index), messages.values[index].as_py() or b"", reason)
            for index, reason in told
        ]
        return letters, len(bad) - len(told)

    def _combined(self, messages: Messages, values: DeserializedBatch, keys: _Keys | None) -> DeserializedBatch:
        """Keys, values and metadata side by side; where the key is bad there is no record."""
        schema = self._schema
        kind = schema.value.get_produced_type()
        sources = np.arange(len(messages.offsets)) if values.messages is None else values.messages
        arrays = columns_of(values.columns, values.rows, kind)
        if keys is not None and keys.rejected:
            good = np.isin(sources, [index for index, _ in keys.rejected], invert=True)
            sources, arrays = sources[good], [array.filter(pa.array(good)) for array in arrays]
        taken = pa.array(sources)
        of_keys = [] if keys is None else keys.arrays(sources)
        known = [messages.metadata_column(name).take(taken) for name in schema.metadata.values()]
        count = len(fields_of(kind))
        everything = [*of_keys, *arrays[:count], *known, *arrays[count:]]  # kinds, where there are any, come last
        columns = pa.RecordBatch.from_arrays(everything, schema=layout_of(schema.produced_type).schema)
        return DeserializedBatch(columns, messages=sources, rejected=values.rejected)


class _Keys:
    """The keys of some messages.

    Args:
        schema: reads them.
        messages: the messages.

    Raises:
        InvalidProgramError: when the source did not fetch keys, or the schema makes several records of one.
    """

    def __init__(self, schema: DeserializationSchema, messages: Messages) -> None:
        count = len(messages.offsets)
        keys = pa.nulls(count, pa.binary()) if messages.keys is None else messages.keys
        self.schema = schema
        self._read = without_unreadable(schema.deserialize_batch(keys), schema.get_produced_type())
        self.rejected = self._read.rejected
        self._places = np.full(count, _NO_RECORD, np.int64)
        sources = np.arange(count) if self._read.messages is None else self._read.messages
        self._places[sources] = np.arange(len(sources))
        if np.count_nonzero(self._places != _NO_RECORD) != len(self._read):
            raise InvalidProgramError(f"{type(schema).__name__} makes several records of one key: use another schema")

    def arrays(self, messages: npt.NDArray[np.int64]) -> list[pa.Array]:
        """The columns of the keys of some of the messages, null where there is none."""
        places = self._places[messages]
        taken = pa.array(places, mask=places == _NO_RECORD)
        columns = columns_of(self._read.columns, self._read.rows, self.schema.get_produced_type())
        return [array.take(taken) for array in columns]
