"""Patterns of events, compared with Flink's library in Java by processor time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from benchmarks import flink
from benchmarks.data import Prices
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.patterns import EXPRESSIONS, FUNCTIONS
from benchmarks.suite.sql import Agreement

if TYPE_CHECKING:
    from benchmarks.findings import Measured
    from benchmarks.suite.base import Scale

_BY_EXPRESSIONS, _BY_FUNCTIONS = "expressions", "functions"
_FEW, _MANY = 1_000, 1_000_000
_CASES = {
    "small-large": "small, then large",
    "falling": "falling, then rising",
    "failures": "three failures, then a success",
}


class PatternBenchmark:
    """Three patterns with few and with many keys, and one of which few events can be the first."""

    name = "pattern"
    title = "Patterns of events"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        targets = {_BY_EXPRESSIONS: 2.0, _BY_FUNCTIONS: 0.5}
        for keys in (_FEW, _MANY):
            data = Prices(scale.files, scale.per_epoch // 5, keys)
            for pattern, case in _CASES.items():
                yield from self._beside_flink(lab, data, pattern, f"{case}, {keys:,} keys", targets)
        rare = Prices(scale.files, 2 * scale.per_epoch, _FEW)
        case = f"a first event in a thousand, {rare.records:,} events"
        yield from self._beside_flink(lab, rare, "rare", case, {_BY_EXPRESSIONS: 10.0})

    def _beside_flink(
        self, lab: Lab, data: Prices, pattern: str, case: str, targets: Mapping[str, float]
    ) -> Iterator[Finding]:
        found = lab.race(Work(data, data.records, Agreement()), _contestants(lab, pattern), rounds=1)
        if flink.CEP not in found:
            return
        for name, limit in targets.items():
            if name in found:
                own, other = _processor(found[name]), _processor(found[flink.CEP])
                target = Target(limit, at_least=True)
                note = f"times the events of {flink.CEP} for each second of CPU time ({own:.2f} and {other:.2f} s)"
                yield Finding(self.name, f"{case}, {name}", other / own, "x", target, found, note)


def _contestants(lab: Lab, pattern: str) -> list[Contestant]:
    stated = {_BY_EXPRESSIONS: EXPRESSIONS, _BY_FUNCTIONS: FUNCTIONS}
    here = [
        Contestant(name, "headrace_patterns", _options(pattern, functions=name == _BY_FUNCTIONS))
        for name, patterns in stated.items()
        if pattern in patterns
    ]
    try:
        return [*here, flink.pattern_contestant(pattern)]
    except flink.NoFlinkError as error:
        lab.say(f"{flink.CEP} does not take part: {error}")
        return here


def _options(pattern: str, *, functions: bool) -> dict[str, Any]:
    return {"pattern": pattern, "functions": functions, "default_sizes": True}


def _processor(measured: Measured) -> float:
    """The CPU time of the last run, which is the one that counts."""
    return float(measured.details["processor"][-1])
