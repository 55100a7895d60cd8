"""Durable writing: what was written is there whole, or an error says that it is not."""

from __future__ import annotations

import ast
import errno
import os
import resource
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace
from headrace.common.durable import (
    Permissions,
    append,
    create_exclusively,
    make_folder,
    remove,
    target_of_temporary,
    write_file,
)

CONTENT = bytes(range(256)) * 40


@contextmanager
def full_disk_after(size: int) -> Iterator[None]:
    """Files cannot grow beyond a size: the write that comes to it is short, the next one fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def appended_in_turns(path: Path) -> None:
    """Through one that is opened each time."""
    for start in range(0, len(CONTENT), 1000):
        append(path, CONTENT[start : start + 1000], start, durable=True)


WAYS: dict[str, Callable[[Path], object]] = {
    "write_file": lambda path: write_file(path, [CONTENT[:100], memoryview(CONTENT)[100:]]),
    "create_exclusively": lambda path: create_exclusively(path, CONTENT),
    "appended_in_turns": appended_in_turns,
}


@pytest.fixture(params=WAYS)
def write(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    return WAYS[request.param]


def test_short_writes_are_gone_on_with(
    write: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, short = os.write, []

    def write_less(descriptor: int, data: memoryview) -> int:
        count = original(descriptor, data[: max(1, len(data) // 3)])
        short.append(count < len(data))
        return count

    monkeypatch.setattr(os, "write", write_less)
    write(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert sum(short) > 5


@pytest.mark.parametrize("room", [0, 1, 4096, len(CONTENT) - 1])
def test_a_full_disk_is_told(write: Callable[[Path], object], tmp_path: Path, room: int) -> None:
    with full_disk_after(room), pytest.raises(OSError, match="File too large") as caught:
        write(tmp_path / "file")
    assert caught.value.errno == errno.EFBIG
    assert sum(found.stat().st_size for found in tmp_path.glob("file")) <= room


@pytest.mark.parametrize("way", ["write_file", "create_exclusively"])
def test_a_whole_file_or_none(way: str, tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(b"old")
    with full_disk_after(4096), pytest.raises(OSError, match="File too large"):
        WAYS[way](tmp_path / "file")
    with full_disk_after(4096), pytest.raises(OSError, match="File too large"):
        write_file(tmp_path / "before", [CONTENT])
    assert [path.name for path in tmp_path.iterdir()] == ["before"]
    assert (tmp_path / "before").read_bytes() == b"old"


def test_a_write_that_pretends_is_found_out(
    write: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that says it wrote and did not."""
    original = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: original(descriptor, data[:-1]) + 1)
    with pytest.raises(OSError, match="bytes after"):
        write(tmp_path / "file")


def test_appending_to_another_file_than_was_thought(tmp_path: Path) -> None:
    append(tmp_path / "file", b"abc", 0)
    with pytest.raises(OSError, match="3 bytes after 2 were written"):
        append(tmp_path / "file", b"def", 2)
    with pytest.raises(FileExistsError):
        append(tmp_path / "file", b"def", 0)
    assert (tmp_path / "file").read_bytes() == b"abc"


def test_a_file_is_created_by_exactly_one(tmp_path: Path) -> None:
    barrier, won = threading.Barrier(8), []

    def attempt(number: int) -> None:
        barrier.wait()
        if create_exclusively(tmp_path / "file", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(tmp_path / "file").read_text()] == [str(number) for number in won]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("permissions", "file", "folder"),
    [(Permissions.OWNER, 0o600, 0o700), (Permissions.GROUP, 0o660, 0o770), (Permissions.UMASK, 0o644, 0o755)],
)
def test_who_may_read_it(permissions: Permissions, file: int, folder: int, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        make_folder(tmp_path / "a" / "b", permissions)
        inner = tmp_path / "a" / "b"
        write_file(inner / "one", [b""], permissions)
        create_exclusively(inner / "two", b"", permissions)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in inner.iterdir()} == {file}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (inner, inner.parent)} == {folder}


def test_the_group_of_a_shared_folder_is_handed_down(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    make_folder(shared / "a" / "b", Permissions.GROUP)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (shared / "a", shared / "a" / "b")} == {0o2770}


