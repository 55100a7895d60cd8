"""A job on Spark that writes to Kafka exactly once, published in tasks, which die as planned.

kafka_sink_on_spark.py FOLDER SERVERS TOPIC PLAN
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.connectors.kafka import committer, writer
from headrace.connectors.kafka.client import ClientSettings
from headrace.connectors.kafka.publisher import Publisher
from tests.reliability.support.faults import FaultPlan, die
from tests.reliability.support.kafka_sinks import IN_TASKS, STEPS, kafka_job

SETTINGS = {
    "headrace.runtime": "spark",
    "headrace.spark.master": "local[2,4]",
    "headrace.epoch.max-records": "25",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "40",
    "restart-strategy.fixed-delay.delay": "100ms",
}


@dataclass(frozen=True)
class DyingSettings(ClientSettings):
    """Settings that bring along what a publisher dies of; they are unpickled where it works."""

    faults: str

    def producer(self, *args: Any) -> Any:
        if not hasattr(Publisher, "is_known"):
            Publisher.is_known = True  # type: ignore[attr-defined]
            for step in IN_TASKS:
                name = STEPS[step].rpartition(".")[2]
                setattr(Publisher, name, _dying(getattr(Publisher, name), step, FaultPlan(self.faults)))
        return super().producer(*args)


def _dying(original: Callable[..., Any], step: str, plan: FaultPlan) -> Callable[..., Any]:
    def dying(*args: Any) -> Any:
        if plan.strikes(f"before-{step}"):
            die()
        done = original(*args)
        if plan.strikes(f"after-{step}"):
            die()
        return done

    return dying


def main(folder: str, servers: str, topic: str, faults: str) -> None:
    committer._IN_DRIVER_MESSAGES = 0
    writer._IN_MANIFEST_BYTES = 0
    Publisher.is_known = True  # type: ignore[attr-defined]  # those of the driver live
    job = kafka_job(Path(folder), servers, topic, SETTINGS)
    sink: Any = job.sink
    client = DyingSettings(sink._settings.properties, faults)
    sink._transactions = replace(sink._transactions, client=client)
    job.environment().execute("small")


if __name__ == "__main__":
    main(*sys.argv[1:])
