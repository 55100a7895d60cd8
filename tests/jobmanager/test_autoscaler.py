"""The autoscaler on simulated loads, and in a job."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean

import pytest

from headrace.client import running
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.errors import ConfigurationError
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager import job_manager
from headrace.jobmanager.autoscaler import Autoscaler, AutoscalerSettings, Measurement, Rescaler
from headrace.jobmanager.events import EpochReleased
from headrace.jobmanager.status import JobStatusStore
from headrace.time.clock import Clock
from tests.waiting import PATIENCE, wait_for

MINUTE = 60_000
SETTINGS = AutoscalerSettings(
    is_applied=True,
    window=5 * MINUTE,
    stabilization=MINUTE,
    target=0.7,
    lowest_utilization=0.4,
    highest_utilization=0.95,
    catch_up=10 * MINUTE,
    restart=5_000,
    most_up=100_000,
    most_down=0.6,
    lowest=1,
    highest=64,
)
COST = 0.001
"""Seconds of tasks for a record: a subtask that is busy all the time does 1,000 records in a second."""

OVERHEAD = 0.3
"""Seconds of an epoch in which no task is at work."""


@dataclass
class SimulatedClock(Clock):
    """A clock that a simulation turns."""

    millis: int = 0

    def now(self) -> int:
        return self.millis


@dataclass
class Simulation:
    """A job whose epochs read what is there, at most for ten seconds.

    Attributes:
        load: the records that arrive in a second, at a second.
        parallelism: that of the job.
    """

    load: Callable[[float], float]
    parallelism: int = 4
    settings: AutoscalerSettings = SETTINGS
    knows_backlog: bool = True
    changes: list[tuple[int, int]] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)

    def run(self, hours: float) -> Simulation:
        clock = SimulatedClock()
        scaler = Autoscaler(self.settings, lambda: 64, clock)
        arrived = records = busy = second = 0.0
        while second < hours * 3600:
            share = min(arrived - records, 10 * self.parallelism / COST)
            seconds = max(1.0, OVERHEAD + share * COST / self.parallelism)
            arrived += fmean(self.load(second + part) for part in range(math.ceil(seconds))) * seconds
            records, busy, second = records + share, busy + share * COST, second + seconds
            clock.millis = int(second * 1000)
            pending = int(arrived - records)
            self.lags.append(pending / max(1.0, self.load(second)))
            scaler.observe(Measurement(clock.millis, int(records), busy, pending if self.knows_backlog else None))
            wanted = scaler.wanted(self.parallelism, 128)
            if wanted is not None:
                self.changes.append((clock.millis, wanted))
                self.parallelism = wanted
                second += 5
                arrived += 5 * self.load(second)
        return self


def test_a_step_up_is_followed_once_and_the_backlog_goes() -> None:
    found = Simulation(lambda second: 1_000 if second < 3600 else 20_000).run(3)
    first, *ups = found.changes
    assert first[1] == 2  # 1,000 records in a second need 1.43 subtasks at the target
    assert len(ups) <= 3
    assert 20_000 * COST / 1.0 < found.parallelism <= 20_000 * COST / 0.4
    assert max(found.lags[-100:]) < 15
    assert max(found.lags) < 20 * 60  # what came before the change was measured, and was then caught up with


def test_a_step_down_is_followed_in_parts() -> None:
    found = Simulation(lambda second: 30_000 if second < 3600 else 2_000, parallelism=64).run(3)
    assert found.parallelism in (3, 4)
    steps = pairwise([64, *(parallelism for _, parallelism in found.changes)])
    assert all(after >= before * 0.4 - 1 for before, after in steps)


@pytest.mark.parametrize("load", [500, 2_100, 3_333, 10_000, 44_000])
@pytest.mark.parametrize("start", [1, 7, 64])
def test_a_steady_load_is_left_alone_once_it_is_met(load: float, start: int) -> None:
    found = Simulation(lambda _: load, parallelism=start).run(4)
    assert len(found.changes) <= 5
    assert all(changed < 90 * MINUTE for changed, _ in found.changes)
    assert max(found.lags[-100:]) < 15


def test_a_daily_wave_does_not_flap() -> None:
    def wave(second: float) -> float:
        return 8_000 - 6_000 * math.cos(2 * math.pi * second / 86_400)

    found = Simulation(wave).run(48)
    assert len(found.changes) <= 16  # two days; four changes up and four down each
    assert max(found.lags[1_000:]) < 60


def test_spikes_shorter_than_the_window_leave_a_job_alone() -> None:
    def spikes(second: float) -> float:
        return 9_000 if second % 3600 < 20 else 3_000

    found = Simulation(spikes, parallelism=5).run(12)
    assert len(found.changes) <= 2
    assert max(found.lags[1_000:]) < 120


def test_backlogs_that_nobody_knows_are_seen_by_the_time_of_tasks() -> None:
    found = Simulation(lambda _: 20_000, parallelism=4, knows_backlog=False).run(2)
    assert found.parallelism >= 20_000 * COST / 1.0


def test_the_time_in_which_an_epoch_is_held_back_is_not_measured() -> None:
    clock = SimulatedClock()
    scaler = Autoscaler(SETTINGS, lambda: 64, clock)
    for minute in range(10):
        clock.millis = minute * MINUTE
        scaler.observe(Measurement(clock.millis, minute * 360_000, minute * 360.0, None))
    assert scaler.wanted(8, 128) is None
    clock.millis += 60 * MINUTE
    scaler(EpochReleased(10, is_published=True), JobStatusStore("job").snapshot)
    scaler.observe(Measurement(clock.millis, 10 * 360_000, 10 * 360.0, None))
    assert scaler.wanted(8, 128) is None


def test_where_it_ends() -> None:
    assert Simulation(lambda _: 1e6, settings=replace(SETTINGS, highest=None)).run(1).parallelism == 64  # the slots
    assert Simulation(lambda _: 1.0, settings=replace(SETTINGS, lowest=3), parallelism=9).run(2).parallelism == 3
    assert Simulation(lambda _: 1.0, settings=replace(SETTINGS, lowest=200)).run(1).parallelism == 128  # key groups
    assert Simulation(lambda _: 0.0, parallelism=9).run(2).changes == []  # nothing is known of a job without input


def test_key_groups_are_spread_evenly() -> None:
    found = Simulation(lambda _: 33_000, parallelism=40, settings=replace(SETTINGS, lowest_utilization=0.69)).run(1)
    assert found.changes == []
    assert Simulation(lambda _: 13_000, parallelism=4).run(1).changes[0][1] == 32  # 19 would be enough


def test_a_job_that_is_only_measured_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        found = Simulation(lambda _: 1_000, settings=replace(SETTINGS, is_applied=False), parallelism=9).run(1)
    assert found.changes == []
    assert [record.message for record in caplog.records] == [
        "the autoscaler would have the job go on at parallelism 4 in place of 9"
    ]


# --- in a job ---------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    running.cancel_all()


def environment(**settings: str) -> StreamExecutionEnvironment:
    options = {"headrace.runtime": "local", "job.autoscaler.enabled": "true", **settings}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))


def test_a_job_is_scaled_down() -> None:
    env = environment(
        **{
            "parallelism.default": "2",
            "job.autoscaler.metrics.window": "300 ms",
            "job.autoscaler.stabilization.interval": "0",
        }
    )
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(500), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number % 7, key_type=Types.LONG()).sum(0).filter(lambda _: False).print()
    client = env.execute_async()
    wait_for(lambda: client.snapshot().rescales)
    plan = client.snapshot().plan
    assert plan is not None
    assert plan.settings.parallelism == 1
    client.stop().result(timeout=PATIENCE)


def test_a_parallelism_that_an_operator_cannot_have_leaves_the_job_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    env = environment(
        **{
            "parallelism.default": "1",
            "job.autoscaler.metrics.window": "100 ms",
            "job.autoscaler.stabilization.interval": "0",
            "job.autoscaler.vertex.min-parallelism": "4",
        }
    )
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(500), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number % 7, key_type=Types.LONG()).sum(0).set_max_parallelism(2).print()
    client = env.execute_async()
    wait_for(lambda: "stays at 1: operator 'Sum'" in caplog.text)
    completed = client.snapshot().completed
    wait_for(lambda: client.snapshot().completed > completed)
    client.stop().result(timeout=PATIENCE)


class _Insistent:
    """Wants a parallelism again and again."""

    def __init__(self, *wanted: int) -> None:
        self._wanted = itertools.cycle(wanted)
        self.asked = 0

    def wanted(self, current: int, most: int) -> int:
        self.asked += 1
        return next(self._wanted)


def test_what_is_refused_again_and_again_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    insistent = _Insistent(4, 8)
    monkeypatch.setattr(job_manager, "rescaler_of", lambda *_: Rescaler(insistent))
    env = environment(**{"parallelism.default": "1", "job.autoscaler.enabled": "true"})
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(500), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number % 7, key_type=Types.LONG()).sum(0).set_max_parallelism(2).print()
    client = env.execute_async()
    wait_for(lambda: insistent.asked >= 7)
    client.stop().result(timeout=PATIENCE)
    told = [record.message for record in caplog.records if "and stays at 1" in record.message]
    assert [message.split("parallelism ")[1][0] for message in told] == ["4", "8"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scheduler-mode": "reactive"}, "leave one of them out"),
        ({"job.autoscaler.utilization.min": "0.8"}, "have to rise"),
        ({"job.autoscaler.utilisation.target": "0.8"}, "did you mean job.autoscaler.utilization.target"),
    ],
)
def test_refusals(settings: dict[str, str], message: str) -> None:
    env = environment(**settings)
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=message):
        env.execute()
