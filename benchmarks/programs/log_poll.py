"""Payments out of the embedded log, column by column, with nothing but its consumer.

Options: ``log``, ``topic`` and ``records``.
"""

from __future__ import annotations

import time

from benchmarks.brokers import Broker
from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.payments import output_totals
from headrace.log import Consumer


def run(assignment: Assignment) -> Outcome:
    """Poll the whole topic."""
    options = assignment.options
    left = options["records"]
    started = time.monotonic()
    with Consumer(options["log"], auto_offset_reset="earliest") as consumer:
        consumer.subscribe([options["topic"]])
        while left:
            left -= consumer.poll_batch().num_rows
    epoch = Epoch(options["records"], time.monotonic() - started)
    return Outcome((epoch,), output_totals(Broker.of(options), options["topic"]))
