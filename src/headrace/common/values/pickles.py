"""Values that are stored as pickles, and the one place where headrace pickles records."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.pickling import PROTOCOL, pickle_by_value
from headrace.common.values.handler import TypeHandler, WrongValueError, one_array

if TYPE_CHECKING:
    from headrace.common.values.checks import CheckSource

_MAIN: Final = b"__main__"


def dump(value: Any) -> bytes:
    """The pickle of a value.

    What belongs to the user's main module is pickled by value, since workers have another main module. That is slow
    and large; a class with a declared type, or one that is imported, is neither.

    Raises:
        WrongValueError: when it cannot be pickled.
    """
    try:
        data = pickle.dumps(value, PROTOCOL)
    except Exception:  # a __reduce__ may raise anything
        return _by_value(value)
    return _by_value(value) if _MAIN in data else data


def _by_value(value: Any) -> bytes:
    try:
        return pickle_by_value(value)
    except Exception as error:
        if inspect.isawaitable(value):
            raise WrongValueError(value, "a value, and not what gives one when it is awaited: write await") from error
        raise WrongValueError(value, f"an object that can be pickled ({error})") from error


class PickleHandler(TypeHandler):
    """Any object, stored as its pickle; every value comes back as it is, so nothing has to be coerced."""

    __slots__ = ()
    none_text = "None"

    def encode(self, values: Sequence[Any]) -> pa.Array:
        pickles = [None if value is None else dump(value) for value in values]
        return one_array(pa.array(pickles, self.storage), values)

    def decode(self, array: pa.Array) -> list[Any]:
        # These are bytes that headrace wrote itself, in a stream or a state of this very job.
        return [None if data is None else pickle.loads(data) for data in array.to_pylist()]

    def all_coerced(self, values: Collection[Any]) -> bool:
        return True

    def add_check(self, source: CheckSource, value: str) -> str:
        return "True"
