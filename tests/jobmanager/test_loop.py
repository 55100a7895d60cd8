"""The epoch loop: when there is a reason to run, and what happens when an epoch fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from headrace.checkpoint.store import CheckpointStore
from headrace.common.errors import FunctionRefusedError, InfrastructureError, JobSupersededError
from headrace.common.typeinfo import Types
from headrace.connectors.source import ReadBudget
from headrace.datastream.functions import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor
from headrace.jobmanager.epoch_plan import EpochSizer
from headrace.jobmanager.events import EpochFailed, JobEvent
from headrace.jobmanager.failover import NO_RESTART, FixedDelay, NextDelay
from headrace.jobmanager.job_manager import JobManager
from headrace.jobmanager.status import JobSnapshot
from headrace.runtime.local import LocalRuntime
from headrace.runtime.task.messages import EpochContext, TaskReport
from headrace.storage.folder import posix_folder
from headrace.testing import JobHarness
from headrace.testing.stored_state import Checkpoint
from headrace.time.clock import Clock
from headrace.time.watermark_strategy import WatermarkStrategy
from tests.waiting import PATIENCE

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Alarm(KeyedProcessFunction):
    """Counts; a positive value sets a timer for then, a negative one takes it back."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        if value[1] > 0:
            ctx.timer_service().register_processing_time_timer(value[1])
        elif value[1] < 0:
            ctx.timer_service().delete_processing_time_timer(-value[1])
        yield value[0], self.count.value()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield "timer", timestamp


def alarms(job: JobHarness) -> None:
    stream = job.add_source("in", PAIR, watermarks=WatermarkStrategy.no_watermarks().with_idleness(500))
    job.add_sink("out", stream.key_by("f0").process(Alarm(), PAIR).uid("alarm"))


def manager(job: JobHarness) -> JobManager:
    return job._manager


def test_nothing_happens_without_a_reason() -> None:
    with JobHarness(alarms) as job:
        assert manager(job).run_epoch() is None
        job.push("in", ("a", 100))
        job.run_epoch()
        assert manager(job).run_epoch() is None
        job.set_processing_time(99)
        assert manager(job).run_epoch() is None
        job.set_processing_time(100)
        assert manager(job).run_epoch() is not None
        manager(job).wait_for_commits()
        assert job.take("out") == [("a", 1), ("timer", 100)]
        assert manager(job).run_epoch() is None, "the timer has fired, it is no reason any more"
        job.set_processing_time(499)
        assert manager(job).run_epoch() is None
        job.set_processing_time(500)
        assert manager(job).run_epoch() is not None, "the split has become idle"
        assert manager(job).run_epoch() is None


class Texts(Alarm):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.STRING()))


def test_a_changed_type_of_state_is_refused_without_any_input() -> None:
    def texts(job: JobHarness) -> None:
        job.add_sink("out", job.add_source("in", PAIR).key_by("f0").process(Texts(), PAIR).uid("alarm").name("Alarm"))

    with JobHarness(alarms) as job:
        job.push("in", ("a", 0))
        checkpoint = job.checkpoint()
    told = r"operator 'Alarm' \(uid alarm, [\s\S]*value state 'count' was .*value Long, declared value String \("
    with JobHarness(texts, restore=checkpoint) as job, pytest.raises(FunctionRefusedError, match=told):
        manager(job).run_epoch()
    with JobHarness(alarms, restore=checkpoint) as job:
        assert manager(job).run_epoch() is not None, "shows that the program takes the state"
        assert manager(job).run_epoch() is None


def test_a_timer_that_was_taken_back_is_no_reason_for_ever() -> None:
    with JobHarness(alarms) as job:
        job.push("in", ("a", 100))
        job.run_epoch()
        job.push("in", ("a", -100))
        job.run_epoch()
        job.set_processing_time(200)
        epochs = 0
        while manager(job).run_epoch() is not None:
            epochs += 1
            assert epochs < 3
        assert job.take("out") == [("a", 1), ("a", 2)]


class Flaky(LocalRuntime):
    """Loses the outcome of some attempts, after their tasks have done everything or while they run."""

    def __init__(self, faults: int, *, late: bool) -> None:
        super().__init__()
        self.faults, self.late = faults, late
        self.attempts = 0

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        self.attempts += 1
        fails = self.faults > 0
        self.faults -= 1
        if fails and not self.late:
            raise InfrastructureError("a worker died")
        reports = super().run_epoch(context)
        if fails:
            raise InfrastructureError("the answer was lost")
        return reports


class Listener:
    def __init__(self) -> None:
        self.failed: list[tuple[int, str]] = []

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        if isinstance(event, EpochFailed):
            self.failed.append((event.epoch, str(event.error)))


def configure(job: JobHarness, **settings: Any) -> None:
    """Change how a job is run that is not open yet."""
    manager(job)._job = replace(manager(job)._job, settings=replace(manager(job)._job.settings, **settings))


