"""The output of commands, and the report of the end of a program: to the user, and as an exit code."""

import contextlib
import io
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from headrace.client.running import PIPE_CLOSED
from headrace.common.errors import MISTAKES, ConfigurationError, HeadraceError, OutputClosedError, program_line
from headrace.common.logs import get_logger, prints_json
from headrace.common.masking import without_secrets

logger = get_logger(__name__)

OK: Final = 0
FAILED: Final = 1
NOT_UNDERSTOOD: Final = 2
"""The exit status of a command with wrong options."""

INTERRUPTED: Final = 130
"""The exit status of a program that ended by Ctrl-C."""


def report(error: BaseException, console: Console, script: Path | None = None, *, full: bool = False) -> int:
    """Say why a program ended; as a record at ERROR where the standard error has lines of JSON.

    Args:
        error: what it raised.
        console: where to say it.
        script: the program; a traceback begins there and not in what runs it.
        full: whether errors of headrace are shown with their traceback and notes too.

    Returns:
        The exit code.
    """
    if isinstance(error, SystemExit):
        return _exit_code(error, console)
    if isinstance(error, OutputClosedError) and not full:
        return PIPE_CLOSED
    if isinstance(error, KeyboardInterrupt):
        _print(console, Text("interrupted"))
        return INTERRUPTED
    if isinstance(error, HeadraceError) and not full:
        _print_error(console, (str(error) or type(error).__name__) + _place(error))
    else:
        _print_traceback(console, error, _traceback(error, script, full=full).rstrip("\n"))
    return FAILED


def exit_code_of(error: BaseException) -> int:
    """Say why a command ended that is no program; returns the exit code."""
    if isinstance(error, BrokenPipeError):  # as after ``| head``
        sys.stdout = None
        return PIPE_CLOSED
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    _print_error(Console(stderr=True), str(error) or type(error).__name__)
    return NOT_UNDERSTOOD if isinstance(error, ConfigurationError) else FAILED


def without_job(script: Path, console: Console) -> int:
    """Say that a program came to its end without having run a job.

    Returns:
        The exit code.
    """
    _print_error(console, f"{script} ended without a job: it never came to execute()")
    return FAILED


def _place(error: HeadraceError) -> str:
    """The line of the program that a mistake was found at, where the message does not tell."""
    place = program_line(error) if isinstance(error, MISTAKES) else None
    return f"\n  at {place}" if place and str(place) not in str(error) else ""


def _exit_code(error: SystemExit, console: Console) -> int:
    """Do as the interpreter does: nothing is success, a number is the code, anything else is printed."""
    if error.code is None:
        return OK
    if isinstance(error.code, int):
        return error.code
    _print(console, Text(str(error.code)))
    return FAILED


def _traceback(error: BaseException, script: Path | None, *, full: bool) -> str:
    """The traceback as the interpreter prints it: ``traceback`` lacks its "Did you mean" before Python 3.12."""
    start = error.__traceback__ if full or script is None else _within(error.__traceback__, script)
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        sys.__excepthook__(type(error), error.with_traceback(start), start)
    return printed.getvalue()


def _within(found: TracebackType | None, script: Path) -> TracebackType | None:
    """The traceback from the script's first frame on; none of it when the script did not get that far."""
    while found is not None and found.tb_frame.f_code.co_filename != str(script):
        found = found.tb_next
    return found


def _print_error(console: Console, message: str) -> None:
    if prints_json():
        logger.error("%s", message)
    else:
        _print(console, Text.assemble(("error: ", "bold red"), message))


def _print_traceback(console: Console, error: BaseException, traceback: str) -> None:
    if prints_json():
        logger.error("%s: %s", type(error).__name__, error, extra={"exception": traceback})
    else:
        _print(console, Text(without_secrets(traceback)))


def _print(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True, highlight=False)


_NO_LIMIT: Final = 10_000
"""The width of output that is no terminal, without ``COLUMNS``: what other programs read is not cut."""


def output() -> Console:
    """Return where a command prints its output."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=_NO_LIMIT)


def new_table(*columns: str) -> Table:
    """A table without rows; what is too long for its column goes on in the next line, and is never cut.

    Args:
        columns: their headings, shown as they are, brackets included.
    """
    return Table(*(Column(Text(column), overflow="fold") for column in columns), box=SIMPLE_HEAD, pad_edge=False)
