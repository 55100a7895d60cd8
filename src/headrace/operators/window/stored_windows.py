"""The state of windows between two epochs: its stores, its migration to other windows, and its readers.

Windows may be declared otherwise than those whose contents are stored. Then what was stored is an error, is dropped, or
moves: rows of ordered tables go from old windows, or panes, into the new windows that consist of them. What old windows
have shown already stays shown, and does not move: each record is shown by the old windows or by the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.common.logs import get_logger
from headrace.common.typeinfo import TypeInformation
from headrace.metrics.registry import ROWS_DROPPED, ROWS_MOVED
from headrace.operators.base import EpochScope, Operator, OperatorContext, Output, cannot_go_on
from headrace.operators.window.lateness import passed_end
from headrace.state.evolution import NOTHING_RENAMED, RenamedFields
from headrace.state.keys import KeyCodec
from headrace.state.protocols import NAMESPACED_PREFIX, STORE_PREFIX
from headrace.state.runs import Run, RunStore
from headrace.state.runs.merge_input import Combine, described, floor_of, rest_of
from headrace.state.sorted_table import TableLayout
from headrace.state.timers import NO_TIMER
from headrace.windowing.definition import ChangedWindows
from headrace.windowing.intervals import AlignedWindows, RegularWindows
from headrace.windowing.windows import TimeWindow, Window

if TYPE_CHECKING:
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout

    Longs = npt.NDArray[np.int64]

logger = get_logger(__name__)


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
        """Return what its windows hold, those that have fired but still take late records included; in any order.

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
        bounds: the columns of results that identify windows.
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


ACCUMULATORS_KIND: Final = "window-partials"
"""The kind of runs that hold accumulators: those of a key and window are merged."""
VALUES_KIND: Final = "window-values"
"""The kind of runs that hold folded values: the newest of a key and window counts."""
ELEMENTS_KIND: Final = "window-elements"
"""The kind of runs that hold all elements."""
PANE: Final = "pane"
"""The property of runs whose rows are those of panes: the length of a pane."""

STORE: Final = "windows"
"""The store of an operator that ordered tables of windows are in."""
LEFT_STORE: Final = "windows-of-left-records"
"""The store of an operator with two inputs that the table of its left one is in."""
RIGHT_STORE: Final = "windows-of-right-records"
"""The store that the table of its right one is in."""
SESSIONS_STORE: Final = "sessions"
"""The store that open sessions are in."""

CLOCK_STORE: Final = "windows-of-the-clock"
"""The store of windows of processing time."""

GLOBAL_STORE: Final = "global-windows"
"""The store of windows that have no end."""

COUNT_STORE: Final = "count-windows"
"""The store of windows of so many records."""
CONTINUOUS_STORE: Final = "continuous-windows"
"""The store of windows that fire at intervals before their end."""

DUE_SUFFIX: Final = "-due"
"""The suffix of the name of a store that holds the due times of the windows of another one."""

CONTENTS: Final = "window-contents"
"""The state of key and window that all others keep what they hold in."""

SHOWN: Final = "shown-results"
"""The state of key and window that they keep what they have shown in, where they take it back."""

OF_TRIGGERS: Final = "trigger/"
"""The prefix of the names of the states of triggers."""

_KEYED_CONTENTS: Final = f"{NAMESPACED_PREFIX}{CONTENTS}"
"""The store of it."""

_KINDS: Final = {
    STORE: "fire at their ends alone",
    LEFT_STORE: "hold the records of two streams, and fire at their ends alone",
    RIGHT_STORE: "hold the records of two streams, and fire at their ends alone",
    CLOCK_STORE: "are of processing time, computed column by column",
    GLOBAL_STORE: "have no end, computed column by column",
    **dict.fromkeys((SESSIONS_STORE, SESSIONS_STORE + DUE_SUFFIX), "are sessions, computed column by column"),
    **dict.fromkeys((COUNT_STORE, COUNT_STORE + DUE_SUFFIX), "are of a count, computed column by column"),
    **dict.fromkeys(
        (CONTINUOUS_STORE, CONTINUOUS_STORE + DUE_SUFFIX),
        "fire at intervals before their end, computed column by column",
    ),
}
"""The kinds of windows that have something in a store; all others keep their contents as state of keys."""

