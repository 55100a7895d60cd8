"""``headrace failures``: shows what a job has failed with, as its checkpoint directory keeps it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from headrace.checkpoint.directory import has_begun
from headrace.checkpoint.failure_history import FailureHistory
from headrace.cli.failures import FAILED, OK
from headrace.cli.tables import output
from headrace.client.progress import wording
from headrace.common.errors import CheckpointError
from headrace.common.job_status import JobStatus
from headrace.storage.locations import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.common.job_execution_result import JobFailure


def run_failures(
    location: str, options: Mapping[str, str], console: Console | None = None, now: float | None = None
) -> int:
    """Print the failures that a checkpoint directory knows of, the latest last.

    Args:
        location: the directory.
        options: what the client of an object store is told.
        console: where to print.
        now: the time in milliseconds; that of the system when left out.

    Returns:
        The exit code: 1 when the directory cannot be read, or is none of checkpoints.
    """
    errors, console = console or Console(stderr=True), console or output()
    now = time.time() * 1000 if now is None else now
    try:
        directory = open_storage(location, options=options)
        failures = FailureHistory(directory).read()
        is_any = bool(failures) or has_begun(directory)
    except (CheckpointError, OSError) as error:
        errors.print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
        return FAILED
    if not is_any:
        errors.print(Text(f"{directory} is no checkpoint directory: no job has begun there"), soft_wrap=True)
        return FAILED
    if not failures:
        console.print(Text(f"{directory} knows of no failures"), soft_wrap=True)
    for failure in failures:
        waits = failure is failures[-1] and failure.time + (failure.restart_in or 0) * 1000 > now
        console.print(_headline(failure, waits=waits), soft_wrap=True)
        for line in _details(failure):
            console.print(Text(f"  {line}"), soft_wrap=True)
    return OK


def _headline(failure: JobFailure, *, waits: bool) -> Text:
    if failure.restart_in is None:
        what_then = "the job ended"
    elif waits:
        delay = wording.span(failure.restart_in)
        what_then = f"{JobStatus.RESTARTING.name}: restart {failure.restarts + 1} of the run follows in {delay}"
    else:
        what_then = f"restart {failure.restarts + 1} of the run followed in {wording.span(failure.restart_in)}"
    when = wording.point_in_time(failure.time)
    return Text.assemble(
        f"{failure.number}. {when}, epoch {failure.epoch}: ", (failure.error, "bold"), f"; {what_then}"
    )


def _details(failure: JobFailure) -> Iterator[str]:
    yield from failure.message.splitlines()
    if failure.origin is not None and failure.origin.executor is not None:
        yield f"on {failure.origin.executor}"
    for key, text in sorted(failure.labels.items()):
        yield f"{key}: {text}"
