"""Requests to a running job of another process: files in its checkpoint directory, and answers beside them.

A request is ``<milliseconds>-<id>.json`` in the folder ``requests``. The job that owns the directory creates
``….accepted`` before it begins, and writes ``….done`` with the outcome. A client that gives up creates ``….accepted``
as well: of the two one succeeds, so a request is executed, or its client learns that it is not. A client
removes all of them; what has been left there for an hour, the job removes.

A request that is there when a job starts may be of a client that was killed together with the job before. The job
creates ``….asked``, which a client that still waits removes; a request without one is dropped.

``<generation>.running`` says that a job runs, and in which process. It goes when the job ends; where that was killed,
a client on the same machine sees that the process is gone.
"""

import contextlib
import getpass
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.manifest_folder import manifest_numbers, name_of, newest_manifest
from headrace.common.errors import SavepointError, SavepointMissingError
from headrace.common.logs import get_logger
from headrace.savepoint.metadata import SavepointFormat, savepoint_format
from headrace.storage.folder import Folder

logger = get_logger(__name__)

_MARK: Final = re.compile(r"([0-9]{12})\.running")

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
    def present() -> "JobProcess":
        """This process."""
        return JobProcess.of(os.getpid())

    @staticmethod
    def of(pid: int) -> "JobProcess":
        """A process of this machine that runs now."""
        return JobProcess(_machine(), pid, _started(pid))

    @property
    def is_here(self) -> bool:
        """Return whether it is, or was, one of this machine."""
        return self.machine == _machine()

    @property
    def is_gone(self) -> bool:
        """Return whether it is known not to run any more; of other machines' processes it is not."""
        if self.machine != _machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # it is of another user
            pass
        return _started(self.pid) != self.started or _has_ended(self.pid)


class RunningMark:
    """The file by which one run of a job shows that it runs.

    Args:
        folder: where requests to the job are.
        generation: that of its job manager: a younger one has a mark of its own, and none removes that of another.
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
    """The marks of jobs that run, as far as is known from here.

    Args:
        folder: where requests to the job are.
    """
    return frozenset(name for name in _marks(folder) if not _is_gone(folder, name))


def _marks(folder: Folder) -> list[str]:
    return [name for name in folder.names() if _MARK.fullmatch(name)]


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
    said = _said_of(pid)
    return said[_START_TIME] if said else ""


def _has_ended(pid: int) -> bool:
    """Return whether only a process's number is left, as its parent has not waited for its end."""
    said = _said_of(pid)
    return bool(said) and said[0] in "ZX"


