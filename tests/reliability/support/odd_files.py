"""Files as they come in real life, and what is in them: known because they are made here, not because they are read.

Every file holds lines of CSV with the columns ``id, key, time, amount, note``. Names, encodings, line ends and
compressions are odd; many lines are bad on purpose. Nothing here uses headrace.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

BOM = b"\xef\xbb\xbf"
MAX_LINE = 56 << 20
"""Bytes of the longest line that is a record."""

ROUND = 1_000
"""Milliseconds of event time by which a round of files is later than the one before."""

JITTER = 3_000
"""Milliseconds by which a record may be later than its round."""

BOUND = 20_000
"""Milliseconds that a watermark stays behind: files of neighbouring rounds may be read in any order."""

FIRST_LATE_ROUND = 40
"""From this round on there are records of the very first moments, which are late in whatever order files are read."""

_SHOWN_BYTES = 1_000
_SHOWN_BYTES_OF_A_LONG_LINE = 200

_KEYS = [
    *(f"k{number}" for number in range(20)),
    *(
        "",
        " ",
        "  padded ",
        "a,b",
        'say "hi"',
        '"',
        "tab\there",
        "ключ",
        "鍵",
        "مفتاح",
        "e\u0301",
        "\u00e9",
        "😀",
        "NULL",
    ),
    *("None", "nan", "0", "-1", "#no comment", "x" * 300),
]
_STEMS = [
    "naïve",
    "nai\u0308ve",
    "日本語",
    "😀",
    "two words",
    "100%20",
    "new\nline",
    "a'\"b",
    "#hash",
    "[x]*?",
    "n" * 200,
]


class Record(NamedTuple):
    """What a good line says.

    Attributes:
        id: different for every record.
        key: the key.
        time: event time in milliseconds.
        amount: a number.
        note: the CRC-32 of a text.
    """

    id: int
    key: str
    time: int
    amount: int
    note: int

    @property
    def is_late(self) -> bool:
        """Whether the record is late wherever it is read."""
        return self.time < 0


class BadLine(NamedTuple):
    """A line that cannot be read.

    Attributes:
        file: the name of the file; bytes in it that are no UTF-8 are escapes.
        line: which line, counted from 1.
        raw: the line as it is shown.
    """

    file: str
    line: int
    raw: str


@dataclass(frozen=True)
class Line:
    """A line and what it means; with neither a record nor a reason to be bad it is blank.

    Attributes:
        raw: the line without its line end.
        record: what it says, if it is good.
        is_bad: whether it cannot be read.
        is_too_long: whether it is bad for its length alone.
    """

    raw: bytes
    record: Record | None = None
    is_bad: bool = False
    is_too_long: bool = False


@dataclass(frozen=True)
class OddFile:
    """A file.

    Attributes:
        name: its path below the folder that is watched.
        content: its bytes.
        records: what its good lines say, in order.
        bad: its bad lines.
    """

    name: str
    content: bytes
    records: list[Record]
    bad: list[BadLine]

    def publish(self, folder: Path) -> None:
        """Write under a hidden name, then rename: what is visible is complete."""
        target = folder / self.name
        target.parent.mkdir(exist_ok=True)
        hidden = target.with_name(".being-written")
        hidden.write_bytes(self.content)
        hidden.rename(target)


class OddFiles:
    """Makes files, round after round.

    Args:
        seed: of all that is random.
    """

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._next_id = 0
        self._round = 0
        self._in_round = 0
        self._kinds: list[Callable[[], OddFile]] = []

    def next_round(self, count: int) -> list[OddFile]:
        """So many files of the next round; every kind comes as often as any other."""
        files = []
        for _ in range(count):
            if not self._kinds:
                self._kinds = self._every_kind()
                self._chance.shuffle(self._kinds)
            files.append(self._kinds.pop()())
        if self._round % 20 == 7:
            files += [self._tiny() for _ in range(60)]
        self._round += 1
        self._in_round = 0
        return files

    def with_long_line(self, which: int) -> OddFile:
        """A line of 50 MB (0: a record, 1: none) or one that is too long (2), among usual ones; for the next round."""
        if which == 0:
            line = self._good(note="long " * (10 << 20))
        elif which == 1:
            line = Line(b"not a record " * (4 << 20), is_bad=True)
        else:
            line = Line(b"1,too long,0,0," + b"x" * MAX_LINE, is_bad=True, is_too_long=True)
        return self._file("long-line.csv", [*self._some(5), line, *self._some(5)])

    def last(self) -> OddFile:
        """A file without oddities, in a round of its own."""
        return self._file("last.csv", self._some(10))

    def _every_kind(self) -> list[Callable[[], OddFile]]:
        return [
            *[self._plain] * 3,
            self._unix_and_windows,
            self._with_mark,
            self._without_final_newline,
            self._bad_rows,
            self._not_utf8,
            self._garbage,
            self._garbage_among_records,
            self._blank,
            self._only_bad,
            *(self._compressor(suffix) for suffix in _COMPRESSIONS),
        ]

    # --- kinds of files -----------------------------------------------------------------------------------------------

    def _plain(self) -> OddFile:
        return self._file("plain.csv", self._some(self._chance.randint(100, 800)))

    def _unix_and_windows(self) -> OddFile:
        ends = [self._chance.choice([b"\n", b"\r\n"]) for _ in range(200)]
        return self._file("line-ends.csv", self._some(200), ends)

    def _with_mark(self) -> OddFile:
        return self._file("mark.csv", self._some(100), begin=BOM)

    def _without_final_newline(self) -> OddFile:
        return self._file("no-end.csv", self._some(50), [b"\n"] * 49 + [b""])

    def _bad_rows(self) -> OddFile:
        lines = [self._bad() if self._chance.random() < 0.2 else self._good() for _ in range(300)]
        return self._file("bad-rows.csv", lines, [b"\r\n"] * 300 if self._chance.random() < 0.5 else None)

    def _not_utf8(self) -> OddFile:
        latin = [Line(f"{number},Zoë,0,0,x".encode("latin-1"), is_bad=True) for number in range(10)]
        return self._file("latin.csv", [line for bad in latin for line in (*self._some(7), bad)])

    def _garbage(self) -> OddFile:
        return self._file("garbage.bin", list(self._noise(4_000)))

    def _garbage_among_records(self) -> OddFile:
        lines = [*self._noise(2_000), *self._some(100)]
        self._chance.shuffle(lines)
        return self._file("some-garbage.csv", lines)

    def _blank(self) -> OddFile:
        return self._file("blank.csv", [Line(b"")] * self._chance.randint(1, 5))

    def _only_bad(self) -> OddFile:
        return self._file("only-bad.csv", [self._bad() for _ in range(20)])

    def _tiny(self) -> OddFile:
        return self._file("tiny.csv", self._some(1))

    def _compressor(self, suffix: str) -> Callable[[], OddFile]:
        def make() -> OddFile:
            lines = [self._bad() if self._chance.random() < 0.05 else self._good() for _ in range(300)]
            return self._file(f"packed.csv{suffix}", lines, pack=_COMPRESSIONS[suffix])

        return make

    def _file(
        self,
        kind: str,
        lines: list[Line],
        ends: list[bytes] | None = None,
        begin: bytes = b"",
        pack: Callable[[bytes], bytes] = bytes,
    ) -> OddFile:
        stem = self._chance.choice(_STEMS) + "-" if self._chance.random() < 0.3 else ""
        folder = self._chance.choice(["", "", "below/"])
        name = f"{folder}{stem}{self._round:03}-{self._in_round:03}-{kind}"
        self._in_round += 1
        ends = ends or [b"\n"] * len(lines)
        content = begin + b"".join(line.raw + end for line, end in zip(lines, ends, strict=True))
        shown_name = os.fsencode(name).decode(errors="backslashreplace")
        records = [line.record for line in lines if line.record is not None]
        bad = [
            BadLine(shown_name, number, _shown(line, end))
            for number, (line, end) in enumerate(zip(lines, ends, strict=True), 1)
            if line.is_bad
        ]
        return OddFile(name, pack(content), records, bad)

    # --- lines --------------------------------------------------------------------------------------------------------

    def _some(self, count: int) -> list[Line]:
        return [self._good() for _ in range(count)]

    def _good(self, note: str | None = None) -> Line:
        chance = self._chance
        key, amount = chance.choice(_KEYS), chance.randint(-1_000, 1_000)
        is_late = self._round >= FIRST_LATE_ROUND and chance.random() < 0.01
        time = -chance.randint(1, 10_000) if is_late else self._round * ROUND + chance.randint(0, JITTER)
        text = chance.choice(_KEYS) if note is None else note
        record = Record(self._next_id, key, time, amount, zlib.crc32(text.encode()))
        self._next_id += 1
        return Line(f"{record.id},{_cell(key, chance)},{time},{amount},{_cell(text, chance)}".encode(), record)

    def _bad(self) -> Line:
        key = self._chance.choice(_KEYS[:20])
        return Line(
            self._chance.choice(
                [
                    b"nothing",
                    f"1,{key},2,3".encode(),
                    f"1,{key},2,3,note,more".encode(),
                    f"one,{key},2,3,note".encode(),
                    f"1,{key},2,{2**63},note".encode(),
                    f"1,{key},2.5,3,note".encode(),
                    f'1,"{key},2,3,note'.encode(),
                    f"1,{key}\r,2,3,note".encode(),
                    b"1," + key.encode() + b"\xff,2,3,note",
                    b"1,\xed\xa0\x80,2,3,a lone surrogate",
                    b"\0\0\0,\0,,,",
                    "1,ключ,2,3,note".encode("utf-16-le"),
                    b"y" * 3_000,
                ]
            ),
            is_bad=True,
        )

    def _noise(self, count: int) -> Iterator[Line]:
        """Random bytes; without commas, so that no line is a record by chance."""
        likely = b'\n\n\n\n\r\r"""\0\x1a;\t '
        letters = bytes(range(256)) + likely * 3
        data = bytes(self._chance.choices(letters.replace(b",", b""), k=count))
        for raw in data.split(b"\n"):
            yield Line(raw, is_bad=raw not in (b"", b"\r"))


