"""What windows hold between two epochs, for those who look at a job from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.windowing.windows import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.operators.base import OperatorContext
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.general.contents import KeyedContents
    from headrace.operators.window.general.ordered_contents import OrderedContents
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.protocols import KeyedStates
    from headrace.windowing.windows import Window

    Longs = npt.NDArray[np.int64]


class StoredWindow(NamedTuple):
    """A window of a key.

    Attributes:
        key: the key.
        window: the window.
        contents: what it holds: all elements, in the order in which they came; the one value that a reduce or aggregate
            function gives of them; or the row that built-in aggregates would show.

    Examples:
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> def job(harness):
        ...     words = harness.add_source("words", str).key_by(len)
        ...     longest = words.window(TumblingEventTimeWindows.of(10)).reduce(max).uid("longest")
        ...     harness.add_sink("longest", longest)
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("words", ["pie", "tea"], [3, 4])
        ...     harness.run_epoch()
        ...     [held] = harness.windows("longest")
        >>> held.key, held.window, held.contents
        (3, TimeWindow(start=0, end=10), ['tea'])
    """

    key: Any
    window: Any
    contents: list[Any]


@runtime_checkable
class WindowStateReader(Protocol):
    """An operator with windows."""

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """What its windows hold, those that have fired but still take late records included; in any order.

        The operator must not be open: functions of the user stay closed. It is of no other use after that.

        Args:
            context: gives the state, at the beginning of an epoch.
            watermark: the operator's event time.
        """


def held_in_columns(
    layout: ColumnarWindowLayout,
    keys: pa.Array,
    windows: Iterable[Window],
    bounds: Sequence[pa.Array],
    columns: list[pa.Array],
) -> Iterator[StoredWindow]:
    """Windows whose contents are columns of accumulators.

    Args:
        layout: the columns.
        keys: the key of each, in canonical form.
        windows: the windows.
        bounds: the columns of results that tell windows apart.
        columns: the accumulators.
    """
    shown = layout_of(layout.output_type).columns_to_rows(layout.finish(keys, bounds, columns))
    found = zip(layout.codec.decode(keys), windows, shown, strict=True)
    return (StoredWindow(key, window, [row]) for key, window, row in found)


def held_times(
    layout: ColumnarWindowLayout, keys: pa.Array, starts: Longs, ends: Longs, columns: list[pa.Array]
) -> Iterator[StoredWindow]:
    """The same of windows of time, which are known by starts and ends."""
    windows = map(TimeWindow, starts.tolist(), ends.tolist())
    return held_in_columns(layout, keys, windows, [pa.array(starts), pa.array(ends)], columns)


def held_in_order(
    contents: OrderedContents, keyed: KeyedStates, window_of: Callable[[GivenNamespace], Any]
) -> Iterator[StoredWindow]:
    """Windows whose contents are ordered by their ends."""
    for end in contents.ends_between(MIN_WATERMARK, MAX_WATERMARK):
        of_keys = contents.of_all_keys(end)
        for entry, held in zip(keyed.bind(of_keys.keys), of_keys.held, strict=True):
            yield StoredWindow(entry.key, window_of(end), list(of_keys.shown(held)))


def held_by_key(
    contents: KeyedContents, keyed: KeyedStates, window_of: Callable[[GivenNamespace], Any]
) -> Iterator[StoredWindow]:
    """Windows whose contents are state of key and window.

    Args:
        contents: the contents.
        keyed: the state.
        window_of: the window of the current key whose contents are in a namespace.
    """
    for entry, namespace in contents.stored():
        keyed.current = entry
        window = window_of(namespace)
        held = contents.held(namespace, window)
        if held is not None:
            yield StoredWindow(entry.key, window, list(held))
