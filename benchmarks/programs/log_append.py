"""Payments into the embedded log, column by column, with nothing but its producer.

Options: ``log``, ``topic`` (where the payments are) and ``records``.
"""

from __future__ import annotations

import time

from benchmarks.brokers import Broker
from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.payments import output_totals
from headrace.log import Log, Producer


def run(assignment: Assignment) -> Outcome:
    """Append all, and take the time until they are committed."""
    options = assignment.options
    broker, log = Broker.of(options), Log.open(options["log"])
    results = broker.new_topic("appended")
    there = list(log.read(options["topic"]))
    started = time.monotonic()
    with Producer(log) as producer:
        for batch in there:
            producer.append(results, batch.select(["value", "timestamp"]), batch.column("partition")[0].as_py())
    epoch = Epoch(options["records"], time.monotonic() - started)
    return Outcome((epoch,), output_totals(broker, results))
