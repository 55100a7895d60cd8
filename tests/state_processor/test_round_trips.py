"""What is read and written again is what it was, whatever kind of state and whatever types."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Configuration, Types
from headrace.common.columns import values_to_array
from headrace.datastream import KeyedProcessFunction
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from headrace.savepoint.metadata import read_metadata
from headrace.savepoint.tables import readable
from headrace.savepoint.tasks import import_version, tasks_of
from headrace.state.hashmap_backend import HashMapBackend
from headrace.state.keys import KeyCodec
from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter, compare
from headrace.storage.folder import posix_folder
from headrace.testing import JobHarness
from tests.draws import draws
from tests.state_processor.every_state import Mean, job


@pytest.fixture(scope="module")
def checkpoint() -> Iterator[str]:
    with JobHarness(job, parallelism=3) as harness:
        harness.push_all("rules", ["a", "bb"])
        harness.push_all("numbers", range(120))
        harness.run_epoch()
        taken = harness.checkpoint()
    yield str(taken.directory)
    assert taken.directory.exists(), "it is there as long as somebody has the checkpoint"


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_every_state_of_a_job(checkpoint: str) -> None:
    """That of windows and broadcast streams included; a savepoint of a checkpoint has all of it."""
    folder = tempfile.mkdtemp()
    copied = SavepointWriter.from_existing_savepoint(checkpoint).write(f"{folder}/copied")
    writer = SavepointWriter.from_existing_savepoint(checkpoint)
    states = writer.reader.states()
    assert len(states) > 10
    for state in states:
        writer.replace_table(state.uid, state.store, writer.reader.read_table(state.uid, state.store))
    given_again = writer.write(f"{folder}/given")
    for path in (copied, given_again):
        reader = SavepointReader.read(path)
        assert [(state.uid, state.store, state.rows) for state in reader.states()] == [
            (state.uid, state.store, state.rows) for state in states
        ]
        assert list(compare(writer.reader, reader)) == []


LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=8)
PARTLY_TYPED = Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()])
TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "long": (Types.LONG(), LONGS),
    "short": (Types.SHORT(), st.integers(-(2**15), 2**15 - 1)),
    "text": (Types.STRING(), TEXTS),
    "bytes": (Types.BYTES(), st.binary(max_size=8)),
    "boolean": (Types.BOOLEAN(), st.booleans()),
    "double": (Types.DOUBLE(), st.floats()),
    "decimal": (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False, places=3)),
    "integer": (Types.BIG_INT(), st.integers(-(10**30), 10**30)),
    "tuple": (Types.TUPLE([Types.LONG(), Types.STRING()]), st.tuples(LONGS, TEXTS)),
    "date": (Types.SQL_DATE(), st.dates()),
    "partly typed": (PARTLY_TYPED, st.tuples(TEXTS, LONGS)),
    "untyped": (None, st.tuples(LONGS, TEXTS)),
}
VALUES = TYPES | {
    "list": (Types.LIST(Types.LONG()), st.lists(LONGS, max_size=3)),
    "map": (Types.MAP(Types.STRING(), Types.LONG()), st.dictionaries(TEXTS, LONGS, max_size=3)),
    "row": (Types.ROW_NAMED(["a", "b"], [int, str]), st.tuples(LONGS, st.none() | TEXTS)),
}


KEYS = {name: TYPES[name] for name in TYPES if name != "untyped"} | {"untyped": (None, TEXTS)}


UNSURE = ("None", *map(str, (Types.DOUBLE(), Types.BIG_DEC(), Types.PICKLED_BYTE_ARRAY(), PARTLY_TYPED)))
"""Types of keys that are not shown as they were given: without a type they are texts, and 0.0 and -0.0 are one key."""


def column(type_: Any, values: list[Any]) -> pa.Array:
    return values_to_array(Types.PICKLED_BYTE_ARRAY() if type_ is None else type_, values)


def keys_of(type_: Any, keys: list[Any]) -> pa.Array:
    """Keys without a type are whatever Arrow has for them."""
    return pa.array(keys, pa.string()) if type_ is None else column(type_, keys)


def different(type_: Any, keys: list[Any]) -> list[Any]:
    """Those that are no key twice: 0.0 and -0.0 are one."""
    codec = KeyCodec.for_type(Types.PICKLED_BYTE_ARRAY() if type_ is None else type_)
    return [*{codec.encode([key]).values[0].as_py(): key for key in keys}.values()]


def descriptors(value_type: Any, entry_type: Any) -> dict[str, StateDescriptor]:
    return {
        "value": ValueStateDescriptor("it", value_type),
        "list": ListStateDescriptor("it", value_type),
        "map": MapStateDescriptor("it", entry_type, value_type),
        "reducing": ReducingStateDescriptor("it", max, value_type),
        "aggregating": AggregatingStateDescriptor("it", Mean(), value_type),
    }


@st.composite
def states(draw: st.DrawFn) -> tuple[Any, StateDescriptor, pa.Table]:
    """The type of keys, a state, and its rows."""
    key_type, some_keys = draw(st.sampled_from([*KEYS.values()]))
    entry_type, some_entries = draw(st.sampled_from([*KEYS.values()]))
    value_type, values = draw(st.sampled_from([*VALUES.values()]))
    kind = draw(st.sampled_from(["value", "list", "map", "reducing", "aggregating"]))
    keys = different(key_type, draw(st.lists(some_keys, min_size=1, max_size=6)))
    entries: list[Any] = [None] * len(keys)
    if kind == "list":
        keys = draw(st.lists(st.sampled_from(keys), min_size=1, max_size=8))
    elif kind == "map":
        found = different(entry_type, draw(st.lists(some_entries, min_size=1, max_size=4)))
        keys, entries = [key for key in keys for _ in found], found * len(keys)
    held = draw(st.lists(values, min_size=len(keys), max_size=len(keys)))
    columns = {"key": keys_of(key_type, keys), "value": column(value_type, held)}
    if kind == "map":
        columns["entry_key"] = keys_of(entry_type, entries)
    return key_type, descriptors(value_type, entry_type)[kind], pa.table(columns)


@settings(max_examples=draws(40))
@given(states(), st.sampled_from([1, 3]))
def test_any_state(state: tuple[Any, StateDescriptor, pa.Table], parallelism: int) -> None:
    """What was given is read; what was read can be given, and is read again; a backend takes all of it in."""
    key_type, descriptor, table = state
    folder = tempfile.mkdtemp()
    configuration = Configuration.from_dict({"parallelism.default": str(parallelism)})
    read: list[pa.Table] = [table]
    for number in range(2):
        tables = OperatorTransformation.from_tables(key_type).with_state(descriptor, read[-1])
        writer = SavepointWriter.new_savepoint(8).with_configuration(configuration).with_operator("it", tables)
        read.append(SavepointReader.read(writer.write(f"{folder}/{number}")).read_keyed_state("it", "it"))
    assert rows(read[1]) == rows(read[2]) == rows(taken_in(f"{folder}/0", f"{folder}/state"))
    types = {"key": key_type, "entry_key": getattr(descriptor, "key_type", None)}
    exact = [name for name, type_ in types.items() if name in table.column_names and str(type_) not in UNSURE]
    assert rows(shown(read[1], exact)) == rows(shown(table, exact))


def shown(table: pa.Table, exact: list[str]) -> pa.Table:
    """What can be compared."""
    if "entry" in table.schema.names:
        table = table.rename_columns({"entry_key": "encoded", "entry": "entry_key"})
    return table.select([*exact, "value"])


def taken_in(savepoint: str, state: str) -> pa.Table:
    """The rows as a state backend has them after a start."""
    directory, folder = posix_folder(Path(savepoint)), posix_folder(Path(state))
    folder.make()
    metadata = read_metadata(directory)
    backend = HashMapBackend("hashmap")
    found = []
    for task in tasks_of(metadata.tables, metadata.checkpoint, {"it"}, 0):
        version = import_version(backend, folder, directory, task)
        found += [readable(batch, t.about) for t in backend.export_tables(folder, version, 0) for batch in t.batches]
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in found], promote_options="default")


def test_states_of_other_namespaces_than_windows(tmp_path: Path) -> None:
    """What an operator of one's own may have: they are bytes."""
    descriptor = ValueStateDescriptor("it", Types.LONG())
    table = pa.table({"key": ["a", "b"], "namespace": pa.array([b"bx", b"by"], pa.binary()), "value": [1, 2]})
    for number in range(2):
        given_rows = OperatorTransformation.from_tables(str).with_window_state(descriptor, table)
        path = SavepointWriter.new_savepoint().with_operator("it", given_rows).write(f"{tmp_path}/{number}")
        table = SavepointReader.read(path).read_window_state("it", "it")
        assert rows(table) == rows(pa.table({"key": ["a", "b"], "namespace": [b"bx", b"by"], "value": [1, 2]}))


