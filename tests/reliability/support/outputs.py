"""What a file sink has made visible, and what is wrong with it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

_PART = re.compile(r"-(\d+)-(\d+)-(\d+)-(\d+)(?:\.\w+)?$")


@dataclass(frozen=True, order=True)
class Part:
    """A visible file of a sink.

    Attributes:
        subtask: which of the parallel writers wrote it.
        first: the first epoch in it.
        last: the last epoch in it.
        generation: how often the job had been taken over.
        path: the file.
    """

    subtask: int
    first: int
    last: int
    generation: int
    path: Path


def parts(folder: Path) -> list[Part]:
    """The visible files of a sink, by subtask and then in the order they were written."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not any(name.startswith(".") for name in path.relative_to(folder).parts):
            match = _PART.search(path.name)
            assert match, f"{path} is no file of a sink"
            found.append(Part(*map(int, match.groups()), path))
    return sorted(found)


def lines(folder: Path) -> Iterator[str]:
    """All visible lines."""
    for part in parts(folder):
        yield from part.path.read_text().splitlines()


def hidden_files(folder: Path) -> list[str]:
    """What a sink keeps that readers do not see."""
    every = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in every if any(name.startswith(".") for name in path.parts))


@dataclass(frozen=True)
class Verdict:
    """What was found in an output.

    Attributes:
        outputs: how many records there are.
        lost: records that should be there.
        duplicates: records that are there more often than once.
        unknown: records that should not be there.
        out_of_order: records that come after a later one of the same split in the output of one subtask.
    """

    outputs: int
    lost: int
    duplicates: int
    unknown: int
    out_of_order: int


@dataclass
class Verifier(Generic[T]):
    """Compares an output with the records that should be in it, each once and in order.

    Attributes:
        expected: the records.
        parse: makes a record of a line.
        order: the sequence that a record belongs to, and its place in it.
    """

    expected: Iterable[T]
    parse: Callable[[str], T]
    order: Callable[[T], tuple[int, int]]

    def verify(self, folder: Path) -> Verdict:
        """Read all visible files."""
        found: Counter[T] = Counter()
        out_of_order = 0
        reached: dict[tuple[int, int], int] = {}
        for part in parts(folder):
            for line in part.path.read_text().splitlines():
                record = self.parse(line)
                found[record] += 1
                sequence, place = self.order(record)
                if place <= reached.get((part.subtask, sequence), -1):
                    out_of_order += 1
                reached[part.subtask, sequence] = place
        expected = set(self.expected)
        return Verdict(
            outputs=found.total(),
            lost=len(expected - found.keys()),
            duplicates=sum(count - 1 for count in found.values()),
            unknown=len(found.keys() - expected),
            out_of_order=out_of_order,
        )
