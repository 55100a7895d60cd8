"""``RocksDBBackend``: versions as ``hashmap`` has them, of runs of which the large ones are tables of RocksDB."""

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.configuration import Configuration
from headrace.common.constants import MAX_WATERMARK
from headrace.state.compaction import CompactionResult, CompactionTask, holds_keys, run_compaction, runs_of_task
from headrace.state.hashmap_backend import HashMapBackend
from headrace.state.keys import KeyColumn
from headrace.state.keys.hashing import HASH_END
from headrace.state.rocksdb.table import PIECE, LocalTables, RocksDBSettings, RocksTable, TableWriter, rocksdict
from headrace.state.runs import ELEMENT_COUNT, HashRange, Run
from headrace.state.runs.layout import HALF_EXPIRED, HASH, KEY
from headrace.state.runs.merging import merged_in_ranges
from headrace.state.runs.run import ALL_HASHES, hashes_of
from headrace.state.runs.sections import Section
from headrace.state.state_file import CompactedName, Entry, SectionOf, entry_of_rows
from headrace.storage.file_system import MappedFile
from headrace.storage.folder import Folder

HASH_BYTES: Final = 8

_DUMPS: Final = partial(pickle.dumps, protocol=5)
_INTEGERS: Final = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def row_keys(keys: KeyColumn) -> list[bytes]:
    """The keys of rows: the hash, then the key, both so that their bytes are in the order of runs."""
    if pa.types.is_int64(keys.values.type):  # different integers have different hashes, so their order does not matter
        both = np.empty((len(keys), 2), ">u8")
        both[:, 0], both[:, 1] = keys.hashes, keys.values.to_numpy().view(np.uint64)
        pairs = both.tobytes()
        return [pairs[at : at + 2 * HASH_BYTES] for at in range(0, len(pairs), 2 * HASH_BYTES)]
    prefixes = keys.hashes.astype(">u8").tobytes()
    values = keys.values.view(_plain(keys.values.type)).to_pylist()
    return [prefixes[at * HASH_BYTES : (at + 1) * HASH_BYTES] + value for at, value in enumerate(values)]


def first_key(hash_: int) -> bytes:
    """A bound that no row of that hash, or of a greater one, precedes."""
    return hash_.to_bytes(HASH_BYTES, "big")


class RowCodec:
    """Rows of one table, to bytes and back.

    Args:
        schema: the columns, with hash and key as the first two.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._fields = [field for field in schema if field.name not in (HASH, KEY)]
        self._plain = [_plain(field.type) for field in self._fields]

    def encode(self, batch: pa.RecordBatch) -> list[bytes]:
        """The values of rows."""
        columns = zip(self._fields, self._plain, strict=True)
        rows = zip(*(batch.column(field.name).view(plain).to_pylist() for field, plain in columns), strict=True)
        return list(map(_DUMPS, rows))

    def decode(self, keys: Sequence[bytes], values: Sequence[bytes]) -> pa.RecordBatch:
        """The rows of keys and values."""
        hashes = np.frombuffer(b"".join([key[:HASH_BYTES] for key in keys]), ">u8").astype(np.uint64)
        columns: list[Any] = [*zip(*map(pickle.loads, values), strict=True)] or [()] * len(self._fields)
        arrays = {
            field.name: pa.array(column, plain).view(field.type)
            for field, plain, column in zip(self._fields, self._plain, columns, strict=True)
        }
        arrays |= {HASH: pa.array(hashes), KEY: self._keys([key[HASH_BYTES:] for key in keys])}
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _keys(self, raws: list[bytes]) -> pa.Array:
        type_ = self.schema.field(KEY).type
        if pa.types.is_int64(type_):
            return pa.array(np.frombuffer(b"".join(raws), ">i8").astype(np.int64))
        return pa.array(raws, _plain(type_)).view(type_)


def _plain(type_: pa.DataType) -> pa.DataType:
    """A type of the same layout whose values are integers, bytes, lists and dicts: none loses anything in Python."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_plain(field.type)) for field in type_])
    if pa.types.is_map(type_):
        entry = pa.struct([type_.key_field, type_.item_field])
        return pa.list_(pa.field("entries", _plain(entry), nullable=False))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_plain(type_.value_type)))
    if pa.types.is_temporal(type_) or pa.types.is_floating(type_):
        return _INTEGERS[type_.bit_width]
    if pa.types.is_decimal(type_):
        return pa.binary(type_.byte_width)
    return pa.binary() if pa.types.is_string(type_) else type_


TABLE: Final = "table"
"""The entry of an index that says what a table has besides: its schema."""

_SCAN_COST: Final = 4
"""Looking a key up takes as long as walking past so many rows, at least."""


