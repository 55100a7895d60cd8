"""Real processes on a real disk: killed at any moment, several at once, and a full disk."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

import headrace
from headrace.common import durable
from headrace.common.messages import TopicPartition
from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer

APPEND = """
    import os, sys
    from headrace.log import Producer

    location, mine, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with Producer(location, transactional_id=mine) as producer:
        for number in range(first, sys.maxsize):
            producer.begin_transaction()
            for partition in (0, 1):
                value = b"%s:%d" % (mine.encode(), number)
                producer.send("numbers", value + b"x" * (100_000 if number % 10 == 0 else 0), partition=partition)
            producer.commit_transaction()
            os.write(1, b"%d\\n" % number)
"""
"""Appends one number after another to both partitions, and says of each that it is there."""


def start(*arguments: object) -> subprocess.Popen[bytes]:
    source = str(Path(headrace.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(APPEND), *map(str, arguments)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": source},
    )


def numbers(location: Path) -> list[list[tuple[str, int]]]:
    """Who has written which number, in each partition."""
    log = Log.open(str(location))
    found = []
    for partition in log.partitions_of("numbers"):
        consumer = Consumer(log, auto_offset_reset="earliest")
        consumer.assign([partition])
        values: list[str] = []
        while records := consumer.poll(max_records=1_000_000):
            values += [(record.value or b"").rstrip(b"x").decode() for record in records]
        found.append([(name, int(number)) for name, number in (value.split(":") for value in values)])
    return found


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
def test_kill_9(tmp_path: Path, kills: int) -> None:
    """Two producers, one of which is always killed and begins anew behind what it has heard of."""
    noise = random.Random(kills)
    location = tmp_path / "log"
    Log.open(str(location), create=True).create_topic("numbers", 2, {"compression.type": "none"})
    heard = Counter({"a": -1, "b": -1})
    running = {name: start(location, name, 0) for name in "ab"}
    killed = 0
    try:
        while killed < kills:
            name = noise.choice("ab")
            assert running[name].stdout is not None
            first = running[name].stdout.readline()  # it is at work
            time.sleep(noise.random() * 0.3)
            running[name].send_signal(signal.SIGKILL)
            rest = [first, *running[name].communicate()[0].split()]
            killed += running[name].returncode == -signal.SIGKILL
            heard[name] = max([heard[name], *map(int, rest)])
            left, right = ([number for writer, number in each if writer == name] for each in numbers(location))
            assert left == right == list(range(len(left)))
            assert len(left) - 1 in {heard[name], heard[name] + 1}
            if killed < kills:
                running[name] = start(location, name, len(left))
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    assert killed == kills
    Log.open(str(location)).maintain(fully=True)
    left, right = numbers(location)
    assert left == right
    for name in "ab":
        mine = [number for writer, number in left if writer == name]
        assert mine == list(range(len(mine)))
        assert len(mine) > heard[name]
    assert not [path for path in (location / "records").iterdir() if not path.name.endswith((".arrow", ".tmp"))]


def test_a_full_disk_is_told_and_nothing_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log.open(str(tmp_path / "log"), create=True)
    log.create_topic("numbers", config={"compression.type": "none"})
    written = 0
    room = 150_000

    def write(descriptor: int, data: memoryview) -> int:
        nonlocal written
        some = min(len(data), 4_096, room - written)  # a write may write less than it was given
        if not some:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += some
        return os_write(descriptor, data[:some])

    os_write = os.write
    monkeypatch.setattr(durable.os, "write", write)
    producer = Producer(log, linger_ms=1_000_000)
    told = 0
    for number in range(6):
        producer.send("numbers", b"%d" % number + b"x" * 70_000)
        try:
            producer.flush()
        except OSError as error:
            told += error.errno == errno.ENOSPC
    assert told == 4
    room = sys.maxsize
    producer.close()
    consumer = Consumer(Log.open(str(tmp_path / "log")), auto_offset_reset="earliest")
    consumer.assign([TopicPartition("numbers", 0)])
    assert [(record.value or b"")[:1] for record in consumer.poll()] == [b"%d" % number for number in range(6)]
    assert not list((tmp_path / "log").rglob("*.tmp"))
