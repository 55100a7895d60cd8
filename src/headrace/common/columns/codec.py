"""What turns Python values into an Arrow column and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

ARROW_ERRORS: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What pyarrow raises when a value does not fit (``UnicodeEncodeError`` is a ``ValueError``)."""


class WrongValueError(Exception):
    """A value does not fit; internal, since only the caller knows the row and the field.

    What it tells is exact when a single value was to be encoded. Of many, it is one that may be wrong.
    """

    def __init__(self, value: object, expected: str, path: str = "") -> None:
        super().__init__(value, expected, path)
        self.value = value
        self.expected = expected
        self.path = path

    def inside(self, segment: str) -> WrongValueError:
        """The same error, seen from the value that contains the wrong one."""
        return WrongValueError(self.value, self.expected, segment + self.path)


class Codec(ABC):
    """Encodes values as an Arrow array and decodes them; ``None`` is null."""

    __slots__ = ()

    @property
    @abstractmethod
    def storage(self) -> pa.DataType:
        """The type of the arrays."""

    @abstractmethod
    def encode(self, values: Sequence[Any]) -> pa.Array:
        """The values as an array.

        Raises:
            WrongValueError: when one does not fit.
        """

    @abstractmethod
    def decode(self, array: pa.Array) -> list[Any]:
        """The values of an array of type :attr:`storage`."""


class NestedCodec(Codec):
    """A codec of values with parts, which looks at the values that are there; nulls are handled here."""

    __slots__ = ()

    @abstractmethod
    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        """As ``encode``, without any ``None``."""

    @abstractmethod
    def decode_present(self, array: pa.Array) -> list[Any]:
        """As ``decode``, without any null."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
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


def one_array(array: pa.Array | pa.ChunkedArray, values: Sequence[Any]) -> pa.Array:
    """The array, unless pyarrow had to make several: text and binary columns hold up to 2 GiB."""
    if isinstance(array, pa.ChunkedArray):
        raise WrongValueError(values[0], "values of less than 2 GiB together in one batch")
    return array


def valid_mask(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which values are not null."""
    mask: np.ndarray[Any, np.dtype[np.bool_]] = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def first_wrong(codec: Codec, values: Sequence[Any]) -> tuple[int, WrongValueError] | None:
    """The first value that does not fit, and why. Slow: for when it is known that one does not."""
    for index, value in enumerate(values):
        try:
            codec.encode([value])
        except WrongValueError as error:
            return index, error
    return None