def clutter(folder: Path) -> None:
    """What else lies in folders, and is nobody's input."""
    folder.mkdir()
    (folder / "empty.csv").touch()
    (folder / "_SUCCESS").write_text("1,k,0,0,hidden\n")
    (folder / ".left-behind.csv").write_text("1,k,0,0,hidden\n")
    (folder / "lost+found").mkdir()
    (folder / ".snapshot").mkdir()
    (folder / ".snapshot" / "old.csv").write_text("1,k,0,0,hidden\n")
    (folder / "to-nowhere.csv").symlink_to(folder / "nowhere")
    (folder / "round-in-circles").symlink_to(folder)
    os.mkfifo(folder / "pipe.csv")


def _cell(text: str, chance: random.Random) -> str:
    """A value as CSV spells it; in quotes where it has to be, and now and then where it need not."""
    must = any(character in text for character in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if must or chance.random() < 0.1 else text


def _shown(line: Line, end: bytes) -> str:
    """A bad line as a dead letter shows it."""
    if line.is_too_long:
        return line.raw[:_SHOWN_BYTES_OF_A_LONG_LINE].decode()
    whole = line.raw + end
    shown = whole[:_SHOWN_BYTES].rstrip(b"\r\n").decode(errors="backslashreplace")
    return shown + "…" if len(whole) > _SHOWN_BYTES else shown


def _two_members(data: bytes) -> bytes:
    middle = len(data) // 2
    return gzip.compress(data[:middle]) + gzip.compress(b"") + gzip.compress(data[middle:])


def _with_arrow(codec: str) -> Callable[[bytes], bytes]:
    def pack(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return bytes(sink.getvalue())

    return pack


_COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".GZ": _two_members,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": _with_arrow("zstd"),
    ".lz4": _with_arrow("lz4"),
}
