"""The task's half of a Kafka sink without transactions, and the sending of messages that all sinks share."""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.message_headers import array_to_headers
from headrace.connectors.kafka.clients import ClientErrors, delivery_error, error_of
from headrace.connectors.sink import SinkWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from confluent_kafka import KafkaError, Message, Producer

    from headrace.common.batch import Batch
    from headrace.common.errors import HeadraceError
    from headrace.connectors.kafka.clients import ClientSettings
    from headrace.connectors.outgoing_messages import MessageEncoder, OutgoingMessages
    from headrace.connectors.sink import Json, WriterContext, WriterEpoch


_WAIT_SECONDS: Final = 0.2
"""After that long, waiting begins again: so a job can be cancelled meanwhile."""

_ANY_PARTITION: Final = -1

_BYTES: Final = pa.large_binary()

_POLL_ROWS: Final = 10_000
"""After so many messages librdkafka is asked for those that were not delivered."""


class MessageSender:
    """A producer, and what it could not deliver.

    Args:
        settings: how the cluster is reached.
        purpose: part of the client's id.
        more: settings of this producer alone.

    Attributes:
        producer: the producer.

    Raises:
        ConfigurationError: when the settings are wrong.
    """

    def __init__(self, settings: ClientSettings, purpose: str, more: Mapping[str, Any] | None = None) -> None:
        self._servers = settings.servers
        self._errors = ClientErrors()
        self._undelivered = _Undelivered(settings.servers)
        self.producer: Producer = settings.producer(purpose, self._errors, self._undelivered.report, more or {})

    def send(self, topic: str, messages: pa.RecordBatch) -> None:
        """Send messages of a topic; some of them may be on their way when this returns.

        Args:
            topic: the topic.
            messages: the columns of :func:`columns_of`.

        Raises:
            HeadraceError: when one was not delivered, of those before also.
        """
        from confluent_kafka import KafkaException

        try:
            for start in range(0, messages.num_rows, _POLL_ROWS):
                self.producer.poll(0)
                self._produce(topic, messages.slice(start, _POLL_ROWS))
        except KafkaException as error:
            self._undelivered.report(error.args[0], topic)
        self._undelivered.check()

    def flush(self) -> None:
        """Wait until brokers have acknowledged all messages.

        Raises:
            HeadraceError: when one was not delivered.
        """
        from confluent_kafka import KafkaException

        try:
            while self.producer.flush(_WAIT_SECONDS):
                self._check_while_waiting()
        except KafkaException as error:  # the producer is of no use any more
            raise error_of(error.args[0], f"messages cannot be sent to {self._servers}") from None
        self._undelivered.check()

    def close(self) -> None:
        """Let go of connections; what was not flushed is not sent."""
        self.producer.purge()

    def lost_connection(self) -> bool:
        """Whether a connection broke that was in use."""
        self._serve()
        return self._errors.lost_connection

    def check(self, what: str) -> None:
        """See whether librdkafka tries in vain.

        Args:
            what: what was tried.

        Raises:
            ConfigurationError: saying why.
        """
        self._serve()
        self._errors.check(f"{what} at {self._servers}")

    def _serve(self) -> None:
        """Have librdkafka tell what it has not told yet."""
        from confluent_kafka import KafkaException

        with suppress(KafkaException):  # that it is of no use any more is known to whoever asks
            self.producer.poll(0)

    def _produce(self, topic: str, messages: pa.RecordBatch) -> None:
        produce = self.producer.produce
        for message in _arguments(topic, messages):
            try:
                produce(*message)  # by name they take half as long again
            except BufferError:
                self._produce_when_there_is_room(message)

    def _produce_when_there_is_room(self, message: tuple[Any, ...]) -> None:
        while True:
            self.producer.poll(_WAIT_SECONDS)
            self._check_while_waiting()
            with suppress(BufferError):
                self.producer.produce(*message)
                return

    def _check_while_waiting(self) -> None:
        self._undelivered.check()
        self._errors.check(f"messages cannot be sent to {self._servers}")


