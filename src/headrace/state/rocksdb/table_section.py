"""``TableSection``: the rows of a run that lie in a sorted table of RocksDB."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.state.keys.groups import HASH_END
from headrace.state.rocksdb.rows import RowCodec, first_key, row_keys
from headrace.state.runs.run import ALL_HASHES
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.state.keys import KeyColumn
    from headrace.state.rocksdb.local_tables import LocalTables
    from headrace.state.rocksdb.table import Table
    from headrace.state.runs import HashRange
    from headrace.storage.folder import MappedFile

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
