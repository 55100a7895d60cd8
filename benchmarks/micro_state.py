"""Times of the state backend's inner operations, on one core: ``python benchmarks/micro_state.py [rows in thousands]``.

Each line is the best of several runs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.common.typeinfo import Types
from headrace.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.state.hashmap_backend import HashMapTaskStates
from headrace.state.keyed.backend import KeyedStateBackend
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.hashing import hash_array
from headrace.state.runs import ALL_HASHES, RunStore
from headrace.storage.folder import posix_folder

if TYPE_CHECKING:
    from collections.abc import Callable

LONGS = KeyCodec.for_type(Types.LONG())
STRINGS = KeyCodec.for_type(Types.STRING())
PAIR = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
RANDOM = np.random.default_rng(1)


def best(action: Callable[[], Any], runs: int = 5) -> float:
    """The shortest time of several runs, in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def report(what: str, seconds: float, count: int) -> None:
    """Prints one line."""
    rate = count / seconds / 1e6
    print(f"{what:<58} {seconds * 1e3:10.2f} ms {rate:8.2f} M/s {seconds / count * 1e9:8.0f} ns")


def backend(codec: KeyCodec = LONGS) -> KeyedStateBackend:
    """A backend of its own, with nothing in it."""
    stores: dict[str, RunStore] = {}
    made = KeyedStateBackend(codec, lambda name: stores.setdefault(name, RunStore(name, ALL_HASHES)))
    made.begin_epoch(0)
    return made


def integers(count: int, distinct: int) -> KeyColumn:
    """Random integer keys."""
    return LONGS.from_array(pa.array(RANDOM.integers(0, distinct, count)))


def strings(count: int, distinct: int) -> KeyColumn:
    """Random string keys."""
    return STRINGS.from_array(pa.array([f"user-{n}" for n in RANDOM.integers(0, distinct, count).tolist()]))


def time_hashing() -> None:
    """Hashes of integers and strings."""
    numbers, names = integers(1_000_000, 1 << 60).values, strings(200_000, 1 << 40).values
    report("hash 1 M integers", best(lambda: hash_array(numbers)), 1_000_000)
    report("hash 200 k strings", best(lambda: hash_array(names)), 200_000)
    report("hash 3 strings", best(lambda: hash_array(names.slice(0, 3)), 50), 3)


def time_bind() -> None:
    """Finding the entries of a batch of keys."""
    for name, keys, codec in (
        ("integers, 10 k distinct", integers(100_000, 10_000), LONGS),
        ("strings, 10 k distinct", strings(100_000, 10_000), STRINGS),
        ("integers, 100 k distinct", integers(100_000, 1 << 60), LONGS),
    ):
        report(f"bind 100 k {name}, new", best(lambda k=keys, c=codec: backend(c).bind(k)), len(keys))  # type: ignore[misc]
        known = backend(codec)
        known.bind(keys)
        report(f"bind 100 k {name}, known", best(lambda k=keys, b=known: b.bind(k)), len(keys))  # type: ignore[misc]


def time_calls() -> None:
    """What one record costs in user code: its key is made current, its state read and written."""
    made = backend()
    state = made.state(ValueStateDescriptor("v", Types.LONG()))
    entries = made.bind(integers(100_000, 10_000))

    def loop() -> None:
        for entry in entries:
            made.current = entry
            state.update((state.value() or 0) + 1)

    def nothing() -> None:
        for entry in entries:
            made.current = entry

    report("value() and update(), loop subtracted", best(loop) - best(nothing), len(entries))
    words = made.state(ListStateDescriptor("l", Types.STRING()))
    report("ListState.add()", best(lambda: [words.add("x") for made.current in entries]), len(entries))
    counts = made.state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    report("MapState.put()", best(lambda: [counts.put("x", 1) for made.current in entries]), len(entries))


def time_epochs(total: int, touched: int, directory: str) -> None:
    """An epoch that reads and writes some of the keys of a large state."""
    storage = posix_folder(Path(directory))
    task = HashMapTaskStates.open(storage, [], 1, 0, 1, 128)
    refs = []
    for start in range(0, total, 1_000_000):
        size = min(1_000_000, total - start)
        _epoch(task, np.arange(start, start + size), {})
        refs = [task.snapshot(start, 1, 0)]
    runs = [run.rows for run in task.store("op", "state/v").runs]
    print(f"--- {total // 1000} k keys in state, runs of {runs} rows, {touched // 1000} k touched")
    times: dict[str, list[float]] = {}
    for _ in range(4):
        started = time.perf_counter()
        task = HashMapTaskStates.open(storage, refs, 1, 0, 1, 128)
        times.setdefault("open", []).append(time.perf_counter() - started)
        _epoch(task, RANDOM.permutation(total)[:touched], times)
        started = time.perf_counter()
        task.snapshot(total + 1, 1, 0)
        times.setdefault("snapshot (write, fsync)", []).append(time.perf_counter() - started)
        # The same version, kept by the worker: its checksums are verified already.
        warm = HashMapTaskStates.open(storage, refs, 1, 0, 1, 128)
        _load(warm, RANDOM.permutation(total)[:touched], {})
        _load(warm, RANDOM.permutation(total)[:touched], times)
    for name, values in times.items():
        report(name, min(values), touched)


def _load(task: HashMapTaskStates, keys: Any, times: dict[str, list[float]]) -> None:
    operator = task.operator("op")
    operator.bind_key_codec(LONGS)
    operator.begin_epoch(0, 0)
    state = operator.keyed.state(ValueStateDescriptor("v", PAIR))
    operator.keyed.current = operator.keyed.bind(LONGS.from_array(pa.array(keys)))[0]
    start = time.perf_counter()
    state.value()
    times.setdefault("load, checksums verified before", []).append(time.perf_counter() - start)


def _epoch(task: HashMapTaskStates, keys: Any, times: dict[str, list[float]]) -> None:
    operator = task.operator("op")
    operator.bind_key_codec(LONGS)
    operator.begin_epoch(0, 0)
    keyed = operator.keyed
    state = keyed.state(ValueStateDescriptor("v", PAIR))
    marks = [time.perf_counter()]
    entries = keyed.bind(LONGS.from_array(pa.array(keys)))
    marks.append(time.perf_counter())
    keyed.current = entries[0]
    state.value()
    marks.append(time.perf_counter())
    for entry in entries:
        keyed.current = entry
        old = state.value()
        state.update((1, 1.5) if old is None else (old[0] + 1, old[1]))
    marks.append(time.perf_counter())
    operator.end_epoch()
    marks.append(time.perf_counter())
    for name, start, stop in zip(("bind", "load", "user code", "flush"), marks, marks[1:], strict=False):
        times.setdefault(name, []).append(stop - start)


def main() -> None:
    """Runs everything; the sizes of state, in thousands of keys, can be given as arguments."""
    time_hashing()
    time_bind()
    time_calls()
    for size in sys.argv[1:] or ["100", "1000", "10000"]:
        with tempfile.TemporaryDirectory() as directory:
            time_epochs(int(size) * 1000, min(200_000, int(size) * 1000), directory)


if __name__ == "__main__":
    main()
