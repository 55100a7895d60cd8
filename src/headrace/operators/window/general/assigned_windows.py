"""Which windows elements belong to, as their assigner says."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.common.errors import InvalidTypeError
from headrace.operators.base import KeyedBatch, OperatorContext
from headrace.operators.functions import RuntimeContext
from headrace.operators.user_code import NO_RECORD, user_error
from headrace.operators.window.general.merging_windows import KeptWindows
from headrace.operators.window.general.window_functions import OperatorTime
from headrace.state.keys.codecs import NO_KEY, AnyKeyEntry
from headrace.windowing.assigners import EventTimeAssigner, WindowAssigner
from headrace.windowing.intervals import RegularWindows
from headrace.windowing.windows import TimeWindow

Longs = npt.NDArray[np.int64]


class AssignedWindows:
    """Asks the assigner of an operator, or finds windows that follow from the timestamps by itself.

    Args:
        context: the operator.
        assigner: puts elements into windows.
        kept: looks at the windows that the assigner gives.
        time: the operator's time.
    """

    def __init__(
        self, context: OperatorContext, assigner: WindowAssigner[Any, Any], kept: KeptWindows, time: OperatorTime
    ) -> None:
        self._context = context
        self._keyed = context.state.keyed
        self._assigner = assigner
        self._regular = assigner.regular if isinstance(assigner, EventTimeAssigner) else None
        self._assigner_context = _AssignerContext(context, time)
        self._kept = kept

    def of(self, batch: KeyedBatch, timestamps: Sequence[int], entries: Sequence[AnyKeyEntry]) -> list[Collection[Any]]:
        """The windows of each element of a batch.

        Args:
            batch: the elements.
            timestamps: their timestamps.
            entries: their keys.
        """
        if self._regular is not None:
            return _windows_at(self._regular, batch.timestamps)
        return self._assigned(batch.rows, timestamps, entries)

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
