"""Commit records: each a file, created exclusively, that says what has become of a log at once.

The commit with number N follows on that with N - 1, and nothing else orders a log: who has read all of them knows all
topics, the segments of their partitions, the offsets of groups, and what producers have done. So an append to many
partitions, or a transaction, is there wholly or not at all. Who writes one has read all before it, so what it says
cannot contradict them.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from headrace.common.errors import LogCorruptedError, LogError
from headrace.common.topic_partition import TopicPartition
from headrace.log.groups import CommittedOffset, Group, offsets_from_json, offsets_to_json
from headrace.log.segments import Placed, Segment
from headrace.log.topics import TopicConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

SUFFIX: Final = "commit"
"""How the names of commit records end."""

_NAME: Final = re.compile(rf"([0-9]{{20}})\.{SUFFIX}")
_MAGIC: Final = b"headrace"
FORMAT: Final = 1
"""Raised when a headrace of an older version could not read a commit record or a snapshot."""

_HEADER: Final = struct.Struct("<8sHxxIQ")
"""Magic bytes, format, checksum of the document, and where it begins: behind the records that lie in the same file."""

HEADER_BYTES: Final = _HEADER.size
"""Where inlined records begin."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who has written a commit record, so that it is not done twice.

    Attributes:
        producer: the id of a producer; transactional ids are such.
        epoch: rises whenever somebody else takes over the id.
        sequence: rises with each commit of a producer's epoch.
    """

    producer: str
    epoch: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """What is known of a topic besides its records.

    Attributes:
        partitions: how many it has.
        config: how records are kept.
    """

    partitions: int
    config: TopicConfig = field(default_factory=TopicConfig)


@dataclass(frozen=True, slots=True)
class Replacement:
    """Segments of a partition that others take the place of.

    Attributes:
        partition: the partition.
        start: the base offset of the first that goes.
        end: the end offset of the last that goes.
        segments: what is there instead; within these bounds.
    """

    partition: TopicPartition
    start: int
    end: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """All that one commit record says.

    Attributes:
        author: who has written it.
        time: when, in milliseconds by the clock of whoever wrote it.
        topics: new and changed topics; None for one that is deleted.
        appended: segments with new records.
        replaced: segments that others take the place of.
        starts: the first offsets that partitions still have.
        groups: changed groups, whole; None for one that is deleted.
        offsets: by group, how far it has come.
        oldest_staged: no later commit may refer to files of records that were staged before this version.
        follows: the checksum of the commit before it, of the log's mark for the first; None where an older headrace
            has written it. So commits of another log, or of an older copy, are not taken for those of this one.
    """

    author: Author
    time: int
    topics: Mapping[str, TopicDescription | None] = field(default_factory=dict)
    appended: tuple[Placed, ...] = ()
    replaced: tuple[Replacement, ...] = ()
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    groups: Mapping[str, Group | None] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    oldest_staged: int = 0
    follows: int | None = None

    def to_bytes(self, inlined: bytes = b"") -> bytes:
        """The content of the file.

        Args:
            inlined: records that lie in it, from :data:`HEADER_BYTES` on.
        """
        document = {
            "author": [self.author.producer, self.author.epoch, self.author.sequence],
            "time": self.time,
            "topics": {name: topic and topic_to_json(topic) for name, topic in self.topics.items()},
            "appended": [[*_pair(tp), segment.to_json()] for tp, segment in self.appended],
            "replaced": [
                [*_pair(each.partition), each.start, each.end, [segment.to_json() for segment in each.segments]]
                for each in self.replaced
            ],
            "starts": [[*_pair(tp), offset] for tp, offset in self.starts.items()],
            "groups": {name: group and group.to_json() for name, group in self.groups.items()},
            "offsets": {name: offsets_to_json(offsets) for name, offsets in self.offsets.items()},
            "oldest_staged": self.oldest_staged,
            "follows": self.follows,
        }
        return framed({key: value for key, value in document.items() if value}, inlined)

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Commit:
        """What :meth:`to_bytes` gave.

        Args:
            content: the whole file.
            where: what users call it.

        Raises:
            LogCorruptedError: when it is damaged.
            LogError: when a newer version of headrace wrote it.
        """
        document = unframed(content, where)
        try:
            return cls(
                Author(*document["author"]),
                document.get("time", 0),
                {name: topic and topic_from_json(topic) for name, topic in document.get("topics", {}).items()},
                tuple(
                    (TopicPartition(topic, number), Segment.from_json(segment))
                    for topic, number, segment in document.get("appended", ())
                ),
                tuple(
                    Replacement(TopicPartition(topic, number), start, end, tuple(map(Segment.from_json, segments)))
                    for topic, number, start, end, segments in document.get("replaced", ())
                ),
                {TopicPartition(topic, number): offset for topic, number, offset in document.get("starts", ())},
                {name: group and Group.from_json(group) for name, group in document.get("groups", {}).items()},
                {name: offsets_from_json(offsets) for name, offsets in document.get("offsets", {}).items()},
                document.get("oldest_staged", 0),
                document.get("follows"),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LogCorruptedError(f"{where} is damaged: {type(error).__name__}: {error}") from error


def _pair(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def commit_name(number: int) -> str:
    """The name of a commit record."""
    return f"{number:020}.{SUFFIX}"


def commit_number(name: str) -> int | None:
    """The number of a commit record; None for the name of something else."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def topic_to_json(topic: TopicDescription) -> list[Any]:
    """As JSON has it."""
    return [topic.partitions, topic.config.settings()]


def topic_from_json(values: list[Any]) -> TopicDescription:
    """What :func:`topic_to_json` gave."""
    partitions, settings = values
    return TopicDescription(partitions, TopicConfig().with_settings(settings))


def framed(document: Mapping[str, Any], inlined: bytes = b"") -> bytes:
    """A document as a file, behind records if there are any."""
    text = json.dumps(document, separators=(",", ":")).encode()
    return _HEADER.pack(_MAGIC, FORMAT, crc32(text), HEADER_BYTES + len(inlined)) + inlined + text


def checksum_of(content: bytes) -> int:
    """The checksum that a file of :func:`framed` says its document has."""
    checksum: int = _HEADER.unpack_from(content)[2]
    return checksum


def unframed(content: bytes, where: str) -> dict[str, Any]:
    """The document of a file.

    Raises:
        LogCorruptedError: when it is damaged.
        LogError: when it has a newer format.
    """
    if len(content) < HEADER_BYTES:
        raise LogCorruptedError(f"{where} is cut short: it has {len(content)} bytes")
    magic, version, checksum, start = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise LogCorruptedError(f"{where} is damaged, or no file of a log: it begins with {magic!r}")
    if version != FORMAT:
        raise LogError(
            f"{where} has format {version}, this headrace reads {FORMAT}: use the version that wrote it, or a newer one"
        )
    if crc32(memoryview(content)[start:]) != checksum:
        raise LogCorruptedError(
            f"{where} is damaged: from byte {start} on it has not the checksum that it was written with"
        )
    document: dict[str, Any] = json.loads(memoryview(content)[start:].tobytes())
    return document
