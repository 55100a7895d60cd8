"""Logs in memory whose processes are killed, stand still, or are told of errors."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Final

from headrace.log.consumer import Consumer
from headrace.log.journal import make_log
from headrace.log.log import Log
from headrace.log.producer import Producer
from tests.log.memory_folder import MemoryFolder

NEVER_MS: Final = 10_000_000
LARGE: Final = random.Random(1).randbytes(4_000)
"""What does not fit into a commit record here, however it is compressed."""


def new_folder() -> MemoryFolder:
    """A log with two topics, one of them compacted."""
    folder = MemoryFolder()
    make_log(folder)
    log = Log(folder)
    log.create_topic("all", 2)
    log.create_topic("latest", config={"cleanup.policy": "compact"})
    return folder


def contents(folder: MemoryFolder, topic: str = "all") -> list[list[bytes | None]]:
    """The values of each partition, as a new process reads them."""
    log = Log(folder.again())
    found = []
    for partition in log.partitions_of(topic):
        consumer = Consumer(log, auto_offset_reset="earliest")
        consumer.assign([partition])
        records = consumer.poll(max_records=1_000_000)
        assert [record.offset for record in records] == sorted({record.offset for record in records})
        found.append([record.value for record in records])
    return found


def producer_of(folder: MemoryFolder, transactional_id: str | None = None) -> Producer:
    """A producer in a process of its own, whose faults are those of the folder that is given."""
    return Producer(Log(folder), transactional_id, linger_ms=NEVER_MS)


@contextlib.contextmanager
def process(*producers: Producer) -> Iterator[None]:
    """The life of a process: when it is over, killed or not, nothing of it runs any more."""
    try:
        yield
    finally:
        for producer in producers:
            producer._accumulator.close()


def others_go_on(folder: MemoryFolder, commits: int = 30) -> None:
    """What happens meanwhile: so much that records of commits are removed, and their numbers free again."""
    other = producer_of(folder.again())
    with process(other):
        for _ in range(commits):
            other.send("latest", b"v", b"k")
            other.flush()
    for _ in range(3):
        Log(folder.again()).maintain(fully=True)