class TableSection(Section):
    """A section of which keys are looked up in a table, or ranges of hashes are read; all of it only when needed."""

    __slots__ = ("_about", "_codec", "_length", "_tables")

    def __init__(self, entry: dict[str, Any], file: str, tables: LocalTables) -> None:
        self.rows, self.file, self.offset = entry["rows"], file, 0
        self._length: int = entry["size"]
        self._about = entry[TABLE]
        self._tables = tables
        self._codec = RowCodec(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self._about["schema"]))))
        self._batch = self._bytes = self._encoding = self._load = None  # RocksDB checks each block that it reads

    @property
    def is_table(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return self._length

    @property
    def schema(self) -> pa.Schema:
        return self._codec.schema

    def narrowed(self, keys: KeyColumn) -> Section:
        """The rows of keys, in the order of runs."""
        wanted = row_keys(keys)
        found = self._tables.read(self.file, self._length, lambda table: self._find(table, wanted))
        return Section(self._codec.decode([*found], [*found.values()]))

    def between(self, hashes: HashRange) -> pa.RecordBatch:
        """The rows of a range of hashes."""
        start, stop = first_key(hashes[0]), first_key(hashes[1]) if hashes[1] < HASH_END else None
        rows = self._tables.read(self.file, self._length, lambda table: [*table.scan(start, stop)])
        return self._codec.decode([key for key, _ in rows], [value for _, value in rows])

    def describe(self, at: int) -> dict[str, Any]:
        return {"at": at, "size": self._length, "rows": self.rows, TABLE: self._about}

    def moved_to(self, file: str, offset: int, load: Callable[[], MappedFile]) -> None:
        raise AssertionError("a table is in a file of its own")

    def release(self) -> None:
        """Nothing is held."""

    def _opened(self) -> pa.RecordBatch:
        return self.between(ALL_HASHES)

    def _unverified(self) -> None:
        return None

    def _find(self, table: RocksTable, keys: list[bytes]) -> dict[bytes, bytes]:
        if len(keys) * _SCAN_COST < self.rows:
            found = zip(keys, table.get(keys), strict=True)
            return {key: value for key, value in found if value is not None}
        wanted = set(keys)
        rows = table.scan(keys[0], None if keys[-1] == b"" else keys[-1] + b"\0")
        return {key: value for key, value in rows if key in wanted}


def merge_into_table(
    storage: Folder, tables: LocalTables, settings: RocksDBSettings, task: CompactionTask, runs: Sequence[Run]
) -> CompactionResult:
    """Merges the runs of a task into a table.

    Unlike those of columns, tables of the same rows differ: RocksDB marks each with a number of its own. A process that
    merges twice writes two files, of which one is needed.

    Raises:
        StateCorruptedError: when a file is missing or damaged.
        OSError: when the table cannot be written.
    """
    pieces = merged_in_ranges(runs, is_oldest=task.is_oldest, now=task.now)
    first = next(pieces, None)
    if first is None:
        return CompactionResult(task, None)
    codec, metas = RowCodec(first[0].schema), []
    with tables.new_file() as path:
        writer = TableWriter(path, settings)
        for batch, meta in chain([first], pieces):
            keys = KeyColumn(batch.column(KEY), batch.column(HASH).to_numpy())
            writer.write(row_keys(keys), codec.encode(batch))
            metas.append(meta)
        writer.finish()
        name = str(CompactedName(task.generation, task.stage, task.partition, _digest(path)))
        storage.write(name, _pieces(path))
        size = path.stat().st_size
    whole = Run(
        Section(pa.RecordBatch.from_pylist([], codec.schema)),
        _meta_of_table(metas),
        hashes_of(runs),
        origin=task.partition,
    )
    schema = base64.b64encode(codec.schema.serialize().to_pybytes()).decode()
    place = {"at": 0, "rows": writer.rows, "size": size, TABLE: {"schema": schema}, "file": name}
    return CompactionResult(task, {**entry_of_rows(whole), **place})


def _meta_of_table(metas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The metadata of a table, made of the metadata of the runs of its hash ranges."""
    meta = {entry: said for entry, said in metas[-1].items() if entry != HALF_EXPIRED}
    if ELEMENT_COUNT in meta:
        meta[ELEMENT_COUNT] = sum(each.get(ELEMENT_COUNT, 0) for each in metas)
    # Half of the rows have expired when half of the ranges, which are about as large, have come that far.
    half = sorted(each.get(HALF_EXPIRED, MAX_WATERMARK) for each in metas)[len(metas) // 2]
    return meta if half == MAX_WATERMARK else {**meta, HALF_EXPIRED: half}


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=8)
    for piece in _pieces(path):
        digest.update(piece)
    return digest.hexdigest()


class RocksDBBackend(HashMapBackend):
    """Keyed state in sorted tables of RocksDB, behind changes in columns that have not been merged into them yet.

    Raises:
        ConfigurationError: when the library is not installed.
    """

    def __init__(self, name: str, settings: RocksDBSettings | None = None) -> None:
        super().__init__(name)
        rocksdict()
        self.settings = settings or RocksDBSettings()

    def configured(self, configuration: Configuration) -> "RocksDBBackend":
        return RocksDBBackend(self.name, RocksDBSettings.of(configuration))

    def sections(self, storage: Folder) -> SectionOf:
        tables = LocalTables(storage, self.settings)

        def section_of(entry: Entry, name: str, load: Callable[[], MappedFile]) -> Section:
            return TableSection(entry, name, tables) if TABLE in entry else Section.stored(entry, name, load)

        return section_of

    def is_worth_merging(self, store: str, runs: Sequence[Run]) -> bool:
        """Return whether runs of columns are to become a table for their size alone."""
        last = runs[-1]
        is_large = sum(run.nbytes for run in runs) >= self.settings.largest_columns
        return is_large and not last.section.is_table and holds_keys(store, last.meta)

    def run_compaction(self, storage: Folder, work: CompactionTask) -> CompactionResult:
        is_large = work.size >= self.settings.smallest_table or any(TABLE in entry for entry in work.runs)
        if not (is_large and holds_keys(work.store, work.runs[-1]["meta"])):
            return run_compaction(storage, work)
        runs = runs_of_task(storage, work, self.sections(storage))
        return merge_into_table(storage, LocalTables(storage, self.settings), self.settings, work, runs)
