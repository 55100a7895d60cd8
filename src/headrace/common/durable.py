"""Writing files so that what was written is there, whole, also after a power failure: the one place that does.

Everything that a job relies on after a crash goes through here: manifests, state files, logs of sources, output. The
promises are those of POSIX:

* ``write`` may write less than it was given, on a full disk above all, without an error. Every byte is written here, or
  an ``OSError`` raised.
* A file is durable after ``fsync``, its name only after an ``fsync`` of its folder.
* ``rename`` and ``link`` happen wholly or not at all; ``link`` fails where the name is taken, over NFS as well.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import os
import platform
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from headrace.common.errors import InfrastructureError

if TYPE_CHECKING:
    from typing_extensions import Buffer


T = TypeVar("T")

_TRIES: Final = 10
"""Attempts to write a file whose temporary name other processes remove."""

_BLOCK_BYTES: Final = 1 << 20

_TEMPORARY: Final = re.compile(r"\.(.+)\.[0-9a-f]{32}\.tmp")


class Permissions(enum.Enum):
    """The permissions of new files; the rest of the world has none, unless the umask lets it.

    Attributes:
        OWNER: the user alone.
        GROUP: the user's group too, for executors that run as another user.
        UMASK: as the process's umask says.
        of_files: the mode of a file; None for whatever the umask makes of it.
        of_folders: the mode of a folder; None likewise.
    """

    of_files: int | None
    of_folders: int | None

    OWNER = "owner", 0o600, 0o700
    GROUP = "group", 0o660, 0o770
    UMASK = "umask", None, None

    def __new__(cls, name: str, of_files: int | None, of_folders: int | None) -> Self:
        made = object.__new__(cls)
        made._value_, made.of_files, made.of_folders = name, of_files, of_folders
        return made


def write_file(
    path: Path, chunks: Iterable[Buffer], permissions: Permissions = Permissions.UMASK, *, durable: bool = True
) -> None:
    """Write a file that is there wholly or not at all; one that exists is replaced.

    Args:
        path: the file.
        chunks: its content.
        permissions: the permissions of the file.
        durable: whether it is certain to outlast a power failure when this returns.

    Raises:
        OSError: when it cannot be written whole, and is not there then; or when it is, but not known to be durable.
    """
    _written(path, chunks, permissions, lambda temporary: temporary.replace(path), durable=durable)
    if durable:
        sync_folder(path.parent)


def create_exclusively(path: Path, content: bytes, permissions: Permissions = Permissions.UMASK) -> bool:
    """Create a durable file with its whole content in one step, unless it exists.

    Returns:
        Whether this call created it: of two processes exactly one does.

    Raises:
        OSError: when that is not known, or the file cannot be written.
    """

    def link(temporary: Path) -> bool:
        try:
            return _link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    created = _written(path, (content,), permissions, link, durable=True)
    if created:
        sync_folder(path.parent)
    return created


def append(path: Path, data: Buffer, at: int, *, durable: bool = False) -> None:
    """Append to a file that has ``at`` bytes; 0 creates it, under a name that is not durable before its folder is.

    Raises:
        OSError: when not all of it could be written, or the file had another size; it is of no use any more then.
    """
    flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if at == 0 else 0)
    with _naming(path):
        descriptor = os.open(path, flags, 0o666)
        try:
            _expect_size(descriptor, at, path)
            write_all(descriptor, data)
            _expect_size(descriptor, at + memoryview(data).nbytes, path)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_all(descriptor: int, data: Buffer) -> None:
    """Write every byte.

    Raises:
        OSError: when some could not be written.
    """
    view = memoryview(data).cast("B")
    while view:
        written = os.write(descriptor, view)
        if not written:
            raise OSError(errno.EIO, "nothing could be written")
        view = view[written:]


def move(source: Path, target: Path) -> None:
    """Rename a file; one that has the name is replaced. Not durable before both folders are."""
    source.rename(target)


def remove(path: Path) -> bool:
    """Remove a file; whether there was one. A folder that has its name is none of ours, and is left alone."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except (IsADirectoryError, PermissionError):  # what POSIX says, and what Linux says, of a folder
        if not path.is_dir():
            raise
        return False
    return True