def columns_of(messages: OutgoingMessages, now: int) -> pa.RecordBatch:
    """Messages of a topic in columns: timestamp, key and value, and where they have such, partition and headers.

    Args:
        messages: the messages.
        now: their timestamp in milliseconds where they have none, or one that Kafka cannot hold: one below 0, or 0,
            which means "now" for librdkafka.
    """
    times = pa.array(np.where(messages.timestamps > 0, messages.timestamps, now))
    keys = pa.nulls(len(messages)) if messages.keys is None else messages.keys
    columns = {"timestamp": times, "key": keys.cast(_BYTES), "value": messages.values.cast(_BYTES)}
    if messages.partitions is not None:
        columns["partition"] = pa.array(messages.partitions)
    if messages.headers is not None:
        columns["headers"] = messages.headers
    return pa.record_batch(columns)


def _arguments(topic: str, messages: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """What ``produce()`` is called with for each message."""
    names = messages.schema.names
    return zip(
        repeat(topic),
        messages["value"].to_pylist(),
        repeat(None) if messages["key"].null_count == messages.num_rows else messages["key"].to_pylist(),
        messages["partition"].to_pylist() if "partition" in names else repeat(_ANY_PARTITION),
        repeat(None),
        repeat(None),
        messages["timestamp"].to_numpy().tolist(),
        *([array_to_headers(messages["headers"])] if "headers" in names else []),
        strict=False,
    )


class _Undelivered:
    """Remembers the first message that was not delivered, for librdkafka tells of it in a callback."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._failure: HeadraceError | None = None

    def report(self, error: KafkaError, place: Message | str) -> None:
        if self._failure is None:
            topic = place if isinstance(place, str) else str(place.topic())
            self._failure = delivery_error(error, topic, self._servers)

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure


def check_sizes(messages: OutgoingMessages, max_bytes: int) -> None:
    """Refuse messages with more bytes in key, value and headers than a topic takes.

    Raises:
        ValueError: when there is one.
    """
    largest = pc.max(_sizes(messages)).as_py()
    if largest is not None and largest > max_bytes:
        raise ValueError(
            f"a message to topic {messages.topic} would have {largest} bytes, and {max_bytes} is the most: have it be "
            "smaller, or raise 'message.max.bytes' here and 'max.message.bytes' of the topic"
        )


class SendingWriter(SinkWriter):
    """Sends messages as records come, and waits at the end of an epoch until all of them are acknowledged.

    Args:
        settings: how the cluster is reached.
        encoder: makes the messages.
        context: what a writer is made with.

    Raises:
        ConfigurationError: when the settings are wrong.
    """

    def __init__(self, settings: ClientSettings, encoder: MessageEncoder, context: WriterContext) -> None:
        self._clients = context.clients
        self._key = (context.operator_id, settings.key)
        kept = self._clients.take(self._key, MessageSender)
        self._sender = kept or MessageSender(settings, f"writer-{context.subtask}")
        self._encoder = encoder
        self._now = 0
        self._is_flushed = True

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._now = epoch.processing_time

    def write(self, batch: Batch) -> None:
        self._is_flushed = False
        for messages in self._encoder.encode(batch):
            self._sender.send(messages.topic, columns_of(messages, self._now))

    def prepare_commit(self) -> Sequence[Json]:
        self._sender.flush()
        self._is_flushed = True
        return ()

    def close(self) -> None:
        if self._is_flushed:
            self._clients.keep(self._key, self._sender)
        else:  # messages of an epoch that has failed may be on their way
            self._sender.close()


def _sizes(messages: OutgoingMessages) -> Any:
    sizes = pc.fill_null(pc.binary_length(messages.values), 0)
    if messages.keys is not None:
        sizes = pc.add(sizes, pc.fill_null(pc.binary_length(messages.keys), 0))
    return sizes if messages.headers is None else pc.add(sizes, _sizes_of_headers(messages.headers))


def _sizes_of_headers(headers: pa.Array) -> pa.Array:
    """The bytes of all names and values that each message has."""
    pairs = headers.flatten()
    names, values = (pc.fill_null(pc.binary_length(pairs.field(part)), 0).to_numpy() for part in ("key", "value"))
    before = np.concatenate(([0], np.cumsum(names + values)))
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
    ends = np.cumsum(counts)
    return pa.array(before[ends] - before[ends - counts])
