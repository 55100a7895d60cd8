"""The task's half of a Kafka sink: messages are sent, or staged in the checkpoint until their epoch is published.

Staged messages lie in files beside the checkpoint; few of them are part of the manifest.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.common.arrays import list_lengths
from headrace.common.batch import Batch
from headrace.common.errors import CommitRefusedError, HeadraceError
from headrace.common.json_values import to_json
from headrace.common.messages import array_to_headers
from headrace.connectors.kafka.clients import ClientErrors, ClientSettings, delivery_error, error_of
from headrace.connectors.messages import OutgoingMessages
from headrace.connectors.sink import Json, SinkWriter, WriterContext, WriterEpoch
from headrace.storage.file_system import digest_text, new_digest
from headrace.storage.folder import Folder

Encode = Callable[[Batch], Iterator[OutgoingMessages]]


_WAIT_SECONDS: Final = 0.2
"""Waiting begins again after so long, so that a job can be canceled meanwhile."""

_ANY_PARTITION: Final = -1

_BYTES: Final = pa.large_binary()

_POLL_ROWS: Final = 10_000
"""librdkafka is polled after so many messages for those that were not delivered."""


class MessageSender:
    """Sends messages by a producer, and raises the first error of a delivery.

    Args:
        settings: how the cluster is reached.
        purpose: part of the client's id.
        more: settings of this producer alone.

    Attributes:
        producer: the producer.

    Raises:
        ConfigurationError: when the settings are wrong.
    """

    def __init__(self, settings: ClientSettings, purpose: str, more: Mapping[str, str] | None = None) -> None:
        self._servers = settings.servers
        self._errors = ClientErrors()
        self._undelivered: HeadraceError | None = None
        self.producer: Producer = settings.producer(purpose, self._errors, self._report, more or {})

    def send(self, topic: str, messages: pa.RecordBatch) -> None:
        """Send messages of a topic; some of them may be on their way when this returns.

        Args:
            topic: the topic.
            messages: the columns of :func:`columns_of`.

        Raises:
            HeadraceError: when one was not delivered, of those before also.
        """
        try:
            for start in range(0, messages.num_rows, _POLL_ROWS):
                self.producer.poll(0)
                self._produce(topic, messages.slice(start, _POLL_ROWS))
        except KafkaException as error:
            self._report(error.args[0], topic)
        self._check_delivered()

    def flush(self) -> None:
        """Wait until brokers have acknowledged all messages.

        Raises:
            HeadraceError: when one was not delivered.
        """
        try:
            while self.producer.flush(_WAIT_SECONDS):
                self._check_while_waiting()
        except KafkaException as error:  # the producer is of no use any more
            raise error_of(error.args[0], f"messages cannot be sent to {self._servers}") from None
        self._check_delivered()

    def close(self) -> None:
        """Let go of connections; what was not flushed is not sent."""
        self.producer.purge()

    def lost_connection(self) -> bool:
        """Tell whether a connection broke that was in use."""
        self._serve()
        return self._errors.lost_connection

    def check(self, what: str) -> None:
        """Raise a lasting error of the client, because of which librdkafka retries in vain.

        Args:
            what: what was tried.

        Raises:
            ConfigurationError: saying why.
        """
        self._serve()
        self._errors.check(f"{what} at {self._servers}")

    def _report(self, error: KafkaError, place: Message | str) -> None:
        """Remember the first message that was not delivered, which librdkafka reports in a callback."""
        if self._undelivered is None:
            topic = place if isinstance(place, str) else str(place.topic())
            self._undelivered = delivery_error(error, topic, self._servers)

    def _check_delivered(self) -> None:
        if self._undelivered is not None:
            raise self._undelivered

    def _serve(self) -> None:
        """Let librdkafka run its callbacks."""
        with suppress(KafkaException):  # the caller knows that it is of no use any more
            self.producer.poll(0)

    def _produce(self, topic: str, messages: pa.RecordBatch) -> None:
        produce = self.producer.produce
        for message in _arguments(topic, messages):
            try:
                produce(*message)  # by name they take half as long again
            except BufferError:
                self._produce_when_there_is_room(message)

    def _produce_when_there_is_room(self, message: tuple[object, ...]) -> None:
        while True:
            self.producer.poll(_WAIT_SECONDS)
            self._check_while_waiting()
            with suppress(BufferError):
                self.producer.produce(*message)
                return

    def _check_while_waiting(self) -> None:
        self._check_delivered()
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
    """The arguments of ``produce()`` for each message."""
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
        encode: makes the messages of a batch.
        context: what a writer is made with.

    Raises:
        ConfigurationError: when the settings are wrong.
    """

    def __init__(self, settings: ClientSettings, encode: Encode, context: WriterContext) -> None:
        self._clients = context.clients
        self._key = (context.operator_id, settings.key)
        kept = self._clients.take(self._key, MessageSender)
        self._sender = kept or MessageSender(settings, f"writer-{context.subtask}")
        self._encode = encode
        self._now = 0
        self._is_flushed = True

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._now = epoch.processing_time

    def write(self, batch: Batch) -> None:
        self._is_flushed = False
        for messages in self._encode(batch):
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


