"""Functions of two streams: what a change of a rule costs that is broadcast, and what a second input does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.data import HotKey, RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.memory import WORKER
from benchmarks.suite.process import truth

if TYPE_CHECKING:
    from benchmarks.findings import Measured
    from benchmarks.suite.base import Scale

_KEYS = 10_000
_RULE_LIMIT, _CO_LIMIT, _MEMORY_LIMIT = 1.2, 0.8, 1.3
_ONE, _BOTH = Contestant("one input", "headrace_process"), Contestant("two inputs", "headrace_connected", {"use": "co"})


class ConnectedBenchmark:
    """headrace beside itself: nobody else has such functions in Python."""

    name = "connected"
    title = "Two streams: 10,000 rules that are broadcast, a function with two inputs, a key with half of all records"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        yield self._rules(lab, scale)
        work = Work(RandomKeys(scale.files, scale.per_epoch, _KEYS), scale.per_epoch, truth)
        found = lab.race(work, [_ONE, _BOTH], scale.choose(4, 1))  # they are near each other, and rounds are not
        yield Finding(
            self.name,
            f"two inputs, {_KEYS:,} int keys",
            found[_ONE.name].seconds / found[_BOTH.name].seconds,
            "x",
            Target(_CO_LIMIT, at_least=True),
            found,
            "of the records a second that one input has",
        )
        yield self._hot_key(lab, scale, found[_BOTH.name])

    def _rules(self, lab: Lab, scale: Scale) -> Finding:
        files, size = scale.choose(60, 12), scale.choose(50_000, 2_000)
        contestant = Contestant("rules", "headrace_connected", {"use": "rules", "changes": files // 2})
        work = Work(RandomKeys(files, size, _KEYS), size, truth, warm_up=4)
        found = lab.race(work, [contestant], rounds=1)
        seconds = found[contestant.name].details
        ratio = seconds["one rule"] / seconds["no rule"]
        note = "times the time of an epoch that changes none"
        target = Target(_RULE_LIMIT, at_least=False)
        return Finding(self.name, "an epoch that changes one of 10,000 rules", ratio, "x", target, found, note)

    def _hot_key(self, lab: Lab, scale: Scale, even: Measured) -> Finding:
        work = Work(HotKey(scale.files, scale.per_epoch, _KEYS), scale.per_epoch, truth)
        found = lab.race(work, [_BOTH], rounds=1)
        ratio = found[_BOTH.name].memory_mib[WORKER] / even.memory_mib[WORKER]
        note = "times the memory of a worker with even keys"
        target = Target(_MEMORY_LIMIT, at_least=False)
        return Finding(self.name, "two inputs, a key with half of all records", ratio, "x", target, found, note)
