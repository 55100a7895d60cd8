"""The types of streams: what a program says, what is found out, and how far that can be relied on.

PyFlink knows the type of a stream only when the program declares it, and lets records of all other streams be
anything. headrace finds types out; a program that PyFlink runs must not fail because of that. Type checkers know them
by protocols of functions.
"""

import functools
import inspect
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from typing import Any, Final, Protocol

import pyarrow as pa

from headrace.common.errors import InvalidTypeError, refused
from headrace.common.output_tag import OutputTag, ToSideOutput
from headrace.common.type_variables import K_contra, OUT_co, T_contra, V_contra, W_contra
from headrace.common.typeinfo import PickledBytesTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.types import hints_of
from headrace.datastream.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)

PICKLED: Final = PickledBytesTypeInfo()


class Role(Enum):
    """The way in which a function gives its results; the value lists the methods of function objects that do so."""

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


def infer_from_hint(function: object, role: Role = Role.ONE) -> TypeInformation:
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


def _methods(function: object, role: Role) -> list[Any]:
    if isinstance(function, functools.partial):
        return _methods(function.func, role)
    if inspect.isroutine(function) or isinstance(function, type):
        return [function]
    methods = [getattr(function, name, None) for name in role.value]
    own = [method for method in methods if inspect.ismethod(method) and not _inherited_from_headrace(method)]
    return own or ([type(function).__call__] if callable(function) else [])


def _inherited_from_headrace(method: object) -> bool:
    return (method.__module__ or "").split(".")[0] == __name__.split(".")[0]


def _returned(method: object, role: Role) -> TypeInformation:
    hint = method if isinstance(method, type) else hints_of(method).get("return", Any)
    if role is Role.MANY:
        hint = _element(hint)
    return _record_type(hint)


def _record_type(hint: object) -> TypeInformation:
    members = [member for member in _members(hint) if not _is_side_output(member)]
    optional = type(None) in members
    present = [member for member in members if member is not type(None)]
    if len(present) != 1:
        return PICKLED
    found = Types.of(present[0])
    # A record that may be missing as a whole has no columns to lie in.
    return PICKLED if optional and found.is_composite else found


def _members(hint: object) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _is_side_output(hint: object) -> bool:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is not tuple or not arguments:
        return False
    return (typing.get_origin(arguments[0]) or arguments[0]) is OutputTag


_ITERABLES: Final = frozenset(
    {list, set, frozenset, tuple, abc.Iterable, abc.Iterator, abc.Generator, abc.Sequence, abc.Collection, abc.Set}
    | {abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator}
)


def _element(hint: object) -> Any:
    """The hint of what a value with that hint yields when it is iterated over."""
    present = [member for member in _members(hint) if member is not type(None)]
    if len(present) != 1:
        return Any
    origin, arguments = typing.get_origin(present[0]), typing.get_args(present[0])
    if origin not in _ITERABLES or not arguments:
        return Any
    fixed_length = origin is tuple and arguments[1:] != (Ellipsis,)
    return Any if fixed_length else arguments[0]


class TypeOrigin(IntEnum):
    """The origin of a stream's type, the most reliable first."""

    DECLARED = 0
    """The program says it, or the source or the operator always gives it."""

    ANNOTATED = 1
    """It follows from the annotations of a function, or there are none and nothing is known."""

    OBSERVED = 2
    """It is what the elements of a collection are; what a function makes of them may be something else."""


def origin_of(declared: object) -> TypeOrigin:
    """Return where the type of a function's results comes from, given what the program declares."""
    return TypeOrigin.ANNOTATED if declared is None else TypeOrigin.DECLARED


def weakest(origins: Iterable[TypeOrigin]) -> TypeOrigin:
    """The least reliable of some."""
    return max(origins)


def unchanged(record: object) -> Any:
    """A function for streams whose records stay while their type changes."""
    return record


def one_key(_record: object) -> int:
    """A function that gives all records one key."""
    return 0


def never_fits(given: TypeInformation, wanted: TypeInformation) -> bool:
    """Returns True where it is certain that no record of one type can become one of another."""
    if given.is_composite and wanted.is_composite:
        pairs = list(zip(given.field_types, wanted.field_types, strict=False))
        return len(given.field_types) != len(wanted.field_types) or any(never_fits(*pair) for pair in pairs)
    kinds = {_kind(given), _kind(wanted)}
    return len(kinds) == 2 and None not in kinds


