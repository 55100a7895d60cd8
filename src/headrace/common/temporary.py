"""Temporary folders of a process; what a killed process has left is removed by the next that makes such a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common.durable import move, write_all
from headrace.common.errors import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        who: who writes.
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
    """Whether the process of a folder is no more; then its lock is held meanwhile.

    Raises:
        OSError: when there is no lock file, or it cannot be looked at.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        is_ours = os.fstat(descriptor).st_uid == os.geteuid() and not folder.is_symlink()
        if is_ours and os.pread(descriptor, 1024, 0) == platform.node().encode():
            yield _is_free(descriptor)
        else:
            yield False
    finally:
        os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
