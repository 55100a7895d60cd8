"""``headrace failures`` over what jobs leave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint.failure_history import FailureHistory
from headrace.cli.checkpoints import run_failures
from headrace.common import FailureOrigin, JobFailure
from headrace.common.errors import CheckpointError, CheckpointStorageError
from headrace.storage.folder import posix_folder
from tests.cli.test_checkpoints import shown

if TYPE_CHECKING:
    from rich.console import Console


def test_it_shows_what_a_job_has_failed_with(tmp_path: Path, console: Console) -> None:
    files = FailureHistory(posix_folder(tmp_path))
    origin = FailureOrigin("parse [v2]", "parse", 1, "'x'", "node-1, process 7")
    message = "operator 'parse [v2]' (uid parse, subtask 1) failed\n  ValueError: x\n  record: 'x'"
    files.add(JobFailure(0, 1_431_864_000_000, 7, "UserFunctionError", message, 2, 1.5, origin, {"owner": "authors"}))
    files.add(JobFailure(0, 1_431_864_009_000, 8, "InfrastructureError", "a node is gone"))
    run_failures(str(tmp_path), {}, console)
    text = shown(console)
    first, second = text.split("2. ")
    assert "1. 2015-05-17 12:00:00" in first
    assert "epoch 7: UserFunctionError; restart 3 of the run followed in 1.5 s" in first
    assert [line.strip() for line in first.splitlines()[1:]] == [
        "operator 'parse [v2]' (uid parse, subtask 1) failed",
        "ValueError: x",
        "record: 'x'",
        "on node-1, process 7",
        "owner: authors",
    ]
    assert "epoch 8: InfrastructureError; the job ended" in second


def test_a_job_that_waits_for_its_restart(tmp_path: Path, console: Console) -> None:
    files = FailureHistory(posix_folder(tmp_path))
    for number in range(2):
        files.add(JobFailure(0, 1_000_000 + number, 7, "InfrastructureError", "a node is gone", number, 60.0))
    run_failures(str(tmp_path), {}, console, now=1_060_000)
    first, second = shown(console).split("2. ")
    assert "restart 1 of the run followed in 1 min 00 s" in first
    assert "RESTARTING: restart 2 of the run follows in 1 min 00 s" in second


def test_a_directory_without_failures(tmp_path: Path, console: Console) -> None:
    (tmp_path / "generations").mkdir()
    (tmp_path / "generations" / "000000000000").write_text("")
    run_failures(str(tmp_path), {}, console)
    assert "knows of no failures" in shown(console)
    assert [path.name for path in tmp_path.iterdir()] == ["generations"], "it is left alone"


def test_a_directory_that_no_job_has_begun_in(tmp_path: Path, console: Console) -> None:
    with pytest.raises(CheckpointError, match="is no checkpoint directory: no job has begun there"):
        run_failures(str(tmp_path), {}, console)
    assert not list(tmp_path.iterdir()), "it is left alone"


def test_a_place_that_cannot_be_read(tmp_path: Path, console: Console) -> None:
    with pytest.raises(CheckpointStorageError):
        run_failures("nowhere://x", {}, console)
