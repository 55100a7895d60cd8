"""Records as messages of brokers and logs: their topics, keys and values, column by column.

A :class:`MessageSerializationSchema` says what a message is made of; a sink gets its records as
:class:`OutgoingMessages`, all of one topic together, from a :class:`MessageEncoder`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.common.arguments import expect, refused
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidTypeError
from headrace.common.serialization import SerializationSchema
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.connectors.dead_letters import encode_or_reject
from headrace.connectors.key_fields import KeyFields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.dead_letters import Reject

TopicSelector = Callable[[Any], str]
"""Gives the topic of a record."""


@dataclass(frozen=True, slots=True)
class OutgoingMessages:
    """Messages of one topic, in the order of their records.

    Attributes:
        topic: the topic.
        values: binary; null for a message without a value, which deletes its key in a topic that is compacted.
        keys: binary, null for a message without a key; None where none has one.
        timestamps: in milliseconds, ``NO_TIMESTAMP`` where a record has none.
    """

    topic: str
    values: pa.Array
    keys: pa.Array | None
    timestamps: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.values.nbytes) + (0 if self.keys is None else int(self.keys.nbytes))

    def timestamps_or(self, now: int) -> npt.NDArray[np.int64]:
        """The timestamps, with another one where there is none."""
        return np.where(self.timestamps == NO_TIMESTAMP, now, self.timestamps)


@hides_engine_of_methods
class MessageSerializationSchema:
    """What messages are made of records: topics, values and keys. The event time of a record is its timestamp.

    Args:
        topic: the topic of all records, or a function that gives the one of a record.
        value: writes values.
        key: writes keys, which decide the partition; messages have none without it.
        key_fields: names of fields of the record that the key is made of: ``key`` gets rows of these fields. Without
            ``key`` it is one field of text or bytes, as it is.

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
    ) -> None:
        if not isinstance(topic, str) and not callable(topic):
            raise refused(f"a topic is a name, or a function that gives one, not {topic!r}", InvalidTypeError)
        expect(value, SerializationSchema, "MessageSerializationSchema")
        if key is not None:
            expect(key, SerializationSchema, "MessageSerializationSchema")
        if isinstance(key_fields, str):
            raise refused(f"key_fields are several names, as in key_fields=[{key_fields!r}]", InvalidTypeError)
        if len(key_fields) > 1 and key is None:
            raise refused("a key of several fields needs what writes them: give a schema of the key")
        self.topic = topic
        self.value = value
        self.key = KeyFields(key_fields, key) if key_fields else key

    @property
    def takes_changes(self) -> bool:
        """Whether messages show what rows do in a changelog."""
        return self.value.takes_changes

    def validate(self, input_type: TypeInformation) -> None:
        """Refuse a record type, when the job is planned.

        Raises:
            InvalidTypeError: naming the type and what would fit.
        """
        self.value.validate(input_type)
        if self.key is not None:
            self.key.validate(input_type)

    def encode(self, batch: Batch) -> Iterator[OutgoingMessages]:
        """The messages of some records, topic by topic.

        Raises:
            InvalidTypeError: when a record has no such form, or its topic is no text.
        """
        keys = None if self.key is None else self.key.serialize_batch(batch)
        messages = OutgoingMessages("", self.value.serialize_batch(batch), keys, batch.timestamps)
        if isinstance(self.topic, str):
            yield _of_topic(messages, self.topic)
            return
        topics = np.array([_checked(self.topic(row), row) for row in batch.rows], object)
        for topic in dict.fromkeys(topics.tolist()):
            yield _of_topic(messages, topic, np.flatnonzero(topics == topic))


class MessageEncoder:
    """Makes messages of records, in a task.

    Args:
        schema: what messages are made of.
        reject: is told of records that cannot be written; None makes such a record fail the job.
        check: raises where messages of a topic are such that it does not take.
    """

    def __init__(
        self, schema: MessageSerializationSchema, reject: Reject | None, check: Callable[[OutgoingMessages], None]
    ) -> None:
        self._schema = schema
        self._reject = reject
        self._check = check

    def encode(self, batch: Batch) -> Iterator[OutgoingMessages]:
        """The messages of some records, topic by topic."""
        return chain.from_iterable(encode_or_reject(self._checked, batch, self._reject))

    def _checked(self, batch: Batch) -> list[OutgoingMessages]:
        found = list(self._schema.encode(batch))
        for messages in found:
            self._check(messages)
        return found


def _of_topic(messages: OutgoingMessages, topic: str, rows: npt.NDArray[np.intp] | None = None) -> OutgoingMessages:
    """Those of the messages at some places, or all, as messages of a topic."""
    values, keys, timestamps = messages.values, messages.keys, messages.timestamps
    if rows is not None:
        values, timestamps = values.take(rows), timestamps[rows]
        keys = None if keys is None else keys.take(rows)
    return OutgoingMessages(topic, values, keys, timestamps)


def _checked(topic: Any, row: Any) -> str:
    if not isinstance(topic, str) or not topic:
        raise InvalidTypeError(f"the topic selector gave {topic!r} for {row!r:.200}: return the name of a topic")
    return topic
