"""What a benchmark is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from benchmarks.findings import Finding
    from benchmarks.lab import Lab

EVENTS = 5_000_000


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done.

    Attributes:
        events: how many records the large inputs have.
        quick: whether it is only tried that everything works; such figures mean nothing.
    """

    events: int = EVENTS
    quick: bool = False

    @property
    def files(self) -> int:
        """How many files the large inputs have."""
        return self.choose(10, 4)

    @property
    def per_epoch(self) -> int:
        """How many records an epoch has when an epoch is a file."""
        return self.events // self.files

    @property
    def rounds(self) -> int:
        """How often each contestant has its turn."""
        return 1 if self.quick else 2

    def choose(self, full: int, quick: int) -> int:
        """A number that is smaller for a quick try."""
        return quick if self.quick else full


class Benchmark(Protocol):
    """One of the things that are measured."""

    name: str
    """What ``--only`` calls it."""

    title: str
    """For people."""

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        """Measure; a finding as soon as it is there."""
