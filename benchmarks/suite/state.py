"""State that grows at a few places: what is due of many timers, what is appended to a long list, a large window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import GrowingState, RandomKeys
from benchmarks.findings import Finding, Measured, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.memory import WORKER
from benchmarks.truth import deadline_totals, list_totals, one_window_totals

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_PROGRAM = "headrace_state"
_TIMERS = 10
"""Of each key, one of which is due when all keys have come."""

_ROUNDS = 5
"""Epochs before that in which they fire, and as many after it, touch some of the keys."""

_APPENDED = 100
"""Elements that an epoch appends to the list."""

_MOST_MIB = 2_048


class StateBenchmark:
    """What an epoch takes, and of a window what memory."""

    name = "state"
    title = "State that grows: timers, a list at one key, a window of one key"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        yield self._timers(lab, scale)
        yield self._list(lab, scale)
        yield self._window(lab, scale)

    def _timers(self, lab: Lab, scale: Scale) -> Finding:
        touched = scale.choose(100_000, 1_000)
        keys = 10 * touched
        data = GrowingState(keys, touched, rounds=2 * _ROUNDS)
        filling = keys // touched
        due = filling + _ROUNDS  # in the middle of the epochs that count
        work = Work(
            data,
            touched,
            lambda source, _: deadline_totals(source, filling - 1),
            after=keys + touched,
            counted=2 * _ROUNDS - 3,  # at the end of the input all others fire
        )
        options = {"state": "timers", "filling_millis": filling, "due_millis": due, "timers": _TIMERS}
        found = self._measured(lab, work, options)
        case = f"{keys:,} timers due at once, of {_TIMERS * keys:,}"
        note = f"for the epoch in which they fire; {found.seconds * 1_000:,.0f} ms for one in which none is due"
        return self._finding(case, found.slowest_seconds * 1_000, "ms", 5_000, found, note)

    def _list(self, lab: Lab, scale: Scale) -> Finding:
        filling, each = scale.choose(20, 2), 1_000
        counted = scale.choose(60, 6)
        data = GrowingState(_APPENDED, _APPENDED, filling + counted + 1)
        records = (filling + counted + 2) * _APPENDED
        options = {"state": "list", "filling_millis": filling, "each": each, "records": records}

        def truth(source: Path, _: Mapping[str, float]) -> Mapping[str, float]:
            return list_totals(source, filling, each)

        work = Work(data, _APPENDED, truth, after=filling * _APPENDED, counted=counted)
        found = self._measured(lab, work, options)
        case = f"{_APPENDED} elements appended to {filling * _APPENDED * each:,} of one key"
        return self._finding(case, found.seconds * 1_000, "ms", 300, found, "for an epoch")

    def _window(self, lab: Lab, scale: Scale) -> Finding:
        data = RandomKeys(scale.files, scale.per_epoch, keys=1)
        work = Work(data, scale.per_epoch, lambda source, _: one_window_totals(source))
        found = self._measured(lab, work, {"state": "window"})
        case = f"a window with {data.records:,} records of one key"
        return self._finding(case, found.memory_mib[WORKER], "MiB", _MOST_MIB, found, "of memory of the largest worker")

    def _measured(self, lab: Lab, work: Work, options: Mapping[str, object]) -> Measured:
        return lab.race(work, [Contestant("headrace", _PROGRAM, options)], rounds=1)["headrace"]

    def _finding(self, case: str, value: float, unit: str, limit: float, found: Measured, note: str) -> Finding:
        return Finding(self.name, case, value, unit, Target(limit, at_least=False), {"headrace": found}, note)
