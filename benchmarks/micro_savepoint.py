"""What a savepoint costs in tasks: ``python -m benchmarks.micro_savepoint [KEYS]``; all tasks one after the other."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.common.typeinfo import Types
from headrace.savepoint.metadata import IN_PROGRESS
from headrace.savepoint.tasks import Export, Import, TaskTables
from headrace.state.backend import DEFAULT_BACKEND, StateOwner
from headrace.state.hashmap_backend import HashMapBackend, HashMapTaskStates
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import partitions_of_hashes
from headrace.state.runs.run import order_of_keys
from headrace.state.state_file import NewVersion
from headrace.storage.folder import posix_folder

if TYPE_CHECKING:
    from headrace.savepoint.metadata import TableFile
    from headrace.state.state_file import VersionRef
    from headrace.storage.folder import Folder

KEYS = 1_000_000
TASKS = 4
GROUPS = 128
RUNS = 3
OWNERS = {"totals": StateOwner(TASKS, GROUPS)}
BACKEND = HashMapBackend(DEFAULT_BACKEND)


def versions(state: Folder, keys: int) -> list[VersionRef]:
    """The state of all tasks: a total for each key, in a few runs as epochs leave them."""
    codec = KeyCodec.for_type(Types.STRING())
    tasks = [HashMapTaskStates(state, 1, partition, OWNERS) for partition in range(TASKS)]
    about = {"kind": "value", "sort": ["hash", "key"], "types": {"value": Types.LONG().to_json()}}
    for run in range(RUNS):
        numbers = np.arange(run * keys // RUNS, (run + 1) * keys // RUNS)
        column = codec.from_array(pa.array([f"user-{number}" for number in numbers]))
        partitions = partitions_of_hashes(column.hashes, TASKS, GROUPS)
        for partition, task in enumerate(tasks):
            mine = np.flatnonzero(partitions == partition)
            mine = mine[order_of_keys(column.take(mine))]
            own = column.take(mine)
            arrays = {"hash": pa.array(own.hashes), "key": own.values, "value": pa.array(numbers[mine])}
            batch = pa.RecordBatch.from_pydict(arrays)
            task.store("totals", "state/total").append(batch, {**about, "keys": codec.to_json()})
    return [task.snapshot(1, 1, 0) for task in tasks]


def main() -> None:
    """Print what writing a savepoint, and starting from it, take."""
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else KEYS
    with tempfile.TemporaryDirectory() as folder:
        state, fresh = posix_folder(Path(folder) / "state"), posix_folder(Path(folder) / "fresh")
        savepoint = posix_folder(Path(folder) / "savepoint")
        for each in (state, fresh, savepoint):
            each.make()
        savepoint.create(IN_PROGRESS, b"")
        refs = versions(state, keys)
        begun = time.process_time(), time.monotonic()
        tables = [table for ref in refs for table in Export(BACKEND, state, savepoint, 0)(ref)]
        report("canonical savepoint", keys, begun)
        begun = time.process_time(), time.monotonic()
        bring_in = Import(BACKEND, fresh, savepoint)
        for partition in range(TASKS):
            bring_in(TaskTables(NewVersion(1, partition, 1, 1, 0), tables_of(tables, partition), OWNERS))
        report("start from it", keys, begun)


def tables_of(tables: list[TableFile], partition: int) -> tuple[TableFile, ...]:
    """Those of one task."""
    return tuple(table for table in tables if table.partition == partition)


def report(what: str, keys: int, begun: tuple[float, float]) -> None:
    """Print what something took."""
    cpu, wall = time.process_time() - begun[0], time.monotonic() - begun[1]
    print(f"{what} of {keys:,} keys: {cpu:.2f} s of CPU, {wall:.2f} s")


if __name__ == "__main__":
    main()
