"""Logging: loggers whose records say of which job and epoch they are, and how they are printed, and kept.

Importing headrace configures nothing: no handler, no level. What a program or its test runner sets up holds, and where
nothing is set up Python prints warnings and errors on the standard error.
"""

import json
import logging
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, ParamSpec, TextIO, TypeVar

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.masking import without_secrets

P = ParamSpec("P")
R = TypeVar("R")

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every record; all others were given by the caller that logged it."""


@dataclass(slots=True)
class LogFields:
    """Fields of log records beside their message; they change while the job goes on.

    Attributes:
        job: the job's name; None where no job is at work.
        job_id: its id; None until its checkpoint directory was looked into.
        epoch: the epoch at work, or the last one; None before the first.
    """

    job: str | None = None
    job_id: str | None = None
    epoch: int | None = None


_fields: ContextVar[LogFields | None] = ContextVar("headrace_log_fields", default=None)


def _current() -> dict[str, Any]:
    fields = _fields.get()
    return asdict(LogFields() if fields is None else fields)


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that no job fails by: what handlers and filters of the program raise is printed, as by ``logging``."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Leave a record that is about to be made what it was given as ``extra``."""
        return msg, kwargs

    def log(self, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log something, at the line that has called a method of this logger."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        try:
            super().log(level, msg, *args, **kwargs)
        except Exception:
            if logging.raiseExceptions and sys.stderr is not None:
                with suppress(OSError):
                    traceback.print_exc()


def get_logger(name: str) -> JobLogger:
    """The logger of a module of headrace; its records have the attributes of :class:`LogFields`."""
    logger = logging.getLogger(name)
    logger.addFilter(_add_fields)
    return JobLogger(logger)


def _add_fields(record: logging.LogRecord) -> bool:
    """Add the fields of the job; what was given as ``extra``, or by the program's own factory of records, wins."""
    for key, value in _current().items():
        vars(record).setdefault(key, value)
    return True


@contextmanager
def logging_of(fields: LogFields) -> Iterator[None]:
    """Inside, records of this thread have these fields, as they are when something is logged."""
    token = _fields.set(fields)
    try:
        yield
    finally:
        _fields.reset(token)


def logging_from_now_on(fields: LogFields) -> None:
    """Records of this thread have these fields from now on: a process that runs tasks has come to another job."""
    _fields.set(fields)


def note_epoch(job_id: str, epoch: int) -> None:
    """The job of this thread, if any, has this id and is at this epoch."""
    fields = _fields.get()
    if fields is not None:
        fields.job_id, fields.epoch = job_id, epoch


def with_fields(function: Callable[P, R]) -> Callable[P, R]:
    """The function for another thread, whose records then have the fields of this one."""
    return partial(copy_context().run, function)


class TextFormatter(logging.Formatter):
    """Makes a record lines of text without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """The lines."""
        return without_secrets(super().format(record))


class JsonFormatter(logging.Formatter):
    """Makes a record a line of JSON: ``time`` (UTC), ``level``, ``logger``, ``message``, and what it was given beside.

    What is logged where a job is at work, by its own functions too, has ``job``, ``job_id`` and ``epoch``; what is
    unknown is left out, and secrets are masked. ``exception`` and ``stack`` are texts. What was given under one of
    these names has ``_`` behind it. It can be named in ``logging.config``:
    ``{"()": "headrace.common.logs.JsonFormatter"}``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            document["stack"] = self.formatStack(record.stack_info)
        given = _current() | {key: value for key, value in vars(record).items() if key not in _STANDARD}
        own = frozenset(document)
        document |= {f"{key}_" if key in own else key: value for key, value in given.items() if value is not None}
        return _line({key: without_secrets(each) if isinstance(each, str) else each for key, each in document.items()})


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # logging would print a traceback, which is no line of JSON, in place of the record
        return f"{record.msg} {record.args!r} ({type(error).__name__}: {error})"


def _line(document: Mapping[str, object]) -> str:
    try:
        line = json.dumps(document, ensure_ascii=False, allow_nan=False, default=str)
    except (TypeError, ValueError, RecursionError):  # NaN, keys that are no texts, what holds itself
        texts = {key: value if isinstance(value, str | int) else str(value) for key, value in document.items()}
        line = json.dumps(texts, ensure_ascii=False)
    return line.encode(errors="backslashreplace").decode()  # of half a surrogate pair, an escape of JSON


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to what is the standard error now: a panel that is redrawn in place puts another one there for a while."""

    def __init__(self, settings: "LogSettings") -> None:
        logging.Handler.__init__(self)
        self.settings = settings

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """The standard error."""
        return sys.stderr


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of how logs are printed; nothing is done about it unless one of them is set.

    Attributes:
        level: the lowest level that is printed, ``INFO`` when left out.
        format: ``text`` or ``json``; ``text`` when left out.
    """

    level: str | None = None
    format: str | None = None

    @staticmethod
    def of(configuration: Configuration) -> "LogSettings":
        """Return the settings of a configuration."""
        return LogSettings(configuration.get(options.LOG_LEVEL), configuration.get(options.LOG_FORMAT))

    def apply(self) -> bool:
        """Have the root logger print to the standard error, as ``logging.basicConfig`` does.

        Where it prints lines of JSON, Python's warnings are records of its logger ``py.warnings``: they would be lines
        of text between.

        A process has one standard error, so the first job of a process that sets them has its way.

        Returns:
            False when it prints already, as others want it, so that the settings have no effect.
        """
        if self.level is None and self.format is None:
            return True
        root = logging.getLogger()
        if root.handlers:
            return any(isinstance(each, _CurrentStderr) and each.settings == self for each in root.handlers)
        handler = _CurrentStderr(self)
        if self.format == "json":
            handler.setFormatter(JsonFormatter())
            logging.captureWarnings(True)
        else:
            handler.setFormatter(TextFormatter(_TEXT))
        root.addHandler(handler)
        root.setLevel(self.level or logging.INFO)
        # It tells every call into Java, and every connection that it closes
        logging.getLogger("py4j").setLevel(logging.WARNING)
        return True


def prints_json() -> bool:
    """Return whether the standard error has lines of JSON, as :class:`LogSettings` say."""
    handlers = (handler for handler in logging.getLogger().handlers if isinstance(handler, _CurrentStderr))
    return any(isinstance(handler.formatter, JsonFormatter) for handler in handlers)


UNCONFIGURED: Final = LogSettings()
"""Nothing is done."""


_MOST_RECORDS: Final = 5_000


class KeptLog(logging.Handler):
    """Keeps the last records of a process, as text without secrets."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(TextFormatter(_TEXT))
        self._lines: deque[str] = deque(maxlen=_MOST_RECORDS)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    def text(self) -> str:
        """The text that is kept, a line each but for traces."""
        return "".join(f"{line}\n" for line in list(self._lines))
