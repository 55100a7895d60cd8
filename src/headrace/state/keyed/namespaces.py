"""Namespaces: state of a key that is kept apart for each window, say, of the key.

State of a (key, namespace) is stored as state of a key is: in rows with a hash and a key in canonical form. That key is
the pair. The upper half of its hash is that of the key alone, and so decides the same key group, at any parallelism;
the lower half tells the namespaces of a key apart, so that a key may have many.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import StateError
from headrace.common.typeinfo import Json
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.keys.codecs import NO_KEY, Entries, KeyEntries, KeyEntry
from headrace.state.keys.encoding import ClassRegistry, KeyDecoder, KeyEncoder
from headrace.state.keys.hashing import hash_array

GivenNamespace = bytes | int | tuple[int, int]
"""The identity of states and timers of one key: start and end of a window, say, or its end alone."""

Namespace = GivenNamespace | None
"""A namespace; None where states and timers are identified by the key alone."""

_KNOWN: Final = 1 << 12
"""Of so many namespaces the other form is remembered: a window has the timers of many keys."""

_SIGN: Final = 1 << 63
_WIDTH: Final = 8
_UPPER_HALF: Final = np.uint64(0xFFFFFFFF00000000)
_LOWER_HALF: Final = np.uint64(0xFFFFFFFF)


class NamespacedKey:
    """A pair of key and namespace in one epoch.

    Attributes:
        key: the entry of the key.
        namespace: the namespace.
        ordinal: the place of the pair among those of the epoch.
    """

    __slots__ = ("key", "namespace", "ordinal")

    def __init__(self, key: KeyEntry, namespace: GivenNamespace, ordinal: int) -> None:
        self.key = key
        self.namespace = namespace
        self.ordinal = ordinal


class NamespacedKeys(Entries[NamespacedKey]):
    """All pairs that were met in one epoch."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[int, Namespace], NamespacedKey] = {}
        self._encoder = KeyEncoder(ClassRegistry())
        self._encoded = 0

    def pair(self, key: KeyEntry, namespace: Namespace) -> NamespacedKey:
        """The entry of a pair.

        Raises:
            StateError: when there is no key, or no namespace.
        """
        found = self._known.get((key.ordinal, namespace))
        if found is None:
            given = _given(namespace)
            found = self._known[key.ordinal, given] = NamespacedKey(key, given, len(self.all))
            self.all.append(found)
        return found

    def columns(self, start: int, stop: int) -> KeyColumn:
        if self._encoded < len(self.all):
            self._chunks.append(self._encode(self.all[self._encoded :]))
            self._encoded = len(self.all)
        return super().columns(start, stop)

    def _encode(self, pairs: list[NamespacedKey]) -> KeyColumn:
        encode = self._encoder.encode
        values = pa.array([encode((pair.key.raw, pair.namespace)) for pair in pairs], pa.binary())
        return KeyColumn(values, _hashes(np.array([pair.key.hash for pair in pairs], np.uint64), values))


class NamespaceScope:
    """The pairs of key and namespace of an epoch, and the current one.

    Attributes:
        entries: the pairs.
        upcoming: keys whose state will be used in the current namespace: it is read together, at the first use.

    Args:
        keys: the keys of the operator, the current one, and the current namespace.
    """

    def __init__(self, keys: KeyScope) -> None:
        self._keys = keys
        self._last: NamespacedKey | None = None
        self.entries = NamespacedKeys()
        self.upcoming: Iterable[KeyEntry] = ()

    @property
    def current(self) -> NamespacedKey:
        """The current key with the current namespace."""
        key, namespace, last = self._keys.current, self._keys.namespace, self._last
        if last is None or last.key is not key or last.namespace != namespace:
            if self.upcoming:
                upcoming, self.upcoming = self.upcoming, ()
                for other in upcoming:
                    self.entries.pair(other, namespace)
            last = self._last = self.entries.pair(key, namespace)
        return last

    def expect(self, pairs: Iterable[tuple[KeyEntry, Namespace]]) -> None:
        """Numbers pairs that will be used, so that their state is read together."""
        pair = self.entries.pair
        for key, namespace in pairs:
            pair(key, namespace)

    def forget_keys(self) -> None:
        """Lets go of the pairs of the epoch."""
        self._last = None
        self.entries = NamespacedKeys()
        self.upcoming = ()


def namespaced(codec: KeyCodec) -> Json:
    """The properties that must not change, for stored pairs of such keys and namespaces to be readable."""
    return {"key": codec.to_json(), "namespace": True}


