"""All remote storages: how files are read in pieces, and written when they are complete."""

from __future__ import annotations

import errno
import io
import mmap
import os
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import FileIO
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from headrace.storage.file_system import FileSystem, MappedFile, StagedFile, digest_text, new_digest

if TYPE_CHECKING:
    from typing_extensions import Buffer

    FileKey = tuple[FileSystem, str]
    """The storage of a file, and its path."""

WHOLE_BYTES: Final = 8 << 20
"""A file up to this size is fetched whole, and held in memory."""

PIECE: Final = 512 << 10
"""Larger ones are fetched in pieces of this size."""

_AHEAD: Final = 4
"""A request fetches at least so much: what was fetched of the file before, divided by this. So one that is read from
end to end, here and there, takes some dozens of requests, and one of which little is touched, little."""

_KEPT_BYTES: Final = 64 << 20
"""The bytes of written files that are kept until they are read."""

_RANGED_BYTES: Final = 4 << 30
"""The bytes of large files that a process keeps on its disk while they can be done without."""

_RANGED_FILES: Final = 128
"""The most such files: each has two file descriptors."""

_PLACE: Final = "pieces of large state files are kept there, set TMPDIR for another place"


def is_panic(error: BaseException) -> bool:
    """Tell whether a client has broken down: code of Rust that fails its own checks raises what is no ``Exception``.

    Its class is nowhere to be imported from.
    """
    return type(error).__name__ == "PanicException"


