"""What is shown of a running job: lines, panels, and who chooses between them."""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.client import displays
from headrace.client.displays import LineListener, PanelListener, ProgressListener, listener_for, panel
from headrace.client.progress import JobProgress, last_line, progress_line
from headrace.common.constants import MIN_WATERMARK
from headrace.common.wording import trend
from headrace.connectors.source import Pending
from headrace.jobmanager.events import (
    CommitsAcknowledged,
    EpochFailed,
    EpochStatistics,
    JobEnd,
    JobRestart,
    JobStart,
    RuntimeStarting,
    SubmissionFailed,
)
from headrace.jobmanager.metrics import SourceProgress, SplitProgress, WatermarkProgress
from headrace.jobmanager.status import JobStatusStore
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.jobmanager.events import JobEvent
    from headrace.jobmanager.status import JobListener

NOON = 1_431_864_000_000  # 2015-05-17 12:00:00 UTC


class ManualClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def job(clock: ManualClock) -> JobProgress:
    store = JobStatusStore("fraud [v2]")
    progress = JobProgress(store.snapshot, clock)
    store.subscribe(progress.update)
    store.publish(JobStart("fraud [v2]", "ab12", 14, 3))
    return progress


def tell(job: JobProgress, event: JobEvent) -> None:
    job.update(event, job.job.after(event, 0))


def told_to(listener: JobListener, name: str = "j") -> JobStatusStore:
    store = JobStatusStore(name)
    store.subscribe(listener)
    return store


def epoch(number: int, records: int = 1000, **more: object) -> EpochStatistics:
    values: dict[str, object] = {
        "planning": 0.01,
        "running": 0.45,
        "checkpointing": 0.04,
        "watermark": NOON,
        "processing_time": NOON + 2500,
        "state_bytes": 1536,
        "counters": {"numLateRecordsDropped": 7},
    }
    return EpochStatistics(epoch=number, records=records, **{**values, **more})  # type: ignore[arg-type]


def test_a_source_that_is_behind_is_shown(job: JobProgress) -> None:
    tell(job, epoch(15, sources=(SourceProgress("in", Pending(12_345), NOON, 0, is_processing_backlog=True),)))
    assert job.facts["pending records"] == "12,345"
    assert job.facts["backlog"] == "history is read: longer epochs"
    assert ", 12,345 records pending, processing a backlog" in progress_line(job)
    tell(job, epoch(16, sources=(SourceProgress("in", Pending(0), NOON, 0),)))
    assert not {"pending records", "backlog"} & job.facts.keys()
    assert "pending, " not in progress_line(job)
    assert "backlog" not in progress_line(job)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_rate_is_an_average_over_the_last_seconds(clock: ManualClock, job: JobProgress) -> None:
    assert job.rate() == 0
    for number in range(20):
        clock.now += 1
        tell(job, epoch(number, 500))
    assert job.rate() == pytest.approx(550)  # the read at either end of the ten seconds counts
    clock.now += 5
    assert job.rate() == pytest.approx(300)
    clock.now += 60
    assert job.rate() == 0


def test_the_first_line_says_afresh_or_from_where(job: JobProgress) -> None:
    assert str(job.job.start) == "restored epoch 14 of job 'fraud [v2]' (job id ab12, generation 3)"
    begun = JobStart("fraud", "ab12", savepoint="/savepoints/one")
    assert str(begun) == "job 'fraud' starts from /savepoints/one (job id ab12)"
    ended = JobStart("fraud", "ab12", finished=True, savepoint="/savepoints/one")
    assert str(ended) == f"{begun}, which had come to its end: nothing is left to do"
    assert str(JobStart("fraud [v2]", "ab12")) == "job 'fraud [v2]' starts afresh (job id ab12)"


def test_the_first_line_says_that_nothing_is_left(job: JobProgress) -> None:
    assert job.job.start is not None
    start = replace(job.job.start, finished=True)
    assert str(start).endswith("generation 3), which had come to its end: nothing is left to do")


