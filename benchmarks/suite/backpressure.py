"""Backpressure: how long checkpoints take while a sink holds the job back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Measured, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.suite.process import truth

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_KEYS = 100_000
_SECONDS = 2.0
_LIMIT_MILLIS = 20
_UNHINDERED = "a fast sink"
_PACES = {
    _UNHINDERED: (0.0, 0.0),
    "a slow writer": (_SECONDS, 0.0),
    "a slow committer": (0.0, _SECONDS),
}
"""Seconds that a sink takes for the writing and for the commit of each epoch."""


class BackpressureBenchmark:
    """How much longer checkpoints take behind a slow sink."""

    name = "backpressure"
    title = f"Backpressure: checkpoints before a sink that takes {_SECONDS:g} s for each epoch"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(50_000, 1_000)
        work = Work(RandomKeys(scale.choose(24, 8), records, _KEYS), records, truth, warm_up=scale.choose(6, 2))
        contestants = [
            Contestant(name, "headrace_backpressure", {"writing": writing, "committing": committing})
            for name, (writing, committing) in _PACES.items()
        ]
        found = lab.race(work, contestants, rounds=1)
        for name in _PACES:
            if name != _UNHINDERED:
                yield self._finding(name, found)

    def _finding(self, name: str, found: dict[str, Measured]) -> Finding:
        fast, slow = (found[each].details["seconds"]["checkpointing"] * 1000 for each in (_UNHINDERED, name))
        note = (
            f"more for a checkpoint than before {_UNHINDERED}: {slow:.1f} and {fast:.1f} ms, of epochs of "
            f"{found[name].seconds:.1f} and {found[_UNHINDERED].seconds:.1f} s"
        )
        return Finding(self.name, name, slow - fast, "ms", Target(_LIMIT_MILLIS, at_least=False), found, note)