def flaky(job: JobHarness, runtime: Flaky, attempts: int) -> Listener:
    listener = Listener()
    manager(job)._runtime = runtime
    manager(job)._status.subscribe(listener)
    configure(job, restart=FixedDelay(attempts, 0.0))
    return listener


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_an_epoch_that_failed_is_run_again_from_the_state_before(late: bool, fresh: bool) -> None:
    job = JobHarness(alarms, fresh_functions=fresh, parallelism=2)
    runtime = Flaky(0, late=late)
    listener = flaky(job, runtime, 6)
    with job:
        for expected in range(1, 4):
            runtime.faults = 2
            job.push("in", ("a", 0))
            job.run_epoch()
            assert job.take("out") == [("a", expected)]
    assert runtime.attempts == 9, "two of three attempts were to fail"
    assert len(listener.failed) == 6


def test_an_epoch_that_never_succeeds_fails_the_job() -> None:
    job = JobHarness(alarms)
    runtime = Flaky(100, late=False)
    flaky(job, runtime, 3)
    with job:
        job.push("in", ("a", 0))
        with pytest.raises(InfrastructureError, match="a worker died"):
            job.run_epoch()
    assert runtime.attempts == 4


class Slow(LocalRuntime):
    """Takes for ever, until it is given up."""

    def __init__(self) -> None:
        super().__init__()
        self.given_up = threading.Event()

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        assert self.given_up.wait(PATIENCE)
        raise InfrastructureError("the query was interrupted")

    def cancel(self) -> None:
        self.given_up.set()


def test_an_epoch_that_takes_too_long_says_what_to_do() -> None:
    job = JobHarness(alarms)
    manager(job)._runtime = Slow()
    configure(job, epoch_timeout_seconds=0.05)
    with job:
        job.push("in", ("a", 0))
        with pytest.raises(
            InfrastructureError, match=r"epoch 1 \(1 records\) .* execution\.checkpointing\.timeout"
        ) as told:
            job.run_epoch()
    assert "headrace.epoch.first-records" in str(told.value)


class Restarting:
    """A restart strategy that keeps what it begins with."""

    def __init__(self) -> None:
        self.chances: list[float] = []

    def begin(self, clock: Clock, chance: Random) -> NextDelay:
        self.chances.append(chance.random())
        return NO_RESTART.begin(clock, chance)


def test_chance_is_the_same_in_every_run_of_a_job_and_differs_between_jobs() -> None:
    strategy = Restarting()

    def run(restore: Checkpoint | None = None) -> Checkpoint:
        job = JobHarness(alarms, restore=restore)
        configure(job, restart=strategy)
        with job:
            return job.checkpoint()

    run(run())
    run()
    first, again, other = strategy.chances
    assert first == again != other


def use_directory_of(young: JobHarness, old: JobHarness) -> None:
    store = CheckpointStore(posix_folder(old._folder))
    manager(young)._store = manager(young)._checkpoints._store = store


def test_an_older_job_manager_does_not_try_again_for_ever() -> None:
    """Its state is being deleted by the younger one, so its epochs fail, and no manifest of it would tell why."""
    old = JobHarness(alarms)
    flaky(old, Flaky(10**9, late=False), 10**9)
    with old:
        young = JobHarness(alarms)
        use_directory_of(young, old)
        with young:
            old.push("in", ("a", 0))
            with pytest.raises(JobSupersededError):
                old.run_epoch()


def test_an_older_job_manager_publishes_nothing_any_more() -> None:
    with JobHarness(alarms) as old:
        old.push("in", ("a", 0))
        old.run_epoch()
        young = JobHarness(alarms)
        use_directory_of(young, old)
        with young:
            old.push("in", ("a", 0))
            with pytest.raises(JobSupersededError):
                old.run_epoch()
            assert old.take("out") == [("a", 1)]
            young.push("in", ("a", 0))
            young.run_epoch()
            assert young.take("out") == [("a", 2)]


def test_the_next_epoch_is_sized_by_the_next_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The earliest one that is still to come: what is due fires at the beginning of the epoch, however long it is."""
    asked: list[float | None] = []
    budget = EpochSizer.budget

    def noting(self: EpochSizer, seconds_left: float | None = None) -> ReadBudget:
        asked.append(seconds_left)
        return budget(self, seconds_left)

    monkeypatch.setattr(EpochSizer, "budget", noting)
    with JobHarness(alarms) as job:
        job.run_epoch()
        job.push_all("in", [("a", 1_200), ("b", 1_500)])
        job.set_processing_time(1_000)
        job.run_epoch()
        job.run_epoch()
        job.set_processing_time(1_300)
        job.run_epoch()
        job.run_epoch()
        job.set_processing_time(1_500)
        job.run_epoch()
        job.run_epoch()
    assert asked == [None, None, 0.2, None, 0.2, None, None]
