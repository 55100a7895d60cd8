"""``TimerLog``: what was done to timers, in order, in columns that become rows of a table as they are."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.state.keyed.namespaces import ordered_bytes
from headrace.state.runs.ordered import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.state.keyed.namespaces import Namespace
    from headrace.state.keyed.scope import KeyScope


class TimerLog:
    """Timers that were registered or deleted, one after the other, the same one any number of times.

    Attributes:
        first: the earliest time in it; ``NO_TIME`` when it is empty.
    """

    __slots__ = ("_live", "_namespaces", "_ordinals", "_times", "first")

    def __init__(self) -> None:
        self.first = NO_TIME
        self._times = array("q")
        self._ordinals = array("q")
        self._namespaces: list[Namespace] = []
        self._live = bytearray()

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[tuple[int, int, Namespace, bool]]:
        """Time, ordinal of the key, namespace, and whether it was registered."""
        return zip(self._times, self._ordinals, self._namespaces, map(bool, self._live), strict=True)

    def add(self, time: int, ordinal: int, namespace: Namespace, live: bool) -> None:
        """Notes that a timer of the key with that ordinal was registered, or else deleted."""
        self._times.append(time)
        self._ordinals.append(ordinal)
        self._namespaces.append(namespace)
        self._live.append(live)
        self.first = min(self.first, time)

    def rows(self, scope: KeyScope, schema: pa.Schema) -> pa.RecordBatch:
        """All that was noted, as it came: time, hash, key, namespace, and whether it was registered."""
        keys = scope.entries.take(np.frombuffer(self._ordinals, dtype=np.int64))
        if self._namespaces.count(None) == len(self):
            namespaces = pa.repeat(pa.scalar(b"", pa.binary()), len(self))
        else:
            namespaces = pa.array(list(map(bytes_of, self._namespaces)), pa.binary())
        live = pa.array(np.frombuffer(self._live, dtype=np.bool_))
        columns = [pa.array(np.frombuffer(self._times, dtype=np.int64)), pa.array(keys.hashes), keys.values]
        return pa.RecordBatch.from_arrays([*columns, namespaces, live], schema=schema)


def bytes_of(namespace: Namespace) -> bytes:
    """A namespace as it is stored and ordered; none is no bytes."""
    return b"" if namespace is None else ordered_bytes(namespace)
