"""Windows of every kind whose tasks and drivers are killed, at another parallelism in each life: what they show and
take back is what Flink's rules say, each record in it once."""

from __future__ import annotations

from ast import literal_eval
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.forks import Forks
from tests.invariance.window_ways import WAYS
from tests.processes import Ended, Launcher, Starter
from tests.reliability.support import doubles
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.outputs import hidden_files, lines
from tests.reliability.support.window_paths import (
    ASKING_THE_CLOCK,
    BEFORE_WINDOWS,
    COUNT,
    DYING_NUMBERS,
    FULL_DISK,
    SUMS_BY_THE_CLOCK,
    expected,
    found,
    point_of,
    record_of,
    values_in_line,
)

FEW = ["sums", "sliding, retracting", "sessions, late records", "contents by key"]


def run(starter: Starter, folder: Path, runtime: str, ways: Sequence[str], most: int) -> list[Ended]:
    """Run the program until it succeeds, each time at another parallelism; gives the runs that failed."""
    turns = [(folder, folder / "faults", runtime, parallelism, *ways) for parallelism in (1, 4, 3)]
    return starter.run_in_turns("window_paths", turns, most=most)


def check(folder: Path, way: str) -> None:
    """Nothing that a way shows is lost, doubled, wrong or out of order, and so is nothing that is late."""
    shown = found(folder / "output" / way)
    late = sorted(lines(folder / "late" / way))
    if way in ASKING_THE_CLOCK:
        assert late == []
        check_by_clock(shown, ASKING_THE_CLOCK[way])
    elif way == SUMS_BY_THE_CLOCK:
        check_sums_by_clock(shown)
    else:
        assert (shown, late) == expected(way)
    assert not hidden_files(folder / "output" / way)


def check_by_clock(shown: dict[str, list[str]], times: int) -> None:
    """The records of a key are shown in order, each so many times; those of windows open at the end are missing."""
    for key, results in shown.items():
        counts = Counter(value for line in results for value in values_in_line(line))
        records = [number for number in range(COUNT) if str(record_of(number)["key"]) == key]
        each = [counts.pop(number, 0) for number in records]
        assert each == sorted(each, reverse=True)
        assert each[0] == each[len(records) // 2] == times
        assert not counts


def check_sums_by_clock(shown: dict[str, list[str]]) -> None:
    """Each window is of the records of its key that follow those of the window before."""
    for key, results in shown.items():
        records = [number for number in range(COUNT) if str(record_of(number)["key"]) == key]
        start = 0
        for line in results:
            size, *found = literal_eval(line.rpartition("|")[2])[-4:]
            part = records[start : start + size]
            assert found == [sum(part), min(part), max(part)]
            start += size
        assert len(records) // 2 < start <= len(records)


@pytest.mark.slow
@pytest.mark.long
def test_some_kinds_of_windows_survive(forks: Forks, plan: FaultPlan, tmp_path: Path) -> None:
    plan.arm(point_of(FEW[2]), 1).arm(doubles.AFTER_MANIFEST, 15)
    failed = run(forks, tmp_path, "local", FEW, most=2)
    assert plan.happened == plan.planned
    assert [ended.code for ended in failed] == [-9] * 2
    for way in FEW:
        check(tmp_path, way)


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(3600)
def test_every_kind_of_windows_survives_on_spark(programs: Launcher, plan: FaultPlan, tmp_path: Path) -> None:
    plan.arm(BEFORE_WINDOWS, *range(1, len(DYING_NUMBERS) + 1)).arm(FULL_DISK, 20, 90, 200)
    for way in WAYS:
        plan.arm(point_of(way), 1)
    drivers = {
        doubles.BEFORE_MANIFEST: 5,
        doubles.AFTER_MANIFEST: 9,
        doubles.HALF_COMMIT: 50,
        doubles.AFTER_TAKE_OVER: 2,
    }
    for point, visit in drivers.items():
        plan.arm(point, visit)
    failed = run(programs, tmp_path, "spark", list(WAYS), most=len(drivers))
    assert plan.happened == plan.planned
    assert [ended.code for ended in failed] == [-9] * len(drivers)
    for way in WAYS:
        check(tmp_path, way)
