"""``FileCompactStrategy`` and ``FileCompactor``: when a sink puts small files together to larger ones, and how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING

from headrace.common.arguments import expect
from headrace.common.errors import InvalidProgramError
from headrace.connectors.file_system.staging import Part, PartBoundaries
from headrace.formats.joining import BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.connectors.file_system.rolling import RollingPolicy
    from headrace.connectors.file_system.staging import PartForm
    from headrace.formats.joining import FileKind


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
