"""What the long job reads, and what it has to say of it in plain Python: it uses nothing of headrace.

A round is three files: events, others of the same keys, and rules. Times rise from round to round by less than
watermarks stay behind, so nothing is ever late, in whatever order files are read.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

STREAMS: Final = ("events", "others", "rules")

ROUND: Final = 1_000
"""Milliseconds of event time that a round takes."""

BOUND: Final = 6 * ROUND
"""Milliseconds that watermarks stay behind."""

WINDOW: Final = 2 * ROUND
"""Milliseconds of a window, and of a stretch after which the ledger closes its books."""

GAP: Final = 250
"""Milliseconds between two sessions."""

NEAR: Final = 300
"""An event and another record are a pair when their times are at most so many milliseconds apart."""

KINDS: Final = 3
"""Kinds of rules; that of an event follows from its amount."""

_KEYS: Final = [f"k{number}" for number in range(12)]


class Record(NamedTuple):
    """A line of any of the streams; of rules ``key`` says nothing."""

    id: int
    key: str
    time: int
    amount: int

    def __str__(self) -> str:
        return ",".join(map(str, self))

    @staticmethod
    def of(line: str) -> Record:
        """What :meth:`__str__` gave."""
        id_, key, time, amount = line.split(",")
        return Record(int(id_), key, int(time), int(amount))


@dataclass
class Input:
    """Makes one round after the other.

    Attributes:
        folder: where they are published.
        seed: of all that is random.
        events: how many there are in a round.
    """

    folder: Path
    seed: int
    events: int = 20
    rounds: int = 0
    records: dict[str, list[Record]] = field(default_factory=lambda: {stream: [] for stream in STREAMS})

    def publish(self) -> None:
        """One more round."""
        chance = random.Random(f"{self.seed} {self.rounds}")
        for stream, count in zip(STREAMS, (self.events, self.events // 2, 2), strict=True):
            found = [self._record(chance, stream) for _ in range(count)]
            self.records[stream] += found
            self._write(stream, found)
        self.rounds += 1

    @property
    def count(self) -> int:
        """How many records there are."""
        return sum(map(len, self.records.values()))

    def _record(self, chance: random.Random, stream: str) -> Record:
        moment = chance.randrange(ROUND // 10) * 10 + (5 if stream == "rules" else 0)  # never at the time of an event
        number = chance.randrange(1 << 40)
        return Record(number, chance.choice(_KEYS), self.rounds * ROUND + moment, chance.randrange(1000))

    def _write(self, stream: str, records: list[Record]) -> None:
        folder = self.folder / stream
        folder.mkdir(parents=True, exist_ok=True)
        hidden = folder / f".{self.rounds:06}.csv"
        hidden.write_text("".join(f"{record}\n" for record in records))
        os.rename(hidden, folder / f"{self.rounds:06}.csv")

    def truth(self) -> Counter[str]:
        """All lines that the job has to say in the end."""
        events, others, rules = (self.records[stream] for stream in STREAMS)
        lines = [*_ledger(events), *_windows(events), *_sessions(events), *_pairs(events, others)]
        return Counter([*lines, *_ruled(events, rules)])


def kind_of(amount: int) -> int:
    """The kind of rules that an event of such an amount goes by."""
    return amount % KINDS


def _by_key(records: list[Record]) -> dict[str, list[Record]]:
    found = defaultdict(list)
    for record in sorted(records, key=lambda record: record.time):
        found[record.key].append(record)
    return found


def _ledger(events: list[Record]) -> list[str]:
    lines = [f"event|{event.id}" for event in events]
    for key, found in _by_key(events).items():
        lines += [f"seen|{key}|{number}" for number in range(1, len(found) + 1)]
        books = defaultdict(list)
        for event in found:
            books[(event.time // WINDOW + 1) * WINDOW].append(event)
        for end, entries in books.items():
            ids = " ".join(map(str, sorted(entry.id for entry in entries)))
            lines.append(f"book|{key}|{end}|{sum(entry.amount for entry in entries)}|{ids}")
    return lines


def _windows(events: list[Record]) -> list[str]:
    amounts = defaultdict(list)
    for event in events:
        amounts[event.key, event.time // WINDOW * WINDOW].append(event.amount)
    return [f"window|{key}|{start}|{len(found)}|{sum(found)}" for (key, start), found in amounts.items()]


def _sessions(events: list[Record]) -> list[str]:
    lines = []
    for key, found in _by_key(events).items():
        start = 0
        for place, event in enumerate(found):
            if place + 1 == len(found) or found[place + 1].time > event.time + GAP:
                amounts = [entry.amount for entry in found[start : place + 1]]
                lines.append(f"session|{key}|{found[start].time}|{len(amounts)}|{sum(amounts)}")
                start = place + 1
    return lines


def _pairs(events: list[Record], others: list[Record]) -> list[str]:
    by_key = _by_key(others)
    pairs = ((event, other) for event in events for other in by_key[event.key])
    return [f"pair|{event.id}|{other.id}" for event, other in pairs if abs(event.time - other.time) <= NEAR]


def _ruled(events: list[Record], rules: list[Record]) -> list[str]:
    times = defaultdict(list)
    for rule in rules:
        times[kind_of(rule.amount)].append(rule.time)
    return [f"ruled|{event.id}|{sum(time < event.time for time in times[kind_of(event.amount)])}" for event in events]
