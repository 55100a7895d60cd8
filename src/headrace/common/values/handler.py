"""``TypeHandler``: everything that is done with the values of one type; and the handlers of lists, arrays and maps."""

import array as arrays
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import valid_mask
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import MapTypeInfo, SequenceTypeInfo, TypeInformation

Mask = npt.NDArray[np.bool_]


_FUNCTION: Final = """
def check(value):
    try:
        return {condition}
    except Exception:  # the comparison of a user's object may raise anything: pandas.NA == "a" has no truth value
        return False
"""


class CheckSource:
    """The source of one check, while it is being written: expressions are made of positions, ranges and names alone."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._variables = 0

    @staticmethod
    def compiled(handler: "TypeHandler", *, takes_none: bool = True) -> Callable[[Any], bool]:
        """The check of a handler: whether a value is coerced; without ``takes_none``, whether it is and is not None."""
        source = CheckSource()
        condition = source.or_none(handler, "value") if takes_none else handler.add_check(source, "value")
        exec(_FUNCTION.format(condition=condition), source._objects)
        check: Callable[[Any], bool] = source._objects["check"]
        return check

    def or_none(self, handler: "TypeHandler", value: str) -> str:
        """An expression: whether what the expression ``value`` gives is coerced, or ``None`` where that is allowed."""
        check = handler.add_check(self, value)
        return f"({check} or {value} is None)" if handler.info.nullable else check

    def name_of(self, item: object) -> str:
        """The name that stands for an object in the expression."""
        name = f"object_{len(self._objects)}"
        self._objects[name] = item
        return name

    def bind(self, value: str) -> tuple[str, str]:
        """Two expressions for what the expression ``value`` gives: where it is used first, and where it is again."""
        if value.isidentifier():
            return value, value
        self._variables += 1
        variable = f"part_{self._variables}"
        return f"({variable} := {value})", variable


NOT_COERCED: Final = object()
"""The result of :meth:`TypeHandler.coerce_fast` for a value that takes the long way."""

_SHOWN: Final = 200
"""The characters of a wrong value that an error message shows."""


class WrongValueError(Exception):
    """A value does not fit; internal, since only the caller knows the row and the field.

    What it tells is exact when a single value was to be encoded. Of many, it is one that may be wrong.
    """

    def __init__(self, value: object, expected: str, path: str = "") -> None:
        super().__init__(value, expected, path)
        self.value = value
        self.expected = expected
        self.path = path

    def inside(self, segment: str) -> "WrongValueError":
        """Return the same error, seen from the value that contains the wrong one."""
        return WrongValueError(self.value, self.expected, segment + self.path)

    def describe(self) -> str:
        """Return where within the value, what is there, and what was expected."""
        kind = "" if isinstance(self.value, StoredValue) else f" ({type(self.value).__name__})"
        return f"{self.path}: got {shown_value(self.value)}{kind}, expected {self.expected}"


class StoredValue(str):
    """The text of a stored value that no object of Python stands for."""

    __slots__ = ()

    __repr__ = str.__str__


class TypeHandler(ABC):
    """Converts the values of one type: to Arrow and back, to the form in which they are stored, to text and back.

    ``None`` is a value of every type that is nullable. A value is *coerced* when it looks as it does when it comes back
    from a column: a function sees the same, whether a value was stored meanwhile or not.

    Attributes:
        info: the type.
        storage: the type of the arrays.
        none_text: the text of ``None``.
    """

    __slots__ = ("__dict__", "info", "storage")

    none_text: ClassVar[str] = "null"

    def __init__(self, info: TypeInformation) -> None:
        self.info = info
        self.storage: pa.DataType = info.storage_type

    @cached_property
    def is_coerced(self) -> Callable[[Any], bool]:
        """Tells whether a value is coerced already; compiled on first use, as columns need no such check."""
        return CheckSource.compiled(self)

    def encode(self, values: Sequence[object]) -> pa.Array:
        """The values as an array.

        Raises:
            WrongValueError: when one does not fit.
        """
        array = self.encode_nullable(values)
        if not self.info.nullable and array.null_count:
            raise self._missing()
        return array

    @abstractmethod
    def encode_nullable(self, values: Sequence[object]) -> pa.Array:
        """Do as :meth:`encode` does, as if the type were nullable."""

    @abstractmethod
    def decode(self, array: pa.Array) -> list[Any]:
        """The values of an array of type :attr:`storage`, coerced.

        Raises:
            ValueError: when one is unreadable; an ``ArithmeticError`` likewise.
        """

    def unreadable(self, array: pa.Array) -> Mask | None:
        """Return a mask of the values that are none of this type, so that :meth:`decode` fails; None where all are.

        That all are good has to be found out quickly, since every batch that comes from outside is checked.
        """
        mask = self.unreadable_present(array)
        return mask if self.info.nullable or not array.null_count else any_of([mask, ~valid_mask(array)])

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        """Do as :meth:`unreadable` does, of values that are there."""
        return None

    def explained(self, array: pa.Array) -> WrongValueError:
        """The error of an array whose only value is unreadable."""
        return self._missing() if array.null_count else self.explained_present(array)

    def explained_present(self, array: pa.Array) -> WrongValueError:
        """Do as :meth:`explained` does, of a value that is there."""
        raise NotImplementedError(self.info)

    def _missing(self) -> WrongValueError:
        return WrongValueError(None, f"a value of type {self.info}")

    @abstractmethod
    def add_check(self, source: CheckSource, value: str) -> str:
        """A conjunction in Python: whether what the expression ``value`` gives is coerced; false for ``None``."""

    def all_coerced(self, values: Collection[object]) -> bool:
        """Return whether all of some values are coerced."""
        return all(map(self.is_coerced, values))

    def coerce(self, value: object, subject: str = "the value") -> Any:
        """The value itself if it is coerced, else one that is; ``subject`` is what an error calls it.

        Raises:
            InvalidTypeError: when it does not fit the type; the message says what was expected.
        """
        if self.is_coerced(value):
            return value
        coerced = self.coerce_fast(value)
        if coerced is not NOT_COERCED:
            return coerced
        try:
            return self.decode(self.encode([value]))[0]
        except WrongValueError as error:
            raise InvalidTypeError(f"{subject}{error.describe()}") from error

    def coerce_fast(self, value: object) -> Any:
        """A value that is not coerced, coerced without Arrow, which takes tens of microseconds for a single value.

        ``NOT_COERCED`` where this is not known, or not allowed.
        """
        return NOT_COERCED

    def check(self, values: Iterable[object]) -> None:
        """Refuse values that do not fit the type.

        Raises:
            InvalidTypeError: for the first of them.
        """
        is_coerced = self.is_coerced
        for value in values:
            if not is_coerced(value):
                self.coerce(value)

    def text(self, value: object) -> str:
        """The value as Flink's own (Java's) classes write it, ``(a,1,true)`` for a tuple; what a text file holds.

        What Java has no class for is written as Python writes it.
        """
        return self.none_text if value is None else self.text_of_present(value)

    def text_of_present(self, value: object) -> str:
        """Do as :meth:`text` does, of a value that is not ``None``."""
        return str(value)

    def printed(self, value: object) -> str:
        """The value as ``print()`` of PyFlink shows it."""
        return self.text(value)

    def parse(self, text: str) -> Any:
        """A value from its text: a number in digits, a time in ISO 8601, bytes in Base64.

        Raises:
            ValueError: when the text is no value of this type, or the type has no such text.
        """
        raise ValueError(f"a value of type {self.info} cannot be read from text")

    def parse_all(self, texts: pa.Array) -> pa.Array:
        """A column of values from their texts, by the rule of :meth:`parse`; null stays null.

        Raises:
            ValueError: for the first text that is no value of this type.
        """
        return self.encode([None if text is None else self.parse(text) for text in texts.to_pylist()])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.info})"


class NestedHandler(TypeHandler):
    """A handler of values with parts, which looks at the values that are there; nulls are handled here."""

    __slots__ = ()

    @abstractmethod
    def encode_present(self, values: Sequence[object]) -> pa.Array:
        """Do as ``encode`` does, without any ``None``."""

    @abstractmethod
    def decode_present(self, array: pa.Array) -> list[Any]:
        """Do as ``decode`` does, without any null."""

    def encode_nullable(self, values: Sequence[object]) -> pa.Array:
        if None.__class__ not in set(map(type, values)):
            return self.encode_present(values)
        present = np.fromiter((value is not None for value in values), np.bool_, len(values))
        dense = self.encode_present([value for value in values if value is not None])
        return dense.take(pa.array(np.cumsum(present) - 1, pa.int64(), mask=~present))

    def decode(self, array: pa.Array) -> list[Any]:
        if not array.null_count:
            return self.decode_present(array)
        values: list[Any] = [None] * len(array)
        dense = self.decode_present(array.drop_null())
        for position, value in zip(np.flatnonzero(valid_mask(array)).tolist(), dense, strict=True):
            values[position] = value
        return values


def one_array(array: pa.Array | pa.ChunkedArray, values: Sequence[object]) -> pa.Array:
    """The array, unless pyarrow had to make several: text and binary columns hold up to 2 GiB."""
    if isinstance(array, pa.ChunkedArray):
        raise WrongValueError(values[0], "values of less than 2 GiB together in one batch")
    return array


def any_of(masks: Sequence[Mask | None]) -> Mask | None:
    """Combine masks with a logical or; None when no mask marks anything."""
    there = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(there) if there else None


def first_wrong(handler: TypeHandler, values: Sequence[object]) -> tuple[int, WrongValueError] | None:
    """The first value that does not fit, and why. Slow: for when it is known that one does not."""
    for index, value in enumerate(values):
        try:
            handler.encode([value])
        except WrongValueError as error:
            return index, error
    return None


def shown_value(value: object) -> str:
    """A value for a message, shortened."""
    try:
        text = repr(value)
    except Exception:  # a user's __repr__ may raise anything, and Python's own does for huge integers
        text = object.__repr__(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_SEQUENCES: Final = frozenset({list, tuple})


class SequenceHandler(NestedHandler):
    """LIST and the arrays: lists; tuples, ``array.array`` and numpy's arrays of one dimension are taken as such."""

    __slots__ = ("_element",)

    info: SequenceTypeInfo

    def __init__(self, info: SequenceTypeInfo, element: TypeHandler) -> None:
        self._element = element
        super().__init__(info)

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        if not _SEQUENCES.issuperset(set(map(type, values))):
            values = [self._listed(value) for value in values]
        flat = list(chain.from_iterable(values))
        elements = _encode_part(self._element, flat, "[{}]")
        return pa.ListArray.from_arrays(_offsets(values), elements, type=self.storage)

    def decode_present(self, array: pa.Array) -> list[Any]:
        bounds, start, length = _bounds(array)
        flat = self._element.decode(array.values.slice(start, length))
        return [flat[begin:end] for begin, end in pairwise(bounds)]

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        return _with_any(array, self._element.unreadable(_parts_of(array, array.values)))

    def explained_present(self, array: pa.Array) -> WrongValueError:
        elements = array.flatten()
        mask = self._element.unreadable(elements)
        assert mask is not None
        return _explained_part(self._element, elements, mask, "[{}]")

    def _listed(self, value: object) -> list[Any]:
        if isinstance(value, list | tuple | arrays.array):
            return list(value)
        if isinstance(value, np.ndarray) and value.ndim == 1:
            return list(value.tolist())
        raise WrongValueError(value, f"a list, for {self.info}")

    def add_check(self, source: CheckSource, value: str) -> str:
        first, elements = source.bind(value)
        return f"type({first}) is list and {source.name_of(self._element.all_coerced)}({elements})"

    def text_of_present(self, value: Any) -> str:
        return f"[{', '.join(map(self._element.text, value))}]"


