"""Windows, of time, of a count, or one for all; as bytes, and as the namespaces that state and timers are kept by.

And what they cannot be made of.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import FrozenInstanceError, dataclass
from io import BytesIO
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

import numpy as np

from headrace.common.arguments import check_call
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidTypeError, refused
from headrace.common.other_names import names_explained
from headrace.common.serializer import TypeSerializer
from headrace.common.type_variables import W, W_contra
from headrace.state.keyed.namespaces import GivenNamespace

C = TypeVar("C", bound=type)

LONGEST: Final = 1 << 62
"""A window of this length, in milliseconds, still has an end of 64 bits."""


class Window(ABC):
    """A group of records. Windows are values: equal ones are the same window, and hash alike.

    Examples:
        >>> from dataclasses import dataclass
        >>> from headrace.datastream.window import Window
        >>> @dataclass(frozen=True)
        ... class Chapter(Window):
        ...     number: int
        ...     last: int
        ...     def max_timestamp(self) -> int:
        ...         return self.last
        >>> Chapter(1, 99) == Chapter(1, 99)
        True
    """

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that may belong to the window, in milliseconds: its results carry it."""


class MergeCallback(ABC, Generic[W_contra]):
    """Merges the state of windows that become one; Flink's ``MergeCallback``."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[W_contra], merge_result: W_contra) -> None:
        """Windows become one.

        Args:
            to_be_merged: the windows.
            merge_result: what they become.
        """


def _derivable(cls: C) -> C:
    """Lets classes derived from a frozen dataclass with slots have fields of their own: Python's check refuses them."""
    own = vars(cls)["__slots__"]

    def check(window: object, name: str) -> None:
        if type(window) is cls or name in own:
            raise FrozenInstanceError(f"the field {name!r} of a window cannot be changed: make another window")

    def set_field(window: object, name: str, value: object) -> None:
        check(window, name)
        object.__setattr__(window, name, value)

    def delete_field(window: object, name: str) -> None:
        check(window, name)
        object.__delattr__(window, name)

    for name, method in (("__setattr__", set_field), ("__delattr__", delete_field)):
        setattr(cls, name, method)
    return cls


@names_explained("TimeWindow", {"get_start": "use start", "get_end": "use end"})
@_derivable
@dataclass(frozen=True, slots=True, order=True)
class TimeWindow(Window):
    """The half-open interval ``[start, end)`` of time, in milliseconds.

    Examples:
        >>> from headrace.datastream.window import TimeWindow
        >>> minute = TimeWindow(60_000, 120_000)
        >>> minute.start, minute.max_timestamp()
        (60000, 119999)
    """

    start: int
    end: int

    def max_timestamp(self) -> int:
        """The largest timestamp that belongs to the window: ``end - 1``."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether the two windows overlap or touch (Flink merges sessions that merely touch)."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window of a timestamp, among windows of one size that follow one another."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        """Merges windows that overlap or touch, as sessions do.

        Args:
            windows: the windows, in any order.
            callback: is called with each group of two or more different windows, earliest first, and their cover.
        """
        groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(set(windows)):
            if groups and groups[-1][0].intersects(window):
                covering, merged = groups[-1]
                groups[-1] = (covering.cover(window), [*merged, window])
            else:
                groups.append((window, [window]))
        for covering, merged in groups:
            if len(merged) > 1:
                callback.merge(merged, covering)


@_derivable
@dataclass(frozen=True, slots=True, order=True)
class CountWindow(Window):
    """The window with a number among those of a key; it ends when so many records have come, at no time.

    Examples:
        >>> from headrace.datastream.window import CountWindow
        >>> CountWindow(3).id
        3
    """

    id: int

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_WATERMARK


@_derivable
@dataclass(frozen=True, slots=True, order=True)
class GlobalWindow(Window):
    """The one window that holds all records of a key.

    Examples:
        >>> from headrace.datastream.window import GlobalWindow
        >>> GlobalWindow.get() == GlobalWindow()
        True
    """

    @staticmethod
    def get() -> GlobalWindow:
        """The window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_WATERMARK


_INTERVAL: Final = struct.Struct(">qq")
_NUMBER: Final = struct.Struct(">q")
_NOTHING: Final = b"\x00"


class WindowSerializer(TypeSerializer[W]):
    """A serializer of windows that says in which form state and timers know a window, and rows of results.

    Class attributes:
        names: the columns by which rows of results tell windows apart; none where the windows are not known.
    """

    names: ClassVar[tuple[str, ...]] = ()

    def values_of(self, window: W) -> tuple[int, ...]:
        """The values of these columns."""
        return ()

    def namespace_of(self, window: W) -> GivenNamespace:
        """The namespace of state and timers of a window: its bytes, unless there is something shorter."""
        stream = BytesIO()
        self.serialize(window, stream)
        return stream.getvalue()

    def window_of(self, namespace: GivenNamespace) -> W:
        """The window of a namespace."""
        return self.deserialize(BytesIO(cast("bytes", namespace)))


class TimeWindowSerializer(WindowSerializer[TimeWindow]):
    """Start and end as two numbers of eight bytes, the high byte first; the namespace is the pair.

    Examples:
        >>> from io import BytesIO
        >>> from headrace.datastream.window import TimeWindow, TimeWindowSerializer
        >>> stream = BytesIO()
        >>> TimeWindowSerializer().serialize(TimeWindow(0, 258), stream)
        >>> stream.getvalue().hex()
        '00000000000000000000000000000102'
    """

    names: ClassVar[tuple[str, ...]] = ("window_start", "window_end")

    def values_of(self, window: TimeWindow) -> tuple[int, ...]:
        return window.start, window.end

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_INTERVAL.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_INTERVAL.unpack(stream.read(_INTERVAL.size)))

    def namespace_of(self, window: TimeWindow) -> GivenNamespace:
        return window.start, window.end

    def window_of(self, namespace: GivenNamespace) -> TimeWindow:
        return TimeWindow(*cast("tuple[int, int]", namespace))


