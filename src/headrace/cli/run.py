"""``headrace run``: runs a program as Python itself would, and shows what its jobs do."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from headrace.cli.failures import OK, report, without_job
from headrace.cli.interrupts import InterruptGuard
from headrace.client.defaults import submission_defaults
from headrace.client.progress.listener import ProgressListener, listener_for
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.errors import JobCancelledError, showing_all, shows_all
from headrace.common.logs import LogSettings
from headrace.runtime.spark.java_process import EarlyJava


def run_program(
    script: Path,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    *,
    progress: bool | None = None,
    full_traceback: bool = False,
    console: Console | None = None,
) -> int:
    """Run a program to its end.

    Args:
        script: the program.
        arguments: its arguments.
        settings: win over the configuration that the program itself makes.
        progress: whether to show what jobs do; None for the usual.
        full_traceback: whether errors are shown with all that is known.
        console: where to show it; the standard error when left out.

    Returns:
        The exit code.
    """
    configuration = Configuration.from_dict(settings)
    early_java = EarlyJava.for_program(script, configuration)
    LogSettings.of(configuration).apply()
    console = console or Console(stderr=True)
    listener = listener_for(console, progress=configuration.get(options.PROGRESS) if progress is None else progress)
    if early_java is not None:
        listener.starting(f"Spark, master {early_java.master}")
    error: BaseException | None = None
    submitted: Sequence[str] = ()
    with InterruptGuard(listener.say) as guard:
        listener.on_start = guard.job_started
        try:
            surroundings = submission_defaults(settings, listener, early_java, whole_process=True)
            with showing_all(full_traceback), surroundings as defaults:
                submitted = defaults.submitted
                run_script(script, arguments)
        except BaseException as raised:
            error = raised
        finally:
            listener.close()
    if error is None and not submitted and not guard.presses:
        return without_job(script, console)
    return _end(error, guard, listener, settings, full_traceback=full_traceback, script=script)


def _end(
    error: BaseException | None,
    guard: InterruptGuard,
    listener: ProgressListener,
    settings: Mapping[str, str],
    *,
    full_traceback: bool,
    script: Path,
) -> int:
    """Say how it ended; after Ctrl-C or SIGTERM, how to go on."""
    # A job that was cancelled at the user's wish says so by an error; the user knows
    expected = guard.presses > 0 and isinstance(error, JobCancelledError | KeyboardInterrupt | SystemExit)
    code = OK
    if error is not None and not (expected and not full_traceback):
        code = report(error, listener.console, script, full=full_traceback or shows_all())
    if not guard.presses or (error is not None and not expected):
        return code
    listener.say(_how_to_go_on(listener.last_epochs, settings))
    return guard.exit_code


def _how_to_go_on(last_epochs: Mapping[str, int], settings: Mapping[str, str]) -> str:
    if not last_epochs:
        return "interrupted before the first epoch was complete"
    where = ", ".join(f"epoch {epoch} of job {name!r}" for name, epoch in last_epochs.items())
    if options.CHECKPOINT_DIR.key in settings:
        return f"stopped after {where}; run the same command again to go on from there"
    return (
        f"stopped after {where}; the same command goes on from there if the program sets a checkpoint directory, "
        "else give one with --checkpoint-dir"
    )


def run_script(script: Path, arguments: Sequence[str]) -> None:
    """Run a program to its end; whatever it raises comes through."""
    with _surroundings(script, arguments):
        runpy.run_path(str(script), run_name="__main__")


@contextmanager
def _surroundings(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
