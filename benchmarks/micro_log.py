"""What the embedded log takes to append and to read: ``python benchmarks/micro_log.py [records in thousands]``.

Each line is the best of several runs: seconds on the wall and of CPU time, and the records of a second of each. Records
have 90 bytes of JSON and a key of up to four bytes.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.log import Consumer, Log, Producer
from headrace.log.log import MAINTENANCE

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = 10_000
PARTITIONS = 4
BATCH = 100_000
RUNS = 3
TINY = 3_000


def payments() -> pa.Table:
    """A batch of records."""
    values = [
        b'{"card":"%d","amount":%d,"merchant":"m%d","country":"DE","when":"2026-01-01T00:00:%02d"}'
        % (number % KEYS, number, number % 999, number % 60)
        for number in range(BATCH)
    ]
    return pa.table({"key": [b"%d" % (number % KEYS) for number in range(BATCH)], "value": values})


def cpu() -> float:
    """Seconds of CPU time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def report(what: str, action: Callable[[], int]) -> None:
    """Run something that says how many records it was, and print a line."""
    found = []
    for _ in range(RUNS):
        wall, used = time.perf_counter(), cpu()
        count = action()
        found.append((time.perf_counter() - wall, cpu() - used))
    wall, used = (min(each) for each in zip(*found, strict=True))
    print(f"{what:<52} {wall:6.2f} s {count / wall / 1e6:7.2f} M/s {used:6.2f} s of CPU {count / used / 1e6:7.2f} M/s")


def append(log: Log, topic: str, batch: pa.Table, count: int) -> int:
    """Append columns, durably."""
    with Producer(log) as producer:
        for _ in range(count // BATCH):
            producer.append(topic, batch)
    return count // BATCH * BATCH


def send(log: Log, topic: str, batch: pa.Table, count: int) -> int:
    """Send records one by one, durably."""
    keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
    with Producer(log) as producer:
        add = producer.send
        for _ in range(count // BATCH):
            for key, value in zip(keys, values, strict=True):
                add(topic, value, key)
    return count // BATCH * BATCH


def commit_each(log: Log, topic: str, batch: pa.Table, count: int) -> str:
    """Commit records one by one; how long that takes."""
    keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
    taken = []
    used = cpu()
    with Producer(log, linger_ms=60_000) as producer:
        for key, value in zip(keys[:count], values[:count], strict=True):
            producer.send(topic, value, key)
            begun = time.perf_counter()
            producer.flush()
            taken.append(1000 * (time.perf_counter() - begun))
    MAINTENANCE.wait(str(log))
    used = (cpu() - used) / count * 1e6
    p50, p99, p999 = (sorted(taken)[int(count * share)] for share in (0.5, 0.99, 0.999))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, p99.9 {p999:.1f} ms, {used:.0f} us of CPU each"


def poll(location: str, topic: str, *, as_columns: bool, count: int) -> int:
    """Read records from the beginning, as another process does."""
    found = 0
    with Consumer(location, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        while found < count:
            found += consumer.poll_batch().num_rows if as_columns else len(consumer.poll(max_records=10_000))
    return found


def main() -> None:
    """Measure all."""
    count = (int(sys.argv[1]) if len(sys.argv) > 1 else 2_000) * 1000
    batch = payments()
    with tempfile.TemporaryDirectory() as folder:
        log = Log.open(f"{folder}/log", create=True)
        for topic, partitions in (("one", 1), ("several", PARTITIONS), ("records", PARTITIONS)):
            log.create_topic(topic, partitions)
        report("append columns, 1 partition", lambda: append(log, "one", batch, count))
        report(f"append columns, {PARTITIONS} partitions by key", lambda: append(log, "several", batch, count))
        report(f"send records, {PARTITIONS} partitions by key", lambda: send(log, "records", batch, count // 4))
        log.create_topic("tiny", PARTITIONS)
        print(f"{'commit records one by one':<52} {commit_each(log, 'tiny', batch, TINY)}")
        report("poll records of tiny commits", lambda: poll(f"{folder}/log", "tiny", as_columns=False, count=TINY))
        report("poll columns", lambda: poll(f"{folder}/log", "several", as_columns=True, count=count))
        report("poll records", lambda: poll(f"{folder}/log", "records", as_columns=False, count=count // 4))


if __name__ == "__main__":
    main()
