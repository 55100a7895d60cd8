"""Reporters that other distributions bring, and what they do to the job that has them."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from headrace.common import JobStatus
from headrace.reporters import reporting
from tests.docs.documents import DOCS, example
from tests.reporters.jobs import build, environment, running
from tests.waiting import PATIENCE, wait_for

HANGS = """
import threading
from headrace.reporters.reporter import MetricReporter

class Hangs(MetricReporter):
    def open(self, context):
        threading.Event().wait()
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    about = tmp_path / "headrace_acme-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: headrace-acme\nVersion: 1.0\n")
    entries = "file = acme_reporters:FileReporter\nhangs = acme_hangs:Hangs\n"
    (about / "entry_points.txt").write_text(f"[headrace.metric_reporters]\n{entries}")
    (tmp_path / "acme_reporters.py").write_text(example(DOCS / "plugins.md", "reporter"))
    (tmp_path / "acme_hangs.py").write_text(HANGS)
    for module in ("acme_reporters", "acme_hangs"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def test_a_reporter_of_another_distribution(site: Path) -> None:
    report = site / "report"
    given = {"factory.class": "file", "path": str(report), "interval": "50 ms"}
    with running({f"metrics.reporter.mine.{key}": value for key, value in given.items()}):
        wait_for(lambda: report.exists() and "keyed.0.numRecordsIn" in report.read_text())


def test_one_that_hangs_holds_nobody_up(
    site: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "_PARTING_SECONDS", 0.2)
    env = environment({"metrics.reporter.mine.factory.class": "hangs"})
    build(env, records=5_000)
    with caplog.at_level(logging.WARNING):
        client = env.execute_async()
        client.get_job_execution_result().result(PATIENCE)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert "metric reporter 'hangs' (mine) did not finish within 0.2 s and is left behind" in caplog.text
