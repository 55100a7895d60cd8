"""The list of files that a source has seen: it comes back as the manifest knew it, or it is named as damaged."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.common import durable
from headrace.common.durable import Permissions
from headrace.common.errors import StateCorruptedError
from headrace.connectors.file_system import enumerator
from headrace.connectors.file_system.enumerator import FileJournal, KnownFiles, load
from headrace.connectors.file_system.source import FileSource
from headrace.connectors.source import EnumeratorContext
from headrace.datastream.connectors.file_system import StreamFormat
from headrace.storage.file_system import PosixFileSystem
from headrace.storage.files import FileStatus, FileStore
from headrace.storage.folder import posix_folder
from tests.connectors.harness import PLENTY
from tests.connectors.test_watched_folder import DAY, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def status(name: str, size: int = 1) -> FileStatus:
    return FileStatus(name, size, 1_700_000_000_000_000_001)


def stored(journal: FileJournal) -> Any:
    return json.loads(json.dumps(journal.reference()))


def test_it_comes_back(tmp_path: Path) -> None:
    names = ["/in/é", "/in/new\nline", os.fsdecode(b"/in/\xff\xfe"), '/in/"quoted"\\', "/in/\u2028"]
    journal = FileJournal(posix_folder(tmp_path), None)
    journal.add([status(name) for name in names], 5)
    first = stored(journal)
    journal.add([status("/in/more")], 3)
    second = stored(journal)
    assert load(posix_folder(tmp_path), first) == KnownFiles(newest=5, pending=[status(name) for name in names])
    assert load(posix_folder(tmp_path), second).pending == [status(name) for name in [*names, "/in/more"]]
    assert load(posix_folder(tmp_path), second).newest == 5


class Bucket(FileStore):
    """A store with two objects in it, ``/in/a`` and ``/in/b``."""

    def __init__(self, place: str) -> None:
        super().__init__(PosixFileSystem(place))

    @property
    def place(self) -> str:
        return self.file_system.root

    def find(self, path: str) -> Iterator[FileStatus]:
        return iter([status(f"{self.place}/in/a"), status(f"{self.place}/in/b")])

    def exists(self, path: str) -> bool:
        return True

    def is_lost(self, folder: str) -> bool:
        return False

    def status(self, path: str) -> FileStatus | None:
        return next((found for found in self.find(path) if found.path == path), None)

    def open(self, path: str) -> io.RawIOBase:
        return io.FileIO(__file__)

    def open_for_arrow(self, path: str) -> pa.NativeFile:
        raise NotImplementedError


def test_files_that_were_seen_under_another_scheme_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connectors.file_system.paths.file_system_of", lambda place, _: place)
    monkeypatch.setattr("headrace.connectors.file_system.paths.FileStore", Bucket)
    journal = FileJournal(posix_folder(tmp_path), None)
    journal.known.consumed["s3://bucket/in/a"] = status("s3://bucket/in/a")
    journal.known.first = 1
    journal.add([status("s3://bucket/in/b")], 5)
    context = EnumeratorContext(parallelism=1, folder=posix_folder(tmp_path), state=stored(journal))
    for spelling in ("s3", "s3a"):
        built = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{spelling}://bucket/in")
        enumerator = built.monitor_continuously(1).build().create_enumerator(context)
        enumerator.discover(now=10)
        read = enumerator.plan("files", [1, 0], PLENTY, 10)
        assert read is not None
        assert [path for piece in read.pieces for path, *_ in piece] == ["s3://bucket/in/b"]


def test_few_files_tell_of_many(tmp_path: Path) -> None:
    journal = FileJournal(posix_folder(tmp_path), None)
    references = []
    for number in range(300):
        journal.add([status(f"/in/{number}")], number)
        references.append(stored(journal))
        journal.manifest_written()
    assert max(map(len, references)) <= 10
    for number in (0, 1, 127, 299):
        known = load(posix_folder(tmp_path), references[number])
        assert (len(known), known.newest) == (number + 1, number)


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    journal = FileJournal(posix_folder(tmp_path), None)
    journal.known.consumed["/in/a"] = status("/in/a", 10)
    journal.add([status("/in/b", 20)], 7)
    stored(journal)
    journal.add([status("/in/c")], 9)
    reference = stored(journal)
    assert len(reference) == 2
    for name, _ in reference:
        path = tmp_path / name
        whole = path.read_bytes()
        for at in range(len(whole)):
            for bit in range(8):
                damaged = bytearray(whole)
                damaged[at] ^= 1 << bit
                path.write_bytes(damaged)
                with pytest.raises(StateCorruptedError, match=path.name):
                    load(posix_folder(tmp_path), reference)
        path.write_bytes(whole)
    assert len(load(posix_folder(tmp_path), reference)) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data + data,
        lambda data: data[:5] + b" " + data[5:],
        lambda data: data[5:] + data[:5],
        lambda data: bytes(len(data)),
    ],
    ids=["cut", "empty", "twice", "extended", "turned", "zeros"],
)
def test_other_damage_is_found(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    journal = FileJournal(posix_folder(tmp_path), None)
    journal.add([status("/in/a")], 7)
    reference = stored(journal)
    path = tmp_path / reference[0][0]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StateCorruptedError, match=path.name):
        load(posix_folder(tmp_path), reference)


def test_another_source_s_log_is_found(tmp_path: Path) -> None:
    references = {}
    for name in ("one", "two"):
        journal = FileJournal(posix_folder(tmp_path / name), None)
        journal.add([status(f"/in/{name}")], 7)
        references[name] = stored(journal)
    log = references["one"][0][0]
    (tmp_path / "one" / log).rename(tmp_path / "aside")
    (tmp_path / "two" / log).rename(tmp_path / "one" / log)
    with pytest.raises(StateCorruptedError, match="another source's"):
        load(posix_folder(tmp_path / "one"), references["one"])
    (tmp_path / "two" / log).mkdir()
    with pytest.raises(StateCorruptedError, match=f"missing: .*{log}"):
        load(posix_folder(tmp_path / "two"), references["two"])
    (tmp_path / "two" / log).rmdir()
    with pytest.raises(StateCorruptedError, match=f"missing: .*{log}"):
        load(posix_folder(tmp_path / "two"), references["two"])


def test_others_may_put_things_beside_the_logs(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumerator, "_MIN_ENTRIES", 4)
    monkeypatch.setattr(enumerator, "_MOST_KEPT", 4)
    folder.state.mkdir()
    foreign = ["files-copy.log", "files-٣.log", "files-1.log", "files-00000001.log.bak", "README", "files-.log"]
    for name in foreign:
        (folder.state / name).write_text("mine")
    for name in ("files-00000002.log", "lost+found", "files-00000005.log"):
        (folder.state / name / "deep").mkdir(parents=True)
    for number in range(60):
        folder.put(f"{number:03}")
        assert folder.epoch() == [f"{number:03}"]
        folder.run.now += DAY
        if number % 10 == 0:
            folder.run.restart()
    assert all((folder.state / name).read_text() == "mine" for name in foreign)
    assert (folder.state / "files-00000002.log" / "deep").is_dir()
    assert len(list(folder.state.iterdir())) <= len(foreign) + 3 + 10


class FullDisk:
    """A disk that takes so many bytes more of the logs, or whose sync fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        self.syncs: int | None = None
        self.faults = 0
        self._write, self._sync = os.write, os.fsync
        monkeypatch.setattr(durable.os, "write", self.write)
        monkeypatch.setattr(durable.os, "fsync", self.fsync)

    def write(self, descriptor: int, data: Any) -> int:
        if self.room is None:
            return self._write(descriptor, data)
        if not self.room:
            self.faults += 1
            raise OSError(errno.ENOSPC, "no space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written

    def fsync(self, descriptor: int) -> None:
        if self.syncs is not None and stat.S_ISREG(os.fstat(descriptor).st_mode):
            self.syncs -= 1
            if self.syncs < 0:
                self.faults += 1
                raise OSError(errno.EIO, "input/output error")
        self._sync(descriptor)


@pytest.mark.parametrize("room", range(0, 120, 7))
@pytest.mark.parametrize("tries", [1, 3])
def test_a_full_disk_leaves_nothing_half_written(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, room: int, tries: int
) -> None:
    disk = FullDisk(monkeypatch)
    folder.put("a")
    assert folder.epoch() == ["a"]
    folder.put("b")
    for _ in range(tries):
        disk.room = room
        folder.run.enumerator.discover(folder.run.now + 1000)
        with pytest.raises(OSError, match="no space"):
            folder.run.enumerator.snapshot()
    disk.room = None
    assert disk.faults >= tries
    assert folder.epoch() == ["b"]
    folder.put("c")
    assert folder.epoch() == ["c"]
    for number, missing in enumerate(["bc", "c", ""]):
        folder.run.restart(number)
        assert folder.epoch() == list(missing)


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_log_that_could_not_be_synced_is_given_up(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    disk = FullDisk(monkeypatch)
    for number in range(epochs):
        folder.put(f"{number}")
        folder.epoch()
    before = set(folder.state.iterdir()) if epochs else set()
    folder.put("x")
    disk.syncs = 0
    with pytest.raises(OSError, match="input/output"):
        folder.epoch()
    assert disk.faults == 1
    disk.syncs = None
    folder.run.rows.clear()
    folder.run.epoch()
    folder.put("y")
    assert folder.epoch() == ["y"]
    assert before < set(folder.state.iterdir())
    folder.run.restart()
    assert folder.epoch() == []


@pytest.mark.parametrize(("permissions", "modes"), [(Permissions.OWNER, "600 700"), (Permissions.GROUP, "660 770")])
def test_who_may_read_it(tmp_path: Path, permissions: Permissions, modes: str) -> None:
    directory = tmp_path / "sources" / "one"
    journal = FileJournal(posix_folder(directory, permissions), None)
    journal.add([status("/in/a")], 1)
    log = directory / stored(journal)[0][0]
    assert f"{log.stat().st_mode & 0o777:o} {directory.stat().st_mode & 0o777:o}" == modes
