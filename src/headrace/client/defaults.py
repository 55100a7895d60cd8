"""What surrounds a program that somebody else runs: settings, a listener, a server, or the wish to see its graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from headrace.common import options

if TYPE_CHECKING:
    from headrace.common.configuration import Configuration
    from headrace.graph.stream_graph import StreamGraph
    from headrace.jobmanager.status import JobListener
    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.spark.session_start import EarlyJava


class GraphCaptured(BaseException):
    """Raised by ``execute()`` in a program that is run to see its graph; no ``except Exception`` stops it."""


CapturedGraph: TypeAlias = "tuple[StreamGraph, JobPlan]"
"""A job that would have run."""


@dataclass(frozen=True, slots=True)
class SubmissionDefaults:
    """What holds for every environment that a program makes.

    Attributes:
        settings: configuration that wins over the program's own: the command line is nearer to the user than the code.
        listener: is called with the events of jobs.
        captured: where graphs go instead of being run.
        early_java: a Java that starts meanwhile.
        submitted: the jobs that were submitted, by their names.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    listener: JobListener | None = None
    captured: list[CapturedGraph] | None = None
    early_java: EarlyJava | None = None
    submitted: list[str] = field(default_factory=list)


_of_context: ContextVar[SubmissionDefaults | None] = ContextVar("headrace_submission_defaults", default=None)

_of_process: list[SubmissionDefaults] = [SubmissionDefaults()]
"""What holds for threads that have entered nothing themselves: those that the program of the process starts."""


def current_defaults() -> SubmissionDefaults:
    """What holds now, in this thread."""
    return _of_context.get() or _of_process[-1]


def is_served(configuration: Configuration) -> bool:
    """Return whether jobs with a configuration are to be served."""
    return configuration.get(options.REST_PORT) is not None or configuration.get(options.REST_BIND_PORT) is not None


@contextmanager
def submission_defaults(
    settings: Mapping[str, str],
    listener: JobListener | None = None,
    early_java: EarlyJava | None = None,
    *,
    whole_process: bool = False,
) -> Iterator[SubmissionDefaults]:
    """Inside, every job of this thread is submitted with these settings and this listener.

    Args:
        settings: configuration; it wins over the program's own, as Flink's ``-D`` does.
        listener: is called with the events of jobs.
        early_java: for the first Spark session that is started; ended with the others if it is not wanted.
        whole_process: whether the process runs just this one program, so that they hold for all of its threads.
    """
    defaults = SubmissionDefaults(dict(settings), listener, early_java=early_java)
    try:
        with _in_force(defaults, whole_process=whole_process):
            yield defaults
    finally:
        if early_java is not None:
            early_java.discard()


@contextmanager
def capture_graphs(settings: Mapping[str, str] | None = None) -> Iterator[list[CapturedGraph]]:
    """Inside, ``execute()`` puts the job into the list and raises :class:`GraphCaptured` instead of running it."""
    captured: list[CapturedGraph] = []
    with _in_force(SubmissionDefaults(dict(settings or {}), None, captured), whole_process=True):
        yield captured


@contextmanager
def _in_force(defaults: SubmissionDefaults, *, whole_process: bool) -> Iterator[None]:
    token = _of_context.set(defaults)
    if whole_process:
        _of_process.append(defaults)
    try:
        yield
    finally:
        _of_context.reset(token)
        if whole_process:
            _of_process.pop()
