"""When what tasks have written becomes a visible file: rolling policies, compaction, and the pre-commit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING, Final

from headrace.common.arguments import expect
from headrace.common.errors import InvalidProgramError
from headrace.common.time import to_millis
from headrace.connectors.file_system.staging import Chunk, Part, PartBoundaries, PartForm
from headrace.connectors.sink import PreCommit, PreCommitted
from headrace.formats.encoders import BYTES

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Sequence

    from headrace.common.time import Duration
    from headrace.connectors.sink import Json
    from headrace.formats.encoders import FileKind


DEFAULT_PART_SIZE = 128 << 20
DEFAULT_INTERVAL = 60_000


class RollingPolicy(ABC):
    """Decides when a part file is complete.

    Examples:
        >>> from headrace.datastream.connectors import RollingPolicy
        >>> RollingPolicy.default_rolling_policy(part_size=64 * 1024 * 1024, rollover_interval=300_000)
        DefaultRollingPolicy(part_size=67108864, rollover_interval=300000, inactivity_interval=60000)
    """

    @staticmethod
    def default_rolling_policy(
        part_size: int = DEFAULT_PART_SIZE,
        rollover_interval: Duration | datetime.timedelta | int = DEFAULT_INTERVAL,
        inactivity_interval: Duration | datetime.timedelta | int = DEFAULT_INTERVAL,
    ) -> DefaultRollingPolicy:
        """Roll by size and age; what was written by several epochs is put together into one file.

        Args:
            part_size: bytes from which on a part is complete; it is exceeded by what one epoch wrote.
            rollover_interval: the longest time that a part stays hidden (milliseconds when an ``int``).
            inactivity_interval: how long a part waits for more (milliseconds when an ``int``).
        """
        return DefaultRollingPolicy(part_size, to_millis(rollover_interval), to_millis(inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Every epoch makes files of its own, visible as soon as it is complete."""
        return OnCheckpointRollingPolicy()

    @property
    def merges(self) -> bool:
        """Whether what several epochs wrote may become one file."""
        return True

    @abstractmethod
    def is_complete(self, size: int, first_written: int, last_written: int, now: int) -> bool:
        """Whether a part is complete.

        Args:
            size: its bytes.
            first_written: when its first record was written, in milliseconds of the job's clock.
            last_written: when its last one was.
            now: the clock.
        """

    def complete_at(self, first_written: int, last_written: int) -> int | None:
        """When a part is complete by its age, in milliseconds of the job's clock, so that a quiet job looks at it then.

        None, the default: it is looked at only when the job has something to do.
        """
        return None


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """Rolls by size, age and inactivity; see :meth:`RollingPolicy.default_rolling_policy`.

    Examples:
        >>> from headrace.datastream.connectors.file_system import DefaultRollingPolicy
        >>> policy = DefaultRollingPolicy(part_size=1_000)
        >>> policy.is_complete(1_200, first_written=0, last_written=10, now=20)
        True
    """

    part_size: int = DEFAULT_PART_SIZE
    rollover_interval: int = DEFAULT_INTERVAL
    inactivity_interval: int = DEFAULT_INTERVAL

    def __post_init__(self) -> None:
        for name in ("part_size", "rollover_interval", "inactivity_interval"):
            expect(getattr(self, name), int, name)
        if min(self.part_size, self.rollover_interval, self.inactivity_interval) <= 0:
            raise InvalidProgramError("the part size and the intervals of a rolling policy are above 0")

    def is_complete(self, size: int, first_written: int, last_written: int, now: int) -> bool:
        return (
            size >= self.part_size
            or now - first_written >= self.rollover_interval
            or now - last_written >= self.inactivity_interval
        )

    def complete_at(self, first_written: int, last_written: int) -> int | None:
        return min(first_written + self.rollover_interval, last_written + self.inactivity_interval)


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """Rolls at every epoch.

    Examples:
        >>> from headrace.datastream.connectors.file_system import OnCheckpointRollingPolicy
        >>> OnCheckpointRollingPolicy().is_complete(1, first_written=0, last_written=0, now=0)
        True
    """

    @property
    def merges(self) -> bool:
        return False

    def is_complete(self, size: int, first_written: int, last_written: int, now: int) -> bool:
        return True

    def complete_at(self, first_written: int, last_written: int) -> int | None:
        return last_written


