"""State of windows and joins, read where nobody has imported what the program has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.common import Time, Types, WatermarkStrategy
from headrace.datastream.aggregates import count, sum
from headrace.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from headrace.testing import JobHarness

EVENT = Types.ROW_NAMED(["user", "amount", "time"], [str, int, int])
EPOCHS = 3
USERS = 4


def windows(job: JobHarness) -> None:
    """Windows of which each epoch adds to the same ones, so that they lie in several runs."""
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
    keyed = job.add_source("events", EVENT, watermarks=times).key_by("user")
    tumbling = keyed.window(TumblingEventTimeWindows.of(Time.hours(1))).aggregate(count(), sum("amount"))
    job.add_sink("a", tumbling.uid("tumbling"))
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.hours(1))).aggregate(count())
    job.add_sink("b", sessions.uid("sessions"))
    job.add_sink("c", keyed.count_window(100, 10).aggregate(count()).uid("counted"))


def elsewhere(code: str, *arguments: str) -> str:
    """What a program of its own prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_windows_of_a_checkpoint_are_read() -> None:
    with JobHarness(windows) as harness:
        for epoch in range(EPOCHS):
            harness.push_all("events", [(f"u{user}", user, epoch) for user in range(USERS)])
            harness.run_epoch()
        checkpoint = harness.checkpoint()
    code = (
        "import sys; from headrace.state_processor import SavepointReader\n"
        "for state in SavepointReader.read(sys.argv[1]).states(): print(state.uid, state.store, state.rows)"
    )
    found = (line.split() for line in elsewhere(code, str(checkpoint.directory)).splitlines())
    rows = {(uid, store): int(rows) for uid, store, rows in found}
    assert (
        rows[("tumbling", "windows")] == rows[("sessions", "sessions")] == rows[("counted", "count-windows")] == USERS
    )


_READS_A_JOB = """
import contextlib, sys
from headrace.common.errors import SavepointError
from headrace.savepoint.stored_job import open_job
with contextlib.suppress(SavepointError):
    open_job(sys.argv[1], {})
"""
_WORKS_BESIDE_EPOCHS = "from headrace.runtime.task.background import attempt; attempt(len, [])"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reads", [_READS_A_JOB, _WORKS_BESIDE_EPOCHS])
def test_processes_that_merge_runs_of_any_job_know_all_kinds(reads: str, tmp_path: Path) -> None:
    source = Path(headrace.__file__).parent
    registering = {
        ".".join(("headrace", *path.relative_to(source).with_suffix("").parts))
        for path in (source / "operators").rglob("*.py")
        if "\nregister_" in path.read_text()
    }
    assert len(registering) >= 5
    loaded = set(elsewhere(f"{reads}\nimport sys; print(*sys.modules)", str(tmp_path)).split())
    assert not registering - loaded
