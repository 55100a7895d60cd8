"""How the elements of a batch come to their windows: one by one, or all that are on time together.

What has to be exact is the order of what a program can see: which elements a window holds when its function is called,
the order of the calls, and the watermark in force. Where the trigger fires at the end of a window and does nothing
else, nobody sees in which order elements were added that are on time: they are added first. What is left then happens
in order: windows that fire as the watermark passes their ends, windows that go, and late elements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headrace.common.errors import InvalidTypeError
from headrace.operators.functions import RuntimeContext
from headrace.operators.user_code import NO_RECORD, user_error
from headrace.operators.window.lateness import cleanup_times
from headrace.state.keys.codecs import NO_KEY
from headrace.windowing.assigner import WindowAssigner
from headrace.windowing.assigners.time import EventTimeAssigner
from headrace.windowing.windows import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from headrace.operators.base import KeyedBatch, OperatorContext
    from headrace.operators.window.general.merging_windows import KeptWindows, MergingWindows
    from headrace.operators.window.general.ordered_contents import OrderedContents
    from headrace.operators.window.general.trigger_context import OperatorTime
    from headrace.operators.window.general.window_ends import DueWindow, EndsOfContents
    from headrace.operators.window.lateness import LateRecords
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.keys.codecs import AnyKeyEntry, NoKey
    from headrace.state.protocols import KeyedStates
    from headrace.windowing.intervals import Assignment, RegularWindows
    from headrace.windowing.serializers import WindowSerializer

    Longs = npt.NDArray[np.int64]


class Step(NamedTuple):
    """An element that the trigger is asked about, or a place between elements at which time makes something due.

    Attributes:
        element: the element.
        timestamp: its event time.
        reached: the watermark that was in force before it.
        watermark: the watermark that it meets.
        key: its key.
        windows: its windows; None where there is no element.
    """

    element: Any
    timestamp: int
    reached: int
    watermark: int
    key: AnyKeyEntry | NoKey
    windows: Collection[Any] | None


class ElementProcessor(ABC):
    """Puts the elements of batches into windows."""

    def begin_batch(self, batch: KeyedBatch) -> None:
        """Comes before :meth:`of`, and calls no code of the user.

        What is known to be too late without asking anybody is sent away here: operators that take it may fail, and that
        is no failure of a window's function.
        """

    @abstractmethod
    def of(self, batch: KeyedBatch) -> Iterable[Step | tuple[Any, ...]]:
        """What has to happen one by one, in order; all else has been done. As :class:`Step`, or a tuple like it.

        The operator's time is that before the batch, when this is called.
        """


class PerElementProcessor(ElementProcessor):
    """The trigger is asked about every element.

    Args:
        context: the operator.
        assigner: puts elements into windows.
        windows: the namespaces of windows.
        kept: looks at the windows that the assigner gives.
        merging: which windows there are, where they merge.
        time: the operator's time.
    """

    def __init__(
        self,
        context: OperatorContext,
        assigner: WindowAssigner[Any, Any],
        windows: WindowSerializer[Any],
        kept: KeptWindows,
        merging: MergingWindows[Any] | None,
        time: OperatorTime,
    ) -> None:
        self._context = context
        self._keyed = context.state.keyed
        self._timers = context.state.timers.event
        self._assigner = assigner
        self._regular = assigner.regular if isinstance(assigner, EventTimeAssigner) else None
        self._assigner_context = _AssignerContext(context, time)
        self._windows = windows
        self._kept = kept
        self._merging = merging
        self._time = time

    def of(self, batch: KeyedBatch) -> Iterable[Step | tuple[Any, ...]]:
        entries = self._keyed.bind(batch.keys)
        timestamps, watermarks = batch.timestamps.tolist(), batch.watermarks.tolist()
        if self._regular is None:
            assigned = self._assigned(batch.rows, timestamps, entries)
        else:
            assigned = _windows_at(self._regular, batch.timestamps)
        due = self._timers.foresee(watermarks[-1])
        self._keyed.expect(self._pairs(entries, assigned))
        if self._merging is not None:
            self._merging.expect(chain(entries, (entry for entry, _ in due)))
            self._keyed.expect(self._merging.foreseen(entries, assigned))
        reached = [self._time.watermark, *watermarks[:-1]]
        return zip(batch.rows, timestamps, reached, watermarks, entries, assigned, strict=True)

    def _assigned(
        self, rows: Sequence[Any], timestamps: Sequence[int], entries: Sequence[AnyKeyEntry]
    ) -> list[Collection[Any]]:
        """The windows of each element: the assigner may use state of the key, but nothing that triggers change."""
        assign, context = self._assigner.assign_windows, self._assigner_context
        assigned: list[Collection[Any]] = []
        row: Any = NO_RECORD
        try:
            for row, timestamp, entry in zip(rows, timestamps, entries, strict=True):
                self._keyed.current = entry
                assigned.append(self._checked(assign(row, timestamp, context)))
        except BaseException as error:
            raise user_error(error, self._context, row, function=assign) from error
        finally:
            self._keyed.current = NO_KEY
        return assigned

    def _checked(self, windows: Any) -> Collection[Any]:
        """The windows that an assigner has given; those of an iterator in a list, since they are gone through twice.

        Raises:
            InvalidTypeError: when they are none, or not those that the assigner's serializer is for.
        """
        if windows.__class__ is not list and not isinstance(windows, Collection):
            if not isinstance(windows, Iterable):
                raise InvalidTypeError(
                    f"{type(self._assigner).__name__}.assign_windows has to return a list of windows, not {windows!r}"
                )
            windows = list(windows)
        for window in windows:
            self._kept.check(window, "assign_windows")
        found: Collection[Any] = windows
        return found

    def _pairs(
        self, entries: Iterable[AnyKeyEntry], assigned: Iterable[Collection[Any]]
    ) -> Iterator[tuple[AnyKeyEntry, GivenNamespace]]:
        """The keys and namespaces whose state elements will need."""
        namespace_of = self._windows.namespace_of
        for entry, windows in zip(entries, assigned, strict=True):
            for window in windows:
                yield entry, namespace_of(window)


def _windows_at(regular: RegularWindows, timestamps: Longs) -> list[Collection[Any]]:
    """The windows of each timestamp, newest first; equal ones are the same object."""
    pairs = regular.assign(timestamps)
    ends = pairs.ends.tolist()
    windows = {end: TimeWindow(regular.starts_of(end), end) for end in dict.fromkeys(ends)}
    if pairs.is_identity:
        alone = {end: (window,) for end, window in windows.items()}
        return [alone[end] for end in ends]
    assigned: list[list[Any]] = [[] for _ in timestamps]
    for record, end in zip(pairs.records.tolist(), ends, strict=True):
        assigned[record].append(windows[end])
    return [*assigned]


class _AssignerContext(WindowAssigner.WindowAssignerContext):
    """What an assigner sees: the clock, and state of the current key.

    Args:
        context: the operator.
        time: its time.
    """

    def __init__(self, context: OperatorContext, time: OperatorTime) -> None:
        self._runtime_context = RuntimeContext(context)
        self._time = time

    def get_current_processing_time(self) -> int:
        return self._time.processing_time

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime_context


class BulkProcessor(ElementProcessor):
    """The trigger is asked about late elements only; those that are on time are added together.

    Args:
        keyed: the keys.
        intervals: puts elements into windows.
        windows: the namespaces of windows.
        contents: what windows hold.
        ends: when they are due.
        late: what becomes of elements that are too late.
        time: the operator's time.
    """

    def __init__(
        self,
        keyed: KeyedStates,
        intervals: RegularWindows,
        windows: WindowSerializer[Any],
        contents: OrderedContents,
        ends: EndsOfContents,
        late: LateRecords,
        time: OperatorTime,
    ) -> None:
        self._keyed = keyed
        self._intervals = intervals
        self._windows = windows
        self._contents = contents
        self._ends = ends
        self._late = late
        self._time = time

    def begin_batch(self, batch: KeyedBatch) -> None:
        pairs = self._pairs = self._intervals.assign(batch.timestamps)
        self._is_open = cleanup_times(pairs.ends, self._late.lateness) > batch.watermarks[pairs.records]
        self._late.refuse(batch, pairs if self._is_open.all() else pairs.where(self._is_open))

    def of(self, batch: KeyedBatch) -> Iterable[Step | tuple[Any, ...]]:
        pairs, is_open = self._pairs, self._is_open
        has_ended = pairs.ends - 1 <= batch.watermarks[pairs.records]
        self._contents.add_all(batch, pairs.where(~has_ended) if has_ended.any() else pairs)
        late = pairs.where(has_ended & is_open)
        due = self._ends.foresee(int(batch.watermarks[-1]), late.ends.tolist())
        return self._in_order(batch, due, late) if due or len(late.ends) else ()

    def _in_order(self, batch: KeyedBatch, due: Iterable[DueWindow], late: Assignment) -> Iterator[Step]:
        """The places of late elements, and of those that meet the first watermark at which something is due."""
        marks, before = batch.watermarks.tolist(), [self._time.watermark, *batch.watermarks[:-1].tolist()]
        elements = self._late_elements(batch, late) if len(late.ends) else {}
        times = np.searchsorted(batch.watermarks, [window.time for window in due]).tolist()
        for place in sorted({*times, *elements}):
            if place in elements:
                entry, windows = elements[place]
                timestamp = int(batch.timestamps[place])
                yield Step(batch.rows[place], timestamp, before[place], marks[place], entry, windows)
            else:
                yield Step(NO_RECORD, 0, before[place], marks[place], NO_KEY, None)

    def _late_elements(self, batch: KeyedBatch, late: Assignment) -> dict[int, tuple[AnyKeyEntry, list[Any]]]:
        """The key and the windows of each late element, by its place; what these hold of it is read."""
        keys = batch.keys.take(late.records)
        self._contents.recall(late.ends, keys)
        window_of = self._windows.window_of
        pairs = zip(late.records.tolist(), self._keyed.bind(keys), late.ends.tolist(), strict=True)
        found: dict[int, tuple[AnyKeyEntry, list[Any]]] = {}
        for place, of_element in groupby(pairs, itemgetter(0)):
            _, entries, ends = zip(*of_element, strict=True)
            found[place] = entries[0], [window_of(end) for end in ends]
        return found
