from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import endurance, report
from benchmarks.findings import Finding, Findings, Measured, Target
from benchmarks.lab import Contestant, Work, best_rival, measured
from benchmarks.memory import DAEMON, DRIVER, JVM, OTHER, WORKER, Peaks, role_of
from benchmarks.outcome import Epoch, Outcome

MACHINE = {"date": "2025-06-01 12:00 UTC", "machine": "a processor, 2 cores, 8 GiB", "headrace": "0.1", "Java": "21"}


def contestant(median: float, **details: object) -> Measured:
    return Measured(median, median, median, 500_000, 9, (median,), {JVM: 900}, details)


@pytest.fixture
def findings() -> Findings:
    race = {"headrace": contestant(0.5), "Spark, HDFS": contestant(2.0), "Spark, RocksDB": contestant(1.5)}
    small = {"headrace": contestant(0.1, seconds={"planning": 0.002}, catalyst={"analysis": 0.01})}
    return Findings(
        [
            Finding("window", "10,000 int keys", 3.0, "x", Target(1.8, at_least=True), race, "times as fast"),
            Finding("small-epoch", "200 records", 0.9, "x", Target(0.8, at_least=False), small),
            Finding("memory", "JVM", 2_500, "MiB", Target(2_048, at_least=False), {}, "Spark's: 3,000 MiB"),
        ],
        ["process: it ended with [code] 1"],
    )


def test_targets_have_a_direction() -> None:
    assert Target(1.8, at_least=True).is_met(1.8)
    assert not Target(1.8, at_least=True).is_met(1.7)
    assert Target(0.8, at_least=False).is_met(0.8)
    assert not Target(0.8, at_least=False).is_met(float("nan"))


def test_only_the_fastest_rival_counts(findings: Findings) -> None:
    programs = {"headrace": "headrace_window", "Spark, HDFS": "spark_window", "Spark, RocksDB": "spark_window"}
    contestants = [Contestant(name, program) for name, program in {**programs, "DuckDB": "duckdb_batch"}.items()]
    found = findings.found[0].measured | {"DuckDB": contestant(0.1)}
    assert best_rival(found, contestants).seconds == 1.5


def test_figures_of_several_runs_are_pooled() -> None:
    work = Work(None, 10, lambda *_: {}, counted=2)
    runs = [Outcome(tuple(Epoch(10, seconds) for seconds in run), {}) for run in ((9, 1, 2, 7), (9, 3, 4, 7))]
    found = measured(work, runs, Peaks({WORKER: 300 << 20}))
    assert (found.seconds, found.mean_seconds, found.slowest_seconds, found.epochs) == (2.5, 2.5, 4, 4)
    assert (found.runs, found.records_per_second, found.memory_mib) == ((1.5, 3.5), 4.0, {WORKER: 300})


def test_epochs_of_any_size_have_their_mean_number_of_records() -> None:
    found = measured(Work(None, None, lambda *_: {}), [Outcome((Epoch(8, 1), Epoch(12, 2), Epoch(40, 4)), {})], Peaks())
    assert (found.records, found.seconds, found.epochs) == (20, 3, 2)


def test_markdown_has_figures_targets_and_where_the_time_goes(findings: Findings) -> None:
    text = report.markdown(findings, MACHINE)
    assert text.startswith("## 2025-06-01 12:00 UTC\n\na processor, 2 cores, 8 GiB; headrace 0.1, Java 21.\n")
    assert (
        "| window | 10,000 int keys | headrace: 0.500 s (1,000 k/s)<br>Spark, HDFS: 2.000 s (250 k/s)<br>"
        "Spark, RocksDB: 1.500 s (333 k/s) | 3.00x | ≥ 1.8 | yes |" in text
    )
    assert "| memory | JVM | Spark's: 3,000 MiB | 2,500 MiB | ≤ 2048 | **no** |" in text
    assert "| planning | 2.0 |\n| (part of running) Catalyst: analysis | 10.0 |" in text
    assert "Failed: process: it ended with [code] 1" in text


def test_sections_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "RESULTS.md"
    report.append_section(path, "## one\n")
    report.append_section(path, "## two\n")
    assert path.read_text().startswith("# Results\n")
    assert path.read_text().endswith("\n\n## one\n\n## two\n")


def test_json_has_everything(tmp_path: Path, findings: Findings) -> None:
    path = tmp_path / "results" / "latest.json"
    report.write_json(path, findings, MACHINE, {"quick": True})
    content = json.loads(path.read_text())
    assert content["machine"] == MACHINE
    assert [(each["value"], each["met"]) for each in content["findings"]] == [(3.0, True), (0.9, False), (2500, False)]
    assert content["findings"][0]["measured"]["headrace"]["memory_mib"] == {JVM: 900}


def test_the_tables_can_be_printed(findings: Findings) -> None:
    console = Console(file=io.StringIO(), width=200)
    report.show(findings, console)
    endurance.show([{"epochs": 10, "heap MiB": 99}], console)
    text = console.file.getvalue()
    for part in ("10,000 int keys", "≥ 1.8", "where the time of an epoch goes, headrace", "[code]", "heap MiB"):
        assert part in text


def test_endurance_in_markdown() -> None:
    text = endurance.markdown([{"epochs": 10, "heap MiB": 99}, {"epochs": 20_000, "heap MiB": 98}], MACHINE)
    assert "20,000 epochs of 200 records" in text
    assert text.endswith("| epochs | heap MiB |\n| --- | --- |\n| 10 | 99 |\n| 20,000 | 98 |\n")


@pytest.mark.parametrize(
    ("name", "command", "forked", "root", "role"),
    [
        ("python3.12", ["python", "-m", "benchmarks.child"], False, True, DRIVER),
        ("java", ["java", "-Xmx2g"], False, False, JVM),
        ("python3.12", ["python", "-m", "pyspark.daemon", "pyspark.worker"], False, False, DAEMON),
        ("python3.12", ["python", "-m", "pyspark.daemon", "pyspark.worker"], True, False, WORKER),
        ("python", ["python", "-m", "headrace.runtime.spark.worker_daemon", "pyspark.worker"], False, False, DAEMON),
        ("bash", ["bash", "spark-submit"], False, False, OTHER),
    ],
)
def test_roles(name: str, command: list[str], forked: bool, root: bool, role: str) -> None:
    assert role_of(name, command, forked, root) == role


def test_peaks_are_the_largest_seen() -> None:
    peaks = Peaks()
    for resident in (5 << 20, 9 << 20, 7 << 20):
        peaks.see(WORKER, resident)
    peaks.merge(Peaks({WORKER: 8 << 20, JVM: 1 << 20}))
    assert peaks.mebibytes() == {JVM: 1, WORKER: 9}
