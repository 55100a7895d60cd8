"""Commits of a log, their form in files, and :class:`LogState`: the sum of all commits."""

import json
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, NamedTuple
from zlib import crc32

from headrace.common.config_options import choice, duration, memory_size
from headrace.common.errors import ConfigurationError, LogCorruptedError, LogError, UnknownTopicError, expect
from headrace.common.json_values import from_json, to_json
from headrace.common.messages import TopicPartition
from headrace.common.other_names import alike
from headrace.common.type_variables import T
from headrace.log.groups import Group
from headrace.log.records import Placed, Segment

_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")

MAX_PARTITIONS: Final = 10_000

UNLIMITED: Final = -1

_COMPRESSIONS: Final = ("none", "lz4", "zstd")
_POLICIES: Final = ("delete", "compact", "compact,delete")


class TopicConfig(NamedTuple):
    """Settings of a topic: how long its records are kept, and how they are stored.

    Attributes:
        cleanup_policy: ``delete`` by time and size, ``compact`` to the latest value of each key, or ``compact,delete``.
        retention_ms: how long records are kept, by their timestamps; -1 for ever, which is the default here.
        retention_bytes: how large a partition may be; -1 without bounds.
        delete_retention_ms: how long a deletion (a value that is None) stays after it was compacted.
        min_compaction_lag_ms: how old a record has to be to be compacted.
        compression_type: ``none``, ``lz4`` or ``zstd``.
    """

    cleanup_policy: str = "delete"
    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    compression_type: str = "lz4"

    @property
    def compacts(self) -> bool:
        """Tell whether only the latest value of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Tell whether records go by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def arrow_compression(self) -> str | None:
        """The compression under Arrow's name."""
        return None if self.compression_type == "none" else self.compression_type

    def with_settings(self, settings: Mapping[str, object]) -> "TopicConfig":
        """A copy with some settings changed.

        Args:
            settings: by Kafka's names, ``retention.ms`` say. Durations and sizes may have units: ``7 days``, ``1 gb``.

        Raises:
            ConfigurationError: when one is unknown or malformed.
        """
        values = self._asdict()
        for key, value in settings.items():
            name = key.replace(".", "_")
            if name not in _READERS:
                known = sorted(each.replace("_", ".") for each in _READERS)
                raise ConfigurationError(
                    f"a topic has no setting {key!r}{alike(key, known)}; it has {', '.join(known)}"
                )
            try:
                values[name] = _READERS[name](str(value).strip())
            except ValueError as error:
                raise ConfigurationError(f"setting {key!r} of a topic is {value!r}; expected {error}") from error
        return TopicConfig(**values)

    def settings(self) -> dict[str, object]:
        """All settings by Kafka's names."""
        return {name.replace("_", "."): value for name, value in self._asdict().items()}


def checked_topic(name: str) -> str:
    """Check the name of a topic.

    Raises:
        ConfigurationError: when it cannot.
    """
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a topic: 1 to 249 ASCII letters, digits, dots, hyphens and underscores"
        )
    return name


def checked_partitions(partitions: int) -> int:
    """Check a number of partitions.

    Raises:
        ConfigurationError: when it cannot.
        InvalidTypeError: when it is no number.
    """
    expect(partitions, int, "the number of partitions of a topic")
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise ConfigurationError(f"a topic has 1 to {MAX_PARTITIONS} partitions, not {partitions}")
    return partitions


def _unlimited(read: Callable[[str], int]) -> Callable[[str], int]:
    return lambda text: UNLIMITED if text == str(UNLIMITED) else read(text)


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "cleanup_policy": choice(*_POLICIES),
    "retention_ms": _unlimited(duration),
    "retention_bytes": _unlimited(memory_size),
    "delete_retention_ms": duration,
    "min_compaction_lag_ms": duration,
    "compression_type": choice(*_COMPRESSIONS),
}


SUFFIX: Final = "commit"
"""The ending of the names of commit records."""

_NAME: Final = re.compile(rf"([0-9]{{20}})\.{SUFFIX}")
_MAGIC: Final = b"headrace"
FORMAT: Final = 3
"""Raised when a headrace of an older version could not read a commit record or a snapshot."""

_HEADER: Final = struct.Struct("<8sHxxIQ")
"""Magic bytes, format, checksum of the document, and where it begins: behind the records that lie in the same file."""

HEADER_BYTES: Final = _HEADER.size
"""The offset at which inlined records begin."""


class Author(NamedTuple):
    """The writer of a commit, which is not done twice.

    Attributes:
        producer: the id of a producer; transactional ids are such.
        epoch: rises whenever another producer takes over the id.
        sequence: rises with each commit of a producer's epoch.
    """

    producer: str
    epoch: int = 0
    sequence: int = 0


TopicDescription = tuple[int, TopicConfig]
"""The number of partitions of a topic, and its settings."""


