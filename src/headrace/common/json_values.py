"""Values of JSON of values of declared types, and back.

Dataclasses and named tuples are arrays of their fields, bytes are text, and a mapping is an object where its keys are
strings, else an array of pairs.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_Read = Callable[[Any], Any]


def to_json(value: Any) -> Any:
    """The value of JSON of a value."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):
        return base64.b85encode(value).decode()
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: to_json(each) for key, each in value.items()}
        return [[to_json(key), to_json(each)] for key, each in value.items()]
    if is_dataclass(value):
        return [to_json(getattr(value, field.name)) for field in fields(value)]
    return [to_json(each) for each in value]


def from_json(kind: type[T], value: Any) -> T:
    """The value of a type of what :func:`to_json` gave of it.

    Raises:
        ValueError: when it is none.
        TypeError: likewise.
        AttributeError: likewise.
    """
    made: Any = kind
    read: T = _reader(made)(value)
    return read


def _as_it_is(value: Any) -> Any:
    return value


@lru_cache(maxsize=256)
def _reader(kind: Any) -> _Read:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _or_none(*(_reader(each) for each in inner if each is not NoneType))
    if origin is tuple and inner[1:] != (...,):
        return _of_fields(tuple, map(_reader, inner))
    if origin in (tuple, list):
        return _of_elements(origin, _reader(inner[0]))
    if origin in (dict, Mapping):
        return _of_pairs(inner[0], *map(_reader, inner))
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        names = kind._fields if hasattr(kind, "_fields") else [field.name for field in fields(kind)]
        return _of_fields(lambda values: kind(*values), [_reader(hints[name]) for name in names])
    return base64.b85decode if kind is bytes else _as_it_is


def _or_none(read: _Read) -> _Read:
    return read if read is _as_it_is else lambda value: None if value is None else read(value)


def _of_elements(make: Callable[[Any], Any], read: _Read) -> _Read:
    return make if read is _as_it_is else lambda values: make(map(read, values))


def _of_fields(make: Callable[[Any], Any], reads: Any) -> _Read:
    reads = tuple(reads)
    if all(read is _as_it_is for read in reads):
        return make
    return lambda values: make([read(value) for read, value in zip(reads, values, strict=True)])


def _of_pairs(key: type, read_key: _Read, read: _Read) -> _Read:
    if key is str:
        return lambda found: {name: read(value) for name, value in found.items()}
    return lambda found: {read_key(name): read(value) for name, value in found}