def _kind(type_: TypeInformation) -> str | None:
    """The kind of a type's values; None where values of other kinds may fit as well."""
    arrow = type_.arrow_type
    if arrow is None:
        return None
    return next((kind for kind, is_of_kind in _KINDS.items() if is_of_kind(arrow)), None)


_KINDS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "records": pa.types.is_struct,
    "texts": pa.types.is_string,
    "numbers": lambda arrow: pa.types.is_integer(arrow) or pa.types.is_floating(arrow),
}


def declared_type(declared: object) -> TypeInformation:
    """The type that a user declared; a list of types stands for a row, as in PyFlink.

    Raises:
        InvalidTypeError: when it is no type at all.
    """
    try:
        return Types.ROW(declared) if isinstance(declared, list) else Types.of(declared)
    except InvalidTypeError as error:
        raise refused(str(error), InvalidTypeError) from None


def result_type(declared: object, function: object, role: Role = Role.ONE) -> TypeInformation:
    """The type of what a function gives: declared, else by its annotations, else pickled objects."""
    return infer_from_hint(function, role) if declared is None else declared_type(declared)


def is_untyped(type_info: TypeInformation) -> bool:
    """Returns True where nothing is known about the values."""
    return isinstance(type_info, PickledBytesTypeInfo)


class SupportsProcess(Protocol[T_contra, OUT_co]):
    """A ``ProcessFunction``, or whatever has its method."""

    def process_element(
        self, value: T_contra, ctx: ProcessFunction.Context, /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record."""


class SupportsKeyedProcess(Protocol[T_contra, OUT_co, K_contra]):
    """A ``KeyedProcessFunction``, or whatever has its method."""

    def process_element(
        self, value: T_contra, ctx: KeyedProcessFunction.Context[K_contra], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record."""


class SupportsApply(Protocol[T_contra, OUT_co, K_contra, W_contra]):
    """A ``WindowFunction``, or whatever has its method."""

    def apply(
        self, key: K_contra, window: W_contra, inputs: Iterable[T_contra], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window of a key fires."""


class SupportsProcessWindow(Protocol[T_contra, OUT_co, K_contra, W_contra]):
    """A ``ProcessWindowFunction``, or whatever has its method."""

    def process(
        self, key: K_contra, context: ProcessWindowFunction.Context[W_contra], elements: Iterable[T_contra], /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window of a key fires."""


class SupportsProcessJoin(Protocol[T_contra, V_contra, OUT_co]):
    """A ``ProcessJoinFunction``, or whatever has its method."""

    def process_element(
        self, left: T_contra, right: V_contra, ctx: ProcessJoinFunction.Context, /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each pair of records that match."""


class SupportsCoMap(Protocol[T_contra, V_contra, OUT_co]):
    """A ``CoMapFunction``, or whatever has its methods."""

    def map1(self, value: T_contra, /) -> OUT_co | None:
        """Called for each record of the first stream."""

    def map2(self, value: V_contra, /) -> OUT_co | None:
        """Called for each record of the second stream."""


class SupportsCoFlatMap(Protocol[T_contra, V_contra, OUT_co]):
    """A ``CoFlatMapFunction``, or whatever has its methods."""

    def flat_map1(self, value: T_contra, /) -> Iterable[OUT_co] | None:
        """Called for each record of the first stream."""

    def flat_map2(self, value: V_contra, /) -> Iterable[OUT_co] | None:
        """Called for each record of the second stream."""


class SupportsCoProcess(Protocol[T_contra, V_contra, OUT_co]):
    """A ``CoProcessFunction``, a ``KeyedCoProcessFunction``, or whatever has their methods."""

    def process_element1(
        self, value: T_contra, ctx: KeyedCoProcessFunction.Context, /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the first stream."""

    def process_element2(
        self, value: V_contra, ctx: KeyedCoProcessFunction.Context, /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the second stream."""


class SupportsBroadcastProcess(Protocol[T_contra, V_contra, OUT_co]):
    """A ``BroadcastProcessFunction``, a ``KeyedBroadcastProcessFunction``, or whatever has their methods."""

    def process_element(
        self, value: T_contra, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext, /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the stream that is not broadcast."""

    def process_broadcast_element(
        self, value: V_contra, ctx: KeyedBroadcastProcessFunction.Context, /
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the stream that is broadcast."""