class CountWindowSerializer(WindowSerializer[CountWindow]):
    """The number in eight bytes, the high byte first; the namespace is the number.

    Examples:
        >>> from io import BytesIO
        >>> from headrace.datastream.window import CountWindowSerializer
        >>> CountWindowSerializer().deserialize(BytesIO((5).to_bytes(8)))
        CountWindow(id=5)
    """

    names: ClassVar[tuple[str, ...]] = ("window_id",)

    def values_of(self, window: CountWindow) -> tuple[int, ...]:
        return (window.id,)

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_NUMBER.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(*_NUMBER.unpack(stream.read(_NUMBER.size)))

    def namespace_of(self, window: CountWindow) -> GivenNamespace:
        return window.id

    def window_of(self, namespace: GivenNamespace) -> CountWindow:
        return CountWindow(cast("int", namespace))


class GlobalWindowSerializer(WindowSerializer[GlobalWindow]):
    """A byte that is zero; the namespace is 0.

    Examples:
        >>> from io import BytesIO
        >>> from headrace.datastream.window import GlobalWindowSerializer
        >>> GlobalWindowSerializer().deserialize(BytesIO(bytes(1)))
        GlobalWindow()
    """

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(_NOTHING)

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(len(_NOTHING))
        return GlobalWindow.get()

    def namespace_of(self, window: GlobalWindow) -> GivenNamespace:
        return 0

    def window_of(self, namespace: GivenNamespace) -> GlobalWindow:
        return GlobalWindow.get()


class _ByBytes(WindowSerializer[W]):
    """The namespaces of windows that a program has defined.

    Args:
        serializer: the program's.
    """

    def __init__(self, serializer: TypeSerializer[W]) -> None:
        self._serializer = serializer

    def serialize(self, element: W, stream: BytesIO) -> None:
        self._serializer.serialize(element, stream)

    def deserialize(self, stream: BytesIO) -> W:
        return self._serializer.deserialize(stream)


def window_serializer(serializer: TypeSerializer[W]) -> WindowSerializer[W]:
    """A serializer that knows namespaces: the given one if it does, otherwise by the bytes that it writes."""
    return serializer if isinstance(serializer, WindowSerializer) else _ByBytes(serializer)


WHOLE: Final = (int, np.integer)
"""Whole numbers."""


def check_whole(owner: str, **numbers: int) -> None:
    """Refuse what is no whole number: windows of 2.5 records would never be full.

    Args:
        owner: the class that is made.
        numbers: by their names.
    """
    for name, number in numbers.items():
        if not isinstance(number, WHOLE):
            raise refused(f"{owner} takes a whole number as {name}, not {number!r}", InvalidTypeError)


def check_positive(owner: str, **lengths: int) -> None:
    """Refuse lengths of zero or less, and those that lead beyond the end of time from any timestamp of today.

    Args:
        owner: the class that is made.
        lengths: by their names.
    """
    check_whole(owner, **lengths)
    for name, length in lengths.items():
        if not 0 < length <= LONGEST:
            wanted = "> 0" if length <= 0 else "<= 2**62"
            raise refused(f"{owner} needs {name} {wanted}, not {length}")


def check_offset(owner: str, offset: int, **below: int) -> None:
    """Refuse a shift that is no whole number, or not smaller than a length.

    Args:
        owner: the class that is made.
        offset: the shift.
        below: the length by its name.
    """
    check_whole(owner, offset=offset)
    for name, length in below.items():
        if abs(offset) >= length:
            raise refused(f"{owner} needs |offset| < {name}, not {name}={length} ms, offset={offset} ms")


def check_function(owner: str, name: str, function: Any, *parameters: str) -> None:
    """Refuse what cannot be called, or not with so many parameters."""
    if not callable(function):
        raise refused(f"{owner} takes a function as {name}, not {function!r}", InvalidTypeError)
    check_call(function, name, *parameters)


def check_extractor(owner: str, extractor: Any) -> None:
    """Refuse what cannot say the gap of an element."""
    function = getattr(extractor, "extract", extractor)
    if not callable(function) or isinstance(extractor, type):
        said = f"{owner} takes a SessionWindowTimeGapExtractor or a function, not {extractor!r}"
        raise refused(said, InvalidTypeError)
    check_call(function, "extract", "element")


def keep_true(cls: type, promise: str, methods: Iterable[str], default: type) -> None:
    """Has a class take back what a base says of methods that the class overrides, unless it says it anew.

    So what is computed from ``promise`` in the place of the methods never passes over those of a program.

    Args:
        cls: the class, as it is made.
        promise: the name of the property or method that says it.
        methods: the names of those that it is about; the class need not have all of them.
        default: the class that promises nothing: its ``promise`` is what holds then.
    """
    lineage = cls.__mro__
    said = _first_with(lineage, promise)
    if lineage[said] is not default and any(_first_with(lineage, method) < said for method in methods):
        setattr(cls, promise, vars(default)[promise])


def _first_with(lineage: tuple[type, ...], name: str) -> int:
    """The position of the class that a name is found in; behind all classes when there is none."""
    return next((position for position, owner in enumerate(lineage) if name in vars(owner)), len(lineage))