class Counts(KeyedProcessFunction):
    """How often a key has come."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)
        self.by_key = runtime_context.get_map_state(BY_KEY)

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        self.count.update((self.count.value() or 0) + 1)
        self.by_key.put(ctx.get_current_key(), value)
        yield f"{ctx.get_current_key()[0]} {self.count.value()} {len(list(self.by_key.keys()))}"


COUNT = ValueStateDescriptor("count", Types.LONG())
BY_KEY = MapStateDescriptor("by key", PARTLY_TYPED, Types.LONG())


PROGRAM = """
from enum import Enum
from headrace.common import Types

class Color(Enum):
    RED, BLUE = 0, 1

def key(number: int) -> tuple[str, Color]:
    return str(number), Color(number % 2)
"""


def test_keys_with_parts_of_classes_that_only_the_program_knows(tmp_path: Path) -> None:
    (tmp_path / "colored.py").write_text(PROGRAM)

    def counts(harness: JobHarness) -> None:
        from colored import key  # type: ignore[import-not-found]  # it is made above

        keyed = harness.add_source("numbers", Types.LONG()).key_by(key)
        harness.add_sink("counts", keyed.process(Counts(), Types.STRING()).uid("counts"))

    with program(tmp_path), JobHarness(counts) as harness:
        harness.push_all("numbers", range(4))
        harness.run_epoch()
        taken = harness.checkpoint()
    writer = SavepointWriter.from_existing_savepoint(str(taken.directory))
    for state in writer.reader.states():
        writer.replace_table(state.uid, state.store, writer.reader.read_table(state.uid, state.store))
    settings = {"execution.state-recovery.path": writer.write(tmp_path / "first")}
    assert writer.reader.read_keyed_state("counts", "count").column("key").null_count == 4, "nobody can show them here"
    with program(tmp_path), JobHarness(counts, parallelism=2, configuration=settings) as harness:
        harness.push_all("numbers", range(4))
        harness.run_epoch()
        assert sorted(harness.results("counts")) == ["0 2 1", "1 2 1", "2 2 1", "3 2 1"]


@contextmanager
def program(folder: Path) -> Iterator[None]:
    """Modules in the folder can be imported meanwhile, and nobody knows them afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    sys.modules.pop("colored", None)
