"""Messages that wait in the checkpoint until their epoch is published: many in files beside it, few in the manifest."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.errors import CommitRefusedError
from headrace.storage.file_system import ContentDigest

if TYPE_CHECKING:
    from headrace.connectors.sink import Json
    from headrace.storage.folder import Folder

_SUFFIX: Final = ".arrow"
_NAME: Final = re.compile(rf"[0-9]+-([0-9]+)-[0-9]+-[0-9a-f]+\{_SUFFIX}")
_TOPIC: Final = "topic"


@dataclass(frozen=True, slots=True)
class StagedFile:
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
    """All that a subtask publishes of an epoch, in one transaction.

    Attributes:
        transactional_id: under which id; it stays when the job goes on with another prefix.
        marker_topic: the topic at which the marker is; likewise.
        files: in their order.
        content: what a file would hold, of messages that are in none.
    """

    transactional_id: str
    marker_topic: str
    files: tuple[StagedFile, ...]
    content: bytes = field(default=b"", repr=False)

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.content) + sum(file.size for file in self.files)

    @property
    def messages(self) -> int:
        """How many messages; of those in the manifest, which are few, it does not matter."""
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

    def to_json(self) -> Json:
        """As it is in a manifest."""
        files = [[file.name, file.size, file.messages] for file in self.files]
        found = {"id": self.transactional_id, "marker": self.marker_topic, "files": files}
        return found | ({"content": base64.b64encode(self.content).decode()} if self.content else {})

    @staticmethod
    def from_json(found: Json) -> StagedEpoch:
        """As it was."""
        files = tuple(StagedFile(*each) for each in found["files"])
        return StagedEpoch(found["id"], found["marker"], files, base64.b64decode(found.get("content", "")))


def content_of(pieces: Sequence[tuple[str, pa.RecordBatch]]) -> pa.Buffer:
    """What a file of messages holds: each piece messages of one topic, the columns of all alike."""
    output = pa.BufferOutputStream()
    with pa.ipc.new_stream(output, pieces[0][1].schema) as writer:
        for topic, messages in pieces:
            writer.write_batch(messages, custom_metadata={_TOPIC: topic})
    return output.getvalue()


def stage(folder: Folder, place: str, content: pa.Buffer, messages: int) -> StagedFile:
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
    return StagedFile(name, content.size, messages)


def _content(folder: Folder, file: StagedFile) -> bytes:
    """What is in a file, if it is as it was written."""
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


def _digest(content: Any) -> str:
    digest = ContentDigest()
    digest.update(content)
    return digest.text()
