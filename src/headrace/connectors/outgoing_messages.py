"""Records as messages of brokers and logs: their topics, keys and values, column by column.

A :class:`MessageSerializationSchema` says what a message is made of; a sink gets its records as
:class:`OutgoingMessages`, all of one topic together, from :func:`encode_messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.arguments import expect, refused
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidTypeError
from headrace.common.messages import checked_headers, headers_to_array, row_type
from headrace.common.other_names import alike
from headrace.common.serialization import SerializationSchema
from headrace.common.typeinfo import CompositeTypeInfo, Types
from headrace.connectors.sink import encode_or_reject

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink import Reject


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
                told = alike(name, known) or f": there are {', '.join(known)}"
                raise InvalidTypeError(f"records have no field {name!r} for the key{told}")
        return row_type([(name, known[name]) for name in self._fields], "name each field once", changelog=False)


TopicSelector = Callable[[Any], str]
"""Gives the topic of a record."""

HeaderFunction = Callable[[Any], Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] | None]
"""Gives the headers of the message of a record, None for none."""

PartitionFunction = Callable[[Any, bytes | None, bytes | None, str, Sequence[int]], int]
"""Gives the partition for a record, the key and value of its message, its topic, and the partitions of that."""

PartitionsOf = Callable[[str], int]
"""Tells how many partitions a topic has."""


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
            partitions_of: is asked where there is a partitioner.

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
        reject: is told of records that cannot be written; None makes such a record fail the job.
        check: raises where messages of a topic are such that it does not take.
        partitions_of: tells how many partitions a topic has.
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


def _checked(topic: Any, row: Any) -> str:
    if not isinstance(topic, str) or not topic:
        raise InvalidTypeError(f"the topic selector gave {topic!r} for {row!r:.200}: return the name of a topic")
    return topic


def _one_of(partition: Any, partitions: range, topic: str) -> int:
    if isinstance(partition, bool) or not isinstance(partition, (int, np.integer)) or partition not in partitions:
        raise InvalidTypeError(
            f"the partitioner gave {partition!r}, and topic {topic} has the partitions 0 to {partitions[-1]}: return "
            "one of those that it is given"
        )
    return int(partition)