class MapHandler(NestedHandler):
    """MAP: dicts, also other mappings, in the order of their keys."""

    __slots__ = ("_key", "_value")

    info: MapTypeInfo

    def __init__(self, info: MapTypeInfo, key: TypeHandler, value: TypeHandler) -> None:
        self._key = key
        self._value = value
        super().__init__(info)

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        for value in values:
            if not isinstance(value, Mapping):
                raise WrongValueError(value, f"a dict, for {self.info}")
        keys = _encode_part(self._key, list(chain.from_iterable(values)), ", key {}")
        if keys.null_count:
            raise WrongValueError(None, "a key: a map has no None among its keys")
        items = _encode_part(self._value, list(chain.from_iterable(value.values() for value in values)), ", value {}")
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=self.storage)

    def decode_present(self, array: pa.Array) -> list[Any]:
        bounds, start, length = _bounds(array)
        keys = self._key.decode(array.keys.slice(start, length))
        items = self._value.decode(array.items.slice(start, length))
        return [dict(zip(keys[begin:end], items[begin:end], strict=True)) for begin, end in pairwise(bounds)]

    def unreadable_present(self, array: pa.Array) -> Mask | None:
        keys, items = _parts_of(array, array.keys), _parts_of(array, array.items)
        return _with_any(array, any_of([self._key.unreadable(keys), self._value.unreadable(items)]))

    def explained_present(self, array: pa.Array) -> WrongValueError:
        keys, items = _parts_of(array, array.keys), _parts_of(array, array.items)
        mask = self._key.unreadable(keys)
        if mask is not None:
            return _explained_part(self._key, keys, mask, ", key {}")
        mask = self._value.unreadable(items)
        assert mask is not None
        return _explained_part(self._value, items, mask, ", value {}")

    def add_check(self, source: CheckSource, value: str) -> str:
        first, entries = source.bind(value)
        keys, items = source.name_of(self._key.all_coerced), source.name_of(self._value.all_coerced)
        return f"type({first}) is dict and None not in {entries} and {keys}({entries}) and {items}({entries}.values())"

    def text_of_present(self, value: Any) -> str:
        key, item = self._key.text, self._value.text
        return f"{{{', '.join([f'{key(k)}={item(v)}' for k, v in value.items()])}}}"


