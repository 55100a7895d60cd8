"""Values that are stored as pickles, and the one place where headrace pickles records."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Final

import cloudpickle
import pyarrow as pa

from headrace.common.columns.codec import Codec, WrongValueError, one_array
from headrace.common.typeinfo.base import PICKLE_STORAGE

_PROTOCOL: Final = 5
"""Fixed, so that all supported versions of Python read and write the same bytes."""

_MAIN: Final = b"__main__"


def dump(value: Any) -> bytes:
    """The pickle of a value.

    What belongs to the user's main module is pickled by value, since workers have another main module. That is slow
    and large; a class with a declared type, or one that is imported, is neither.

    Raises:
        WrongValueError: when it cannot be pickled.
    """
    try:
        data = pickle.dumps(value, _PROTOCOL)
    except Exception:  # a __reduce__ may raise anything
        return _by_value(value)
    return _by_value(value) if _MAIN in data else data


def _by_value(value: Any) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(value, _PROTOCOL)
    except Exception as error:
        raise WrongValueError(value, f"an object that can be pickled ({error})") from error
    return data


class PickleCodec(Codec):
    """Encodes any object as its pickle."""

    __slots__ = ()

    @property
    def storage(self) -> pa.DataType:
        return PICKLE_STORAGE

    def encode(self, values: Sequence[Any]) -> pa.Array:
        pickles = [None if value is None else dump(value) for value in values]
        return one_array(pa.array(pickles, PICKLE_STORAGE), values)

    def decode(self, array: pa.Array) -> list[Any]:
        # These are bytes that headrace wrote itself, in a stream or a state of this very job.
        return [None if data is None else pickle.loads(data) for data in array.to_pylist()]
