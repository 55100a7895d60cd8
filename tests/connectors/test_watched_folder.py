"""A folder that is watched: files in the order of their appearance, each once, over any number of restarts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.common.errors import InvalidProgramError, SourceChangedError, StateCorruptedError
from headrace.common.time import Duration
from headrace.connectors.file_system import enumerator
from headrace.connectors.file_system.enumerator import FileEnumerator
from headrace.connectors.source import Boundedness, ReadBudget
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from tests.connectors.harness import PLENTY, SourceRun

DAY = 86_400_000


class Folder:
    """A folder that is watched, a job that watches it, and a clock."""

    def __init__(self, path: Path) -> None:
        self.path = path / "in"
        self.path.mkdir()
        self.state = path / "state"
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), self.path)
        self.source = builder.monitor_continuously(Duration.of_seconds(1), Duration.of_days(7)).build()
        self.run = SourceRun(self.source, self.state, now=1000 * DAY)

    def put(self, name: str, text: str = "", age: int = 0) -> Path:
        path = self.path / name
        path.write_text(text or f"{name}\n")
        modified = (self.run.now - age) * 1_000_000
        os.utime(path, ns=(modified, modified))
        return path

    def epoch(self, budget: ReadBudget = PLENTY) -> list[str]:
        """A second later: the lines of a new epoch."""
        self.run.now += 1000
        before = len(self.run.rows)
        self.run.epoch(budget)
        return self.run.rows[before:]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_new_files_are_found(folder: Folder) -> None:
    folder.put("b")
    folder.put("a", age=5)
    folder.put("c", age=5)
    assert folder.source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert folder.epoch() == ["a", "c", "b"]
    assert folder.epoch() == []
    folder.put("0", age=100)
    folder.put(".hidden")
    assert folder.epoch() == ["0"]
    assert not folder.run.is_finished()


def test_the_folder_is_looked_at_once_an_interval(folder: Folder) -> None:
    assert folder.epoch() == []
    folder.put("a")
    folder.run.now += 500
    assert folder.run.epoch() == 0
    assert folder.epoch() == ["a"]


def test_a_restart_sees_what_the_manifest_knew(folder: Folder) -> None:
    for name in "abc":
        folder.put(name)
        folder.epoch()
    folder.run.restart(0)
    assert folder.run.rows == ["a"]
    folder.put("d", age=10)
    assert folder.epoch() == ["b", "c", "d"]
    folder.run.restart()
    assert folder.epoch() == []
    folder.put("e")
    assert folder.epoch() == ["e"]
    folder.run.restart(1)
    assert folder.run.rows == ["a", "b"]
    assert sorted(folder.epoch()) == ["c", "d", "e"]


def test_a_restart_in_the_middle_of_a_file(folder: Folder) -> None:
    lines = [f"line {number}" for number in range(30)]
    folder.put("a", "\n".join(lines))
    folder.put("b", age=1000)
    folder.epoch(ReadBudget(10, 60))
    folder.run.restart()
    folder.run.restart(0)
    for _ in range(20):
        folder.epoch(ReadBudget(10, 60))
        folder.run.restart()
    assert folder.run.rows == ["b", *lines]


def test_what_is_there_at_the_start_may_be_old(folder: Folder) -> None:
    folder.put("old", age=100 * DAY)
    folder.put("new")
    assert folder.epoch() == ["old", "new"]
    folder.put("late", age=6 * DAY)
    folder.put("too late", age=8 * DAY)
    assert folder.epoch() == ["late"]
    folder.run.restart()
    assert folder.epoch() == []


def test_old_files_are_forgotten_but_not_read_again(folder: Folder) -> None:
    for _ in range(30):
        folder.put(f"{folder.run.now // DAY}")
        assert len(folder.epoch()) == 1
        folder.run.now += DAY
    enumerator = folder.run.enumerator
    assert isinstance(enumerator, FileEnumerator)
    assert len(enumerator._known) <= 9
    folder.run.restart()
    assert folder.epoch() == []
    folder.put("today")
    assert folder.epoch() == ["today"]
    assert len(folder.run.enumerator._known) <= 9  # type: ignore[attr-defined]


def test_a_file_that_was_given_itself_is_no_folder_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enumerator, "_MIN_ENTRIES", 0)  # so the log forgets soon as well
    folder = Folder(tmp_path)
    alone = folder.put("../alone")
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), alone, folder.path)
    watching = builder.monitor_continuously(Duration.of_seconds(1), Duration.of_days(7)).build()
    folder.run = SourceRun(watching, folder.state, now=folder.run.now)
    assert folder.epoch() == ["../alone"]
    alone.unlink()
    for number in range(30):  # beyond the horizon of what is remembered
        folder.run.now += DAY
        folder.put(f"{number}")
        assert folder.epoch() == [f"{number}"]
    folder.run.restart()
    assert folder.epoch() == []
    folder.put("../alone", "again\n")
    assert folder.epoch() == ["again"]
    folder.run.restart()
    assert folder.epoch() == []
    folder.put("../alone", "changed\n")
    with pytest.raises(SourceChangedError):
        folder.epoch()


def test_a_name_that_was_forgotten_may_come_again(folder: Folder) -> None:
    folder.put("same", "first\n")
    assert folder.epoch() == ["first"]
    folder.run.restart()  # the next log begins with it
    for number in range(10):
        folder.run.now += DAY
        folder.put(f"{number}")
        assert folder.epoch() == [f"{number}"]
    folder.put("same", "second\n")
    assert folder.epoch() == ["second"]
    for _ in range(3):
        folder.run.restart()
        assert folder.epoch() == []
    folder.run.now += DAY
    folder.put("last")
    assert folder.epoch() == ["last"]
    assert folder.epoch() == []


def test_a_file_from_the_future_makes_no_other_too_old(folder: Folder) -> None:
    folder.put("future", age=-100 * DAY)
    folder.put("first")
    assert folder.epoch() == ["first", "future"]
    folder.put("second")
    assert folder.epoch() == ["second"]


def test_the_logs_stay_small_and_few(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumerator, "_MIN_ENTRIES", 10)
    monkeypatch.setattr(enumerator, "_MOST_KEPT", 30)
    for number in range(100):
        folder.put(f"{number:03}")
        assert folder.epoch() == [f"{number:03}"]
        folder.run.now += DAY
    logs = sorted(folder.state.iterdir())
    assert len(logs) <= 40
    assert all(path.stat().st_size < 10_000 for path in logs)
    manifest, _, _ = folder.run.snapshots[-1]
    assert len(manifest) < 400
    for back in (1, 5, 20):
        folder.run.restart(100 - back)
        assert sorted(folder.epoch()) == [f"{number:03}" for number in range(101 - back, 100)]


def test_a_file_that_grows_is_an_error(folder: Folder) -> None:
    path = folder.put("a")
    assert folder.epoch() == ["a"]
    with path.open("a") as file:
        file.write("more\n")
    with pytest.raises(SourceChangedError, match="rename it when it is complete"):
        folder.epoch()
    folder.run.restart()
    with pytest.raises(SourceChangedError, match="rename it when it is complete"):
        folder.epoch()


def test_an_empty_file_is_not_seen_until_it_is_written(folder: Folder) -> None:
    (folder.path / "a").touch()
    assert folder.epoch() == []
    folder.put("a")
    assert folder.epoch() == ["a"]


def test_a_file_that_was_read_may_go(folder: Folder) -> None:
    folder.put("a")
    assert folder.epoch() == ["a"]
    (folder.path / "a").unlink()
    assert folder.epoch() == []


def test_a_file_that_goes_before_it_was_read_is_an_error(folder: Folder) -> None:
    folder.put("a", "1\n2\n3\n")
    folder.put("b")
    folder.epoch(ReadBudget(1, 2))
    (folder.path / "b").unlink()
    folder.epoch(ReadBudget(1, 2))
    folder.epoch(ReadBudget(1, 2))
    with pytest.raises(SourceChangedError, match="b was deleted"):
        folder.epoch(ReadBudget(1, 2))


@pytest.mark.parametrize("damage", ["remove", "truncate", "garble"])
def test_a_damaged_log_is_named(folder: Folder, damage: str) -> None:
    folder.put("a")
    folder.epoch()
    (log,) = folder.state.iterdir()
    data = log.read_bytes()
    if damage == "remove":
        log.unlink()
    else:
        log.write_bytes(data[:-1] if damage == "truncate" else b"x" * len(data))
    with pytest.raises(StateCorruptedError, match=log.name):
        folder.run.restart()


def test_intervals_are_checked(tmp_path: Path) -> None:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path)
    with pytest.raises(InvalidProgramError):
        builder.monitor_continuously(0)
    with pytest.raises(InvalidProgramError):
        builder.monitor_continuously(1, 0)
    assert builder.monitor_continuously(1).process_static_file_set().build().boundedness is Boundedness.BOUNDED
