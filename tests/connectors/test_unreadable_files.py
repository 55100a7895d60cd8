"""Files that are gone before they are read, and files that are damaged: an error that says what to do, or a loss that
is told, counted and the same at every attempt."""

from __future__ import annotations

import bz2
import errno
import gzip
import logging
import lzma
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common.errors import BadRecordError, CorruptFileError, InfrastructureError, SourceChangedError
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.connectors.source import ReadBudget
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from headrace.formats import compression
from headrace.formats import lines as blocks
from headrace.formats.csv.reader import CsvFormat
from headrace.formats.file_format import FileFormat
from headrace.formats.parquet import ParquetFormat
from headrace.storage import file_system
from headrace.storage.file_system import PosixFileSystem
from headrace.storage.files import FileStore, InputFile
from tests.connectors.harness import PLENTY, SourceRun
from tests.connectors.test_watched_folder import Folder

REJECTED = OutputTag("rejected", Types.TUPLE([str, str, str]))
LINES = [f"line {number} {number * 7919 % 10007}" for number in range(20_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
TINY = ReadBudget(1, 1)


def with_arrow(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    return compress


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": with_arrow("zstd"),
    ".lz4": with_arrow("lz4"),
}


def run_of(
    folder: Path, *options: str, fmt: FileFormat | None = None, dead_letter: bool = True, watch: bool = False
) -> SourceRun:
    builder = FileSource.for_record_stream_format(fmt or StreamFormat.text_line_format(), folder)  # type: ignore[arg-type]
    for option in options:
        getattr(builder, option)()
    if dead_letter:
        builder.set_dead_letter(REJECTED)
    if watch:
        builder.monitor_continuously(1)
    return SourceRun(builder.build(), folder / ".state", now=10**12)


def rows_or_error(run: SourceRun) -> list[Any] | None:
    """What a job reads; None when it fails with an error that names a file of the folder."""
    try:
        return run.to_end(ReadBudget(150, 10**6))
    except BadRecordError as error:
        if str(run.directory.parent) not in str(error):
            raise
        return None


# --- missing ---------------------------------------------------------------------------------------------------------


def three(folder: Path) -> None:
    for name in "abc":
        (folder / name).write_text(f"{name}1\n{name}2\n")


def test_a_file_that_goes_before_it_is_planned_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    three(tmp_path)
    run = run_of(tmp_path, "ignore_missing_files")
    run.epoch(TINY)
    (tmp_path / "b").unlink()
    with caplog.at_level(logging.WARNING):
        assert run.to_end(TINY) == ["a1", "a2", "c1", "c2"]
    assert run.rejected == [(str(tmp_path / "b"), "", "the file was deleted before it was read to its end")]
    assert run.counters == {"numFilesMissing": 1}
    assert [str(tmp_path / "b") in record.message for record in caplog.records] == [True]
    for snapshot in range(len(run.snapshots)):
        run.restart(snapshot)
        assert run.to_end(TINY) == ["a1", "a2", "c1", "c2"]
        assert len(run.rejected) == 1


def test_a_file_that_goes_when_half_of_it_was_read_is_skipped_from_there(tmp_path: Path) -> None:
    three(tmp_path)
    run = run_of(tmp_path, "ignore_missing_files")
    run.epoch(TINY)
    (tmp_path / "a").unlink()
    run.restart()
    assert run.to_end() == ["a1", "b1", "b2", "c1", "c2"]
    assert run.counters == {"numFilesMissing": 1}


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_file_that_goes_between_plan_and_task_is_skipped(tmp_path: Path, pieces: int) -> None:
    three(tmp_path)
    run = run_of(tmp_path, "ignore_missing_files")
    share = run.enumerator.plan("files", [0, 0], ReadBudget(10**6, 10**6, pieces), run.now)
    assert share is not None
    (tmp_path / "b").unlink()
    for piece in share.pieces:
        run._take(run.source.create_reader().read(piece))
    assert run.rows == ["a1", "a2", "c1", "c2"]
    assert {where for where, _, _ in run.rejected} == {str(tmp_path / "b")}
    assert run.counters["numFilesMissing"] >= 1


def test_a_file_that_goes_while_it_is_read_loses_nothing_that_was_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    run = run_of(tmp_path, "ignore_missing_files")
    share = run.enumerator.plan("files", [0, 0], PLENTY, run.now)
    assert share is not None
    reading = run.source.create_reader().read(share.pieces[0])
    run._take(iter([next(reading)]))
    (tmp_path / "a").unlink()
    run._take(reading)
    assert run.rows == LINES
    assert not run.counters


def test_a_file_that_goes_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    three(tmp_path)
    run = run_of(tmp_path)
    share = run.enumerator.plan("files", [0, 0], PLENTY, run.now)
    assert share is not None
    (tmp_path / "b").unlink()
    message = r"b was deleted before it was read to its end.*ignore_missing_files\(\)"
    with pytest.raises(SourceChangedError, match=message):
        run._take(run.source.create_reader().read(share.pieces[0]))
    with pytest.raises(SourceChangedError, match=message):
        run.to_end()


def test_a_folder_that_turns_into_a_file_takes_its_files_away(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("a\n")
    (tmp_path / "e").write_text("e\n")
    run = run_of(tmp_path, "ignore_missing_files", watch=True)
    run.enumerator.discover(run.now)
    (tmp_path / "d" / "a").unlink()
    (tmp_path / "d").rmdir()
    (tmp_path / "d").write_text("")
    run.epoch()
    assert (run.rows, run.counters) == (["e"], {"numFilesMissing": 1})


# --- damaged ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_file_that_was_cut_gives_its_whole_lines_up_to_there(tmp_path: Path, suffix: str) -> None:
    data = COMPRESSIONS[suffix](TEXT)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(data[: len(data) // 2])
    (tmp_path / "b").write_text("b\n")
    found = []
    for budget in (PLENTY, TINY, ReadBudget(100, 100, 3)):
        run = run_of(tmp_path, "ignore_corrupt_files")
        run.to_end(budget)
        assert run.rows[-1] == "b"
        assert run.rows[:-1] == LINES[: len(run.rows) - 1]
        assert run.counters == {"numFilesCorrupt": 1}
        ((where, raw, reason),) = run.rejected
        assert (where, raw) == (str(path), "")
        assert "cannot be decompressed" in reason
        found.append(run.rows)
        run.restart(0)
        run.to_end(budget)
        found.append(run.rows)
    assert all(rows == found[0] for rows in found)
    if suffix in (".gz", ".xz"):  # those do not come in large blocks
        assert len(found[0]) > len(LINES) // 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_every_cut_is_noticed(tmp_path: Path, suffix: str) -> None:
    lines = LINES[:30]
    data = COMPRESSIONS[suffix]("".join(f"{line}\n" for line in lines).encode())
    path = tmp_path / f"a{suffix}"
    for length in range(1, len(data), 5):
        path.write_bytes(data[:length])
        run = run_of(tmp_path, "ignore_corrupt_files")
        assert run.to_end() == lines[: len(run.rows)]
        assert run.counters == {"numFilesCorrupt": 1}, length
        with pytest.raises(CorruptFileError, match=rf"a{suffix} cannot be decompressed.*ignore_corrupt_files\(\)"):
            run_of(tmp_path).to_end()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_every_flipped_byte_is_noticed_or_changes_nothing(tmp_path: Path, suffix: str) -> None:
    lines = LINES[:30]
    data = COMPRESSIONS[suffix]("".join(f"{line}\n" for line in lines).encode())
    path = tmp_path / f"a{suffix}"
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        assert rows_or_error(run_of(tmp_path)) in (lines, None)


SKIPPABLE = b"\x50\x2a\x4d\x18\x05\x00\x00\x00hello"
BEHIND = {
    ".gz": {"legal": [b"\0", b"\0" * 5], "damage": [b"g", b"garbage", b"\0garbage", b"\x1f"]},
    ".bz2": {"legal": [b"\0", b"\0" * 5], "damage": [b"B", b"garbage", b"\0garbage"]},
    ".xz": {"legal": [b"\0" * 4, b"\0" * 8], "damage": [b"\0", b"\0" * 6, b"g", b"garbage!", b"\xfd7zXZ"]},
    ".zst": {"legal": [SKIPPABLE], "damage": [b"\0", b"g", b"garbage", SKIPPABLE[:-1]]},
    ".lz4": {"legal": [SKIPPABLE], "damage": [b"\0", b"g", b"garbage", SKIPPABLE[:-1]]},
}


def decompressed(path: Path) -> bytes:
    file = InputFile(FileStore(PosixFileSystem()), str(path), path.stat().st_size)
    with compression.open_decompressed(file) as stream:
        return b"".join(iter(lambda: stream.read(1000), b""))


def is_damaged(path: Path) -> bool:
    try:
        return decompressed(path) is None
    except CorruptFileError as error:
        return f"{path} cannot be decompressed: " in str(error)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_all_members_of_a_file_are_read(tmp_path: Path, suffix: str) -> None:
    path, compress = tmp_path / f"a{suffix}", COMPRESSIONS[suffix]
    first, second, nothing = b"first\n" * 1000, b"second\n" * 1000, compress(b"")
    for between in (b"", nothing, *BEHIND[suffix]["legal"]):
        for behind in (b"", nothing, *BEHIND[suffix]["legal"]):
            path.write_bytes(compress(first) + between + compress(second) + behind)
            assert decompressed(path) == first + second, (between, behind)
    assert run_of(tmp_path).to_end() == ["first"] * 1000 + ["second"] * 1000


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_what_is_no_member_is_damage_wherever_it_stands(tmp_path: Path, suffix: str) -> None:
    path, compress = tmp_path / f"a{suffix}", COMPRESSIONS[suffix]
    first, second = compress(b"first\n"), compress(b"second\n")
    for garbage in BEHIND[suffix]["damage"]:
        path.write_bytes(first + second + garbage)
        assert is_damaged(path), garbage
        path.write_bytes(first + garbage + b"---" + second)
        assert is_damaged(path), garbage
    path.write_bytes(first + b"garbage!")
    with pytest.raises(CorruptFileError, match=rf"a{suffix} cannot be decompressed.*ignore_corrupt_files\(\)"):
        run_of(tmp_path).to_end()


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_damage_of_a_later_member_is_noticed(tmp_path: Path, suffix: str) -> None:
    lines = "".join(f"{line}\n" for line in LINES[:20]).encode()
    first, second = COMPRESSIONS[suffix](lines), COMPRESSIONS[suffix](lines)
    path = tmp_path / f"a{suffix}"
    for length in range(1, len(second)):
        path.write_bytes(first + second[:length])
        assert is_damaged(path), length
    has_checksum = suffix in (".gz", ".bz2", ".xz")
    for at in range(len(second) if has_checksum else 4):
        damaged = bytearray(second)
        damaged[at] ^= 0x10
        path.write_bytes(first + damaged)
        assert is_damaged(path) or decompressed(path) == lines * 2, at


@pytest.mark.parametrize(("suffix", "command"), [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz")])
def test_what_the_commands_read_is_read(tmp_path: Path, suffix: str, command: str) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"there is no {command}")
    path, one = tmp_path / f"a{suffix}", COMPRESSIONS[suffix](b"one\n")
    options = ["--", "--check=none", "--block-size=1000", "-9"] if command == "xz" else ["--", "-1", "-9"]
    for option in options:
        packed = subprocess.run([command, "-c", option], input=TEXT[:5000], capture_output=True, check=True).stdout
        path.write_bytes(packed + one)
        assert decompressed(path) == TEXT[:5000] + b"one\n"
    for behind in (b"", *BEHIND[suffix]["legal"], *BEHIND[suffix]["damage"]):
        path.write_bytes(one + behind)
        found = subprocess.run([command, "-dc", str(path)], capture_output=True, check=False)
        if not is_damaged(path):
            assert (found.returncode, found.stdout) == (0, decompressed(path)), behind
        else:
            assert found.returncode != 0 or b"trailing garbage" in found.stderr, behind


def test_a_damaged_file_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT)[:-10])
    with pytest.raises(BadRecordError, match=r"a\.gz cannot be decompressed.*ignore_corrupt_files\(\)"):
        run_of(tmp_path).to_end()


def test_without_a_dead_letter_output_losses_are_counted_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"no gzip at all")
    (tmp_path / "b").write_text("b\n")
    run = run_of(tmp_path, "ignore_corrupt_files", dead_letter=False)
    assert run.to_end() == ["b"]
    assert (run.rejected, run.counters) == ([], {"numFilesCorrupt": 1})


def test_a_csv_file_with_another_header_is_not_read_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("<html>\n<p>404\n")
    (tmp_path / "b.csv").write_text("n\n1\n")
    (tmp_path / "c.csv").write_text("n\n")
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"n\n7\n")[:3])
    fmt = CsvFormat({"n": int}, header=True)
    run = run_of(tmp_path, "ignore_corrupt_files", fmt=fmt)
    assert [row.n for row in run.to_end()] == [1]
    assert run.counters == {"numFilesCorrupt": 2}
    with pytest.raises(BadRecordError, match=r"a\.csv:1: the header has no column 'n'.*ignore_corrupt_files\(\)"):
        run_of(tmp_path, fmt=fmt).to_end()


def test_an_encoding_that_breaks_off_is_damage(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("one\ntwo\n".encode("utf-16-le") + b"x")
    (tmp_path / "b").write_bytes("b\n".encode("utf-16-le"))
    run = run_of(tmp_path, "ignore_corrupt_files", fmt=StreamFormat.text_line_format("utf-16-le"))
    assert run.to_end() == ["one", "two", "b"]
    assert run.counters == {"numFilesCorrupt": 1}


def test_a_bad_line_in_a_whole_file_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n\xff\n"))
    with pytest.raises(BadRecordError, match=r"a\.gz:2: not utf-8") as caught:
        run_of(tmp_path, "ignore_corrupt_files", dead_letter=False).to_end()
    assert not isinstance(caught.value, CorruptFileError)


# --- damaged Parquet -------------------------------------------------------------------------------------------------

ROWS = [{"n": number, "s": f"s{number}"} for number in range(300)]


def write_parquet(path: Path) -> bytes:
    pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=100, write_page_checksum=True)
    return path.read_bytes()


def parquet_run(folder: Path, *options: str) -> SourceRun:
    kind = Types.ROW_NAMED(["n", "s"], [int, str])
    return run_of(folder, *options, fmt=ParquetFormat(type_info=kind, batch_size=32))


def numbers(run: SourceRun) -> list[int]:
    assert all(row.s == f"s{row.n}" for row in run.rows)
    return [row.n for row in run.rows]


def test_a_damaged_row_group_loses_its_rows_alone_however_the_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    data = bytearray(write_parquet(path))
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(1).column(1)
    data[column.dictionary_page_offset + column.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(data)
    for budget in (PLENTY, ReadBudget(40, 10**6), ReadBudget(10**6, 10**6, 7), ReadBudget(90, 10**6, 4), TINY):
        run = parquet_run(tmp_path, "ignore_corrupt_files")
        run.to_end(budget)
        assert numbers(run) == [*range(100), *range(200, 300)], budget
        assert run.counters["numFilesCorrupt"] >= 1
        assert "(rows 100 to 200 of the file)" in run.rejected[0][2]
    with pytest.raises(CorruptFileError, match=r"a\.parquet is damaged.*ignore_corrupt_files\(\)"):
        parquet_run(tmp_path).to_end()


@pytest.mark.parametrize("content", [b"PAR1", b"no Parquet at all, but long enough", None])
def test_a_file_that_is_no_parquet_is_skipped(tmp_path: Path, content: bytes | None) -> None:
    data = write_parquet(tmp_path / "b.parquet")
    (tmp_path / "a.parquet").write_bytes(data[:-50] if content is None else content)
    run = parquet_run(tmp_path, "ignore_corrupt_files")
    run.to_end()
    assert numbers(run) == [*range(300)]
    assert run.counters == {"numFilesCorrupt": 1}
    with pytest.raises(CorruptFileError, match=r"a\.parquet is not a Parquet file.*ignore_corrupt_files\(\)"):
        parquet_run(tmp_path).to_end()


def test_no_flipped_byte_ends_in_anything_but_rows_or_a_named_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    data = write_parquet(path)
    told, places = 0, range(0, len(data), 13)
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= 0x01
        path.write_bytes(damaged)
        rows = rows_or_error(parquet_run(tmp_path))
        told += rows is None
        assert rows is None or len(rows) == len(ROWS), at
    assert told > len(places) // 2


# --- files that change while they are read ---------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".parquet"])
@pytest.mark.parametrize("options", [(), ("ignore_corrupt_files", "ignore_missing_files")])
def test_a_file_that_shrinks_between_plan_and_end_is_never_read_short(
    tmp_path: Path, suffix: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 12)
    path = tmp_path / f"a{suffix}"
    if suffix == ".parquet":
        run_for: Callable[..., SourceRun] = parquet_run
        write_parquet(path)
    else:
        run_for = run_of
        path.write_bytes(COMPRESSIONS.get(suffix, lambda data: data)(TEXT))
    for when in ("planned", "opened"):
        run = run_for(tmp_path, *options)
        share = run.enumerator.plan("files", [0, 0], PLENTY, run.now)
        assert share is not None
        whole = path.read_bytes()
        times = path.stat()
        reading = run.source.create_reader().read(share.pieces[0])
        if when == "opened":
            next(reading)
        os.truncate(path, len(whole) // 3)
        with pytest.raises(SourceChangedError, match=f"a{suffix} had {len(whole)} bytes"):
            list(reading)
        path.write_bytes(whole)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


class ShortReads:
    """A file system that gives fewer bytes than it was asked for, or ends a file early."""

    def __init__(self, end: int | None) -> None:
        self.end = end

    def wrap(self, stream: Any) -> Any:
        read, end = stream.read, self.end

        class Wrapped:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                stream.close()

            def seek(self, position: int) -> int:
                return int(stream.seek(position))

            def read(self, size: int, /) -> bytes:
                size = min(size, 3)
                if end is not None:
                    size = max(0, min(size, end - stream.tell()))
                return bytes(read(size))

        return Wrapped()


@pytest.mark.parametrize("budget", [PLENTY, ReadBudget(10, 50, 3)])
def test_short_reads_are_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: ReadBudget) -> None:
    lines = LINES[:40]
    (tmp_path / "a").write_text("\n".join(lines))
    patch_open(monkeypatch, ShortReads(None))
    assert run_of(tmp_path).to_end(budget) == lines


def test_an_end_that_comes_too_early_is_an_error_that_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("\n".join(LINES[:40]))
    for end in (0, 5, 100, 300):
        patch_open(monkeypatch, ShortReads(end))
        with pytest.raises(InfrastructureError, match=r"/a cannot be read .the file ends .* bytes too early"):
            run_of(tmp_path).to_end(ReadBudget(5, 100, 2))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_that_may_not_be_read_is_told_and_neither_missing_nor_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Somebody will let the job read it; that it is left out would be a loss."""
    (tmp_path / f"a{suffix}").write_bytes(COMPRESSIONS[suffix](TEXT) if suffix else TEXT)

    def refuse(path: Any, *args: Any, **kwargs: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(file_system, "Path", type("Refusing", (type(Path()),), {"open": refuse}))
    monkeypatch.setattr(file_system.PosixFileSystem, "open", refuse)
    run = run_of(tmp_path, "ignore_missing_files", "ignore_corrupt_files")
    with pytest.raises(
        InfrastructureError, match=r"a(\.gz)? cannot be read .Permission denied.: let the user that runs"
    ):
        run.to_end()
    assert not run.rejected


def patch_open(monkeypatch: pytest.MonkeyPatch, faults: ShortReads) -> None:
    class Faulty(type(Path())):  # type: ignore[misc]
        def open(self, *args: Any, **kwargs: Any) -> Any:
            return faults.wrap(super().open(*args, **kwargs))

    monkeypatch.setattr(file_system, "Path", Faulty)


# --- watched folders -------------------------------------------------------------------------------------------------


def test_a_watching_job_goes_on_behind_what_is_lost(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder.path)
    builder.monitor_continuously(1000).ignore_missing_files().ignore_corrupt_files().set_dead_letter(REJECTED)
    folder.run = SourceRun(builder.build(), tmp_path / "tolerant", now=folder.run.now)
    folder.put("a", age=10)
    folder.put("b", age=9)
    (folder.path / "c.gz").write_bytes(b"x")
    os.utime(folder.path / "c.gz", ns=(folder.run.now * 10**6,) * 2)
    assert folder.epoch(TINY) == ["a"]
    (folder.path / "b").unlink()
    for _ in range(4):
        folder.epoch(TINY)
        folder.run.restart()
    folder.put("d")
    assert folder.epoch() == ["d"]
    assert folder.run.rows == ["a", "d"]
    assert folder.run.counters == {"numFilesMissing": 1, "numFilesCorrupt": 1}
    assert len(folder.run.rejected) == 2