def _said_of(pid: int) -> list[str]:
    """The fields of ``/proc/…/stat`` behind the name of a process; none on systems without that file."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


_MANIFEST: Final = re.compile(r"(.+)/manifests/([0-9]{12})\.json")


def place_and_number(location: str) -> tuple[str, int | None]:
    """The directory that a location names, and of a manifest in it the number; None for the newest one."""
    found = _MANIFEST.fullmatch(location)
    return (location, None) if found is None else (found[1], int(found[2]))


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


REQUESTS: Final = "requests"
"""The folder of requests in a checkpoint directory."""

_NAME: Final = re.compile(r"([0-9]{13})-[0-9a-f]{12}(\.json|\.accepted|\.done|\.asked)")
_LIFE_MILLIS: Final = 3_600_000
_LOOK_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 3
"""A job looks for requests once a second; a client that waits longer than this says what for."""

_SILENT_SECONDS: Final = 30
"""A command that waits removes ``….asked`` within this time; otherwise the job drops the request."""


class JobNotFoundError(SavepointError):
    """No job takes up a request."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request to a job.

    Attributes:
        directory: where a savepoint is made; when empty, where the job's own configuration says, if it does.
        format: canonical or native.
        stops: whether the job is to stop.
        drains: whether all sources are to end where they are first.
        needs_savepoint: whether nothing is to be done where there is no place for a savepoint; else the job only stops.
        parallelism: at which the job is to go on; 0 for the present one. Nothing else is requested with it.
        only_looks: whether it only checks that there is a job.
        cancels: whether the job is to be cancelled; nothing else is requested with it.
        checkpoints: whether it is to complete an epoch at once, likewise.
        releases: whether it is to publish the epoch that it holds back, likewise.
        asked_by: the user and the machine that ask.
    """

    directory: str
    format: SavepointFormat = "canonical"
    stops: bool = False
    drains: bool = False
    needs_savepoint: bool = False
    parallelism: int = 0
    only_looks: bool = False
    cancels: bool = False
    checkpoints: bool = False
    releases: bool = False
    asked_by: str = field(default="", compare=False)

    def described(self, stem: str) -> str:
        """The request as text: its action, its client and its time; ``stem`` is the name of the request."""
        requested = datetime.fromtimestamp(int(stem.partition("-")[0]) / 1000, UTC)
        return (
            f"{self._wanted()} that {self.asked_by or 'somebody'} asked for at {requested:%F %T} UTC (request {stem})"
        )

    def _wanted(self) -> str:
        if self.parallelism:
            return f"the parallelism {self.parallelism}"
        if self.only_looks:
            return "a sign of life"
        if self.releases:
            return "the release of an epoch"
        if self.cancels or self.checkpoints:
            return "the end of the job, at once," if self.cancels else "a checkpoint"
        if not self.stops and not self.drains:
            return f"a {self.format} savepoint"
        where = f" with a {self.format} savepoint" if self.directory or self.needs_savepoint else ""
        return f"the {'drain' if self.drains else 'stop'}{where}"


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """The outcome of a request.

    Attributes:
        savepoint: the place of the savepoint; empty for none.
        error: what went wrong; empty for nothing.
        checkpoint: the number of the checkpoint; 0 for none.
    """

    savepoint: str = ""
    error: str = ""
    checkpoint: int = 0


class RequestFolder:
    """The requests in one checkpoint directory, as the job sees them.

    Args:
        directory: the checkpoint directory.
    """

    def __init__(self, directory: Folder) -> None:
        self._folder = directory.folder(REQUESTS)
        self._is_made = False
        self._unreadable: set[str] = set()
        self._left: dict[str, float | None] = {}

    def begin(self) -> None:
        """A job starts: of what is there it has to find out which clients still wait.

        Raises:
            OSError: when the folder cannot be read or written.
        """
        self._make()
        self._left = {name.removesuffix(".json"): None for name in self._folder.names() if name.endswith(".json")}

    def take(self, is_wanted: Callable[[JobRequest], bool] | None = None) -> Iterator[tuple[str, JobRequest]]:
        """Accept what is there and was not accepted before; what is old, or cannot be read, is removed.

        Args:
            is_wanted: what the job can do now, if not everything; the rest stays.

        Raises:
            OSError: when the folder cannot be read or written.
        """
        self._make()
        names = self._folder.names()
        for name in names:
            if _is_old(name):
                self._folder.remove(name)
                continue
            found = _NAME.fullmatch(name)
            if found is None:  # another process's
                continue
            stem = name.removesuffix(".json")
            if found[2] == ".json" and f"{stem}.accepted" not in names and self._is_waited_for(stem, names):
                request = self._read(name)
                if request is not None and (is_wanted is None or is_wanted(request)) and self._accept(stem):
                    yield stem, request

    def answer(self, stem: str, answer: JobAnswer) -> None:
        """Say what became of a request."""
        self._folder.write(f"{stem}.done", [json.dumps(asdict(answer)).encode()])

    def _make(self) -> None:
        if not self._is_made:
            self._folder.make()
            self._folder.remove_unfinished(_is_old)
            self._is_made = True

    def _is_waited_for(self, stem: str, names: Collection[str]) -> bool:
        """Return whether a command is known to wait for a request; a request that was left behind is removed."""
        if stem not in self._left:
            return True
        requested = self._left[stem]
        if requested is None:
            self._folder.create(f"{stem}.asked", b"")
            self._left[stem] = time.monotonic()
        elif f"{stem}.asked" not in names:
            del self._left[stem]
            return True
        elif time.monotonic() - requested > _SILENT_SECONDS:
            logger.warning("no command waits any more for the request %s, found at the start: it is removed", stem)
            self._folder.remove(f"{stem}.json")
            self._folder.remove(f"{stem}.asked")
        return False

    def _accept(self, stem: str) -> bool:
        """Return whether the job is to execute it: clients that withdraw a request remove it first, the rest last."""
        if not self._folder.create(f"{stem}.accepted", b""):
            return False
        if self._folder.size(f"{stem}.json") is None:
            self._folder.remove(f"{stem}.accepted")
            return False
        return True

    def _read(self, name: str) -> JobRequest | None:
        try:
            document = json.loads(self._folder.read(name))
            request = JobRequest(**document | {"format": savepoint_format(document["format"])})
        except FileNotFoundError:  # withdrawn
            return None
        except PermissionError as error:  # those of others, which come behind it, can be carried out all the same
            if name not in self._unreadable:
                self._unreadable.add(name)
                logger.warning("a request must come from the user that runs the job: %s", error)
            return None
        except (ValueError, KeyError, TypeError):
            self._folder.remove(name)
            return None
        return request


def _is_old(name: str) -> bool:
    """Return whether it is a request, or an answer, that was left behind."""
    found = _NAME.fullmatch(name)
    return found is not None and int(found[1]) < time.time() * 1000 - _LIFE_MILLIS


def _say_nothing() -> None:
    """For clients that need not know that it takes a while."""


def ask(
    directory: Folder,
    request: JobRequest,
    *,
    accept_seconds: float,
    timeout_seconds: float,
    still_waiting: Callable[[], None] = _say_nothing,
) -> JobAnswer:
    """Ask the job that runs in a checkpoint directory for something, and wait for the outcome.

    Args:
        directory: the checkpoint directory.
        request: what is wanted.
        accept_seconds: how long the job has to accept it: no longer than an epoch may take.
        timeout_seconds: how long it then has to do it.
        still_waiting: is called once, when the job has not accepted it within seconds.

    Raises:
        JobNotFoundError: when no job accepts it.
        SavepointError: when it takes too long.
    """
    folder = directory.folder(REQUESTS)
    folder.make()
    stem = f"{time.time() * 1000:013.0f}-{uuid.uuid4().hex[:12]}"
    folder.write(f"{stem}.json", [json.dumps(asdict(replace(request, asked_by=_myself()))).encode()])
    try:
        if not _is_accepted(directory, f"{stem}.accepted", accept_seconds, still_waiting):
            raise JobNotFoundError(
                f"no job has taken the request within {accept_seconds:g} s: none is running in {directory}, or its "
                "epoch takes longer than that, or it fails and restarts again and again"
            )
        _wait_for_answer(directory, f"{stem}.done", timeout_seconds)
        return JobAnswer(**json.loads(folder.read(f"{stem}.done")))
    finally:
        folder.remove(f"{stem}.json")  # while the others are there no job takes it again
        folder.remove_all([f"{stem}.accepted", f"{stem}.done", f"{stem}.asked"])


def _is_accepted(directory: Folder, name: str, seconds: float, still_waiting: Callable[[], None]) -> bool:
    """Return whether a job accepts a request in time; if none does, none can any more.

    Raises:
        JobNotFoundError: when the one that was to do it has come to its end, or none runs.
    """
    folder = directory.folder(REQUESTS)
    until, is_logged = time.monotonic() + seconds, False
    while not _appears(folder, name, min(_PATIENCE_SECONDS, until - time.monotonic())):
        _refuse_finished(directory)
        _show_to_wait(folder, name.replace(".accepted", ".asked"))
        if folder.size(name.replace(".accepted", ".json")) is None and folder.size(name) is None:
            raise JobNotFoundError(
                f"the job in {directory} has removed the request, and not carried it out. Either this command stood "
                f"still for {_SILENT_SECONDS} s while the job started: ask again. Or the request looks older than an "
                "hour there: the clock of this machine is behind that of the job, or the versions of headrace differ"
            )
        if time.monotonic() >= until:
            return not folder.create(name, b"")  # of two, one creates it: the client, or a job at the last moment
        if is_logged and not running(folder) and folder.create(name, b""):
            raise JobNotFoundError(
                f"no job runs in {directory}: it has ended, or its process is gone. Where one is just starting, ask "
                "again when it has begun"
            )
        if not is_logged:
            still_waiting()
            is_logged = True
    return True


def _wait_for_answer(directory: Folder, name: str, seconds: float) -> None:
    """Wait until the job that has accepted a request has answered.

    Raises:
        SavepointError: when it does not in time, or was killed.
    """
    folder = directory.folder(REQUESTS)
    jobs, until = running(folder), time.monotonic() + seconds
    while not _appears(folder, name, min(_PATIENCE_SECONDS, until - time.monotonic())):
        if jobs and jobs.isdisjoint(running(folder)) and folder.size(name) is None:  # it answers before it ends
            raise SavepointError(
                f"the job in {directory} has taken the request, and its process is gone without an answer: what was "
                "asked for is not known to be done, and no other job does it. Ask again"
            )
        if time.monotonic() >= until:
            raise SavepointError(f"the job in {directory} has taken the request, and not done it in {seconds:g} s")


def is_job_running(directory: Folder, seconds: float) -> bool:
    """Return whether a job runs in a checkpoint directory that takes up a request within so many seconds.

    One whose epoch takes longer does not.
    """
    try:
        ask(directory, JobRequest("", only_looks=True), accept_seconds=seconds, timeout_seconds=0)
    except JobNotFoundError:
        return False
    except SavepointError:  # accepted, and not answered yet
        pass
    return True


def _show_to_wait(folder: Folder, name: str) -> None:
    """Answer a job that has found the request at its start."""
    if folder.size(name) is not None:
        folder.remove(name)


def _myself() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def _refuse_finished(directory: Folder) -> None:
    manifest = newest_manifest(directory)
    if manifest is not None and manifest.finished:
        raise JobNotFoundError(f"the job in {directory} has come to its end, and takes no requests any more")


def _appears(folder: Folder, name: str, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while folder.size(name) is None:
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True
