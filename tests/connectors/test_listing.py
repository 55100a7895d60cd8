"""What is listed, in folders that hold all kinds of things, and what is told when a folder cannot be listed."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import InfrastructureError, InvalidProgramError, SourceChangedError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.connectors.file_system.paths import InputPaths
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from headrace.formats.text import TextLineFormat
from headrace.storage import file_system as module
from tests.connectors.harness import SourceRun, read_all
from tests.connectors.test_watched_folder import Folder

REJECTED = OutputTag("rejected", Types.TUPLE([str, str, str]))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def put(path: Path, text: str = "x\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(*paths: Path | str) -> list[str]:
    return [Path(found.path).name for found in InputPaths(map(str, paths), {}).find()]


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    put(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        (tmp_path / "to itself").symlink_to("to itself")
        (tmp_path / "to nothing").symlink_to("nowhere")
        (tmp_path / "to a pipe").symlink_to("pipe")
        (tmp_path / "to a device").symlink_to("/dev/zero")
        put(tmp_path / "b.csv" / "c")
        put(tmp_path / "lost+found" / "d")
        for pattern in (tmp_path, tmp_path / "*", tmp_path / "**", tmp_path / "**" / "*"):
            assert names(pattern) == ["a", "c"]
    with pytest.raises(InvalidProgramError, match="pipe is neither a file nor a folder"):
        SourceRun(source(tmp_path / "pipe"), tmp_path / ".state")


def test_folders_of_fields_are_seen_whatever_the_field_is_called(tmp_path: Path) -> None:
    put(tmp_path / "_id=7" / "a")
    put(tmp_path / "_temporary" / "b")
    put(tmp_path / ".id=7" / "c")
    for pattern in (tmp_path, tmp_path / "*", tmp_path / "**"):
        assert names(pattern) == ["a"]


def source(*paths: Path) -> FileSource:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths).build()


def test_a_folder_that_several_links_lead_to_is_listed_once_by_its_own_name(tmp_path: Path) -> None:
    put(tmp_path / "in" / "versions" / "5" / "a")
    put(tmp_path / "other" / "b")
    (tmp_path / "in" / "0").symlink_to(tmp_path / "in" / "versions" / "5")
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    (tmp_path / "in" / "versions" / "loop").symlink_to(tmp_path / "in")
    found = [found.path for found in InputPaths([str(tmp_path / "in")], {}).find()]
    assert found == [f"{tmp_path}/in/up/other/b", f"{tmp_path}/in/versions/5/a"]


def test_patterns(tmp_path: Path) -> None:
    for name in ("2024/01/a.csv", "2024/02/b.csv", "2024/02/_x/c.csv", "2025/01/d.txt", "[x]/e.csv", "f.csv"):
        put(tmp_path / name)
    assert names(tmp_path / "20*" / "*" / "*.csv") == ["a.csv", "b.csv"]
    assert names(tmp_path / "**" / "*.csv") == ["a.csv", "b.csv", "e.csv", "f.csv"]
    assert names(tmp_path / "2024" / "**") == ["a.csv", "b.csv"]
    assert names(tmp_path / "20?5") == ["d.txt"]
    assert names(tmp_path / "[x]") == ["e.csv"]
    assert names(tmp_path / "*" / "02" / "b.csv") == ["b.csv"]
    assert names(tmp_path / "f.csv" / "*") == []


NAMES = ["a\nb", "tab\t", "é", "e\u0301", "名前", os.fsdecode(b"\xff\xfe"), " ", "a'b\"c", "-rf", "%41", "a*"]


def test_odd_names_survive_the_log_and_the_manifest(tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        put(tmp_path / "in" / name, f"{number}\n")
    run = SourceRun(source(tmp_path / "in"), tmp_path / "state")
    run.epoch()
    assert sorted(run.rows, key=int) == [str(number) for number in range(len(NAMES))]
    run.restart()
    assert run.is_finished()
    assert len(run.enumerator._known) == len(NAMES)  # type: ignore[attr-defined]


@pytest.mark.parametrize("suffix", [b"", b".gz"])
def test_a_name_that_is_no_text_is_shown_in_messages(tmp_path: Path, suffix: bytes) -> None:
    import gzip

    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/n\xff" + suffix))
    path.write_bytes(gzip.compress(b"a\n\xfe\n") if suffix else b"a\n\xfe\n")
    fmt = TextLineFormat()
    run = SourceRun(FileSource.for_record_stream_format(fmt, path).set_dead_letter(REJECTED).build(), tmp_path / ".s")
    assert run.to_end() == ["a"]
    ((where, _, _),) = run.rejected
    assert where == f"{tmp_path}/n\\xff{suffix.decode()}:2"
    where.encode()


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("pattern", ["", "*", "**/*", "s*/f*"])
def test_a_folder_that_cannot_be_listed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, pattern: str
) -> None:
    put(tmp_path / "in" / "sub" / "f")
    scandir = os.scandir
    calls = []

    def failing(path: Any) -> Any:
        if path == str(tmp_path / "in" / "sub"):
            calls.append(path)
            raise OSError(number, os.strerror(number), path)
        return scandir(path)

    monkeypatch.setattr(module.os, "scandir", failing)
    with pytest.raises(InfrastructureError, match=f"in/sub cannot be looked at .{os.strerror(number)}"):
        InputPaths([str(tmp_path / "in" / pattern)], {}).find()
    assert calls


def test_a_watched_folder_that_is_gone_is_told_until_it_is_back(folder: Folder) -> None:
    folder.put("a", age=10)
    assert folder.epoch() == ["a"]
    folder.path.rename(folder.path.with_name("away"))
    for _ in range(3):
        with pytest.raises(InfrastructureError, match="in, which the source watches, is gone: mount it"):
            folder.epoch()
    folder.run.restart()
    with pytest.raises(InfrastructureError, match="is gone"):
        folder.epoch()
    now = folder.run.now
    folder.path.with_name("away").rename(folder.path)
    folder.put("b")
    folder.run.now = now - 1000  # it is looked at again at once, not after another interval
    assert folder.epoch() == ["b"]
    folder.put("c")
    assert folder.epoch() == ["c"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("in/*.txt", "in/*.txt has no files to read"),
        ("i*/a", "i*/a has no files to read"),
        ("in", "in has no files to read; those that are empty or hidden are left out"),
        (
            "out [x]/*.txt",
            "out [x]/*.txt is a pattern that matches no file, but {0}/out [x] exists: to read it write {1}",
        ),
        ("what?/[c]", "what?/[c] is a pattern that matches no file, but {0}/what? exists: to read it write {2}"),
        ("out [x]", None),
        ("out [[]x]/*.txt", None),
        ("what?/b", None),
    ],
)
def test_a_path_without_files_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, told: str | None
) -> None:
    (tmp_path / "in").mkdir()
    put(tmp_path / "in" / ".hidden")
    put(tmp_path / "out [x]" / "a.txt")
    put(tmp_path / "what?" / "b")
    source = FileSource.for_record_stream_format(TextLineFormat(), tmp_path / path)
    assert read_all(source.build(), tmp_path / ".state") == (["x"] if told is None else [])
    escaped = [str(tmp_path / name) for name in ("out [[]x]/*.txt", "what[?]/[c]")]
    expected = [] if told is None else [f"{tmp_path}/{told.format(tmp_path, *escaped)}"]
    assert [record.message[: len(text)] for record, text in zip(caplog.records, expected, strict=True)] == expected
    caplog.clear()
    watch = SourceRun(source.monitor_continuously(1).build(), tmp_path / ".other", now=10**12)
    watch.epoch()
    assert [record.message[: len(text)] for record, text in zip(caplog.records, expected, strict=False)] == [
        text for text in expected if "is a pattern" in text
    ]


@pytest.mark.parametrize("pattern", ["nowhere/*.txt", "nowhere/deep/*/a", "in/a/*"])
def test_a_pattern_in_a_folder_that_is_not_there_is_refused_unless_it_may_come(tmp_path: Path, pattern: str) -> None:
    put(tmp_path / "in" / "b")
    source = FileSource.for_record_stream_format(TextLineFormat(), tmp_path / pattern)
    folder = str(tmp_path / pattern.split("/*", maxsplit=1)[0])
    with pytest.raises(InvalidProgramError, match=f"there is no folder {folder}, in which {tmp_path}"):
        read_all(source.build(), tmp_path / ".state")
    watch = SourceRun(source.monitor_continuously(1).build(), tmp_path / ".other", now=10**12)
    assert watch.epoch() == 0
    put(tmp_path / pattern.replace("*", "a.txt"))
    watch.now += 1000
    watch.epoch()
    assert watch.rows == ["x"]


def test_a_pattern_may_come_to_match_nothing(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a")
    built = FileSource.for_record_stream_format(TextLineFormat(), tmp_path / "i*").monitor_continuously(1).build()
    run = SourceRun(built, tmp_path / "state", now=10**12)
    run.epoch()
    (tmp_path / "in" / "a").unlink()
    (tmp_path / "in").rmdir()
    run.now += 1000
    assert run.epoch() == 0
    assert run.rows == ["x"]


def test_a_watched_file_that_was_read_may_go(tmp_path: Path) -> None:
    put(tmp_path / "a")
    built = FileSource.for_record_stream_format(TextLineFormat(), tmp_path / "a").monitor_continuously(1).build()
    run = SourceRun(built, tmp_path / "state", now=10**12)
    run.epoch()
    (tmp_path / "a").unlink()
    run.restart()
    run.now += 1000
    assert run.epoch() == 0


@pytest.mark.parametrize("when", ["pending", "consumed", "forgotten in memory"])
def test_a_file_that_is_written_again_with_the_same_size_is_an_error(folder: Folder, when: str) -> None:
    folder.put("a", "one\n")
    folder.run.now += 1000
    if when == "pending":
        folder.run.enumerator.discover(folder.run.now)
    else:
        assert folder.epoch() == ["one"]
    if when == "forgotten in memory":
        folder.run.restart()
    folder.put("a", "two\n", age=-1)
    with pytest.raises(SourceChangedError, match="a was written to after it was first seen: files must not be changed"):
        folder.epoch()


def test_modification_times_before_1970_and_in_the_future(folder: Folder) -> None:
    old, future = folder.put("old"), folder.put("future")
    os.utime(old, ns=(-(10**18), -(10**18)))
    os.utime(future, ns=(4 * 10**18, 4 * 10**18))
    folder.put("now")
    assert folder.epoch() == ["old", "now", "future"]
    folder.run.restart()
    assert folder.epoch() == []
    folder.put("later")
    assert folder.epoch() == ["later"]


def test_a_static_set_stays_as_it_was_first_seen(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    run = SourceRun(source(tmp_path / "in"), tmp_path / "state")
    run.epoch()
    put(tmp_path / "in" / "too late")
    run.restart()
    assert run.to_end() == []
    assert read_all(source(tmp_path / "in"), tmp_path / "fresh") == ["x"]
