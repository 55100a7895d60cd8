"""The keys of one epoch: one entry object per distinct key, found for whole columns of keys at once."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import StateError
from headrace.common.garbage import gc_paused
from headrace.state.keys.codecs import KeyColumn

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.state.keys.codecs import KeyCodec

SMALL_BATCH: Final = 32
"""Up to this many keys a dict is faster than sorting."""

MOST_AHEAD: Final = 1 << 10
"""So many keys are decoded together at most when one of them is asked for."""


class KeyEntry:
    """One key in one epoch.

    Attributes:
        key: the key as the user knows it.
        hash: its 64-bit hash.
        ordinal: its place among the keys of the epoch, where every state keeps what it holds for the key.
        raw: the key in canonical form: an int, a str or bytes; equal for equal keys.
    """

    __slots__ = ("hash", "key", "ordinal", "raw")

    def __init__(self, raw: Any, hash_: int, ordinal: int) -> None:
        self.raw = self.key = raw
        self.hash = hash_
        self.ordinal = ordinal

    def __repr__(self) -> str:
        return f"KeyEntry({self.key!r})"


class EncodedKeyEntry:
    """The same for a key that has to be decoded, which is done when it is asked for."""

    __slots__ = ("_decoder", "decoded", "hash", "ordinal", "raw")

    def __init__(self, raw: Any, hash_: int, ordinal: int, decoder: _Decoder) -> None:
        self.raw = raw
        self.hash = hash_
        self.ordinal = ordinal
        self.decoded: Any = _UNDECODED
        self._decoder = decoder

    @property
    def key(self) -> Any:
        """The key as the user knows it."""
        if self.decoded is _UNDECODED:
            self._decoder.decode(self.ordinal)
        return self.decoded

    def __repr__(self) -> str:
        return f"KeyEntry({self.key!r})"


AnyKeyEntry = KeyEntry | EncodedKeyEntry


class _Decoder:
    """Decodes keys that are asked for one by one, more of them at a time when they are asked for in their order.

    Args:
        codec: how they are stored.
        entries: all of them, by ordinal.
    """

    __slots__ = ("_ahead", "_codec", "_entries", "_next")

    def __init__(self, codec: KeyCodec, entries: list[AnyKeyEntry]) -> None:
        self._codec = codec
        self._entries = entries
        self._next = 0
        self._ahead = 1

    def decode(self, ordinal: int) -> None:
        """Decodes the key with an ordinal, which was not decoded before."""
        goes_on = 0 <= ordinal - self._next < self._ahead
        self._ahead = min(2 * self._ahead, MOST_AHEAD) if goes_on else 1
        self._next = ordinal + self._ahead
        entries = self._entries[ordinal : self._next]
        keys = self._codec.decode(pa.array([entry.raw for entry in entries], self._codec.arrow_type))
        for entry, key in zip(entries, keys, strict=True):
            if entry.decoded is _UNDECODED:  # type: ignore[union-attr]  # all are of one kind
                entry.decoded = key  # type: ignore[union-attr]


class NoKey:
    """Stands for the current key while there is none: every access through it is an error."""

    __slots__ = ()

    @property
    def ordinal(self) -> int:
        """Never there."""
        raise StateError(
            "keyed state and timers can only be used while a record or a timer of a key is processed, "
            "not in open(), close() or for a stream without key_by(); in process_broadcast_element, "
            "ctx.apply_to_keyed_state(descriptor, function) reaches the state of all keys"
        )

    key = hash = raw = ordinal


_UNDECODED: Final = object()
NO_KEY: Final = NoKey()


class KeyEntries:
    """All keys that were met in one epoch, numbered in the order in which they were met."""

    def __init__(self, codec: KeyCodec) -> None:
        self._codec = codec
        self._known: dict[Any, AnyKeyEntry] = {}
        self._chunks: list[KeyColumn] = []
        self.all: list[AnyKeyEntry] = []
        self._decoder = _Decoder(codec, self.all)

    def bind(self, keys: KeyColumn) -> list[AnyKeyEntry]:
        """The entry of each key; equal keys have the same one."""
        if len(keys) <= SMALL_BATCH:
            return self._bind_few(keys)
        first, group = _in_order_of_appearance(*distinct_keys(keys))
        with gc_paused():
            entries = np.empty(len(first), dtype=object)
            entries[:] = self._entries_of(keys.take(first))
            gathered: list[AnyKeyEntry] = entries[group].tolist()
        return gathered

    def _entries_of(self, keys: KeyColumn) -> list[AnyKeyEntry]:
        """The entries of distinct keys."""
        raws = keys.values.to_pylist()
        if not self._known:
            return self._add(keys, raws)
        self._add_unknown(keys, raws)
        return list(map(self._known.__getitem__, raws))

    def _bind_few(self, keys: KeyColumn) -> list[AnyKeyEntry]:
        known, raws = self._known, keys.values.to_pylist()
        try:
            return [known[raw] for raw in raws]
        except KeyError:
            rows: dict[Any, int] = {}
            for row, raw in enumerate(raws):
                rows.setdefault(raw, row)
            self._add_unknown(keys.take(np.array([*rows.values()], dtype=np.int64)), [*rows])
            return [known[raw] for raw in raws]

    def columns(self, start: int, stop: int) -> KeyColumn:
        """The keys with the ordinals from ``start`` up to ``stop``."""
        if len(self._chunks) > 1:
            self._chunks = [KeyColumn.concat(self._chunks)]
        return self._chunks[0].slice(start, stop)

    def take(self, ordinals: npt.NDArray[np.int64]) -> KeyColumn:
        """The keys with these ordinals."""
        return self.columns(0, len(self.all)).take(ordinals)

    def _add_unknown(self, keys: KeyColumn, raws: list[Any]) -> None:
        """Numbers those of the keys, which are distinct, that were not met before."""
        known = self._known
        rows = [row for row, raw in enumerate(raws) if raw not in known]
        if not rows:
            return
        if len(rows) < len(raws):
            keys, raws = keys.take(np.array(rows)), [raws[row] for row in rows]
        self._add(keys, raws)

    def _add(self, keys: KeyColumn, raws: list[Any]) -> list[AnyKeyEntry]:
        """Numbers distinct keys that were not met before."""
        ordinals = range(len(self.all), len(self.all) + len(raws))
        entries: list[AnyKeyEntry]
        if self._codec.is_plain:
            entries = list(map(KeyEntry, raws, keys.hashes.tolist(), ordinals))
        else:
            entries = list(map(EncodedKeyEntry, raws, keys.hashes.tolist(), ordinals, repeat(self._decoder)))
        self._known.update(zip(raws, entries, strict=True))
        self.all.extend(entries)
        self._chunks.append(keys)
        return entries


def distinct_keys(keys: KeyColumn) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The row in which each distinct key is first met, and for every row the number of its key among those.

    Distinct keys are in the order of their hashes, unless two of them have the same one.
    """
    order, hashes = order_by_hash(keys.hashes)
    starts = np.empty(len(order), dtype=bool)
    starts[0] = True
    np.not_equal(hashes[1:], hashes[:-1], out=starts[1:])
    if not pa.types.is_int64(keys.values.type) and _has_collision(keys.values, order, starts):
        return _distinct_values(keys.values)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(starts) - 1
    return order[starts], group


