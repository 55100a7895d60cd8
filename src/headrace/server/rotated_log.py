"""Logs of processes as files of bounded size: what has become large is put aside as ``log.1``, ``log.2`` and so on.

A process, and all that it starts, writes to the end of one file from its start to its end. So a full file is copied
and cut, not renamed: a process that has it open goes on at its beginning.
"""

import codecs
import contextlib
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.common import server_options as options
from headrace.common.configuration import Configuration
from headrace.common.durable import write_file
from headrace.common.logs import get_logger

logger = get_logger(__name__)

_BLOCK: Final = 1 << 20
_LOOK_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class LogLimits:
    """The limits of what is kept of a log.

    Attributes:
        most_bytes: the size from which on a file is put aside.
        most_files: the number of files that are put aside; of more the oldest goes.
    """

    most_bytes: int
    most_files: int

    @staticmethod
    def of(configuration: Configuration) -> "LogLimits":
        """The limits of a configuration."""
        return LogLimits(configuration.get(options.LOG_FILE_SIZE), configuration.get(options.LOG_FILES))


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a log.

    Attributes:
        text: what it says.
        begin: the number of bytes that were written before it.
        end: the same behind it.
    """

    text: str
    begin: int
    end: int


class RotatedLog:
    """A log in a folder of this machine, with what was put aside of it; several processes may use it.

    Args:
        file: the file that is written to.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begin = file.with_name(f"{file.name}.begin")

    def rotate(self, limits: LogLimits) -> bool:
        """Put the file aside if it has become large.

        Returns:
            True if it was.

        Raises:
            OSError: when it cannot be copied.
        """
        large = max(1, limits.most_bytes)
        if _size(self._file) < large:
            return False
        with self._locked(fcntl.LOCK_EX), self._file.open("rb") as log:
            if _size(self._file) < large:  # another process has just done it
                return False
            copy = self._file.with_name(f"{self._file.name}.part")
            with copy.open("wb") as copied:
                shutil.copyfileobj(log, copied, _BLOCK)
                self._put_aside(copy, limits.most_files)
                copied.flush()
                while block := log.read(_BLOCK):  # what has come meanwhile
                    copied.write(block)
                    copied.flush()
                os.truncate(self._file, 0)
                written = self._written_before() + copied.tell()
            write_file(self._begin, [str(written).encode()], durable=False)
        return True

    def tail(self, most: int, after: int | None = None) -> LogPart | None:
        """The end of the log, over all of its files.

        Args:
            most: the number of bytes that it may have.
            after: a number of bytes that were written: what comes behind them is wanted. None for all.

        Returns:
            The end; None where there is no log.
        """
        try:
            with self._locked(fcntl.LOCK_SH):
                files = [*reversed(self._aside()), self._file]
                sizes = [file.stat().st_size for file in files]
                end = self._written_before() + sizes[-1]
                first = end - sum(sizes)
                begin = max(first, end - most)
                is_continued = after is not None and begin <= after <= end
                begin = after if is_continued and after is not None else begin
                data = b"".join(_pieces(files, sizes, begin - first))
        except FileNotFoundError:
            return None
        if begin > first and not is_continued:
            begin, data = _from_next_line(begin, data)
        return _decoded(data, begin)

    def size(self) -> int | None:
        """The number of bytes in all of its files; None where there is no log."""
        try:
            return sum(file.stat().st_size for file in (self._file, *self._aside()))
        except FileNotFoundError:
            return None

    def _aside(self) -> list[Path]:
        """The files that were put aside, the newest first."""
        found: list[Path] = []
        while (file := self._numbered(len(found) + 1)).exists():
            found.append(file)
        return found

    def _put_aside(self, copy: Path, most_files: int) -> None:
        aside = self._aside()
        for file in aside[max(0, most_files - 1) :]:
            file.unlink()
        for number in range(min(len(aside), most_files - 1), 0, -1):
            self._numbered(number).replace(self._numbered(number + 1))
        if most_files:
            copy.replace(self._numbered(1))
        else:
            copy.unlink()

    def _numbered(self, number: int) -> Path:
        return self._file.with_name(f"{self._file.name}.{number}")

    def _written_before(self) -> int:
        """The number of bytes that were written before those in the file."""
        try:
            return int(self._begin.read_bytes())
        except FileNotFoundError:
            return 0

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        """Inside, the log is not rotated while it is read."""
        with self._file.with_name(f"{self._file.name}.lock").open("ab") as lock:
            fcntl.flock(lock, how)
            yield


def keep_bounded(logs: Sequence[RotatedLog], limits: LogLimits) -> None:
    """Have logs put aside as they become large, from now to the end of the process, on a thread of its own."""
    threading.Thread(target=_rotate, args=(logs, limits), name="headrace-logs", daemon=True).start()


def _rotate(logs: Sequence[RotatedLog], limits: LogLimits) -> None:
    has_failed = False
    while True:
        time.sleep(_LOOK_SECONDS)
        for log in logs:
            try:
                log.rotate(limits)
            except FileNotFoundError:
                return  # the folder is gone, and with it the log
            except OSError as error:
                if not has_failed:
                    logger.warning("a log cannot be put aside, and grows on: %s", error)
                has_failed = True


def remove_oldest(files: Iterable[Path], most_files: int) -> None:
    """Keep so many logs of earlier processes, with what was put aside of them; the others go."""
    oldest_last = sorted(files, key=_modified, reverse=True)
    for file in oldest_last[most_files:]:
        for each in (file, *file.parent.glob(f"{file.name}.*")):
            each.unlink(missing_ok=True)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # another process has removed it
        return 0.0


def _pieces(files: list[Path], sizes: list[int], skipped: int) -> Iterator[bytes]:
    """The content of files one after the other, from the byte behind those that are skipped."""
    for file, size in zip(files, sizes, strict=True):
        if skipped < size:
            with file.open("rb") as opened:
                opened.seek(skipped)
                yield opened.read(size - skipped)
        skipped = max(0, skipped - size)


def _from_next_line(begin: int, data: bytes) -> tuple[int, bytes]:
    """The part that begins with a whole line."""
    skipped = data.find(b"\n") + 1
    return begin + skipped, data[skipped:]


def _decoded(data: bytes, begin: int) -> LogPart:
    """The text of some bytes, without a character at their end that is not whole."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data)
    return LogPart(text, begin, begin + len(data) - len(decoder.getstate()[0]))
