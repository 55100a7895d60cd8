"""Every error that headrace raises on purpose, how arguments are refused, and how much of a traceback is shown.

Each class is doubled with the built-in exception that a Python programmer would expect, so that ``except ValueError``
works as well as ``except HeadraceError``. A message says what was wrong, where, and what to do.

The calls inside headrace that led to an error say nothing more to the author of a program, and are many: the lines of
the program are shown, or all with ``HEADRACE_TRACEBACK=full``.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS, isabstract
from types import FunctionType, MethodType, TracebackType
from typing import Any, Final, ParamSpec, TypeGuard, TypeVar

from headrace.common.call_site import CallSite, caller, is_inside, is_of_program, of_traceback
from headrace.common.masking import without_secrets
from headrace.common.notebooks import with_cells

EXITS: Final = (SystemExit, KeyboardInterrupt, GeneratorExit)
"""Errors that end the thread that they reach. Raised by code that others wait for (a committer, work beside the
epochs), one reaches these as a :class:`JobExecutionError`: they would take it for their own."""

TRACEBACK: Final = "HEADRACE_TRACEBACK"
"""Environment variable; ``full`` shows all of a traceback."""


def shows_all() -> bool:
    """Return whether all of a traceback is to be shown."""
    return os.environ.get(TRACEBACK, "").lower() == "full"


@dataclass(frozen=True, slots=True)
class FailureOrigin:
    """Says at which operator and record a function of the user failed.

    Attributes:
        operator: the name of its operator.
        uid: the uid of that.
        subtask: which subtask.
        record: the record, shortened; None when it had none.
        executor: the host and the process; None until the failure leaves its task.

    Examples:
        >>> from headrace.common import FailureOrigin
        >>> FailureOrigin("parse", "parse", 0, record="'12,x'").record
        "'12,x'"
    """

    operator: str
    uid: str
    subtask: int
    record: str | None = None
    executor: str | None = None


class HeadraceError(Exception):
    """The root of all errors of headrace.

    Attributes:
        origin: the operator, record and process that it came from, where a function of the user failed in a task.
    """

    origin: FailureOrigin | None = None

    def __str__(self) -> str:
        """The message; secrets in it are masked, since anyone may read it."""
        return without_secrets(super().__str__())

    def __repr__(self) -> str:
        """Class and message, likewise."""
        return f"{type(self).__name__}({str(self)!r})"

    def _render_traceback_(self) -> list[str]:
        """Return what notebooks and IPython show: the message and the line of a mistake, unless all is wanted."""
        if shows_all():
            return "".join(traceback.format_exception(self)).splitlines()
        text = f"{type(self).__name__}: {self}"
        place = of_traceback(self.__traceback__) if isinstance(self, MISTAKES) else None
        where = f"\n  at {place}" if place and str(place) not in text else ""
        return with_cells(text + where).splitlines()


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


class ExpectationFailedError(BadRecordError):
    """A record violates an expectation of which the program says that the job is to fail."""


class CorruptFileError(BadRecordError):
    """An input file cannot be read, or not to its end: it is damaged, cut short or of another kind."""


class SourceChangedError(HeadraceError, RuntimeError):
    """Input that was already planned has changed since (a file's size or modification time, say)."""


class StateError(HeadraceError, RuntimeError):
    """State cannot be read or written as requested."""


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
    """The reader of what the job prints has closed the pipe, as ``| head`` does."""


class LogError(HeadraceError, RuntimeError):
    """An embedded log cannot be used as requested."""


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
    """A schema registry refuses a schema or a request; the message says why."""


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
        """Return the same, as one of several."""
        return WorkerDiedError(self._message, times)


class UserFunctionError(JobExecutionError):
    """A function that the user wrote raised; the message names the operator, the source line and the record."""


class FunctionRefusedError(UserFunctionError):
    """A function of the user requests what headrace refuses: it would again, so no restart strategy tries it."""


class JavaNotFoundError(HeadraceError, RuntimeError):
    """No Java that can start Spark or Kafka was found; the message says where was looked and what to install."""


MISTAKES: Final = (ConfigurationError, InvalidProgramError, UnsupportedOperationError)
"""Errors that name a line of the program, most of them while the graph is built; jobs that run fail with others."""


def refused(message: str, error: type[HeadraceError] = InvalidProgramError) -> HeadraceError:
    """An error that ends in the user's own line."""
    return error(f"{message}\n  at {caller()}")


def expect(value: object, kind: type, method: str) -> None:
    """Refuse an argument of another class.

    A boolean is no number, although it is one to Python; where a ``float`` is expected, an integer does as well.

    Raises:
        InvalidTypeError: when ``value`` is no instance of ``kind``; the message begins with ``method``.
    """
    kinds = (int, float) if kind is float else kind
    is_odd_number = isinstance(value, bool) and kind in (int, float)
    if is_odd_number or not isinstance(value, kinds):
        raise refused(
            f"{method} takes {with_article(kind)}, not {shown(value)}{uncalled(value, kind)}", InvalidTypeError
        )


def uncalled(value: object, kind: type) -> str:
    """The end of a message about an argument that only has to be called; empty for others.

    Args:
        value: what was given: a builder, a class, a function.
        kind: what was to be given.
    """
    if callable(getattr(value, "build", None)):
        return ": call its build()"
    if isinstance(value, type) and issubclass(value, kind):
        return ": extend it, and make one of the class" if isabstract(value) else f": make one, {value.__name__}(...)"
    if isinstance(value, FunctionType | MethodType) and value.__name__ != "<lambda>":
        return f": call it, {value.__name__}()"
    return ""


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can write a string: not halves of characters, as in names of files that are no text."""
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


def shown(value: object) -> str:
    """Return what was given, as messages name it: by its class where Python shows an address or many lines."""
    if isinstance(value, FunctionType | MethodType):
        return "a lambda" if value.__name__ == "<lambda>" else f"the function {value.__name__}"
    if type(value).__repr__ is object.__repr__:
        return with_article(type(value))
    text = repr(value)
    return with_article(type(value)) if "\n" in text else text  # a table, say


def with_article(kind: type) -> str:
    """The name of a class in a sentence: ``a FileSink``, ``an int``."""
    return f"{'an' if kind.__name__[0] in 'AEIOaeio' else 'a'} {kind.__name__}"


P = ParamSpec("P")
R = TypeVar("R")

_PUBLIC: Final = ("__init__", "__bool__", "__enter__", "__exit__", "__next__")
"""Methods that programs call by other means than the name, and that may fail."""


@contextmanager
def showing_all(is_wanted: bool) -> Iterator[None]:
    """Show everything for a while, if that is wanted."""
    before = os.environ.get(TRACEBACK)
    if is_wanted:
        os.environ[TRACEBACK] = "full"
    try:
        yield
    finally:
        if is_wanted and before is None:
            del os.environ[TRACEBACK]
        elif is_wanted and before is not None:
            os.environ[TRACEBACK] = before


def hides_engine(function: Callable[P, R]) -> Callable[P, R]:
    """Have errors for the author of a program leave a function with the lines of the program alone.

    That are errors of headrace, an interruption (Ctrl-C, or the button of a notebook), and arguments that are not those
    of the function. Anything else keeps its traceback: it is a fault of headrace, or of a library.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        handled = sys.exception()
        try:
            return function(*args, **kwargs)
        except (HeadraceError, KeyboardInterrupt, TypeError) as error:
            if args and isinstance(error, TypeError) and _is_for_the_author(error):
                _name_class(error, function.__qualname__, args[0])
            leave_the_program(error, handled)
            raise

    return call


def leave_the_program(error: BaseException, handled: BaseException | None) -> None:
    """Take the lines of headrace out of the traceback of an error for the author of a program.

    Unless all is wanted. In an ``except`` clause, before a bare ``raise``, which adds no line.

    Args:
        error: the error; what it comes of is trimmed as well.
        handled: what the program was handling when it called headrace, ``sys.exception()`` then: that is its own.
    """
    if _is_for_the_author(error) and not shows_all():
        _trim(error, handled)


def hides_engine_of_methods(cls: type, but: Collection[str], *, only_factories: bool) -> None:
    """Let errors leave the public methods of a class, and its constructor, as :func:`hides_engine` does.

    Class methods and static methods without parameters cannot fail, and stay as they are.

    Args:
        cls: the class; what it inherits is left alone.
        but: names of methods that are left alone as well.
        only_factories: whether all but class methods and static methods are left alone.
    """
    for name, member in list(vars(cls).items()):
        if name in but or (name.startswith("_") and name not in _PUBLIC):
            continue
        if isinstance(member, staticmethod | classmethod):
            if _may_be_hidden(member.__func__) and _parameters(member) > 0:
                setattr(cls, name, type(member)(hides_engine(member.__func__)))
        elif not only_factories and _may_be_hidden(member):
            setattr(cls, name, hides_engine(member))


def _may_be_hidden(member: object) -> TypeGuard[FunctionType]:
    return isinstance(member, FunctionType) and not hasattr(member, "__wrapped__")


def _parameters(member: staticmethod[..., object] | classmethod[Any, ..., object]) -> int:
    code = member.__func__.__code__
    more = bool(code.co_flags & (CO_VARARGS | CO_VARKEYWORDS))
    return code.co_argcount + code.co_kwonlyargcount + more - isinstance(member, classmethod)


def program_lines(error: BaseException) -> str:
    """The traceback of an error and its causes with the lines of the program alone; empty when that is one at most."""
    shown = traceback.TracebackException.from_exception(error)
    found: list[traceback.FrameSummary] = []
    part: traceback.TracebackException | None = shown
    while part is not None:
        kept = [frame for frame in part.stack if is_of_program(frame.filename)]
        part.stack = traceback.StackSummary.from_list(kept)
        found += kept
        part = part.__cause__ or part.__context__
    return "".join(shown.format()) if len(found) > 1 else ""


def program_line(error: BaseException) -> CallSite | None:
    """The innermost line of the program in the traceback of an error; None when there is none."""
    trace = _of_the_program(error.__traceback__)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    code = trace.tb_frame.f_code
    return CallSite(code.co_filename, trace.tb_lineno, code.co_name)


def _is_for_the_author(error: BaseException) -> bool:
    """A ``TypeError`` is for the author where it is about the call itself: no frame behind the call has seen it."""
    if not isinstance(error, TypeError) or isinstance(error, HeadraceError):
        return True
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _name_class(error: TypeError, method: str, called_on: object) -> None:
    """Name the class that a method was called on, where Python names the base class that defines it."""
    base, _, name = method.rpartition(".")
    text = str(error)
    if base and text.startswith(f"{method}()"):
        owner = called_on if isinstance(called_on, type) else type(called_on)
        error.args = (f"{owner.__name__}.{name}{text.removeprefix(method)}",)


def _trim(error: BaseException, handled: BaseException | None) -> None:
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and current is not handled and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = _of_the_program(current.__traceback__)
        current = current.__cause__ or current.__context__


def _of_the_program(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        if is_of_program(trace.tb_frame.f_code.co_filename) and not is_inside(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    found: TracebackType | None = None
    for one in reversed(kept):
        found = TracebackType(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found
