"""``TableSection``: the rows of a run in a sorted table of RocksDB, as bytes in the order of hash and key."""

from __future__ import annotations

import base64
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.state.keys.groups import HASH_END
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.run import ALL_HASHES
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.state.keys import KeyColumn
    from headrace.state.rocksdb.local_tables import LocalTables
    from headrace.state.rocksdb.table import Table
    from headrace.state.runs import HashRange
    from headrace.storage.file_system import MappedFile


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
    """What no row of that hash, or of a greater one, comes before."""
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
    """A section of which keys are looked up in a table, or ranges of hashes are read; all of it only when asked for."""

    __slots__ = ("_about", "_codec", "_tables")

    def __init__(self, entry: dict[str, Any], file: str, tables: LocalTables) -> None:
        self.rows, self.file, self.offset = entry["rows"], file, 0
        self._head, self._length = 0, entry["size"]
        self._about = entry[TABLE]
        self._tables = tables
        self._codec = RowCodec(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self._about["schema"]))))
        self._verified = None  # RocksDB checks each block that it reads

    @property
    def is_table(self) -> bool:
        return True

    @property
    def schema(self) -> pa.Schema:
        return self._codec.schema

    def narrowed(self, keys: KeyColumn) -> Section:
        """Those rows that keys, in the order of runs, have."""
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

    def let_go(self) -> None:
        """Nothing is held."""

    def _opened(self) -> pa.RecordBatch:
        return self.between(ALL_HASHES)

    def _find(self, table: Table, keys: list[bytes]) -> dict[bytes, bytes]:
        if len(keys) * _SCAN_COST < self.rows:
            found = zip(keys, table.get(keys), strict=True)
            return {key: value for key, value in found if value is not None}
        wanted = set(keys)
        rows = table.scan(keys[0], None if keys[-1] == b"" else keys[-1] + b"\0")
        return {key: value for key, value in rows if key in wanted}
