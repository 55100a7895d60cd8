"""Keys as columns: ``KeyColumn``, and the codecs that make one from Python objects or Arrow columns and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array as int_array
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import InvalidTypeError, StateError, is_unicode
from headrace.common.garbage import gc_paused
from headrace.common.typeinfo import BasicType, BasicTypeInfo, Json, PickledBytesTypeInfo, TypeInformation
from headrace.common.typeinfo.base import STRINGS
from headrace.state.keys import typed
from headrace.state.keys.encoding import ClassRegistry, KeyDecoder, KeyEncoder, encode_column, encode_few
from headrace.state.keys.hashing import canonical, check_no_nulls, hash_array

Classes = Iterable[type]


class KeyColumn:
    """Keys of some records in canonical form.

    Args:
        hashes: the 64-bit hash of each, where they are known already.

    Attributes:
        values: int64, string or binary; no nulls. Two keys are equal when these values are.
    """

    __slots__ = ("_hashes", "values")

    def __init__(self, values: pa.Array, hashes: npt.NDArray[np.uint64] | None = None) -> None:
        self.values = values
        self._hashes = hashes

    @staticmethod
    def of(values: pa.Array) -> KeyColumn:
        """The keys with these canonical values.

        Raises:
            InvalidTypeError: when one of them is null.
        """
        check_no_nulls(values)
        return KeyColumn(values)

    @property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """The 64-bit hash of each; computed at the first use, since not all callers need them."""
        if self._hashes is None:
            self._hashes = hash_array(self.values)
        return self._hashes

    def __len__(self) -> int:
        return len(self.values)

    def take(self, indices: npt.NDArray[np.integer[Any]]) -> KeyColumn:
        """The keys at ``indices``, in that order."""
        hashes = None if self._hashes is None else self._hashes[indices]
        return KeyColumn(self.values.take(pa.array(indices)), hashes)

    def slice(self, start: int, stop: int) -> KeyColumn:
        """The keys from ``start`` up to ``stop``."""
        hashes = None if self._hashes is None else self._hashes[start:stop]
        return KeyColumn(self.values.slice(start, stop - start), hashes)

    @staticmethod
    def concat(columns: Sequence[KeyColumn]) -> KeyColumn:
        """The keys of several columns (at least one) of one codec, one after the other."""
        if len(columns) == 1:
            return columns[0]
        values = pa.concat_arrays([column.values for column in columns])
        known = [column._hashes for column in columns if column._hashes is not None]
        return KeyColumn(values, np.concatenate(known) if len(known) == len(columns) else None)


class KeyCodec(ABC):
    """The format in which the keys of one operator are stored; chosen when the job is planned. Picklable.

    Attributes:
        type: the type of the keys.
        arrow_type: the Arrow type of the canonical values.
        is_plain: whether a canonical value, as Arrow gives it to Python, already is the key.
        gives_columns: whether columns of keys follow from canonical values without Python objects, as they were.
        takes_nulls: whether a null is a key, too.
    """

    arrow_type: ClassVar[pa.DataType] = pa.binary()
    is_plain = True
    gives_columns = False
    takes_nulls = False

    def __init__(self, type_: TypeInformation) -> None:
        self.type = type_

    @staticmethod
    def for_type(type_: TypeInformation, classes: Classes = (), *, takes_lists: bool = False) -> KeyCodec:
        """The codec for keys of a declared type.

        Args:
            type_: the type.
            classes: the classes that may occur in keys whose type is not declared.
            takes_lists: whether keys may hold lists, as columns of SQL do.

        Raises:
            InvalidTypeError: when values of the type cannot be keys.
        """
        basic = type_.basic_type if isinstance(type_, BasicTypeInfo) else None
        if basic is None:
            typed.check_key_type(type_, takes_lists=takes_lists)
        if basic in typed.INTEGERS:
            return IntegerKeys(type_)
        if basic in STRINGS:
            return StringKeys(type_)
        if basic is BasicType.BYTES:
            return BytesKeys(type_)
        return (EncodedKeys if isinstance(type_, PickledBytesTypeInfo) else TypedEncodedKeys)(type_, classes)

    @abstractmethod
    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        """The keys, given as Python objects.

        Raises:
            InvalidTypeError: when one of them does not fit; the message names it.
        """

    def from_array(self, array: pa.Array) -> KeyColumn:
        """The keys, given as a column under the declared type's Arrow type.

        Raises:
            InvalidTypeError: when one of them is null or does not fit.
        """
        return KeyColumn.of(canonical(array))

    def decode(self, values: pa.Array) -> list[Any]:
        """The Python keys that canonical values stand for."""
        keys: list[Any] = values.to_pylist()
        return keys

    def to_array(self, values: pa.Array) -> pa.Array:
        """The column of keys, under the declared type's Arrow type, that canonical values stand for."""
        storage = self.type.storage_type
        if self.is_plain or pa.types.is_boolean(storage):
            return values.cast(storage)
        return values_to_array(self.type, self.decode(values))

    def to_json(self) -> Json:
        """The properties that must not change, for stored keys to be readable."""
        return {"storage": str(self.arrow_type), "type": self.type.to_json()}


