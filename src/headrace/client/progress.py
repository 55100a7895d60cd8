"""A running job as displays show it: in words, as plain lines, and as a frame in the output of a notebook's cell."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from typing import Any, Final

from headrace.common import wording
from headrace.common.job_status import JobStatus
from headrace.common.notebooks import framed
from headrace.jobmanager.events import (
    EpochStatistics,
    JobEnd,
    JobEvent,
    JobStart,
    RuntimeStarting,
)
from headrace.jobmanager.metrics import SplitProgress
from headrace.jobmanager.status import JobSnapshot
from headrace.metrics.registry import FILES_CORRUPT, FILES_MISSING, LATE_DROPPED

RATE: Final = "records/s"

_RATE_SECONDS: Final = 10.0
"""The rate is an average over so much time: long enough not to flicker, short enough to show what happens now."""

_SILENCE_SECONDS: Final = 5.0
"""After so long without an epoch displays say since when there was none."""


def skipped_files(counters: Mapping[str, int]) -> str:
    """The files that a job has skipped, by its counters, as text."""
    found = ((FILES_MISSING, "missing"), (FILES_CORRUPT, "damaged"))
    known = [(counters[name], kind) for name, kind in found if name in counters]
    return ", ".join(f"{wording.count(number, f'{kind} file')} skipped" for number, kind in known)


class JobProgress:
    """One job, as displays show it, from any thread.

    Args:
        job: what is known of it.
        clock: seconds, never going back.
    """

    def __init__(self, job: JobSnapshot, clock: Callable[[], float] = time.monotonic) -> None:
        self.job = job
        self._clock = clock
        self.started = self._advanced = clock()
        self._reads: deque[tuple[float, int]] = deque()  # when, and how many records
        self._lock = threading.Lock()

    def update(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened."""
        self.job = job
        if isinstance(event, EpochStatistics):
            with self._lock:
                self._advanced = self._clock()
                self._reads.append((self._advanced, event.records))

    def rate(self) -> float:
        """Records in a second, over the last few seconds; falls to 0 when nothing comes any more."""
        now = self._clock()
        with self._lock:
            while self._reads and self._reads[0][0] < now - _RATE_SECONDS:
                self._reads.popleft()
            records = sum(number for _, number in self._reads)
        elapsed = min(now - self.started, _RATE_SECONDS)
        return records / elapsed if elapsed > 0 else 0.0

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.name

    @property
    def records(self) -> int:
        """Return how many records this run has read."""
        return self.job.records

    @property
    def latest(self) -> EpochStatistics | None:
        """The last epoch; None before the first one."""
        return self.job.latest

    @property
    def note(self) -> str:
        """The failure that is being repaired, or the epoch that waits for the user; empty for neither."""
        failed, held = self.job.failure, self.job.held
        if held is not None:
            return str(held)
        if failed is None:
            return ""
        reason = next(iter(str(failed.error).splitlines()), "") or type(failed.error).__name__
        return f"epoch {failed.epoch} failed and is run again in {failed.retry_in:.1f} s: {reason}"

    @property
    def status(self) -> str:
        """The status with a comma behind it, unless the job just runs."""
        return "" if self.job.status is JobStatus.RUNNING else f"{self.job.status.name}, "

    @property
    def trend(self) -> list[float]:
        """Records a second of the last epochs."""
        return [epoch.records / epoch.seconds for epoch in self.job.epochs if epoch.seconds > 0]

    @property
    def seconds(self) -> float:
        """Return how long this run has taken up to now."""
        return self._clock() - self.started

    @property
    def silence(self) -> str:
        """Time since the last epoch, or since the start; empty when that is recent."""
        seconds = self._clock() - self._advanced
        if seconds < _SILENCE_SECONDS:
            return ""
        span = wording.span(seconds)
        return f"{span} after its start" if self.latest is None else f"last epoch {span} ago"

    @property
    def splits(self) -> tuple[SplitProgress, ...]:
        """The splits of its sources, as of the last epoch."""
        return () if self.latest is None or self.latest.event_time is None else self.latest.event_time.splits

    @property
    def is_idle(self) -> bool:
        """Return whether all of its splits are idle."""
        return bool(self.splits) and all(split.is_idle for split in self.splits)

    @property
    def late_records(self) -> int:
        """Late records that were dropped, over the job's life."""
        return 0 if self.latest is None else self.latest.counters.get(LATE_DROPPED, 0)

    @property
    def late_text(self) -> str:
        """Return how many late records were dropped, and by which operators where there are several that did."""
        counters = {} if self.latest is None else self.latest.operator_counters
        names = {} if self.job.plan is None else self.job.plan.shown_names()
        late = {uid: sum(by_name.get(LATE_DROPPED, ())) for uid, by_name in counters.items()}
        by = [f"{names.get(uid, uid)} {wording.number(number)}" for uid, number in late.items() if number]
        shares = ", ".join(by) if len(by) > 1 else ""
        return f"{wording.number(self.late_records)} ({shares})" if shares else wording.number(self.late_records)

    @property
    def slowest_split(self) -> str:
        """The split that holds event time."""
        progress = None if self.latest is None else self.latest.event_time
        slowest = None if progress is None else progress.slowest()
        return "-" if slowest is None else str(slowest)

    @property
    def waiting_splits(self) -> str:
        """Return how many splits are idle, and how many wait for others that they are aligned with."""
        counts = {"idle": sum(s.is_idle for s in self.splits), "held back": sum(s.is_held_back for s in self.splits)}
        return ", ".join(f"{number} {what}" for what, number in counts.items() if number) or "-"

    @property
    def skipped_files(self) -> str:
        """Return how many files the job has gone on without over its life; empty when there are none."""
        return "" if self.latest is None else skipped_files(self.latest.counters)

    @property
    def standing(self) -> str:
        """Return where this run began, and how long ago."""
        restored = None if self.job.start is None else self.job.start.restored_epoch
        origin = "" if restored is None else f"restored epoch {restored}, "
        return f"{self.status}{origin}{wording.span(self.seconds)}"

    @property
    def facts(self) -> dict[str, str]:
        """The facts that displays show, by name; empty before the first epoch."""
        latest = self.latest
        if latest is None:
            return {}
        facts = {
            "records": wording.number(self.records),
            RATE: wording.number(self.rate()),
            "watermark": wording.watermark(latest.watermark) + (", idle" if self.is_idle else ""),
            "its lag": "-" if latest.watermark_lag is None else wording.behind(latest.watermark_lag),
            "epoch": f"{latest.epoch} ({latest.seconds:.2f} s)",
            "state": wording.size(latest.state_bytes),
            "late, dropped": self.late_text,
            "pending commits": str(latest.pending_commits),
        }
        if latest.pending_records:
            facts["pending records"] = wording.number(latest.pending_records)
        if latest.is_processing_backlog:
            facts["backlog"] = "history is read: longer epochs"
        if len(self.splits) > 1:
            facts |= {"slowest split": self.slowest_split, "waiting splits": self.waiting_splits}
        return facts


