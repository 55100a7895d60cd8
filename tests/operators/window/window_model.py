"""Flink's WindowOperator in plain Python, record by record: what the operators are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

MIN, MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Record:
    """A record, and the watermark in force when it is processed."""

    key: object
    value: object
    timestamp: int
    watermark: int = MIN


@dataclass(frozen=True)
class Firing:
    """One window of one key fires, holding these values; the result is stamped with the output watermark."""

    watermark: int
    end: int
    key: object
    values: tuple
    event_time: int


@dataclass
class Model:
    """Aligned windows with the event-time trigger.

    ``rank`` orders the keys of one moment (Flink leaves that order open; headrace does not). With ``purges`` what was
    shown is dropped.
    """

    size: int
    slide: int
    offset: int = 0
    lateness: int = 0
    rank: dict = field(default_factory=dict)
    purges: bool = False
    watermark: int = MIN
    contents: dict = field(default_factory=dict)
    firings: list = field(default_factory=list)
    late: list = field(default_factory=list)
    cleared: list = field(default_factory=list)

    def windows(self, timestamp: int) -> list[int]:
        """The ends of a timestamp's windows, newest first (Flink's loop, as written there)."""
        start = timestamp - (timestamp - self.offset) % self.slide
        ends = []
        while start > timestamp - self.size:
            ends.append(start + self.size)
            start -= self.slide
        return ends

    def cleanup(self, end: int) -> int:
        return min(end - 1 + self.lateness, MAX)

    def process(self, record: Record) -> None:
        self.advance(record.watermark)
        skipped = True
        for end in self.windows(record.timestamp):
            if self.cleanup(end) <= self.watermark:
                continue
            skipped = False
            self.contents.setdefault((end, record.key), []).append(record.value)
            if end - 1 <= self.watermark:
                self._fire(end, record.key, self.watermark, self.watermark)
        if skipped and record.timestamp + self.lateness <= self.watermark:
            self.late.append(record)

    def advance(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        before, self.watermark = self.watermark, watermark
        due = [(end, key) for end, key in self.contents if before < end - 1 <= watermark]
        for end, key in sorted(due, key=lambda pair: (pair[0], self.rank[pair[1]])):
            self._fire(end, key, before, watermark)
        for end, key in [pair for pair in self.contents if self.cleanup(pair[0]) <= watermark]:
            self.cleared.append((end, key))
            del self.contents[end, key]

    def _fire(self, end: int, key: object, stamp: int, event_time: int) -> None:
        self.firings.append(Firing(stamp, end, key, tuple(self.contents[end, key]), event_time))
        if self.purges:
            del self.contents[end, key]