class IntegerKeys(KeyCodec):
    """Integers of up to 64 bits, and booleans."""

    arrow_type = pa.int64()
    gives_columns = True

    def __init__(self, type_: TypeInformation) -> None:
        super().__init__(type_)
        self.is_plain = not (isinstance(type_, BasicTypeInfo) and type_.basic_type is BasicType.BOOLEAN)

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        try:
            # Takes what has __index__ (numpy's integers, bool), refuses floats, None and what exceeds 64 bits.
            values = pa.array(np.frombuffer(int_array("q", keys), dtype=np.int64))
        except (TypeError, OverflowError):
            raise _misfit(keys, _fits_int64, self.type) from None
        return KeyColumn.of(values)

    def decode(self, values: pa.Array) -> list[Any]:
        return super().decode(values if self.is_plain else values.cast(pa.bool_()))


class StringKeys(KeyCodec):
    """Strings."""

    arrow_type = pa.string()
    gives_columns = True

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        # Arrow would take bytes as well.
        if not all(issubclass(kind, str) for kind in set(map(type, keys))):
            raise _misfit(keys, lambda key: isinstance(key, str), self.type)
        try:
            return KeyColumn.of(pa.array(keys, pa.string()))
        except (pa.ArrowException, UnicodeError):
            raise _misfit(keys, is_unicode, self.type) from None


class BytesKeys(KeyCodec):
    """Byte strings."""

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        if not all(issubclass(kind, bytes | bytearray | memoryview) for kind in set(map(type, keys))):
            raise _misfit(keys, lambda key: isinstance(key, bytes | bytearray | memoryview), self.type)
        return KeyColumn.of(pa.array(list(map(bytes, keys)), pa.binary()))


class EncodedKeys(KeyCodec):
    """Whatever Python object can be a key, in the encoding of :mod:`headrace.state.keys.encoding`.

    ``decode`` gives back a key that is equal to the one encoded: a tuple for a named tuple, an ``int`` for ``1.0``.
    """

    is_plain = False

    def __init__(self, type_: TypeInformation, classes: Classes = ()) -> None:
        super().__init__(type_)
        self._classes = ClassRegistry(classes)
        self._encoder = KeyEncoder(self._classes)
        self._decoder = KeyDecoder(self._classes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.type, self._classes.classes)

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        return KeyColumn.of(pa.array(self._encode_all(keys), pa.binary()))

    def _encode_all(self, keys: Sequence[Any]) -> list[bytes]:
        # Keys that Python calls equal have the same bytes, so a dict may answer for the repeated ones.
        known: dict[Any, bytes] = {}
        encode = self._encoder.encode
        encoded = []
        for key in keys:
            try:
                data = known.get(key)
            except TypeError:
                raise _unhashable(key) from None
            if data is None:
                data = known[key] = encode(key)
            encoded.append(data)
        return encoded

    def from_array(self, array: pa.Array) -> KeyColumn:
        return self.encode(array_to_values(self.type, array))

    def decode(self, values: pa.Array) -> list[Any]:
        return list(map(self._decoder.decode, values.to_pylist()))


