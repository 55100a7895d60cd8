"""Rolling policies, compaction, and the pre-commit: they decide when written chunks become visible files."""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from operator import attrgetter, itemgetter
from typing import Final, Literal, NamedTuple, Self, TypeVar

from headrace.common.builder import Builder
from headrace.common.config_options import ConfigOption, memory_size, positive_duration
from headrace.common.errors import InvalidProgramError, expect
from headrace.common.json_values import from_json
from headrace.common.time import Duration, to_millis
from headrace.connectors.file_system.staging import PartChunk, PartFile
from headrace.connectors.sink import Json, PreCommit, PreCommitted
from headrace.formats.file_format import BYTES, FileKind

DEFAULT_PART_SIZE = 128 << 20
DEFAULT_INTERVAL = 60_000

ROLLING_SIZE: Final = ConfigOption(
    "sink.rolling-policy.file-size", memory_size, DEFAULT_PART_SIZE, "From which size on a file is complete."
)
ROLLOVER_INTERVAL: Final = ConfigOption(
    "sink.rolling-policy.rollover-interval", positive_duration, DEFAULT_INTERVAL, "How long a file stays hidden."
)
INACTIVITY_INTERVAL: Final = ConfigOption(
    "sink.rolling-policy.inactivity-interval", positive_duration, DEFAULT_INTERVAL, "How long a file waits for more."
)
ROLLING_OPTIONS: Final = (ROLLING_SIZE, ROLLOVER_INTERVAL, INACTIVITY_INTERVAL)
"""The options of a rolling policy, in the order of :meth:`RollingPolicy.default_rolling_policy`."""


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
        """Tell whether what several epochs wrote may become one file."""
        return True

    @abstractmethod
    def is_complete(self, size: int, first_written: int, last_written: int, now: int) -> bool:
        """Tell whether a part is complete.

        Args:
            size: its bytes.
            first_written: when its first record was written, in milliseconds of the job's clock.
            last_written: when its last one was.
            now: the clock.
        """

    def complete_at(self, first_written: int, last_written: int) -> int | None:
        """The time of the job's clock, in milliseconds, at which a part is complete by its age.

        A quiet job looks at it then. None, the default: it does so only when it has something to do.
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


class FileCompactStrategyBuilder(Builder):
    """Puts a :class:`FileCompactStrategy` together."""

    def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> Self:
        """Put together what there is once files have waited for so many epochs."""
        number = _positive(num_checkpoints_before_compaction, "enable_compaction_on_checkpoint")
        return self._set(num_checkpoints=number)

    def set_size_threshold(self, size_threshold: int) -> Self:
        """Put files together when they have so many bytes."""
        return self._set(size_threshold=_positive(size_threshold, "set_size_threshold"))

    def set_num_compact_threads(self, num_compact_threads: int) -> Self:
        """Have so many tasks put files together at once."""
        return self._set(num_compact_threads=_positive(num_compact_threads, "set_num_compact_threads"))

    def build(self) -> FileCompactStrategy:
        """The strategy.

        Raises:
            InvalidProgramError: when nothing was said of when to put files together.
        """
        if not self._given.keys() & {"size_threshold", "num_checkpoints"}:
            raise InvalidProgramError(
                "a strategy says when files are put together: call set_size_threshold(bytes) or "
                "enable_compaction_on_checkpoint(epochs)"
            )
        return FileCompactStrategy(**self._given)


@dataclass(frozen=True, slots=True)
class FileCompactStrategy:
    """Tells when the files of a bucket are compacted: at a size, after a number of epochs, or whichever comes first.

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


