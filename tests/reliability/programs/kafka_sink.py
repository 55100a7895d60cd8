"""A job that writes to Kafka exactly once, and gets a signal at some places.

kafka_sink.py FOLDER SERVERS TOPIC PARALLELISM PUBLISHES-IN-TASKS TRANSACTION-MILLIS [SIGNAL (STEP COUNT AFTER)...]
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

from headrace.connectors.kafka import transactions, writer
from tests.reliability.support.kafka_sinks import Place, kafka_job


def main(folder: str, servers: str, topic: str, parallelism: str, in_tasks: str, millis: str, *faults: str) -> None:
    if in_tasks == "True":
        transactions._IN_DRIVER_MESSAGES = 0
        writer._IN_MANIFEST_BYTES = 0
    if faults:
        name, *places = faults
        for step, count, after in zip(*[iter(places)] * 3, strict=True):
            Place(step, int(count), after == "True").act(partial(send, name))
    few = {"headrace.epoch.max-records": "10", "headrace.epoch.target-duration": "60s"}
    job = kafka_job(Path(folder), servers, topic, few, {"transaction.timeout.ms": millis})
    job.environment().set_parallelism(int(parallelism)).execute("small")


def send(name: str) -> None:
    print(name)
    os.kill(os.getpid(), signal.Signals[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
