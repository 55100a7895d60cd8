"""Records become messages, which are sent at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.kafka.sender import MessageSender, columns_of
from headrace.connectors.sink import SinkWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.connectors.kafka.clients.client import ClientSettings
    from headrace.connectors.outgoing_messages import MessageEncoder, OutgoingMessages
    from headrace.connectors.sink import Json, WriterContext, WriterEpoch


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
