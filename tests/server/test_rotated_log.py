"""Logs of bounded size: what is put aside, what is read over all files, and what is asked for behind a position."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.server.rotated_log import LogLimits, RotatedLog, remove_oldest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL = 1 << 30


def write(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(text)


def test_a_file_that_has_become_large_is_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    file, limits = tmp_path / "log", LogLimits(10, 2)
    log = RotatedLog(file)
    assert log.tail(ALL) is None
    write(file, "short\n")
    assert not log.rotate(limits)
    for number in range(4):
        write(file, f"a long line {number}\n")
        assert log.rotate(limits)
    write(file, "the last\n")
    assert (tmp_path / "log.1").read_text() == "a long line 3\n"
    assert (tmp_path / "log.2").read_text() == "a long line 2\n"
    assert not (tmp_path / "log.3").exists()
    found = log.tail(ALL)
    assert found is not None
    assert found.text == "a long line 2\na long line 3\nthe last\n"
    assert found.begin == len("short\na long line 0\na long line 1\n")
    assert log.size() == len(found.text)


def test_two_processes_put_a_file_aside_once(tmp_path: Path) -> None:
    file, limits = tmp_path / "log", LogLimits(10, 2)

    class Second(RotatedLog):
        """Finds the file large, and then has to wait for another process that puts it aside."""

        @contextmanager
        def _locked(self, how: int) -> Iterator[None]:
            assert RotatedLog(file).rotate(limits)
            with super()._locked(how):
                yield

    write(file, "a long line\n")
    assert not Second(file).rotate(limits)
    assert (tmp_path / "log.1").read_text() == "a long line\n"
    assert not (tmp_path / "log.2").exists()


def test_without_old_files_only_the_present_one_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "log"
    write(file, "a long line\n")
    RotatedLog(file).rotate(LogLimits(1, 0))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "log.begin", "log.lock"]
    assert RotatedLog(file).size() == 0


def test_the_end_begins_with_a_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "log"
    write(file, "first\nsecond\n")
    RotatedLog(file).rotate(LogLimits(1, 5))
    write(file, "third\n")
    found = RotatedLog(file).tail(len("cond\nthird\n"))
    assert found is not None
    assert (found.text, found.begin) == ("third\n", len("first\nsecond\n"))


def test_who_writes_goes_on_while_files_are_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "log"
    program = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
    with file.open("ab") as output:
        writer = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=output, text=True)
    log, position, seen = RotatedLog(file), 0, ""
    assert writer.stdin is not None
    for number in range(5):
        writer.stdin.write(f"line {number}\n")
        writer.stdin.flush()
        while not (found := log.tail(ALL, position)) or not found.text.endswith(f"line {number}\n"):
            pass
        position, seen = found.end, seen + found.text
        log.rotate(LogLimits(1, 2))
    writer.stdin.close()
    assert writer.wait() == 0
    assert seen == "".join(f"line {number}\n" for number in range(5))


@given(
    texts=st.lists(st.text("aé€\n", max_size=30), max_size=12),
    most_bytes=st.integers(1, 40),
    most_files=st.integers(0, 20),
)
def test_reading_on_gives_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], most_bytes: int, most_files: int
) -> None:
    file = tmp_path_factory.mktemp("log") / "log"
    file.touch()
    log, position, seen = RotatedLog(file), 0, ""
    for text in texts:
        write(file, text)
        found = log.tail(ALL, position)
        assert found is not None
        position, seen = found.end, seen + found.text
        log.rotate(LogLimits(most_bytes, most_files))
    assert seen == "".join(texts)
    whole = log.tail(ALL)
    assert whole is not None
    assert seen.endswith(whole.text)
    assert whole.begin + len(whole.text.encode()) == whole.end == len(seen.encode())


def test_a_character_that_is_not_whole_yet_comes_with_the_next_part(tmp_path: Path) -> None:
    file, sign = tmp_path / "log", "€".encode()
    file.write_bytes(b"a" + sign[:2])
    first = RotatedLog(file).tail(ALL)
    assert first is not None
    file.write_bytes(b"a" + sign)
    second = RotatedLog(file).tail(ALL, first.end)
    assert second is not None
    assert (first.text, second.text) == ("a", "€")


def test_a_position_that_is_no_more_gives_all_there_is(tmp_path: Path) -> None:
    file = tmp_path / "log"
    for text in ("one\n", "two\n", "three\n"):
        write(file, text)
        RotatedLog(file).rotate(LogLimits(1, 1))
    for position in (2, 100):
        found = RotatedLog(file).tail(ALL, position)
        assert found is not None
        assert found.text == "three\n"


def test_logs_that_another_process_removes_meanwhile_are_no_error(tmp_path: Path) -> None:
    write(tmp_path / "kept", "")
    remove_oldest([tmp_path / "gone", tmp_path / "kept"], 1)
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


def test_logs_of_earlier_processes_go_when_there_are_many(tmp_path: Path) -> None:
    for number in range(4):
        for name in (f"cluster-{number}.log", f"cluster-{number}.log.1"):
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (number, number))
    remove_oldest(tmp_path.glob("cluster-*.log"), 2)
    kept = {"cluster-2.log", "cluster-2.log.1", "cluster-3.log", "cluster-3.log.1"}
    assert {each.name for each in tmp_path.iterdir()} == kept