_OF_THEIR_OWN: Final = "have a trigger, assigner or evictor of their own"

ADVICE: Final = (
    "give it another uid, or restore the old declaration; to drop what they hold for good, or move it, set "
    "execution.state-recovery.changed-windows (headrace run --changed-windows)"
)


def is_of_operator(name: str) -> bool:
    """Return whether a state of key and window is none of a function, which is known by its name."""
    return name in (CONTENTS, SHOWN) or name.startswith(OF_TRIGGERS)


def check_has_no_tables(context: OperatorContext) -> None:
    """Refuse what is stored, for windows that are looked at before their ends, or take back what they show.

    Raises:
        StateMigrationError: when windows that are computed column by column, or fire at their ends alone, stored it.
    """
    for name in context.state.stored():
        if name in _KINDS:
            raise _of_others(_KINDS[name], "have another trigger, assigner, evictor or accumulation mode")


def check_has_only(context: OperatorContext, *stores: str) -> None:
    """Refuse what is stored by windows of another kind, for windows that are computed column by column.

    Args:
        context: the operator.
        stores: the stores that they keep it in.

    Raises:
        StateMigrationError: when windows of another kind have stored something.
    """
    others = sorted({*context.state.stored()} - {*stores})
    # Where old windows are dropped, so is what their functions and assigners kept by key: here are none any more.
    if others and context.changed_windows is ChangedWindows.DROP and all(map(_is_of_function, others)):
        rows = context.state.drop_windows(*(name.removeprefix(STORE_PREFIX) for name in others))
        context.counted[ROWS_DROPPED] = context.counted.get(ROWS_DROPPED, 0) + rows
        others = sorted({*context.state.stored()} - {*stores})
    if others:
        raise _of_others(_KINDS.get(others[0], _OF_THEIR_OWN), _KINDS[stores[0]])


def _is_of_function(store: str) -> bool:
    return store.startswith(STORE_PREFIX)


def check_has_tables_of(context: OperatorContext, *stores: str) -> None:
    """Refuse what is stored elsewhere, for windows that fire at their ends alone; states of functions may be there.

    Args:
        context: the operator.
        stores: the stores that they keep it in.

    Raises:
        StateMigrationError: when windows of another kind have stored something.
    """
    for name in context.state.stored():
        if name == _KEYED_CONTENTS or (name in _KINDS and name not in stores):
            raise _of_others(_KINDS.get(name, _OF_THEIR_OWN), _KINDS[stores[0]])


def check_has_no_timers(context: OperatorContext) -> None:
    """Refuse timers, of which such windows have none either; they are there only when an epoch begins.

    Raises:
        StateMigrationError: when others have left some.
    """
    if context.state.timers.event.next_due != NO_TIMER:
        error = _of_others(_OF_THEIR_OWN, "fire at their ends alone")
        raise cannot_go_on(context, error)  # as where one is opened


def _of_others(stored: str, declared: str) -> StateMigrationError:
    return StateMigrationError(f"there is state of windows that {stored}, and now they {declared}: {ADVICE}")


def contents_layout(
    kind: str,
    schema: pa.Schema,
    codec: KeyCodec,
    windows: RegularWindows,
    values: TypeInformation | None = None,
    renamed: RenamedFields = NOTHING_RENAMED,
    **about: object,
) -> TableLayout:
    """Return how windows keep what they hold.

    Args:
        kind: the kind of runs.
        schema: the columns: the end of a window, the hash and the key, then what it holds.
        codec: how keys are stored.
        windows: the windows; what those of another shape hold must not be mixed with it.
        values: the type of what they hold, where values of an earlier type may become those of this one.
        renamed: which fields of these values have other names than in what is stored.
        about: what has to be the same besides.
    """
    about = {"keys": codec.to_json(), **windows.shape, **about}
    return TableLayout("the contents of windows", kind, schema, 3, about, _WORDS, values, ADVICE, renamed=renamed)


def accumulators_layout(layout: ColumnarWindowLayout, windows: RegularWindows, **about: Any) -> TableLayout:
    """Return how the accumulators of windows are kept; ``about`` is what has to be the same besides."""
    about = {"parts": layout.aggregators.to_json(), **about}
    kept_as = contents_layout(ACCUMULATORS_KIND, layout.state_schema, layout.codec, windows, **about)
    return replace(kept_as, named_now=layout.named_now)


