"""Paths as users write them and where they are, and files that are not as they were planned."""

import errno
import glob
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from headrace.common.errors import (
    CorruptFileError,
    InfrastructureError,
    InvalidProgramError,
    InvalidTypeError,
    SourceChangedError,
    UnsupportedOperationError,
    refused,
)
from headrace.common.logs import get_logger
from headrace.connectors.file_system.overwrite_log import NEVER, OverwriteLog
from headrace.connectors.source import SourceRecords
from headrace.metrics.registry import FILES_CORRUPT, FILES_MISSING
from headrace.storage.files import FileStatus, FileStore, has_wildcards, is_hidden, matches, shown
from headrace.storage.locations import HDFS, OBJECT_STORES, REMOTE, bucket_of, file_system_of, place_of, usual_spelling

logger = get_logger(__name__)

_NAMES_OF_OURS = ("files-00000001.log", "000000000001.json", "1-0-1-0-0123456789abcdef.state", "1")
"""Names as files in a checkpoint directory have them."""

_URI = re.compile(r"([a-z][a-z0-9+.-]+):(/.*)", re.IGNORECASE | re.DOTALL)
_PATH_OF_FILE_URI = re.compile(r"(?://(?:localhost)?)?(/(?!/).*)", re.IGNORECASE | re.DOTALL)
_OBJECT = re.compile(r"//([^/]+)(/.*)?", re.DOTALL)
_PATH_OF_HDFS_URI = re.compile(r"//([^/]*)(/.*)", re.DOTALL)


def resolved(path: str | os.PathLike[str]) -> str:
    """The absolute path, or the URI on a remote storage, that ``path`` means.

    Raises:
        InvalidTypeError: when it is no path at all.
        UnsupportedOperationError: when it is on another file system.
        CheckpointStorageError: when it is a URI with more than a bucket and a key.
        InvalidProgramError: when it is empty or begins with the home of an unknown user, or when the working directory
            was deleted.
    """
    if not isinstance(path, str | os.PathLike):
        raise refused(f"a path is a string or a Path, not {path!r}", InvalidTypeError)
    text = os.fspath(path)
    if not text:
        raise refused("a path is empty: '.' is the folder that the program runs in")
    uri = _URI.fullmatch(text)
    if uri is not None:
        scheme = uri[1].lower()
        if scheme in OBJECT_STORES and (key := _OBJECT.fullmatch(uri[2])) is not None:
            return "/".join(filter(None, [bucket_of(scheme, key[1]), (key[2] or "").strip("/")]))
        if scheme == HDFS and (place := _PATH_OF_HDFS_URI.fullmatch(uri[2])) is not None:
            return f"{HDFS}://{place[1]}{os.path.normpath('/' + place[2].lstrip('/'))}"
        # ``?`` and ``#`` are characters of the path, as in patterns of a shell: a file has no query.
        local = _PATH_OF_FILE_URI.fullmatch(uri[2]) if scheme == "file" else None
        if local is None:
            raise UnsupportedOperationError(
                f"{text}: files are read and written on POSIX paths, HDFS and object stores ({', '.join(REMOTE)}). "
                "Mount the file system, or let Spark read it as a DataFrame and use that as the source"
            )
        text = unquote(local[1], errors="surrogateescape")
    try:
        return os.path.normpath(Path(text).expanduser().absolute())
    except RuntimeError as error:
        raise refused(f"path {text!r}: {error}") from error
    except FileNotFoundError as error:
        raise refused(
            f"path {text!r} is relative to the working directory, which was deleted: give a path from the root, or "
            "start the program in another folder"
        ) from error


@dataclass(frozen=True, slots=True)
class FileSelection:
    """The files that a source is to read; picklable.

    Attributes:
        paths: files, folders and patterns, as :func:`resolved` gives them.
        accepts: returns whether a file of this path is read.
        limit: how many records are enough; None for all.
    """

    paths: tuple[str, ...]
    accepts: Callable[[str], bool] | None = None
    limit: int | None = None