class TypedEncodedKeys(EncodedKeys):
    """The same encoding for keys whose type is declared: records are rebuilt as the type says."""

    def __init__(self, type_: TypeInformation, classes: Classes = ()) -> None:
        super().__init__(type_, classes)
        self._to_plain = typed.to_plain(type_)
        self._from_plain = typed.from_plain(type_)
        self._has_columns = typed.has_columns(type_)

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        # By way of the column, so that what the type refuses or rounds is the same on both paths.
        return self.from_array(values_to_array(self.type, list(keys)))

    def from_array(self, array: pa.Array) -> KeyColumn:
        few = encode_few(array) if self._has_columns and pa.types.is_struct(array.type) else None
        if few is not None:
            different, numbers = few
            return KeyColumn(different.take(pa.array(numbers)), hash_array(different).take(numbers))
        encoded = encode_column(array) if self._has_columns else None
        if encoded is not None:
            return KeyColumn(encoded)
        keys = array_to_values(self.type, array)
        return super().encode(keys if self._to_plain is None else list(map(self._to_plain, keys)))

    def decode(self, values: pa.Array) -> list[Any]:
        plain = super().decode(values)
        return plain if self._from_plain is None else list(map(self._from_plain, plain))


def _fits_int64(key: Any) -> bool:
    try:
        int_array("q", [key])
    except (TypeError, OverflowError):
        return False
    return True


def _misfit(keys: Sequence[Any], fits: Callable[[Any], bool], type_: TypeInformation) -> InvalidTypeError:
    bad = next((key for key in keys if not fits(key)), None)
    return InvalidTypeError(
        f"the key {bad!r} of type {type(bad).__qualname__} does not fit the declared key type {type_}"
    )


_HASHABLE: Final[dict[type, str]] = {
    list: "make it a tuple",
    dict: "make it a tuple of its items, in a fixed order",
    set: "make it a frozenset",
    bytearray: "make it bytes",
}


def _unhashable(key: Any) -> InvalidTypeError:
    declaration = typed.declaration_for(key)
    or_declare = "" if declaration is None else f"; or declare what it has in it, key_by(..., key_type={declaration})"
    return InvalidTypeError(f"{not_hashable(key)}{or_declare}")


def not_hashable(key: Any) -> str:
    """The reason why something that is not hashable cannot be a key, and what can be one in its place."""
    instead = _HASHABLE.get(type(key), "use tuples instead of lists, and @dataclass(frozen=True) for records")
    return f"{key!r} of type {type(key).__qualname__} cannot be a key: it is not hashable; {instead}"


SMALL_BATCH: Final = 32
"""Up to this many keys a dict is faster than sorting."""

MOST_AHEAD: Final = 1 << 10
"""The most keys that are decoded together when one of them is needed."""


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


class EncodedKeyEntry(KeyEntry):
    """A key that is decoded when it is first needed."""

    __slots__ = ("_decoder",)

    def __init__(self, raw: Any, hash_: int, ordinal: int, decoder: _Decoder) -> None:
        self.raw = raw
        self.hash = hash_
        self.ordinal = ordinal
        self._decoder: _Decoder | None = decoder

    def __getattr__(self, name: str) -> Any:
        # Called for a slot that is empty: the key has not been decoded yet.
        if name != "key" or self._decoder is None:
            raise AttributeError(name)
        self._decoder.decode(self.ordinal)
        return self.key

    def decoded(self, key: Any) -> None:
        """Takes the key, unless it is known already."""
        if self._decoder is not None:
            self.key, self._decoder = key, None


class _Decoder:
    """Decodes keys that are read one by one, more of them at a time when they are read in their order."""

    __slots__ = ("_ahead", "_codec", "_entries", "_next")

    def __init__(self, codec: KeyCodec) -> None:
        self._codec = codec
        self._entries: list[EncodedKeyEntry] = []
        self._next = 0
        self._ahead = 1

    def new_entries(self, raws: list[Any], hashes: list[int], ordinals: range) -> list[KeyEntry]:
        """Entries of keys that were not met before, in the order of their ordinals."""
        entries = list(map(EncodedKeyEntry, raws, hashes, ordinals, repeat(self)))
        self._entries += entries
        return [*entries]

    def decode(self, ordinal: int) -> None:
        """Decodes the key with an ordinal, which was not decoded before."""
        goes_on = 0 <= ordinal - self._next < self._ahead
        self._ahead = min(2 * self._ahead, MOST_AHEAD) if goes_on else 1
        self._next = ordinal + self._ahead
        entries = self._entries[ordinal : self._next]
        keys = self._codec.decode(pa.array([entry.raw for entry in entries], self._codec.arrow_type))
        for entry, key in zip(entries, keys, strict=True):
            entry.decoded(key)


