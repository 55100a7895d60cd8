"""What is known of one running job: its last epoch, and how fast it has been lately."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headrace.client.progress import wording
from headrace.metrics.own_names import FILES_CORRUPT, FILES_MISSING, LATE_DROPPED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.jobmanager.progress import EpochStatistics, JobStart

RATE: Final = "records/s"

_RATE_SECONDS: Final = 10.0
"""The rate is an average over so much time: long enough not to flicker, short enough to show what happens now."""

_TREND_EPOCHS: Final = 40


def skipped_files(counters: Mapping[str, int]) -> str:
    """What a job's counters tell of files that it went on without."""
    found = ((FILES_MISSING, "missing"), (FILES_CORRUPT, "damaged"))
    known = [(counters[name], kind) for name, kind in found if name in counters]
    return ", ".join(f"{wording.count(number, f'{kind} file')} skipped" for number, kind in known)


@dataclass(frozen=True, slots=True)
class _Read:
    """So many records were read by that time."""

    at: float
    records: int


class RateMeter:
    """Records in a second, over the last few seconds.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._reads: deque[_Read] = deque()

    def add(self, records: int) -> None:
        """So many records have just been read."""
        self._reads.append(_Read(self._clock(), records))

    def rate(self) -> float:
        """Records in a second; falls to 0 when nothing comes any more."""
        now = self._clock()
        while self._reads and self._reads[0].at < now - _RATE_SECONDS:
            self._reads.popleft()
        elapsed = min(now - self._started, _RATE_SECONDS)
        return sum(read.records for read in self._reads) / elapsed if elapsed > 0 else 0.0


@dataclass(slots=True)
class JobProgress:
    """One job, as the listener has heard of it.

    Attributes:
        start: how it started.
        clock: seconds, never going back.
        epochs: how many epochs this run has completed.
        records: how many records this run has read.
        latest: the last epoch; None before the first one.
        note: what went wrong last and is being repaired.
        trend: records a second of the last epochs.
    """

    start: JobStart
    clock: Callable[[], float] = time.monotonic
    epochs: int = 0
    records: int = 0
    latest: EpochStatistics | None = None
    note: str = ""
    trend: deque[float] = field(default_factory=lambda: deque(maxlen=_TREND_EPOCHS))
    meter: RateMeter = field(init=False)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.meter = RateMeter(self.clock)
        self.started = self.clock()

    @property
    def name(self) -> str:
        """The job's name."""
        return self.start.name

    @property
    def seconds(self) -> float:
        """How long this run has taken up to now."""
        return self.clock() - self.started

    @property
    def late_records(self) -> int:
        """Late records that were dropped, over the job's life."""
        return 0 if self.latest is None else self.latest.counters.get(LATE_DROPPED, 0)

    @property
    def late_text(self) -> str:
        """How many late records were dropped, and by which operators where there are several that did."""
        counters = {} if self.latest is None else self.latest.counters
        suffix = f".{LATE_DROPPED}"
        by = {name.removesuffix(suffix): late for name, late in counters.items() if name.endswith(suffix) and late}
        told = ", ".join(f"{name} {wording.number(late)}" for name, late in by.items()) if len(by) > 1 else ""
        return f"{wording.number(self.late_records)} ({told})" if told else wording.number(self.late_records)

    @property
    def slowest_split(self) -> str:
        """The split that holds event time."""
        progress = None if self.latest is None else self.latest.event_time
        slowest = None if progress is None else progress.slowest()
        return "-" if slowest is None else str(slowest)

    @property
    def waiting_splits(self) -> str:
        """How many splits are idle, and how many wait for others that they are aligned with."""
        splits = () if self.latest is None or self.latest.event_time is None else self.latest.event_time.splits
        counts = {"idle": sum(s.is_idle for s in splits), "held back": sum(s.is_held_back for s in splits)}
        return ", ".join(f"{number} {what}" for what, number in counts.items() if number) or "-"

    @property
    def skipped_files(self) -> str:
        """How many files the job has gone on without over its life; empty when there are none."""
        return "" if self.latest is None else skipped_files(self.latest.counters)

    @property
    def standing(self) -> str:
        """Where this run began, and how long ago."""
        restored = self.start.restored_epoch
        origin = "" if restored is None else f"restored epoch {restored}, "
        return f"{origin}{wording.span(self.seconds)}"

    @property
    def facts(self) -> dict[str, str]:
        """What displays show, by name; empty before the first epoch."""
        latest = self.latest
        if latest is None:
            return {}
        facts = {
            "records": wording.number(self.records),
            RATE: wording.number(self.meter.rate()),
            "watermark": wording.watermark(latest.watermark),
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
        if latest.event_time is not None and len(latest.event_time.splits) > 1:
            facts |= {"slowest split": self.slowest_split, "waiting splits": self.waiting_splits}
        return facts

    def completed(self, statistics: EpochStatistics) -> None:
        """An epoch is complete."""
        self.epochs += 1
        self.records += statistics.records
        self.latest = statistics
        self.note = ""
        self.meter.add(statistics.records)
        if statistics.seconds > 0:
            self.trend.append(statistics.records / statistics.seconds)

    def acknowledged(self, epoch: int, pending: int) -> None:
        """A manifest without an epoch says what has been committed."""
        if self.latest is not None:
            self.latest = replace(self.latest, epoch=epoch, pending_commits=pending)

    def failed(self, epoch: int, error: BaseException, retry_in: float) -> None:
        """An epoch failed and is run again."""
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        self.note = f"epoch {epoch} failed and is run again in {retry_in:.1f} s: {reason}"