class FileCompactStrategyBuilder:
    """Puts a :class:`FileCompactStrategy` together."""

    def __init__(self) -> None:
        self._size: int | None = None
        self._checkpoints: int | None = None
        self._threads = 1

    def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> FileCompactStrategyBuilder:
        """Put together what there is once files have waited for so many epochs."""
        self._checkpoints = _positive(num_checkpoints_before_compaction, "enable_compaction_on_checkpoint")
        return self

    def set_size_threshold(self, size_threshold: int) -> FileCompactStrategyBuilder:
        """Put files together when they have so many bytes."""
        self._size = _positive(size_threshold, "set_size_threshold")
        return self

    def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategyBuilder:
        """Have so many tasks put files together at once."""
        self._threads = _positive(num_compact_threads, "set_num_compact_threads")
        return self

    def build(self) -> FileCompactStrategy:
        """The strategy.

        Raises:
            InvalidProgramError: when nothing was said of when to put files together.
        """
        if self._size is None and self._checkpoints is None:
            raise InvalidProgramError(
                "a strategy says when files are put together: call set_size_threshold(bytes) or "
                "enable_compaction_on_checkpoint(epochs)"
            )
        return FileCompactStrategy(self._size, self._checkpoints, self._threads)


@dataclass(frozen=True, slots=True)
class FileCompactStrategy:
    """When the files of a bucket are put together: at a size, after a number of epochs, or at what comes first.

    Attributes:
        size_threshold: the bytes that are enough for a file; None where size does not matter.
        num_checkpoints: for how many epochs a file waits at most; None where that does not matter.
        num_compact_threads: how many tasks put files together at once; with one, the driver does.

    Examples:
        >>> from headrace.datastream.connectors.file_system import FileCompactStrategy
        >>> strategy = FileCompactStrategy.builder().set_size_threshold(1 << 27)
        >>> strategy = strategy.enable_compaction_on_checkpoint(60).build()
    """

    Builder = FileCompactStrategyBuilder

    size_threshold: int | None = None
    num_checkpoints: int | None = None
    num_compact_threads: int = 1

    @staticmethod
    def builder() -> FileCompactStrategyBuilder:
        """Begin a strategy."""
        return FileCompactStrategyBuilder()


def _positive(number: int, method: str) -> int:
    expect(number, int, method)
    if number <= 0:
        raise InvalidProgramError(f"{method} takes a number above 0, not {number}")
    return number


class FileCompactor(ABC):
    """How files are put together.

    Examples:
        >>> from headrace.datastream.connectors.file_system import FileCompactor
        >>> FileCompactor.concat_file_compactor(b"---")
        ConcatFileCompactor(delimiter=b'---')
    """

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """One file after the other, with a delimiter between them if there is one; a header comes once."""
        delimiter = b"" if file_delimiter is None else file_delimiter
        expect(delimiter, bytes, "concat_file_compactor")
        return ConcatFileCompactor(delimiter)

    @staticmethod
    def record_wise_file_compactor() -> FileCompactor:
        """One file with the records of all: of Parquet, ORC and Avro, and of formats of lines as they are joined else.

        Small row groups, stripes and blocks become larger ones.
        """
        return RecordWiseFileCompactor()

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Every file stays as it is, and becomes visible when the strategy says."""
        return IdenticalFileCompactor()

    @abstractmethod
    def joins(self, kind: FileKind | None) -> bool:
        """Whether it makes one file of several of a kind, which not every format allows."""

    @abstractmethod
    def compacted(self, parts: Sequence[Part]) -> list[Part]:
        """What becomes of some files of a bucket."""


class _JoiningFileCompactor(FileCompactor):
    """Joins those files that follow each other and are alike; others stay as they are."""

    delimiter = b""

    def compacted(self, parts: Sequence[Part]) -> list[Part]:
        groups = ((form, list(group)) for form, group in groupby(parts, key=lambda part: part.form))
        joined = ([self._one(form, group)] if self.joins(form.kind) else group for form, group in groups)
        return list(chain.from_iterable(joined))

    def _one(self, form: PartForm, parts: list[Part]) -> Part:
        *starts, _ = accumulate(len(part.chunks) for part in parts)
        chunks = tuple(chunk for part in parts for chunk in part.chunks)
        return Part(
            parts[0].bucket, chunks, form, is_complete=True, seams=PartBoundaries(tuple(starts), self.delimiter)
        )


@dataclass(frozen=True)
class ConcatFileCompactor(_JoiningFileCompactor):
    """See :meth:`FileCompactor.concat_file_compactor`."""

    delimiter: bytes

    def joins(self, kind: FileKind | None) -> bool:
        return kind is not None and kind.format == BYTES


@dataclass(frozen=True)
class RecordWiseFileCompactor(_JoiningFileCompactor):
    """See :meth:`FileCompactor.record_wise_file_compactor`."""

    def joins(self, kind: FileKind | None) -> bool:
        return kind is not None


@dataclass(frozen=True)
class IdenticalFileCompactor(FileCompactor):
    """See :meth:`FileCompactor.identical_file_compactor`."""

    def joins(self, kind: FileKind | None) -> bool:
        return False

    def compacted(self, parts: Sequence[Part]) -> list[Part]:
        return list(parts)


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a sink was asked for.

    Attributes:
        strategy: when.
        compactor: how.
    """

    strategy: FileCompactStrategy
    compactor: FileCompactor