def make_folder(folder: Path, permissions: Permissions = Permissions.UMASK) -> None:
    """Make a folder and those above it, durably; what exists is left alone."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        mode = permissions.of_folders
        try:
            path.mkdir(0o777 if mode is None else mode)
        except FileExistsError:  # somebody else has just made it
            continue
        try:
            if mode is not None:  # the umask may have taken from it; a set-group-id bit is inherited, with the group
                path.chmod(mode | path.stat().st_mode & stat.S_ISGID)
            sync_folder(path.parent)
        except BaseException:  # who tries again would find it there, and take it to be durable
            with contextlib.suppress(OSError):
                path.rmdir()
            raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def target_of_temporary(name: str) -> str | None:
    """The name that a file was to get which :func:`write_file` or :func:`create_exclusively` has not finished.

    Returns:
        None when ``name`` is none of theirs.
    """
    found = _TEMPORARY.fullmatch(name)
    return found[1] if found else None


def _link(source: Path, target: Path) -> bool:
    """Give a file a second name, unless that is taken; whether this call did so. Not durable before the folder is."""
    try:
        os.link(source, target)
    except FileExistsError:
        # Over NFS the answer to a call that succeeded may be lost, and the same call made again: link(2) says to look.
        try:
            return source.samefile(target)
        except FileNotFoundError:  # it was somebody else's, who has removed it since
            return False
    return True


def _written(
    path: Path, chunks: Iterable[Buffer], permissions: Permissions, name: Callable[[Path], T], *, durable: bool
) -> T:
    """Write a file under a temporary name in the same folder, and have it named.

    While a process stands still, others may take what it has not named for that of a dead one, and remove it. The open
    file has its content all the same, which is written anew.
    """
    kept, size = -1, 0
    with contextlib.ExitStack() as stack:
        for left in range(_TRIES, 0, -1):
            temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
            descriptor = _create(temporary, permissions)
            try:
                with _naming(path), _closing(descriptor):
                    size = _fill(descriptor, chunks, temporary, durable=durable)
                    kept = stack.enter_context(_closing(os.dup(descriptor)))
                return name(temporary)
            except FileNotFoundError:
                if kept < 0 or left == 1 or temporary.exists() or not path.parent.exists():
                    temporary.unlink(missing_ok=True)
                    raise
                chunks = _content(kept, size)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    raise AssertionError("the last try has returned or raised")


def _fill(descriptor: int, chunks: Iterable[Buffer], path: Path, *, durable: bool) -> int:
    """Write a whole file; how many bytes it has."""
    size = 0
    for chunk in chunks:
        write_all(descriptor, chunk)
        size += memoryview(chunk).nbytes
    _expect_size(descriptor, size, path)
    if durable:
        os.fsync(descriptor)
    return size


def _content(descriptor: int, size: int) -> Iterator[bytes]:
    """Return the content of an open file."""
    for at in range(0, size, _BLOCK_BYTES):
        yield os.pread(descriptor, _BLOCK_BYTES, at)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Lets errors of the system say which file they are about; those of open files do not know."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _create(path: Path, permissions: Permissions) -> int:
    mode = permissions.of_files
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
    if mode is not None:
        os.fchmod(descriptor, mode)  # the umask may have taken from it
    return descriptor


def _expect_size(descriptor: int, size: int, path: Path) -> None:
    found = os.fstat(descriptor).st_size
    if found != size:
        raise OSError(errno.EIO, f"the file has {found} bytes after {size} were written", str(path))


PREFIX: Final = "headrace-"

_LOCK: Final = ".headrace-lock"
"""Lies in each of these folders. The process that the folder belongs to holds a lock on it, which ends with the process
however it ends. It says on which machine that is: locks may not be seen from another."""


class TemporaryFolder:
    """A folder for this process alone, readable by its user alone; it goes with :meth:`remove`.

    Args:
        purpose: part of its name.

    Attributes:
        path: the folder.

    Raises:
        OSError: when it cannot be made; nothing of it is left then.
    """

    def __init__(self, purpose: str = "") -> None:
        remove_stale()
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}"))
        try:
            self._lock: int | None = _lock(self.path)
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def remove(self) -> None:
        """Delete it and all that is in it; doing so again does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


@contextlib.contextmanager
def writing(who: str, what: str = "its temporary files, for which TMPDIR says another folder") -> Iterator[None]:
    """Tell what the file system refuses, and where: the error itself hardly ever does.

    Args:
        who: the writer, as errors name it.
        what: what is written.

    Raises:
        InfrastructureError: when it cannot be written: the disk is full, say.
    """
    try:
        yield
    except OSError as error:
        why = error.args[0][0][2] if isinstance(error, shutil.Error) else error
        raise InfrastructureError(f"{who} cannot write {what}: {why}") from error


def remove_stale() -> list[Path]:
    """Delete the folders of processes of this user and machine that are no more.

    Folders without a lock file, of other users, or of other machines are left alone, whatever they are called.

    Returns:
        What was deleted.
    """
    removed = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError), _locked_if_stale(folder) as is_stale:
            if is_stale:
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


def _lock(folder: Path) -> int | None:
    """Lock a new folder for the life of this process; None where the file system has no locks."""
    new = folder / f"{_LOCK}.new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write_all(descriptor, platform.node().encode())
        move(new, folder / _LOCK)  # it has its name only once it is locked: nobody ever finds it free
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextlib.contextmanager
def _locked_if_stale(folder: Path) -> Iterator[bool]:
    """Return whether the process of a folder is no more; then its lock is held meanwhile.

    Raises:
        OSError: when there is no lock file, or it cannot be looked at.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        is_stale = False
        is_ours = os.fstat(descriptor).st_uid == os.geteuid() and not folder.is_symlink()
        if is_ours and os.pread(descriptor, 1024, 0) == platform.node().encode():
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_stale = True
        yield is_stale
    finally:
        os.close(descriptor)