class _NoKey(KeyEntry):
    """Stands for the current key while there is none: every access through it is an error."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        # All slots are empty.
        if name.startswith("__"):
            raise AttributeError(name)
        raise StateError(
            "keyed state and timers can only be used while a record or a timer of a key is processed, "
            "not in open(), close() or for a stream without key_by(); in process_broadcast_element, "
            "ctx.apply_to_keyed_state(descriptor, function) reaches the state of all keys"
        )

    def __repr__(self) -> str:
        return "NO_KEY"


NO_KEY: Final[KeyEntry] = _NoKey()

E = TypeVar("E")


class Entries(Generic[E]):
    """The entries of one epoch, numbered in the order of their first occurrence.

    Attributes:
        all: the entries, by their numbers.
    """

    def __init__(self) -> None:
        self.all: list[E] = []
        self._chunks: list[KeyColumn] = []

    def columns(self, start: int, stop: int) -> KeyColumn:
        """The encoded entries with the ordinals from ``start`` up to ``stop``."""
        newest = len(self.all) - len(self._chunks[-1])
        if start >= newest:  # as a rule the newest are read, and the others need not be copied for that
            return self._chunks[-1].slice(start - newest, stop - newest)
        self._chunks = [KeyColumn.concat(self._chunks)]
        return self._chunks[0].slice(start, stop)

    def take(self, ordinals: npt.NDArray[np.int64]) -> KeyColumn:
        """The encoded entries with these ordinals."""
        return self.columns(0, len(self.all)).take(ordinals)


class KeyEntries(Entries[KeyEntry]):
    """All keys that were met in one epoch."""

    def __init__(self, codec: KeyCodec) -> None:
        super().__init__()
        self._known: dict[Any, KeyEntry] = {}
        self._decoder = None if codec.is_plain else _Decoder(codec)

    def bind(self, keys: KeyColumn) -> list[KeyEntry]:
        """The entry of each key; equal keys have the same one."""
        if len(keys) <= SMALL_BATCH:
            return self._bind_few(keys)
        first, group = _in_order_of_appearance(*distinct_keys(keys))
        with gc_paused():
            entries = np.empty(len(first), dtype=object)
            entries[:] = self._entries_of(keys.take(first))
            gathered: list[KeyEntry] = entries[group].tolist()
        return gathered

    def _entries_of(self, keys: KeyColumn) -> list[KeyEntry]:
        raws = keys.values.to_pylist()
        if not self._known:
            return self._add(keys, raws)
        self._add_unknown(keys, raws)
        return list(map(self._known.__getitem__, raws))

    def _bind_few(self, keys: KeyColumn) -> list[KeyEntry]:
        known, raws = self._known, keys.values.to_pylist()
        try:
            return [known[raw] for raw in raws]
        except KeyError:
            rows: dict[Any, int] = {}
            for row, raw in enumerate(raws):
                rows.setdefault(raw, row)
            self._add_unknown(keys.take(np.array([*rows.values()], dtype=np.int64)), [*rows])
            return [known[raw] for raw in raws]

    def _add_unknown(self, keys: KeyColumn, raws: list[Any]) -> None:
        """Numbers those of the keys, which are distinct, that were not met before."""
        known = self._known
        rows = [row for row, raw in enumerate(raws) if raw not in known]
        if not rows:
            return
        if len(rows) < len(raws):
            keys, raws = keys.take(np.array(rows)), [raws[row] for row in rows]
        self._add(keys, raws)

    def _add(self, keys: KeyColumn, raws: list[Any]) -> list[KeyEntry]:
        """Numbers distinct keys that were not met before."""
        ordinals = range(len(self.all), len(self.all) + len(raws))
        if self._decoder is None:
            entries = list(map(KeyEntry, raws, keys.hashes.tolist(), ordinals))
        else:
            entries = self._decoder.new_entries(raws, keys.hashes.tolist(), ordinals)
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
    """The result of `distinct_keys`, renumbered: entries and their state then lie in memory in the order of records.

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
    """Return whether two different keys have the same hash. Integers never do: their hash can be undone."""
    repeated = np.flatnonzero(~starts)
    if not len(repeated):
        return False
    same = pc.equal(values.take(pa.array(order[repeated])), values.take(pa.array(order[repeated - 1])))
    return not pc.all(same).as_py()


def _distinct_values(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    codes = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first = np.unique(codes, return_index=True)
    return first, codes