class Replacement(NamedTuple):
    """Segments that replace others of a partition.

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
    """The content of one commit record: a change of the log.

    Attributes:
        author: its producer.
        time: when, in milliseconds by the clock of the writer.
        topics: new and changed topics; None for one that is deleted.
        appended: segments with new records.
        replaced: segments that others take the place of.
        starts: the first offsets that partitions still have.
        groups: changed groups, whole; None for one that is deleted.
        offsets: by group, how far it has come.
        oldest_staged: no later commit may refer to files of records that were staged before this version.
        follows: the checksum of the commit before it, of the log's mark for the first. So commits of another log, or
            of an older copy, are not taken for those of this one.
    """

    author: Author
    time: int
    topics: Mapping[str, TopicDescription | None] = field(default_factory=dict)
    appended: tuple[Placed, ...] = ()
    replaced: tuple[Replacement, ...] = ()
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    groups: Mapping[str, Group | None] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    oldest_staged: int = 0
    follows: int = 0

    def to_bytes(self, inlined: bytes = b"") -> bytes:
        """The content of the file.

        Args:
            inlined: records that lie in it, from :data:`HEADER_BYTES` on.
        """
        return framed(self, inlined)

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> "Commit":
        """Decode what :meth:`to_bytes` gave.

        Args:
            content: the whole file.
            where: what users call it.

        Raises:
            LogCorruptedError: when it is damaged.
            LogError: when a newer version of headrace wrote it.
        """
        return unframed(cls, content, where)


def commit_name(number: int) -> str:
    """The name of a commit record."""
    return f"{number:020}.{SUFFIX}"


def commit_number(name: str) -> int | None:
    """The number of a commit record; None for the name of something else."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def framed(document: object, inlined: bytes = b"") -> bytes:
    """Encode a document as a file, behind the records that lie in the same file."""
    text = json.dumps(to_json(document), separators=(",", ":")).encode()
    return _HEADER.pack(_MAGIC, FORMAT, crc32(text), HEADER_BYTES + len(inlined)) + inlined + text


def checksum_of(content: bytes) -> int:
    """The checksum in the header of a file that :func:`framed` made."""
    checksum: int = _HEADER.unpack_from(content)[2]
    return checksum


def unframed(kind: type[T], content: bytes, where: str) -> T:
    """Decode a file that :func:`framed` made of a document of a type.

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
    try:
        return from_json(kind, json.loads(memoryview(content)[start:].tobytes()))
    except (ValueError, TypeError, AttributeError) as error:
        raise LogCorruptedError(f"{where} is damaged: {type(error).__name__}: {error}") from error


ANONYMOUS: Final = "~"
"""The beginning of the ids of producers without a transactional id."""

SNAPSHOT_INTERVAL: Final = 256
"""After how many commits a log writes down what it holds, so that the commits before are not needed."""

_HISTORY: Final = 4096

_REMEMBERED_PRODUCERS: Final = 10_000
"""The producers without a transactional id that are remembered, the latest to commit: one may not know
whether that was done, and ask again. No clock decides that: one that is ahead would have all of them forgotten."""


@dataclass(slots=True)
class Partition:
    """The segments of a partition.

    Attributes:
        start_offset: the first offset that may be read.
        end_offset: the offset of the next record.
        segments: in the order of their offsets, without overlaps.
    """

    start_offset: int = 0
    end_offset: int = 0
    segments: list[Segment] = field(default_factory=list)

    def append(self, segment: Segment) -> None:
        """Add new records."""
        self.segments.append(segment)
        self.end_offset = segment.end_offset

    def from_offset(self, offset: int, count: int) -> list[Segment]:
        """Some segments with records from an offset on."""
        first = bisect_right(self.segments, offset, key=attrgetter("end_offset"))
        return self.segments[first : first + count]

    def within(self, start: int, end: int) -> slice:
        """The segments within offsets, from a base offset to an end offset."""
        return slice(
            bisect_left(self.segments, start, key=attrgetter("base_offset")),
            bisect_right(self.segments, end, key=attrgetter("end_offset")),
        )

    def from_timestamp(self, timestamp: int) -> list[Segment]:
        """The segments with records of a timestamp or later ones, in the order of their offsets."""
        return [segment for segment in self.segments if segment.max_timestamp >= timestamp]

    def start_at(self, offset: int) -> None:
        """Drop the segments before an offset."""
        self.start_offset = max(self.start_offset, offset)
        first = bisect_right(self.segments, self.start_offset, key=attrgetter("end_offset"))
        del self.segments[:first]

    @property
    def bytes(self) -> int:
        """The bytes of its segments in their files."""
        return sum(segment.length for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic.

    Attributes:
        config: how records are kept.
        partitions: what it has.
        created: the version of the log that it came with; one that is deleted and made again has another.
    """

    config: TopicConfig
    partitions: list[Partition]
    created: int


class ProducerState(NamedTuple):
    """The state of a producer.

    Attributes:
        epoch: its newest; older ones are fenced.
        sequence: that of its last commit.
        placed: the topic, partition, first offset and number of the records of that, segment by segment.
    """

    epoch: int
    sequence: int
    placed: tuple[tuple[str, int, int, int], ...] = ()