_WORDS: Final = {
    "kind": "kind of contents",
    "keys": "key type",
    "size": "size in milliseconds",
    "slide": "slide in milliseconds (that of tumbling windows is their size)",
    "offset": "offset in milliseconds",
    PANE: "length of panes in milliseconds",
    "parts": "set of aggregates",
    "types": "type of contents",
}


MERGING_WINDOWS: Final = "merging-window-set"
"""The state of keys that windows which merge are known by."""

_SHAPE: Final = ("size", "slide", "offset")


def are_of(windows: AlignedWindows, start: int, end: int) -> bool:
    """Return whether a stretch of time is one of some windows."""
    return end - start == windows.size and (start - windows.offset) % windows.slide == 0


def drop_changed(context: OperatorContext, refused: StateMigrationError) -> None:
    """Drop what windows hold, with timers and the state of triggers; state that functions keep by key stays.

    Args:
        context: the operator.
        refused: why it could not go on with it.
    """
    rows = context.state.drop_windows(MERGING_WINDOWS)
    context.counted[ROWS_DROPPED] = context.counted.get(ROWS_DROPPED, 0) + rows
    logger.warning(
        "operator %r (uid %s): what windows held is dropped for good, as was asked for: %d rows (%s)",
        context.name,
        context.uid,
        rows,
        str(refused).partition("give ")[0].strip(":; "),
    )