def _in_order_of_appearance(
    first: npt.NDArray[np.int64], group: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """What `distinct_keys` gave, renumbered: entries and their state then lie in memory as the records come by.

    With more keys than fit the processor's caches, that is what a call of the user's function waits for.
    """
    appears = np.zeros(len(group), dtype=bool)
    appears[first] = True
    return np.flatnonzero(appears), (np.cumsum(appears)[first] - 1)[group]


def order_by_hash(hashes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The stable order of the rows by hash, and the hashes in that order."""
    # Sorting the upper bits of the hash together with the row number is three times as fast as argsort.
    bits = np.uint64(max(1, (len(hashes) - 1).bit_length()))
    mask = (np.uint64(1) << bits) - np.uint64(1)
    packed = (hashes & ~mask) | np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order = (packed & mask).view(np.int64)
    ordered = hashes[order]
    if (ordered[1:] < ordered[:-1]).any():  # some differ in the lower bits alone; sorting what is nearly sorted is fast
        again = np.argsort(ordered, kind="stable")
        order, ordered = order[again], ordered[again]
    return order, ordered


def _has_collision(values: pa.Array, order: npt.NDArray[np.int64], starts: npt.NDArray[np.bool_]) -> bool:
    """Whether two different keys have the same hash. Integers never do: their hash can be undone."""
    repeated = np.flatnonzero(~starts)
    if not len(repeated):
        return False
    same = pc.equal(values.take(pa.array(order[repeated])), values.take(pa.array(order[repeated - 1])))
    return not pc.all(same).as_py()


def _distinct_values(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    codes = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first = np.unique(codes, return_index=True)
    return first, codes
