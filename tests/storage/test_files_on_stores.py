"""Files of users on remote stores: which of them paths stand for, and how they are read."""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.file_system.paths import InputPaths, resolved
from headrace.storage.files import FileStore
from headrace.storage.locations import file_system_of
from tests.storage.hdfs_cluster import HdfsCluster
from tests.storage.stores import Store, on


class Place:
    """A folder of a store with files of somebody."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.uri, self.options = store.new_place(), store.options()

    def put(self, path: str, content: bytes = b"x") -> None:
        self._store.put(f"{self.uri}/{path}", content)

    def find(self, *paths: str) -> list[str]:
        found = InputPaths([resolved(f"{self.uri}/{path}") for path in paths], self.options).find()
        return [status.path.removeprefix(f"{self.uri}/") for status in found]

    def files(self) -> FileStore:
        return FileStore(file_system_of("/".join(self.uri.split("/")[:3]), self.options))


@pytest.fixture
def place(store: Store) -> Place:
    return Place(store)


KEYS = ["a.csv", "in/a.csv", "in/b.txt", "in/x/a.csv", "in/x/y/a.csv", "in/.h.csv", "in/_s/a.csv", "inn/a.csv", "in/*"]


@pytest.mark.sampled(8)
@on()
@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("in", ["in/*", "in/a.csv", "in/b.txt", "in/x/a.csv", "in/x/y/a.csv"]),
        ("in/", ["in/*", "in/a.csv", "in/b.txt", "in/x/a.csv", "in/x/y/a.csv"]),
        ("in/a.csv", ["in/a.csv"]),
        ("in/.h.csv", ["in/.h.csv"]),
        ("in/_s", ["in/_s/a.csv"]),
        ("in/*", ["in/*"]),
        ("in/?.csv", ["in/a.csv"]),
        ("in/[x-z]", ["in/x/a.csv", "in/x/y/a.csv"]),
        ("in/**/a.csv", ["in/a.csv", "in/x/a.csv", "in/x/y/a.csv"]),
        ("in/_s/*.csv", ["in/_s/a.csv"]),
        ("i*/a.csv", ["in/a.csv", "inn/a.csv"]),
        ("*/x", ["in/x/a.csv", "in/x/y/a.csv"]),
        ("*.csv", ["a.csv"]),
        ("nothing", []),
        ("nothing/*", []),
        ("", ["a.csv", "in/*", "in/a.csv", "in/b.txt", "in/x/a.csv", "in/x/y/a.csv", "inn/a.csv"]),
    ],
)
def test_what_a_path_stands_for(place: Place, store: Store, path: str, found: list[str]) -> None:
    """The same as of a folder; where there is a folder for what a key has in front of a slash."""
    for key in KEYS:
        place.put(key)
    place.put("in/empty.csv", b"")
    if not isinstance(store, HdfsCluster):
        place.put("in/folder/", b"")
    assert place.find(path) == found


@on()
def test_it_reads_from_anywhere(place: Place) -> None:
    chosen = random.Random(7)
    content = chosen.randbytes(3_000_000)
    place.put("a", content)
    with place.files().open(f"{place.uri}/a") as stream:
        for _ in range(200):
            if chosen.random() < 0.3:
                stream.seek(chosen.randrange(len(content) + 10))
            at, length = stream.tell(), chosen.choice([0, 1, 1000, 100_000, 1_000_000])
            assert stream.read(length) == content[at : at + length]
        assert stream.seek(-5, io.SEEK_END) == len(content) - 5
        assert stream.readall() == content[-5:]
        assert stream.read(10) == b""


@on()
def test_parquet_is_read(place: Place) -> None:
    table, sink = pa.table({"x": range(200_000)}), io.BytesIO()
    pq.write_table(table, sink)
    place.put("a.parquet", sink.getvalue())
    assert pq.read_table(place.files().open_for_arrow(f"{place.uri}/a.parquet")).equals(table)


@on()
def test_a_file_is_the_same_however_it_is_found(place: Place) -> None:
    """Its version, too, which Azure spells in two ways."""
    place.put("in/deep/a.csv", b"1\n2\n")
    place.put("in/_hidden/b.csv", b"3\n")
    (found,) = InputPaths([f"{place.uri}/in"], place.options).find()
    files: Any = place.files()
    assert files.status(found.path) == found
    with files.open(found.path) as file:
        assert file.read() == b"1\n2\n"
    place.put("in/deep/a.csv", b"1\n3\n\n")
    assert files.status(found.path) != found