class InputPaths:
    """The paths of a source, and the files that they stand for.

    Args:
        paths: files, folders and patterns, as :func:`resolved` gives them.
        options: how storages are reached.
        accepts: as a :class:`FileSelection` has it.
    """

    def __init__(
        self, paths: Iterable[str], options: Mapping[str, str], accepts: Callable[[str], bool] | None = None
    ) -> None:
        self._paths = tuple(paths)
        self._accepts = accepts
        self._options = options
        self._stores: dict[str, FileStore] = {}

    def store_of(self, path: str) -> FileStore:
        """The store of a file that a path stands for."""
        place = place_of(path)
        if place not in self._stores:
            self._stores[place] = FileStore(file_system_of(place, self._options))
        return self._stores[place]

    def find(self) -> list[FileStatus]:
        """Find all files that the paths stand for, each once, in path order.

        Raises:
            InfrastructureError: naming a folder or a file that cannot be looked at.
            OSError: likewise.
        """
        found: dict[str, FileStatus] = {}
        for path in self._paths:
            for status in self._files(path):
                found.setdefault(status.path, status)
        return sorted(found.values(), key=attrgetter("path"))

    def _files(self, path: str) -> list[FileStatus]:
        """The files that a path stands for, not some of before an overwrite and some of after it."""
        store = self.store_of(path)
        found = list(store.find(path))
        if not store.is_pattern(path) and store.may_be_folder(path):
            log = OverwriteLog(store.file_system, store.within(path))
            newest = NEVER
            while (now := log.complete()) != newest:
                found, newest = list(store.find(path)), now
        return found if self._accepts is None else [each for each in found if self._accepts(each.path)]

    def names(self, file: str) -> bool:
        """Tell whether a file is itself one of the paths, not something in a folder or behind a pattern."""
        return file in self._paths

    def check_apart_from(self, folder: str) -> None:
        """Refuse paths that stand for files in a folder of the job's own: epochs would read what others have written.

        Raises:
            InvalidProgramError: naming the path.
        """
        for path in self._paths:
            if any(self._stands_for(path, f"{folder}/{name}") for name in _NAMES_OF_OURS):
                raise InvalidProgramError(
                    f"the source would read the job's own files as well: the checkpoint directory, which has "
                    f"{shown(folder)}, lies in {shown(path)}. Put it elsewhere (execution.checkpointing.dir), or where "
                    "the source does not look: in a folder whose name begins with a dot"
                )

    def _stands_for(self, path: str, file: str) -> bool:
        """Tell whether a file would be found by a path, if it were there."""
        pattern, names = _parts(path), _parts(file)
        if has_wildcards(path) and matches(names, pattern):  # else a request to the store is saved
            return self.store_of(path).is_pattern(path)
        return names[: len(pattern)] == pattern and not any(map(is_hidden, names[len(pattern) :]))

    def first_look(self, *, for_ever: bool) -> list[FileStatus]:
        """Find all files at the very start, as :meth:`find` does.

        A path that names nothing to read is a mistake more often than not. A pattern may match nothing; that is warned
        of.

        Args:
            for_ever: whether files are looked for again: what is not there may come later, and nothing is found now.

        Raises:
            InvalidProgramError: naming a path that names nothing to read.
        """
        found: dict[str, FileStatus] = {}
        for path in self._paths:
            store, literal = self.store_of(path), None
            if not store.is_pattern(path):
                if (problem := store.missing(path)) is not None:
                    raise InvalidProgramError(problem)
            elif not for_ever and store.is_lost(folder := _folder_of(path)):
                raise InvalidProgramError(f"there is no folder {shown(folder)}, in which {shown(path)} may be")
            else:
                literal = self._literal(path)
            if for_ever and literal is None:
                continue
            files = {status.path: status for status in self._files(path)}
            if not files:
                _tell_of_nothing(path, literal)
            found |= files if not for_ever else {}
        return sorted(found.values(), key=attrgetter("path"))

    def _literal(self, pattern: str) -> str | None:
        """The longest beginning of a pattern that exists under that very name, if it has wildcards."""
        parts = pattern.split("/")
        beginnings = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        store = self.store_of(pattern)
        return next((path for path in beginnings if has_wildcards(path) and store.exists(path)), None)

    def folders(self, seen: Iterable[str]) -> list[str]:
        """The paths that are or were folders, as far as is known when they are gone."""
        files = set(seen)
        return [path for path in self._paths if path not in files and self._is_folder(path)]

    def check_still_there(self, folders: Iterable[str]) -> None:
        """Tell a folder that is gone from one without new files.

        Raises:
            InfrastructureError: naming the folder.
        """
        for folder in folders:
            if self.store_of(folder).is_lost(folder):
                # The cause distinguishes a job that has just started from one that loses a volume for a moment.
                raise InfrastructureError(
                    f"{shown(folder)}, which the source watches, is gone: mount it or make it again, and the job goes "
                    "on where it was. To watch for folders that come and go, give a pattern"
                ) from FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)

    def _is_folder(self, path: str) -> bool:
        store = self.store_of(path)
        return not store.is_pattern(path) and store.status(path) is None