@dataclass(frozen=True, slots=True)
class PartAssembly:
    """When what was written becomes a visible file.

    Attributes:
        policy: when a part is complete.
        compaction: when and how parts are put together; None for not at all.
    """

    policy: RollingPolicy
    compaction: Compaction | None = None

    @property
    def joins_chunks(self) -> bool:
        """Whether a file may be of several chunks."""
        return self.policy.merges or self.compaction is not None

    @property
    def tasks(self) -> int:
        """How many tasks put files together at once."""
        return 1 if self.compaction is None else self.compaction.strategy.num_compact_threads


_QUIET_MILLIS: Final = 1_000
"""Epochs are counted so often while nothing comes."""


class RollingPreCommit(PreCommit):
    """Asks a rolling policy, for each subtask and bucket, whether what has been written is enough for a file.

    A chunk that is a file as it stands becomes one at once.

    Args:
        policy: decides.
    """

    def __init__(self, policy: RollingPolicy) -> None:
        self._policy = policy

    def prepare(
        self, in_progress: Json | None, committables: Sequence[Json], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        waiting = {(series.bucket, series.subtask): series for series in map(_Series.from_json, in_progress or ())}
        parts = []
        for part in map(Part.from_json, committables):
            if part.is_complete:
                parts.append(part)
            else:
                (chunk,) = part.chunks
                key = (part.bucket, chunk.name.subtask)
                series = waiting.setdefault(key, _Series(*key, part.form, []))
                series.form = part.form  # the program may have changed it
                series.chunks.append(chunk)
        for series in waiting.values():
            groups = [series.chunks[:]] if is_last else list(self._complete(series.chunks, processing_time))
            parts += (Part(series.bucket, tuple(group), series.form, is_complete=True) for group in groups if group)
            del series.chunks[: sum(map(len, groups))]
        still = [series.to_json() for _, series in sorted(waiting.items()) if series.chunks]
        return PreCommitted(tuple(part.to_json() for part in parts), still or None)

    def due(self, in_progress: Json) -> int | None:
        ends = ((Chunk.from_json(chunks[0]), Chunk.from_json(chunks[-1])) for *_, chunks in in_progress)
        ages = (self._policy.complete_at(first.name.written, last.name.written) for first, last in ends)
        return min((age for age in ages if age is not None), default=None)

    def _complete(self, chunks: list[Chunk], now: int) -> Iterator[list[Chunk]]:
        """The leading runs of chunks that are complete."""
        group: list[Chunk] = []
        size = 0
        for chunk in chunks:
            group.append(chunk)
            size += chunk.size
            if self._policy.is_complete(size, now, now, now):  # by size alone
                yield group
                group, size = [], 0
        if group and self._policy.is_complete(size, group[0].name.written, group[-1].name.written, now):
            yield group


@dataclass(slots=True)
class _Series:
    """The chunks of one subtask and bucket that wait to become files."""

    bucket: str
    subtask: int
    form: PartForm
    chunks: list[Chunk]

    def to_json(self) -> Json:
        return [self.bucket, self.subtask, self.form.to_json(), [chunk.to_json() for chunk in self.chunks]]

    @staticmethod
    def from_json(document: Json) -> _Series:
        bucket, subtask, form, chunks = document
        return _Series(bucket, subtask, PartForm.from_json(form), [Chunk.from_json(chunk) for chunk in chunks])


class CompactingPreCommit(PreCommit):
    """Has the files that a rolling policy makes wait until they are put together; without a compaction none waits.

    Args:
        rolling: decides what is a file.
        compaction: when and how files are put together; None for not at all.
    """

    def __init__(self, rolling: RollingPreCommit, compaction: Compaction | None) -> None:
        self._rolling = rolling
        self._compaction = compaction

    def prepare(
        self, in_progress: Json | None, committables: Sequence[Json], processing_time: int, *, is_last: bool
    ) -> PreCommitted:
        before = _Waiting.from_json(in_progress)
        rolled = self._rolling.prepare(before.series, committables, processing_time, is_last=is_last)
        piles = {pile.bucket: pile for pile in before.piles}
        for part in map(Part.from_json, rolled.ready):
            piles.setdefault(part.bucket, _CompactionCandidate(part.bucket, 0, [])).parts.append(part)
        ready = [part for pile in piles.values() for part in self._taken_from(pile, is_last=is_last)]
        left = tuple(pile for _, pile in sorted(piles.items()) if pile.parts)
        after = _Waiting(rolled.in_progress, left, processing_time)
        return PreCommitted(tuple(part.to_json() for part in ready), after.to_json())

    def due(self, in_progress: Json) -> int | None:
        waiting = _Waiting.from_json(in_progress)
        rolled = None if waiting.series is None else self._rolling.due(waiting.series)
        times = [] if rolled is None else [rolled]
        if waiting.piles and (self._compaction is None or self._compaction.strategy.num_checkpoints is not None):
            times.append(waiting.looked_at + _QUIET_MILLIS)
        return min(times, default=None)

    def _taken_from(self, pile: _CompactionCandidate, *, is_last: bool) -> list[Part]:
        """The files that become visible, which the pile loses."""
        if self._compaction is None:
            taken, pile.parts = pile.parts, []
            return taken
        strategy = self._compaction.strategy
        groups = list(pile.take_by_size(strategy.size_threshold))
        pile.epochs = 1 if groups else pile.epochs + 1
        if pile.parts and (is_last or pile.epochs >= (strategy.num_checkpoints or math.inf)):
            groups.append(pile.parts)
            pile.parts = []
        return [part for group in groups for part in self._compaction.compactor.compacted(group)]


@dataclass(slots=True)
class _CompactionCandidate:
    """The files of one bucket that wait to be put together, and for how many epochs they have."""

    bucket: str
    epochs: int
    parts: list[Part]

    def take_by_size(self, threshold: int | None) -> Iterator[list[Part]]:
        """The leading runs of files that are large enough."""
        waiting, self.parts, size = self.parts, [], 0
        for part in waiting:
            self.parts.append(part)
            size += part.size
            if threshold is not None and size >= threshold:
                yield self.parts
                self.parts, size = [], 0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """All that is not committed: what is no file yet, what waits to be put together, and when that was looked at."""

    series: Json | None
    piles: tuple[_CompactionCandidate, ...] = ()
    looked_at: int = 0

    def to_json(self) -> Json | None:
        """What the rolling policy holds back alone where nothing waits to be put together."""
        if not self.piles:
            return self.series
        piles = [[pile.bucket, pile.epochs, [part.to_json() for part in pile.parts]] for pile in self.piles]
        return {"series": self.series, "piles": piles, "looked_at": self.looked_at}

    @staticmethod
    def from_json(document: Json | None) -> _Waiting:
        if not isinstance(document, dict):
            return _Waiting(document)
        found = ((bucket, epochs, list(map(Part.from_json, parts))) for bucket, epochs, parts in document["piles"])
        return _Waiting(document["series"], tuple(_CompactionCandidate(*pile) for pile in found), document["looked_at"])


def chunks_in_progress(in_progress: Json | None) -> Iterator[tuple[str, Chunk]]:
    """All chunks that are part of no visible file yet, with their buckets."""
    waiting = _Waiting.from_json(in_progress)
    for series in map(_Series.from_json, waiting.series or ()):
        for chunk in series.chunks:
            yield series.bucket, chunk
    for pile in waiting.piles:
        for part in pile.parts:
            for chunk in part.chunks:
                yield pile.bucket, chunk
