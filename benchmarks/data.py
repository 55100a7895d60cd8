"""The input: Parquet files of ``(key, ts, value)``, made once and kept."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_MILLIS = 1_700_000_000_000
OUT_OF_ORDER_MILLIS = 5_000
EVENTS_FILE = "_events.bin"
"""Beside the Parquet files of :class:`Prices`; readers of folders pass over a name that begins like this."""
_FIRST_MTIME = 1_700_000_000
_GROUPS_PER_FILE = 10
_FIELDS = ("key", "ts", "price", "ok")
_EVENT = np.dtype(list(zip(_FIELDS, (">i8", ">i8", ">f8", "?"), strict=True)))
_FAILING = 0.3


class DataSpec(Protocol):
    """What a data set looks like."""

    @property
    def folder_name(self) -> str:
        """A name that tells the data set from every other."""

    def write(self, folder: Path) -> None:
        """Make the files."""


@dataclass(frozen=True, slots=True)
class RandomKeys:
    """Records with random keys, a little out of order.

    Attributes:
        files: how many files there are.
        records_per_file: how many records each of them has.
        keys: how many keys there are; each record has one at random.
        strings: whether keys are strings such as ``card-000123`` instead of integers.
        span_millis: how much event time there is in all.
        row_groups: how many row groups a file has.
    """

    files: int
    records_per_file: int
    keys: int
    strings: bool = False
    span_millis: int = 250_000
    row_groups: int = _GROUPS_PER_FILE

    @property
    def records(self) -> int:
        """How many records there are."""
        return self.files * self.records_per_file

    @property
    def folder_name(self) -> str:
        """A name that tells the data set from every other."""
        return "-".join(f"{name}_{int(value)}" for name, value in asdict(self).items())

    def write(self, folder: Path) -> None:
        """Make the files."""
        random = np.random.default_rng(7)
        names = pa.array([f"card-{number:06d}" for number in range(self.keys)]) if self.strings else None
        size = self.records_per_file
        for number in range(self.files):
            indices = np.arange(number * size, (number + 1) * size)
            millis = START_MILLIS + indices * self.span_millis // self.records
            late = random.integers(-OUT_OF_ORDER_MILLIS, 0, size)
            keys = pa.array(random.integers(0, self.keys, size))
            write_file(
                folder,
                number,
                records(keys if names is None else names.take(keys), millis + late, random.random(size)),
                self.row_groups,
            )


@dataclass(frozen=True, slots=True)
class Prices:
    """Events with random keys and prices, a millisecond apart, for patterns.

    They are in :data:`EVENTS_FILE` as well, without compression and in Java's byte order, for programs without Parquet.

    Attributes:
        files: how many files there are.
        records_per_file: how many records each of them has.
        keys: how many keys there are; each record has one at random.
    """

    files: int
    records_per_file: int
    keys: int

    @property
    def records(self) -> int:
        """How many records there are."""
        return self.files * self.records_per_file

    @property
    def folder_name(self) -> str:
        """A name that tells the data set from every other."""
        return f"prices-{self.keys}-{self.files}-{self.records_per_file}"

    def write(self, folder: Path) -> None:
        """Make the files."""
        random, size = np.random.default_rng(7), self.records_per_file
        with (folder / EVENTS_FILE).open("wb") as plain:
            for number in range(self.files):
                events = np.empty(size, _EVENT)
                events["key"] = random.integers(0, self.keys, size)
                events["ts"] = START_MILLIS + np.arange(number * size, (number + 1) * size)
                events["price"] = random.random(size) * 100
                events["ok"] = random.random(size) >= _FAILING
                plain.write(events.tobytes())
                key, millis, price, ok = (events[name].astype(events[name].dtype.newbyteorder("=")) for name in _FIELDS)
                times = pa.array(millis * 1000, pa.timestamp("us", "UTC"))
                table = pa.table({"key": key, "ts": times, "price": price, "ok": ok})
                write_file(folder, number, table, _GROUPS_PER_FILE)


@dataclass(frozen=True, slots=True)
class HotKey:
    """Records of which every other one has the same key; the others have random ones.

    Attributes:
        files: how many files there are.
        records_per_file: how many records each of them has.
        keys: how many keys there are.
    """

    files: int
    records_per_file: int
    keys: int

    @property
    def folder_name(self) -> str:
        """A name that tells the data set from every other."""
        return f"hot-{self.keys}-{self.files}-{self.records_per_file}"

    def write(self, folder: Path) -> None:
        """Make the files."""
        random = np.random.default_rng(7)
        for number in range(self.files):
            keys = random.integers(0, self.keys, self.records_per_file)
            keys[::2] = 1
            millis = np.full(len(keys), START_MILLIS + number)
            write_file(folder, number, records(pa.array(keys), millis, random.random(len(keys))), _GROUPS_PER_FILE)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Records with times at regular distances, for joins: two of one key are near each other if they are few apart.

    Attributes:
        files: how many files there are.
        records_per_file: how many records each of them has.
        keys: how many keys there are; each record has one at random.
        step_millis: how much later each record is than the one before.
        is_hot: whether every other record has the same key.
    """

    files: int
    records_per_file: int
    keys: int
    step_millis: int
    is_hot: bool

    @property
    def folder_name(self) -> str:
        """A name that tells the data set from every other."""
        kind = "hot" if self.is_hot else "even"
        return f"pairs-{kind}-{self.keys}-{self.step_millis}-{self.files}-{self.records_per_file}"

    def write(self, folder: Path) -> None:
        """Make the files."""
        random, size = np.random.default_rng(7), self.records_per_file
        for number in range(self.files):
            keys = random.integers(0, self.keys, size)
            if self.is_hot:
                keys[::2] = 1
            millis = START_MILLIS + np.arange(number * size, (number + 1) * size) * self.step_millis
            write_file(folder, number, records(pa.array(keys), millis, random.random(size)), _GROUPS_PER_FILE)


