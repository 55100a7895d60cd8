"""Listeners that show what jobs do: a live panel on a terminal, lines elsewhere."""

import atexit
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from itertools import zip_longest
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.client.progress import RATE, JobProgress, last_line, progress_line
from headrace.common import wording
from headrace.common.errors import OutputClosedError
from headrace.common.logs import get_logger, prints_json
from headrace.jobmanager.events import (
    EpochStatistics,
    JobEnd,
    JobEvent,
    JobStart,
    RuntimeStarting,
    ServerStarted,
    SubmissionFailed,
)
from headrace.jobmanager.status import JobSnapshot

logger = get_logger(__name__)

_REFRESHES_PER_SECOND: Final = 4


def panels(jobs: Iterable[JobProgress]) -> RenderableType:
    """The panels of some jobs for a terminal."""
    return Group(*map(panel, jobs))


def panel(job: JobProgress) -> Panel:
    """One job: what it has done, how fast, and how far event time has come."""
    body: list[RenderableType] = [_grid(job) if job.facts else _waiting()]
    if job.skipped_files:
        body.append(Text(job.skipped_files, "yellow"))
    if job.note:
        body.append(Text(job.note, "yellow"))
    # As text: a job's name may contain brackets, which rich would take for markup
    title = Text.assemble((job.name, "bold"), f", {job.standing}")
    return Panel(Group(*body), title=title, title_align="left", border_style="cyan", padding=(0, 1))


def _waiting() -> Text:
    return Text("waiting for the first epoch", "dim")


def _grid(job: JobProgress) -> Table:
    grid = Table.grid(padding=(0, 2), expand=True)
    for style, ratio in (("dim", None), ("", 3), ("dim", None), ("", 2)):
        grid.add_column(style=style, ratio=ratio, no_wrap=True)
    facts = [(name, _styled(name, text, job)) for name, text in job.facts.items()]
    half = (len(facts) + 1) // 2
    for left, right in zip_longest(facts[:half], facts[half:], fillvalue=()):
        grid.add_row(*left, *right)
    return grid


def _styled(name: str, text: str, job: JobProgress) -> Text:
    if name != RATE:
        return Text(text)
    return Text.assemble((text, "bold green"), "  ", (wording.trend(job.trend), "green"))


class LivePanel:
    """Shows something at its own pace until it is closed, and then takes it away.

    What is printed meanwhile appears above it: by ``print``, and by handlers of logging that were made before and so
    know the terminal itself.

    Args:
        console: where to draw.
        draw: gives what is to be shown.
    """

    def __init__(self, console: Console, draw: Callable[[], RenderableType]) -> None:
        streams = (sys.stdout, sys.stderr)
        self._live = Live(
            console=console,
            get_renderable=draw,
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=True,
            # What goes into a file or a pipe must not pass through the terminal
            redirect_stdout=getattr(sys.stdout, "isatty", bool)(),
        )
        self._live.start()
        self._handlers = _redirect({id(old): new for old, new in zip(streams, (sys.stdout, sys.stderr), strict=True)})

    def close(self) -> None:
        """Take it away; what was redirected goes where it went before."""
        for handler, stream in self._handlers:
            handler.setStream(stream)
        self._live.stop()


def _redirect(streams: dict[int, Any]) -> list[tuple[logging.StreamHandler[Any], Any]]:
    """Have the handlers of the root logger write to other streams.

    Args:
        streams: by the identity of the one that a handler has, the one that it gets.

    Returns:
        The handlers that were changed, each with the stream that it had.
    """
    changed = []
    for handler in logging.getLogger().handlers:
        # A handler for files is one, too; its own class says where it writes
        if type(handler) is logging.StreamHandler and streams.get(id(handler.stream)) not in (None, handler.stream):
            changed.append((handler, handler.stream))
            handler.setStream(streams[id(handler.stream)])
    return changed


LINE_SECONDS: Final = 5.0
"""The interval at which a job says where it is, when it says so in lines."""

_LONGEST_LINE_SECONDS: Final = 300.0
"""Longest pause between lines while nothing happens; each pause is twice the last one."""

_LOOK_SECONDS: Final = 1.0


class ProgressListener:
    """Says how the jobs that run begin and end; those that are derived from it say more.

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
        self._address = ""

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened to a job."""
        match event:
            case ServerStarted():
                self.served(event.address)
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
        """A line about what the user waits for; once for all jobs."""
        if what != self._starting:
            self._starting = what
            self._introduce(f"starting {what} …")

    def served(self, address: str) -> None:
        """A line with the address of the server of jobs; once, as all of a process have one server."""
        if address != self._address:
            self._address = address
            self._introduce(f"dashboard at {address}, REST API at {address}/v1")

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
        if not isinstance(end.error, OutputClosedError):  # the reader closed the pipe
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
        # Not the lock of the jobs: drawing takes that one while rich holds its own
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
        return ProgressListener(console)
    redraws = console.is_terminal and not console.is_dumb_terminal
    return PanelListener(console) if redraws else LineListener(console)


@cache
def terminal_listener() -> ProgressListener:
    """The one of this process, for programs that have no listener of their own."""
    listener = listener_for(Console(stderr=True), progress=None)
    atexit.register(listener.close)  # a panel hides the cursor
    return listener
