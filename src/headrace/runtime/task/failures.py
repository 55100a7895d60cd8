"""Which failures go to the driver as a report, and which make the task itself fail.

A failed user function fails again when the task is run again, so Spark must not be asked to try: it is reported. What a
machine may do better next time (a read error, a lost file, a lost envelope) is raised.
"""

from __future__ import annotations

import os
import socket
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.common import errors
from headrace.common.errors import program_lines, shows_all
from headrace.operators.user_code import RecordError, text_of

if TYPE_CHECKING:
    from headrace.common.errors import FailureOrigin
    from headrace.storage.folder import Folder

REPORTED = (
    errors.UserFunctionError,
    errors.InvalidProgramError,
    errors.BadRecordError,
    errors.SourceChangedError,
    errors.StateMigrationError,
    errors.StateCorruptedError,
    errors.UnsupportedOperationError,
    ArithmeticError,
    SystemExit,  # of user code that is called where no operator can tell: a __reduce__, say
)
"""Errors that running the task again cannot repair."""

_HOW_TO_REPAIR: Final = (
    " (in {}). Put it back as it was, and the job goes on; where there is no intact copy, start with a fresh "
    "checkpoint directory and a fresh output"
)


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A failure of the user's code or input, on its way to the driver.

    Attributes:
        error: name of the class in :mod:`headrace.common.errors`.
        message: what was wrong, where, and what to do.
        details: the traceback inside the task.
        program: the part of it that is the program's own, when that says more than the message.
        origin: what failed, where that is known, with the process of the task.
    """

    error: str
    message: str
    details: str
    program: str
    origin: FailureOrigin | None = None

    @staticmethod
    def of(error: BaseException, state: Folder) -> TaskFailure:
        """An error in a form that travels.

        Args:
            error: what was raised.
            state: where the state files are, which errors know by their names only.
        """
        kind = next((cls.__name__ for cls in type(error).__mro__ if hasattr(errors, cls.__name__)), "JobExecutionError")
        details = "".join(traceback.format_exception(error))
        message = text_of(error) or type(error).__name__
        if isinstance(error, errors.StateCorruptedError):
            message += _HOW_TO_REPAIR.format(state)
        program = details
        if isinstance(error, errors.HeadraceError):
            cause = error.__cause__
            raised = cause.__cause__ if isinstance(cause, RecordError) else cause
            program = program_lines(raised) if raised else ""
        return TaskFailure(kind, message, details, program, _here(getattr(error, "origin", None)))

    def to_error(self) -> errors.HeadraceError:
        """The error, to be raised in the driver."""
        error: errors.HeadraceError = getattr(errors, self.error)(self.message)
        error.origin = self.origin
        note = self.details if shows_all() else self.program
        if note:
            error.add_note(f"in the task:\n{note.rstrip()}")
        return error


def _here(origin: FailureOrigin | None) -> FailureOrigin | None:
    """Where a failure came from, with this process."""
    if origin is None:
        return None
    return replace(origin, executor=f"{socket.gethostname()}, process {os.getpid()}")
