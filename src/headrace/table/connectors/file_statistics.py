"""Statistics of tables in files, from what the files say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from headrace.common.errors import HeadraceError
from headrace.connectors.file_system.paths import InputPaths
from headrace.formats.file_format import FileFormat
from headrace.formats.statistics import ColumnStatistics, Statistics
from headrace.storage.files import InputFile

_MOST_FILES: Final = 64
"""The number of files that are looked into; of more, some stand for all."""


def statistics_of_files(paths: InputPaths, reader: FileFormat) -> Statistics | None:
    """The statistics of the records in files.

    Args:
        paths: the files.
        reader: their format.

    Returns:
        What is known; None where the files say nothing, or cannot be read, which the job will tell.
    """
    try:
        files = [InputFile(paths.store_of(each.path), each.path, each.size) for each in paths.find()]
        chosen = files[:: -(-len(files) // _MOST_FILES) or 1]
        found = [reader.statistics(file) for file in chosen]
    except (HeadraceError, OSError):
        return None
    known = [each for each in found if each is not None]
    if not files or len(known) < len(found):
        return None
    size = sum(file.size for file in chosen)
    share = sum(file.size for file in files) / size if size else 1.0
    return _of_all(known, share, is_exact=len(chosen) == len(files) and all(each.is_exact for each in known))


def _of_all(parts: Sequence[Statistics], share: float, *, is_exact: bool) -> Statistics:
    """The statistics of all rows, a share of which has been looked at."""

    @cache
    def column(name: str) -> ColumnStatistics:
        return ColumnStatistics.of_all(part.column(name) for part in parts)

    return Statistics(round(sum(part.rows for part in parts) * share), column, is_exact)
