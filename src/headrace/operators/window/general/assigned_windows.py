"""The windows that an assigner gives to elements, and the merging of windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, cast

import numpy as np
import numpy.typing as npt

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.type_variables import W
from headrace.common.typeinfo import Types
from headrace.operators.base import KeyedBatch, OperatorContext
from headrace.operators.functions import RuntimeContext
from headrace.operators.user_code import NO_RECORD, note_returned, record_text, user_error
from headrace.operators.window.general.window_functions import OperatorTime
from headrace.operators.window.stored_windows import MERGING_WINDOWS
from headrace.state.descriptors import ValueStateDescriptor
from headrace.state.keyed.namespaces import GivenNamespace, namespace_of, ordered_bytes
from headrace.state.keys.codecs import NO_KEY, KeyEntry
from headrace.state.protocols import KeyedStates
from headrace.windowing.assigners import EventTimeAssigner, MergingWindowAssigner, WindowAssigner
from headrace.windowing.intervals import RegularWindows
from headrace.windowing.windows import TimeWindow, Window, WindowSerializer

_BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())
_WINDOWS: Final = ValueStateDescriptor(MERGING_WINDOWS, Types.LIST(Types.TUPLE([_BYTES, _BYTES])))
"""Pairs of a window and the one that its state is kept under, as bytes, in the order in which they came to be."""


Merge = Callable[[Any, Sequence[Any], Any, Sequence[Any]], None]
"""The callback for windows that become one. It is given the new window, the windows that it replaces, the window that
its state is stored under, and those that the state of the others is stored under."""


class MergingWindowSet(ABC, Generic[W]):
    """The windows of one key.

    Attributes:
        entry: the key.
        has_changed: whether it has to be written.

    Args:
        entry: the key.
        mapping: from each window to the one that its state is kept under.
    """

    def __init__(self, entry: KeyEntry, mapping: dict[W, W]) -> None:
        self.entry = entry
        self.has_changed = False
        self._mapping = mapping

    @property
    def mapping(self) -> Mapping[W, W]:
        """From each window to the one that its state is kept under."""
        return self._mapping

    def state_window(self, window: W) -> W | None:
        """The window that the state of a window is kept under; None when there is no such window."""
        return self._mapping.get(window)

    def retire(self, window: W) -> None:
        """Forgets a window."""
        self._leave(window)

    def add(self, new: W, merge: Merge) -> W:
        """Adds a window, and merges what it brings together; gives the window that it is, or is part of, then."""
        if new in self._mapping:
            return new
        actual = new
        for merged, result in self._groups(new):
            if new in merged:
                actual = result
            self._merge([window for window in merged if window != new], result, merge)
        if actual not in self._mapping:
            self._enter(actual, actual)
        return actual

    @abstractmethod
    def _groups(self, new: W) -> Sequence[tuple[Sequence[W], W]]:
        """Return which windows become one when there is a new one, and which one."""

    def _merge(self, merged: Sequence[W], result: W, merge: Merge) -> None:
        if not merged or list(merged) == [result]:
            return
        states = [self._leave(window) for window in merged]
        self._enter(result, states[0])
        merge(result, [window for window in merged if window != result], states[0], states[1:])

    def _enter(self, window: W, kept_under: W) -> None:
        self._mapping[window] = kept_under
        self.has_changed = True

    def _leave(self, window: W) -> W:
        """Forgets a window; gives the one that its state is kept under."""
        self.has_changed = True
        return self._mapping.pop(window)


class IntervalMergingWindowSet(MergingWindowSet[TimeWindow]):
    """Windows that become one where they overlap or touch: a new one is compared with its neighbours in time alone.

    So an element costs the same however many windows its key has.

    Args:
        entry: the key.
        mapping: from each window to the one that its state is kept under.
    """

    def __init__(self, entry: KeyEntry, mapping: dict[TimeWindow, TimeWindow]) -> None:
        super().__init__(entry, mapping)
        self._in_order = sorted(mapping)
        self._starts = [window.start for window in self._in_order]

    def touched_by(self, new: TimeWindow) -> TimeWindow:
        """The window that a new one would be, or be part of."""
        return next((result for _, result in self._groups(new)), new)

    def _groups(self, new: TimeWindow) -> Sequence[tuple[Sequence[TimeWindow], TimeWindow]]:
        first = last = bisect_right(self._starts, new.end)
        while first and self._in_order[first - 1].end >= new.start:
            first -= 1
        touched = self._in_order[first:last]
        if not touched:
            return ()
        result = TimeWindow(min(new.start, touched[0].start), max(new.end, touched[-1].end))
        return (([*touched, new], result),)

    def _enter(self, window: TimeWindow, kept_under: TimeWindow) -> None:
        super()._enter(window, kept_under)
        place = bisect_left(self._starts, window.start)
        self._starts.insert(place, window.start)
        self._in_order.insert(place, window)

    def _leave(self, window: TimeWindow) -> TimeWindow:
        kept_under = super()._leave(window)
        place = bisect_left(self._starts, window.start)
        del self._starts[place], self._in_order[place]
        return kept_under


class GenericMergingWindowSet(MergingWindowSet[W]):
    """Windows that the assigner may merge.

    Args:
        entry: the key.
        mapping: from each window to the one that its state is kept under.
        assigner: decides which windows become one.
        kept: looks at what they become.
    """

    def __init__(
        self, entry: KeyEntry, mapping: dict[W, W], assigner: MergingWindowAssigner[Any, W], kept: KeptWindows
    ) -> None:
        super().__init__(entry, mapping)
        self._assigner = assigner
        self._kept = kept

    def _groups(self, new: W) -> list[tuple[list[W], W]]:
        """Delegate to the assigner.

        Raises:
            InvalidProgramError: when that makes no sense; it is noted as the assigner's.
            InvalidTypeError: when what they become is no window of the assigner's; noted as well.
        """
        groups = _Groups()
        self._assigner.merge_windows([*self._mapping, new], groups)
        try:
            self._check(new, groups.found)
        except (InvalidProgramError, InvalidTypeError) as error:
            note_returned(error, self._assigner.merge_windows)
            raise
        return groups.found

    def _check(self, new: W, groups: list[tuple[list[W], W]]) -> None:
        taken: set[W] = set()
        for merged, result in groups:
            self._kept.check(result, "merge_windows")
            for window in merged:
                if window != new and window not in self._mapping:
                    raise self._senseless(f"{record_text(window)} become {result!r}, and the key has no such window")
                if window in taken:
                    raise self._senseless(f"{window!r} part of two windows")
                taken.add(window)
        results = [result for _, result in groups]
        for number, result in enumerate(results):
            if result in results[:number]:
                raise self._senseless(f"two groups of windows {result!r}: it is one group")
            if result in self._mapping and result not in groups[number][0]:
                raise self._senseless(f"other windows {result!r}, which the key has: it has to be one of them")

    def _senseless(self, what: str) -> InvalidProgramError:
        name = f"{type(self._assigner).__name__}.merge_windows"
        return InvalidProgramError(f"{name} makes {what}")


class _Groups(MergingWindowAssigner.MergeCallback[Any]):
    """Notes down which windows become one."""

    def __init__(self) -> None:
        self.found: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        if not isinstance(to_be_merged, Iterable):
            raise InvalidTypeError(f"merge takes the windows that become one, not {record_text(to_be_merged)}")
        self.found.append((list(dict.fromkeys(to_be_merged)), merge_result))


class MergingWindows(Generic[W]):
    """The windows of all keys of an operator: as objects during an epoch, in state between epochs.

    Args:
        assigner: decides which windows become one.
        serializer: makes namespaces of windows.
        kept: looks at the windows that the assigner gives.
        keyed: the state.
    """

    def __init__(
        self,
        assigner: MergingWindowAssigner[Any, W],
        serializer: WindowSerializer[W],
        kept: KeptWindows,
        keyed: KeyedStates,
    ) -> None:
        self._assigner = assigner
        self._kept = kept
        self._merges_touching = assigner.merges_touching
        self._serializer = serializer
        self._keyed = keyed
        self._state = keyed.state(_WINDOWS)
        self._sets: dict[int, MergingWindowSet[W]] = {}

    def begin_epoch(self) -> None:
        """Starts an epoch, without any keys yet."""
        self._sets = {}

    def of_current_key(self) -> MergingWindowSet[W]:
        """The windows of the current key."""
        key: Any = self._keyed.current
        found = self._sets.get(key.ordinal)
        if found is None:
            found = self._sets[key.ordinal] = self._set_of(key)
        return found

    def expect(self, keys: Iterable[KeyEntry]) -> None:
        """Announces the keys whose windows will be read, so that their contents are read together."""
        self._keyed.expect(self._stored_of(dict.fromkeys(keys)))

    def foreseen(
        self, entries: Iterable[KeyEntry], assigned: Iterable[Iterable[Any]]
    ) -> Iterator[tuple[KeyEntry, GivenNamespace]]:
        """The windows that elements will be part of, as keys and namespaces: what is kept of them is read together.

        Each element of a key is taken to come to the window of the one before, or to one that the key has. Where that
        is wrong, or an assigner would have to be called, a window is looked up when it is there.

        Args:
            entries: the key of each element.
            assigned: the windows of each element.
        """
        last: dict[int, TimeWindow] = {}
        for entry, windows in zip(entries, assigned, strict=True) if self._merges_touching else ():
            self._keyed.current = entry
            known = self.of_current_key()
            assert isinstance(known, IntervalMergingWindowSet), "as the assigner merges what touches"
            for window in windows:
                before = last.get(entry.ordinal, window)
                grown = known.touched_by(before.cover(window) if before.intersects(window) else window)
                last[entry.ordinal] = grown
                yield entry, self._serializer.namespace_of(cast("W", grown))
        self._keyed.current = NO_KEY

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        for windows in self._sets.values():
            if windows.has_changed:
                self._keyed.current = windows.entry
                self._state.update([(self._bytes(a), self._bytes(b)) for a, b in windows.mapping.items()] or None)
        self._keyed.current = NO_KEY

    def _set_of(self, key: KeyEntry) -> MergingWindowSet[Any]:
        if self._merges_touching:
            return IntervalMergingWindowSet(key, cast("dict[TimeWindow, TimeWindow]", self._stored()))
        return GenericMergingWindowSet(key, self._stored(), self._assigner, self._kept)

    def _stored_of(self, keys: Iterable[KeyEntry]) -> Iterator[tuple[KeyEntry, GivenNamespace]]:
        """The keys and the namespaces that state of their windows is in."""
        namespace_of = self._serializer.namespace_of
        for entry in keys:
            self._keyed.current = entry
            for kept_under in self.of_current_key().mapping.values():
                yield entry, namespace_of(kept_under)
        self._keyed.current = NO_KEY

    def _stored(self) -> dict[W, W]:
        return {self._window(a): self._window(b) for a, b in self._state.value() or ()}

    def _bytes(self, window: W) -> bytes:
        return ordered_bytes(self._serializer.namespace_of(window))

    def _window(self, data: bytes) -> W:
        namespace = namespace_of(data)
        assert namespace is not None, "windows are stored with a namespace"
        return self._serializer.window_of(namespace)


class KeptWindows:
    """Looks at one window of each class that an assigner gives.

    Args:
        assigner: the assigner.
        windows: makes namespaces of its windows.
    """

    def __init__(self, assigner: WindowAssigner[Any, Any], windows: WindowSerializer[Any]) -> None:
        self._assigner = assigner
        self._windows = windows
        self._known: set[type] = set()

    def check(self, window: Any, method: str) -> None:
        """Refuse what does not come back from state as it was: what it holds would never be shown.

        Args:
            window: the window.
            method: the assigner's method that gives it.

        Raises:
            InvalidTypeError: when it is no window, or none that the assigner's serializer is for.
        """
        if window.__class__ in self._known:
            return
        given = f"{type(self._assigner).__name__}.{method}"
        if not isinstance(window, Window):
            raise InvalidTypeError(f"{given} has to give windows, not {record_text(window)}")
        try:
            namespace = self._windows.namespace_of(window)
            back = self._windows.window_of(namespace)
        except (AttributeError, TypeError, ValueError) as error:
            what = f"does not take it ({type(error).__name__}: {error})"
            raise InvalidTypeError(self._wrong_serializer(given, window, what)) from error
        same_place = isinstance(window, type(back)) and self._windows.namespace_of(back) == namespace
        if back != window and not same_place:
            raise InvalidTypeError(self._wrong_serializer(given, window, f"makes {back!r} of it"))
        self._known.add(window.__class__)

    def _wrong_serializer(self, given: str, window: Any, what: str) -> str:
        serializer = type(self._assigner.get_window_serializer()).__name__
        owner = type(self._assigner).__name__
        return (
            f"{given} gives {window!r}, but the {serializer} of {owner}.get_window_serializer {what}: "
            "both have to be for the same class of windows"
        )


Longs = npt.NDArray[np.int64]


class AssignedWindows:
    """Calls the assigner of an operator, or finds windows that follow from the timestamps by itself.

    Args:
        context: the operator.
        assigner: puts elements into windows.
        kept: looks at the windows that the assigner gives.
        time: the operator's time.
    """

    def __init__(
        self, context: OperatorContext, assigner: WindowAssigner, kept: KeptWindows, time: OperatorTime
    ) -> None:
        self._context = context
        self._keyed = context.state.keyed
        self._assigner = assigner
        self._regular = assigner.regular if isinstance(assigner, EventTimeAssigner) else None
        self._assigner_context = _AssignerContext(context, time)
        self._kept = kept

    def of(self, batch: KeyedBatch, timestamps: Sequence[int], entries: Sequence[KeyEntry]) -> list[Collection[Any]]:
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
        self, rows: Sequence[object], timestamps: Sequence[int], entries: Sequence[KeyEntry]
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

    def _checked(self, windows: object) -> Collection[Any]:
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
    """The context of an assigner: the clock, and state of the current key.

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