@dataclass(frozen=True)
class WindowStateMigration:
    """The windows that what is stored moves into.

    Attributes:
        context: the operator.
        windows: the windows.
        kept_as: how what they hold is kept.
        rows_of: the windows, or panes, whose rows are kept.
        combine: makes one batch of the runs of such windows.
        regroup: makes the rows of a run of some rows in any order, of which earlier ones came earlier.
    """

    context: OperatorContext
    windows: RegularWindows
    kept_as: TableLayout
    rows_of: RegularWindows
    combine: Combine
    regroup: Callable[[pa.RecordBatch], pa.RecordBatch]

    def take_over(self, store: RunStore) -> None:
        """Move what windows of another shape have left in a store, where that was requested.

        Raises:
            StateMigrationError: when the new windows do not consist of whole old ones.
        """
        if self.context.changed_windows is not ChangedWindows.REAGGREGATE:
            return
        runs = [self.kept_as.adapted(store, run) for run in store.runs]
        former = [run for run in runs if run is not None and _shape_of(run.meta) != _shape_of(self.kept_as.meta)]
        if not former:
            return
        stored = self.combine(former[0].meta, [rest_of(run, floor_of(run)) for run in former])
        moved = self._moved(former, stored)
        for run in former:
            store.drop(run)
        if moved.num_rows:
            whole = self.regroup(moved)
            store.append(whole, described(self.kept_as.meta, whole))
        self._tell(stored.num_rows, moved.num_rows)

    def _tell(self, before: int, moved: int) -> None:
        self.context.counted[ROWS_MOVED] = moved
        logger.warning(
            "operator %r (uid %s): what windows held moves into windows of another shape, as was asked for: "
            "%d rows become %d; what the old ones had shown stays behind",
            self.context.name,
            self.context.uid,
            before,
            moved,
        )

    def _moved(self, former: Sequence[Run], stored: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of runs that have not been shown, with the ends of the new windows, or panes."""
        meta = former[0].meta
        if not all(isinstance(meta.get(name), int) for name in _SHAPE):
            raise self._refused("what is stored is not of windows of one size at regular distances")
        windows = AlignedWindows(*(meta[name] for name in _SHAPE))
        self._check_union(windows, self._whole(windows, former))
        ends = stored.column(0).to_numpy()
        rows = np.flatnonzero(ends > self._last_shown(windows, is_pane=PANE in meta))
        stored, ends = stored.take(pa.array(rows)), ends[rows]
        self._check_open(windows, ends)
        pairs = self.rows_of.assign(ends - 1)
        return stored.take(pa.array(pairs.records)).set_column(0, stored.schema.field(0), pa.array(pairs.ends))

    def _whole(self, former: AlignedWindows, runs: Sequence[Run]) -> AlignedWindows:
        """The stretches of time that the rows of runs are of: panes, or windows that do not overlap."""
        pane = runs[0].meta.get(PANE)
        about = {name: value for name, value in self.kept_as.about.items() if name != PANE}
        about |= former.shape if pane is None else {**former.shape, PANE: pane}
        for run in runs:
            replace(self.kept_as, about=about).check(run)
        if pane is not None:
            return AlignedWindows(pane, pane, former.offset % pane)
        if former.size != former.slide:
            kind = "overlap, so a record is in several of them" if former.size > former.slide else "leave gaps"
            raise self._refused(f"the old windows {kind}")
        return former

    def _last_shown(self, former: AlignedWindows, *, is_pane: bool) -> int:
        """The last end of rows that only windows need which have fired."""
        fired = passed_end(self.context.watermark)
        return former.starts_of(former.first_ends(fired)) if is_pane else fired

    def _check_union(self, former: AlignedWindows, whole: AlignedWindows) -> None:
        new = self.windows
        if not isinstance(new, AlignedWindows):
            raise self._refused("the new windows are not of one size at regular distances")
        step = whole.size
        if new.size % step or new.slide % step or (new.offset - whole.offset) % step:
            raise self._refused(
                f"old windows of {former.size} ms every {former.slide} ms, shifted by {former.offset} ms, are kept in "
                f"pieces of {step} ms; new ones of {new.size} ms every {new.slide} ms, shifted by {new.offset} ms, "
                "would begin or end within such a piece, whose records cannot be told apart"
            )

    def _check_open(self, former: AlignedWindows, ends: Longs) -> None:
        """Refuse to lose what no window has shown, since all its new windows would have fired already."""
        fired = passed_end(self.context.watermark)
        pairs = self.windows.assign(ends - 1)
        is_open = np.zeros(len(ends), np.bool_)
        is_open[pairs.records[pairs.ends > fired]] = True
        is_in_any = np.zeros(len(ends), np.bool_)
        is_in_any[pairs.records] = True
        is_unshown = former.first_ends(ends - 1) > fired
        if (is_in_any & ~is_open & is_unshown).any():
            raise self._refused("what the old windows have not shown yet is of new windows that are over by now")

    def _refused(self, reason: str) -> StateMigrationError:
        return cannot_move(self.context, reason)


def cannot_move(context: OperatorContext, reason: str) -> StateMigrationError:
    """The error for contents of windows that do not fit into the new ones."""
    return StateMigrationError(
        f"what windows hold cannot move into windows of another shape: {reason}. Choose windows that consist of whole "
        f"old ones, or have it dropped (execution.state-recovery.changed-windows: {context.uid}=drop)"
    )


def count_dropped(operator: Operator, windows: int) -> None:
    """Count, and log, how many windows of keys were dropped that keep what they hold as state of keys."""
    if windows:
        operator.count(ROWS_DROPPED, windows)
        logger.warning(
            "operator %r (uid %s): %d windows of another shape are dropped for good, as was asked for",
            operator.context.name,
            operator.context.uid,
            windows,
        )


def _shape_of(meta: dict[str, Any]) -> dict[str, Any]:
    return {name: meta.get(name) for name in (*_SHAPE, PANE)}


class BootstrapWindowOperator(Operator):
    """Gives an operator with windows its records, but neither event time nor the end of its input.

    A trigger that looks at elements may have windows fire all the same.

    Args:
        operator: the operator.
    """

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self._operator = operator
        self.counters = operator.counters
        self.maker = operator.maker

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self._operator.open(context, output)

    def restore_state(self, context: OperatorContext) -> None:
        self._operator.restore_state(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._operator.begin_epoch(replace(scope, watermark=MIN_WATERMARK))

    def process(self, input_index: int, batch: Batch) -> None:
        self._operator.process(input_index, batch)

    def advance_watermark(self, watermark: int) -> None:
        self._operator.advance_watermark(MIN_WATERMARK)  # has it do what waits for the end of a stretch of records

    def end_epoch(self) -> None:
        self._operator.end_epoch()

    def close(self) -> None:
        self._operator.close()
