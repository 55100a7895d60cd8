"""Lines of text files: every cut gives the same lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.common.errors import (
    BadRecordError,
    ConfigurationError,
    InvalidProgramError,
    SourceChangedError,
    UnsupportedOperationError,
)
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.connectors.source import EnumeratorContext, ReadBudget
from headrace.datastream.connectors.file_system import FileEnumeratorProvider, FileSource, StreamFormat
from headrace.formats import lines as blocks
from headrace.formats.text import TextLineFormat
from headrace.storage.folder import posix_folder
from tests.connectors.harness import PLENTY, SourceRun, read_all
from tests.draws import draws

REJECTED = OutputTag("rejected", Types.TUPLE([str, str, str]))
characters = st.sampled_from(["a", "é", "😀", "\r", "\n", "\r\n", "\n\n", "bc", " ", "\u2028"])
texts = st.lists(characters, max_size=40).map("".join)
budgets = st.builds(ReadBudget, records=st.integers(1, 30), bytes=st.integers(1, 60), pieces=st.integers(1, 4))


def expected_lines(text: str) -> list[str]:
    """What the lines are, said more slowly."""
    if not text:
        return []
    lines = text.removesuffix("\n").split("\n") if text.endswith("\n") else text.split("\n")
    ended = len(lines) if text.endswith("\n") else len(lines) - 1
    return [line.removesuffix("\r") if index < ended else line for index, line in enumerate(lines)]


def text_source(*paths: Path, charset: str = "UTF-8") -> FileSource:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), *paths).build()


@given(st.lists(texts, min_size=1, max_size=3), budgets)
@settings(deadline=None)
@example(["\n"], ReadBudget(1, 1))
@example(["a\r\n\r\nb\r"], ReadBudget(1, 1))
def test_every_cut_gives_the_same_lines(contents: list[str], budget: ReadBudget) -> None:
    with TemporaryDirectory() as folder:
        for number, content in enumerate(contents):
            (Path(folder) / f"{number}.txt").write_bytes(content.encode())
        lines = [line for content in contents for line in expected_lines(content)]
        assert read_all(text_source(Path(folder)), Path(folder) / ".state", budget) == lines


@given(texts, budgets)
@settings(max_examples=draws(50), deadline=None)  # files are synced
def test_small_blocks_give_the_same_lines(content: str, budget: ReadBudget) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", 3)
        patch.setattr(blocks, "_SEEK_BYTES", 2)
        (Path(folder) / "a.txt").write_bytes(content.encode())
        assert read_all(text_source(Path(folder)), Path(folder) / ".state", budget) == expected_lines(content)


def test_a_restart_goes_on_from_every_epoch(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(50)]
    for name, part in (("a.txt", lines[:20]), ("b.txt", lines[20:])):
        (tmp_path / name).write_text("\n".join(part))
    run = SourceRun(text_source(tmp_path), tmp_path / ".state")
    run.to_end(ReadBudget(records=7, bytes=10**6, pieces=2))
    epochs = len(run.snapshots)
    assert epochs > 5
    (tmp_path / "c.txt").write_text("too late\n")
    for epoch in range(epochs):
        run.restart(epoch)
        assert run.to_end() == lines
        assert run.rows[: len(run.snapshots[epoch][1])] == run.snapshots[epoch][1]


def test_records_are_bounded_roughly(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0123456789\n" * 10_000)
    run = SourceRun(text_source(tmp_path), tmp_path / ".state")
    run.epoch(ReadBudget(records=1000, bytes=10**9, pieces=2))
    assert 900 <= len(run.rows) <= 1001


def test_pieces_are_about_equal(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0123456789\n" * 1000)
    (tmp_path / "b.txt").write_text("0123456789\n" * 3000)
    context = EnumeratorContext(2, posix_folder(tmp_path / ".state"))
    share = text_source(tmp_path).create_enumerator(context).plan("files", [0, 0], ReadBudget(10**9, 10**9, 4), 0)
    assert share is not None
    sizes = [sum(end - start for *_, start, end in piece) for piece in share.pieces]
    assert sizes == [11_000] * 4
    assert share.bytes == 44_000
    assert 3900 <= share.records <= 4100


def test_files_can_be_left_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0123456789\n" * 100)
    builder = FileSource.for_record_stream_format(TextLineFormat(), tmp_path)
    builder.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
    run = SourceRun(builder.build(), tmp_path / ".state")
    run.epoch(ReadBudget(1, 1, 3))
    assert len(run.rows) == 100
    builder.set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator())
    run = SourceRun(builder.build(), tmp_path / ".state")
    run.epoch(ReadBudget(10, 1000, 3))
    assert len(run.rows) <= 11


COMPRESSIONS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_compressed_files_are_read_whole(tmp_path: Path, suffix: str) -> None:
    lines = [f"line {number}" for number in range(1000)]
    (tmp_path / f"a.txt{suffix}").write_bytes(COMPRESSIONS[suffix]("\n".join(lines).encode()))
    (tmp_path / "b.txt").write_text("plain\n")
    assert read_all(text_source(tmp_path), tmp_path / ".state", ReadBudget(10, 10, 3)) == [*lines, "plain"]


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_damaged_compressed_file_is_named(tmp_path: Path, suffix: str) -> None:
    data = COMPRESSIONS[suffix](b"line\n" * 100_000)
    (tmp_path / f"a{suffix}").write_bytes(data[: len(data) // 2])
    with pytest.raises(BadRecordError, match=f"a{suffix} cannot be decompressed"):
        read_all(text_source(tmp_path), tmp_path / ".state")


@pytest.mark.parametrize("charset", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "shift_jis"])
def test_other_charsets(tmp_path: Path, charset: str) -> None:
    lines = ["caf" + ("é" if "shift" not in charset else "ソ"), "", "x" * 100] * 20
    (tmp_path / "a.txt").write_bytes("\r\n".join(lines).encode(charset))
    source = text_source(tmp_path, charset=charset)
    assert read_all(source, tmp_path / ".state", ReadBudget(10**6, 50, 3)) == lines


def test_an_unknown_charset_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="klingon"):
        StreamFormat.text_line_format("klingon")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbffirst\nsecond")
    for budget in (PLENTY, ReadBudget(1, 1)):
        assert read_all(text_source(tmp_path), tmp_path / ".state", budget) == ["first", "second"]


def test_bytes_that_are_no_text_fail_the_job(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\nth\xffree\nfour\n")
    for budget in (PLENTY, ReadBudget(1, 4, 2)):
        with pytest.raises(BadRecordError, match=r"a\.txt:3: not utf-8: byte 0xff at position 2.*th\\\\xffree"):
            read_all(text_source(tmp_path), tmp_path / ".state", budget)


@given(st.sets(st.integers(0, 19)), budgets)
@settings(max_examples=draws(50), deadline=None)
def test_bytes_that_are_no_text_are_put_aside(bad: set[int], budget: ReadBudget) -> None:
    lines = [b"\xff" if number in bad else b"good %d" % number for number in range(20)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.txt"
        path.write_bytes(b"\n".join(lines))
        builder = FileSource.for_record_stream_format(TextLineFormat(), folder).set_dead_letter(REJECTED)
        run = SourceRun(builder.build(), Path(folder) / ".state")
        run.to_end(budget)
        assert run.rows == [f"good {number}" for number in range(20) if number not in bad]
        assert [where for where, _, _ in run.rejected] == [f"{path}:{number + 1}" for number in sorted(bad)]


@pytest.mark.parametrize("block", [7, 1 << 20])
def test_a_line_that_is_too_long_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block)
    (tmp_path / "a.txt").write_bytes(b"short\n" + b"x" * 5000 + b"\nlast\n" + b"y" * 5000)
    fmt = TextLineFormat(max_line_bytes=1000)
    run = SourceRun(
        FileSource.for_record_stream_format(fmt, tmp_path).set_dead_letter(REJECTED).build(), tmp_path / ".state"
    )
    assert run.to_end() == ["short", "last"]
    assert [(where[-2:], reason) for where, _, reason in run.rejected] == [
        (":2", "the line is too long"),
        (":4", "the line is too long"),
    ]
    with pytest.raises(BadRecordError, match=r"a\.txt:2: the line is too long"):
        read_all(FileSource.for_record_stream_format(fmt, tmp_path).build(), tmp_path / ".state")


def test_long_lines_need_no_limit_below_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    lines = ["x" * 5000, "short", "y" * 3000]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    assert read_all(text_source(tmp_path), tmp_path / ".state", ReadBudget(10**6, 700, 3)) == lines


def test_which_files_are_read(tmp_path: Path) -> None:
    for name in ("b.txt", "a.log", "sub/c.txt", ".hidden.txt", "_SUCCESS", "_tmp/d.txt", ".git/e.txt", "sub/empty.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("" if "empty" in name else f"{name}\n")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path / "sub")
    state = tmp_path / ".state"
    assert read_all(text_source(tmp_path), state) == ["a.log", "b.txt", "sub/c.txt"]
    assert read_all(text_source(tmp_path / "*.txt"), state) == ["b.txt"]
    assert read_all(text_source(tmp_path / "**" / "*.txt"), state) == ["b.txt", "sub/c.txt"]
    assert read_all(text_source(tmp_path / ".hidden.txt"), state) == [".hidden.txt"]
    assert read_all(text_source(tmp_path / "su?"), state) == ["sub/c.txt"]
    assert read_all(text_source(tmp_path / "b.txt", tmp_path), state) == ["a.log", "b.txt", "sub/c.txt"]
    assert read_all(text_source(tmp_path / "no*"), state) == []
    uri = FileSource.for_record_stream_format(TextLineFormat(), f"file://{tmp_path}/b.txt").build()
    assert read_all(uri, state) == ["b.txt"]


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file://{}/a%20b.txt", "a b.txt"),
        ("file:{}/a b.txt", "a b.txt"),
        ("FILE://localhost{}/a%23b%3F%25.txt", "a#b?%.txt"),
        ("file://{}/a#b.txt", "a#b.txt"),
        ("file://{}/?b.txt?c", "ab.txt?c"),
        ("file://{}/100%.txt", "100%.txt"),
        ("file://{}/%C3%BC.txt", "ü.txt"),
        ("file://{}/%FF.txt", "\udcff.txt"),
        ("file://{}/a%0Ab.txt", "a\nb.txt"),
        ("{}/a%20b.txt", "a%20b.txt"),
    ],
)
def test_a_uri_means_the_file_that_it_names(tmp_path: Path, uri: str, name: str) -> None:
    """Nothing of it is cut off."""
    (tmp_path / name).write_text("found\n")
    source = FileSource.for_record_stream_format(TextLineFormat(), uri.format(tmp_path)).build()
    assert read_all(source, tmp_path / ".state") == ["found"]


def test_a_file_with_a_star_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "a*.txt").write_text("star\n")
    (tmp_path / "ab.txt").write_text("other\n")
    assert read_all(text_source(tmp_path / "a*.txt"), tmp_path / ".state") == ["star"]


def test_paths_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match="no file or folder"):
        SourceRun(text_source(tmp_path / "missing"), tmp_path / ".state")
    with pytest.raises(InvalidProgramError, match="at least one path"):
        text_source()
    for path in ("s3:/bucket/key", "ftp://host/path", "hdfs:/path", "file://host/path"):
        with pytest.raises(UnsupportedOperationError, match="POSIX paths, HDFS and object stores"):
            FileSource.for_record_stream_format(TextLineFormat(), path)


@pytest.mark.parametrize("change", ["append", "touch", "delete", "replace"])
def test_a_changed_file_is_an_error(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    run = SourceRun(text_source(tmp_path), tmp_path / ".state")
    run.epoch(ReadBudget(1, 4))
    if change == "append":
        path.write_text("one\ntwo\nthree\nfour\n")
    elif change == "touch":
        os.utime(path, ns=(1, 1))
    elif change == "delete":
        path.unlink()
    else:
        path.write_text("uno\ndos\ntres.\n")
    with pytest.raises(SourceChangedError, match=r"a\.txt"):
        run.to_end()
