"""The clock of a job never goes back, whatever happens to that of the machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from headrace.time.clock import ManualClock, SystemClock

MILLI = 1_000_000
"""Nanoseconds."""


@dataclass
class Machine:
    """The clocks of a machine, in milliseconds: that on the wall, that of its running time, and that since its boot."""

    wall: int = 1_700_000_000_000
    monotonic: int = 5_000
    since_boot: int = 5_000

    def passes(self, millis: int) -> None:
        self.monotonic += millis
        self.sleeps(millis)

    def sleeps(self, millis: int) -> None:
        self.wall += millis
        self.since_boot += millis


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(time, "time_ns", lambda: made.wall * MILLI + 999_999)
    monkeypatch.setattr(time, "monotonic_ns", lambda: made.monotonic * MILLI)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: made.since_boot * MILLI)
    return made


def test_it_shows_the_time_of_the_machine(machine: Machine) -> None:
    clock = SystemClock()
    assert clock.now() == machine.wall
    machine.passes(1_234)
    assert clock.now() == machine.wall


def test_it_goes_on_while_the_machine_sleeps(machine: Machine) -> None:
    """Timers that fell due meanwhile fire when it wakes up, and later ones are not late by the whole sleep."""
    clock = SystemClock()
    machine.passes(10)
    machine.sleeps(8 * 3_600_000)
    assert clock.now() == machine.wall


@pytest.mark.parametrize("change", [-3_600_000, -1, 1, 3_600_000, 10**12])
def test_setting_the_wall_clock_changes_nothing_while_it_runs(machine: Machine, change: int) -> None:
    clock = SystemClock()
    began = clock.now()
    machine.passes(10)
    machine.wall += change
    assert clock.now() == began + 10
    machine.passes(10)
    assert clock.now() == began + 20


def test_it_never_goes_back(machine: Machine) -> None:
    clock = SystemClock()
    seen = []
    for change in (0, 5, -100, 0, 1, 10**9, -(10**10), 3):
        machine.wall += change
        machine.since_boot += abs(change) % 7
        seen.append(clock.now())
    assert seen == sorted(seen)
    assert seen[-1] - seen[0] == machine.since_boot - 5_000


def test_a_restored_job_goes_on_from_what_it_has_shown(machine: Machine) -> None:
    """The wall clock was set back meanwhile, or another machine is behind: timers that have fired stay behind."""
    before = SystemClock()
    machine.passes(60_000)
    last = before.now()
    machine.wall -= 3_600_000
    machine.since_boot = 0  # another boot of the machine
    after = SystemClock(not_before=last)
    assert after.now() == last
    machine.passes(250)
    assert after.now() == last + 250


def test_a_restored_job_has_not_stood_still_meanwhile(machine: Machine) -> None:
    last = SystemClock().now()
    machine.passes(3_600_000)
    assert SystemClock(not_before=last).now() == machine.wall == last + 3_600_000


def test_a_clock_that_is_turned_by_hand_cannot_be_turned_back() -> None:
    clock = ManualClock(100)
    clock.advance(5)
    with pytest.raises(ValueError, match="it shows 105, not 104"):
        clock.set(104)
    assert clock.now() == 105
