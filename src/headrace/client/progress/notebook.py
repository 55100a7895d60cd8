"""A job's progress in a notebook: a frame in the output of the cell that started it, redrawn in place."""

from __future__ import annotations

import threading
import time
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.client.progress import wording
from headrace.client.progress.job_progress import RATE, JobProgress, last_line, progress_line
from headrace.common.notebooks import framed
from headrace.jobmanager.status import JobEnd, JobStart, RuntimeStarting

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jobmanager.status import JobEvent, JobSnapshot

REDRAW_SECONDS: Final = 0.5
_END_SECONDS: Final = 5.0
"""So long a job that has ended waits for its last line to be drawn."""


class Handle(Protocol):
    """What stands in the output of a cell, and can be replaced."""

    def update(self, obj: Any) -> object:
        """Show something else in its place."""


class Shown:
    """What a cell shows: HTML, or plain text where there is no page.

    Args:
        text: the text.
        html: the HTML; the text in a line of its own when left out.
    """

    def __init__(self, text: str, html: str | None = None) -> None:
        self._text = text
        self._html = f"<div>{escape(text)}</div>" if html is None else html

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return self._text


class NotebookListener:
    """Shows how one job fares, in the cell that is executed when this is made.

    A thread of its own draws, so that the job does not wait for the page, and goes on when that cannot be reached.

    Args:
        show: shows an object in the cell, and gives what replaces it.
        clock: seconds, never going back.
    """

    def __init__(self, show: Callable[[Shown], Handle], clock: Callable[[], float] = time.monotonic) -> None:
        self._handle = show(Shown(""))  # keeps the place: what comes later comes from other threads
        self._clock = clock
        self._job: JobProgress | None = None
        self._last = ""
        self._ended = threading.Event()
        self._drawing = threading.Thread(target=self._draw, name="headrace-notebook-progress", daemon=True)

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened to the job."""
        if isinstance(event, RuntimeStarting):
            self._handle.update(Shown(f"starting {event.what} …"))
        elif isinstance(event, JobStart):
            self._job = JobProgress(job, self._clock)
            self._drawing.start()
        elif self._job is not None:
            self._job.update(event, job)
            if isinstance(event, JobEnd):
                self._last = last_line(self._job, event)
                self._ended.set()
                self._drawing.join(_END_SECONDS)

    def _draw(self) -> None:
        while not self._ended.wait(REDRAW_SECONDS):
            if self._job is not None:
                self._handle.update(Shown(progress_line(self._job), job_html(self._job)))
        self._handle.update(Shown(self._last))


def job_html(job: JobProgress) -> str:
    """What a panel on a terminal shows, for a page."""
    facts = job.facts
    if facts:
        facts[RATE] += f"  {wording.trend(job.trend)}"
    waiting = "" if facts else "waiting for the first epoch"
    notes = "".join(f"<div>{escape(note)}</div>" for note in (waiting, job.skipped_files, job.note) if note)
    return framed(f"{job.name}, {job.standing}", facts, notes)


def notebook_listener() -> NotebookListener:
    """The listener of a job that is started in a notebook."""
    from IPython.display import display

    return NotebookListener(partial(display, display_id=True))
