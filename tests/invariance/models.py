"""Flink's rules in plain Python, one record at a time: what every cut of a job has to give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

MIN, MAX = -(2**63), 2**63 - 1

Event = tuple[str, int, int]


def with_watermarks(events: Sequence[Event], bound: int) -> Iterator[tuple[Event, int]]:
    """Each event of a split with the watermark in force before it."""
    newest: int | None = None
    for event in events:
        yield event, MIN if newest is None else newest - bound - 1
        newest = event[2] if newest is None else max(newest, event[2])


@dataclass
class TimerModel:
    """Event-time timers of one operator."""

    timers: set[tuple[int, str]] = field(default_factory=set)
    watermark: int = MIN

    def due(self, watermark: int) -> Iterator[tuple[int, str]]:
        """The timers that an advance fires, in order; ones that are registered meanwhile included."""
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        while due := sorted(timer for timer in self.timers if timer[0] <= watermark):
            self.timers.discard(due[0])
            yield due[0]


@dataclass
class WindowModel:
    """A window operator: windows of ``(size, slide)`` over events, with lateness.

    Attributes:
        on_time: what fired: key, start, end, and the values in it.
        late: the events that were too late for all their windows.
    """

    size: int
    slide: int
    lateness: int = 0
    contents: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    fired: set[tuple[str, int]] = field(default_factory=set)
    on_time: list[tuple[str, int, int, tuple[int, ...]]] = field(default_factory=list)
    late: list[Event] = field(default_factory=list)

    def run(self, events: Iterable[tuple[Event, int]]) -> WindowModel:
        """Everything, up to the end of input."""
        for event, watermark in events:
            self.advance(watermark)
            self.add(event, watermark)
        self.advance(MAX)
        return self

    def add(self, event: Event, watermark: int) -> None:
        key, value, time = event
        skipped = True
        for start in self.starts(time):
            last = start + self.size - 1
            if last + self.lateness <= watermark:
                continue
            skipped = False
            self.contents[key, start].append(value)
            if last <= watermark:
                self.fire(key, start)
        if skipped and time + self.lateness <= watermark:
            self.late.append(event)

    def advance(self, watermark: int) -> None:
        for key, start in sorted(self.contents.keys() - self.fired, key=lambda window: window[1]):
            if start + self.size - 1 <= watermark:
                self.fire(key, start)

    def fire(self, key: str, start: int) -> None:
        self.fired.add((key, start))
        self.on_time.append((key, start, start + self.size, tuple(self.contents[key, start])))

    def starts(self, time: int) -> Iterator[int]:
        start = time - time % self.slide
        while start > time - self.size:
            yield start
            start -= self.slide

    def results(self, fold: Any) -> list[Any]:
        """What fired, with the values folded and the timestamp of the result."""
        return sorted(((key, start, end, fold(values), end - 1) for key, start, end, values in self.on_time), key=repr)