def _encode_part(handler: TypeHandler, values: list[Any], place: str) -> pa.Array:
    try:
        return handler.encode(values)
    except WrongValueError as error:
        index, wrong = first_wrong(handler, values) or (0, error)
        raise wrong.inside(place.format(index)) from error


def _parts_of(array: pa.Array, child: pa.Array) -> pa.Array:
    """The parts of all values, of a child that may have more; those of missing values are among them."""
    offsets = array.offsets
    start = offsets[0].as_py()
    return child.slice(start, offsets[len(array)].as_py() - start)


def _with_any(array: pa.Array, parts: Mask | None) -> Mask | None:
    """Return a mask of the values that contain a marked part."""
    if parts is None:
        return None
    offsets, before = array.offsets.to_numpy(), np.concatenate(([0], np.cumsum(parts)))
    counts = before[offsets - offsets[0]]
    found: Mask = (counts[1:] > counts[:-1]) & valid_mask(array)
    return found if found.any() else None


def _explained_part(handler: TypeHandler, parts: pa.Array, mask: Mask, place: str) -> WrongValueError:
    first = int(np.flatnonzero(mask)[0])
    return handler.explained(parts.slice(first, 1)).inside(place.format(first))


def _offsets(values: Sequence[Any]) -> pa.Array:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())


def _bounds(array: pa.Array) -> tuple[list[int], int, int]:
    """Return where each value's parts are in the flat list of parts, and which slice of the children that list is."""
    offsets = array.offsets.to_numpy()
    start = int(offsets[0])
    return (offsets - start).tolist(), start, int(offsets[-1]) - start
