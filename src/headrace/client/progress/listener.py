"""Listeners that show what jobs do: a live panel on a terminal, lines elsewhere."""

from __future__ import annotations

import atexit
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Final

from rich.console import Console

from headrace.client.progress import wording
from headrace.client.progress.job_progress import JobProgress, last_line, progress_line
from headrace.client.progress.panel import LivePanel, panels
from headrace.common.errors import OutputClosedError
from headrace.common.logs import get_logger, prints_json
from headrace.jobmanager.status import EpochStatistics, JobEnd, JobStart, RuntimeStarting, SubmissionFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jobmanager.status import JobEvent, JobSnapshot

logger = get_logger(__name__)

LINE_SECONDS: Final = 5.0
"""How often a job says where it is, when it says so in lines."""

_LONGEST_LINE_SECONDS: Final = 300.0
"""Longest pause between lines while nothing happens; each pause is twice the last one."""

_LOOK_SECONDS: Final = 1.0


class ProgressListener:
    """Says how the jobs that run begin and end, and lets subclasses show more.

    Where the standard error has lines of JSON, they are records of this module's logger instead, and what the log has
    anyway is left out. A program may run several jobs at once.

    Args:
        console: where to print.
        clock: seconds, never going back.

    Attributes:
        last_epochs: of each job that has ended, the epoch to go on from, if there is one.
        on_start: called when a job begins.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self.last_epochs: dict[str, int] = {}
        self.on_start: Callable[[], None] = lambda: None
        self._clock = clock
        self._jobs: dict[str, JobProgress] = {}
        self._lock = threading.Lock()
        self._starting = ""

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened to a job."""
        match event:
            case RuntimeStarting():
                self.starting(event.what)
            case SubmissionFailed():
                self.start_failed()
            case JobStart():
                self._begin(event, job)
            case _ if (shown := self._jobs.get(job.run_id)) is not None:
                shown.update(event, job)
                if isinstance(event, EpochStatistics):
                    self.advanced(shown)
                elif isinstance(event, JobEnd):
                    self._end(event, shown)

    def starting(self, what: str) -> None:
        """A line about what the user waits for; once, whoever starts it."""
        if what != self._starting:
            self._starting = what
            self._introduce(f"starting {what} …")

    def _begin(self, start: JobStart, job: JobSnapshot) -> None:
        """The first line: afresh, or from where."""
        with self._lock:
            self._jobs[job.run_id] = JobProgress(job, self._clock)
        self._introduce(str(start))
        self.started()
        self.on_start()

    def _end(self, end: JobEnd, job: JobProgress) -> None:
        """The last line; nothing when the job never started."""
        with self._lock:
            del self._jobs[job.job.run_id]
        if end.epoch is not None:
            self.last_epochs[job.name] = end.epoch
        self.ended()
        if not isinstance(end.error, OutputClosedError):  # who closed the pipe knows
            self.say(last_line(job, end))

    def jobs(self) -> list[JobProgress]:
        """The jobs that run now."""
        with self._lock:
            return list(self._jobs.values())

    def say(self, line: str) -> None:
        """Print a line of its own."""
        if prints_json():
            logger.info("%s", line)
        else:
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Nothing is shown any more."""

    def start_failed(self) -> None:
        """No job begins."""

    def started(self) -> None:
        """A job begins."""

    def advanced(self, job: JobProgress) -> None:
        """A job has completed an epoch."""

    def ended(self) -> None:
        """A job is over."""

    def _introduce(self, line: str) -> None:
        """Print what is logged as well."""
        if not prints_json():
            self.say(line)


class QuietListener(ProgressListener):
    """Says how jobs begin and end; nothing in between."""


class LineListener(ProgressListener):
    """One line every few seconds; ever fewer while nothing happens, so that an idle job does not fill a log.

    A thread of its own says where jobs are that complete no epoch: one waits for Spark, for input, for its restart, or
    is in the midst of a long epoch.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock)
        self._paces: dict[str, tuple[float, float]] = {}  # by job: when it said its last line, and the pause behind it
        self._pace_lock = threading.Lock()
        self._waiting_since: float | None = None
        self._over: threading.Event | None = None

    def starting(self, what: str) -> None:
        super().starting(what)
        if self._waiting_since is None:
            self._waiting_since = self._clock()
            self._begin_looking()

    def start_failed(self) -> None:
        self._waiting_since = None
        self.ended()

    def started(self) -> None:
        self._waiting_since = None
        self._begin_looking()

    def advanced(self, job: JobProgress) -> None:
        if self._is_due(job.job.run_id, job.started, happens=True):
            self.say(progress_line(job))

    def ended(self) -> None:
        if not self.jobs():
            self.close()

    def close(self) -> None:
        with self._pace_lock:
            over, self._over = self._over, None
        if over is not None:
            over.set()

    def look(self) -> None:
        """Say where jobs are that have said nothing for a while, and that none has begun yet."""
        for job in self.jobs():
            if self._is_due(job.job.run_id, job.started):
                self.say(progress_line(job))
        since = self._waiting_since
        if since is not None and self._is_due("", since):
            self.say(f"no job has begun yet: starting {self._starting}, {wording.span(self._clock() - since)}")

    def _is_due(self, job: str, began: float, *, happens: bool = False) -> bool:
        """Return whether a line is due. An event resets the pause to its shortest."""
        with self._pace_lock:
            now = self._clock()
            said, pause = self._paces.get(job, (began, LINE_SECONDS))
            pause = LINE_SECONDS if happens else pause
            due = now - said >= pause if happens else now - said > pause
            if due and not happens:
                pause = min(2 * pause, _LONGEST_LINE_SECONDS)
            self._paces[job] = (now if due else said, pause)
            return due

    def _begin_looking(self) -> None:
        with self._pace_lock:
            if self._over is not None:
                return
            self._over = threading.Event()
        threading.Thread(target=self._look_on, args=(self._over,), name="headrace-progress", daemon=True).start()

    def _look_on(self, over: threading.Event) -> None:
        while not over.wait(_LOOK_SECONDS):
            self.look()


class PanelListener(ProgressListener):
    """A panel that redraws itself, at its own pace, while jobs run; what the program prints appears above it."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock)
        self._live: LivePanel | None = None
        # Not the lock of the jobs: drawing asks for that one while rich holds its own
        self._live_lock = threading.Lock()

    def started(self) -> None:
        with self._live_lock:
            if self._live is None:
                self._live = LivePanel(self.console, lambda: panels(self.jobs()))

    def ended(self) -> None:
        if not self.jobs():
            self.close()

    def close(self) -> None:
        with self._live_lock:
            live, self._live = self._live, None
        if live is not None:
            live.close()


def listener_for(console: Console, *, progress: bool | None) -> ProgressListener:
    """The listener that suits where the output goes.

    Args:
        console: the standard error.
        progress: whether progress is wanted; None leaves it at the usual, which is yes.
    """
    if progress is False:
        return QuietListener(console)
    redraws = console.is_terminal and not console.is_dumb_terminal
    return PanelListener(console) if redraws else LineListener(console)


@cache
def terminal_listener() -> ProgressListener:
    """The one of this process, for programs that nobody has started with a listener of their own."""
    listener = listener_for(Console(stderr=True), progress=None)
    atexit.register(listener.close)  # a panel hides the cursor
    return listener
