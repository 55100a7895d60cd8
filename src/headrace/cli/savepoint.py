"""``headrace savepoint``, ``stop`` and ``rescale``: ask a job that runs elsewhere, by its checkpoint directory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from headrace.checkpoint.directory import has_begun
from headrace.cli.failures import FAILED, OK
from headrace.common import options
from headrace.common.errors import ConfigurationError, HeadraceError, SavepointError
from headrace.savepoint.disposal import dispose
from headrace.savepoint.requests import JobRequest, ask
from headrace.storage.locations import open_storage

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.configuration import Configuration
    from headrace.savepoint.requests import JobAnswer
    from headrace.storage.folder import Folder


def run_savepoint(
    directory: str, target: str | None, request: JobRequest, configuration: Configuration, timeout: float
) -> int:
    """Have a job take a savepoint, or stop, and print where the savepoint is.

    Args:
        directory: the job's checkpoint directory.
        target: where the savepoint is made; the configuration's place when left out.
        request: what is wanted besides.
        configuration: how storages are reached.
        timeout: how many seconds the job has.

    Returns:
        The exit code.
    """
    return _reporting(partial(_ask, directory, target, request, configuration, timeout))


def run_rescale(directory: str, parallelism: int, configuration: Configuration, timeout: float) -> int:
    """Have a job go on at another parallelism; arguments and result as of :func:`run_savepoint`."""

    def rescale() -> str:
        _answered(directory, JobRequest("", parallelism=parallelism), configuration, timeout)
        return f"the job goes on at parallelism {parallelism}"

    return _reporting(rescale)


def run_dispose(savepoint: str, configuration: Configuration) -> int:
    """Remove a savepoint; returns the exit code."""

    def remove() -> str:
        open_ = partial(open_storage, options=configuration.storage_options())
        dispose(open_(_place(savepoint)), open_)
        return f"{savepoint} is disposed of"

    return _reporting(remove)


def _ask(directory: str, target: str | None, request: JobRequest, configuration: Configuration, timeout: float) -> str:
    where = target or configuration.get(options.SAVEPOINT_DIR)
    if where is None and not request.stops:
        raise ConfigurationError(
            f"where is the savepoint to be made? Give a directory, or set {options.SAVEPOINT_DIR.key} (-D)"
        )
    wanted = JobRequest(_place(where) if where else "", request.format, request.stops, request.drains)
    return _answered(directory, wanted, configuration, timeout).savepoint or "the job has stopped"


def _answered(directory: str, wanted: JobRequest, configuration: Configuration, timeout: float) -> JobAnswer:
    storage = open_storage(directory, options=configuration.storage_options())
    if not has_begun(storage):  # a request would be a stray file there, which whoever reads that folder takes for data
        raise SavepointError(
            f"{storage} is no checkpoint directory: no job has begun there. Name the one that the job has as "
            f"{options.CHECKPOINT_DIR.key}"
        )
    waiting = partial(_tell_waiting, storage, timeout)
    answer = ask(storage, wanted, accept_seconds=timeout, timeout_seconds=timeout, still_waiting=waiting)
    if answer.error:
        raise SavepointError(answer.error)
    return answer


def _tell_waiting(directory: Folder, timeout: float) -> None:
    told = f"waiting for the job in {directory} to take the request, {timeout:g} s at most"
    Console(stderr=True).print(Text(told), soft_wrap=True)


def _place(location: str) -> str:
    """The place as the job finds it, whose working directory is another one."""
    return location if "://" in location else str(Path(location).absolute())


def _reporting(work: Callable[[], str]) -> int:
    try:
        Console().print(Text(work()), soft_wrap=True)
    except (HeadraceError, OSError) as error:
        Console(stderr=True).print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
        return FAILED
    return OK
