"""Large state files on S3: what is not touched is not fetched, and what is fetched is right, or an error says so."""

from __future__ import annotations

import errno
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import InfrastructureError, StateCorruptedError
from headrace.common.typeinfo import Types
from headrace.state.descriptors import ValueStateDescriptor
from headrace.storage import remote
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage
from headrace.storage.remote import PIECE, WHOLE_BYTES, RangedFile, RangedFiles, WrittenFiles
from tests.state.harness import Job
from tests.storage.s3_server import S3Server

VALUE = ValueStateDescriptor("value", Types.STRING())
KEYS = 30_000
FILE_BYTES = 15 << 20
"""At least so much do the keys take."""

Answer = Callable[[dict[str, Any], bytes, list[tuple[str, str]]], bytes]
"""Gets the request, the right content and the headers of an answer; gives the content that is sent."""


class Ranges:
    """The answers to requests for parts of state files.

    Attributes:
        requests: how many there were.
        sent: how many bytes they had.
        answer: what becomes of them.
    """

    def __init__(self, app: Any) -> None:
        self.requests = self.sent = 0
        self.answer: Answer = lambda request, content, headers: content
        self._app = app

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        begun: list[Any] = []
        content = b"".join(self._app(environ, lambda *arguments: begun.append(arguments)))
        status, headers = begun[-1][0], list(begun[-1][1])
        if environ["REQUEST_METHOD"] == "GET" and "HTTP_RANGE" in environ and status.startswith("206"):
            content = self.answer(environ, content, headers)
            self.requests += 1
            self.sent += len(content)
        start(status, headers)
        return [content]

    def reset(self) -> None:
        """Count anew."""
        self.requests = self.sent = 0


