"""Kills between every two steps, and errors in every step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from headrace.log.consumer import Consumer
from headrace.log.log import Log
from headrace.log.producer import Producer
from tests.log.faulty_logs import LARGE, contents, new_folder, process, producer_of
from tests.log.memory_folder import KilledError, MemoryFolder

pytestmark = pytest.mark.usefixtures("snapshots_often")


def small_appends(folder: MemoryFolder, done: Callable[[bytes], None]) -> None:
    producer = producer_of(folder)
    with process(producer):
        for number in range(6):
            for partition in (0, 1):
                producer.send("all", b"%d" % number, partition=partition)
            producer.flush()
            done(b"%d" % number)


def transactions(folder: MemoryFolder, done: Callable[[bytes], None]) -> None:
    producer = producer_of(folder, "id")
    with process(producer):
        for number in range(4):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("all", LARGE + b"%d" % number, partition=partition)
                producer.flush()
            if number == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                done(LARGE + b"%d" % number)


def maintenance(folder: MemoryFolder, done: Callable[[bytes], None]) -> None:
    small_appends(folder, done)
    log = Log(folder)
    log.alter_topic("all", {"retention.bytes": 1 << 30})
    log.maintain(fully=True)
    log.maintain(fully=True)


def group(folder: MemoryFolder, done: Callable[[bytes], None]) -> None:
    small_appends(folder, done)
    first = Consumer(Log(folder), "readers", auto_offset_reset="earliest")
    first.subscribe(["all"])
    first.poll()
    second = Consumer(Log(folder), "readers", auto_offset_reset="earliest")
    second.subscribe(["all"])
    first.poll()
    second.poll()
    first.close()
    second.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("scenario", [small_appends, transactions, maintenance, group])
def test_a_kill_between_any_two_steps(scenario: Callable[..., None], is_done: bool) -> None:
    for at in count():
        folder = new_folder()
        doomed = MemoryFolder(folder.files, path=folder.path)
        doomed.faults.arm(at, is_done=is_done)
        acknowledged: list[bytes] = []
        try:
            scenario(doomed, acknowledged.append)
        except KilledError:
            assert doomed.faults.injected == 1
        else:
            assert doomed.faults.injected == 0
            assert at > 8
            break
        left, right = contents(folder)
        assert left == right
        assert left[: len(acknowledged)] == acknowledged
        assert len(left) <= len(acknowledged) + 1
        producer = producer_of(folder)
        with process(producer):
            producer.send("all", b"more", partition=0)
            producer.flush()
        Log(folder).maintain(fully=True)
        assert contents(folder) == [[*left, b"more"], right]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("scenario", [small_appends, transactions])
def test_an_error_in_any_step_is_told_and_tried_again(scenario: Callable[..., None], is_done: bool) -> None:
    for at in count():
        folder = new_folder()
        failing = MemoryFolder(folder.files, path=folder.path)
        failing.faults.arm(at, is_done=is_done, kills=False)
        expected: list[bytes] = []
        retried = retrying(scenario, failing, expected.append)
        assert contents(folder) == [expected, expected]
        if not failing.faults.injected:
            break
        assert retried <= 1


def retrying(scenario: Callable[..., None], folder: MemoryFolder, done: Callable[[bytes], None]) -> int:
    """Run a scenario in which each step of a producer that fails is tried again; how many were."""
    tried = 0

    def twice(method: Callable[[Producer], None]) -> Callable[[Producer], None]:
        def call(producer: Producer) -> None:
            nonlocal tried
            try:
                method(producer)
            except OSError:
                tried += 1
                method(producer)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("flush", "begin_transaction", "commit_transaction", "abort_transaction"):
            patch.setattr(Producer, name, twice(getattr(Producer, name)))
        scenario(folder, done)
    return tried
