"""State of every kind that is exported and taken in piece by piece, with as many rows as a test likes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common import Types
from headrace.operators.join.find_pairs import log_layout
from headrace.operators.window.columnar import windows_by_key
from headrace.operators.window.general import ordered_contents
from headrace.state.backend import StateOwner
from headrace.state.hashmap_backend import HashMapTaskStates
from headrace.state.keyed.namespaces import ordered_bytes
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.runs.layout import KEY_ORDER, LIVE
from headrace.state.runs.merging import describe_run
from headrace.state.state_file import VersionRef
from headrace.storage.folder import Folder
from tests.state.harness import MAX_PARALLELISM, UID

OWNERS: Final = {UID: StateOwner(1, MAX_PARALLELISM)}
CODEC: Final = KeyCodec.for_type(Types.LONG())
KEPT: Final = 1_000
"""For how many milliseconds joins keep records."""

Columns = dict[str, Any]

_TEXT: Final = {"types": {"value": Types.STRING().to_json()}, "keys": CODEC.to_json()}
META: Final[dict[str, dict[str, Any]]] = {
    "value": {"kind": "value", "sort": KEY_ORDER, **_TEXT},
    "list": {"kind": "list", "sort": KEY_ORDER, **_TEXT},
    "windows": {
        "kind": ordered_contents.ELEMENTS_KIND,
        "sort": ["end", *KEY_ORDER],
        "keys": CODEC.to_json(),
        "next": 0,
    },
    "timers": {"kind": "timers", "sort": ["time", *KEY_ORDER], "keys": CODEC.to_json(), "next": 0},
    "join": {**log_layout(CODEC, Types.STRING(), KEPT, is_outer=False).meta, "reached": -KEPT},
    "sessions": {"kind": windows_by_key._KIND, "sort": [*KEY_ORDER, "end"], "keys": CODEC.to_json()},
}
"""What the runs of each kind say about themselves."""

STORES: Final = {
    "value": "state/texts",
    "list": "state/lists",
    "windows": "windows",
    "timers": "timers/event",
    "join": "left",
    "sessions": "sessions",
}


def batch_of(kind: str, keys: npt.NDArray[np.int64], times: npt.NDArray[np.int64], number: int = 0) -> pa.RecordBatch:
    """A run of rows with these keys and times, whose text says what they are; of keyed state each key is there once."""
    if META[kind]["sort"] == KEY_ORDER:
        keys = np.unique(keys)
        times = np.zeros(len(keys), np.int64)
    hashes = KeyColumn.of(pa.array(keys)).hashes
    columns = {"end": times, "time": times, "hash": hashes, "key": keys}
    sort = META[kind]["sort"]
    order = np.lexsort([columns[name] for name in reversed(sort)])
    texts = pa.array([f"{number}-{row:0100d}" for row in order.tolist()])
    ordered = {name: pa.array(columns[name][order]) for name in sort}
    return pa.RecordBatch.from_pydict({**ordered, **_rest(kind, texts)})


def _rest(kind: str, texts: pa.Array) -> Columns:
    rows = len(texts)
    match kind:
        case "list":
            lists = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), texts)
            return {"clear": pa.array(np.zeros(rows, np.bool_)), "value": lists}
        case "join":
            return {"retained_until": pa.array(np.full(rows, 1 << 40)), "record": texts}
        case "timers":
            namespaces = [ordered_bytes((row, row + 1)) for row in range(rows)]
            return {"namespace": pa.array(namespaces, pa.binary()), LIVE: pa.array(np.ones(rows, np.bool_))}
        case "sessions":
            return {LIVE: pa.array(np.ones(rows, np.bool_)), "value": texts}
        case _:
            return {"value": texts}


def stored(kind: str, storage: Folder, rows: int, runs: int = 4) -> VersionRef:
    """A version with so many rows of a kind, in several runs that have keys and times in common."""
    task = HashMapTaskStates.open(storage, [], 1, 0, OWNERS)
    for number in range(runs):
        source = np.random.default_rng(number)
        batch = batch_of(kind, source.integers(0, rows, rows // runs), source.integers(0, 5, rows // runs), number)
        task.store(UID, STORES[kind]).append(batch, describe_run(META[kind], batch))
        ref = task.snapshot(number, 1, 0)
    return ref
