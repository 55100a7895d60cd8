"""The type of what a function gives, by its annotations."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections import abc
from enum import Enum
from typing import Any, Final

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import PickledBytesTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.hints import hints_of

PICKLED: Final = PickledBytesTypeInfo()


class Role(Enum):
    """How a function gives its results; the value lists the methods of a function object that do so."""

    ONE = ("map", "map1", "map2", "reduce", "get_key", "get_result", "join", "create_accumulator")
    """It returns the result."""

    MANY = (
        "flat_map",
        "flat_map1",
        "flat_map2",
        "process",
        "process_element",
        "process_element1",
        "process_element2",
        "process_broadcast_element",
        "process_left",
        "process_right",
        "on_timer",
        "apply",
        "map_partition",
        "co_group",
        "async_invoke",
        "async_invoke_batch",
    )
    """It yields the results, or returns something to iterate over."""


def infer_from_hint(function: Any, role: Role = Role.ONE) -> TypeInformation:
    """The type of a function's results by its return annotation; pickled objects when that is missing or too vague.

    Args:
        function: a function, a method, a partial, or an object with methods such as ``map`` or ``process_element``;
            several such methods (``on_timer``, say) have to agree.
        role: whether results are returned or yielded. For :attr:`Role.MANY` the annotation is ``Iterable[X]``,
            ``Iterator[X]``, ``Generator[X, ...]``, ``list[X]`` or an asynchronous one of these; members of a union
            that are side outputs, ``tuple[OutputTag, Y]``, do not count.
    """
    found = {_returned(method, role) for method in _methods(function, role)}
    return found.pop() if len(found) == 1 else PICKLED


def _methods(function: Any, role: Role) -> list[Any]:
    if isinstance(function, functools.partial):
        return _methods(function.func, role)
    if inspect.isroutine(function) or isinstance(function, type):
        return [function]
    methods = [getattr(function, name, None) for name in role.value]
    own = [method for method in methods if inspect.ismethod(method) and not _inherited_from_headrace(method)]
    return own or ([type(function).__call__] if callable(function) else [])


def _inherited_from_headrace(method: Any) -> bool:
    return (method.__module__ or "").split(".")[0] == __name__.split(".")[0]


def _returned(method: Any, role: Role) -> TypeInformation:
    hint = method if isinstance(method, type) else hints_of(method).get("return", Any)
    if role is Role.MANY:
        hint = _element(hint)
    return _record_type(hint)


def _record_type(hint: Any) -> TypeInformation:
    members = [member for member in _members(hint) if not _is_side_output(member)]
    optional = type(None) in members
    present = [member for member in members if member is not type(None)]
    if len(present) != 1:
        return PICKLED
    found = Types.of(present[0])
    # A record that may be missing as a whole has no columns to lie in.
    return PICKLED if optional and found.is_composite else found


def _members(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _is_side_output(hint: Any) -> bool:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is not tuple or not arguments:
        return False
    return (typing.get_origin(arguments[0]) or arguments[0]) is OutputTag


_ITERABLES: Final = frozenset(
    {list, set, frozenset, tuple, abc.Iterable, abc.Iterator, abc.Generator, abc.Sequence, abc.Collection, abc.Set}
    | {abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator}
)


def _element(hint: Any) -> Any:
    """What one gets when iterating over a value with that hint."""
    present = [member for member in _members(hint) if member is not type(None)]
    if len(present) != 1:
        return Any
    origin, arguments = typing.get_origin(present[0]), typing.get_args(present[0])
    if origin not in _ITERABLES or not arguments:
        return Any
    fixed_length = origin is tuple and arguments[1:] != (Ellipsis,)
    return Any if fixed_length else arguments[0]
