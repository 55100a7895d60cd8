"""How far a source is behind: in records, and in time, under the names of Flink's metrics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.connectors.source import Pending
from headrace.jobmanager.metrics import MetricKey
from headrace.metrics.own_names import WATERMARK_LAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NO_TIMES = (MIN_WATERMARK, MAX_WATERMARK)


@dataclass(frozen=True, slots=True)
class LastRead:
    """The last epoch that read records of a source.

    Attributes:
        event_time: the timestamp of the last record of the split that is furthest behind; None without event time.
        fetched_at: when the epoch began, in milliseconds of the job's clock.
        emitted_at: when it was complete.
    """

    event_time: int | None
    fetched_at: int
    emitted_at: int

    def lags(self) -> tuple[int | None, int | None]:
        """How far the timestamp was behind the clock at the two times; None without event time."""
        if self.event_time is None:
            return None, None
        return self.fetched_at - self.event_time, self.emitted_at - self.event_time


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """A source at the end of an epoch.

    Attributes:
        name: its name.
        pending: what is there and not read yet, of all splits; records may be an estimate.
        watermark: the lowest of the splits that count.
        idle_since: since when nothing has come, in milliseconds of the job's clock.
        is_processing_backlog: whether it reads what is history, so that epochs may be longer.
        last: the last epoch in which there were records; None as long as there was none in this run.
        more: what else the source tells, by name.
        uid: its uid.
    """

    name: str
    pending: Pending
    watermark: int
    idle_since: int
    is_processing_backlog: bool = False
    last: LastRead | None = None
    more: Mapping[str, int] = field(default_factory=dict)
    uid: str = ""

    def metrics(self, now: int) -> dict[MetricKey, float]:
        """Records, bytes and milliseconds, as of a reading of the job's clock; none of what is not known.

        ``pendingRecords`` and ``pendingBytes``; ``currentFetchEventTimeLag`` and ``currentEmitEventTimeLag``: how far
        the timestamps of the last records were behind the clock when the epoch that read them began, and when it was
        complete; ``watermarkLag``; ``sourceIdleTime``; ``isProcessingBacklog``, 1 or 0; and what else the source tells.
        """
        fetch, emit = (None, None) if self.last is None else self.last.lags()
        found = {
            "pendingRecords": self.pending.records,
            "pendingBytes": self.pending.bytes,
            "currentFetchEventTimeLag": fetch,
            "currentEmitEventTimeLag": emit,
            WATERMARK_LAG: None if self.watermark in _NO_TIMES else now - self.watermark,
            "sourceIdleTime": max(0, now - self.idle_since),
            "isProcessingBacklog": int(self.is_processing_backlog),
            **self.more,
        }
        return {MetricKey(self.uid, None, name): value for name, value in found.items() if value is not None}


class ReadingHistory:
    """What a source has read in this run: when last, and how many bytes a record takes.

    Args:
        now: the reading of the job's clock in milliseconds.

    Attributes:
        last: as in :class:`SourceProgress`.
        idle_since: likewise.
    """

    def __init__(self, now: int) -> None:
        self.last: LastRead | None = None
        self.idle_since = now
        self._records = 0
        self._bytes = 0

    def add(self, records: int, size: int, event_times: Iterable[int | None], fetched_at: int, emitted_at: int) -> None:
        """An epoch is complete.

        Args:
            records: how many records it read.
            size: how many bytes these were, by the enumerator's word.
            event_times: of each split, the timestamp of the last record.
            fetched_at: as in :class:`LastRead`.
            emitted_at: likewise.
        """
        if records:
            known = (time for time in event_times if time is not None and time != NO_TIMESTAMP)
            self.last = LastRead(min(known, default=None), fetched_at, emitted_at)
            self.idle_since = emitted_at
            self._records += records
            self._bytes += size

    def total(self, splits: Iterable[Pending]) -> Pending:
        """What all splits have together; records follow from the bytes where these alone are known."""
        every = list(splits)
        records = [split.records for split in every]
        sizes = [split.bytes for split in every]
        size = None if None in sizes else sum(filter(None, sizes))
        if None not in records:
            return Pending(sum(filter(None, records)), size)
        found = Pending(None, size)
        if size == 0:
            return replace(found, records=0)
        if size is None or not self._bytes:
            return found
        return replace(found, records=round(size * self._records / self._bytes))
