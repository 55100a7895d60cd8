"""State larger than memory: twenty million keys, written and then touched at random, with little memory for workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.data import GrowingState
from benchmarks.findings import Finding, Measured, Target
from benchmarks.lab import Contestant, Lab, Work, measured
from benchmarks.suite.process import truth

if TYPE_CHECKING:
    from benchmarks.outcome import Outcome
    from benchmarks.suite.base import Scale

_LIMIT_MIB = 1_024
_FLAT = 1.5
_FULL = 2
"""From this tenth of the run on, memory must not grow: epochs have their full size then."""


class LargeStateBenchmark:
    """Both state backends, by how much memory of their own workers take while state grows."""

    name = "large-state"
    title = "State larger than memory: workers that are limited to 1 GiB"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        keys, touched = scale.choose(20_000_000, 10_000), scale.choose(500_000, 1_000)
        work = Work(GrowingState(keys, touched, rounds=scale.choose(8, 2)), touched, truth, after=keys)
        for backend in ("hashmap", "rocksdb"):
            options = {"settings": {"state.backend.type": backend}, "limit_mib": _LIMIT_MIB}
            outcome, peaks = lab.run(work, Contestant(backend, "headrace_large_state", options))
            found = {backend: measured(work, [outcome], peaks)}
            yield from self._findings(f"{keys:,} keys, {backend}", keys, outcome, found)
            stopped = Contestant(f"{backend}, stopped", "headrace_large_state", options | {"savepoint_after": keys})
            yield from self._by_a_savepoint(f"{keys:,} keys, {backend}", lab.run(work, stopped)[0])

    def _findings(self, case: str, keys: int, outcome: Outcome, found: dict[str, Measured]) -> Iterator[Finding]:
        memory = outcome.details["anonymous MiB"]
        rate = keys / sum(epoch.seconds for epoch in outcome.epochs[: _epochs_of(outcome, keys)])
        note = (
            f"of memory of the largest worker that no file backs, with {outcome.details['state MiB']:,} MiB of state "
            f"in all; by tenths of the run {memory}; {rate:,.0f} records/s while all keys are new"
        )
        yield Finding(self.name, case, max(memory), "MiB", Target(_LIMIT_MIB, at_least=False), found, note)
        growth = max(memory[len(memory) // 2 :]) / max(memory[_FULL : len(memory) // 2])
        note = "times the memory of the first half of the run in the second one"
        yield Finding(self.name, f"{case}: growth", growth, "x", Target(_FLAT, at_least=False), {}, note)

    def _by_a_savepoint(self, case: str, outcome: Outcome) -> Iterator[Finding]:
        for what in ("stop with it", "start from it"):
            told = outcome.details[what]
            note = f"of memory of the largest worker that no file backs meanwhile; it took {told['seconds']:.1f} s"
            target = Target(_LIMIT_MIB, at_least=False)
            yield Finding(self.name, f"{case}: savepoint, {what}", told["anonymous MiB"], "MiB", target, {}, note)


def _epochs_of(outcome: Outcome, records: int) -> int:
    """How many epochs have read so many records."""
    read = 0
    for number, epoch in enumerate(outcome.epochs, start=1):
        read += epoch.records
        if read >= records:
            return number
    return len(outcome.epochs)
