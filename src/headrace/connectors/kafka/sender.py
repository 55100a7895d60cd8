"""Sending messages: columns go to librdkafka, and what it could not deliver is told."""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.connectors.kafka.clients.errors import ClientErrors, delivery_error, error_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt
    import pyarrow as pa
    from confluent_kafka import KafkaError, Message, Producer

    from headrace.common.errors import HeadraceError
    from headrace.connectors.kafka.clients.client import ClientSettings
    from headrace.connectors.outgoing_messages import OutgoingMessages

_WAIT_SECONDS: Final = 0.2
"""After that long, waiting begins again: so a job can be cancelled meanwhile."""

_ANY_PARTITION: Final = -1

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

    def send(
        self, topic: str, values: pa.Array, keys: pa.Array | None, timestamps: npt.NDArray[np.int64] | pa.Array
    ) -> None:
        """Send messages of a topic; some of them may be on their way when this returns.

        Args:
            topic: the topic.
            values: binary; null for none.
            keys: likewise; None where no message has one.
            timestamps: in milliseconds, above 0.

        Raises:
            HeadraceError: when one was not delivered, of those before also.
        """
        from confluent_kafka import KafkaException

        try:
            for start in range(0, len(values), _POLL_ROWS):
                self.producer.poll(0)
                part = slice(start, start + _POLL_ROWS)
                self._produce(topic, values[part], None if keys is None else keys[part], timestamps[part])
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

    def _produce(
        self, topic: str, values: pa.Array, keys: pa.Array | None, timestamps: npt.NDArray[np.int64] | pa.Array
    ) -> None:
        produce, keys_or_none = self.producer.produce, repeat(None) if keys is None else keys.to_pylist()
        for value, key, time in zip(values.to_pylist(), keys_or_none, timestamps.tolist(), strict=False):
            try:
                produce(topic, value, key, _ANY_PARTITION, None, None, time)  # by name they take half as long again
            except BufferError:
                self._produce_when_there_is_room(topic, value, key, time)

    def _produce_when_there_is_room(self, topic: str, value: bytes | None, key: bytes | None, time: int) -> None:
        while True:
            self.producer.poll(_WAIT_SECONDS)
            self._check_while_waiting()
            with suppress(BufferError):
                self.producer.produce(topic, value, key, timestamp=time)
                return

    def _check_while_waiting(self) -> None:
        self._undelivered.check()
        self._errors.check(f"messages cannot be sent to {self._servers}")


def timestamps_of(messages: OutgoingMessages, now: int) -> npt.NDArray[np.int64]:
    """The timestamps of messages, or now: 0 means that for librdkafka, and there is nothing before 1970 in Kafka."""
    return np.where(messages.timestamps > 0, messages.timestamps, now)


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
