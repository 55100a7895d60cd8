"""Calls of the user's own code, and errors that explain its failures.

A failure of user code is not a fault of the machine. It is carried to the driver as a :class:`UserFunctionError` that
names the operator, the user's line and the record, whatever was raised: ``sys.exit()`` is a failure like any other.

What interrupts user code from outside, an epoch that is cancelled or Ctrl-C, is no failure: it passes through that code
and ends the epoch. Every process distinguishes the two. The local runtime runs in the user's process; it raises
:class:`EpochCancelledError`, as nothing else does, and there Python raises ``KeyboardInterrupt`` for Ctrl-C, in the
main thread only. A Spark worker is not the user's process, and Spark kills it: there Python raises nothing for Ctrl-C.
"""

import ctypes
import reprlib
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar

from headrace.common.arguments import returns_tuple
from headrace.common.call_site import CallSite, is_of_headrace, of_function, of_traceback
from headrace.common.columns import layout_of
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import (
    FailureOrigin,
    FunctionRefusedError,
    HeadraceError,
    InfrastructureError,
    InvalidTypeError,
    StateCorruptedError,
    UserFunctionError,
)
from headrace.common.other_names import explained
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import OperatorContext

T = TypeVar("T")

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in_thread.argtypes = (ctypes.c_ulong, ctypes.py_object)


class EpochCancelledError(BaseException):
    """Raised in the midst of user code, from another thread, when its epoch is cancelled; it passes through."""


def is_interruption(error: BaseException) -> bool:
    """Return whether an exception came into user code from outside, so that it is not a failure of that code.

    A ``KeyboardInterrupt`` may only where Python would raise one for Ctrl-C: in the main thread, under a handler of
    Python's. Nothing throws a ``GeneratorExit`` into user code: tasks are suspended between its calls only.
    """
    if isinstance(error, KeyboardInterrupt):
        handler = signal.getsignal(signal.SIGINT)
        return threading.current_thread() is threading.main_thread() and callable(handler)
    return isinstance(error, EpochCancelledError)


def let_ctrl_c_end_the_process() -> None:
    """Have SIGINT end this process, so that every ``KeyboardInterrupt`` in it is one that user code has raised.

    For processes that PySpark starts: it has Python raise ``KeyboardInterrupt`` there.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class InterruptibleRun:
    """Work that another thread can interrupt.

    Python raises :class:`EpochCancelledError` in it, wherever it is in Python code, but only within :meth:`run`. Code
    that is not Python's (a sleep, a system call) is not interrupted before it returns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._requested = False

    def run(self, work: Callable[[], T]) -> T:
        """Do something in this thread that may be interrupted.

        Raises:
            EpochCancelledError: when it was.
        """
        # Not a context manager: interrupted in the midst of its __enter__ it would never be left.
        try:
            with self._lock:
                self._thread = threading.get_ident()
            return work()
        finally:
            self._leave()

    def interrupt(self) -> None:
        """Interrupt what :meth:`run` does, if it does anything; from another thread."""
        with self._lock:
            if self._thread is not None and self._thread != threading.get_ident():
                self._requested = True
                _raise_in_thread(self._thread, EpochCancelledError)

    def _leave(self) -> None:
        """From here on nothing is raised, not even what was requested a moment ago."""
        while True:
            try:
                with self._lock:
                    self._thread = None
                if self._requested:
                    self._requested = False
                    _swallow_interrupt()
                return
            except EpochCancelledError:  # in the midst of leaving: leave again
                continue


def _swallow_interrupt() -> None:
    """Take what may still wait to be raised in this thread.

    Taking it back (``PyThreadState_SetAsyncExc`` with NULL) would leave the interpreter's flag for it set, in Python
    3.11 and 3.12 for as long as the process lives: every call looks at it then, and under a tracer never ends. So it is
    replaced by one of its kind, which is raised and caught. It may be raised where Python drops what is raised, in a
    callback of the garbage collector, say; so it is requested until it arrives here.
    """
    try:
        while True:
            _raise_in_thread(threading.get_ident(), EpochCancelledError)
            for _ in range(1_000):
                pass
    except EpochCancelledError:
        return


