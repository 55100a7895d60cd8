"""Tables of RocksDB: their rows, their copies on this machine, damage, time to live, and what options make of them."""

from __future__ import annotations

import datetime as dt
import random
import shutil
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InfrastructureError, StateCorruptedError
from headrace.common.time import Time
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.state.descriptors import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.rocksdb import table
from headrace.state.rocksdb.backend import RocksDBBackend, RowCodec, row_keys
from headrace.state.rocksdb.table import RocksDBSettings, TableWriter
from headrace.state.runs import merging
from headrace.state.runs.layout import HASH, KEY
from headrace.state.runs.run import order_of_keys
from headrace.storage.folder import Folder, posix_folder
from tests.state.harness import UID, Job
from tests.state.test_state_model import KEY_KINDS, Checker, between_epochs

if TYPE_CHECKING:
    from headrace.state.runs.run import Run

COUNT = ValueStateDescriptor("count", Types.LONG())
KEYS = list(range(200))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "CHUNK_ROWS", 16)


def settings(folder: Path, **others: Any) -> RocksDBSettings:
    """Tables for whatever is merged, and for every run that is in a file."""
    return RocksDBSettings(local_dir=str(folder / "local"), smallest_table=0, largest_columns=0, **others)


def job_in(folder: Path, **others: Any) -> Job:
    (folder / "state").mkdir()
    backend = RocksDBBackend("rocksdb", settings(folder, **others))
    return Job(storage=posix_folder(folder / "state"), backend=backend)


def write(job: Job, keys: list[int], value: int, descriptor: Any = COUNT) -> None:
    job.on_keys(job.begin(), keys, lambda operator, key, _: operator.keyed.state(descriptor).update(key + value))
    job.end()


def read(job: Job, keys: list[int], descriptor: Any = COUNT) -> list[Any]:
    found = job.on_keys(job.begin(), keys, lambda operator, _, __: operator.keyed.state(descriptor).value())
    job.end()
    return found


def adopt(job: Job) -> None:
    job.compact()
    job.begin()
    job.end()


def runs(job: Job, store: str = "state/count") -> list[Run]:
    return [run for n in range(job.parallelism) for run in job._open(n).store(UID, store).runs]


