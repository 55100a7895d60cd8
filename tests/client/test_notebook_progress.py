"""Progress in notebooks: one place in the cell, drawn by a thread of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from headrace.client import progress
from headrace.client.progress import CellContent, JobProgress, NotebookListener, job_html
from headrace.common.errors import JobCancelledError
from headrace.jobmanager.events import (
    EpochFailed,
    EpochStatistics,
    JobEnd,
    JobStart,
    RuntimeStarting,
)
from headrace.jobmanager.status import JobStatusStore
from tests.waiting import PATIENCE

HOSTILE = "<script>alert('x')</script>"


class Cell:
    """The output of a cell: everything that was ever shown in the one place, and by which thread."""

    def __init__(self) -> None:
        self.places = 0
        self.shown: list[tuple[str, str]] = []
        self.threads: list[str] = []
        self.is_redrawn = threading.Event()

    def show(self, obj: CellContent) -> Cell:
        self.places += 1
        return self

    def update(self, obj: Any) -> None:
        self.shown.append((repr(obj), obj._repr_html_()))
        self.threads.append(threading.current_thread().name)
        self.is_redrawn.set()


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    monkeypatch.setattr(progress, "REDRAW_SECONDS", 0.01)
    return Cell()


def statistics(epoch: int, records: int) -> EpochStatistics:
    return EpochStatistics(epoch, records, 0.1, 0.2, 0.1, 1000, 61_000, 2048, {"numLateRecordsDropped": 3})


def job_shown_by(listener: NotebookListener) -> JobStatusStore:
    job = JobStatusStore("totals")
    job.subscribe(listener)
    return job


def test_a_job_has_one_place_from_its_start_to_its_end(cell: Cell) -> None:
    job = job_shown_by(NotebookListener(cell.show))
    job.publish(RuntimeStarting("Spark, master local[2]"))
    job.publish(JobStart("totals", "0" * 32, restored_epoch=7))
    job.publish(statistics(8, 1234))
    cell.is_redrawn.clear()
    assert cell.is_redrawn.wait(PATIENCE)
    job.publish(JobEnd(8))
    assert cell.places == 1
    assert cell.shown[0] == ("starting Spark, master local[2] …", "<div>starting Spark, master local[2] …</div>")
    live_text, live_html = cell.shown[-2]
    assert live_text.startswith("totals: epoch 8, 1,234 records")
    assert "restored epoch 7" in live_html
    for expected in ("1,234", "8 (0.40 s)", "2.0 kB", "1 min 00 s behind"):
        assert expected in live_html
    text, html = cell.shown[-1]
    assert text.startswith("job 'totals' ended at epoch 8: 1,234 records in ")
    assert "3 late records dropped" in html


def test_the_job_itself_never_draws(cell: Cell) -> None:
    job = job_shown_by(NotebookListener(cell.show))
    job.publish(JobStart("totals", "0" * 32))
    job.publish(statistics(1, 1))
    job.publish(JobEnd(1))
    assert set(cell.threads) == {"headrace-notebook-progress"}


def test_a_page_that_cannot_be_reached_does_not_harm_the_job(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    job = job_shown_by(NotebookListener(cell.show))

    def closed(_: Any) -> None:
        raise OSError("the kernel's socket is closed")

    monkeypatch.setattr(cell, "update", closed)
    job.publish(JobStart("totals", "0" * 32))
    job.publish(statistics(1, 1))
    job.publish(JobEnd(1))
    assert [str(args.exc_value) for args in told] == ["the kernel's socket is closed"]


def test_failures_are_told(cell: Cell) -> None:
    job = job_shown_by(NotebookListener(cell.show))
    job.publish(JobStart("totals", "0" * 32))
    job.publish(EpochFailed(1, OSError("disk full"), 2.0))
    cell.is_redrawn.clear()
    assert cell.is_redrawn.wait(PATIENCE)
    job.publish(JobEnd(None, False, JobCancelledError("enough")))
    assert "epoch 1 failed and is run again in 2.0 s: disk full" in cell.shown[-2][1]
    assert cell.shown[-1][0].startswith("job 'totals' was cancelled: 0 records")


def test_a_job_that_never_starts_shows_nothing_more(cell: Cell) -> None:
    job = job_shown_by(NotebookListener(cell.show))
    job.publish(JobEnd(None, False, OSError("no")))
    assert cell.shown == []


def test_names_are_text() -> None:
    failed = JobStatusStore(HOSTILE).snapshot.after(EpochFailed(1, ValueError(HOSTILE), 0.0), 0)
    job = JobProgress(failed)
    assert "<script" not in job_html(job)
    assert "<script" not in CellContent(HOSTILE)._repr_html_()


@pytest.mark.slow
def test_ipython_is_never_imported() -> None:
    program = """
import sys
from headrace.common import Configuration
from headrace.datastream import StreamExecutionEnvironment
configuration = Configuration.from_dict({"headrace.runtime": "local", "headrace.progress": "true"})
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.from_sequence(1, 2).print()._repr_html_()
env.execute("no notebook")
print("IPython" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"