class _Repr(reprlib.Repr):
    """Shortens as ``reprlib`` does, but leaves dictionaries in their own order: that of stages, say, in a match."""

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        if not x or level <= 0:
            return "{...}" if x else "{}"
        shown = [f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}" for key in islice(x, self.maxdict)]
        return f"{{{', '.join([*shown, '...'] if len(x) > self.maxdict else shown)}}}"


_repr = _Repr()
_repr.maxstring = _repr.maxother = 200
_repr.maxtuple = _repr.maxlist = _repr.maxdict = 20

_RETURNED_BY: Final = "_headrace_returned_by"

NO_RECORD: Final = object()
"""Stands for a record where there is none."""

_LONGEST_TEXT: Final = 10_000
"""Characters of an exception's text that are shown."""

_MOST_GROUPED: Final = 10
_MOST_CAUSES: Final = 5

_NO_EXIT: Final = "a function cannot end the process, which is not its own: raise an exception instead"

_A_TUPLE: Final = "a tuple that is returned is taken for several results: yield it where it is one"

_NO_RESULTS: Final = "the function has to yield its results, or return a list of them or None"


_NO_VALUE: Final = "a state without a value gives None: write (state.value() or 0), say, where one is needed"

_NO_TIMESTAMP: Final = (
    "ctx.timestamp() is None: the records have no timestamps; call assign_timestamps_and_watermarks(...) before. What "
    "a timer of processing time emits, or is called for, has none either"
)


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """An operator as messages name it.

    Attributes:
        name: its name.
        uid: its uid.
        subtask: which subtask.
        call_site: the line that has made it.
    """

    name: str
    uid: str
    subtask: int
    call_site: CallSite

    def __str__(self) -> str:
        return f"operator {self.name!r} (uid {self.uid}, subtask {self.subtask})"


class RecordError(Exception):
    """The destination of a record cannot be computed, and it is not known which operator made it; the cause says why.

    Attributes:
        record: the record.
        requested_at: the line of the program that says where records go.
        requested_by: the method that was called there.
    """

    def __init__(self, record: object, requested_at: CallSite, requested_by: str = "key_by") -> None:
        super().__init__("it is not known where a record goes")
        self.record = record
        self.requested_at = requested_at
        self.requested_by = requested_by


def user_error(
    error: BaseException,
    context: OperatorContext,
    record: object = NO_RECORD,
    *,
    function: object = None,
    timer: str = "",
    timestamp: int | None = None,
    side_output: str | None = None,
) -> BaseException:
    """The error for a failure of a user function, for its author to correct; other errors are returned as they are.

    Args:
        error: what the function raised.
        context: the operator that called it, or that made a record without a key.
        record: the record that it was called with, if there was one.
        function: the function; pointed to when what it returned was wrong, which no line of it has raised. One that
            :func:`note_returned` has noted wins.
        timer: the timer that it was called for, if there was one.
        timestamp: that of the record, where the function can read it.
        side_output: the tag that what was wrong was emitted with.
    """
    requested_by, requested_at, label = "", None, "record"
    if isinstance(error, RecordError):
        record, requested_at, requested_by = error.record, error.requested_at, error.requested_by
        error = error.__cause__ or error
    if isinstance(error, UserFunctionError | StateCorruptedError | InfrastructureError) or is_interruption(error):
        return error
    site = of_traceback(error.__traceback__)
    if isinstance(error, InvalidTypeError) and record is NO_RECORD and not site and hasattr(error, "record"):
        record, error.args = error.record, (error.without_row,)
        label = "record" if function is None else "result"
    function = None if site else getattr(error, _RETURNED_BY, function)
    is_without_time = timestamp == NO_TIMESTAMP and _is_of_no_timestamp(error, text_of(error))
    has_state = context.optional_state is not None
    place = OperatorPlace(context.name, context.uid, context.subtask, context.call_site)
    lines = [
        f"{f'{requested_by} behind ' if requested_by else ''}{place} failed",
        *what_happened(error, _NO_TIMESTAMP if is_without_time else "", has_state=has_state),
        *_of_result(function, record if label == "result" else NO_RECORD),
        "" if record is NO_RECORD else f"  {label}: {record_text(record)}",
        f"  timer: {timer}" if timer else "",
        "" if side_output is None else f"  side output: {side_output!r}",
        f"  {requested_by} called at {requested_at}" if requested_by else f"  operator defined at {place.call_site}",
    ]
    return _failure(error, context, record, "\n".join(line for line in lines if line))


