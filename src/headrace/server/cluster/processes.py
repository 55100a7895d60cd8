"""The processes of jobs: each is started in a folder and a session of its own, and outlives its dispatcher.

A dispatcher that starts anew finds the processes of the one before it, and goes on with them.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from headrace.common.errors import InfrastructureError, InvalidProgramError
from headrace.common.logs import get_logger
from headrace.plan.job_plan import JobPlan
from headrace.plan.plan_document import plan_of_document
from headrace.savepoint.requests import JobProcess
from headrace.server.client import RestClient
from headrace.server.cluster.records import StartedProcess
from headrace.server.rotated_log import RotatedLog
from headrace.storage.folder import Folder

logger = get_logger(__name__)

TASK: Final = "task.json"
TOKEN: Final = "token"
SERVER: Final = "server.json"
OUTPUT: Final = "stdout"
LOG: Final = "log"
PLAN: Final = "plan.json"

_MAIN: Final = "headrace.cli.job_process"
"""The module that processes run; it is above this package."""

_PLAN_SECONDS: Final = 25.0
"""The time limit of a program that is run up to its first job."""


@dataclass(frozen=True, slots=True)
class JobTask:
    """The task of a process; it is in a file that only its user can read, since there may be secrets in it.

    Attributes:
        storage: the location of the cluster's storage.
        storage_options: how it is reached.
        run: the name of the run.
        attempt: the number of the attempt.
        program: the path of the program.
        entry: the script in it, where it is an archive.
        arguments: the program's arguments.
        settings: the job's configuration.
    """

    storage: str
    storage_options: Mapping[str, str]
    run: str
    attempt: int
    program: str
    entry: str
    arguments: tuple[str, ...]
    settings: Mapping[str, str]

    @staticmethod
    def read(file: Path) -> "JobTask":
        """The task in a file."""
        document = json.loads(file.read_text(encoding="utf-8"))
        return JobTask(**{**document, "arguments": tuple(document["arguments"])})


def work_folder(name: str) -> Path:
    """A fresh folder of this machine for a process, which only its user enters.

    Args:
        name: what it is for.

    Raises:
        InfrastructureError: when there cannot be one.
    """
    above = Path(tempfile.gettempdir()) / f"headrace-jobs-{os.getuid()}"
    try:
        above.mkdir(mode=0o700, exist_ok=True)
        found = above.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{above} is another user's, or others can enter it")
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=above))
    except OSError as error:
        raise InfrastructureError(f"no job can be started on this machine: {error}") from error


class JobProcessHandle:
    """A process of a job on this machine.

    Args:
        started: the process, and its folder.
        child: the same, where this process has started it.
    """

    def __init__(self, started: StartedProcess, child: "subprocess.Popen[bytes] | None" = None) -> None:
        self.process = started.process
        self.folder = Path(started.folder)
        self._child = child
        self._client: RestClient | None = None

    @staticmethod
    def start(folder: Path, task: JobTask) -> "JobProcessHandle":
        """Start a process.

        Args:
            folder: its folder.
            task: what it has to do.

        Raises:
            InfrastructureError: when it cannot be started.
        """
        try:
            _write(folder / TASK, json.dumps(asdict(task)))
            _write(folder / TOKEN, secrets.token_urlsafe())
            with (folder / OUTPUT).open("ab") as output, (folder / LOG).open("ab") as log:
                child = subprocess.Popen(
                    [sys.executable, "-P", "-m", _MAIN, str(folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=log,
                    cwd=folder,
                    start_new_session=True,
                )
        except OSError as error:
            raise InfrastructureError(f"the process of a job cannot be started: {error}") from error
        return JobProcessHandle(StartedProcess(JobProcess.of(child.pid), str(folder)), child)

    @property
    def code(self) -> int | None:
        """The exit code of a child; None while it runs, and of others."""
        return None if self._child is None else self._child.poll()

    @property
    def is_gone(self) -> bool:
        """Return whether it has ended."""
        return self.code is not None if self._child is not None else self.process.is_gone

    def client(self) -> RestClient | None:
        """Its client; None while it is not served yet."""
        if self._client is None:
            with contextlib.suppress(OSError, ValueError, KeyError):
                address = json.loads((self.folder / SERVER).read_text(encoding="utf-8"))["address"]
                token = (self.folder / TOKEN).read_text(encoding="ascii").strip()
                self._client = RestClient(address, token)
        return self._client

    def terminate(self) -> None:
        """Have its job stop at the end of the epoch; a second time have it give the epoch up."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, and all that it has started."""
        self._signal(signal.SIGKILL)
        self.kill_session()

    def kill_session(self) -> None:
        """End what it has started, when it is gone itself: Java and its Python workers have groups of their own."""
        for process in _processes_of_session(self.process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not self.is_gone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def remove_folder(self) -> None:
        """Remove what the process has left on this machine."""
        remove_folder(self.folder)

    def log(self, name: str) -> RotatedLog:
        """The log of the process, or its output."""
        return RotatedLog(self.folder / name)


def planned(folder: Path, task: JobTask) -> JobPlan:
    """The plan of the job that a program would run.

    Raises:
        HeadraceError: when the program comes to none.
    """
    _write(folder / TASK, json.dumps(asdict(task)))
    command = [sys.executable, "-P", "-m", _MAIN, str(folder), "--plan"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=_PLAN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InfrastructureError(f"the program has come to no job within {_PLAN_SECONDS:g} s") from None
    if done.returncode or not (folder / PLAN).exists():
        output = done.stderr.decode(errors="replace").strip()[-_MOST_OUTPUT:]
        raise InvalidProgramError(f"the program cannot be planned: {output}")
    return plan_of_document(json.loads((folder / PLAN).read_text(encoding="utf-8")))


_MOST_OUTPUT: Final = 2_000


_SESSION: Final = 3
"""The place of the number of the session in what Linux says of a process behind its name."""


def _processes_of_session(session: int) -> list[int]:
    """The processes of a session, but for the one that has begun it; none where Linux does not tell."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            stat = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if stat[_SESSION] == str(session) and entry.name != str(session):
                found.append(int(entry.name))
    return found


def remove_folder(folder: Path) -> None:
    """Remove a folder of this machine; what cannot be removed stays in the folder for temporary files."""
    shutil.rmtree(folder, ignore_errors=True)


def _write(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)


def copy_program(source: Folder, name: str, target: Path) -> Path:
    """Copy a file of the storage to this machine."""
    path = target / name
    with path.open("xb") as file:
        for block in source.file_system.blocks(f"{source.path}/{name}"):
            file.write(block)
    return path