class RangedFile(MappedFile):
    """A file of which the requested pieces are in a sparse, unnamed file on this machine's disk.

    Args:
        size: how many bytes the file has.
        start: the first of them, a whole piece.
        stream: gives the bytes from the first up to the second position, all of them, or raises.
        on_growth: called when more has been fetched.
    """

    def __init__(
        self,
        size: int,
        start: bytes,
        stream: Callable[[int, int], Iterable[Buffer]],
        on_growth: Callable[[], None],
    ) -> None:
        self._file = _temporary_file()
        self._file.truncate(size)
        super().__init__(pa.py_buffer(mmap.mmap(self._file.fileno(), size, prot=mmap.PROT_READ)))
        self._size = size
        self._stream = stream
        self._on_growth = on_growth
        self._lock = threading.Lock()
        self._present = bytearray(-(-size // PIECE))
        self._store(0, [start])
        self._present[0] = 1

    @property
    def fetched(self) -> int:
        """Return how many bytes were, in whole pieces."""
        return self._present.count(1) * PIECE

    def fetch(self, start: int, stop: int) -> None:
        if start >= stop:
            return
        with self._lock:
            missing = list(self._missing(start // PIECE, -(-stop // PIECE)))
            for first, end in missing:
                self._fetch_pieces(first, self._further(first, end))
        if missing:
            self._on_growth()

    def _missing(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The pieces from the first up to the second that are not here, those that follow one another together."""
        at = self._present.find(0, first, end)
        while at >= 0:
            stop = self._present.find(1, at, end)
            yield at, stop if stop >= 0 else end
            at = self._present.find(0, stop, end) if stop >= 0 else -1

    def _further(self, first: int, end: int) -> int:
        """The end of a request that is worth its time, up to the next piece that is here."""
        worth = max(end, min(first + self._present.count(1) // _AHEAD, len(self._present)))
        stop = self._present.find(1, end, worth)
        return stop if stop >= 0 else worth

    def _fetch_pieces(self, first: int, end: int) -> None:
        start, stop = first * PIECE, min(end * PIECE, self._size)
        self._store(start, self._stream(start, stop))
        self._present[first:end] = b"\1" * (end - first)

    def _store(self, at: int, chunks: Iterable[Buffer]) -> None:
        # Not through the mapping: where the disk is full, that would end the process.
        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            while view:
                written = self._write(view, at)
                at, view = at + written, view[written:]

    def _write(self, view: memoryview, at: int) -> int:
        try:
            return os.pwrite(self._file.fileno(), view, at)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}: {_PLACE}", tempfile.gettempdir()) from error


def _temporary_file() -> FileIO:
    """A file without a name.

    Raises:
        OSError: when none can be made; never a ``FileNotFoundError``, which would stand for the state file.
    """
    try:
        return tempfile.TemporaryFile(buffering=0)
    except FileNotFoundError as error:
        raise OSError(errno.EIO, f"there is no folder for temporary files: {_PLACE} ({error})") from error


class RangedFiles:
    """The large files of this process, so that reading one again need not fetch its pieces again.

    Above the limit those that were opened first are surplus: they are not handed out any more, and their bytes are gone
    when all readers have closed them.
    """

    def __init__(self, limit: int = _RANGED_BYTES) -> None:
        self._limit = limit
        self._files: dict[FileKey, RangedFile] = {}
        self._lock = threading.Lock()

    def find(self, key: FileKey) -> RangedFile | None:
        """The file, if it is here and not damaged; it is the newest from now on."""
        with self._lock:
            file = self._files.pop(key, None)
            if file is None or file.is_damaged:
                return None
            self._files[key] = file
            return file

    def open(self, key: FileKey, size: int, start: bytes, stream: Callable[[int, int], Iterable[Buffer]]) -> RangedFile:
        """A file that is not here; arguments as with :class:`RangedFile`."""
        file = RangedFile(size, start, stream, self._make_room)
        with self._lock:
            self._files[key] = file
        self._make_room()
        return file

    def forget(self, key: FileKey) -> None:
        """A file is removed or written anew; those that have it open go on reading it."""
        with self._lock:
            self._files.pop(key, None)

    def _make_room(self) -> None:
        with self._lock:
            taken = sum(file.fetched for file in self._files.values())
            while taken > self._limit or len(self._files) > _RANGED_FILES:
                file = self._files.pop(next(iter(self._files)))
                file.is_surplus = True
                taken -= file.fetched


class WrittenFiles:
    """Files that this process has just written, and need not be fetched: each is given once, the newest are kept."""

    def __init__(self, limit: int = _KEPT_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._files: dict[FileKey, bytes] = {}
        self._lock = threading.Lock()

    def keep(self, key: FileKey, content: bytes) -> None:
        """A file was written."""
        self.take(key)
        with self._lock:
            self._files[key] = content
            self._size += len(content)
            while self._size > self._limit:
                self._size -= len(self._files.pop(next(iter(self._files))))

    def take(self, key: FileKey) -> bytes | None:
        """A file's content, if it is still here; from now on it is not."""
        with self._lock:
            content = self._files.pop(key, None)
            self._size -= len(content or b"")
            return content


def gathered(chunks: Iterable[Buffer], most: int = _KEPT_BYTES) -> tuple[bytes | None, Iterator[Buffer]]:
    """The content of a file, unless it has more than so many bytes, and what there is to write of it."""
    views = (memoryview(chunk).cast("B") for chunk in chunks)
    first, size = list[memoryview](), 0
    for view in views:
        first.append(view)
        size += view.nbytes
        if size > most:
            return None, chain(first, views)
    content = b"".join(first)
    return content, iter([content])


_FIRST_READ_BYTES: Final = 1 << 16
_LARGEST_READ_BYTES: Final = 8 << 20
"""The bytes that are fetched at once, at first and when reading goes on."""


class FetchedStream(io.RawIOBase):
    """Bytes that are fetched as they are read: little at first, then more and more at a time.

    Args:
        path: what users call the file.
        size: how many bytes it has.
        fetch: gives the bytes from a position on, as many as the second argument says, or raises.
    """

    def __init__(self, path: str, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._path = path
        self._size = size
        self._fetch = fetch
        self._at = 0
        self._start = 0
        self._block = b""
        self._ahead = _FIRST_READ_BYTES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and self._at < self._size:
            block = self._buffered(len(view) - filled)
            view[filled : filled + len(block)] = block
            filled += len(block)
            self._at += len(block)
        return filled

    def _buffered(self, wanted: int) -> memoryview:
        """Some of the next bytes, at most ``wanted``."""
        within = self._at - self._start
        if not 0 <= within < len(self._block):
            goes_on = bool(self._block) and self._at == self._start + len(self._block)
            self._ahead = min(2 * self._ahead, _LARGEST_READ_BYTES) if goes_on else _FIRST_READ_BYTES
            length = min(max(wanted, self._ahead), self._size - self._at)
            self._start, within = self._at, 0
            self._block = self._fetch(self._at, length)
            if len(self._block) != length:
                raise OSError(errno.EIO, f"the store gave {len(self._block)} bytes instead of {length}", self._path)
        return memoryview(self._block)[within : within + wanted]


_IN_MEMORY_BYTES: Final = 8 << 20
"""A chunk up to this size is held in memory until it is sent, a larger one in an unnamed temporary file."""


class SpooledFile(StagedFile):
    """A file that is sent when it is kept, since its name follows from its content.

    Args:
        put: sends what a file holds to a path; gets its size as well.
    """

    def __init__(self, put: Callable[[str, io.BufferedIOBase, int], None]) -> None:
        self._put = put
        self._digest = new_digest()
        self._size = 0
        self._spool: Any = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115

    def write(self, data: object, /) -> int:
        view = memoryview(cast("bytes", data)).cast("B")
        if not self._spool.closed:
            self._digest.update(view)
            self._spool.write(view)
            self._size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._size

    def finish(self) -> tuple[int, str]:
        return self._size, digest_text(self._digest)

    def keep(self, path: str) -> None:
        self._spool.seek(0)
        self._put(path, self._spool, self._size)
        self._spool.close()

    def discard(self) -> None:
        self._spool.close()


_written = WrittenFiles()
_ranged = RangedFiles()
"""Of this process: small state files are read whole, of large ones the pieces that are touched."""


class RemoteFileSystem(FileSystem):
    """A storage that is reached by requests: reads are few and large, and what is staged waits on this machine."""

    def map(self, path: str) -> MappedFile:
        kept = _written.take((self, path))
        if kept is not None:
            return MappedFile(pa.py_buffer(kept))
        ranged = _ranged.find((self, path))
        if ranged is not None:
            return ranged
        size, start = self._beginning(path)
        if size > WHOLE_BYTES:
            return _ranged.open((self, path), size, start, partial(self._stream, path))
        rest = self._stream(path, len(start), size) if size > len(start) else ()
        return MappedFile(pa.py_buffer(b"".join([start, *rest])))

    def open_for_arrow(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(self.open(path), mode="r")

    def stage(self, path: str) -> StagedFile:
        return SpooledFile(partial(self._send, path))

    def _is_written(self, path: str, content: bytes | None) -> None:
        """Keep what was just written until it is read; None where it is too much."""
        if content is not None:
            _written.keep((self, path), content)

    def _is_obsolete(self, path: str) -> None:
        """A file is removed or written anew."""
        _written.take((self, path))
        _ranged.forget((self, path))

    @abstractmethod
    def _beginning(self, path: str) -> tuple[int, bytes]:
        """The size of a file, and its first piece."""

    @abstractmethod
    def _stream(self, path: str, start: int, stop: int) -> Iterable[Buffer]:
        """A part of a file as it comes in.

        Raises:
            OSError: when not all of it comes.
        """

    @abstractmethod
    def _send(self, staged: str, path: str, content: io.BufferedIOBase, size: int) -> None:
        """Write a durable file that is not visible before it is whole.

        Args:
            staged: where it may be meanwhile.
            path: where it will be.
            content: what is written.
            size: its bytes.
        """