def _failure(error: BaseException, context: OperatorContext, record: object, message: str) -> UserFunctionError:
    """Make the error for a message, with the operator and the record that it came from."""
    failure = (FunctionRefusedError if isinstance(error, HeadraceError) else UserFunctionError)(message)
    shown = None if record is NO_RECORD else record_text(record)
    failure.origin = FailureOrigin(context.name, context.uid, context.subtask, shown)
    return failure


def _of_result(function: object, result: object) -> list[str]:
    """Point to a function whose result is wrong: lines of a message."""
    returned_by = None if function is None else of_function(function)
    if returned_by is None:
        return []
    is_of_tuple = result is not NO_RECORD and _is_of_tuple(result, function)
    return [f"  returned by {returned_by}", f"  {_A_TUPLE}" if is_of_tuple else ""]


def _is_of_tuple(result: object, function: object) -> bool:
    """Return whether a result may be a part of a tuple that was meant as one: one result, given as the tuple."""
    return not isinstance(result, tuple) and returns_tuple(function)


def what_happened(error: BaseException, advice: str = "", *, has_state: bool = False) -> list[str]:
    """The error, what it is likely to come of, the program's line, and what caused it: lines of a message."""
    site, text = of_traceback(error.__traceback__), text_of(error)
    explanations = (
        _NO_EXIT if isinstance(error, SystemExit) else "",
        advice,
        explained(error),
        _NO_VALUE if has_state and _is_of_no_value(error, text) else "",
        _NO_RESULTS if not site and _is_not_iterable(error) else "",
    )
    return [
        f"  {_kind_and_text(error)}",
        *(f"  {line}" for line in _notes(error)),
        *(f"  {each}" for each in explanations if each),
        f"  at {site}" if site and not text.endswith(f"at {site}") else "",
        *(f"  {line}" for line in _causes(error)),
    ]


def note_returned(error: Exception, function: object) -> None:
    """Note whose result is wrong, where the error may be of several functions."""
    setattr(error, _RETURNED_BY, function)


def check_none(type_: TypeInformation, name: str, function: object) -> None:
    """Refuse None where a function of the user has returned it and no record of the stream can be None.

    Raises:
        InvalidTypeError: it is noted as the function's.
    """
    try:
        layout_of(type_).rows_to_columns([None])
    except InvalidTypeError:
        error = InvalidTypeError(f"{name} returned None, which is no record of type {type_}: return the record")
        note_returned(error, function)
        raise error from None


def _is_of_no_timestamp(error: BaseException, text: str) -> bool:
    """Return whether code that reads a timestamp has calculated with None, or set a timer to it."""
    trace = error.__traceback__
    reads = any("timestamp" in frame.f_code.co_names for frame, _ in traceback.walk_tb(trace) if _is_of_the_user(frame))
    return reads and isinstance(error, TypeError) and "None" in text


def _is_of_no_value(error: BaseException, text: str) -> bool:
    """Return whether code that reads a state has calculated with None."""
    trace = error.__traceback__
    reads = any("value" in frame.f_code.co_names for frame, _ in traceback.walk_tb(trace) if _is_of_the_user(frame))
    return reads and isinstance(error, TypeError) and "NoneType" in text


def _is_of_the_user(frame: FrameType) -> bool:
    return not is_of_headrace(frame.f_code.co_filename)


