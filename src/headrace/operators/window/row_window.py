"""Windows with functions of the user: reduce, aggregate, apply and process, element by element.

What has to be exact is the order of what the user can see: which elements a window holds when its function is called,
the order of the calls, and the watermark in force. Adding an element that is on time is not among it, so a batch's
elements that are on time are added first; then the events of the batch happen in order: windows that fire, as the
watermark passes their end, windows whose contents go, and late but allowed records that fire their window again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.collector import RowCollector
from headrace.operators.functions import FunctionOperator
from headrace.operators.user_code import calling_user_code, user_error
from headrace.operators.window.lateness import LateRecords, check_timestamps, cleanup_times
from headrace.operators.window.merging import STORE, check_has_no_timers
from headrace.operators.window.row_contents import RowContents
from headrace.operators.window.window_functions import PassContents, WindowContext, maker_of
from headrace.state.copying import copy_value
from headrace.state.keys.entries import NO_KEY
from headrace.windowing.trigger import Firing
from headrace.windowing.windows import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.common.batch import Batch
    from headrace.operators.base import EpochScope, OperatorContext, Output
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.window.folds import Fold
    from headrace.operators.window.row_layout import RowWindowLayout
    from headrace.state.keys import KeyColumn
    from headrace.state.keys.entries import AnyKeyEntry
    from headrace.windowing.intervals import Assignment

    Longs = npt.NDArray[np.int64]


class WindowEvent(NamedTuple):
    """A window fires, fires again for a late record, or its contents go; events sort in the order of happening.

    Attributes:
        place: twice the position of the record that the watermark rises before, or one more for the record itself.
        time: the timer's time, or the rank of the pair of record and window.
        end: the end of the window.
        is_cleanup: whether it is the time for the contents to go.
        pair: the pair of a late record and its window, or -1.
    """

    place: int
    time: int
    end: int
    is_cleanup: bool = False
    pair: int = -1


class RowWindowOperator(FunctionOperator):
    """Functions of the user over aligned windows of event time, with the default trigger.

    Args:
        layout: the functions, the windows and the types.
    """

    def __init__(self, layout: RowWindowLayout) -> None:
        self._fold = layout.new_fold()
        self._call = layout.new_call()
        self.maker = maker_of(self._call, layout.aggregate_function)
        super().__init__(*(self._fold.functions if self._fold else ()), *self._call.functions)
        self._layout = layout
        self._assigner = layout.assigner
        self._lateness = layout.lateness
        self._collector = RowCollector(layout.output_type, layout.side_types)
        self._watermark = MIN_WATERMARK
        self._processing_time = 0

    def open(self, context: OperatorContext, output: Output) -> None:
        assert context.state is not None
        self._contents = RowContents(self._layout, self._fold, context.state.store(STORE))
        self._late = LateRecords(self, self._lateness, self._layout.late_tag)
        self._keyed = context.state.keyed
        self._window = WindowContext(self._keyed)
        super().open(context, output)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._watermark = scope.watermark
        self._processing_time = scope.processing_time
        check_has_no_timers(self.context)
        self._contents.begin_epoch()

    def process(self, input_index: int, batch: Batch) -> None:
        if not len(batch):
            return
        keyed = cast("KeyedBatch", batch)
        check_timestamps(batch, self.context)
        pairs = self._assigner.assign(batch.timestamps)
        watermarks = batch.watermarks[pairs.records]
        has_fired = pairs.ends - 1 <= watermarks
        is_open = cleanup_times(pairs.ends, self._lateness) > watermarks
        self._late.refuse(batch, pairs if is_open.all() else pairs.where(is_open))
        again = np.flatnonzero(has_fired & is_open)
        touched = ~has_fired if self._fold is not None else np.zeros(len(has_fired), np.bool_)
        touched[again] = True
        if touched.any():
            chosen = pairs if touched.all() else pairs.where(touched)
            self._contents.recall(chosen.ends, keyed.keys.take(chosen.records))
        self._add(keyed, pairs if not has_fired.any() else pairs.where(~has_fired))
        self._advance(batch.watermarks, LatePairs(keyed, pairs, again))

    def advance_watermark(self, watermark: int) -> None:
        if watermark > self._watermark:
            self._advance(np.array([watermark], np.int64), None)
        super().advance_watermark(self._watermark)

    def end_epoch(self) -> None:
        self._contents.end_epoch(self._watermark)

    def _add(self, batch: KeyedBatch, pairs: Assignment) -> None:
        rows, keys = batch.rows, batch.keys.values.to_pylist()
        if not pairs.is_identity:
            records = pairs.records.tolist()
            rows, keys = [rows[i] for i in records], [keys[i] for i in records]
        element = None
        try:
            for element in self._contents.add(pairs.ends.tolist(), keys, rows):  # noqa: B007 - named if it fails
                pass
        except BaseException as error:
            raise user_error(error, self.context, element) from error

    def _advance(self, watermarks: Longs, late: LatePairs | None) -> None:
        """Event time advances to each of the watermarks: what is due fires or is cleared, in order."""
        events = sorted([*self._timers(watermarks, late), *(late.events() if late else ())])
        before = [self._watermark, *watermarks.tolist()] if events else []
        for event in events:
            record, is_record = divmod(event.place, 2)
            after = before[record + 1]
            if is_record and late is not None:
                self._fire_again(late, event, after)
            elif event.is_cleanup:
                self._clear(event.end, after)
            else:
                self._fire(event.end, before[record], after)
        self._collector.flush(self.output)
        self._watermark = int(watermarks[-1])
        self._contents.forget(self._watermark)

    def _timers(self, watermarks: Longs, late: LatePairs | None) -> Iterator[WindowEvent]:
        """The timers that the watermarks pass: of windows that fire, and of contents that go."""
        last = int(watermarks[-1])
        for end in self._contents.ends_between(self._watermark, last):
            yield WindowEvent(_place(watermarks, end - 1), end - 1, end)
        if not self._lateness or not self._call.wants_clear:
            return
        ends = self._contents.ends_between(self._watermark - self._lateness, last - self._lateness)
        for end in ends.union(late.ends if late else ()):
            time = end - 1 + self._lateness
            if time <= last and time < MAX_WATERMARK:  # what would be kept beyond the end of time has no timer
                yield WindowEvent(_place(watermarks, time), time, end, is_cleanup=True)

    def _fire(self, end: int, before: int, after: int) -> None:
        """A window whose time has come, all its keys; without lateness its contents go at once."""
        clears = not self._lateness and self._call.wants_clear
        keys, contents = self._contents.window(end)
        if self._fold is not None and isinstance(self._call, PassContents):
            self._pass_on(self._fold, contents, end, before)
            return
        entries = self._keyed.bind(keys)
        self._keyed.enter_namespace(end, entries)
        for entry, held in zip(entries, contents, strict=True):
            self._enter(entry, end, after, Firing.ON_TIME)
            self._emit(entry, end, held, before)
            if clears:
                self._call_clear()
        self._keyed.current = NO_KEY

    def _pass_on(self, fold: Fold, contents: list[Any], end: int, watermark: int) -> None:
        """All keys of a window whose folded values are the results."""
        with calling_user_code(self.context):
            # No map(): a function that raises StopIteration would end it, and the other keys would be lost.
            rows = [fold.result(held) for held in contents]
            if self._lateness:
                rows = [copy_value(row) for row in rows]
        self._collector.collect(rows, end - 1, watermark)

    def _fire_again(self, late: LatePairs, event: WindowEvent, watermark: int) -> None:
        element, entry = late.element(event.pair), self._keyed.bind(late.key(event.pair))[0]
        try:
            for _ in self._contents.add((event.end,), (entry.raw,), (element,)):
                pass
        except BaseException as error:
            raise user_error(error, self.context, element) from error
        self._keyed.enter_namespace(event.end, (entry,))
        self._enter(entry, event.end, watermark, Firing.LATE)
        self._emit(entry, event.end, self._contents.held(event.end, entry.raw), watermark)
        self._keyed.current = NO_KEY

    def _clear(self, end: int, watermark: int) -> None:
        keys, _ = self._contents.window(end)
        entries = self._keyed.bind(keys)
        self._keyed.enter_namespace(end, entries)
        for entry in entries:
            self._enter(entry, end, watermark, Firing.LATE)
            self._call_clear()
        self._keyed.current = NO_KEY

    def _enter(self, entry: AnyKeyEntry, end: int, watermark: int, firing: Firing) -> None:
        """What the user's function is to see from now on."""
        self._keyed.current = entry
        self._window.enter(TimeWindow(end - self._assigner.size, end), watermark, self._processing_time, firing)

    def _emit(self, entry: AnyKeyEntry, end: int, held: Any, watermark: int) -> None:
        """Calls the user's function over what the window holds; what it gives is stamped with ``watermark``."""
        with calling_user_code(self.context):
            elements = held
            if self._fold is not None:
                result = self._fold.result(held)
                # What is kept for late elements must not change with what was emitted, or the other way round.
                elements = (copy_value(result) if self._lateness else result,)
            self._collector.collect(self._call.results(entry, self._window, elements), end - 1, watermark)

    def _call_clear(self) -> None:
        with calling_user_code(self.context):
            self._call.clear(self._window)


class LatePairs:
    """Pairs of a late but allowed record and a window of it.

    Attributes:
        ends: the ends of the windows.

    Args:
        batch: the records.
        pairs: all pairs of the batch.
        chosen: which of them.
    """

    def __init__(self, batch: KeyedBatch, pairs: Assignment, chosen: Longs) -> None:
        self._batch = batch
        self._records = pairs.records[chosen].tolist()
        self.ends = pairs.ends[chosen].tolist()

    def events(self) -> Iterator[WindowEvent]:
        """When the windows fire again."""
        for pair, (record, end) in enumerate(zip(self._records, self.ends, strict=True)):
            yield WindowEvent(2 * record + 1, pair, end, pair=pair)

    def element(self, pair: int) -> Any:
        """The element of a pair."""
        return self._batch.rows[self._records[pair]]

    def key(self, pair: int) -> KeyColumn:
        """The key of a pair."""
        record = self._records[pair]
        return self._batch.keys.slice(record, record + 1)


def _place(watermarks: Longs, time: int) -> int:
    """Twice the position of the first record whose watermark has reached ``time``."""
    return 2 * int(np.searchsorted(watermarks, time))
