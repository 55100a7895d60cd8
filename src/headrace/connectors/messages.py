"""Messages of brokers and logs as records, and records as messages: values and keys by schemas, and metadata.

A source of messages hands over what it fetched column by column (:class:`Messages`). A
:class:`MessageDeserializationSchema` says what records are made of it; a :class:`MessageDecoder` makes them, in the
task, and deals with the messages that cannot be read. A :class:`MessageSerializationSchema` makes
:class:`OutgoingMessages` of records, for sinks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.call_site import warn_caller
from headrace.common.columns import layout_of
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, InvalidTypeError, expect, refused
from headrace.common.messages import checked_headers, chosen_metadata, columns_of, fields_of, headers_to_array, row_type
from headrace.common.other_names import alike
from headrace.common.serialization import DeserializationSchema, DeserializedBatch, SchemaCheck, SerializationSchema
from headrace.common.typeinfo import CompositeTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.composite import declares_changes
from headrace.connectors.sink import Reject, encode_or_reject
from headrace.connectors.source import SourceRecords
from headrace.formats.bad_records import IN_SQL, BadRecords, without_unreadable
from headrace.metrics.registry import RECORDS_IN_ERRORS

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
        keys: binary values, null for a message without a key; None if they are not requested.
        timestamps: in milliseconds, ``NO_TIMESTAMP`` where there is none; None where none has one.
        metadata: the arrays of further :data:`METADATA` that are requested, under the storage types that their
            types have; what the other attributes say need not be there.
        place: what messages to users say before the name of the topic: which of several clusters, say.
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
            f"{type(schema).__name__}.is_end_of_stream() is not called, as with Flink's KafkaSource: say where the "
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
            "call set_dead_letter() on the builder of the source, or ignore_parse_errors() on that of the "
            f"schema{IN_SQL}",
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
        self, messages: Messages, values: DeserializedBatch, keys: "_Keys | None"
    ) -> tuple[list[tuple[str, str, str]], int]:
        """The dead letters, and the number of messages that are left out and counted."""
        bad = {} if keys is None else {index: (f"the key: {reason}", keys.schema) for index, reason in keys.rejected}
        bad |= {index: (reason, self._schema.value) for index, reason in values.rejected}
        shown = [(i, reason) for i, (reason, schema) in sorted(bad.items()) if not schema.ignore_parse_errors]
        letters = [
            self._bad_messages.letter(messages.where(index), messages.values[index].as_py() or b"", reason)
            for index, reason in shown
        ]
        return letters, len(bad) - len(shown)

    def _combined(self, messages: Messages, values: DeserializedBatch, keys: "_Keys | None") -> DeserializedBatch:
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


class KeyFields(SerializationSchema):
    """Writes some fields of records.

    Args:
        fields: their names.
        schema: writes rows of these fields; without one a single field is written as it is, if it is text or bytes.
    """

    def __init__(self, fields: Sequence[str], schema: SerializationSchema | None) -> None:
        self._fields = tuple(fields)
        self._schema = schema

    def serialize(self, element: Any) -> bytes:
        """Refuse a single record: only batches tell which fields their records have."""
        raise TypeError("keys of some fields are written for batches, not for single records")

    def serialize_batch(self, batch: Batch) -> pa.Array:
        kind = self._key_type(batch.type)
        places = [batch.type.field_names.index(name) for name in self._fields]
        arrays = [batch.columns.column(place) for place in places]
        if self._schema is None:
            return arrays[0].cast(pa.binary())
        columns = pa.RecordBatch.from_arrays(arrays, names=list(self._fields))
        return self._schema.serialize_batch(batch.replaced(kind, columns=columns))

    def check_schemas(self, subjects: Sequence[str]) -> Iterator[SchemaCheck]:
        return iter(()) if self._schema is None else self._schema.check_schemas(subjects)

    def validate(self, input_type: TypeInformation) -> None:
        kind = self._key_type(input_type)
        if self._schema is not None:
            self._schema.validate(kind)
        elif list(kind.field_types) not in ([Types.STRING()], [Types.BYTES()]):
            raise InvalidTypeError(
                f"a key is one field of text or bytes, not {kind}: say how it is written, with a schema of the key"
            )

    def _key_type(self, input_type: TypeInformation) -> TypeInformation:
        if not isinstance(input_type, CompositeTypeInfo):
            raise InvalidTypeError(
                f"keys are fields of records, and records are {input_type}: declare a type with fields"
            )
        known = dict(zip(input_type.field_names, input_type.field_types, strict=True))
        for name in self._fields:
            if name not in known:
                hint = alike(name, known) or f": there are {', '.join(known)}"
                raise InvalidTypeError(f"records have no field {name!r} for the key{hint}")
        return row_type([(name, known[name]) for name in self._fields], "name each field once", changelog=False)


TopicSelector = Callable[[Any], str]
"""Gives the topic of a record."""

HeaderFunction = Callable[[Any], Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] | None]
"""Gives the headers of the message of a record, None for none."""

PartitionFunction = Callable[[Any, bytes | None, bytes | None, str, Sequence[int]], int]
"""Gives the partition for a record, the key and value of its message, its topic, and the partitions of that."""

PartitionsOf = Callable[[str], int]
"""Returns the number of partitions of a topic."""


@dataclass(frozen=True, slots=True)
class OutgoingMessages:
    """Messages of one topic, in the order of their records.

    Attributes:
        topic: the topic.
        values: binary; null for a message without a value, which deletes its key in a topic that is compacted.
        keys: binary, null for a message without a key; None where none has one.
        timestamps: in milliseconds, ``NO_TIMESTAMP`` where a record has none.
        headers: as :data:`~headrace.common.messages.HEADERS`, null for a message without any; None where none
            has any.
        partitions: where each belongs; None where keys decide.
    """

    topic: str
    values: pa.Array
    keys: pa.Array | None
    timestamps: npt.NDArray[np.int64]
    headers: pa.Array | None = None
    partitions: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def size(self) -> int:
        """The bytes of keys and values."""
        columns = (self.values, self.keys, self.headers)
        return sum(int(column.nbytes) for column in columns if column is not None)

    def timestamps_or(self, now: int) -> npt.NDArray[np.int64]:
        """The timestamps, with another one where there is none."""
        return np.where(self.timestamps == NO_TIMESTAMP, now, self.timestamps)


class MessageSerializationSchema:
    """Makes messages of records: topics, values and keys. The event time of a record is the message's timestamp.

    Args:
        topic: the topic of all records, or a function that gives the one of a record.
        value: writes values.
        key: writes keys, which decide the partition; messages have none without it.
        key_fields: names of fields of the record that the key is made of: ``key`` gets rows of these fields. Without
            ``key`` it is one field of text or bytes, as it is.
        headers: a function that gives the headers of a record, as pairs of a name and bytes, or as a mapping.
        partitioner: a function that gives the partition of a record, of the record, the key and the value of its
            message, its topic, and the partitions that this has; without it, keys decide. It should give the same for
            the same record, as a record that is sent again after a failure should have its place.

    Raises:
        InvalidTypeError: when an argument is of another class.
        InvalidProgramError: when there are several fields, and nothing that writes them.

    Examples:
        >>> from headrace.common import JsonRowSerializationSchema, Types
        >>> from headrace.datastream.connectors.base import MessageSerializationSchema
        >>> kind = Types.ROW_NAMED(["card", "amount"], [str, float])
        >>> values = JsonRowSerializationSchema.builder().with_type_info(kind).build()
        >>> schema = MessageSerializationSchema("payments", values, key_fields=["card"])
    """

    def __init__(
        self,
        topic: str | TopicSelector,
        value: SerializationSchema,
        key: SerializationSchema | None = None,
        *,
        key_fields: Sequence[str] = (),
        headers: HeaderFunction | None = None,
        partitioner: PartitionFunction | None = None,
    ) -> None:
        if not isinstance(topic, str) and not callable(topic):
            raise refused(f"a topic is a name, or a function that gives one, not {topic!r}", InvalidTypeError)
        expect(value, SerializationSchema, "MessageSerializationSchema")
        if key is not None:
            expect(key, SerializationSchema, "MessageSerializationSchema")
        for name, function in (("headers", headers), ("partitioner", partitioner)):
            if function is not None and not callable(function):
                raise refused(f"{name} is a function of the record, not {function!r}", InvalidTypeError)
        if isinstance(key_fields, str):
            raise refused(f"key_fields are several names, as in key_fields=[{key_fields!r}]", InvalidTypeError)
        if len(key_fields) > 1 and key is None:
            raise refused("a key of several fields needs what writes them: give a schema of the key")
        self.topic = topic
        self.value = value
        self.key = KeyFields(key_fields, key) if key_fields else key
        self.headers = headers
        self.partitioner = partitioner

    @property
    def takes_changes(self) -> bool:
        """Tell whether messages show what rows do in a changelog."""
        return self.value.takes_changes

    def validate(self, input_type: TypeInformation) -> None:
        """Refuse a record type, when the job is planned.

        Raises:
            InvalidTypeError: naming the type and what would fit.
        """
        self.value.validate(input_type)
        if self.key is not None:
            self.key.validate(input_type)

    def encode(self, batch: Batch, partitions_of: PartitionsOf) -> Iterator[OutgoingMessages]:
        """The messages of some records, topic by topic.

        Args:
            batch: the records.
            partitions_of: is called if there is a partitioner.

        Raises:
            InvalidTypeError: when a record has no such form, or its topic is no text, or its headers or partition are
                none.
        """
        keys = None if self.key is None else self.key.serialize_batch(batch)
        messages = OutgoingMessages(
            "", self.value.serialize_batch(batch), keys, batch.timestamps, self._headers_of(batch)
        )
        if isinstance(self.topic, str):
            yield self._partitioned(_of_topic(messages, self.topic), batch, partitions_of)
            return
        topics = np.array([_checked(self.topic(row), row) for row in batch.rows], object)
        for topic in dict.fromkeys(topics.tolist()):
            rows = np.flatnonzero(topics == topic)
            yield self._partitioned(_of_topic(messages, topic, rows), batch, partitions_of, rows)

    def of_subtask(self, subtask: int) -> "MessageSerializationSchema":
        """The schema by which a subtask writes its messages."""
        return self

    def _headers_of(self, batch: Batch) -> pa.Array | None:
        if self.headers is None:
            return None
        given = map(self.headers, batch.rows)
        return headers_to_array([None if each is None else checked_headers(each) for each in given])

    def _partitioned(
        self,
        messages: OutgoingMessages,
        batch: Batch,
        partitions_of: PartitionsOf,
        rows: npt.NDArray[np.intp] | None = None,
    ) -> OutgoingMessages:
        """Messages with the partitions that the program gives them; ``rows`` are their places in the batch."""
        if self.partitioner is None:
            return messages
        partitions = range(partitions_of(messages.topic))
        records = batch.rows if rows is None else [batch.rows[row] for row in rows]
        keys = repeat(None) if messages.keys is None else messages.keys.to_pylist()
        found = [
            _one_of(self.partitioner(record, key, value, messages.topic, partitions), partitions, messages.topic)
            for record, key, value in zip(records, keys, messages.values.to_pylist(), strict=False)
        ]
        return replace(messages, partitions=np.array(found, np.int32))


def encode_messages(
    schema: MessageSerializationSchema,
    reject: Reject | None,
    check: Callable[[OutgoingMessages], None],
    partitions_of: PartitionsOf,
    batch: Batch,
) -> Iterator[OutgoingMessages]:
    """Make messages of records, in a task; gives them topic by topic.

    Args:
        schema: what messages are made of.
        reject: is called with records that cannot be written; None makes such a record fail the job.
        check: raises where messages of a topic are such that it does not take.
        partitions_of: returns the number of partitions of a topic.
        batch: the records.
    """

    def encode(part: Batch) -> list[OutgoingMessages]:
        found = list(schema.encode(part, partitions_of))
        for messages in found:
            check(messages)
        return found

    return chain.from_iterable(encode_or_reject(encode, batch, reject))


def _of_topic(messages: OutgoingMessages, topic: str, rows: npt.NDArray[np.intp] | None = None) -> OutgoingMessages:
    """The messages at some places, or all of them, as messages of a topic."""
    if rows is None:
        return replace(messages, topic=topic)
    return OutgoingMessages(
        topic,
        messages.values.take(rows),
        None if messages.keys is None else messages.keys.take(rows),
        messages.timestamps[rows],
        None if messages.headers is None else messages.headers.take(rows),
    )


def _checked(topic: object, row: object) -> str:
    if not isinstance(topic, str) or not topic:
        raise InvalidTypeError(f"the topic selector gave {topic!r} for {row!r:.200}: return the name of a topic")
    return topic


def _one_of(partition: object, partitions: range, topic: str) -> int:
    if isinstance(partition, bool) or not isinstance(partition, (int, np.integer)) or partition not in partitions:
        raise InvalidTypeError(
            f"the partitioner gave {partition!r}, and topic {topic} has the partitions 0 to {partitions[-1]}: return "
            "one of those that it is given"
        )
    return int(partition)