@dataclass(frozen=True, slots=True)
class GrowingState:
    """Every key once, so that state holds them all; then the same few keys again and again.

    Attributes:
        keys: how many keys there are in all.
        touched: how many of them occur in each round; they are spread evenly over all keys.
        rounds: how many rounds there are, one file each.
    """

    keys: int
    touched: int
    rounds: int

    @property
    def folder_name(self) -> str:
        """A name that tells the data set from every other."""
        return f"growing-{self.keys}-{self.touched}-{self.rounds}"

    def write(self, folder: Path) -> None:
        """Make the files; a file never has more records than a round, so it is an epoch."""
        random = np.random.default_rng(7)
        first = random.permutation(self.keys)
        parts = [first[at : at + self.touched] for at in range(0, self.keys, self.touched)]
        parts += [random.permutation(self.touched) * (self.keys // self.touched)] * self.rounds
        for number, keys in enumerate(parts):
            millis = np.full(len(keys), START_MILLIS + number)
            write_file(folder, number, records(pa.array(keys), millis, random.random(len(keys))), _GROUPS_PER_FILE)


@dataclass(frozen=True, slots=True)
class NoFiles:
    """For programs that make their own records."""

    @property
    def folder_name(self) -> str:
        """The name of an empty folder."""
        return "nothing"

    def write(self, folder: Path) -> None:
        """There is nothing to write."""


def dataset(spec: DataSpec, folder: Path) -> Path:
    """The folder with the files of a data set, made if it is not there yet."""
    final = folder / spec.folder_name
    if not final.exists():
        unfinished = folder / f".{spec.folder_name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        spec.write(unfinished)
        unfinished.rename(final)
    return final


def first_files(source: Path, count: int, target: Path) -> Path:
    """A folder with only the first files of a data set, as hard links."""
    target.mkdir(parents=True)
    for path in sorted(source.glob("*.parquet"))[:count]:
        os.link(path, target / path.name)
    return target


def write_file(folder: Path, number: int, table: pa.Table, row_groups: int) -> None:
    """One file. Names are in the order of reading, and so are modification times: Spark goes by those."""
    path = folder / f"part-{number:05d}.parquet"
    pq.write_table(table, path, row_group_size=max(1, -(-table.num_rows // row_groups)))
    os.utime(path, (_FIRST_MTIME + number, _FIRST_MTIME + number))


def records(keys: pa.Array, millis: np.ndarray, values: np.ndarray) -> pa.Table:
    """The columns of a file."""
    return pa.table({"key": keys, "ts": pa.array(millis * 1000, pa.timestamp("us", "UTC")), "value": values})