def test_what_a_job_goes_on_without_is_told(job: JobProgress) -> None:
    assert last_line(job, JobEnd(14)).startswith("job 'fraud [v2]' ended at epoch 14: 0 records")
    tell(job, epoch(15, counters={"numFilesMissing": 2, "numFilesCorrupt": 1000, "numLateRecordsDropped": 0}))
    losses = ", 2 missing files skipped, 1,000 damaged files skipped"
    assert last_line(job, JobEnd(15)).endswith(losses)
    assert progress_line(job).endswith(f", 0 late records dropped{losses}")


def test_a_progress_line_says_where_the_job_is(job: JobProgress, clock: ManualClock) -> None:
    assert progress_line(job) == "fraud [v2]: no epoch yet"
    clock.now += 2
    tell(job, epoch(15, 1000, pending={"out": 2}))
    assert progress_line(job) == (
        "fraud [v2]: epoch 15, 1,000 records, 500 records/s, watermark 2015-05-17 12:00:00 UTC (2.5 s behind), "
        "state 1.5 kB, 7 late records dropped, 2 pending commits"
    )


def test_late_records_are_told_by_operator_where_several_drop_them(job: JobProgress) -> None:
    tell(job, epoch(15))
    assert job.facts["late, dropped"] == "7"
    late = {"a": (999, 1), "b": (7,), "c": (0,)}
    by_operator = {uid: {"numLateRecordsDropped": dropped} for uid, dropped in late.items()}
    tell(job, epoch(16, counters={"numLateRecordsDropped": 1007}, operator_counters=by_operator))
    assert job.facts["late, dropped"] == "1,007 (a 1,000, b 7)"


def test_the_last_line_sums_up(job: JobProgress, clock: ManualClock) -> None:
    clock.now += 4
    tell(job, epoch(15, 1000))
    tell(job, epoch(16, 3000))
    assert last_line(job, JobEnd(17)) == (
        "job 'fraud [v2]' ended at epoch 17: 4,000 records in 4.0 s (1,000 records/s), 7 late records dropped"
    )
    assert last_line(job, JobEnd(17, finished=False)).startswith("job 'fraud [v2]' stopped at epoch 17: ")
    asked = JobEnd(17, finished=False, stopped_by="the stop that ann@db1 asked for")
    assert last_line(job, asked).startswith("job 'fraud [v2]' stopped at epoch 17 by the stop that ann@db1 asked for: ")
    assert last_line(job, JobEnd(16, False, ValueError())).startswith("job 'fraud [v2]' failed at epoch 16: ")


def test_a_panel_shows_everything(job: JobProgress, clock: ManualClock, terminal: Console) -> None:
    clock.now += 2
    tell(job, epoch(15, 1000, pending={"out": 2}))
    terminal.print(panel(job))
    shown = printed(terminal)
    for text in ("fraud [v2], restored epoch 14, 2.0 s", "1,000", "500", "2015-05-17 12:00:00 UTC", "2.5 s behind"):
        assert text in shown
    for text in ("1.5 kB", "late, dropped", "7", "pending commits", "15 (0.50 s)"):
        assert text in shown
    assert all(len(line) == 100 for line in shown.splitlines())


def test_a_panel_without_epoch_or_watermark(job: JobProgress, terminal: Console) -> None:
    terminal.print(panel(job))
    assert "waiting for the first epoch" in printed(terminal)
    tell(job, epoch(1, watermark=MIN_WATERMARK))
    terminal.print(panel(job))
    assert "none yet" in printed(terminal)


def test_a_panel_has_room_for_any_number_of_facts(job: JobProgress, terminal: Console) -> None:
    tell(job, epoch(15, sources=(SourceProgress("in", Pending(12_345), NOON, 0),)))
    assert len(job.facts) % 2
    terminal.print(panel(job))
    assert "pending records" in printed(terminal)
    assert "pending commits" in printed(terminal)


def test_a_panel_tells_of_an_epoch_that_is_run_again_until_one_succeeds(job: JobProgress, terminal: Console) -> None:
    tell(job, EpochFailed(15, OSError("disk [full]\nmore"), 2.0))
    terminal.print(panel(job))
    assert "epoch 15 failed and is run again in 2.0 s: disk [full]" in printed(terminal)
    tell(job, epoch(15))
    assert job.note == ""


