"""The tasks' half of a Kafka sink: records become messages, which are sent at once, or staged for a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc

from headrace.connectors.kafka.sender import MessageSender
from headrace.connectors.kafka.staging import StagedEpoch, content_of, stage
from headrace.connectors.sink import SinkWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from headrace.common.batch import Batch
    from headrace.connectors.kafka.client import ClientSettings
    from headrace.connectors.kafka.committer import TransactionSettings
    from headrace.connectors.kafka.staging import StagedFile
    from headrace.connectors.outgoing_messages import MessageEncoder, OutgoingMessages
    from headrace.connectors.sink import Json, WriterContext, WriterEpoch
    from headrace.storage.folder import Folder

_STAGED_TOGETHER: Final = 32 << 20
"""With so many bytes a file is written, even if the epoch has more."""

_IN_MANIFEST_BYTES: Final = 128 << 10
"""So much of an epoch, over all subtasks, is part of the manifest: a small epoch has no files to write, to read and to
remove."""


def check_sizes(messages: OutgoingMessages, max_bytes: int) -> None:
    """Refuse messages with more bytes in key and value than a topic takes.

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
            self._sender.send(messages.topic, messages.values, messages.keys, _timestamps(messages, self._now))

    def prepare_commit(self) -> Sequence[Json]:
        self._sender.flush()
        self._is_flushed = True
        return ()

    def close(self) -> None:
        if self._is_flushed:
            self._clients.keep(self._key, self._sender)
        else:  # messages of an epoch that has failed may be on their way
            self._sender.close()


class StagingWriter(SinkWriter):
    """Writes messages to files in the checkpoint directory, out of which they are published after the checkpoint.

    Where an epoch has few they are in the manifest itself.

    Args:
        context: what a writer is made with.
        encoder: makes the messages.
        folder: where the files are; it exists.
        transactions: how they are published.
    """

    def __init__(
        self, context: WriterContext, encoder: MessageEncoder, folder: Folder, transactions: TransactionSettings
    ) -> None:
        self._place = f"{context.generation}-{context.subtask}"
        self._encoder = encoder
        self._folder = folder
        self._transactional_id = transactions.transactional_id(context.job_id, context.operator_id, context.subtask)
        self._marker_topic = transactions.marker_topic
        self._epoch: WriterEpoch | None = None
        self._in_manifest = _IN_MANIFEST_BYTES // context.parallelism
        self._pieces: list[tuple[OutgoingMessages, npt.NDArray[np.int64]]] = []
        self._bytes = 0
        self._staged: list[StagedFile] = []

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._epoch = epoch

    def write(self, batch: Batch) -> None:
        assert self._epoch is not None
        for messages in self._encoder.encode(batch):
            self._pieces.append((messages, _timestamps(messages, self._epoch.processing_time)))
            self._bytes += messages.size
        if self._bytes >= _STAGED_TOGETHER:
            self._stage(content_of(self._pieces))

    def prepare_commit(self) -> Sequence[Json]:
        content = b""
        if any(len(messages) for messages, _ in self._pieces):
            last = content_of(self._pieces)
            if self._staged or last.size > self._in_manifest:
                self._stage(last)
            else:
                content = last.to_pybytes()
        staged = StagedEpoch(self._transactional_id, self._marker_topic, tuple(self._staged), content)
        self._clear()
        return [staged.to_json()] if staged.size else []

    def abort(self) -> None:
        self._clear()  # files stay: another attempt of the task has written the same ones, perhaps

    def _stage(self, content: pa.Buffer) -> None:
        assert self._epoch is not None
        messages = sum(len(messages) for messages, _ in self._pieces)
        self._staged.append(stage(self._folder, f"{self._epoch.number}-{self._place}", content, messages))
        self._pieces, self._bytes = [], 0

    def _clear(self) -> None:
        self._pieces, self._bytes, self._staged = [], 0, []


def _timestamps(messages: OutgoingMessages, now: int) -> npt.NDArray[np.int64]:
    """0 is "now" for librdkafka, and there is nothing before 1970 in Kafka."""
    return np.where(messages.timestamps > 0, messages.timestamps, now)


def _sizes(messages: OutgoingMessages) -> Any:
    sizes = pc.fill_null(pc.binary_length(messages.values), 0)
    return sizes if messages.keys is None else pc.add(sizes, pc.fill_null(pc.binary_length(messages.keys), 0))
