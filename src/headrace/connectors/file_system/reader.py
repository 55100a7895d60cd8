"""The task's half of the file source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import SourceChangedError
from headrace.connectors.file_system.paths import FileStatus, stat_file
from headrace.connectors.source import SourceReader, SourceRecords
from headrace.formats.file_format import FileRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.connectors.source import Json
    from headrace.formats.file_format import FileFormat


class FileReader(SourceReader):
    """Reads parts of files and sees to it that they are the files that were planned.

    Args:
        fmt: the format of the files.
        reject: whether to hand over bad records instead of failing.
    """

    def __init__(self, fmt: FileFormat, *, reject: bool) -> None:
        self._format = fmt
        self._reject = reject

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for path, size, mtime_ns, start, end in piece:
            planned = FileStatus(path, size, mtime_ns)
            check_unchanged(planned)
            try:
                yield from self._records(FileRange(path, size, start, end))
            except FileNotFoundError as error:
                raise SourceChangedError(f"{path} was deleted while it was read") from error
            check_unchanged(planned)

    def _records(self, part: FileRange) -> Iterator[SourceRecords]:
        for decoded in self._format.read(part, reject=self._reject):
            rows = [] if decoded.columns is None and decoded.rows is None else decoded.rows
            yield SourceRecords(columns=decoded.columns, rows=rows, rejected=decoded.rejected)


def check_unchanged(planned: FileStatus) -> None:
    """Refuse a file that is not the one that was planned.

    Raises:
        SourceChangedError: naming the file and what changed.
    """
    now = stat_file(planned.path)
    if now is None:
        raise SourceChangedError(f"{planned.path} was deleted before it was read")
    if now.size != planned.size:
        raise SourceChangedError(f"{planned.path} had {planned.size} bytes when it was seen and has {now.size} now")
    if now.mtime_ns != planned.mtime_ns:
        raise SourceChangedError(f"{planned.path} was written to after it was seen")
