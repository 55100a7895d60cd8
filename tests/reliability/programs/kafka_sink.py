"""A job that writes to Kafka exactly once, and is killed at some place.

kafka_sink.py FOLDER SERVERS TOPIC PARALLELISM PUBLISHES-IN-TASKS STEP COUNT AFTER
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from headrace.connectors.kafka import committer, writer
from tests.reliability.support.kafka_sinks import Place, kafka_job


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, servers: str, topic: str, parallelism: str, in_tasks: str, *place: str) -> None:
    if in_tasks == "True":
        committer._IN_DRIVER_MESSAGES = 0
        writer._IN_MANIFEST_BYTES = 0
    if place:
        step, count, after = place
        Place(step, int(count), after == "True").act(die)
    environment = kafka_job(Path(folder), servers, topic, {"headrace.epoch.max-records": "10"}).environment()
    environment.set_parallelism(int(parallelism)).execute("small")


if __name__ == "__main__":
    main(*sys.argv[1:])