@dataclass(slots=True)
class LogState:
    """The state of a log at a version: the sum of all commits up to it.

    Attributes:
        version: the number of the last of these.
        topics: by their names.
        producers: by their ids, in the order of their last commits.
        groups: by their names.
        oldest_staged: files of records that were staged before this version, and that nothing refers to, are removed.
        history: versions at intervals, and when each was committed in milliseconds.
        checksum: that of the last commit, which the next one names.
    """

    version: int = 0
    topics: dict[str, Topic] = field(default_factory=dict)
    producers: dict[str, ProducerState] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    oldest_staged: int = 0
    history: list[tuple[int, int]] = field(default_factory=list)
    checksum: int = 0

    def topic(self, name: str) -> Topic:
        """A topic.

        Raises:
            UnknownTopicError: when there is none of that name.
        """
        found = self.topics.get(name)
        if found is None:
            there = ", ".join(sorted(self.topics)[:20]) or "none at all"
            raise UnknownTopicError(f"the log has no topic {name!r}; there is {there}. Log.create_topic makes one")
        return found

    def partition(self, partition: TopicPartition) -> Partition:
        """A partition.

        Raises:
            UnknownTopicError: when there is none.
        """
        partitions = self.topic(partition.topic).partitions
        if not 0 <= partition.partition < len(partitions):
            raise UnknownTopicError(
                f"topic {partition.topic!r} has no partition {partition.partition}: it has {len(partitions)}, from 0 on"
            )
        return partitions[partition.partition]

    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """All partitions."""
        for name, topic in self.topics.items():
            for number, partition in enumerate(topic.partitions):
                yield TopicPartition(name, number), partition

    def partition_counts(self) -> dict[str, int]:
        """Return how many partitions each topic has."""
        return {name: len(topic.partitions) for name, topic in self.topics.items()}

    def files(self) -> set[str]:
        """The files that segments are in."""
        return {segment.file for _, partition in self.partitions() for segment in partition.segments}

    def apply(self, commit: Commit, checksum: int, where: str) -> None:
        """Apply the next commit.

        Args:
            commit: the commit that follows.
            checksum: that of its file.
            where: what users call its file.

        Raises:
            LogCorruptedError: when it cannot follow.
        """
        if commit.follows != self.checksum:
            raise LogCorruptedError(
                f"{where} does not follow on the commit before it, which is not the one that it was written after: a "
                "file of another log, or of an older copy of this one, is among the others. Put the whole folder back "
                "from one copy"
            )
        try:
            self._apply_topics(commit.topics)
            for partition, segment in commit.appended:
                found = self.partition(partition)
                if segment.base_offset != found.end_offset:
                    raise LogCorruptedError(
                        f"{where} does not follow on the commit before it: it appends to {partition} at offset "
                        f"{segment.base_offset}, which ends at {found.end_offset}"
                    )
                found.append(segment)
            for replacement in commit.replaced:
                self._replace(replacement)
            for partition, offset in commit.starts.items():
                self.partition(partition).start_at(offset)
        except UnknownTopicError as error:
            raise LogCorruptedError(f"{where} does not follow on the commit before it: {error}") from error
        self._apply_groups(commit)
        self._note(commit)
        self.oldest_staged = max(self.oldest_staged, commit.oldest_staged)
        self.version += 1
        self.checksum = checksum
        if not self.version % SNAPSHOT_INTERVAL:
            self.history = [*self.history[-_HISTORY:], (self.version, commit.time)]
            self._forget_producers()

    def _apply_topics(self, topics: Mapping[str, TopicDescription | None]) -> None:
        for name, described in topics.items():
            if described is None:
                self.topics.pop(name, None)
                continue
            known = self.topics.get(name)
            count, config = described
            partitions = known.partitions if known else []
            partitions += [Partition() for _ in range(count - len(partitions))]
            self.topics[name] = Topic(config, partitions, known.created if known else self.version + 1)

    def _replace(self, replacement: Replacement) -> None:
        partition = self.partition(replacement.partition)
        partition.segments[partition.within(replacement.start, replacement.end)] = replacement.segments

    def _apply_groups(self, commit: Commit) -> None:
        for name, group in commit.groups.items():
            if group is None:
                self.groups.pop(name, None)
            else:
                self.groups[name] = group
        for name, offsets in commit.offsets.items():
            self.groups[name] = self.groups.get(name, Group()).committed(offsets)

    def _note(self, commit: Commit) -> None:
        author = commit.author
        placed = tuple(
            (tp.topic, tp.partition, segment.base_offset, segment.end_offset - segment.base_offset)
            for tp, segment in commit.appended
        )
        self.producers.pop(author.producer, None)  # the producer that has committed last is the last of them
        self.producers[author.producer] = ProducerState(author.epoch, author.sequence, placed)

    def _forget_producers(self) -> None:
        anonymous = [producer for producer in self.producers if producer.startswith(ANONYMOUS)]
        for producer in anonymous[:-_REMEMBERED_PRODUCERS]:
            del self.producers[producer]
