"""Temporary folders go with their process: at its end, or when the next one starts after it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headrace.checkpoint.store import TemporaryStore
from headrace.common.durable import TemporaryFolder, remove_stale

MAKE_ONE = """
import sys, time
from headrace.checkpoint.store import TemporaryStore
store = TemporaryStore()
print(store.state, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def process(temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    """One that keeps state in a temporary folder, and the folder."""
    environment = os.environ | {"TMPDIR": str(temporary)}
    started = subprocess.Popen([sys.executable, "-c", MAKE_ONE], stdout=subprocess.PIPE, text=True, env=environment)
    assert started.stdout is not None
    return started, Path(started.stdout.readline().strip()).parent


@pytest.mark.slow
def test_the_folder_of_a_killed_process_goes_when_the_next_job_starts(temporary: Path) -> None:
    living, its_folder = process(temporary)
    killed, left_behind = process(temporary)
    try:
        (left_behind / "state" / "1-0-1-0-abc.state").write_bytes(b"state")
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left_behind.is_dir()
        store = TemporaryStore()
        assert not left_behind.exists()
        assert its_folder.is_dir(), "that of a living process is never touched"
        store.close()
    finally:
        for started in (living, killed):
            started.kill()
            started.communicate()
    assert remove_stale() == [its_folder]
    assert list(temporary.iterdir()) == []


def test_foreign_folders_are_left_alone(temporary: Path) -> None:
    for name in ("headrace-notes", "headrace-", "other"):
        (temporary / name).mkdir()
    (temporary / "headrace-file").write_text("mine")
    of_another_machine = temporary / "headrace-far"
    of_another_machine.mkdir()
    (of_another_machine / ".headrace-lock").write_text("some other machine")
    before = sorted(temporary.iterdir())
    assert remove_stale() == []
    assert sorted(temporary.iterdir()) == before


def test_a_link_is_not_followed(temporary: Path) -> None:
    folder = TemporaryFolder()
    elsewhere = temporary / "elsewhere"
    folder.path.rename(elsewhere)
    folder.remove()  # ends the lock
    (temporary / "headrace-link").symlink_to(elsewhere)
    assert remove_stale() == []
    assert (elsewhere / ".headrace-lock").exists()


def test_several_of_one_process_live_side_by_side(temporary: Path) -> None:
    folders = [TemporaryFolder("state-"), TemporaryFolder("state-"), TemporaryFolder()]
    assert all(folder.path.is_dir() for folder in folders)
    folders[0].remove()
    folders[0].remove()
    assert [folder.path.exists() for folder in folders] == [False, True, True]
    for folder in folders:
        folder.remove()
    assert list(temporary.iterdir()) == []