@dataclass(frozen=True)
class FileCompactor:
    """Compacts files; created by one of its static methods.

    Attributes:
        method: ``concat``, ``record_wise`` or ``identical``.
        delimiter: what comes between two files that are concatenated.

    Examples:
        >>> from headrace.datastream.connectors.file_system import FileCompactor
        >>> FileCompactor.concat_file_compactor(b"---")
        FileCompactor(method='concat', delimiter=b'---')
    """

    method: Literal["concat", "record_wise", "identical"]
    delimiter: bytes = b""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Put one file after the other, with a delimiter between them if there is one; a header comes once."""
        delimiter = b"" if file_delimiter is None else file_delimiter
        expect(delimiter, bytes, "concat_file_compactor")
        return FileCompactor("concat", delimiter)

    @staticmethod
    def record_wise_file_compactor() -> FileCompactor:
        """Make one file with the records of all: of Parquet, ORC and Avro, and of formats of lines by their bytes.

        Small row groups, stripes and blocks become larger ones.
        """
        return FileCompactor("record_wise")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Every file stays as it is, and becomes visible when the strategy says."""
        return FileCompactor("identical")

    def compacted(self, parts: Sequence[PartFile]) -> list[PartFile]:
        """Join those files of a bucket that follow each other and are alike; others stay as they are."""
        found: list[PartFile] = []
        for form, group in groupby(parts, key=lambda part: part.form):
            alike = list(group)
            found += [self._joined(alike)] if self._joins(form.kind) else alike
        return found

    def _joins(self, kind: FileKind | None) -> bool:
        if kind is None or self.method == "identical":
            return False
        return self.method == "record_wise" or kind.format == BYTES

    def _joined(self, parts: list[PartFile]) -> PartFile:
        *starts, _ = accumulate(len(part.chunks) for part in parts)
        chunks = tuple(chunk for part in parts for chunk in part.chunks)
        return parts[0]._replace(chunks=chunks, boundaries=tuple(starts), delimiter=self.delimiter.decode("latin-1"))


Compaction = tuple[FileCompactStrategy, FileCompactor]
"""A strategy, which decides when to compact, and a compactor, which does it."""

_QUIET_MILLIS: Final = 1_000
"""Epochs are counted so often while nothing comes."""

_Sized = TypeVar("_Sized", PartChunk, PartFile)