def _sizes(messages: OutgoingMessages) -> pa.Array:
    sizes = pc.fill_null(pc.binary_length(messages.values), 0)
    if messages.keys is not None:
        sizes = pc.add(sizes, pc.fill_null(pc.binary_length(messages.keys), 0))
    return sizes if messages.headers is None else pc.add(sizes, _sizes_of_headers(messages.headers))


def _sizes_of_headers(headers: pa.Array) -> pa.Array:
    """The bytes of all names and values that each message has."""
    pairs = headers.flatten()
    names, values = (pc.fill_null(pc.binary_length(pairs.field(part)), 0).to_numpy() for part in ("key", "value"))
    before = np.concatenate(([0], np.cumsum(names + values)))
    counts = list_lengths(headers)
    ends = np.cumsum(counts)
    return pa.array(before[ends] - before[ends - counts])


_SUFFIX: Final = ".arrow"
_NAME: Final = re.compile(rf"[0-9]+-([0-9]+)-[0-9]+-[0-9a-f]+\{_SUFFIX}")
_TOPIC: Final = "topic"


class MessageFile(NamedTuple):
    """Messages of one subtask and one epoch, or some of them: a stream of Arrow, with the topic beside each batch.

    Attributes:
        name: epoch, generation, subtask and digest of the content; what runs again writes the same file.
        size: in bytes.
        messages: how many.
    """

    name: str
    size: int
    messages: int


