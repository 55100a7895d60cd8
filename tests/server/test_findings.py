"""What stands out in a job: each rule on a job that has the fault, and on one that has not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.common.configuration import Configuration
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.job_status import JobStatus
from headrace.jobmanager.status import JobSnapshot, StatusChange
from headrace.server.dashboard.findings import findings
from headrace.server.dashboard.job_view import (
    EpochView,
    FailureView,
    JobView,
    OperatorView,
    SplitView,
    StateView,
    StatusView,
    SubtaskView,
)
from headrace.server.dashboard.snapshot_view import job_view

NOW = 1_000_000_000


def job(**more: Any) -> JobView:
    snapshot = JobSnapshot("job", "run", (StatusChange(JobStatus.RUNNING, NOW - 600_000),), job_id="0" * 32)
    return replace(job_view(snapshot, Configuration(), NOW), **{"watermark": NOW - 2_000, **more})


def epoch(**parts: float) -> EpochView:
    known = dict.fromkeys(("planning", "reading", "shuffling", "operating", "checkpointing", "committing"), 0.0)
    return EpochView(1, NOW, 10, **{**known, **parts}, is_measured=True, watermark=0, state_bytes=0, pending_commits=0)


def operator(name: str = "sum", rates: tuple[float, ...] = (), **more: Any) -> OperatorView:
    subtasks = tuple(SubtaskView(n, 0.5, 0.5, 0.0, 0, rate, 0, None) for n, rate in enumerate(rates))
    known: dict[str, Any] = dict.fromkeys(OperatorView.__dataclass_fields__, 0)
    texts = {"uid": name, "name": name, "role": "Operator", "call_site": "job.py:1 in main"}
    nothing = {"busy": None, "idle": None, "back_pressured": None, "watermark": None, "pending_commits": None}
    given = {**known, **texts, **nothing, "stage": 1, "parallelism": len(rates), "subtasks": subtasks, **more}
    return OperatorView(**given)


def split(number: int, watermark: int | None, **more: Any) -> SplitView:
    known = {"is_idle": False, "is_held_back": False, "is_slowest": False, "pending_records": 0, "pending_bytes": None}
    rest = {"read_at": NOW - 100, "idle_timeout": None}
    return SplitView(uid="s", source="orders", split_id=str(number), watermark=watermark, **{**known, **rest, **more})


def failure(epoch: int = 7, age: int = 1_000, **more: Any) -> FailureView:
    message = "operator 'parse' (uid parse, subtask 2) failed\n  ValueError: no date\n  at job.py:12 in map"
    known = {"restart_in": 1.0, "operator": "parse", "uid": "parse", "subtask": 2, "record": "'12,x'", "executor": None}
    return FailureView(1, NOW - age, epoch, "UserFunctionError", message, **{**known, **more}, labels={})


def state(bytes_: int, growth: float | None) -> StateView:
    return StateView("loyalty", "loyalty", "history", "keyed", bytes_, (bytes_,), growth)


SLOW = split(3, NOW - 60_000, is_slowest=True, read_at=NOW - 50_000)
OTHERS = (split(0, NOW - 1_000), split(1, NOW - 1_500))
FAILED = (StatusView("RUNNING", NOW - 1_000), StatusView("FAILED", NOW))
VIOLATION = "operator 'gate' failed\n  Error: it is violated\n  record: -1\n  operator defined at job.py:3 in main"
PROCESS_FAILED = replace(
    failure(operator=None, subtask=None, record=None),
    error="JobExecutionError",
    message="its process has ended with exit code 1; its log ends:\nstarts\nerror: there is no job\nINFO: it ends",
)


@pytest.mark.parametrize(
    ("seen", "severity", "told"),
    [
        (
            job(failures=(failure(),), history=FAILED),
            "problem",
            "“parse”, subtask 2: ValueError: no date, at job.py:12",
        ),
        (job(failures=(failure(),), retry_in=4.0), "problem", "Epoch 7 has failed, and is run again in 4.0 s"),
        (
            job(failures=(failure(), failure()), retry_in=4.0, running_epoch=7, running_since=NOW),
            "problem",
            "failed 2 times, and runs again",
        ),
        (job(failures=(failure(), failure(), failure())), "problem", "begun again 3 times in the last 10 minutes"),
        (job(held_epoch=9, held_for=("'amount' is -1",)), "problem", "Epoch 9 is held back"),
        (
            job(held_epoch=9, held_for=(VIOLATION,), running_epoch=9, running_since=NOW - 120_000),
            "problem",
            "operator 'gate' failed; Error: it is violated; record: -1. Release",
        ),
        (
            job(history=FAILED, failures=(PROCESS_FAILED,)),
            "problem",
            "its process has ended with exit code 1: error: there is no job",
        ),
        (job(running_epoch=5, running_since=NOW - 120_000), "problem", "Epoch 5 runs for 2 min 00 s"),
        (
            job(epochs=(epoch(committing=1.0, operating=1.0),) * 9),
            "attention",
            "50% of the time goes to waiting for sinks",
        ),
        (
            job(epochs=(epoch(checkpointing=2.0, operating=1.0),) * 9),
            "attention",
            "67% of the time goes to checkpoints",
        ),
        (job(splits=(SLOW, *OTHERS)), "problem", "orders[3] has brought nothing for 50.0 s"),
        (job(splits=(replace(SLOW, idle_timeout=60_000), *OTHERS)), "attention", "becomes idle after 1 min 00 s"),
        (job(operators=(operator(rates=(900.0, 20.0, 30.0, 50.0)),)), "attention", "subtask 0 of “sum” gets 90% of"),
        (job(operators=(operator(rates=(10.0, 200.0)),)), "attention", "subtask 1 of “sum” gets 95% of"),
        (
            job(operators=(operator(busy=0.95), operator("map", busy=0.1))),
            "attention",
            "“sum” is at its limit: 95% busy",
        ),
        (job(operators=(operator("out", role="Data Sink", pending_commits=4),)), "attention", "output of 4 epochs"),
        (
            job(running_epoch=5, running_since=NOW - 120_000, at_work=("job.py:7 in map", "job.py:9 in call")),
            "problem",
            "It is in a function of the program, job.py:7 in map, and 1 more",
        ),
        (job(running_epoch=5, running_since=NOW - 120_000, runtime="Spark, master local[2]"), "problem", "Spark's UI"),
        (job(states=(state(100 << 20, 50_000.0),)), "note", "“history” of “loyalty” has 100.0 MB, and 2.9 MB more"),
        (job(history=(StatusView("CREATED", NOW - 60_000),)), "note", "has not begun for 1 min 00 s Its program has"),
        (
            job(history=(StatusView("CREATED", NOW - 60_000),), waits_for="its process starts"),
            "note",
            "has not begun for 1 min 00 s Its process starts. Its log says more.",
        ),
        (job(watermark=MAX_WATERMARK), "note", "The input has come to its end"),
        (job(watermark=MIN_WATERMARK, completed=9, splits=(split(0, MIN_WATERMARK),)), "note", "from orders[0]"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_fault_stands_out(seen: JobView, severity: str, told: str) -> None:
    (found,) = findings(seen)
    assert found.severity == severity
    assert told in f"{found.title} {found.detail}"


@pytest.mark.parametrize(
    "seen",
    [
        job(),
        job(failures=(failure(age=3_600_000),)),
        job(running_epoch=5, running_since=NOW - 5_000),
        job(states=(state(100 << 20, 5_000.0), state(1 << 20, 50_000.0), state(1 << 30, None))),
        job(history=(StatusView("CREATED", NOW - 5_000),)),
        job(epochs=(epoch(committing=0.1, operating=1.0),) * 9),
        job(splits=(replace(SLOW, is_idle=True), *OTHERS)),
        job(splits=(replace(SLOW, pending_records=100), *OTHERS)),
        job(splits=(replace(SLOW, is_held_back=True), *OTHERS)),
        job(splits=(replace(SLOW, watermark=NOW - 5_000), *OTHERS)),
        job(operators=(operator(rates=(250.0, 260.0, 240.0, 250.0)),)),
        job(operators=(operator(rates=(900.0, 20.0, 30.0, 50.0), stage=0),)),
        job(operators=(operator(rates=(9.0, 0.0, 0.0, 0.0)),)),
        job(operators=(operator("out", role="Data Sink", pending_commits=1),)),
    ],
)
def test_a_healthy_job_has_nothing_that_stands_out(seen: JobView) -> None:
    assert findings(seen) == []


def test_losses_and_a_backlog_stand_out_while_they_grow() -> None:
    trend = replace(job().trend, late=(0.0, 2.0), pending=tuple(float(n * 1_000) for n in range(20)))
    lossy = job(operators=(operator(late=1),), trend=trend, rate=10.0)
    assert [each.title for each in findings(lossy)] == [
        "The job falls behind: 19,000 records wait to be read",
        "1 late record dropped, some of them just now",
    ]
    assert findings(replace(lossy, trend=job().trend)) == []
    assert findings(replace(lossy, history=(StatusView("FINISHED", NOW),))) == [
        each for each in findings(lossy) if "late" in each.title
    ]