@dataclass(frozen=True, slots=True)
class FilePreCommit(PreCommit):
    """Decides which files become visible with the manifest of an epoch, and what waits.

    What one subtask writes into one bucket grows, epoch by epoch, until the rolling policy says that it is enough for a
    file; a chunk that is a file as it stands is one at once. With compaction, files then wait until the strategy says
    that there are enough of them in their bucket.

    Attributes:
        policy: decides when a file is complete.
        compaction: when and how files are compacted; None shows those that still wait for it as they are.
    """

    policy: RollingPolicy
    compaction: Compaction | None

    def prepare(
        self,
        in_progress: Json | None,
        committables: Sequence[Json],
        processing_time: int,
        *,
        is_last: bool,
        complete: Collection[str] = (),
    ) -> PreCommitted:
        """Do as the base class does; the files of complete buckets do not wait for more, either."""
        before = PartsInProgress.of(in_progress)
        written = from_json(list[PartFile], committables)

        def ends(bucket: str) -> bool:
            return is_last or bucket in complete

        rolled, growing = self._rolled(before.growing, written, processing_time, ends)
        waiting = dict(before.compacting)
        for part in rolled:
            waiting.setdefault(part.bucket, (0, []))[1].append(part)
        ready: list[PartFile] = []
        left: dict[str, tuple[int, list[PartFile]]] = {}
        for bucket in sorted(waiting):
            shown, epochs, parts = self._compacted(*waiting[bucket], ends(bucket))
            ready += shown
            if parts:
                left[bucket] = epochs, parts
        return PreCommitted(tuple(ready), PartsInProgress(growing, left, processing_time) if growing or left else None)

    def due(self, in_progress: Json) -> int | None:
        waiting = PartsInProgress.of(in_progress)
        ends = ((part.chunks[0].written, part.chunks[-1].written) for part in waiting.growing)
        times = [time for first, last in ends if (time := self.policy.complete_at(first, last)) is not None]
        if waiting.compacting and (self.compaction is None or self.compaction[0].num_checkpoints is not None):
            times.append(waiting.looked_at + _QUIET_MILLIS)
        return min(times, default=None)

    def _rolled(
        self, growing: Sequence[PartFile], written: Iterable[PartFile], now: int, ends: Callable[[str], bool]
    ) -> tuple[list[PartFile], list[PartFile]]:
        """Add what an epoch has written to the parts that grow; gives those that are complete, and those that grow."""
        waiting = {(part.bucket, part.chunks[0].subtask): part for part in growing}
        complete, still = list[PartFile](), list[PartFile]()
        for part in written:
            if part.is_complete:
                complete.append(part)
            else:
                key = (part.bucket, part.chunks[0].subtask)
                before = waiting[key].chunks if key in waiting else ()
                waiting[key] = part._replace(chunks=before + part.chunks)  # the form is that of the program now
        for _, part in sorted(waiting.items(), key=itemgetter(0)):
            runs, rest = _cut(part.chunks, lambda size: self.policy.is_complete(size, now, now, now))  # by size alone
            if rest and (ends(part.bucket) or self._is_complete(rest, now)):
                runs, rest = [*runs, rest], []
            complete += [part._replace(chunks=tuple(chunks), is_complete=True) for chunks in runs]
            if rest:
                still.append(part._replace(chunks=tuple(rest)))
        return complete, still

    def _is_complete(self, chunks: Sequence[PartChunk], now: int) -> bool:
        size = sum(map(attrgetter("size"), chunks))
        return self.policy.is_complete(size, chunks[0].written, chunks[-1].written, now)

    def _compacted(
        self, epochs: int, parts: list[PartFile], is_last: bool
    ) -> tuple[list[PartFile], int, list[PartFile]]:
        """The parts of a bucket that become visible, for how many epochs the others have waited, and the others."""
        if self.compaction is None:
            return parts, 0, []
        strategy, compactor = self.compaction
        most = math.inf if strategy.size_threshold is None else strategy.size_threshold
        runs, rest = _cut(parts, lambda size: size >= most)
        epochs = 1 if runs else epochs + 1
        if rest and (is_last or epochs >= (strategy.num_checkpoints or math.inf)):
            runs, rest = [*runs, rest], []
        return [part for run in runs for part in compactor.compacted(run)], epochs, rest


def _cut(items: Sequence[_Sized], is_enough: Callable[[int], bool]) -> tuple[list[list[_Sized]], list[_Sized]]:
    """Cut off the leading runs whose bytes are enough; gives them, and what is left."""
    runs: list[list[_Sized]] = []
    rest: list[_Sized] = []
    size = 0
    for item in items:
        rest.append(item)
        size += item.size
        if is_enough(size):
            runs.append(rest)
            rest, size = [], 0
    return runs, rest


class PartsInProgress(NamedTuple):
    """The parts that are written, and in no committable yet; a value of JSON, as the manifest has it.

    Attributes:
        growing: the parts that wait for more chunks, at most one for each subtask and bucket.
        compacting: by bucket, for how many epochs parts have waited to be compacted, and the parts.
        looked_at: when that was last decided, in milliseconds of the job's clock.
    """

    growing: list[PartFile]
    compacting: Mapping[str, tuple[int, list[PartFile]]]
    looked_at: int = 0

    @staticmethod
    def of(in_progress: Json | None) -> PartsInProgress:
        """The parts as they come back from a manifest."""
        return from_json(PartsInProgress, in_progress) if in_progress else PartsInProgress([], {})

    def chunks(self) -> Iterator[tuple[str, PartChunk]]:
        """All chunks, with their buckets."""
        for part in chain(self.growing, *(parts for _, parts in self.compacting.values())):
            for chunk in part.chunks:
                yield part.bucket, chunk
