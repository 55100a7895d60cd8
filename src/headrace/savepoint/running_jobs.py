"""What says in a checkpoint directory that a job runs there: a file of each generation, with the process it runs in."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.manifest_folder import manifest_numbers, name_of, newest_manifest
from headrace.common.errors import SavepointMissingError

if TYPE_CHECKING:
    from headrace.storage.folder import Folder


_NAME: Final = re.compile(r"([0-9]{12})\.running")

STARTING: Final = 0
"""The generation of a job that has none yet: Spark starts, or the directory is being opened."""

_START_TIME: Final = 19
"""The place of the time at which a process started, in what Linux says of it behind its name."""


@dataclass(frozen=True, slots=True)
class JobProcess:
    """The process that a job runs in.

    Attributes:
        machine: where: no two machines, containers or boots of one have the same.
        pid: its number there.
        started: when it started, as the machine counts: numbers are used again. Empty where that is not known.
    """

    machine: str
    pid: int
    started: str

    @staticmethod
    def present() -> JobProcess:
        """This process."""
        return JobProcess(_machine(), os.getpid(), _started(os.getpid()))

    @property
    def is_gone(self) -> bool:
        """Whether it is known not to run any more; of other machines' processes it is not."""
        if self.machine != _machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # it is of another user
            pass
        return _started(self.pid) != self.started


class RunningMark:
    """What one run of a job says of itself.

    Args:
        folder: where requests to the job are.
        generation: that of its job manager: a younger one has a mark of its own, and nobody removes that of another.
    """

    def __init__(self, folder: Folder, generation: int) -> None:
        self._folder = folder
        self._name = f"{generation:012}.running"

    def set(self) -> None:
        """The job runs, and those that it has superseded do not any more.

        Raises:
            OSError: when the folder cannot be written.
        """
        self._folder.make()
        self._folder.write(self._name, [json.dumps(asdict(JobProcess.present())).encode()])
        self._folder.remove_all([name for name in _marks(self._folder) if name < self._name])

    def remove(self) -> None:
        """The job has ended."""
        self._folder.remove(self._name)


def running(folder: Folder) -> frozenset[str]:
    """The marks of jobs that run, as far as can be told from here.

    Args:
        folder: where requests to the job are.
    """
    return frozenset(name for name in _marks(folder) if not _is_gone(folder, name))


def _marks(folder: Folder) -> list[str]:
    return [name for name in folder.names() if _NAME.fullmatch(name)]


def _is_gone(folder: Folder, name: str) -> bool:
    try:
        return JobProcess(**json.loads(folder.read(name))).is_gone
    except FileNotFoundError:
        return True
    except (ValueError, TypeError, PermissionError):  # of a newer version, say
        return False


def _machine() -> str:
    """A name for this machine as it runs now, or for the container."""
    names = [socket.gethostname()]
    with contextlib.suppress(OSError):  # not on Linux
        names += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return " ".join(names)


def _started(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[_START_TIME]
    except OSError:  # not on Linux
        return ""


_MANIFEST: Final = re.compile(r"(.+)/manifests/([0-9]{12})\.json")


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """What somebody has named.

    Attributes:
        directory: the checkpoint directory, or a savepoint.
        number: of the checkpoint; None for the newest.
    """

    directory: str
    number: int | None = None

    @staticmethod
    def of(location: str) -> CheckpointPlace:
        """What a location names: a directory, or a manifest in it."""
        found = _MANIFEST.fullmatch(location)
        return CheckpointPlace(location) if found is None else CheckpointPlace(found[1], int(found[2]))


def read_checkpoint(directory: Folder, number: int | None) -> Manifest | None:
    """A checkpoint of a directory, with the output that is still to be published; the job may run meanwhile.

    Args:
        directory: the checkpoint directory.
        number: of the checkpoint; None for the newest.

    Returns:
        None where a directory has no checkpoint.

    Raises:
        SavepointMissingError: when the checkpoint with that number is not retained.
        CheckpointError: naming it, when a manifest is damaged.
    """
    if number is None:
        return newest_manifest(directory)
    folder = directory.folder("manifests")
    try:
        older = Manifest.from_bytes(folder.read(name_of(number)), folder.locate(name_of(number)))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SavepointMissingError(f"{directory} has no checkpoint {number}: {_retained(folder)}") from error
    newest = newest_manifest(directory)
    waiting = {commit.epoch for commit in newest.pending} if newest is not None else set()
    return replace(older, pending=tuple(commit for commit in older.pending if commit.epoch in waiting))


def _numbers(folder: Folder) -> list[int]:
    try:
        return manifest_numbers(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _retained(folder: Folder) -> str:
    numbers = ", ".join(map(str, _numbers(folder)))
    return f"it retains {numbers} (execution.checkpointing.num-retained says how many)" if numbers else "it has none"
