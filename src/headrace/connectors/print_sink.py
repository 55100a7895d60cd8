"""``PrintSink``: shows every record in the driver, for looking at a stream while it is being written."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final, TextIO

from headrace.common.config_options import ConfigOption
from headrace.common.config_values import boolean
from headrace.common.errors import OutputClosedError
from headrace.common.values import stream_handler_of
from headrace.connectors.connector import Connector
from headrace.connectors.sink import Committer, Sink, SinkWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.common.values import TypeHandler
    from headrace.connectors.connector import ConnectorContext
    from headrace.connectors.sink import CommitterContext, Json, WriterContext

IDENTIFIER: Final = ConfigOption("print-identifier", str, "", "What tells several print sinks apart.")
STANDARD_ERROR: Final = ConfigOption("standard-error", boolean, False, "Whether to print to the standard error.")


class Print(Connector):
    """Makes the sink by its name, with the options of Flink's ``print`` connector."""

    optional_options = (IDENTIFIER, STANDARD_ERROR)

    def create_sink(self, context: ConnectorContext) -> Sink:
        return PrintSink(context.options.get(IDENTIFIER), to_stderr=context.options.get(STANDARD_ERROR))


class PrintSink(Sink[object]):
    """Prints a line for each record, when the epoch is complete.

    As in Flink the line begins with ``identifier> ``, or ``identifier:subtask> `` when several tasks write; without an
    identifier with ``subtask> ``, or with nothing when there is one task. Subtasks count from 1. Lines are printed once
    while the job lives; after a restart those of an epoch may come again or be missing.

    Records of a type that the program has declared have to fit it, and are spelled as PyFlink spells them: ``(a,1)`` is
    a tuple, ``+I[a,1]`` a row, ``-D[a,1]`` one that deletes. All others are spelled as Python does.

    Args:
        identifier: what tells several print sinks apart.
        to_stderr: whether to print to the standard error.
        is_declared: whether the program has declared the type of the records, rather than leaving it to be found out.
    """

    def __init__(self, identifier: str | None = None, *, to_stderr: bool = False, is_declared: bool = True) -> None:
        self._identifier = identifier or ""
        self._is_declared = is_declared
        self._to_stderr = to_stderr

    @property
    def is_durable(self) -> bool:
        return False

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> SinkWriter:
        prefix = _prefix(self._identifier, context.subtask, context.parallelism)
        return _PrintWriter(prefix, stream_handler_of(context.input_type) if self._is_declared else None)

    def create_committer(self, context: CommitterContext) -> Committer:
        return _PrintCommitter(to_stderr=self._to_stderr)

    def __repr__(self) -> str:
        return f"PrintSink({self._identifier!r})"


def _prefix(identifier: str, subtask: int, parallelism: int) -> str:
    parts = [identifier] if identifier else []
    if parallelism > 1:
        parts.append(str(subtask + 1))
    return f"{':'.join(parts)}> " if parts else ""


class _PrintWriter(SinkWriter):
    """Makes the text in the task: the driver need not know the records' classes."""

    def __init__(self, prefix: str, handler: TypeHandler | None) -> None:
        self._handler = handler
        self._prefix = prefix
        self._parts: list[str] = []

    def write(self, batch: Batch) -> None:
        prefix, text = self._prefix, str if self._handler is None else self._handler.printed
        if self._handler is not None:
            self._handler.check(batch.rows)
        self._parts.append("".join([f"{prefix}{text(record)}\n" for record in batch.rows]))

    def prepare_commit(self) -> Sequence[Json]:
        text = "".join(self._parts)
        self._parts.clear()
        return [text] if text else []


class _PrintCommitter(Committer):
    def __init__(self, *, to_stderr: bool) -> None:
        self._to_stderr = to_stderr
        self._printed = -1

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        if epoch <= self._printed:
            return
        # Looked up each time: tests and notebooks exchange the streams.
        stream = sys.stderr if self._to_stderr else sys.stdout
        try:
            if stream is not None:  # as ``print`` does it, also in what streams of programs need to have
                print(*committables, sep="", end="", file=stream, flush=True)
        except BrokenPipeError as error:
            _let_go(stream)
            raise OutputClosedError("nobody reads any more what is printed") from error
        self._printed = epoch


def _let_go(stream: TextIO) -> None:
    """Python writes what is left of a stream when it ends, and would complain; a program's own may have no file."""
    with contextlib.suppress(AttributeError, OSError), open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())