def forget_open_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process."""
    monkeypatch.setattr(table, "_OPEN", table._OpenTables())


# --- rows ------------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, pa.Array] = {
    "long": pa.array([1, None, -(1 << 63)]),
    "double": pa.array([float("nan"), None, -0.0]),
    "float": pa.array([1.5, float("inf"), None], pa.float32()),
    "boolean": pa.array([True, None, False]),
    "string": pa.array(["", "ü", None]),
    "binary": pa.array([b"", b"\0", None]),
    "decimal": pa.array([Decimal("1.20"), None, Decimal("-3")], pa.decimal128(38, 18)),
    "timestamp": pa.array([0, None, -1], pa.timestamp("ns")),
    "date": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "struct": pa.array([{"a": 1.5, "b": "x"}, None, {"a": None, "b": ""}]),
    "list": pa.array([[], None, [{"a": 1, "b": [Decimal("1.5")]}, None]]),
    "null": pa.nulls(3),
    "map": pa.array([[("a", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("start", [0, 1])
def test_rows_come_back_bit_by_bit(name: str, start: int) -> None:
    keys = KeyCodec.for_type(Types.STRING()).encode(["ann", "", "ü"])
    columns = {HASH: pa.array(keys.hashes), KEY: keys.values, "value": COLUMNS[name], "again": COLUMNS[name]}
    batch = pa.RecordBatch.from_pydict(columns).slice(start)
    codec = RowCodec(batch.schema)
    stored = KeyColumn(batch.column(KEY), batch.column(HASH).to_numpy())
    back = codec.decode(row_keys(stored), codec.encode(batch))
    back.validate(full=True)
    assert back.schema == batch.schema
    # Bytes, since NaN does not equal itself; taken rows have no offset, as those that come back.
    assert back.serialize() == batch.take(pa.array(np.arange(batch.num_rows))).serialize()


def test_no_rows_come_back_as_none() -> None:
    schema = pa.schema({HASH: pa.uint64(), KEY: pa.int64(), "value": pa.list_(pa.string())})
    assert RowCodec(schema).decode([], []).equals(pa.RecordBatch.from_pylist([], schema))


@pytest.mark.parametrize("kind", ["integers", "strings", "bytes"])
def test_bytes_of_keys_are_in_the_order_of_runs(kind: str) -> None:
    type_, key_of = KEY_KINDS[kind]
    keys = KeyCodec.for_type(type_).encode([key_of(n) for n in range(25)])
    same = KeyColumn(keys.values, np.zeros(len(keys), np.uint64)) if kind != "integers" else keys
    for column in (keys, same):  # also where hashes are equal
        found = row_keys(column.take(order_of_keys(column)))
        assert found == sorted(found)
        assert len(set(found)) == 25


# --- all kinds of state ----------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(2))
def test_states_are_as_their_model_whatever_is_merged_when(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random.Random(seed)
    monkeypatch.setattr("headrace.state.runs.merging.INLINE_ROWS", source.choice([4, 20]))
    monkeypatch.setattr("headrace.state.compaction.SLICE_BYTES", 4_000 if seed else 1 << 26)
    type_, key_of = KEY_KINDS[source.choice(["integers", "anything"])]
    backend = RocksDBBackend("rocksdb", settings(tmp_path))
    job = Job(KeyCodec.for_type(type_), inline_threshold=1000, keep=seed % 2 == 1, backend=backend)
    checker, every_key = Checker(source), [key_of(n) for n in range(25)]
    for _ in range(12):
        operators = job.begin()
        job.on_keys(operators, source.choices(every_key, k=source.choice([1, 5, 60])), checker.touch)
        job.end()
        between_epochs(job, source)
    job.tasks = []
    job.on_keys(job.begin(), every_key, checker.check)


def test_only_what_is_new_is_written_and_tables_are_not_merged_in_epochs(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    adopt(job)
    (table,) = runs(job)
    assert table.section.is_table
    for value in range(1, 4):
        write(job, KEYS[:150], value)
    found = runs(job)
    assert found[0].section.file == table.section.file
    assert sum(run.section.is_table for run in found) == 1
    assert read(job, KEYS) == [key + 3 * (key < 150) for key in KEYS]
    job.collect_garbage()
    assert table.section.file in job.storage.names()
    adopt(job)
    job.collect_garbage()
    assert table.section.file not in job.storage.names()
    assert read(job, KEYS) == [key + 3 * (key < 150) for key in KEYS]


def test_what_is_exported_is_merged_in_pieces(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    adopt(job)
    write(job, KEYS[:150], 1)
    (ref,) = job.refs
    (table,) = job.backend.export_tables(job.storage, ref, 0)
    batches = [*table.batches]
    assert len(batches) > 5
    rows = pa.Table.from_batches(batches, table.schema).sort_by("key").to_pydict()
    assert rows == {"key": KEYS, "value": [key + (key < 150) for key in KEYS]}


def test_tasks_share_tables_after_a_start_at_another_parallelism(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    adopt(job)
    job.rescale(4)
    write(job, KEYS[::2], 1)
    job.rescale(1)
    write(job, KEYS[1::2], 1)
    assert len({run.section.file for run in runs(job) if run.section.is_table}) == 1
    assert read(job, KEYS) == [key + 1 for key in KEYS]
    adopt(job)
    (table,) = runs(job)
    assert table.rows == len(KEYS), "what other tasks had written is not kept"
    assert read(job, KEYS) == [key + 1 for key in KEYS]


# --- time to live ----------------------------------------------------------------------------------------------------


def test_what_has_expired_leaves_the_disk(tmp_path: Path) -> None:
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
    for descriptor, act in (
        (ValueStateDescriptor("s", Types.LONG()), lambda state, key: state.update(key)),
        (ListStateDescriptor("s", Types.LONG()), lambda state, key: state.add_all([key, key])),
    ):
        descriptor.enable_time_to_live(ttl)
        job = Job(backend=RocksDBBackend("rocksdb", settings(tmp_path)))
        for job.clock, keys in ((0, KEYS[:60]), (50, KEYS[60:100])):
            job.on_keys(
                job.begin(), keys, lambda operator, key, _, of=descriptor, do=act: do(operator.keyed.state(of), key)
            )
            job.end()
        job.compact()
        job.begin()
        job.end()
        assert [run.rows for run in runs(job, "state/s")] == [100]
        assert not job.compact(now=99)
        assert job.compact(now=100), "half of it has expired"
        job.begin()
        job.end()
        assert [run.rows for run in runs(job, "state/s")] == [40]
        assert job.compact(now=150)
        job.begin()
        job.end()
        assert runs(job, "state/s") == []


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_table_that_is_damaged_or_missing_is_told(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    adopt(job)
    (name,) = {run.section.file for run in runs(job)}
    path = tmp_path / "state" / name
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(StateCorruptedError, match=f"the state file {name} is damaged"):
        read(job, KEYS)
    path.write_bytes(content[:-1])
    with pytest.raises(StateCorruptedError, match=f"the state file {name} is damaged"):
        read(job, KEYS)
    path.unlink()
    with pytest.raises(StateCorruptedError, match=f"the state file {name} is missing"):
        read(job, KEYS)
    path.write_bytes(content)
    assert read(job, KEYS) == KEYS
    path.unlink()
    assert read(job, KEYS) == KEYS, "from the copy"


@pytest.mark.parametrize("keys", [KEYS, KEYS[7:8]], ids=["walked through", "looked up"])
def test_a_copy_that_is_damaged_is_fetched_again(
    keys: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    adopt(job)
    assert read(job, keys) == keys
    (copy,) = (tmp_path / "local").glob("compacted-*/*.sst")
    content = bytearray(copy.read_bytes())
    content[50] ^= 1  # in the only block of rows
    copy.write_bytes(content)
    forget_open_tables(monkeypatch)
    assert read(job, keys) == keys
    (copy,) = (tmp_path / "local").glob("compacted-*/*.sst")
    copy.unlink()
    forget_open_tables(monkeypatch)
    assert read(job, keys) == keys


@pytest.mark.parametrize("name", ["MANIFEST-*", "CURRENT", "*.sst"])
@pytest.mark.parametrize("cut", ["empty", "half", "without the last byte"])
@pytest.mark.parametrize("keys", [KEYS[:3], KEYS], ids=["a-few", "all"])
def test_a_copy_that_was_cut_short_is_fetched_again(
    name: str, cut: str, keys: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB takes a shorter list of tables for one that a crash has left, and a table that is not in it goes."""
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    adopt(job)
    assert read(job, keys) == keys
    (file,) = (tmp_path / "local").glob(f"compacted-*/{name}")
    content = file.read_bytes()
    length = {"empty": 0, "half": len(content) // 2, "without the last byte": len(content) - 1}[cut]
    file.write_bytes(content[:length])
    forget_open_tables(monkeypatch)
    assert read(job, keys) == keys


def test_a_copy_of_another_table_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []
    for name, keys in (("one", KEYS), ("other", KEYS[:50])):
        (tmp_path / name).mkdir()
        jobs.append(job_in(tmp_path / name))
        write(jobs[-1], keys, 0)
        adopt(jobs[-1])
        assert read(jobs[-1], keys) == keys
    (one,), (other,) = ([*(tmp_path / name / "local").glob("compacted-*")] for name in ("one", "other"))
    shutil.rmtree(one)
    shutil.copytree(other, one)
    forget_open_tables(monkeypatch)
    assert read(jobs[0], KEYS) == KEYS


def test_copies_are_kept_within_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_in(tmp_path, local_size=1)
    job.rescale(4)
    write(job, KEYS, 0)
    adopt(job)
    assert len(runs(job)) == 4
    for _ in range(2):
        assert read(job, KEYS) == KEYS
        assert len([*(tmp_path / "local").iterdir()]) == 1


def test_many_fetch_a_table_at_once(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    adopt(job)
    (run,) = runs(job)
    keys = job.codec.encode(KEYS)
    keys = keys.take(order_of_keys(keys))
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: run.section.narrowed(keys).rows, range(4))]
    assert found == [len(KEYS)] * 4
    assert [path.name[:10] for path in (tmp_path / "local").iterdir()] == ["compacted-"]


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    (tmp_path / "local").mkdir()
    (tmp_path / "local").chmod(0o777)
    with pytest.raises(InfrastructureError, match=r"others may write in .*local: set state.backend.rocksdb.localdir"):
        job.compact()


