"""State files: versions, inline and in files, and what happens when a file is damaged."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.common.errors import CheckpointError, StateCorruptedError, StateError
from headrace.common.typeinfo import Types
from headrace.state.backend import StateOwner
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.state.hashmap_backend import HashMapTaskStates
from headrace.state.keys import KeyCodec
from headrace.state.runs import ALL_HASHES, RunStore
from headrace.state.runs.sections import BLOCK, Section
from headrace.state.state_file import ImageWriter, VersionRef, read_index
from headrace.storage.file_system import MappedFile
from headrace.storage.folder import Folder, posix_folder
from tests.state.harness import UID, Job, MemoryFolder, PartialFile

VALUE = ValueStateDescriptor("value", Types.STRING())
LIST = ListStateDescriptor("list", Types.LONG())
MAP = MapStateDescriptor("map", Types.STRING(), Types.LONG())


def write(job: Job, keys: range) -> None:
    def touch(operator: Any, key: int, _: int) -> None:
        operator.keyed.state(VALUE).update(f"value of {key}")
        operator.keyed.state(LIST).add(key)
        operator.keyed.state(MAP).put_all({"a": key, "ä": -key})
        operator.timers.event.register(key)

    job.on_keys(job.begin(), keys, touch)
    job.end()


def read(job: Job, keys: range) -> None:
    def look(operator: Any, key: int, _: int) -> None:
        assert operator.keyed.state(VALUE).value() == f"value of {key}"
        assert operator.keyed.state(LIST).get() == [key]
        assert operator.keyed.state(MAP).get("a") == key
        assert operator.keyed.state(MAP).items() == [("a", key), ("ä", -key)]

    (operator,) = job.begin()
    job.on_keys([operator], keys, look)
    assert [timer.time for timer in operator.timers.event.pop_due(keys.stop)] == list(keys)


@pytest.fixture(params=["directory", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    made: Folder = posix_folder(tmp_path / "deep" / "state") if request.param == "directory" else MemoryFolder()
    made.make()
    return made


def test_storage_holds_files(storage: Folder) -> None:
    assert storage.names() == []
    storage.write("b", [b"x", pa.py_buffer(b"yz"), b""])
    storage.write("a", [])
    storage.write("b", [b"xyz"])
    assert storage.names() == ["a", "b"]
    mapped, empty = storage.map("b"), storage.map("a")
    mapped.fetch(0, 3)
    assert (mapped.buffer.to_pybytes(), empty.buffer.to_pybytes()) == (b"xyz", b"")
    storage.remove("b")
    storage.remove("b")
    assert mapped.buffer.to_pybytes() == b"xyz"
    assert (storage.size("b"), storage.size("a")) == (None, 0)
    with pytest.raises(FileNotFoundError):
        storage.map("b")


def test_a_directory_takes_plain_names_only_and_leaves_nothing_behind(tmp_path: Path) -> None:
    storage = posix_folder(tmp_path)
    for name in ("", "../x", "..", "a/b"):
        with pytest.raises(CheckpointError, match="name"):
            storage.write(name, [b""])
    with pytest.raises(TypeError):
        storage.write("a", [b"x", 1])  # type: ignore[list-item]
    assert list(tmp_path.iterdir()) == []


def test_names_say_where_a_file_is_from(storage: Folder) -> None:
    job = Job(storage=storage)
    write(job, range(3))
    (ref,) = job.refs
    assert ref.name.startswith("0-1-1-0-")
    assert ref.name.endswith(".state")
    assert ref.files == (ref.name,) == tuple(storage.names())
    read(job, range(3))


def test_small_versions_travel_in_the_reference_until_they_are_too_large() -> None:
    job = Job(inline_threshold=12_000)
    kinds = []
    for epoch in range(30):
        write(job, range(epoch * 10, epoch * 10 + 10))
        (ref,) = job.refs
        kinds.append(bool(ref.inline))
        assert len(ref.inline) <= 12_000
        assert bool(ref.inline) != bool(ref.name)
    assert kinds[0]
    assert not all(kinds)
    read(job, range(300))


def test_a_task_without_state_needs_no_file(storage: Folder) -> None:
    job = Job(storage=storage, inline_threshold=1000)
    job.begin()
    (ref,) = job.end()
    assert storage.names() == []
    assert HashMapTaskStates.open(storage, [VersionRef(1, 0, 0)], 1, 0, {}).sizes() == {}
    assert job._open(0).ref == ref


@pytest.mark.slow
def test_opening_reads_only_the_index(tmp_path: Path) -> None:
    job = Job(storage=posix_folder(tmp_path))
    write(job, range(50_000))
    path = tmp_path / job.refs[0].name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    task = job._open(0)
    assert task.store("operator", "state/value").rows == 50_000


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_gives_an_error_that_names_it_or_the_right_answer(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    rows = source.choice([5, 3000])
    job = Job(storage=posix_folder(tmp_path))
    write(job, range(rows))
    name = job.refs[0].name
    path = tmp_path / name
    damage(path, source)
    failure = None
    try:
        read(job, range(rows))
    except StateCorruptedError as error:
        failure = str(error)
    assert failure is None or name in failure


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_large_map_gives_an_error_or_the_right_answer(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    job = Job(storage=posix_folder(tmp_path))
    entries = {f"entry {n}": n for n in range(5000)}
    job.on_keys(job.begin(), [1], lambda operator, *_: operator.keyed.state(MAP).put_all(entries))
    job.end()
    name = job.refs[0].name
    damage(tmp_path / name, source)
    wanted = source.sample(list(entries), 20)

    def look(operator: Any, *_: Any) -> None:
        state = operator.keyed.state(MAP)
        assert [state.get(entry) for entry in wanted] == [entries[entry] for entry in wanted]
        assert state.items() == list(entries.items())

    failure = None
    try:
        job.on_keys(job.begin(), [1], look)
    except StateCorruptedError as error:
        failure = str(error)
    assert failure is None or name in failure


def damage(path: Path, source: random.Random) -> None:
    data = bytearray(path.read_bytes())
    kind = source.choice(["flip", "flip", "flip", "truncate", "delete", "empty", "zeros"])
    if kind == "delete":
        path.unlink()
        return
    place = source.randrange(len(data))
    if kind == "flip":
        data[place] ^= 1 << source.randrange(8)
    elif kind == "zeros":
        data[place : place + 100] = b"\0" * len(data[place : place + 100])
    else:
        del data[0 if kind == "empty" else place :]
    path.write_bytes(data)


def test_every_single_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    job = Job(storage=posix_folder(tmp_path))
    write(job, range(3))
    path = tmp_path / job.refs[0].name
    original = path.read_bytes()
    noticed = 0
    for place in range(0, len(original), 7):
        path.write_bytes(original[:place] + bytes([original[place] ^ 0x55]) + original[place + 1 :])
        job.tasks = []
        try:
            read(job, range(3))
        except StateCorruptedError:
            noticed += 1
    assert noticed > len(original) // 7 * 0.9


def test_an_older_file_that_is_missing_is_named(tmp_path: Path) -> None:
    job = Job(KeyCodec.for_type(Types.LONG()), storage=posix_folder(tmp_path))
    write(job, range(1000))
    write(job, range(1000, 1010))
    first, _ = sorted(job.refs[0].files)
    (tmp_path / first).unlink()
    with pytest.raises(StateCorruptedError, match=f"{first} is missing"):
        read(job, range(1010))


def test_only_blocks_that_are_touched_are_verified() -> None:
    batch = pa.record_batch({"a": pa.array(range(200_000)), "b": pa.array([f"text {n}" for n in range(200_000)])})
    stored = b"".join(map(pa.Buffer.to_pybytes, Section(batch).encoded()))
    entry = described(batch)
    for place, broken in ((len(stored) - 1, "b"), (BLOCK // 2, "a")):
        damaged = bytearray(stored)
        damaged[place] ^= 1
        section = Section.stored(entry, "file", lambda data=bytes(damaged): PartialFile(data))  # type: ignore[misc]
        whole = {"a": "b", "b": "a"}[broken]
        assert section.column(whole).equals(batch.column(whole))
        assert section.rows_of(whole, 7, 9).equals(batch.column(whole).slice(7, 2))
        middle = section.slice(100_000, 100_003)
        assert middle.equals(batch.slice(100_000, 3))
        with pytest.raises(StateCorruptedError, match="file"):
            section.column(broken)
        with pytest.raises(StateCorruptedError, match="file"):
            _ = section.batch


def described(batch: pa.RecordBatch) -> dict[str, Any]:
    section = Section(batch)
    section.encoded()
    return section.describe(0)


def test_sections_hold_all_types() -> None:
    arrays = {
        "bool": pa.array([True, None, False]),
        "struct": pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": []}]),
        "list": pa.array([[b"a"], [], None]),
        "empty": pa.array(["", "", ""]),
        "null": pa.array([None, None, None], pa.int8()),
    }
    batch = pa.RecordBatch.from_pydict(arrays)
    data = b"".join(map(pa.Buffer.to_pybytes, Section(batch).encoded()))
    section = Section.stored(described(batch), "", lambda: PartialFile(data))
    assert section.batch.equals(batch)
    for name in arrays:
        assert section.rows_of(name, 1, 3).equals(batch.column(name).slice(1, 2))
    with pytest.raises(StateError, match="dictionary"):
        Section(pa.record_batch({"d": pa.array(["a"]).dictionary_encode()}))


def test_a_store_keeps_its_runs_in_order() -> None:
    store = RunStore("windows", ALL_HASHES)
    runs = [store.append(pa.table({"x": [number]}), {"n": number}) for number in range(4)]
    assert store.append(pa.table({"x": pa.array([], pa.int64())}), {}) is None
    store.replace(runs[1:3], pa.table({"x": [1, 2]}), {"n": "1+2"})
    assert [run.meta["n"] for run in store.runs] == [0, "1+2", 3]
    renewed = store.annotate(store.runs[0], seen=True)
    assert (renewed.meta, store.rows) == ({"n": 0, "seen": True}, 4)
    with pytest.raises(StateError, match="any more"):
        store.drop(runs[0])
    with pytest.raises(StateError, match="follow one another"):
        store.replace([store.runs[0], store.runs[2]], None, {})
    store.drop(renewed)
    assert [run.table.to_pydict() for run in store.runs] == [{"x": [1, 2]}, {"x": [3]}]


def test_other_stores_are_rescaled_and_merged_too() -> None:
    job = Job()
    schema = pa.schema({"hash": pa.uint64(), "end": pa.int64(), "n": pa.int64()})
    for epoch in range(3):
        (operator,) = job.begin()
        column = job.codec.encode(range(100))
        batch = pa.record_batch([pa.array(column.hashes), pa.array([epoch] * 100), column.values], schema=schema)
        operator.store("windows").append(
            batch.sort_by([("end", "ascending"), ("hash", "ascending")]), {"sort": ["end"]}
        )
        job.end()
    job.rescale(3)
    seen = []
    for operator in job.begin():
        for run in operator.store("windows").runs:
            assert not run.whole
            assert run.table.num_rows == len(run.column("n"))
            seen += run.table.select(["end", "n"]).to_pylist()
    assert sorted((row["end"], row["n"]) for row in seen) == [(epoch, n) for epoch in range(3) for n in range(100)]
    with pytest.raises(StateError, match="slash"):
        operator.store("state/x")


def test_files_that_change_places_are_found_out(tmp_path: Path) -> None:
    """Of two partitions, of two epochs: each is a good file, under the name of another one."""
    storage = posix_folder(tmp_path)
    job = Job(storage=storage, parallelism=2)
    write(job, range(40))
    names = storage.names()
    assert len(names) == 2
    contents = [(tmp_path / name).read_bytes() for name in names]
    for name, content in zip(names, reversed(contents), strict=True):
        (tmp_path / name).write_bytes(content)
    for partition, ref in enumerate(job.refs):
        with pytest.raises(StateCorruptedError, match=rf"{ref.name} has the content of another one"):
            HashMapTaskStates.open(storage, [ref], ref.stage, partition, {UID: StateOwner(2, 16)})


@pytest.mark.parametrize("change", [{"epoch": 9}, {"stage": 2}, {"partition": 1}])
def test_a_file_that_is_not_the_one_of_the_manifest(change: dict[str, int], storage: Folder) -> None:
    job = Job(storage=storage)
    write(job, range(3))
    ref = replace(job.refs[0], **change)
    with pytest.raises(StateCorruptedError, match="has the content of another one"):
        HashMapTaskStates.open(storage, [ref], 1, 0, {UID: StateOwner(1, 16)})


def test_a_newer_format_is_refused() -> None:
    writer = ImageWriter()
    chunks = writer.finish({"format": 2, "stage": 1, "partition": 0, "owned": {}, "files": [], "runs": []})
    ref = VersionRef(1, 0, 1, inline=b"".join(memoryview(chunk) for chunk in chunks))
    with pytest.raises(CheckpointError, match=r"has format 2, this headrace reads format 1"):
        read_index(MappedFile(pa.py_buffer(ref.inline)), ref)
