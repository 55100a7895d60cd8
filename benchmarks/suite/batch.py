"""Batch mode: all input at once, beside streaming mode over the same files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.suite.window import truth

if TYPE_CHECKING:
    from benchmarks.outcome import Outcome
    from benchmarks.suite.base import Scale

_KEYS = (10_000, 1_000_000)
_TIMES_THE_EVENTS = 4
_PROGRAM = "headrace_window"
_BATCH, _STREAMING = "batch mode", "streaming mode"


@dataclass(frozen=True, slots=True)
class _WholeRun(Work):
    """The run as a whole counts: modes differ in how they cut the input into epochs."""

    def steady(self, outcome: Outcome) -> list[float]:
        return [sum(epoch.seconds for epoch in outcome.epochs)]


class BatchBenchmark:
    """How many times as fast batch mode is as streaming mode, both with default settings."""

    name = "batch"
    title = "Windows over bounded input, in batch and in streaming mode"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(scale.events * _TIMES_THE_EVENTS, scale.events)
        here = [
            Contestant(_BATCH, _PROGRAM, {"default_sizes": True, "batch": True}),
            Contestant(_STREAMING, _PROGRAM, {"default_sizes": True}),
        ]
        for keys in _KEYS:
            work = _WholeRun(RandomKeys(scale.files, records // scale.files, keys), records, truth)
            found = lab.race(work, here, scale.rounds)
            yield Finding(
                self.name,
                f"windows, {keys:,} int keys, {records:,} records",
                found[_STREAMING].seconds / found[_BATCH].seconds,
                "x",
                Target(1.0, at_least=True),
                found,
                "times as fast as streaming mode",
            )
