"""Functions of the user over windows that are not read before their ends.

The trigger fires at the end of a window and does nothing else, so it makes no difference in which order elements were
added that are on time: they are added first, as columns, ordered by the ends of windows, which take the place of
timers. What is left then happens in order: windows that fire as the watermark passes their ends, of all keys together;
windows that go; and late elements, for which the trigger is called.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext, Output
from headrace.operators.functions import FunctionOperator
from headrace.operators.timer_service import TimeDomain
from headrace.operators.user_code import NO_RECORD, user_error
from headrace.operators.window.general.ordered_contents import (
    FoldedValues,
    KeysOfWindow,
    OrderedContents,
    OrderedElements,
    held_in_order,
)
from headrace.operators.window.general.window_functions import fold_of
from headrace.operators.window.general.window_operator import CalledWindows, FunctionWindowOperator, WindowOperator
from headrace.operators.window.lateness import LateRecords, cleanup_times
from headrace.operators.window.stored_windows import STORE, StoredWindow, check_has_tables_of
from headrace.state.keys.codecs import NO_KEY, KeyEntry
from headrace.windowing.definition import ChangedWindows
from headrace.windowing.intervals import Assignment, EndSerializer, RegularWindows
from headrace.windowing.trigger import Firing


class DueWindow(NamedTuple):
    """A window of which all keys come to the end together; they sort in the order of happening.

    Attributes:
        time: when that is, in milliseconds of event time.
        end: the end of the window.
        fires: whether it fires.
        goes: whether its contents go, and the function is called for that.
    """

    time: int
    end: int
    fires: bool
    goes: bool


class OrderedWindowOperator(FunctionWindowOperator):
    """Functions of the user over windows of event time that fire at their ends alone.

    Args:
        windows: the windows, and what is called over them; nothing of it is called by the clock.
    """

    _contents: OrderedContents

    def __init__(self, windows: CalledWindows) -> None:
        super().__init__(windows)
        intervals, self._lateness = windows.definition.fixed_windows, windows.definition.allowed_lateness
        assert intervals is not None, "all others have the general operator"
        self._intervals: RegularWindows = intervals
        self._windows = EndSerializer(intervals)
        self._due: deque[DueWindow] = deque()

    def open(self, context: OperatorContext, output: Output) -> None:
        if context.changed_windows is ChangedWindows.REAGGREGATE:  # functions merge what windows hold
            FunctionOperator.open(self, context, output)
            self.restore_state(context)
        else:
            super().open(context, output)
        self._late = LateRecords(self, self._lateness, self._definition.late_tag_id)

    def held_windows(self, context: OperatorContext, watermark: int) -> Iterator[StoredWindow]:
        """The contents of windows, read by an operator that is not open. See :class:`.WindowStateReader`."""
        self.restore_state(context)
        self._contents.begin_epoch()
        return held_in_order(self._contents, self._keyed, self.window_of)

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        self._contents = self._ordered_contents(context, self._intervals)

    def _ordered_contents(self, context: OperatorContext, windows: RegularWindows) -> OrderedContents:
        check_has_tables_of(context, STORE)
        fold = fold_of(self._user_functions, self._input_type)
        if fold is not None:
            return FoldedValues(context, windows, self._lateness, fold)
        return OrderedElements(context, windows, self._lateness, self._input_type, context.renamed_fields)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._time.watermark, self._time.processing_time = scope.watermark, scope.processing_time
        self._contents.begin_epoch()
        self._foreseen = scope.watermark
        self._due.clear()

    def advance_watermark(self, watermark: int) -> None:
        reached = self._time.watermark
        if watermark > reached:
            self._foresee(watermark)
            self._advance(watermark, reached)
            self._flush()
        super().advance_watermark(self._time.watermark)

    def end_epoch(self) -> None:
        self._contents.end_epoch(self._time.watermark)

    def _add_all(self, batch: KeyedBatch) -> None:
        pairs = self._intervals.assign(batch.timestamps)
        met = batch.watermarks[pairs.records]
        is_open = cleanup_times(pairs.ends, self._lateness) > met
        # Operators that take late records may fail, and that is no failure of a window's function.
        self._late.refuse(batch, pairs if is_open.all() else pairs.where(is_open))
        element: Any = NO_RECORD
        try:
            has_ended = pairs.ends - 1 <= met
            self._contents.add_all(batch, pairs.where(~has_ended) if has_ended.any() else pairs)
            late = pairs.where(has_ended & is_open)
            self._foresee(int(batch.watermarks[-1]), late.ends.tolist())
            elements = self._late_elements(batch, late) if len(late.ends) else {}
            for place, reached, watermark in self._places(batch, elements):
                element = batch.rows[place] if place in elements else NO_RECORD
                if watermark != self._time.watermark:
                    self._advance(watermark, reached)
                if place in elements:
                    self._add_late(element, int(batch.timestamps[place]), *elements[place])
        except BaseException as error:
            raise self._failure(error, element) from error
        finally:
            self._keyed.current = NO_KEY

    def _places(self, batch: KeyedBatch, elements: Iterable[int]) -> Iterable[tuple[int, int, int]]:
        """The places of late elements, and of those that meet the first watermark at which something is due.

        Each with the watermark that was in force before it, and the one that it meets.
        """
        if not self._due and not elements:
            return ()
        marks, before = batch.watermarks.tolist(), [self._time.watermark, *batch.watermarks[:-1].tolist()]
        times = np.searchsorted(batch.watermarks, [window.time for window in self._due]).tolist()
        return [(place, before[place], marks[place]) for place in sorted({*times, *elements})]

    def _late_elements(self, batch: KeyedBatch, late: Assignment) -> dict[int, tuple[KeyEntry, list[int]]]:
        """The key of each late element, and the ends of its windows, by its place; what these hold of it is read."""
        keys = batch.keys.take(late.records)
        self._contents.recall(late.ends, keys)
        pairs = zip(late.records.tolist(), self._keyed.bind(keys), late.ends.tolist(), strict=True)
        found: dict[int, tuple[KeyEntry, list[int]]] = {}
        for place, of_element in groupby(pairs, itemgetter(0)):
            _, entries, ends = zip(*of_element, strict=True)
            found[place] = entries[0], list(ends)
        return found

    def _add_late(self, element: object, timestamp: int, entry: KeyEntry, ends: Iterable[int]) -> None:
        """Adds an element to windows that have ended, and emits them again where the trigger fires."""
        self._keyed.current = entry
        for end in ends:
            window = self.window_of(end)
            self._contents.add(end, element)
            self._trigger.enter(window, end)
            result = self._trigger.on_element(element, timestamp)
            if result.is_fire():
                self._enter(window, Firing.LATE)
                results = self._call.results(entry, self._context, self._contents.elements(end))
                self._collector.collect(results, window.max_timestamp(), self._time.watermark)
            if result.is_purge():
                raise InvalidProgramError(
                    "the trigger says of itself that it fires at the end of a window and does nothing else "
                    "(fires_only_at_end), but it purges: leave fires_only_at_end as it is, False"
                )

    def _foresee(self, watermark: int, late_ends: Iterable[int] = ()) -> None:
        """Finds what is due until event time has come to a watermark, once all is there that comes on time until then.

        Args:
            watermark: the watermark.
            late_ends: the ends of windows that late elements will be added to meanwhile.
        """
        if watermark > self._foreseen:
            self._contents.forget(self._foreseen)
            self._due.extend(sorted({*self._firings(watermark), *self._goings(watermark, late_ends)}))
            self._foreseen = watermark

    def _firings(self, watermark: int) -> Iterator[DueWindow]:
        goes = not self._lateness and self._call.wants_clear
        for end in self._contents.ends_between(self._foreseen, watermark):
            yield DueWindow(end - 1, end, fires=True, goes=goes)

    def _goings(self, watermark: int, late_ends: Iterable[int]) -> Iterator[DueWindow]:
        lateness = self._lateness
        if not lateness or not self._call.wants_clear:
            return
        for end in self._contents.ends_between(self._foreseen - lateness, watermark - lateness).union(late_ends):
            time = end - 1 + lateness
            if time <= watermark and time < MAX_WATERMARK:  # what would be kept beyond the end of time never goes
                yield DueWindow(time, end, fires=False, goes=True)

    def _advance(self, watermark: int, reached: int) -> None:
        """Fires what the advance makes due; what it emits still meets the watermark ``reached`` before."""
        self._time.watermark = watermark
        while self._due and self._due[0].time <= watermark:
            due = self._due.popleft()
            self._come_to_end(due, self._contents.of_all_keys(due.end), reached)
        self._keyed.event_time = watermark

    def _come_to_end(self, due: DueWindow, contents: KeysOfWindow, stamp: int) -> None:
        """A window fires, or goes, of all keys that have something in it."""
        window, call = self._windows.window_of(due.end), self._call
        self._keyed.event_time = max(stamp, due.time)
        try:
            if due.fires and not call.sees_window:
                # No map(): a function that raises StopIteration would end it, and the other keys would be lost.
                rows = [row for held in contents.held for row in contents.shown(held)]
                self._collector.collect(rows, window.max_timestamp(), stamp)
                return
            entries = self._keyed.bind(contents.keys)
            self._keyed.enter_namespace(due.end, entries)
            self._enter(window, Firing.ON_TIME if due.fires else Firing.LATE)
            for entry, held in zip(entries, contents.held, strict=True):
                self._keyed.current = entry
                if due.fires:
                    results = call.results(entry, self._context, contents.shown(held))
                    self._collector.collect(results, window.max_timestamp(), stamp)
                if due.goes:
                    call.clear(self._context)
        except BaseException as error:
            raise user_error(
                error, self.context, timer=self._timer_text(TimeDomain.EVENT_TIME, due.time, window)
            ) from error
        finally:
            self._keyed.current = NO_KEY


def window_operator(windows: CalledWindows) -> FunctionWindowOperator:
    """The operator for functions of the user over windows."""
    kind = WindowOperator if windows.definition.fixed_windows is None else OrderedWindowOperator
    return kind(windows)
