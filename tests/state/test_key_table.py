"""Tables by key against a dict: a key has the rows that were written last for it, over epochs, merges and rescaling."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.common.typeinfo import TypeInformation, Types
from headrace.state.key_table import KeyTable, merged_by_key
from headrace.state.keys import KeyCodec, KeyColumn, hashing
from headrace.state.keys.groups import partitions_of_hashes
from headrace.state.runs import merging
from headrace.state.runs.merging import register_merger
from headrace.state.runs.ordered import LIVE
from headrace.state.runs.run import order_of_keys
from headrace.state.table_layout import TableLayout
from tests.state.harness import MAX_PARALLELISM, Job

if TYPE_CHECKING:
    from collections.abc import Iterable

KIND = "rows of keys"

Rows = dict[Any, list[tuple[int, int]]]
"""Place and value of each row, by key; a key without rows has none."""


class Tables:
    """The same table in all partitions of a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        columns = {"hash": pa.uint64(), "key": job.codec.arrow_type, "place": pa.int64(), LIVE: pa.bool_()}
        schema = pa.schema({**columns, "value": pa.int64()})
        self.layout = TableLayout("rows", KIND, schema, 3, {"keys": job.codec.to_json()}, {"keys": "key type"})
        self.tables: list[KeyTable] = []

    def begin(self) -> None:
        self.tables = [KeyTable(operator.store("rows"), self.layout) for operator in self.job.begin()]
        for table in self.tables:
            table.begin_epoch()

    def end(self) -> None:
        for table in self.tables:
            table.end_epoch()
        self.job.end()

    def write(self, rows: Rows) -> None:
        for table, keys in self._owned(rows):
            parts = [(key, place, live, value) for key in keys for place, live, value in _rows_of(rows[key])]
            names, places, lives, values = zip(*parts, strict=True)
            column = self.job.codec.encode(list(names))
            arrays = [pa.array(column.hashes), column.values, *map(pa.array, (places, lives, values))]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.layout.schema)
            order = [("hash", "ascending"), ("key", "ascending"), ("place", "ascending")]
            table.write(batch.sort_by(order))

    def find(self, keys: Iterable[Any]) -> Rows:
        found: Rows = {}
        for table, owned in self._owned(keys):
            which, batch = table.find(self._in_order(owned))
            names = self.job.codec.decode(self._in_order(owned).values.take(pa.array(which)))
            assert self.job.codec.decode(batch.column("key")) == names
            _add(found, names, batch)
        return found

    def stored(self) -> Rows:
        found: Rows = {}
        for table in self.tables:
            batch = table.stored()
            _add(found, self.job.codec.decode(batch.column("key")), batch)
        return found

    def _in_order(self, keys: list[Any]) -> KeyColumn:
        column = self.job.codec.encode(keys)
        return column.take(order_of_keys(column))

    def _owned(self, keys: Iterable[Any]) -> list[tuple[KeyTable, list[Any]]]:
        names = list(keys)
        owners = partitions_of_hashes(self.job.codec.encode(names).hashes, self.job.parallelism, MAX_PARALLELISM)
        parts = [[key for key, owner in zip(names, owners, strict=True) if owner == n] for n in range(len(self.tables))]
        return [(table, part) for table, part in zip(self.tables, parts, strict=True) if part]


def _rows_of(rows: list[tuple[int, int]]) -> list[tuple[int, bool, int]]:
    return [(place, True, value) for place, value in rows] or [(0, False, 0)]


def _add(found: Rows, keys: list[Any], batch: pa.RecordBatch) -> None:
    for key, row in zip(keys, batch.to_pylist(), strict=True):
        if row[LIVE]:
            found.setdefault(key, []).append((row["place"], row["value"]))


@pytest.fixture(autouse=True)
def _kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_MERGERS", dict(merging._MERGERS))
    register_merger(KIND, merged_by_key)


def few_hashes(array: pa.Array) -> Any:
    """Many keys share one; some of them are in the same run, and some are not."""
    return np.array([len(value.as_py()) % 3 for value in array], dtype=np.uint64) << np.uint64(60)


@pytest.mark.parametrize(
    ("type_", "collide"), [(Types.LONG(), False), (Types.STRING(), False), (Types.STRING(), True)], ids=str
)
@pytest.mark.parametrize("seed", range(6))
def test_a_table_is_as_its_model(
    seed: int, type_: TypeInformation, collide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(f"{seed}-{type_}")
    if collide:
        monkeypatch.setattr(hashing, "_hash_binary", few_hashes)
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", source.choice([0, 20, 1 << 18]))
    monkeypatch.setattr("headrace.state.compaction.INLINE_ROWS", 1)
    monkeypatch.setattr("headrace.state.compaction.MANY_RUNS", 2)
    job = Job(KeyCodec.for_type(type_), inline_threshold=source.choice([0, 1 << 20]), keep=seed % 2 == 0)
    keys: list[Any] = [n if type_ == Types.LONG() else "x" * (n % 5) + str(n) for n in range(40)]
    tables, model, values = Tables(job), dict[Any, list[tuple[int, int]]](), iter(range(10**6))
    for _ in range(15):
        tables.begin()
        assert tables.stored() == {key: rows for key, rows in model.items() if rows}
        for _ in range(source.randint(0, 4)):
            asked = source.sample(keys, source.randint(1, 12))
            assert tables.find(asked) == {key: model[key] for key in asked if model.get(key)}
            written = {key: [(place, next(values)) for place in range(source.randint(0, 3))] for key in asked}
            tables.write(written)
            model.update(written)
        assert tables.find(keys) == {key: rows for key, rows in model.items() if rows}
        tables.end()
        if source.random() < 0.3:
            job.compact()
        if source.random() < 0.3 and not job.results:
            job.rescale(source.choice([1, 3, 4]))
    tables.begin()
    assert tables.stored() == {key: rows for key, rows in model.items() if rows}
