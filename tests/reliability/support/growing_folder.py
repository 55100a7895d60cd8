"""What the job over a growing folder has to write, in plain Python, and whether it has."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.reliability.support.odd_files import OddFile, Record
from tests.reliability.support.outputs import hidden_files, parts

INPUT = "input"

WINDOW = 5_000
"""Milliseconds of a window."""

Fact = tuple[Any, ...]

FACTS: dict[str, Callable[[Any], list[Fact]]] = {
    "records": lambda line: [tuple(line[name] for name in Record._fields), ("seen", line["key"], line["seen"])],
    "windows": lambda line: [tuple(line[name] for name in ("key", "window_start", "window_end", "count", "total"))],
    "late": lambda line: [tuple(line[name] for name in Record._fields)],
    "bad": lambda line: [(line["where"], line["raw"])],
}
"""By sink, what a line says. Which record of a key gets which number depends on the order of files."""


def expected(files: Iterable[OddFile], folder: Path) -> dict[str, Counter[Fact]]:
    """By sink, all that has to be said, and how often."""
    files = list(files)
    records = [record for file in files for record in file.records]
    numbers: Counter[str] = Counter()
    for record in records:
        numbers[record.key] += 1
    seen = [("seen", key, number) for key, count in numbers.items() for number in range(1, count + 1)]
    amounts: dict[tuple[str, int], list[int]] = defaultdict(list)
    for record in records:
        if not record.is_late:
            amounts[record.key, record.time // WINDOW * WINDOW].append(record.amount)
    return {
        "records": Counter([*map(tuple, records), *seen]),
        "windows": Counter((key, start, start + WINDOW, len(a), sum(a)) for (key, start), a in amounts.items()),
        "late": Counter(tuple(record) for record in records if record.is_late),
        "bad": Counter((f"{folder / INPUT / bad.file}:{bad.line}", bad.raw) for file in files for bad in file.bad),
    }


class Output:
    """What one sink has made visible; files that were looked at are not read again.

    Args:
        folder: the sink's folder.
        missing: what it has to say, and how often.
    """

    def __init__(self, folder: Path, missing: Counter[Fact]) -> None:
        self._folder = folder
        self._missing = missing
        self._facts = FACTS[folder.name]
        self._known: dict[Path, tuple[int, int, int]] = {}

    def check(self) -> None:
        """Nothing is visible that should not be, or more often than it should; what was visible stays as it was."""
        if not self._folder.exists():
            return
        now = {part.path: _identity(part.path) for part in parts(self._folder)}
        assert now.items() >= self._known.items(), f"{self._known.keys() - now.keys() or 'files'} changed"
        for path in now.keys() - self._known.keys():
            for line in path.read_text().split("\n")[:-1]:
                for fact in self._facts(json.loads(line)):
                    assert self._missing[fact], f"{path} says what should not be there, or was said before: {line}"
                    self._missing[fact] -= 1
        self._known = now

    def check_complete(self) -> None:
        """All is there, and nothing else."""
        self.check()
        missing = +self._missing
        assert not missing, f"{self._folder}: {missing.total()} are missing, such as {next(iter(missing))}"
        assert not hidden_files(self._folder)


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns
