"""Values of JSON of values of declared types, and back.

Dataclasses and named tuples are arrays of their fields, bytes are text, and a mapping is an object where its keys are
strings, else an array of pairs.
"""

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_checked_bytes(value: Any) -> bytes:
    """JSON of a value that is JSON, and a checksum of it."""
    body = json.dumps(value).encode()
    return b"%s\n%08x\n" % (body, zlib.crc32(body))


def from_checked_bytes(content: bytes) -> Any:
    """Read the output of :func:`to_checked_bytes`.

    Raises:
        ValueError: when it is damaged.
    """
    body, _, check = content.partition(b"\n")
    if check.strip() != b"%08x" % zlib.crc32(body):
        raise ValueError("its checksum is not that of its content")
    return json.loads(body)


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
    make, inner = _form(made)
    found: Any
    if value is None or make is None:
        found = value
    elif make is dict:
        key, each = inner
        pairs = value.items() if key is str else value
        found = {from_json(key, name): from_json(each, content) for name, content in pairs}
    elif isinstance(inner, tuple):
        found = make([from_json(part, content) for part, content in zip(inner, value, strict=True)])
    else:
        found = make(value if inner is None else [from_json(inner, content) for content in value])
    return cast("T", found)


@lru_cache(maxsize=256)
def _form(kind: Any) -> tuple[Callable[[Any], Any] | None, Any]:
    """The function that makes values of a type from the values of its parts, and the types of the parts.

    The types are a tuple where each part has its own, one type where all have the same, and None where the parts are
    taken as they are. Nothing makes a value that is the same in JSON.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _form(*(each for each in inner if each is not NoneType))
    if origin in (dict, Mapping):
        return dict, inner
    if origin in (tuple, list):
        parts = inner[0] if origin is list or inner[1:] == (...,) else inner
        return origin, None if not isinstance(parts, tuple) and _form(parts)[0] is None else parts
    if kind is bytes:
        return base64.b85decode, None
    if not is_dataclass(kind) and not hasattr(kind, "_fields"):
        return None, None
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    types = tuple(hints[name] for name in names)
    return lambda values: kind(*values), None if all(_form(each)[0] is None for each in types) else types