def decoded_pair(data: bytes) -> tuple[int | str | bytes, GivenNamespace]:
    """A stored pair: the key in canonical form, and the namespace."""
    key, namespace = KeyDecoder(ClassRegistry()).decode(data)
    return key, namespace


def paired(keys: KeyColumn, namespaces: Iterable[object]) -> KeyColumn:
    """The pairs of keys and namespaces, as they are stored."""
    encode = KeyEncoder(ClassRegistry()).encode
    pairs = zip(keys.values.to_pylist(), namespaces, strict=True)
    values = pa.array([encode(pair) for pair in pairs], pa.binary())
    return KeyColumn(values, _hashes(keys.hashes, values))


@lru_cache(maxsize=_KNOWN)
def ordered_bytes(namespace: GivenNamespace) -> bytes:
    """A namespace as bytes that are ordered as bytes, integers, or pairs of integers are (in this order)."""
    if isinstance(namespace, bytes):
        return b"b" + namespace
    if isinstance(namespace, tuple):
        return b"p" + b"".join(map(_bytes_of, namespace))
    return b"i" + _bytes_of(namespace)


@lru_cache(maxsize=_KNOWN)
def namespace_of(data: bytes) -> Namespace:
    """The namespace that :func:`ordered_bytes` gave, or None for no bytes."""
    if not data:
        return None
    kind, content = data[:1], data[1:]
    if kind == b"b":
        return content
    return _integer_of(content) if kind == b"i" else (_integer_of(content[:_WIDTH]), _integer_of(content[_WIDTH:]))


def _bytes_of(number: int) -> bytes:
    # The sign bit is turned over so that the bytes are ordered as the integers are.
    return (number + _SIGN).to_bytes(_WIDTH, "big")


def _integer_of(data: bytes) -> int:
    return int.from_bytes(data, "big") - _SIGN


def _hashes(of_keys: npt.NDArray[np.uint64], pairs: pa.Array) -> npt.NDArray[np.uint64]:
    hashes: npt.NDArray[np.uint64] = (of_keys & _UPPER_HALF) | (hash_array(pairs) & _LOWER_HALF)
    return hashes


def _has_64_bits(number: int) -> bool:
    return -_SIGN <= number < _SIGN


def _given(namespace: object) -> GivenNamespace:
    if type(namespace) is bytes or (type(namespace) is int and _has_64_bits(namespace)):
        return namespace
    if type(namespace) is tuple and len(namespace) == 2 and all(type(number) is int for number in namespace):
        if all(map(_has_64_bits, namespace)):
            return namespace
        raise StateError(f"a window from {namespace[0]} to {namespace[1]}: its start and its end must have 64 bits")
    raise StateError(
        f"state of a key and namespace is used while the namespace is {namespace!r}, "
        "not an int, a pair of them (start and end of a window), or bytes"
    )


class StateScope(Protocol):
    """The scope of a state: the keys of an operator, or pairs of key and namespace."""

    @property
    def current(self) -> Any:
        """The current key; its ``ordinal`` is the place of its values in a state."""

    @property
    def entries(self) -> Entries[Any]:
        """The keys of this epoch."""


class KeyScope:
    """The keys of an epoch and the current one.

    Attributes:
        codec: how keys are stored.
        current: the key that is being processed; an operator sets it before it calls user code, and to ``NO_KEY``
            after it.
        namespace: the namespace that state of a key and namespace is used in.
        clock: the processing time of the epoch, in milliseconds.
        event_time: the event time that what is being processed meets; an operator that hands over records with
            watermarks, or timers, sets it as it goes.
        entries: the keys of the epoch.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self.codec = codec
        self.current: KeyEntry = NO_KEY
        self.namespace: Namespace = None
        self.clock = 0
        self.event_time = MIN_WATERMARK
        self.entries = KeyEntries(codec)

    def bind(self, keys: KeyColumn) -> list[KeyEntry]:
        """The entry of each key; equal keys have the same entry throughout an epoch."""
        return self.entries.bind(keys)

    def expect(self, pairs: Iterable[tuple[KeyEntry, Namespace]]) -> None:
        """Says which keys will be current in which namespaces; nothing has to come of it."""

    def forget_keys(self) -> None:
        """Lets go of the keys of the epoch.

        At its end rather than when the next one begins: Spark collects garbage in between, and would look at them all.
        """
        self.current = NO_KEY
        self.entries = KeyEntries(self.codec)