def progress_line(job: JobProgress) -> str:
    """Return where the job is now."""
    parts = [*_parts(job), job.silence]
    return f"{job.name}: {job.status}{', '.join(filter(None, parts))}{f'; {job.note}' if job.note else ''}"


def _parts(job: JobProgress) -> list[str]:
    latest = job.latest
    if latest is None:
        return ["no epoch yet"]
    return [
        f"epoch {latest.epoch}",
        wording.count(job.records, "record"),
        wording.rate(job.rate()),
        f"watermark {wording.watermark(latest.watermark, latest.watermark_lag)}{', idle' if job.is_idle else ''}",
        f"state {wording.size(latest.state_bytes)}",
        f"{wording.count(job.late_records, 'late record')} dropped",
        f"{wording.count(latest.pending_records, 'record')} pending" if latest.pending_records else "",
        "processing a backlog" if latest.is_processing_backlog else "",
        job.skipped_files,
        wording.count(latest.pending_commits, "pending commit") if latest.pending_commits else "",
    ]


def last_line(job: JobProgress, end: JobEnd) -> str:
    """Return how the job ended, and what it has done in this run."""
    seconds = job.seconds
    rate = wording.rate(job.records / seconds if seconds > 0 else 0.0)
    what = f"{wording.count(job.records, 'record')} in {wording.span(seconds)} ({rate})"
    late = f", {wording.count(job.late_records, 'late record')} dropped" if job.late_records else ""
    skipped = f", {job.skipped_files}" if job.skipped_files else ""
    return f"job {job.name!r} {end}: {what}{late}{skipped}"


REDRAW_SECONDS: Final = 0.5
_END_SECONDS: Final = 5.0
"""The time that a job that has ended waits for its last line to be drawn."""


class CellContent:
    """The content of a cell: HTML, or plain text where there is no page.

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
        show: shows an object in the cell, and gives what can ``update`` it.
        clock: seconds, never going back.
    """

    def __init__(self, show: Callable[[CellContent], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._handle = show(CellContent(""))  # keeps the place: what comes later comes from other threads
        self._clock = clock
        self._job: JobProgress | None = None
        self._last = ""
        self._ended = threading.Event()
        self._drawing = threading.Thread(target=self._draw, name="headrace-notebook-progress", daemon=True)

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened to the job."""
        if isinstance(event, RuntimeStarting):
            self._handle.update(CellContent(f"starting {event.what} …"))
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
                self._handle.update(CellContent(progress_line(self._job), job_html(self._job)))
        self._handle.update(CellContent(self._last))


def job_html(job: JobProgress) -> str:
    """The content of a panel, as HTML."""
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
