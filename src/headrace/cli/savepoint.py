"""``headrace savepoint``, ``stop`` and the like by the checkpoint directory of a job that runs elsewhere."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from headrace.checkpoint.directory import has_begun, may_begin
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import SavepointError
from headrace.jobmanager.savepoints import EMPTY_PLACE
from headrace.savepoint.disposal import dispose
from headrace.savepoint.requests import JobAnswer, JobRequest, ask
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage

_START_SECONDS: Final = 60.0
"""So long a program has to begin its job that was started just before: Java may have to start, and a cluster."""

_LOOK_SECONDS: Final = 0.1


def run_savepoint(
    directory: str, target: str | None, request: JobRequest, configuration: Configuration, timeout: float
) -> None:
    """Have a job take a savepoint, or stop, and print where the savepoint is.

    Args:
        directory: the job's checkpoint directory.
        target: where the savepoint is made; the configuration's place when left out.
        request: what is wanted besides.
        configuration: how storages are reached.
        timeout: how many seconds the job has.

    Raises:
        SavepointError: when none is taken.
    """
    if target is not None and not target.strip():
        raise SavepointError(EMPTY_PLACE)
    where = target or configuration.get(options.SAVEPOINT_DIR)
    wanted = replace(request, directory=place(where) if where else "")
    _print(_answered(directory, wanted, configuration, timeout).savepoint or "the job has stopped")


def run_rescale(directory: str, parallelism: int, configuration: Configuration, timeout: float) -> None:
    """Have a job go on at another parallelism; arguments as of :func:`run_savepoint`."""
    _answered(directory, JobRequest("", parallelism=parallelism), configuration, timeout)
    _print(f"the job goes on at parallelism {parallelism}")


def run_cancel(directory: str, configuration: Configuration, timeout: float) -> None:
    """Have a job give up; arguments as of :func:`run_savepoint`."""
    _answered(directory, JobRequest("", cancels=True), configuration, timeout)
    _print("the job is cancelled")


def run_checkpoint(directory: str, configuration: Configuration, timeout: float) -> None:
    """Have a job complete an epoch at once, and print its number; arguments as of :func:`run_savepoint`."""
    _print(str(_answered(directory, JobRequest("", checkpoints=True), configuration, timeout).checkpoint))


def run_release(directory: str, configuration: Configuration, timeout: float) -> None:
    """Have a job publish the epoch that it holds back, and print its number; arguments as of :func:`run_savepoint`."""
    _print(str(_answered(directory, JobRequest("", releases=True), configuration, timeout).checkpoint))


def run_dispose(savepoint: str, configuration: Configuration) -> None:
    """Remove a savepoint."""
    open_ = partial(open_storage, options=configuration.storage_options())
    kept = dispose(open_(place(savepoint)), open_)
    _print(f"{savepoint} is disposed of" + (f"; {kept}" if kept else ""))


def _answered(directory: str, wanted: JobRequest, configuration: Configuration, timeout: float) -> JobAnswer:
    storage = open_storage(directory, options=configuration.storage_options())
    _wait_for_begin(storage, min(timeout, _START_SECONDS))
    waiting = partial(tell, f"waiting for the job in {storage} to take the request, {timeout:g} s at most")
    answer = ask(storage, wanted, accept_seconds=timeout, timeout_seconds=timeout, still_waiting=waiting)
    if answer.error:
        raise SavepointError(answer.error)
    return answer


def _wait_for_begin(directory: Folder, seconds: float) -> None:
    """Wait for a job to begin in a directory, and say so.

    Only where one may be about to. Elsewhere a request would be a stray file, which whoever reads that folder takes for
    data.

    Raises:
        SavepointError: when none begins.
    """
    until = time.monotonic() + seconds
    is_told = False
    while not has_begun(directory):
        if time.monotonic() >= until or not may_begin(directory):
            raise SavepointError(
                f"{directory} is no checkpoint directory: no job has begun there. Name the one that the job has as "
                f"{options.CHECKPOINT_DIR.key}"
            )
        if not is_told:
            tell(f"no job has begun in {directory} yet: waiting for one, {seconds:g} s at most")
            is_told = True
        time.sleep(_LOOK_SECONDS)


def tell(text: str) -> None:
    """Print a line to the standard error."""
    Console(stderr=True).print(Text(text), soft_wrap=True)


def place(location: str) -> str:
    """The place as the job finds it, whose working directory is another one."""
    return location if "://" in location else str(Path(location).absolute())


def _print(text: str) -> None:
    Console().print(Text(text), soft_wrap=True)
