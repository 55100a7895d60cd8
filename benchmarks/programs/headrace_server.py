"""Windows by headrace in one process, again and again: in turn while nobody asks its server, and while many do.

Options: ``rounds``, how often each has its turn after the first one, which warms up; ``repeats``, how often the job
runs in a turn; ``rate``, requests in a second.
"""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import replace

from benchmarks.flood import KINDS, Flood, flood
from benchmarks.memory import processor_seconds
from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, configuration_of
from benchmarks.programs.headrace_metrics import CHECKS, run_windows
from headrace.client.submission import start_server

_NOBODY = "nobody"


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input, several times."""
    settings = {"settings": {"rest.port": "0", "web.refresh-interval": "1 s"}}
    served = replace(assignment, options={**assignment.options, **settings})
    address = start_server(configuration_of(served)).address
    sink, ways = CountingSink(CHECKS), (_NOBODY, *KINDS)
    records = assignment.records_per_epoch
    assert records is not None
    epochs, processor = [], {way: list[float]() for way in ways}
    answered = dict.fromkeys(KINDS, 0.0)
    for _ in range(1 + assignment.options["rounds"]):
        for way in ways:
            before, times = processor_seconds(), EpochTimes()
            asking = nullcontext(Flood()) if way == _NOBODY else flood(address, assignment.options["rate"], way)
            with asking as asked:
                for _ in range(assignment.options["repeats"]):
                    shutil.rmtree(assignment.work / "checkpoints", ignore_errors=True)
                    run_windows(served, sink, times)
            processor[way].append(processor_seconds() - before - asked.processor)
            epochs.append(Epoch(records, sum(each.seconds for each in times.epochs) / assignment.options["repeats"]))
            if way != _NOBODY:
                answered[way] = asked.answered / asked.seconds
    runs = len(epochs) * assignment.options["repeats"]
    totals = {name: sink.totals[name] / runs for name in ("rows", "count", "sum")}
    totals["last_end"] = sink.totals["last_end"]
    details = {"processor": {way: found[1:] for way, found in processor.items()}, "answered": answered}
    return Outcome(tuple(epochs), totals, details)