def _is_not_iterable(error: BaseException) -> bool:
    return isinstance(error, TypeError) and str(error).endswith("object is not iterable")


def text_of(error: BaseException) -> str:
    """The text of an exception; its author's ``__str__`` may raise anything."""
    try:
        return str(error)
    except BaseException as another:
        if is_interruption(another):
            raise
        return f"(its __str__ raised {type(another).__name__})"


def _kind_and_text(error: BaseException) -> str:
    text = text_of(error)
    left_out = len(text) - _LONGEST_TEXT
    shown = text if left_out <= 0 else f"{text[:_LONGEST_TEXT]} ... ({left_out} characters more)"
    return f"{type(error).__name__}: {shown}"


def _notes(error: BaseException) -> Iterator[str]:
    """The notes on an exception, and the exceptions that it groups."""
    notes = getattr(error, "__notes__", ())
    yield from (line for note in notes if isinstance(note, str) for line in note.splitlines())
    if isinstance(error, BaseExceptionGroup):
        grouped = error.exceptions
        yield from (f"- {_kind_and_text(one)}{_place_of(one)}" for one in grouped[:_MOST_GROUPED])
        if len(grouped) > _MOST_GROUPED:
            yield f"- {len(grouped) - _MOST_GROUPED} more"


def _causes(error: BaseException) -> Iterator[str]:
    """The chain of causes of an exception, as Python shows it, as far as the user's own code raised them."""
    seen: list[BaseException] = []
    while len(seen) < _MOST_CAUSES and not isinstance(error, HeadraceError):
        seen.append(error)
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None or any(cause is one for one in seen) or not (place := _place_of(cause)):
            return
        yield f"caused by {_kind_and_text(cause)}{place}"
        error = cause


def _place_of(error: BaseException) -> str:
    site = of_traceback(error.__traceback__)
    return f" at {site}" if site else ""


def record_text(record: object) -> str:
    """A record as messages show it, shortened; its author's ``__repr__`` may raise anything."""
    try:
        return _repr.repr(record)
    except BaseException as another:
        if is_interruption(another):
            raise
        return f"<{type(record).__name__} whose __repr__ raised {type(another).__name__}>"


@dataclass(slots=True)
class UserCodeGuard(AbstractContextManager[None]):
    """Around calls of user code: turns whatever is raised inside into a :class:`UserFunctionError`.

    Not to be held over a ``yield``: closing the generator would look as if user code had raised ``GeneratorExit``. (And
    a class, since ``contextlib`` loses an error that takes the place of a ``StopIteration``.)

    Attributes:
        context: the operator that calls.
        record: the record that it calls with, if there is one.
        passes: errors that are not reported as those of user code.
    """

    context: OperatorContext
    record: object = NO_RECORD
    passes: tuple[type[BaseException], ...] = (StateCorruptedError,)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, self.passes):
            failure = user_error(error, self.context, self.record)
            if failure is not error:
                raise failure from error


@dataclass(slots=True)
class NamingSource(AbstractContextManager[None]):
    """Has what is raised within name a source, and the line of the program that made it.

    What code of the program has raised, a source of its own or what it has given to one, becomes a
    :class:`UserFunctionError`. An ``OSError`` stays what it is: it may pass.

    Attributes:
        name: that of the source.
        call_site: the line.
    """

    name: str
    call_site: CallSite

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, HeadraceError):
            name_source(error, self.name, self.call_site)
        elif isinstance(error, Exception) and not isinstance(error, OSError) and of_traceback(trace) is not None:
            lines = [f"source {self.name!r} failed", *what_happened(error), f"  source defined at {self.call_site}"]
            raise UserFunctionError("\n".join(lines)) from error


def name_source(error: HeadraceError, name: str, call_site: CallSite) -> None:
    """Add to an error's message which source it is of, unless it names an operator already."""
    place = f"  source {name!r} defined at {call_site}"
    if not isinstance(error, UserFunctionError) and place not in str(error):
        error.args = (f"{error}\n{place}", *error.args[1:])