@dataclass(frozen=True, slots=True)
class StagedEpoch:
    """The messages of an epoch that a subtask publishes, in one transaction.

    Attributes:
        transactional_id: under which id; it stays when the job goes on with another prefix.
        marker_topic: the topic at which the marker is; likewise.
        files: in their order.
        content: what a file would hold, of messages that are in none.
    """

    transactional_id: str
    marker_topic: str
    files: tuple[MessageFile, ...]
    content: bytes = field(default=b"", repr=False)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.content) + sum(file.size for file in self.files)

    @property
    def messages(self) -> int:
        """The number of messages, without the few in the manifest."""
        return sum(file.messages for file in self.files)

    def batches(self, folder: Folder) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Batches of messages in columns, with their topics.

        Args:
            folder: where the files are.

        Raises:
            CommitRefusedError: when a file is missing, or not as it was written.
            OSError: when one cannot be read.
        """
        for file in self.files:
            yield from _batches(_content(folder, file))
        if self.content:
            yield from _batches(self.content)


def content_of(pieces: Sequence[tuple[str, pa.RecordBatch]]) -> pa.Buffer:
    """Make the content of a file of messages: each piece holds messages of one topic, all pieces the same columns."""
    output = pa.BufferOutputStream()
    with pa.ipc.new_stream(output, pieces[0][1].schema) as writer:
        for topic, messages in pieces:
            writer.write_batch(messages, custom_metadata={_TOPIC: topic})
    return output.getvalue()


def stage(folder: Folder, place: str, content: pa.Buffer, messages: int) -> MessageFile:
    """Write messages to a file, durably.

    Args:
        folder: where.
        place: the beginning of its name.
        content: what :func:`content_of` gave.
        messages: how many they are.

    Raises:
        OSError: when it cannot be written.
    """
    name = f"{place}-{_digest(content)}{_SUFFIX}"
    folder.write(name, [content])
    return MessageFile(name, content.size, messages)


def _content(folder: Folder, file: MessageFile) -> bytes:
    """Read a file, and check that it is as it was written."""
    where = folder.locate(file.name)
    try:
        content = folder.read(file.name)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CommitRefusedError(f"{where} is missing, which waits to be published; put it back") from error
    if len(content) != file.size or _digest(content) != file.name.removesuffix(_SUFFIX).rpartition("-")[2]:
        raise CommitRefusedError(f"{where} is damaged: its content is not what a task wrote; put it back as it was")
    return content


def _batches(content: bytes) -> Iterator[tuple[str, pa.RecordBatch]]:
    for found in pa.ipc.open_stream(content).iter_batches_with_custom_metadata():
        yield found.custom_metadata[_TOPIC.encode()].decode(), found.batch


def remove_staged_before(folder: Folder, generation: int) -> None:
    """Remove the files that job managers before a generation have left, finished or not."""

    def is_older(name: str) -> bool:
        found = _NAME.fullmatch(name)
        return found is not None and int(found[1]) < generation

    folder.remove_unfinished(is_older)
    folder.remove_all([name for name in folder.names() if is_older(name)])


def _digest(content: bytes | pa.Buffer) -> str:
    digest = new_digest()
    digest.update(content)
    return digest_text(digest)


_STAGED_TOGETHER: Final = 32 << 20
"""A file is written when there are so many bytes, even if the epoch has more."""

_IN_MANIFEST_BYTES: Final = 128 << 10
"""The manifest holds so much of an epoch, over all subtasks: a small epoch has no files to write, to read and to
remove."""


def folder_of(folder: Folder | None) -> Folder:
    """The sink's folder, without which nothing can be staged."""
    assert folder is not None, "a sink has a folder in every job"
    return folder


class TransactionalWriter(SinkWriter):
    """Writes messages to files in the checkpoint directory, out of which they are published after the checkpoint.

    Where an epoch has few they are in the manifest itself.

    Args:
        context: what a writer is made with.
        encode: makes the messages of a batch.
        transactional_id: under which id they are published.
        marker_topic: the topic at which the marker is.
    """

    def __init__(self, context: WriterContext, encode: Encode, transactional_id: str, marker_topic: str) -> None:
        self._place = f"{context.generation}-{context.subtask}"
        self._encode = encode
        self._folder = folder_of(context.folder)
        self._transactional_id = transactional_id
        self._marker_topic = marker_topic
        self._epoch = WriterEpoch(0, 0)
        self._in_manifest = _IN_MANIFEST_BYTES // context.parallelism
        self._pieces: list[tuple[str, pa.RecordBatch]] = []
        self._bytes = 0
        self._staged: list[MessageFile] = []

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._epoch = epoch

    def write(self, batch: Batch) -> None:
        for messages in self._encode(batch):
            self._pieces.append((messages.topic, columns_of(messages, self._epoch.processing_time)))
            self._bytes += messages.size
        if self._bytes >= _STAGED_TOGETHER:
            self._stage(content_of(self._pieces))

    def prepare_commit(self) -> Sequence[Json]:
        content = b""
        if any(messages.num_rows for _, messages in self._pieces):
            last = content_of(self._pieces)
            if self._staged or last.size > self._in_manifest:
                self._stage(last)
            else:
                content = last.to_pybytes()
        staged = StagedEpoch(self._transactional_id, self._marker_topic, tuple(self._staged), content)
        self._clear()
        return [to_json(staged)] if staged.size else []

    def abort(self) -> None:
        self._clear()  # files stay: another attempt of the task has written the same ones, perhaps

    def _stage(self, content: pa.Buffer) -> None:
        messages = sum(messages.num_rows for _, messages in self._pieces)
        self._staged.append(stage(self._folder, f"{self._epoch.number}-{self._place}", content, messages))
        self._pieces, self._bytes = [], 0

    def _clear(self) -> None:
        self._pieces, self._bytes, self._staged = [], 0, []