@pytest.fixture
def ranges(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Ranges:
    """As in a process that has written nothing itself, and has read nothing yet."""
    made = Ranges(s3._app)
    monkeypatch.setattr(s3, "_app", made)
    monkeypatch.setattr(remote, "_ranged", RangedFiles())
    monkeypatch.setattr(WrittenFiles, "keep", lambda self, key, content: None)
    return made


@pytest.fixture
def job(s3: S3Server) -> Job:
    return Job(storage=open_storage(f"{s3.new_bucket()}/state", options=s3.options()))


def value_of(key: int, epoch: int = 0) -> str:
    return f"{epoch}: value of {key} ".ljust(300, "ä")


def write(job: Job, keys: Iterable[int], epoch: int = 0) -> None:
    job.on_keys(
        job.begin(), list(keys), lambda operator, key, _: operator.keyed.state(VALUE).update(value_of(key, epoch))
    )
    job.end()


def read(job: Job, keys: Iterable[int], epoch: int = 0) -> None:
    def look(operator: Any, key: int, _: int) -> None:
        assert operator.keyed.state(VALUE).value() == value_of(key, epoch)

    job.on_keys(job.begin(), list(keys), look)
    job.end()


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on in a process that has read nothing yet."""
    monkeypatch.setattr(remote, "_ranged", RangedFiles())


def only_file(job: Job) -> tuple[Folder, str, int]:
    (name,) = job.refs[0].files
    size = job.storage.size(name)
    assert size is not None
    assert size > FILE_BYTES > WHOLE_BYTES
    return job.storage, name, size


def test_of_a_file_of_which_little_is_touched_little_is_fetched(ranges: Ranges, job: Job) -> None:
    write(job, range(KEYS))
    _, _, size = only_file(job)
    ranges.reset()
    read(job, [17, 20_000])
    assert 0 < ranges.sent < size // 2
    assert ranges.requests < 10


@pytest.mark.slow
def test_all_of_it_takes_few_requests_and_each_byte_once(ranges: Ranges, job: Job) -> None:
    write(job, range(KEYS))
    _, _, size = only_file(job)
    ranges.reset()
    read(job, range(KEYS))
    assert size // 2 < ranges.sent <= size
    assert ranges.requests < 20


def test_what_was_fetched_is_there_for_the_next_epoch(ranges: Ranges, job: Job) -> None:
    write(job, range(KEYS))
    read(job, [17, 20_000])
    ranges.reset()
    read(job, [20_000, 17])  # opened anew, as by another task
    job.keep = True
    read(job, [17])
    read(job, [17])
    assert ranges.requests == 0


def test_small_files_are_fetched_whole_in_at_most_two_requests(ranges: Ranges, job: Job) -> None:
    for count in (100, 10_000):
        write(job, range(count))
        (size,) = {job.storage.size(name) for name in job.refs[0].files[-1:]}
        ranges.reset()
        read(job, [17])
        assert size is not None
        assert size < WHOLE_BYTES
        assert (ranges.requests, ranges.sent) == (1 if size <= PIECE else 2, size)
        job.refs = []


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", [1, 3])
def test_other_parallelism_and_compaction(
    ranges: Ranges, job: Job, monkeypatch: pytest.MonkeyPatch, parallelism: int
) -> None:
    for module in ("runs.merging", "compaction"):
        monkeypatch.setattr(f"headrace.state.{module}.INLINE_ROWS", 1000)
    job.parallelism = 2
    write(job, range(2 * KEYS))
    write(job, range(KEYS), epoch=1)
    write(job, range(KEYS // 2), epoch=2)
    assert any((job.storage.size(name) or 0) > WHOLE_BYTES for name in job.refs[0].files)
    forget(monkeypatch)
    ranges.reset()
    assert job.compact() > 0
    assert ranges.sent > FILE_BYTES
    read(job, range(100), epoch=2)
    job.rescale(parallelism)
    forget(monkeypatch)
    read(job, range(0, KEYS // 2, 7), epoch=2)
    read(job, range(KEYS // 2, KEYS, 7), epoch=1)
    read(job, range(KEYS, 2 * KEYS, 7))


@pytest.mark.slow
def test_damage_is_found_when_it_is_touched_and_not_before(
    ranges: Ranges, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(job, range(KEYS))
    storage, name, size = only_file(job)
    content = bytearray(storage.read(name))
    content[size // 2] ^= 1
    storage.write(name, [bytes(content)])
    for key in (0, KEYS - 1):
        read(job, [key])
    with pytest.raises(StateCorruptedError, match=rf"{name} is damaged at byte"):
        read(job, range(KEYS))


@pytest.mark.slow
def test_another_file_in_its_place(ranges: Ranges, job: Job, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Job(storage=open_storage(f"{s3.new_bucket()}/state", options=s3.options()))
    write(job, range(KEYS))
    write(other, range(KEYS), epoch=1)
    storage, name, size = only_file(job)
    _, other_name, _ = only_file(other)
    content = other.storage.read(other_name)
    assert len(content) == size

    storage.write(name, [content])
    with pytest.raises(StateCorruptedError, match="content of another one"):
        job.begin()

    storage.write(name, [content[: PIECE * 4], b"".join([b"\0" * (size - PIECE * 4 - 1)]), b"\1"])
    forget(monkeypatch)
    with pytest.raises(StateCorruptedError, match="truncated or damaged"):
        job.begin()


@pytest.mark.slow
def test_replaced_while_it_is_read(ranges: Ranges, job: Job) -> None:
    write(job, range(KEYS))
    storage, name, size = only_file(job)
    content = storage.read(name)
    job.keep = True
    read(job, [17])
    client = remote._ranged
    remote._ranged = RangedFiles()  # as another process would
    storage.write(name, [bytes(byte ^ 1 for byte in content)])
    remote._ranged = client
    read(job, [17])
    with pytest.raises(StateCorruptedError, match=rf"{name} is damaged"):
        read(job, range(KEYS))
    storage.write(name, [content[: size // 2]])
    job.tasks = []
    with pytest.raises(StateCorruptedError, match="truncated or damaged"):
        job.begin()


def test_removed_while_it_is_read(ranges: Ranges, job: Job) -> None:
    write(job, range(KEYS))
    storage, name, _ = only_file(job)
    job.keep = True
    read(job, [17])
    storage.remove(name)
    read(job, [17])
    with pytest.raises(StateCorruptedError, match=rf"{name} is missing"):
        read(job, range(KEYS))


@pytest.mark.slow
@pytest.mark.parametrize("at", [0.5, 1], ids=["in the midst", "in the index"])
def test_what_was_damaged_and_put_back_is_read_anew_in_the_same_process(ranges: Ranges, job: Job, at: float) -> None:
    write(job, range(KEYS))
    storage, name, size = only_file(job)
    content = storage.read(name)
    damaged = bytearray(content)
    damaged[int(size * at) - 100] ^= 1
    storage.write(name, [bytes(damaged)])
    with pytest.raises(StateCorruptedError, match=name):
        read(job, range(KEYS))
    here, remote._ranged = remote._ranged, RangedFiles()  # as another process would
    storage.write(name, [content])
    remote._ranged = here
    job.tasks = []
    read(job, range(KEYS))


def test_a_folder_for_temporary_files_that_is_gone_is_no_damage(
    ranges: Ranges, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(job, range(KEYS))
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        with pytest.raises(InfrastructureError, match="no folder for temporary files"):  # so the job tries again
            read(job, [17])
    read(job, [17])


def test_a_full_disk_is_told_and_passes(
    ranges: Ranges, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_on_a_full_disk(descriptor: int, data: Any, at: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    write(job, range(KEYS))
    job.keep = True
    read(job, [17])
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", write_on_a_full_disk)
        with pytest.raises(InfrastructureError, match=f"No space left on device.*TMPDIR.*{tempfile.gettempdir()}"):
            read(job, range(KEYS))
    job.tasks = []
    read(job, range(KEYS))


def cut(request: dict[str, Any], content: bytes, headers: list[tuple[str, str]]) -> bytes:
    """The connection breaks in the midst."""
    return content[: len(content) // 2]


def shorter(request: dict[str, Any], content: bytes, headers: list[tuple[str, str]]) -> bytes:
    """Less than was asked for, by its own account."""
    half = content[: len(content) // 2]
    headers[:] = [(name, value) for name, value in headers if name.lower() != "content-length"]
    headers.append(("Content-Length", str(len(half))))
    return half


@pytest.mark.sampled(1)
@pytest.mark.parametrize("answer", [cut, shorter])
def test_answers_that_are_too_short(ranges: Ranges, job: Job, answer: Answer) -> None:
    write(job, range(KEYS))
    job.keep = True
    read(job, [17])
    struck = 0

    def fault(request: dict[str, Any], content: bytes, headers: list[tuple[str, str]]) -> bytes:
        nonlocal struck
        if len(content) < PIECE or struck:
            return content
        struck += 1
        return answer(request, content, headers)

    ranges.answer = fault
    if answer is shorter:
        with pytest.raises(InfrastructureError, match=r"were asked for, and \d+ have come"):
            read(job, range(KEYS))
        job.tasks = []
        ranges.answer = lambda request, content, headers: content
    read(job, range(KEYS))  # the client asks for the rest of an answer that was cut
    assert struck == 1


@pytest.mark.slow
def test_the_server_is_gone_for_a_while(ranges: Ranges, job: Job, s3: S3Server) -> None:
    write(job, range(KEYS))
    job.keep = True
    read(job, [17])
    s3.end()
    try:
        read(job, [17])
        with pytest.raises(InfrastructureError, match="state"):
            read(job, range(KEYS))
    finally:
        s3.begin()
    job.tasks = []
    read(job, range(KEYS))


@pytest.mark.slow
def test_what_a_process_keeps_is_bounded(ranges: Ranges, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 2 * PIECE
    monkeypatch.setattr(remote, "_ranged", RangedFiles(limit))
    job.keep = True
    write(job, range(KEYS))
    for first in range(0, KEYS, 10_000):
        read(job, range(first, first + 10_000))
        assert kept(remote._ranged) <= limit
        (task,) = job.tasks
        assert not any(file.is_surplus for file in task._files._maps.values())
        assert not any(run.section._bytes for run in task.store("operator", "state/value").runs)


def kept(files: RangedFiles) -> int:
    return sum(file.fetched for file in files._files.values())


def test_the_oldest_files_make_room(monkeypatch: pytest.MonkeyPatch, s3: S3Server) -> None:
    monkeypatch.setattr(remote, "_RANGED_FILES", 3)
    files = RangedFiles(limit=5 * PIECE)
    content = bytes(4 * PIECE)
    store = open_storage(f"{s3.new_bucket()}/state", options=s3.options()).file_system
    made = [
        files.open((store, str(number)), len(content), content[:PIECE], lambda start, stop: [content[start:stop]])
        for number in range(4)
    ]
    assert [file.is_surplus for file in made] == [True, False, False, False]
    assert files.find((store, "1")) is made[1]
    made[3].fetch(0, len(content))
    assert [file.is_surplus for file in made] == [True, False, True, False]
    made[3].fetch(0, len(content))
    made[2].fetch(PIECE, PIECE + 1)  # who holds it may still read it
    assert made[2].buffer.slice(0, 2 * PIECE).to_pybytes() == content[: 2 * PIECE]
    files.forget((store, "1"))
    assert files.find((store, "1")) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_file_by_ranges_has_what_was_asked_for_and_asks_for_each_piece_once(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(remote, "PIECE", 64)
    source = random.Random(seed)
    content = source.randbytes(source.randint(64, 20_000))
    asked: list[tuple[int, int]] = [(0, 64)]

    def stream(start: int, stop: int) -> Iterator[bytes]:
        asked.append((start, stop))
        while start < stop:
            end = min(start + source.randint(1, 100), stop)
            yield content[start:end]
            start = end

    file = RangedFile(len(content), content[:64], stream, lambda: None)
    for _ in range(30):
        start = source.randint(0, len(content))
        stop = min(start + source.choice([0, 1, 63, 64, 65, 1000]), len(content))
        file.fetch(start, stop)
        assert file.buffer.slice(start, stop - start).to_pybytes() == content[start:stop]
    file.fetch(0, len(content))
    assert file.buffer.to_pybytes() == content
    assert sum(stop - start for start, stop in asked) == len(content)
