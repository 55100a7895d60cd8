"""A Python worker that dies costs an epoch that is run again; a Java process that dies ends the job with a sentence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.processes import PROGRAMS, Launcher
from tests.reliability.programs import dying_workers
from tests.reliability.support import canonical
from tests.reliability.support.checkpoints import wait_for_manifest
from tests.reliability.support.dying_workers import IN_A_RECORD, IN_A_TIMER, IN_CLOSE, expected
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.outputs import hidden_files, lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_workers_that_die_in_a_record_a_timer_and_at_the_end(
    spark: SparkSession, plan: FaultPlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan.arm(IN_A_RECORD, 1).arm(IN_A_TIMER, 1).arm(IN_CLOSE, 1)
    dying_workers.main(str(tmp_path), str(tmp_path / "faults"), "spark")
    assert plan.happened == plan.planned
    assert len(plan.happened) == 3
    assert 1 <= caplog.text.count("it is run again in") <= 3, "two workers may die in one attempt"
    found = Counter(tuple(map(int, line.strip("()").split(","))) for line in lines(tmp_path / "output"))
    assert found == Counter(expected())
    assert not hidden_files(tmp_path / "output")


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize(
    ("how", "told"), [("segfault", "has died: Segmentation fault at {program}:17 in parse"), ("exit", "os._exit")]
)
def test_a_function_that_always_ends_its_worker(programs: Launcher, how: str, told: str) -> None:
    program = PROGRAMS / "crashing_function.py"
    ended = programs.start_command("run", "--master", "local[1]", program, how).wait()
    assert ended.code == 1, ended
    *_, last = ended.errors.splitlines()
    assert last.endswith("; it was number 3 in a row in this epoch"), ended
    assert told.format(program=program) in last
    assert ended.errors.count("it is run again in") == 2


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(1800)
def test_the_java_process_of_the_driver_dies(programs: Launcher, tmp_path: Path) -> None:
    command = "run", PROGRAMS / "canonical.py", tmp_path, tmp_path / "faults", "spark"
    running = programs.start_command(*command)
    wait_for_manifest(2, running, tmp_path)
    (java,) = (child for child in running.children() if "java" in child.name())
    java.kill()
    ended = running.wait()
    assert ended.code == 1, ended
    *_, last = ended.errors.splitlines()  # PySpark's own threads may have complained before
    assert last.startswith("error: "), ended
    assert "the Java process of Spark's driver has ended" in last
    assert "py4j" not in last
    again = programs.start_command(*command).wait()
    assert again.code == 0, again
    assert canonical.verify(tmp_path / "output") == canonical.EXACT


@pytest.mark.slow
@pytest.mark.integration
def test_the_java_process_of_a_job_dies_that_has_nothing_to_do(programs: Launcher, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "a.txt").write_text("only\n")
    running = programs.start_command("run", PROGRAMS / "quiet.py", tmp_path)
    running.wait_until("only")
    (java,) = (child for child in running.children() if "java" in child.name())
    java.terminate()
    ended = running.wait()
    assert ended.code == 1, ended
    *_, last = ended.errors.splitlines()
    assert "the Java process of Spark's driver has ended" in last, ended