def _tell_of_nothing(path: str, literal: str | None) -> None:
    if literal is None:
        logger.warning("%s has no files to read; those that are empty or hidden are left out", shown(path))
        return
    logger.warning(
        "%s is a pattern that matches no file, but %s exists: to read it write %s, as *, ? and [...] stand for other "
        "characters",
        shown(path),
        shown(literal),
        shown(glob.escape(literal) + path[len(literal) :]),
    )


def _parts(path: str) -> list[str]:
    """The names that a path is made of; of a POSIX path as links lead."""
    return (os.path.realpath(path) if path.startswith("/") else usual_spelling(path)).split("/")


def _folder_of(pattern: str) -> str:
    """The folder in which a pattern begins to stand for names."""
    parts = pattern.split("/")
    fixed = list(itertools.takewhile(lambda part: not has_wildcards(part), parts))
    return "/".join(fixed) or "/"


def unreadable(path: str, error: OSError) -> InfrastructureError:
    """The error about a file that is there and cannot be read."""
    advice = ": let the user that runs the job read it" if isinstance(error, PermissionError) else ""
    return InfrastructureError(f"{shown(path)} cannot be read ({error.strerror or error}){advice}")


GONE: Final = (FileNotFoundError, NotADirectoryError)
"""The errors that say that a file is not there."""

_WHERE: Final = "on the builder of the FileSource; in SQL, set the table's option {} to true"
IGNORE_MISSING: Final = "source.ignore-missing-files"
IGNORE_CORRUPT: Final = "source.ignore-corrupt-files"


def check_unchanged(store: FileStore, planned: FileStatus) -> None:
    """Refuse a file that is not the one that was planned.

    Raises:
        FileNotFoundError: when it is gone.
        SourceChangedError: naming the file and what changed.
    """
    now = store.status(planned.path)
    if now is None:
        raise FileNotFoundError(planned.path)
    path = shown(planned.path)
    if now.size != planned.size:
        raise SourceChangedError(f"{path} had {planned.size} bytes when it was seen and has {now.size} now")
    if now.mtime_ns != planned.mtime_ns:
        raise SourceChangedError(f"{path} was written to after it was seen")


Skipped = tuple[str, str]
"""The metric that counts a file, or the rest of one, that the source goes on without, and what is wrong with it."""


def skipped_records(path: str, skipped: Skipped, *, reject: bool) -> SourceRecords:
    """Count a file that is skipped; also reject a record of it when there is a dead-letter output."""
    counter, reason = skipped
    return SourceRecords(rows=[], rejected=[(shown(path), "", reason)] if reject else [], counters={counter: 1})


@dataclass(frozen=True, slots=True)
class SkipPolicy:
    """Returns which unreadable files the source skips; by default every file has to be read to its end.

    Attributes:
        missing: files that were deleted before they were read.
        corrupt: what cannot be read of damaged files.
    """

    missing: bool = False
    corrupt: bool = False

    def skip(self, path: str, error: Exception) -> Skipped:
        """Skip what cannot be read of a file; that is logged.

        Args:
            path: the file.
            error: why it cannot be read (any further): a ``CorruptFileError``, or one of :data:`GONE`.

        Raises:
            CorruptFileError: when the source must not go on.
            SourceChangedError: likewise.
        """
        if isinstance(error, CorruptFileError):
            if not self.corrupt:
                raise CorruptFileError(
                    f"{error}. To go on without what cannot be read of such files, call "
                    f"ignore_corrupt_files() {_WHERE.format(IGNORE_CORRUPT)}"
                ) from error
            skipped = FILES_CORRUPT, str(error)
        else:
            if not self.missing:
                raise SourceChangedError(
                    f"{shown(path)} was deleted before it was read to its end. Put it back as it was, or, to go on "
                    f"without such files, call ignore_missing_files() {_WHERE.format(IGNORE_MISSING)}"
                ) from error
            skipped = FILES_MISSING, "the file was deleted before it was read to its end"
        logger.warning("what cannot be read of %s is skipped: %s", shown(path), skipped[1])
        return skipped


READ_ALL: Final = SkipPolicy()