def test_the_answer_to_a_link_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS makes the call again when the answer to the first one is lost, and then finds its own link."""
    original = os.link

    def link_twice(source: Path, target: Path) -> None:
        original(source, target)
        original(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    assert create_exclusively(tmp_path / "file", b"mine")
    monkeypatch.setattr(os, "link", original)
    assert not create_exclusively(tmp_path / "file", b"other")
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("way", ["write_file", "create_exclusively", "pieces"])
def test_a_writer_that_stood_still_finds_its_file_removed(
    way: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have taken it for that of a dead process."""
    removed: list[str] = []

    def remove_first(source: Path) -> None:
        if len(removed) < times:
            removed.append(source.name)
            source.unlink()

    for module, function in ((os, "link"), (Path, "replace")):
        original = getattr(module, function)

        def stand_still(source: Path, target: Path, original: Callable[..., object] = original) -> object:
            remove_first(source)
            return original(source, target)

        monkeypatch.setattr(module, function, stand_still)
    content = CONTENT * 300
    if way == "create_exclusively":
        assert create_exclusively(tmp_path / "file", content)
    else:
        pieces = [content[:1_000], content[1_000:]]
        write_file(tmp_path / "file", iter(pieces) if way == "pieces" else pieces, durable=False)
    assert (tmp_path / "file").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert len(set(removed)) == times


def test_a_folder_that_goes_while_a_file_is_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    def pieces() -> Iterator[bytes]:
        yield b"1"
        shutil.rmtree(tmp_path / "folder")
        yield b"2"

    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "folder" / "file", pieces())
    assert not list(tmp_path.iterdir())


def test_names_of_unfinished_files() -> None:
    assert target_of_temporary(f".a.json.{'0a' * 16}.tmp") == "a.json"
    for foreign in ("a.tmp", ".a.tmp", ".a.json.xyz.tmp", f"a.json.{'0a' * 16}.tmp", f".a.json.{'0a' * 16}.tmp.old"):
        assert target_of_temporary(foreign) is None


RAW = {
    "rename",
    "replace",
    "link",
    "symlink",
    "fsync",
    "fdatasync",
    "write_bytes",
    "write_text",
    "hardlink_to",
    "truncate",
}
MAY = {
    "common/durable.py",
    # What these write is made anew when it is lost or damaged.
    "broker.py",
    "client/dependencies.py",
    "operators/join/divided_work.py",
    "runtime/spark/class_archive.py",
    "runtime/spark/shipping.py",
    "common/java.py",
    "state/rocksdb/table.py",
    "storage/remote.py",
    # Logs of processes, and copies of programs for one run.
    "cli/cluster.py",
    "server/cluster/dispatcher.py",
    "server/cluster/processes.py",
    "server/rotated_log.py",
    # Not the machine's files
    "storage/hdfs.py",
}


CALLS = RAW | {"open", "write", "copy", "copyfileobj", "move"}
"""The names of methods that are looked at."""


def raw_writes(path: Path) -> Iterator[str]:
    """Calls that write, rename or synchronise files without going through durable.py."""
    text = path.read_text()
    if not any(f".{name}(" in text for name in CALLS):
        return
    knows_paths = "import Path" in text
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in CALLS:
            continue
        name, arguments = node.func.attr, [argument for argument in node.args if isinstance(argument, ast.Constant)]
        modes = [value.value for value in arguments if isinstance(value.value, str) and len(value.value) <= 3]
        opens_to_write = name == "open" and any(set(mode) & set("wax+") for mode in modes)
        # Strings and dataclasses can be replaced too, with other arguments.
        is_raw = name in RAW and (name != "replace" or (knows_paths and len(node.args) == 1 and not node.keywords))
        called = ast.unparse(node.func)
        is_low_level = called == "os.write" or (called == "os.open" and "O_RDONLY" not in ast.unparse(node))
        if is_raw or opens_to_write or is_low_level or called in ("shutil.copy", "shutil.copyfileobj", "shutil.move"):
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_only_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    found = [remove(tmp_path / name) for name in ("file", "file", "folder", "missing")]
    assert found == [True, False, False, False]
    assert os.listdir(tmp_path) == ["folder"]


def test_nobody_else_writes_files() -> None:
    sources = Path(headrace.__file__).parent
    found = {
        str(path.relative_to(sources)): calls
        for path in sorted(sources.rglob("*.py"))
        if str(path.relative_to(sources)) not in MAY and (calls := list(raw_writes(path)))
    }
    assert not found
