"""Keys as columns: ``KeyColumn``, and the codecs that make one from Python objects or Arrow columns and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array as int_array
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.arguments import is_unicode
from headrace.common.columns import array_to_values, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import BasicType, BasicTypeInfo, PickledBytesTypeInfo
from headrace.common.typeinfo.base import STRINGS
from headrace.state.keys import typed
from headrace.state.keys.encoding import ClassRegistry, KeyDecoder, KeyEncoder
from headrace.state.keys.hashing import canonical, check_no_nulls, hash_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from headrace.common.typeinfo import Json, TypeInformation

    Classes = Iterable[type]


class KeyColumn:
    """Keys of some records in canonical form.

    Args:
        hashes: the 64-bit hash of each, where somebody knows them already.

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
        """The 64-bit hash of each; computed when it is first asked for, since not everybody needs them."""
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
    """How the keys of one operator are stored; chosen when the job is planned. Picklable."""

    type: TypeInformation

    @staticmethod
    def for_type(type_: TypeInformation, classes: Classes = ()) -> KeyCodec:
        """The codec for keys of a declared type; ``classes`` may occur in keys whose type is not declared.

        Raises:
            InvalidTypeError: when values of the type cannot be keys.
        """
        typed.check_key_type(type_)
        basic = type_.basic_type if isinstance(type_, BasicTypeInfo) else None
        if basic in typed.INTEGERS:
            return IntegerKeys(type_)
        if basic in STRINGS:
            return StringKeys(type_)
        if basic is BasicType.BYTES:
            return BytesKeys(type_)
        if isinstance(type_, PickledBytesTypeInfo):
            return EncodedKeys(type_, classes)
        return TypedEncodedKeys(type_, classes)

    @property
    @abstractmethod
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of the canonical values."""

    @property
    def is_plain(self) -> bool:
        """Whether a canonical value, as Arrow gives it to Python, already is the key."""
        return False

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

    @abstractmethod
    def decode(self, values: pa.Array) -> list[Any]:
        """The Python keys that canonical values stand for."""

    def to_json(self) -> Json:
        """What has to be the same for stored keys to be readable."""
        return {"storage": str(self.arrow_type), "type": self.type.to_json()}


class IntegerKeys(KeyCodec):
    """Integers of up to 64 bits, and booleans."""

    def __init__(self, type_: TypeInformation) -> None:
        self.type = type_
        self._bool = isinstance(type_, BasicTypeInfo) and type_.basic_type is BasicType.BOOLEAN

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.int64()

    @property
    def is_plain(self) -> bool:
        return not self._bool

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        try:
            # Takes what has __index__ (numpy's integers, bool), refuses floats, None and what exceeds 64 bits.
            values = pa.array(np.frombuffer(int_array("q", keys), dtype=np.int64))
        except (TypeError, OverflowError):
            raise _misfit(keys, _fits_int64, self.type) from None
        return KeyColumn.of(values)

    def decode(self, values: pa.Array) -> list[Any]:
        keys = values.to_pylist()
        return list(map(bool, keys)) if self._bool else keys


class StringKeys(KeyCodec):
    """Strings."""

    def __init__(self, type_: TypeInformation) -> None:
        self.type = type_

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.string()

    @property
    def is_plain(self) -> bool:
        return True

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        # Arrow would take bytes as well.
        if not all(issubclass(kind, str) for kind in set(map(type, keys))):
            raise _misfit(keys, lambda key: isinstance(key, str), self.type)
        try:
            return KeyColumn.of(pa.array(keys, pa.string()))
        except (pa.ArrowException, UnicodeError):
            raise _misfit(keys, is_unicode, self.type) from None

    def decode(self, values: pa.Array) -> list[Any]:
        keys: list[Any] = values.to_pylist()
        return keys


class BytesKeys(KeyCodec):
    """Byte strings."""

    def __init__(self, type_: TypeInformation) -> None:
        self.type = type_

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.binary()

    @property
    def is_plain(self) -> bool:
        return True

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        if not all(issubclass(kind, bytes | bytearray | memoryview) for kind in set(map(type, keys))):
            raise _misfit(keys, lambda key: isinstance(key, bytes | bytearray | memoryview), self.type)
        return KeyColumn.of(pa.array(list(map(bytes, keys)), pa.binary()))

    def decode(self, values: pa.Array) -> list[Any]:
        keys: list[Any] = values.to_pylist()
        return keys


class EncodedKeys(KeyCodec):
    """Whatever Python object can be a key, in the encoding of :mod:`headrace.state.keys.encoding`.

    ``decode`` gives back a key that is equal to the one encoded: a tuple for a named tuple, an ``int`` for ``1.0``.
    """

    def __init__(self, type_: TypeInformation, classes: Classes = ()) -> None:
        self.type = type_
        self._classes = ClassRegistry(classes)
        self._encoder = KeyEncoder(self._classes)
        self._decoder = KeyDecoder(self._classes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.type, self._classes.classes)

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.binary()

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
        self._needs_python = typed.needs_python(type_)

    def encode(self, keys: Sequence[Any]) -> KeyColumn:
        # By way of the column, so that what the type refuses or rounds is the same on both paths.
        return self.from_array(values_to_array(self.type, list(keys)))

    def from_array(self, array: pa.Array) -> KeyColumn:
        if not self._needs_python and not typed.has_nulls(array):
            return KeyColumn.of(typed.encode_column(array))
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
    """Why something that is not hashable cannot be a key, and what can be one in its place."""
    instead = _HASHABLE.get(type(key), "use tuples instead of lists, and @dataclass(frozen=True) for records")
    return f"{key!r} of type {type(key).__qualname__} cannot be a key: it is not hashable; {instead}"
