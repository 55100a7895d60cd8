"""Files that the source can do without: those that are gone before they are read, and those that are damaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CorruptFileError, SourceChangedError
from headrace.common.logs import get_logger
from headrace.connectors.source import SourceRecords
from headrace.metrics.own_names import FILES_CORRUPT, FILES_MISSING
from headrace.storage.files import shown

if TYPE_CHECKING:
    from headrace.connectors.source import Json


GONE: Final = (FileNotFoundError, NotADirectoryError)
"""What is raised for a file that is not there."""

logger = get_logger(__name__)

_WHERE: Final = "on the builder of the FileSource"


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """A file, or the rest of one, that the source goes on without.

    Attributes:
        path: the file.
        counter: what counts it.
        reason: what is wrong with it.
    """

    path: str
    counter: str
    reason: str

    def to_json(self) -> Json:
        """For the reader, when it was the enumerator that met it."""
        return [self.counter, self.reason]

    def records(self, *, reject: bool) -> SourceRecords:
        """What the job hears of it; a record too when ``reject`` says that there is a dead-letter output."""
        rejected = [(shown(self.path), "", self.reason)] if reject else []
        return SourceRecords(rows=[], rejected=rejected, counters={self.counter: 1})


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What the source can do without.

    Attributes:
        missing: files that were deleted before they were read.
        corrupt: what cannot be read of damaged files.
    """

    missing: bool = False
    corrupt: bool = False

    def loss(self, path: str, error: Exception) -> SkippedRange:
        """What is lost when the source goes on after ``error``; that it does is logged.

        Args:
            path: the file.
            error: why it cannot be read (any further): a ``CorruptFileError``, or one of :data:`GONE`.

        Raises:
            CorruptFileError: when the source must not go on.
            SourceChangedError: likewise.
        """
        found = self._corrupt(path, error) if isinstance(error, CorruptFileError) else self._missing(path, error)
        logger.warning("what cannot be read of %s is skipped: %s", shown(path), found.reason)
        return found

    def _corrupt(self, path: str, error: CorruptFileError) -> SkippedRange:
        if not self.corrupt:
            raise CorruptFileError(
                f"{error}. To go on without what cannot be read of such files, call ignore_corrupt_files() {_WHERE}"
            ) from error
        return SkippedRange(path, FILES_CORRUPT, str(error))

    def _missing(self, path: str, error: Exception) -> SkippedRange:
        if not self.missing:
            raise SourceChangedError(
                f"{shown(path)} was deleted before it was read to its end. Put it back as it was, or, to go on without "
                f"such files, call ignore_missing_files() {_WHERE}"
            ) from error
        return SkippedRange(path, FILES_MISSING, "the file was deleted before it was read to its end")


STRICT: Final = Tolerance()
"""Every file has to be read to its end."""
