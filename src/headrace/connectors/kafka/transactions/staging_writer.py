"""The tasks' half of a Kafka sink with transactions: records become messages, which wait in the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.connectors.kafka.transactions.staging import StagedEpoch, content_of, stage
from headrace.connectors.kafka.writer import columns_of
from headrace.connectors.sink import SinkWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from headrace.common.batch import Batch
    from headrace.connectors.kafka.transactions.committer import TransactionSettings
    from headrace.connectors.kafka.transactions.staging import StagedFile
    from headrace.connectors.outgoing_messages import MessageEncoder
    from headrace.connectors.sink import Json, WriterContext, WriterEpoch
    from headrace.storage.folder import Folder

_STAGED_TOGETHER: Final = 32 << 20
"""With so many bytes a file is written, even if the epoch has more."""

_IN_MANIFEST_BYTES: Final = 128 << 10
"""So much of an epoch, over all subtasks, is part of the manifest: a small epoch has no files to write, to read and to
remove."""


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
        self._pieces: list[tuple[str, pa.RecordBatch]] = []
        self._bytes = 0
        self._staged: list[StagedFile] = []

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._epoch = epoch

    def write(self, batch: Batch) -> None:
        assert self._epoch is not None
        for messages in self._encoder.encode(batch):
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
        return [staged.to_json()] if staged.size else []

    def abort(self) -> None:
        self._clear()  # files stay: another attempt of the task has written the same ones, perhaps

    def _stage(self, content: pa.Buffer) -> None:
        assert self._epoch is not None
        messages = sum(messages.num_rows for _, messages in self._pieces)
        self._staged.append(stage(self._folder, f"{self._epoch.number}-{self._place}", content, messages))
        self._pieces, self._bytes = [], 0

    def _clear(self) -> None:
        self._pieces, self._bytes, self._staged = [], 0, []
