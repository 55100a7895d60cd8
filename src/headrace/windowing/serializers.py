"""Windows as bytes, and as the namespaces that state and timers are kept by."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import TYPE_CHECKING, ClassVar, Final, cast

from headrace.common.serializer import TypeSerializer
from headrace.common.type_variables import W
from headrace.windowing.windows import CountWindow, GlobalWindow, TimeWindow

if TYPE_CHECKING:
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.windowing.intervals import RegularWindows

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
        """What state and timers of a window are kept by: its bytes, unless there is something shorter."""
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


class EndSerializer(TimeWindowSerializer):
    """The same for windows that follow from their ends; the namespace is the end.

    Args:
        intervals: the windows.

    Examples:
        >>> from headrace.windowing.intervals import AlignedWindows
        >>> EndSerializer(AlignedWindows(10, 10)).window_of(20)
        TimeWindow(start=10, end=20)
    """

    def __init__(self, intervals: RegularWindows) -> None:
        self._intervals = intervals

    def namespace_of(self, window: TimeWindow) -> GivenNamespace:
        return window.end

    def window_of(self, namespace: GivenNamespace) -> TimeWindow:
        end = cast("int", namespace)
        return TimeWindow(self._intervals.starts_of(end), end)


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
