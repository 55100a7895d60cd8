"""A job on Spark that writes to Kafka exactly once, published in tasks, which get a signal as planned.

kafka_sink_on_spark.py FOLDER SERVERS TOPIC PLAN SIGNAL TRANSACTION-MILLIS
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.connectors.kafka import transactions
from headrace.connectors.kafka.clients import ClientSettings
from headrace.connectors.kafka.transactions import Publisher
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.kafka_sinks import IN_TASKS, STEPS, kafka_job

SETTINGS = {
    "headrace.runtime": "spark",
    "headrace.spark.master": "local[2,4]",
    "headrace.epoch.max-records": "25",
    "headrace.epoch.target-duration": "60s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "40",
    "restart-strategy.fixed-delay.delay": "100ms",
}


@dataclass(frozen=True)
class FaultySettings(ClientSettings):
    """Settings that bring along what befalls a publisher; they are unpickled where it works."""

    faults: str
    signal: str

    def producer(self, *args: Any) -> Any:
        if not hasattr(Publisher, "is_known"):
            Publisher.is_known = True  # type: ignore[attr-defined]
            for step in IN_TASKS:
                name = STEPS[step].rpartition(".")[2]
                setattr(Publisher, name, self._faulty(getattr(Publisher, name), step))
        return super().producer(*args)

    def _faulty(self, original: Callable[..., Any], step: str) -> Callable[..., Any]:
        plan, number = FaultPlan(self.faults), signal.Signals[self.signal]

        def faulty(*args: Any) -> Any:
            if plan.strikes(f"before-{step}"):
                os.kill(os.getpid(), number)
            done = original(*args)
            if plan.strikes(f"after-{step}"):
                os.kill(os.getpid(), number)
            return done

        return faulty


def main(folder: str, servers: str, topic: str, faults: str, signal_name: str, millis: str) -> None:
    transactions._IN_DRIVER_MESSAGES = -1  # those of small epochs, which are in the manifest, count as none
    Publisher.is_known = True  # type: ignore[attr-defined]  # those of the driver live
    job = kafka_job(Path(folder), servers, topic, SETTINGS, {"transaction.timeout.ms": millis})
    sink: Any = job.sink
    client = FaultySettings(sink._settings.properties, faults, signal_name)
    sink._transactions = replace(sink._transactions, client=client)
    job.environment().execute("small")


if __name__ == "__main__":
    main(*sys.argv[1:])