def test_a_trend_is_a_row_of_bars() -> None:
    assert trend([0, 1, 2, 4, 8]) == "▁▂▃▅█"
    assert trend([]) == trend([0.0, 0.0]) == ""
    assert len(trend(range(100))) == 20


def test_lines_come_every_few_seconds(console: Console, clock: ManualClock) -> None:
    listener = LineListener(console, clock)
    store = told_to(listener)
    store.publish(JobStart("j", "id"))
    for number in range(1, 21):
        clock.now += 1
        store.publish(epoch(number))
    store.publish(JobEnd(20))
    said = printed(console).splitlines()
    assert [line.split(",")[0] for line in said] == [
        "job 'j' starts afresh (job id id)",
        "j: epoch 5",
        "j: epoch 10",
        "j: epoch 15",
        "j: epoch 20",
        "job 'j' ended at epoch 20: 20",
    ]
    assert listener.last_epochs == {"j": 20}


def test_lines_become_rare_while_nothing_happens(
    console: Console, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(displays, "_LOOK_SECONDS", 1e6)  # here the test looks
    listener = LineListener(console, clock)
    store = told_to(listener)

    def said_within(seconds: int) -> list[str]:
        before = len(printed(console))
        for _ in range(seconds):
            clock.now += 1
            listener.look()
        return printed(console)[before:].splitlines()

    store.publish(RuntimeStarting("Spark, master local[2]"))
    assert said_within(20) == [
        "no job has begun yet: starting Spark, master local[2], 6.0 s",
        "no job has begun yet: starting Spark, master local[2], 17.0 s",
    ]
    store.publish(SubmissionFailed())
    store = told_to(listener)
    assert said_within(600) == []
    store.publish(JobStart("j", "id"))
    assert said_within(5) == []
    assert said_within(15) == ["j: no epoch yet, 6.0 s after its start", "j: no epoch yet, 17.0 s after its start"]
    store.publish(epoch(1))
    idle = said_within(3600)
    assert [line.rpartition(", ")[2] for line in idle[1:6]] == [
        "last epoch 14.0 s ago",
        "last epoch 35.0 s ago",
        "last epoch 1 min 16 s ago",
        "last epoch 2 min 37 s ago",
        "last epoch 5 min 18 s ago",
    ]
    assert len(idle) == 16  # one every five minutes by then
    store.publish(epoch(2))
    clock.now += 5
    store.publish(epoch(3))
    assert printed(console).splitlines()[-1].startswith("j: epoch 3, ")
    store.publish(EpochFailed(4, OSError("disk [full]"), 60.0))
    assert said_within(6) == [progress_line(listener.jobs()[0])]
    assert said_within(6) == []
    listener.close()


def test_a_job_that_waits_for_its_restart_says_so(job: JobProgress, terminal: Console, clock: ManualClock) -> None:
    trouble = "; epoch 15 failed and is run again in 2.0 s: disk [full]"
    tell(job, EpochFailed(15, OSError("disk [full]"), 2.0))
    assert progress_line(job) == f"fraud [v2]: RESTARTING, no epoch yet{trouble}"
    terminal.print(panel(job))
    assert "fraud [v2], RESTARTING, restored epoch 14, 0.0 s" in printed(terminal)
    tell(job, JobRestart(15))
    assert progress_line(job) == f"fraud [v2]: no epoch yet{trouble}"
    tell(job, epoch(15))
    tell(job, EpochFailed(16, OSError("disk [full]"), 2.0))
    assert progress_line(job).startswith("fraud [v2]: RESTARTING, epoch 15, ")
    tell(job, epoch(16))
    assert "RESTARTING" not in progress_line(job) + job.standing


def test_a_job_whose_splits_are_all_idle_says_so(job: JobProgress) -> None:
    for idle, told in ((frozenset[str](), "UTC"), (frozenset(["times"]), "UTC, idle")):
        splits = (
            SplitProgress("in", "0", {"times": NOON}, idle),
            SplitProgress("in", "1", {"times": NOON}, frozenset(["times"])),
        )
        progress = WatermarkProgress(None, None, splits)  # type: ignore[arg-type]
        tell(job, epoch(15, event_time=progress))
        assert job.facts["watermark"] == f"2015-05-17 12:00:00 {told}"


def test_quiet_says_beginning_and_end_and_leaves_trouble_to_the_log(console: Console, clock: ManualClock) -> None:
    listener = ProgressListener(console, clock)
    store = told_to(listener)
    store.publish(JobStart("j", "id"))
    clock.now += 100
    store.publish(epoch(1))
    store.publish(EpochFailed(2, OSError("gone"), 1.5))
    store.publish(JobEnd(1, False, OSError("gone")))
    assert [line.split(":")[0] for line in printed(console).splitlines()] == [
        "job 'j' starts afresh (job id id)",
        "job 'j' failed at epoch 1",
    ]


def test_what_a_user_waits_for_is_told_once(console: Console) -> None:
    listener = ProgressListener(console)
    store = told_to(listener)
    store.publish(RuntimeStarting("Spark, master local[2]"))
    store.publish(RuntimeStarting("Spark, master local[2]"))
    assert printed(console) == "starting Spark, master local[2] …\n"


def test_an_idle_job_shows_what_its_newest_manifest_says(job: JobProgress, clock: ManualClock) -> None:
    tell(job, CommitsAcknowledged(14, {}))  # restored, and nothing to read since
    assert job.latest is None
    tell(job, epoch(15, pending={"out": 2}))
    tell(job, CommitsAcknowledged(16, {}))
    assert progress_line(job).startswith("fraud [v2]: epoch 16, ")
    assert "pending" not in progress_line(job)


def test_a_job_that_never_started_says_nothing(console: Console) -> None:
    told_to(LineListener(console)).publish(JobEnd(None, False, OSError("no store")))
    assert printed(console) == ""


def test_jobs_at_the_same_time_are_told_apart(console: Console, clock: ManualClock) -> None:
    listener = LineListener(console, clock)
    barrier = threading.Barrier(2)

    def run(name: str, records: int) -> None:
        store = told_to(listener, name)
        store.publish(JobStart(name, name))
        barrier.wait(PATIENCE)
        store.publish(epoch(1, records))
        barrier.wait(PATIENCE)
        store.publish(JobEnd(1))

    threads = [threading.Thread(target=run, args=("a", 10)), threading.Thread(target=run, args=("b", 20))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert "job 'a' ended at epoch 1: 10 records" in printed(console)
    assert "job 'b' ended at epoch 1: 20 records" in printed(console)


def test_the_panel_is_drawn_while_a_job_runs_and_taken_away_at_its_end(terminal: Console) -> None:
    listener = PanelListener(terminal)
    store = told_to(listener)
    store.publish(JobStart("j", "id"))
    store.publish(epoch(1))
    wait_for(lambda: "watermark" in printed(terminal))
    store.publish(JobEnd(1))
    shown = printed(terminal)
    assert "watermark" in shown
    assert shown.rstrip().splitlines()[-1].startswith("job 'j' ended at epoch 1")
    listener.close()


def test_a_listener_that_starts_tells_who_wants_to_know(console: Console) -> None:
    told = []
    listener = ProgressListener(console)
    store = told_to(listener)
    listener.on_start = lambda: told.append(True)
    store.publish(JobStart("j", "id"))
    assert told == [True]


def test_the_listener_suits_the_output(console: Console, terminal: Console) -> None:
    assert type(listener_for(terminal, progress=None)) is PanelListener
    assert type(listener_for(console, progress=None)) is LineListener
    assert type(listener_for(console, progress=True)) is LineListener
    assert type(listener_for(terminal, progress=False)) is ProgressListener


def test_a_terminal_that_cannot_redraw_gets_lines(terminal: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert type(listener_for(terminal, progress=None)) is LineListener
