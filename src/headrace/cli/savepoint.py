"""``headrace savepoint``, ``stop`` and the like by the checkpoint directory of a job that runs elsewhere."""

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from headrace.checkpoint.directory import has_begun, may_begin
from headrace.cli.output import output
from headrace.cli.settings import SavepointKind
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import SavepointError
from headrace.jobmanager.savepoints import EMPTY_PLACE
from headrace.savepoint.disposal import dispose
from headrace.savepoint.requests import JobAnswer, JobRequest, ask
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage

_START_SECONDS: Final = 60.0
"""The time in which a program that was just started has to begin its job: Java may have to start, and a cluster."""

_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class JobInDirectory:
    """A job that runs elsewhere, and reads requests in its checkpoint directory.

    Attributes:
        directory: the directory.
        configuration: how storages are reached.
        timeout: how many seconds the job has.
    """

    directory: str
    configuration: Configuration
    timeout: float

    def savepoint(self, target: str | None, kind: SavepointKind | None) -> str:
        return self._savepoint(target, JobRequest("", kind or "canonical", needs_savepoint=True))

    def stop(self, target: str | None, kind: SavepointKind | None, *, drains: bool) -> str:
        needs_savepoint = kind is not None
        wanted = JobRequest("", kind or "canonical", stops=True, drains=drains, needs_savepoint=needs_savepoint)
        return self._savepoint(target, wanted)

    def cancel(self) -> str:
        self._answered(JobRequest("", cancels=True))
        return "the job is cancelled"

    def checkpoint(self) -> str:
        return str(self._answered(JobRequest("", checkpoints=True)).checkpoint)

    def release(self) -> str:
        return str(self._answered(JobRequest("", releases=True)).checkpoint)

    def rescale(self, parallelism: int) -> str:
        self._answered(JobRequest("", parallelism=parallelism))
        return f"the job goes on at parallelism {parallelism}"

    def _savepoint(self, target: str | None, request: JobRequest) -> str:
        if target is not None and not target.strip():
            raise SavepointError(EMPTY_PLACE)
        where = target or self.configuration.get(options.SAVEPOINT_DIR)
        wanted = replace(request, directory=place(where) if where else "")
        return self._answered(wanted).savepoint or "the job has stopped"

    def _answered(self, wanted: JobRequest) -> JobAnswer:
        storage = open_storage(self.directory, options=self.configuration.storage_options())
        _wait_for_begin(storage, min(self.timeout, _START_SECONDS))
        waiting = partial(tell, f"waiting for the job in {storage} to take the request, {self.timeout:g} s at most")
        answer = ask(storage, wanted, accept_seconds=self.timeout, timeout_seconds=self.timeout, still_waiting=waiting)
        if answer.error:
            raise SavepointError(answer.error)
        return answer


def run_dispose(savepoint: str, configuration: Configuration) -> None:
    """Remove a savepoint."""
    open_ = partial(open_storage, options=configuration.storage_options())
    kept = dispose(open_(place(savepoint)), open_)
    output().print(Text(f"{savepoint} is disposed of" + (f"; {kept}" if kept else "")), soft_wrap=True)


def _wait_for_begin(directory: Folder, seconds: float) -> None:
    """Wait for a job to begin in a directory, and say so.

    Only where one may be about to. Elsewhere a request would be a stray file, which readers of that folder take for
    data.

    Raises:
        SavepointError: when none begins.
    """
    until = time.monotonic() + seconds
    is_shown = False
    while not has_begun(directory):
        if time.monotonic() >= until or not may_begin(directory):
            raise SavepointError(
                f"{directory} is no checkpoint directory: no job has begun there. Name the one that the job has as "
                f"{options.CHECKPOINT_DIR.key}"
            )
        if not is_shown:
            tell(f"no job has begun in {directory} yet: waiting for one, {seconds:g} s at most")
            is_shown = True
        time.sleep(_LOOK_SECONDS)


def tell(text: str) -> None:
    """Print a line to the standard error."""
    Console(stderr=True).print(Text(text), soft_wrap=True)


def place(location: str) -> str:
    """The place as the job finds it, whose working directory is another one."""
    return location if "://" in location else str(Path(location).absolute())
