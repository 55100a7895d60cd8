"""Every error that headrace raises on purpose.

Each class is doubled with the built-in exception that a Python programmer would expect, so that
``except ValueError`` works as well as ``except HeadraceError``. A message says what was wrong, where, and what to do.
"""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, Any, Final

from headrace.common.call_site import of_traceback
from headrace.common.notebooks import with_cells

if TYPE_CHECKING:
    from headrace.common.job_failure import FailureOrigin

EXITS: Final = (SystemExit, KeyboardInterrupt, GeneratorExit)
"""What ends whoever it reaches. Raised by code that others wait for (a committer, work beside the epochs), it is told
to these as a :class:`JobExecutionError`: they would take it for their own."""

TRACEBACK: Final = "HEADRACE_TRACEBACK"
"""Environment variable; ``full`` shows all of a traceback."""


def shows_all() -> bool:
    """Whether whoever runs the program wants to see all of a traceback."""
    return os.environ.get(TRACEBACK, "").lower() == "full"


class HeadraceError(Exception):
    """The root of all errors of headrace.

    Attributes:
        origin: the operator, record and process that it came from, where a function of the user failed in a task.
    """

    origin: FailureOrigin | None = None

    def _render_traceback_(self) -> list[str]:
        """What notebooks and IPython show: the message and the line of a mistake, unless all is wanted."""
        if shows_all():
            return "".join(traceback.format_exception(self)).splitlines()
        text = f"{type(self).__name__}: {self}"
        place = of_traceback(self.__traceback__) if isinstance(self, MISTAKES) else None
        told = f"\n  at {place}" if place and str(place) not in text else ""
        return with_cells(text + told).splitlines()


class InvalidProgramError(HeadraceError, ValueError):
    """The program that the user wrote cannot be run: a bad argument, a type that does not fit, a duplicate uid."""


class InvalidTypeError(InvalidProgramError, TypeError):
    """A value or a type hint does not fit the type that was declared for it.

    Attributes:
        record: the record, or the value, that does not fit; there only where it is known.
        without_row: the message without the record's place in its batch, for where the record itself is shown.
    """

    record: Any
    without_row: str


class UnknownNameError(InvalidProgramError, AttributeError):
    """There is no such method or field; the message says what is alike, or what other libraries' is called here."""


class ConfigurationError(HeadraceError, ValueError):
    """An option is unknown, malformed or contradicts another one."""


class UnsupportedOperationError(HeadraceError, NotImplementedError):
    """Flink knows this, headrace does not (or not here); the message says what to use instead."""


class MissingNameError(UnsupportedOperationError, AttributeError):
    """Objects or modules of PyFlink have such a name; the message says why it is not here, and what to do instead."""


class MissingImportError(UnsupportedOperationError, ImportError):
    """A module has no such name: it is in another one, or only PyFlink has it; the message says what to do instead.

    Args:
        message: the message.
        name: the module that was imported, or imported from.
        path: its file, where it has one.
    """

    def __init__(self, message: str, name: str | None = None, path: str | None = None) -> None:
        ImportError.__init__(self, message, name=name, path=path)


class MissingModuleError(MissingImportError, ModuleNotFoundError):
    """There is no such module: it is elsewhere, or only PyFlink has it; the message says what to do instead."""


class EvaluationError(HeadraceError, ArithmeticError):
    """An expression has no value for a record: an overflow, a division by zero, text that is no number.

    Attributes:
        row: which record of its batch.
    """

    row: int = 0


class BadRecordError(HeadraceError, ValueError):
    """A source met a row that it cannot read; the message names file and line, or split and position."""


class CorruptFileError(BadRecordError):
    """An input file cannot be read, or not to its end: it is damaged, cut short or of another kind."""


class SourceChangedError(HeadraceError, RuntimeError):
    """Input that was already planned has changed since (a file's size or modification time, say)."""


class StateError(HeadraceError, RuntimeError):
    """State cannot be read or written as asked."""


class StateCorruptedError(StateError):
    """A state file is missing, truncated or fails its checksum; the message names the file."""


class StateMigrationError(StateError):
    """Restored state does not fit the descriptor that the program declares now."""


class CheckpointError(HeadraceError, RuntimeError):
    """A checkpoint cannot be written, read or adopted."""


class CheckpointStorageError(CheckpointError, OSError):
    """The checkpoint directory is missing something that exactness needs (exclusive creation, say)."""


class SavepointError(CheckpointError):
    """A savepoint cannot be taken, read or started from; the message names the file, or what to do."""


class SavepointMissingError(SavepointError):
    """There is no savepoint where one was looked for."""


class JobSupersededError(CheckpointError):
    """Another job manager has taken over the checkpoint directory; this one has to stop."""


class CommitRefusedError(HeadraceError, RuntimeError):
    """A sink refused a committable for good; the message names the sink and the epoch."""


class OutputClosedError(CommitRefusedError):
    """Nobody reads any more what the job prints: ``| head`` has seen enough."""


class LogError(HeadraceError, RuntimeError):
    """An embedded log cannot be used as asked."""


class LogCorruptedError(LogError):
    """A file of a log is missing, truncated or fails its checksum; the message names the file and the bytes."""


class UnknownTopicError(LogError, LookupError):
    """A log has no such topic, or a topic no such partition."""


class TopicExistsError(LogError):
    """A log has a topic of that name already."""


class OffsetOutOfRangeError(LogError, LookupError):
    """A partition of a log does not have that offset: its records were deleted, or are not there yet."""


class ProducerFencedError(LogError):
    """Another producer has begun with the same transactional id; this one has to stop."""


class CommitFailedError(LogError):
    """A consumer commits offsets of partitions that its group has given to others meanwhile."""


class JobExecutionError(HeadraceError, RuntimeError):
    """A job failed while it ran."""


class JobCancelledError(JobExecutionError):
    """The job was cancelled before its input ended; the message says after which epoch."""


class InfrastructureError(HeadraceError, RuntimeError):
    """A machine, a process or a connection failed, not the program; the epoch may be run again."""


class CheckpointFailedError(InfrastructureError):
    """The checkpoint of an epoch was not written, or not in time; the epoch may be run again."""


class SchemaRegistryError(HeadraceError, RuntimeError):
    """A schema registry refuses a schema, or what it was asked for; the message says why."""


class UnknownSchemaError(SchemaRegistryError, LookupError):
    """A schema registry has no such schema or subject."""


class WorkerDiedError(InfrastructureError):
    """A process that tasks run in has died: it was killed, or a function of the user or a library has ended it.

    Args:
        message: how it died.
        times: how often in a row while the same epoch was at work.
    """

    def __init__(self, message: str, times: int = 1) -> None:
        super().__init__(message if times == 1 else f"{message}; it was number {times} in a row in this epoch")
        self._message = message
        self._times = times

    def __reduce__(self) -> tuple[type[WorkerDiedError], tuple[str, int]]:
        return type(self), (self._message, self._times)

    def number(self, times: int) -> WorkerDiedError:
        """The same, as one of several."""
        return WorkerDiedError(self._message, times)


class UserFunctionError(JobExecutionError):
    """A function that the user wrote raised; the message names the operator, the source line and the record."""


class FunctionRefusedError(UserFunctionError):
    """A function of the user asked for what headrace refuses: it would again, so no restart strategy tries it."""


class JavaNotFoundError(HeadraceError, RuntimeError):
    """No Java that can start Spark or Kafka was found; the message says where was looked and what to install."""


MISTAKES: Final = (ConfigurationError, InvalidProgramError, UnsupportedOperationError)
"""What is found at a line of the program, most of it while the graph is built; jobs that run fail with others."""