def test_what_storage_or_disk_refuse_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    adopt(job)

    def fail(*_: Any) -> bytes:
        raise OSError(5, "away")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "read_range", fail)
        with pytest.raises(InfrastructureError, match=r"the state file compacted-.* cannot be read: .*away"):
            read(job, KEYS)
    (tmp_path / "local").rmdir()
    (tmp_path / "local").write_text("")
    with pytest.raises(InfrastructureError, match=r"local cannot be written: .*set state.backend.rocksdb.localdir"):
        read(job, KEYS)


def test_a_disk_that_is_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="gone/table: IO error: No such file"):
        TableWriter(tmp_path / "gone" / "table", RocksDBSettings())
    job = job_in(tmp_path)
    write(job, KEYS, 0)
    adopt(job)

    def is_full(folder: Path, *_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(table, "make_database", is_full)
    with pytest.raises(InfrastructureError, match=r"local cannot be written: .*No space left.*rocksdb\.localdir"):
        read(job, KEYS)
    assert [*(tmp_path / "local").iterdir()] == []


# --- options ---------------------------------------------------------------------------------------------------------


def test_options_make_settings() -> None:
    assert RocksDBSettings.of(Configuration()) == RocksDBSettings()
    high = {"state.backend.rocksdb.predefined-options": "spinning_disk_optimized_high_mem"}
    found = RocksDBSettings.of(Configuration.from_dict(high))
    assert (found.cache_size, found.block_size) == (256 << 20, 128 << 10)
    options = {
        "localdir": "/d", "block.cache-size": "8 mb", "block.blocksize": "16 kb", "bloom-filter.bits-per-key": "5",
        "memory.partitioned-index-filters": "false",
    }  # fmt: skip
    given = {**high, **{f"state.backend.rocksdb.{key}": value for key, value in options.items()}}
    found = RocksDBSettings.of(Configuration.from_dict(given))
    assert found == RocksDBSettings(8 << 20, 16 << 10, 5.0, has_partitioned_filters=False, local_dir="/d")
    given |= {"state.backend.rocksdb.memory.fixed-per-slot": "1 gb", "state.backend.rocksdb.use-bloom-filter": "false"}
    found = RocksDBSettings.of(Configuration.from_dict(given))
    assert (found.cache_size, found.bloom_bits) == (1 << 30, 0)


@pytest.mark.parametrize(
    "others", [{"bloom_bits": 0}, {"has_partitioned_filters": False}, {"block_size": 1 << 20, "cache_size": 0}]
)
def test_tables_are_read_with_any_settings(others: dict[str, Any], tmp_path: Path) -> None:
    job = job_in(tmp_path, **others)
    write(job, KEYS, 0)
    adopt(job)
    assert read(job, [*KEYS[::50], -1]) == [*KEYS[::50], None]


def test_options_warn_where_another_backend_is_set() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_configuration()
    env.configure(Configuration.from_dict({"state.backend.rocksdb.block.cache-size": "8 mb"}))
    env.from_collection([1]).print()
    with pytest.warns(UserWarning, match=r"block\.cache-size has no effect: the state backend is 'hashmap'"):
        env.explain()
    env.configure(Configuration.from_dict({"state.backend.type": "RocksDB"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.explain()


def test_the_package_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(ConfigurationError, match=r"needs the package rocksdict.*install headrace\[rocksdb\]"):
        RocksDBBackend("rocksdb")
