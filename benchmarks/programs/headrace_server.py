"""Windows by headrace in one process, again and again: in turn while nobody asks its server, and while many do.

Options: ``rounds``, how often each has its turns at most after the first round, which warms up; ``uncertainty``, how
far the figures may be off for more rounds not to be needed; ``rate``, requests in a second.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from benchmarks.flood import KINDS, NOBODY, Flood
from benchmarks.memory import processor_seconds
from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.paired import paired_ratio
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, configuration_of
from benchmarks.programs.headrace_metrics import CHECKS, run_windows
from headrace.client.submission import start_server

if TYPE_CHECKING:
    from headrace.jobmanager.events import JobEvent
    from headrace.jobmanager.status import JobSnapshot

_WAYS = (NOBODY, *KINDS)


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input, several times."""
    settings = {"settings": {"rest.port": "0", "web.refresh-interval": "1 s"}}
    served = replace(assignment, options={**assignment.options, **settings})
    address = start_server(configuration_of(served)).address
    with Flood(address, assignment.options["rate"]) as clients:
        turns = _Turns(served, clients)
        turns.round()
        turns.forget()
        for _ in range(assignment.options["rounds"]):
            turns.round()
            if turns.uncertainty() <= assignment.options["uncertainty"]:
                break
    return turns.outcome()


@dataclass(slots=True)
class _Turns:
    """The turns of all ways.

    Attributes:
        served: what the job is told.
        clients: who asks its server.
        sink: takes the results of all runs.
        epochs: the time of all epochs of a turn.
        seconds: that of all turns of a round, by way.
        processor: the CPU time, likewise, without that of the clients.
        answered: the answers in a second of the last turn.
    """

    served: Assignment
    clients: Flood
    sink: CountingSink = field(default_factory=lambda: CountingSink(CHECKS))
    epochs: list[Epoch] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    processor: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    answered: dict[str, float] = field(default_factory=dict)

    def round(self) -> None:
        """Give all their turns there and back, so that what grows from turn to turn is in each of them alike."""
        for found in (self.seconds, self.processor):
            for way in _WAYS:
                found[way].append(0.0)
        for way in (*_WAYS, *reversed(_WAYS)):
            self._turn(way)

    def forget(self) -> None:
        """What was measured so far does not count."""
        self.seconds.clear()
        self.processor.clear()

    def uncertainty(self) -> float:
        """How far the worst figure may be off."""
        return max(
            paired_ratio(found[kind], found[NOBODY]).uncertainty
            for found in (self.seconds, self.processor)
            for kind in KINDS
        )

    def outcome(self) -> Outcome:
        """What was found."""
        totals = {name: self.sink.totals[name] / len(self.epochs) for name in ("rows", "count", "sum")}
        totals["last_end"] = self.sink.totals["last_end"]
        times = {"seconds of epochs": dict(self.seconds), "processor": dict(self.processor)}
        return Outcome(tuple(self.epochs), totals, {**times, "answered": self.answered})

    def _turn(self, way: str) -> None:
        before, times = processor_seconds(), _FollowedTimes(self.clients)
        with self.clients.asks(way):
            shutil.rmtree(self.served.work / "checkpoints", ignore_errors=True)
            run_windows(self.served, self.sink, times)
        asked, seconds = self.clients.answered(), sum(each.seconds for each in times.epochs)
        self.answered[way] = asked.rate
        self.seconds[way][-1] += seconds
        self.processor[way][-1] += processor_seconds() - before - asked.processor
        assert self.served.records_per_epoch is not None
        self.epochs.append(Epoch(self.served.records_per_epoch, seconds))


class _FollowedTimes(EpochTimes):
    """Tells clients which job runs.

    Args:
        clients: the clients.
    """

    def __init__(self, clients: Flood) -> None:
        super().__init__()
        self._clients = clients
        self._known = ""

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        if job.job_id != self._known:
            self._known = job.job_id
            self._clients.tell_job(job.job_id)
        super().__call__(event, job)
