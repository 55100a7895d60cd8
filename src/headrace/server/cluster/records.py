"""The records of a cluster on its storage: programs, jobs and the attempts to run them.

Layout: ``leader/…``, ``programs/<id>/…``, ``archives/<job id>``, ``checkpoints/<job id>/…``, and of each run of a
program ``jobs/<job id>-<run>/job.json``, ``…/program/<file>``, ``…/attempts/<n>.json`` (made by the dispatcher that
starts a process), ``…/attempts/<n>.process`` (made by that process before it does anything), ``…/attempts/<n>.end``
(made by it at its end), ``…/logs/<n>.<log>``, ``…/cancel``, ``…/end.json``.

What is in the folder of a run is made once, exclusively, and never changed. So of two dispatchers that both believe to
lead one starts the next attempt. A process that was started and finds a later attempt than its own ends before it has
done anything.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from headrace.common.errors import HeadraceError
from headrace.savepoint.requests import JobProcess
from headrace.storage.folder import Folder

T = TypeVar("T")

_RUN: Final = re.compile(r"([0-9a-f]{32})-([0-9]{4})")
_ATTEMPT: Final = re.compile(r"([0-9]{6})\.(json|process|end)")

JOB: Final = "job.json"
CANCEL: Final = "cancel"
END: Final = "end.json"
PROGRAM: Final = "program"


@dataclass(frozen=True, slots=True)
class Submission:
    """The submission of a job.

    Attributes:
        job_id: the id that the job has.
        program: the name of the program's file: a script, an archive, or statements of SQL.
        arguments: its arguments.
        settings: its configuration; there may be secrets in it.
        entry: the script in an archive; empty for the usual one.
        time: when it was submitted, in milliseconds of the system's clock.
    """

    job_id: str
    program: str
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    entry: str = ""
    time: int = 0


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A process that runs an attempt, as it says itself.

    Attributes:
        process: the process.
        folder: its folder on its machine: there are its logs, and how it is reached.
    """

    process: JobProcess
    folder: str


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """The end of an attempt.

    Attributes:
        status: the last status of its job; empty where there was no job.
        code: the exit code of its process; None if unknown.
        message: why.
        time: when, in milliseconds of the system's clock.
    """

    status: str
    code: int | None
    message: str = ""
    time: int = 0


class RunRecord:
    """The records of one run of a program.

    Args:
        folder: where they are.
        name: ``<job id>-<run>``.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        self.folder = folder.folder(name)
        self.name = name
        self._attempts = self.folder.folder("attempts")

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return self.name.partition("-")[0]

    def submission(self) -> Submission | None:
        """The submission; None if it was not written before its process ended."""
        document = read_json(self.folder, JOB)
        try:
            return None if document is None else Submission(**{**document, "arguments": tuple(document["arguments"])})
        except (KeyError, TypeError) as error:
            raise HeadraceError(f"{self.folder.locate(JOB)} is of another version, or damaged: {error}") from None

    def submit(self, submission: Submission) -> bool:
        """Record the submission; False if there is one."""
        return _create(self.folder, JOB, asdict(submission))

    @property
    def is_cancelled(self) -> bool:
        """True if the job has been cancelled."""
        return self.folder.size(CANCEL) is not None

    def cancel(self) -> None:
        """Record that the job is cancelled, which the leading dispatcher then does."""
        self.folder.create(CANCEL, b"")

    def end(self) -> AttemptEnd | None:
        """Return how it ended for good; None before."""
        document = read_json(self.folder, END)
        return None if document is None else AttemptEnd(**document)

    def finish(self, end: AttemptEnd) -> bool:
        """Record how it ended for good: it is not started any more. False if that was recorded before."""
        return _create(self.folder, END, asdict(end))

    def remove(self) -> None:
        """Remove all of it, once it has ended; the record of its end goes last, so that it is not started again."""
        system, last = self.folder.file_system, [f"{self.folder.path}/{name}" for name in (JOB, END)]
        files = [path for path, _ in system.walk(self.folder.path)]
        system.remove_all([path for path in files if path not in last])
        for path in last:
            system.remove(path)
        self.folder.remove_empty_folders()

    # --- attempts ----------------------------------------------------------------------------------------------------

    def attempts(self) -> list[int]:
        """The numbers of the attempts that were begun."""
        return sorted({int(found[1]) for name in _names(self._attempts) if (found := _ATTEMPT.fullmatch(name))})

    def begin_attempt(self, number: int, generation: int) -> bool:
        """Record that an attempt is begun; False where another dispatcher has."""
        self._attempts.make()
        return _create(self._attempts, f"{number:06}.json", {"generation": generation, "time": millis()})

    def claim_attempt(self, number: int, process: StartedProcess) -> bool:
        """Record that a process runs an attempt.

        Returns:
            False when it must not: another process does, or a later attempt was begun.
        """
        if not _create(self._attempts, f"{number:06}.process", asdict(process)):
            return False
        return not self.is_superseded(number)

    def is_superseded(self, number: int) -> bool:
        """Return whether a later attempt was begun; they are begun one after the other, so the next one says so."""
        return self._attempts.size(f"{number + 1:06}.json") is not None

    def process_of(self, number: int) -> StartedProcess | None:
        """The process of an attempt; None where none has said that it is that."""
        document = read_json(self._attempts, f"{number:06}.process")
        return None if document is None else StartedProcess(JobProcess(**document["process"]), document["folder"])

    def end_of(self, number: int) -> AttemptEnd | None:
        """Return how an attempt ended; None if that is not recorded."""
        document = read_json(self._attempts, f"{number:06}.end")
        return None if document is None else AttemptEnd(**document)

    def end_attempt(self, number: int, end: AttemptEnd) -> None:
        """Record how an attempt ended, unless that is recorded."""
        _create(self._attempts, f"{number:06}.end", asdict(end))


class RunRecords:
    """All runs of a cluster.

    Args:
        storage: the folder of the cluster.
    """

    def __init__(self, storage: Folder) -> None:
        self.folder = storage.folder("jobs")
        self.folder.make()

    def names(self) -> list[str]:
        """The names of all runs, ``<job id>-<run>``."""
        return [name for name in _names(self.folder) if _RUN.fullmatch(name)]

    def get(self, name: str) -> RunRecord:
        """The records of one run."""
        return RunRecord(self.folder, name)

    def of_job(self, job_id: str) -> Iterator[RunRecord]:
        """The runs of one job, the first one first."""
        yield from (self.get(name) for name in self.names() if name.startswith(f"{job_id}-"))

    def next_of(self, job_id: str) -> RunRecord:
        """The records of the next run of a job; nothing is recorded yet."""
        numbers = [int(run.name.rpartition("-")[2]) for run in self.of_job(job_id)]
        return self.get(f"{job_id}-{max(numbers, default=0) + 1:04}")


def millis() -> int:
    """The time of the system's clock."""
    return time.time_ns() // 1_000_000


def read_json(folder: Folder, name: str) -> dict[str, Any] | None:
    """The object in a file; None where there is no file.

    Raises:
        HeadraceError: when there is something else in it.
    """
    try:
        content = folder.read(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = json.loads(content)
        if not isinstance(found, dict):
            raise TypeError("it is no object")
    except (ValueError, TypeError) as error:
        raise HeadraceError(f"{folder.locate(name)} is damaged: {error}") from None
    return found


def _create(folder: Folder, name: str, document: Mapping[str, Any]) -> bool:
    folder.make()
    return folder.create(name, json.dumps(document).encode())


def _names(folder: Folder) -> list[str]:
    try:
        return folder.names()
    except (FileNotFoundError, NotADirectoryError):
        return []
